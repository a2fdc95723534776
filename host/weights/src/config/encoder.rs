//! What an encoder is: one description for every family.

use std::collections::BTreeMap;

use tidegate_contract::ScoreScale;

use super::{Activation, ModelConfig, Quantization, Rope};

/// How the rows of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first.
    First,
    /// The last, which has seen all others where rows see what is before them.
    Last,
}

/// What stands on top of an encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum EncoderHead {
    /// Rows are pooled and brought to unit length.
    Embedding(Pooling),
    /// Scores as [`EncoderConfig::scoring`] says; a label for each.
    Classification(Vec<String>),
    /// Scores of each row of a text by itself; a label for each.
    TokenClassification(Vec<String>),
    /// Scores as [`EncoderHead::Classification`], but one: how well the second text of a pair answers the first (a reranker).
    Relevance(ScoreScale),
}

impl EncoderHead {
    /// Scores that it makes, if it makes any.
    #[must_use]
    pub fn scores(&self) -> Option<usize> {
        match self {
            EncoderHead::Embedding(_) => None,
            EncoderHead::Classification(labels) | EncoderHead::TokenClassification(labels) => {
                Some(labels.len())
            }
            EncoderHead::Relevance(_) => Some(1),
        }
    }

    /// Whether it makes scores of each row of a text, and not of the text.
    #[must_use]
    pub fn is_of_tokens(&self) -> bool {
        matches!(self, EncoderHead::TokenClassification(_))
    }

    /// The labels of its scores; none where there are none, or they have no names.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        match self {
            EncoderHead::Classification(labels) | EncoderHead::TokenClassification(labels) => {
                labels
            }
            EncoderHead::Embedding(_) | EncoderHead::Relevance(_) => &[],
        }
    }
}

/// The function in a head that makes scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadActivation {
    /// tanh (BERT, RoBERTa).
    Tanh,
    /// What is above 0 (DistilBERT).
    Relu,
    /// One that feed-forward layers have (ModernBERT).
    Of(Activation),
}

/// What a head does to the rows of a text before its linear layer with a bias makes scores of them: they are pooled, where
/// the scores are not those of tokens, and go through a dense layer, an activation and perhaps a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoring {
    /// How rows become one, where they do.
    pub pooling: Pooling,
    /// Whether the dense layer has a bias.
    pub bias: bool,
    /// What follows it.
    pub activation: HeadActivation,
    /// Whether a LayerNorm follows that.
    pub norm: bool,
}

/// What may stand before the texts that a model makes vectors of: `prompts` of sentence-transformers, which the text's use
/// chooses from (queries, documents).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPrompts {
    /// Each by its name.
    pub named: BTreeMap<String, String>,
    /// The name of that which stands before a text where nothing is said, if one does.
    pub usual: Option<String>,
    /// Whether the rows of a prompt are no part of what is pooled (`include_prompt` false, as of INSTRUCTOR), which is not done here: no
    /// prompt may stand before texts then, but where the last row alone is the vector.
    pub left_out: bool,
}

impl TextPrompts {
    /// None.
    pub const NONE: TextPrompts = TextPrompts {
        named: BTreeMap::new(),
        usual: None,
        left_out: false,
    };

    /// What stands before a text: the prompt of this name; the usual one, or nothing, without a name; nothing if the name is
    /// empty. None where no prompt has the name.
    #[must_use]
    pub fn get(&self, name: Option<&str>) -> Option<&str> {
        match name.or(self.usual.as_deref()) {
            None | Some("") => Some(""),
            Some(name) => self.named.get(name).map(String::as_str),
        }
    }
}

/// What differs from layer to layer of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderLayer {
    /// Positions to each side, or before it where [`EncoderConfig::causal`], that a row sees beside its own; none is all of them.
    pub reach: Option<usize>,
    /// Which rotary table queries and keys turn by: index into [`EncoderConfig::ropes`]; none does not turn.
    pub rope: Option<usize>,
}

/// Which products and norms of an encoder have biases; what makes scores says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderBiases {
    /// Queries, keys and values.
    pub heads: bool,
    /// The attention output.
    pub output: bool,
    /// Both products of the feed-forward layer.
    pub feed_forward: bool,
    /// Every norm.
    pub norms: bool,
}

/// A validated encoder: what makes a vector or scores of all rows of a text at once.
///
/// `x = norm(word + position + type)`, with the positions, types and the norm that it has. A layer goes
/// `x = norm(x + attention(x))`, `x = norm(x + feed_forward(x))`; or, with [`EncoderConfig::pre_norm`],
/// `x += attention(norm(x))`, `x += feed_forward(norm(x))`, where a norm follows the last layer, and the first layer has none
/// before its attention if words had one. `feed_forward(x)` is `down(activation(up(x)))`, or `down(activation(gate(x)) * up(x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// The name in the file.
    pub architecture: String,
    /// Token ids.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub intermediate: usize,
    /// One entry for each layer.
    pub layers: Vec<EncoderLayer>,
    /// Rotary tables.
    pub ropes: Vec<Rope>,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even, at most [`ModelConfig::LARGEST_HEAD`].
    pub head_dim: usize,
    /// Whether a row sees only itself and rows before it, and not those behind it.
    pub causal: bool,
    /// Whether every query and key head is normed before it turns.
    pub head_norms: bool,
    /// Epsilon of every norm.
    pub norm_epsilon: f64,
    /// Whether norms are RMSNorms, and not LayerNorms.
    pub rms_norms: bool,
    /// Whether words are normed before the first layer.
    pub first_norm: bool,
    /// Whether norms stand before attention and feed-forward, and not after their sums.
    pub pre_norm: bool,
    /// Which parts have biases.
    pub biases: EncoderBiases,
    /// In the feed-forward layer.
    pub activation: Activation,
    /// Whether the feed-forward layer has a gate.
    pub gated: bool,
    /// Rows of the table of positions; 0 where positions are not learned.
    pub positions: usize,
    /// Position of a text's first token: 0, or 2 in the RoBERTa family.
    pub first_position: usize,
    /// Rows of the table of token types, of which that of its token is added to every row; 0 where there is none.
    pub types: usize,
    /// Most tokens of a text.
    pub context: usize,
    /// What stands on top.
    pub head: EncoderHead,
    /// What may stand before its texts.
    pub prompts: TextPrompts,
    /// What stands before the linear layer that makes scores, where something does: of tokens it may be all of the head.
    pub scoring: Option<Scoring>,
    /// How `config.json` says the weights are stored.
    pub quantization: Option<Quantization>,
    /// The decoder that it is stored as, where it is one without its head.
    pub decoder: Option<Box<ModelConfig>>,
}

impl EncoderConfig {
    /// Whether a layer has a norm before its attention.
    pub(crate) fn is_normed_before(&self, layer: usize) -> bool {
        self.pre_norm && (layer > 0 || !self.first_norm)
    }

    /// Token types that texts can have: the tokens of a pair are of two, where the model tells them apart.
    #[must_use]
    pub fn token_types(&self) -> usize {
        self.types.clamp(1, 2)
    }

    /// cos and sin of every angle of table `rope`, `[context, width / 2]`, positions first, times the attention factor of its
    /// scaling. Empty if there is no such table.
    #[must_use]
    pub fn rope_table(&self, rope: usize, context: usize) -> Vec<[f64; 2]> {
        let table = self.ropes.get(rope);
        table.map_or_else(Vec::new, |rope| rope.table(context))
    }
}
