//! An operator's answers to a batch, in as many turns as it takes: as a task of a pipeline has them.

use std::time::Instant;

use tidegate_contract::{Operator, OperatorError, Processed};
use tidegate_record::{Batch, BatchBuilder};

/// Has a batch answered; `each` is told of every part, with the records that it is of, in order. Where the time is over
/// between two turns, the rest is not asked for: false.
pub fn answer_all<E: From<OperatorError>>(
    operator: &mut dyn Operator,
    batch: &Batch,
    until: Option<Instant>,
    mut each: impl FnMut(&Batch, Processed) -> Result<(), E>,
) -> Result<bool, E> {
    let mut rest: Option<Batch> = None;
    loop {
        let batch = rest.as_ref().unwrap_or(batch);
        let mut untried = None;
        for processed in operator.process(batch)? {
            if let Processed::Untried { first, .. } = processed {
                untried = Some(first);
            }
            each(batch, processed)?;
        }
        let Some(first) = untried else {
            return Ok(true);
        };
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        let mut builder = BatchBuilder::default();
        for record in batch.view().records().skip(first) {
            // It was in a batch that was larger.
            builder
                .push_record(&record)
                .map_err(|full| OperatorError::Engine(full.to_string()))?;
        }
        rest = Some(builder.finish(batch.view().clock()));
    }
}
