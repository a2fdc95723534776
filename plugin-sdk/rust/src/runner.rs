//! Runs an operator over packed batches. The WebAssembly exports and the test harness both use it.

use std::fmt;

use tidegate_record::{BatchError, BatchView, OutcomesBuilder, RecordRefused};

use crate::config::read_config;
use crate::{Described, Failure, Operator, Outcome, Output, Piece, Record, metrics};

/// An operator that has been configured and answers batches.
pub struct Runner<T> {
    operator: T,
    outputs: Outputs,
}

impl<T: Described> fmt::Debug for Runner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runner({})", T::DESCRIPTION.name)
    }
}

impl<T: Described> Runner<T> {
    /// Reads the configuration (JSON text) and makes the operator.
    pub fn start(config: &str) -> Result<Runner<T>, Failure> {
        let config = read_config::<T::Config>(config)?;
        let outputs = Outputs::of::<T>(&config);
        let operator = T::new(config)?;
        Ok(Runner { operator, outputs })
    }

    /// The operator.
    pub fn operator(&self) -> &T {
        &self.operator
    }

    /// Names of its outputs beside the main one.
    pub fn outputs(&self) -> &[String] {
        &self.outputs.names
    }

    /// Answers a packed batch with packed outcomes, one for each record.
    pub fn process(&mut self, batch: &[u8]) -> Result<Vec<u8>, Failure> {
        // The host has checked the records; to do it again would cost more than a filter does.
        let batch = BatchView::parse_frame(batch).map_err(|error| {
            let code = match error {
                BatchError::Unknown { .. } => "unknown-arena",
                _ => "bad-batch",
            };
            Failure::permanent(code, error.to_string())
        })?;
        // What was measured for a batch that failed counts for no other.
        metrics::take();
        let mut answer = OutcomesBuilder::with_capacity(batch.len());
        for view in batch.records() {
            match self.operator.process(&Record::new(view, &batch)) {
                Outcome::Pass => answer.pass(),
                Outcome::Drop => answer.drop_record(),
                other => write::<T>(&mut answer, other, &self.outputs)?,
            }
            if metrics::is_any() {
                measured::<T>(&mut answer)?;
            }
        }
        Ok(answer.finish())
    }
}

/// Names of the outputs that an operator has under a configuration that has been read.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) names: Vec<String>,
}

impl Outputs {
    pub(crate) fn of<T: Operator>(config: &T::Config) -> Outputs {
        Outputs::named(&T::outputs(config))
    }

    /// Those known without a configuration.
    #[cfg_attr(
        not(target_family = "wasm"),
        allow(dead_code, reason = "`describe` asks for them")
    )]
    pub(crate) fn known<T: Operator>() -> Outputs {
        Outputs::named(&T::Output::all())
    }

    fn named(outputs: &[impl Output]) -> Outputs {
        let mut names: Vec<String> = Vec::with_capacity(outputs.len());
        for output in outputs {
            if !names.iter().any(|name| name == output.name()) {
                names.push(output.name().to_owned());
            }
        }
        Outputs { names }
    }

    /// The number of an output in an answer: 0 for the main one, k for the k-th named one.
    fn number<T: Described>(&self, output: Option<&T::Output>) -> Result<u16, Failure> {
        let Some(output) = output else { return Ok(0) };
        let name = output.name();
        match self.names.iter().position(|known| known == name) {
            Some(index) => Ok(index as u16 + 1),
            None => Err(Failure::permanent(
                "unknown-output",
                format!(
                    "operator {} has no output {name:?}, it describes {:?}",
                    T::DESCRIPTION.name,
                    self.names
                ),
            )),
        }
    }
}

/// Writes down what was measured for the last record.
#[cold]
fn measured<T: Described>(answer: &mut OutcomesBuilder) -> Result<(), Failure> {
    for measured in metrics::take() {
        let record = answer.len() as u32 - 1;
        let metric = T::DESCRIPTION.metric(measured.name)?;
        let labels: Vec<&str> = measured.labels.iter().map(String::as_str).collect();
        answer.sample(record, metric, measured.bits, &labels);
    }
    Ok(())
}

/// Why changes of an outcome cannot be written, where one of them cannot: without it the record would be another.
fn refused<O>(outcome: &Outcome<O>) -> Option<RecordRefused> {
    match outcome {
        Outcome::Replace(changes) | Outcome::Route(_, changes) => changes.patch().refused(),
        Outcome::Split(pieces) => pieces
            .iter()
            .find_map(|piece| piece.changes.patch().refused()),
        _ => None,
    }
}

fn write<T: Described>(
    answer: &mut OutcomesBuilder,
    outcome: Outcome<T::Output>,
    outputs: &Outputs,
) -> Result<(), Failure> {
    if let Some(why) = refused(&outcome) {
        answer.dead_letter(&format!("changes cannot be applied: {why}"));
        return Ok(());
    }
    match outcome {
        Outcome::Pass => answer.pass(),
        Outcome::Drop => answer.drop_record(),
        Outcome::Replace(changes) if changes.is_empty() => answer.pass(),
        Outcome::Replace(changes) => answer.replace(changes.patch()),
        Outcome::Route(output, changes) => {
            answer.route(outputs.number::<T>(Some(&output))?, changes.patch());
        }
        Outcome::Split(pieces) => {
            let limit = tidegate_record::layout::MAX_PIECES as usize;
            if pieces.len() > limit {
                answer.dead_letter(&format!(
                    "split into {} pieces, at most {limit} can be",
                    pieces.len()
                ));
                return Ok(());
            }
            let number = |piece: &Piece<T::Output>| outputs.number::<T>(piece.output.as_ref());
            let numbers = pieces
                .iter()
                .map(number)
                .collect::<Result<Vec<u16>, Failure>>()?;
            answer.split(
                numbers
                    .into_iter()
                    .zip(pieces.iter().map(|piece| piece.changes.patch())),
            );
        }
        Outcome::Retry { after, reason } => {
            answer.retry(after.as_millis().try_into().unwrap_or(u32::MAX), &reason);
        }
        Outcome::DeadLetter { reason } => answer.dead_letter(&reason),
        Outcome::Fail(failure) => return Err(failure),
    }
    Ok(())
}
