//! What an operator is.

use serde::de::DeserializeOwned;
use tidegate_record::Fields;

use crate::{Outcome, Record};

/// An operator with a configuration, and memory of its own if it wants one.
///
/// Annotate the `impl` block with [`macro@crate::operator`]; it is then described and exported. Memory in `self` is lost
/// when the instance is: after a trap, a swap or a restart.
pub trait Operator: Sized {
    /// Its configuration, the `config` table of its stage. Use [`crate::NoConfig`] if it has none.
    type Config: DeserializeOwned;

    /// JSON Schema of its configuration; the pipeline file is checked against it before the operator is started.
    const CONFIG_SCHEMA: &'static str = r#"{"type":"object"}"#;

    /// Makes the operator. An error names the key, the value and what would be right; it is shown to the user.
    fn new(config: Self::Config) -> Result<Self, String>;

    /// Says what becomes of a record.
    fn process(&mut self, record: &Record<'_>) -> Outcome;
}

/// What the host is told about an operator; written by [`macro@crate::operator`].
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Its name, a verb.
    pub name: &'static str,
    /// Its version, semver.
    pub version: &'static str,
    /// The fields it reads; the others are not copied in.
    pub reads: Fields,
    /// Its outputs beside the main one.
    pub outputs: &'static [&'static str],
    /// Whether the text of a panic is written to the host's log, which must then be granted.
    pub log_panics: bool,
}

impl Description {
    /// The names of the fields it reads.
    pub fn read_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let reads = self.reads;
        ["key", "value", "headers", "attributes"]
            .into_iter()
            .filter(move |name| Fields::named(name).is_some_and(|field| reads.contains(field)))
    }

    /// The number of an output in an answer: 0 for the main one, k for the k-th named one.
    pub(crate) fn output(&self, name: Option<&str>) -> Result<u16, String> {
        let Some(name) = name else { return Ok(0) };
        match self.outputs.iter().position(|output| *output == name) {
            Some(index) => Ok(index as u16 + 1),
            None => Err(format!(
                "operator {} has no output {name:?}, it describes {:?}",
                self.name, self.outputs
            )),
        }
    }
}

/// An operator that says what it is; written by [`macro@crate::operator`].
pub trait Described: Operator {
    /// What it is.
    const DESCRIPTION: Description;
}
