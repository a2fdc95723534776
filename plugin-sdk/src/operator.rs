//! What an operator is.

use serde::de::DeserializeOwned;
use tidegate_record::Fields;

use crate::metrics::Declaration;
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
    /// Its metrics.
    pub metrics: &'static [Declaration],
    /// Whether the text of a panic is written to the host's log, which must then be granted.
    pub log_panics: bool,
}

impl Description {
    /// The number of an output in an answer: 0 for the main one, k for the k-th named one.
    pub(crate) fn output(&self, name: Option<&str>) -> Result<u16, Failure> {
        let Some(name) = name else { return Ok(0) };
        match self.outputs.iter().position(|output| *output == name) {
            Some(index) => Ok(index as u16 + 1),
            None => Err(Failure::permanent(
                "unknown-output",
                format!(
                    "operator {} has no output {name:?}, it describes {:?}",
                    self.name, self.outputs
                ),
            )),
        }
    }

    /// The number of a metric in an answer.
    pub(crate) fn metric(&self, name: &str) -> Result<u16, Failure> {
        let found = self.metrics.iter().position(|metric| metric.name == name);
        found.map(|index| index as u16).ok_or_else(|| {
            Failure::permanent(
                "unknown-metric",
                format!(
                    "operator {} measures {name:?}, which is not among its metrics",
                    self.name
                ),
            )
        })
    }
}

/// Whether something failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The same call may succeed later: the records wait and come again.
    Transient,
    /// The same call fails again: records come again in smaller batches, until one fails by itself and is a dead letter.
    Permanent,
    /// Only another configuration helps: the records wait for it.
    BadConfiguration,
}

/// Why an operator cannot answer a batch, or not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether it is for good.
    pub class: FailureClass,
    /// A short name that does not change: `[a-z][a-z0-9-]*`, at most 64 bytes.
    pub code: String,
    /// For people.
    pub message: String,
}

impl Failure {
    /// One that may pass.
    pub fn transient(code: &str, message: impl Into<String>) -> Failure {
        Failure::new(FailureClass::Transient, code, message)
    }

    /// One that comes again.
    pub fn permanent(code: &str, message: impl Into<String>) -> Failure {
        Failure::new(FailureClass::Permanent, code, message)
    }

    /// One of the configuration.
    pub fn bad_configuration(code: &str, message: impl Into<String>) -> Failure {
        Failure::new(FailureClass::BadConfiguration, code, message)
    }

    fn new(class: FailureClass, code: &str, message: impl Into<String>) -> Failure {
        Failure {
            class,
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

/// An operator that says what it is; written by [`macro@crate::operator`].
pub trait Described: Operator {
    /// What it is.
    const DESCRIPTION: Description;
}
