//! Runs an operator over packed batches. The WebAssembly exports and the test harness both use it.

use std::fmt;

use tidegate_record::{BatchView, OutcomesBuilder};

use crate::{Described, Failure, Outcome, Piece, Record, metrics, read_config};

/// An operator that has been configured and answers batches.
pub struct Runner<T> {
    operator: T,
}

impl<T: Described> fmt::Debug for Runner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runner({})", T::DESCRIPTION.name)
    }
}

impl<T: Described> Runner<T> {
    /// Reads the configuration (JSON text) and makes the operator.
    pub fn start(config: &str) -> Result<Runner<T>, Failure> {
        let wrong = |why| Failure::bad_configuration("bad-config", why);
        let operator = T::new(read_config(config).map_err(wrong)?).map_err(wrong)?;
        Ok(Runner { operator })
    }

    /// Answers a packed batch with packed outcomes, one for each record.
    pub fn process(&mut self, batch: &[u8]) -> Result<Vec<u8>, Failure> {
        // The host has checked the records; to do it again would cost more than a filter does.
        let batch = BatchView::parse_frame(batch)
            .map_err(|error| Failure::permanent("bad-batch", error.to_string()))?;
        let now = batch.clock();
        let mut answer = OutcomesBuilder::with_capacity(batch.len());
        for view in batch.records() {
            match self.operator.process(&Record::new(view, now)) {
                Outcome::Pass => answer.pass(),
                Outcome::Drop => answer.drop_record(),
                other => write::<T>(&mut answer, other)?,
            }
            for measured in metrics::take() {
                let record = answer.len() as u32 - 1;
                let metric = T::DESCRIPTION.metric(measured.name)?;
                let labels: Vec<&str> = measured.labels.iter().map(String::as_str).collect();
                answer.sample(record, metric, measured.bits, &labels);
            }
        }
        Ok(answer.finish())
    }
}

fn write<T: Described>(answer: &mut OutcomesBuilder, outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Pass => answer.pass(),
        Outcome::Drop => answer.drop_record(),
        Outcome::Replace(changes) if changes.is_empty() => answer.pass(),
        Outcome::Replace(changes) => answer.replace(changes.patch()),
        Outcome::Route(output, changes) => {
            answer.route(T::DESCRIPTION.output(Some(output))?, changes.patch());
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
            let number = |piece: &Piece| T::DESCRIPTION.output(piece.output);
            let outputs = pieces
                .iter()
                .map(number)
                .collect::<Result<Vec<u16>, Failure>>()?;
            answer.split(
                outputs
                    .into_iter()
                    .zip(pieces.iter().map(|piece| piece.changes.patch())),
            );
        }
        Outcome::Retry { after, reason } => {
            answer.retry(after.as_millis().try_into().unwrap_or(u32::MAX), &reason);
        }
        Outcome::DeadLetter { reason } => answer.dead_letter(&reason),
    }
    Ok(())
}
