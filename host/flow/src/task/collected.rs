//! What an operator makes of a batch, on its way out: by output, in batches again.

use tidegate_record::layout::{BATCH_HEADER, MAX_ARENA};
use tidegate_record::{
    ArenaFull, BatchBuilder, Emission, Outcome, Patch, RecordRefused, RecordView, child_emit,
};
use tidegate_telemetry::plain;

/// What becomes of a record beside its emissions.
pub(super) enum Fate<'a> {
    /// It went on, or was dropped.
    Gone,
    /// It must come again.
    Retry { delay_ms: u32, reason: &'a str },
    /// It is a dead letter, for this reason.
    Dead(String),
}

/// Bytes that the pieces of one record may have in the host, beside twice the record: they repeat what their patches do
/// not mention, so a small answer can ask for much.
const MAX_EXPANSION: usize = 64 << 20;

/// Most bytes of an operator's reason that are kept; the others are counted.
pub(super) const REASON_BYTES: usize = 4096;

/// Records on their way out of an operator, by output, in batches no larger than those of the pipeline.
pub(super) struct Collected {
    open: Vec<BatchBuilder>,
    full: Vec<(usize, BatchBuilder)>,
    batch: usize,
    batch_bytes: usize,
    /// Records, and bytes, of all.
    pub records: u64,
    pub bytes: usize,
    pub dropped: u64,
    pub split: u64,
}

impl Collected {
    pub(super) fn new(outputs: usize, batch: usize, batch_bytes: usize) -> Collected {
        Collected {
            open: (0..outputs).map(|_| BatchBuilder::default()).collect(),
            full: Vec::new(),
            batch,
            batch_bytes,
            records: 0,
            bytes: 0,
            dropped: 0,
            split: 0,
        }
    }

    /// The batches, those of one output in their order.
    pub(super) fn finish(mut self) -> Vec<(usize, BatchBuilder)> {
        let open = self.open.into_iter().enumerate();
        self.full
            .extend(open.filter(|(_, builder)| !builder.is_empty()));
        self.full
    }

    /// Adds a record that is no larger than an arena, changed or not.
    fn push(
        &mut self,
        output: u16,
        record: &RecordView<'_>,
        patch: Option<(&Patch<'_>, u64)>,
    ) -> Result<(), RecordRefused> {
        let output = usize::from(output);
        let bytes = record.size() + patch.map_or(0, |(patch, _)| patch.size());
        let builder = &mut self.open[output];
        let over = builder.len() >= self.batch || builder.bytes() + bytes > self.batch_bytes;
        if over && !builder.is_empty() {
            self.full.push((output, std::mem::take(builder)));
        }
        match patch {
            None => builder.push_record(record)?,
            Some((patch, emit)) => builder.push_patched(record, patch, emit)?,
        }
        self.records += 1;
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn take<'a>(&mut self, record: &RecordView<'_>, outcome: &Outcome<'a>) -> Fate<'a> {
        let emit = record.id().emit;
        let pushed = match outcome {
            Outcome::Pass => self.push(0, record, None),
            Outcome::Replace(patch) => self.push(0, record, Some((patch, emit))),
            Outcome::Route(Emission { output, patch }) => {
                self.push(*output, record, Some((patch, emit)))
            }
            Outcome::Split(pieces) if !pieces.is_empty() => return self.split(record, pieces),
            Outcome::Drop | Outcome::Split(_) => {
                self.dropped += 1;
                Ok(())
            }
            Outcome::Retry { delay_ms, reason } => {
                return Fate::Retry {
                    delay_ms: *delay_ms,
                    reason,
                };
            }
            Outcome::DeadLetter { reason } => {
                return Fate::Dead(plain(reason, REASON_BYTES).into_owned());
            }
        };
        match pushed {
            Ok(()) => Fate::Gone,
            Err(full) => Fate::Dead(format!("operator's answer: {full}")),
        }
    }

    /// All pieces of a record, or none of them.
    fn split<'a>(&mut self, record: &RecordView<'_>, pieces: &[Emission<'a>]) -> Fate<'a> {
        let (count, size) = (pieces.len(), record.size());
        if count.saturating_mul(size) > MAX_EXPANSION.saturating_add(2 * size) {
            return Fate::Dead(format!(
                "operator's answer: {count} copies of a record of {size} bytes exceed what a record may grow to \
                 ({MAX_EXPANSION} bytes and twice the record)",
            ));
        }
        let largest = pieces.iter().map(|piece| piece.patch.size()).max();
        let needed = size + largest.unwrap_or(0) + BATCH_HEADER + 8;
        if needed > MAX_ARENA {
            return Fate::Dead(format!("operator's answer: {}", ArenaFull { needed }));
        }
        let emit = record.id().emit;
        for (at, piece) in pieces.iter().enumerate() {
            let child = child_emit(emit, at as u32);
            let pushed = self.push(piece.output, record, Some((&piece.patch, child)));
            if let Err(full) = pushed {
                // The record itself ends as a dead letter, beside the pieces before.
                self.split += at as u64;
                return Fate::Dead(format!("operator's answer: {full}"));
            }
        }
        self.split += count as u64 - 1;
        Fate::Gone
    }
}

#[cfg(test)]
mod tests {
    use tidegate_record::NewRecord;

    use super::*;

    #[test]
    fn a_split_that_would_fill_the_memory_is_a_dead_letter() {
        let value = vec![b'x'; 1 << 20];
        let mut builder = BatchBuilder::default();
        let record = NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
        let batch = builder.finish(0);
        let record = batch.view().get(0).unwrap();
        let piece = Emission {
            output: 0,
            patch: Patch::NOTHING,
        };
        let mut collected = Collected::new(1, 256, 4 << 20);
        let fate = collected.take(&record, &Outcome::Split(vec![piece; 4095]));
        assert!(
            matches!(&fate, Fate::Dead(why) if why.contains("4095 copies of a record of ")),
            "all or none"
        );
        assert_eq!(collected.records, 0);
        let fate = collected.take(&record, &Outcome::Split(vec![piece; 60]));
        assert!(matches!(fate, Fate::Gone));
        assert_eq!(collected.records, 60);
    }
}
