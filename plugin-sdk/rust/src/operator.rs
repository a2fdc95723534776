//! What an operator is.

use tidegate_record::Fields;

use crate::metrics::Declaration;
use crate::tokens::BoxedStep;
use crate::{Configuration, Lane, Outcome, Output, Record};

/// An operator.
///
/// Annotate the `impl` block with [`macro@crate::operator`]; it is then described and exported. `Config` and `Output` may
/// be left out there.
///
/// What stands in `self` dies with the instance, and each task of a stage has one of its own. A trap, a deadline that is
/// overrun, a batch that is tried again in pieces, a deployment, a partition that moves and a restart of the host each
/// begin with a new one. So keep there what can be made again from the configuration, or lost, a cache or memory to be
/// used again, and no sums or windows: there is no state yet that is kept beside the records.
pub trait Operator: Sized {
    /// Its configuration, the `config` table of its stage: a type that derives [`macro@crate::Configuration`], or
    /// [`crate::NoConfig`]. Its schema is made from the type, and the host holds the pipeline file against it.
    type Config: Configuration;

    /// Its outputs beside the main one: an enum that derives [`macro@crate::Output`], [`crate::OutputName`] where the
    /// configuration names them, or [`crate::NoOutput`].
    type Output: Output;

    /// Makes the operator. A text is taken as [`FailureClass::BadConfiguration`]; it names the key, the value and what would
    /// be right, and is shown to the user. An operator that cannot start now, but may later, answers with
    /// [`Failure::transient`].
    fn new(config: Self::Config) -> Result<Self, Failure>;

    /// Says what becomes of a record.
    fn process(&mut self, record: &Record<'_>) -> Outcome<Self::Output>;

    /// The outputs that it has under a configuration: by default those known when it is compiled. One that is there twice
    /// counts once.
    fn outputs(config: &Self::Config) -> Vec<Self::Output> {
        let _ = config;
        Self::Output::all()
    }
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
    /// Its metrics.
    pub metrics: &'static [Declaration],
    /// Where the text of a panic goes.
    pub panics: Panics,
    /// Whether it handles tokens: it is [`crate::Tokens`] as well.
    pub handles_tokens: bool,
}

/// Where the text of a panic goes. A panic ends the instance; its text is in the dead letter of the record, and in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panics {
    /// To WASI's standard error, which needs no grant.
    #[default]
    StandardError,
    /// To the host's log, which has to be granted.
    Log,
    /// Nowhere: the operator imports nothing for it, and a trap's backtrace is all there is.
    Trap,
}

impl Description {
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

/// A text says what is wrong with the configuration.
impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::bad_configuration("bad-config", why)
    }
}

/// A text says what is wrong with the configuration.
impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        Failure::from(why.to_owned())
    }
}

/// An operator that says what it is; written by [`macro@crate::operator`].
pub trait Described: Operator {
    /// What it is.
    const DESCRIPTION: Description;

    /// A lane of its handler of tokens, for cases; none if it has none.
    #[doc(hidden)]
    fn open_lane(&self, lane: &Lane<'_>) -> Option<Result<BoxedStep<'_>, Failure>> {
        let _ = lane;
        None
    }
}
