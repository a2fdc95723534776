//! What a model that labels tokens finds in a text.

use serde::{Deserialize, Serialize};

/// How labels of tokens become entities. The names and what they do are those of transformers' token classification
/// pipeline (`aggregation_strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// They do not: each token by itself, with its whole label (`B-PER`).
    None,
    /// Tokens one after another with the same label are one entity, but for one that begins with `B-`.
    #[default]
    Simple,
    /// The same of words, which have the label of their first token.
    First,
    /// The same of words, which have the likeliest label of the mean of their tokens' probabilities.
    Average,
    /// The same of words, which have the label of the token that is surest of its own.
    Max,
}

impl Aggregation {
    /// All, with their names in files.
    pub const ALL: [(&'static str, Aggregation); 5] = [
        ("none", Aggregation::None),
        ("simple", Aggregation::Simple),
        ("first", Aggregation::First),
        ("average", Aggregation::Average),
        ("max", Aggregation::Max),
    ];
}

/// A part of a text with a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// The label, without `B-` and `I-` where tokens were put together.
    pub label: String,
    /// The mean of the probabilities of its tokens or words, 0 to 1.
    pub score: f32,
    /// Unicode characters (code points) of the text before it.
    pub start: u32,
    /// The same up to its end.
    pub end: u32,
    /// What stands there.
    pub text: String,
}
