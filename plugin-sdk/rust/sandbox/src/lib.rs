//! Runs an operator in tests as the host does: compiled to WebAssembly, in the crate that runs it in production, with
//! limits on time and memory, and with bisection of a batch in which a record fails.
//!
//! [`tidegate_sdk::testing::Harness`] runs the operator's Rust natively, in no time; this runs the built component, and
//! shows what only the component does: a trap, an import that is not granted, a deadline, memory without end.
//!
//! ```no_run
//! use tidegate_sdk_sandbox::{Came, Options, Sandbox};
//! use tidegate_sdk::testing::TestRecord;
//!
//! let component = tidegate_sdk_sandbox::build(env!("CARGO_MANIFEST_DIR"))?;
//! let mut operator = Sandbox::start(&component, Options::config(r#"{"longest": 80}"#))?;
//! for came in operator.run(&[TestRecord::of("one"), TestRecord::of("two")])? {
//!     assert!(matches!(came, Came::Answer(answer) if answer.is_pass()));
//! }
//! # Ok::<(), tidegate_sdk_sandbox::SandboxError>(())
//! ```
//!
//! It knows nothing of operators' types: an operator in another language runs in it as well.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod build;
mod tokens;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_contract::{Operator, OperatorError, Processed, Slot};
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, SlotOptions};
use tidegate_record::{BatchBuilder, BatchView, OutcomesView, RecordRefused};
use tidegate_sdk::Timestamp;
use tidegate_sdk::testing::{Answer, TestRecord};

pub use build::build;
pub use tidegate_operator::{Grants, Limits};
pub use tokens::SandboxTokens;

/// What a pipeline file says of an operator.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its configuration, JSON text.
    pub config: String,
    /// What it may import; nothing by default.
    pub grants: Grants,
    /// What it may use. By default that of the host, with deadlines that a busy machine does not miss.
    pub limits: Limits,
}

impl Options {
    /// With this configuration, JSON text or a `serde_json::json!` value, and all else by default.
    pub fn config(config: impl ToString) -> Options {
        let patient = Duration::from_secs(60);
        Options {
            config: config.to_string(),
            grants: Grants::default(),
            limits: Limits {
                deadline: patient,
                init_deadline: patient,
                ..Limits::default()
            },
        }
    }
}

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The operator answered for it.
    Answer(Answer),
    /// The operator failed of it, also when it was given alone: it would be a dead letter.
    Poison {
        /// Trap, deadline, memory, bad answer: a sentence with value and limit.
        reason: String,
        /// The backtrace in the component, if it failed there.
        backtrace: Option<String>,
    },
}

impl Came {
    /// What the operator answered.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn answer(&self) -> &Answer {
        match self {
            Came::Answer(answer) => answer,
            Came::Poison { reason, .. } => panic!("the operator failed of the record: {reason}"),
        }
    }
}

/// Why a component does not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum SandboxError {
    /// Its file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It cannot be built.
    Build {
        /// The directory of its crate.
        package: PathBuf,
        /// What went wrong, and what the compiler said.
        why: String,
    },
    /// It cannot be compiled or started, or fails the whole call.
    Operator(OperatorError),
    /// The records are too large for a batch.
    Batch(RecordRefused),
    /// An answer that cannot be applied to its record.
    Answer(String),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SandboxError::Read { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            SandboxError::Build { package, why } => {
                write!(f, "cannot build {}: {why}", package.display())
            }
            SandboxError::Operator(error) => error.fmt(f),
            SandboxError::Batch(error) => error.fmt(f),
            SandboxError::Answer(why) => write!(f, "the answer does not apply: {why}"),
        }
    }
}

impl std::error::Error for SandboxError {}

impl From<OperatorError> for SandboxError {
    fn from(error: OperatorError) -> SandboxError {
        SandboxError::Operator(error)
    }
}

impl From<RecordRefused> for SandboxError {
    fn from(error: RecordRefused) -> SandboxError {
        SandboxError::Batch(error)
    }
}

/// An operator's component under test.
pub struct Sandbox {
    slot: ComponentSlot,
    operator: Box<dyn Operator>,
    clock: Timestamp,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("operator", self.operator.version())
            .field("clock", &self.clock)
            .finish()
    }
}

impl Sandbox {
    /// Compiles and starts the component in this file, a component or a module built with the SDK.
    pub fn start(component: &Path, options: Options) -> Result<Sandbox, SandboxError> {
        let bytes = std::fs::read(component).map_err(|error| SandboxError::Read {
            path: component.to_owned(),
            error,
        })?;
        let engine = Engine::new(EngineOptions::default())?;
        let slot = SlotOptions {
            config: options.config,
            grants: options.grants,
            limits: options.limits,
            ..SlotOptions::new("test")
        };
        let label = component.display().to_string();
        let slot = ComponentSlot::new(&engine, slot, &bytes, &label)?;
        let (_, operator) = slot.instance()?;
        Ok(Sandbox {
            slot,
            operator,
            clock: Timestamp::from_secs(1_700_000_000),
        })
    }

    /// Sets the clock that the next batches carry.
    pub fn set_clock(&mut self, clock: Timestamp) {
        self.clock = clock;
    }

    /// Names of the outputs that it describes, beside the main one.
    pub fn outputs(&self) -> Vec<String> {
        self.operator.version().outputs.clone()
    }

    /// The JSON Schema of its configuration, as text.
    pub fn config_schema(&self) -> String {
        self.slot.config_schema()
    }

    /// Instances that were lost to traps, deadlines, memory and bad answers since it was started.
    pub fn lost_instances(&self) -> u64 {
        self.slot.stats().instances_lost
    }

    /// Its handler of tokens, in an instance of its own.
    pub fn tokens(&self) -> Result<SandboxTokens, SandboxError> {
        Ok(SandboxTokens::new(self.slot.tokens()?.handler))
    }

    /// Runs records as one batch, in as many calls as it takes, and says what became of each. An error is a failure of the
    /// whole call, after which the host lets all of its records wait.
    pub fn run(&mut self, records: &[TestRecord]) -> Result<Vec<Came>, SandboxError> {
        let mut came = Vec::with_capacity(records.len());
        // What has not had its turn comes again, as in a pipeline.
        while came.len() < records.len() {
            let before = came.len();
            let mut builder = BatchBuilder::default();
            for record in &records[before..] {
                record.push(&mut builder)?;
            }
            let batch = builder.finish(self.clock.as_micros());
            for processed in self.operator.process(&batch)? {
                self.take(&batch.view(), processed, &mut came)?;
            }
            if came.len() == before {
                let why = format!("no outcome for {} records", records.len() - before);
                return Err(SandboxError::Answer(why));
            }
        }
        Ok(came)
    }

    fn take(
        &self,
        batch: &BatchView<'_>,
        processed: Processed,
        came: &mut Vec<Came>,
    ) -> Result<(), SandboxError> {
        match processed {
            Processed::Answer {
                first,
                count,
                outcomes,
                ..
            } => {
                let outputs = &self.operator.version().outputs;
                let view = OutcomesView::parse(&outcomes, count, outputs.len() as u16)
                    .map_err(|error| SandboxError::Answer(error.to_string()))?;
                for (record, outcome) in batch.records().skip(first).zip(view.iter()) {
                    let answer =
                        Answer::of(&record, outcome, outputs).map_err(SandboxError::Answer)?;
                    came.push(Came::Answer(answer));
                }
            }
            Processed::Poison(cause) => came.push(Came::Poison {
                reason: cause.reason,
                backtrace: cause.backtrace,
            }),
            Processed::Untried { .. } => {}
        }
        Ok(())
    }
}
