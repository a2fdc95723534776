//! What is wrong with a running host, as it tells everybody who looks: the page, `tidegate top` and `tidegate status`.

use serde::{Deserialize, Serialize};

/// Most troubles that are told; of more the last says how many there are.
pub const TROUBLES: usize = 32;

/// Something that a person should look at now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleReport {
    /// How bad it is.
    pub tone: Tone,
    /// What it is: a sentence without its end, of one line.
    pub text: String,
    /// What of the host it is about.
    #[serde(rename = "where")]
    pub place: TroublePlace,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// Something does not work.
    Bad,
    /// Something is held up, or will pass.
    Warn,
}

/// A part of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroublePlace {
    /// What kind of part it is.
    pub kind: PlaceKind,
    /// Its name; empty of what there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// What kind of part a trouble is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceKind {
    /// All of it.
    Host,
    /// A stage, or the slot of one.
    Stage,
    /// A model, here or on another server.
    Model,
    /// A source.
    Source,
    /// The cuts.
    Cuts,
}
