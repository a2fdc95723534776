//! One module for each command.

pub(crate) mod audit;
pub(crate) mod bench;
mod beside;
pub(crate) mod check;
pub(crate) mod component;
pub(crate) mod deploy;
pub(crate) mod dev;
pub(crate) mod health;
mod host;
pub(crate) mod interrupt;
pub(crate) mod letters;
pub(crate) mod logs;
pub(crate) mod model;
mod numbers;
pub(crate) mod page;
pub(crate) mod project;
pub(crate) mod run;
mod signals;
pub(crate) mod status;
mod stopping;
pub(crate) mod test;
pub(crate) mod tokens;
pub(crate) mod top;
mod try_out;
mod way_on;

use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{OperatorError, Slot as _};
use tidegate_control::config::{Mistake, Mistakes, Pipeline, check_outputs, load};
use tidegate_operator::ComponentSlot;
use tidegate_state::StateDirectory;
use tidegate_trial::refuses_configuration;

use crate::exit::Failure;
use crate::printing::{is_read, print, print_json};
use crate::wire::kafka;

/// Reads a pipeline file; every mistake in it ends with exit code 2.
fn read_pipeline(path: &Path) -> Result<Pipeline, Failure> {
    let wrong = |mistakes: Mistakes| Failure::Usage(mistakes.to_string());
    let pipeline = load(path).map_err(wrong)?;
    kafka::check_properties(&pipeline).map_err(wrong)?;
    Ok(pipeline)
}

/// Fails with every mistake, in the order of the file.
fn none_is_wrong(mut mistakes: Vec<Mistake>) -> Result<(), Failure> {
    if mistakes.is_empty() {
        return Ok(());
    }
    mistakes.sort_by_key(|mistake| {
        let at = mistake.position.as_ref();
        at.map(|at| (at.line, at.column))
    });
    let warnings = Vec::new();
    let mistakes = Mistakes { mistakes, warnings };
    Err(Failure::Usage(mistakes.to_string()))
}

/// The state directory may be missing; one that is not its own is a mistake of the file.
fn check_state(pipeline: &Pipeline) -> Result<(), Failure> {
    StateDirectory::inspect(&pipeline.state).map_err(Failure::usage)
}

/// What may be run but is probably not meant: in the file, and in how it takes what its components give.
fn warnings(pipeline: &Pipeline, slots: &[Arc<ComponentSlot>]) -> Result<Vec<String>, Failure> {
    let mut warnings: Vec<String> = pipeline.warnings.iter().map(ToString::to_string).collect();
    warnings.extend(crate::wire::memory::warning(pipeline, run::tasks(pipeline)));
    for slot in slots {
        let Some(stage) = pipeline.stage(slot.name()) else {
            continue;
        };
        let found = check_outputs(pipeline, stage, &slot.version().outputs)
            .map_err(|mistakes| Failure::Usage(mistakes.to_string()))?;
        warnings.extend(found.iter().map(ToString::to_string));
    }
    Ok(warnings)
}

/// Why an operator does not run that is in no slot; a configuration that it refuses is the person's to mend.
fn without_slot(error: OperatorError) -> Failure {
    match &error {
        OperatorError::Unfit { component, why } => {
            Failure::usage(format_args!("{component}: {why}"))
        }
        other if refuses_configuration(other) => Failure::usage(other),
        _ => error.into(),
    }
}
