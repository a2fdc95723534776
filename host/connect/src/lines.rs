//! Text input of one partition: bytes in, batches and rejections out. Shared by files and standard input.

use tidegate_codec::{
    Cutter, Decoder, DecoderOptions, Format, Input, Malformed, OptionError, Piece,
};
use tidegate_contract::{Partition, Rejected};
use tidegate_record::layout::ENTRY;
use tidegate_record::{BatchBuilder, Origin, RecordId};

/// A byte order mark at the start of the input is no part of it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts and decodes.
#[derive(Debug)]
pub(crate) struct Lines {
    partition: Partition,
    decoder: Decoder,
    pub(crate) cutter: Cutter,
    /// CSV only: the header row has not come yet.
    awaits_header: bool,
}

/// A batch in the making.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) batch: BatchBuilder,
    pub(crate) rejected: Vec<Rejected>,
    /// Bytes of the rejections' keys and previews.
    held: usize,
}

impl Gathered {
    pub(crate) fn with_capacity(bytes: usize) -> Gathered {
        Gathered {
            batch: BatchBuilder::new(Vec::with_capacity(bytes)),
            ..Gathered::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len() + self.rejected.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.batch.bytes() + self.held
    }

    /// Takes what fits these bounds from the front, and at least one piece. Also tells the offset at which the rest
    /// begins, if there is one.
    pub(crate) fn take(&mut self, records: usize, bytes: usize) -> (Gathered, Option<u64>) {
        let whole = std::mem::take(self);
        if whole.len() <= records && whole.bytes() <= bytes {
            return (whole, None);
        }
        let (mut first, mut rest_from) = (Gathered::default(), None);
        let batch = whole.batch.finish(0);
        let mut rejected = whole.rejected.into_iter().peekable();
        for record in batch.view().records() {
            let offset = record.id().offset;
            while let Some(earlier) = rejected.next_if(|rejected| rejected.offset < offset) {
                let size = held(&earlier);
                let part = first.part_for(
                    &mut *self,
                    &mut rest_from,
                    earlier.offset,
                    size,
                    (records, bytes),
                );
                part.reject(earlier);
            }
            let size =
                record.value().map_or(0, <[u8]>::len) + record.key().map_or(0, <[u8]>::len) + ENTRY;
            let part = first.part_for(&mut *self, &mut rest_from, offset, size, (records, bytes));
            // A part of a batch is no larger than the batch was.
            if let Err(full) = part.batch.push_record(&record) {
                let reason = full.to_string();
                part.reject(Rejected {
                    offset,
                    reason,
                    key: None,
                    preview: Vec::new(),
                    length: 0,
                    headers: Some(Vec::new()),
                    event_time: None,
                    private: 0,
                });
            }
        }
        for later in rejected {
            let size = held(&later);
            first
                .part_for(
                    &mut *self,
                    &mut rest_from,
                    later.offset,
                    size,
                    (records, bytes),
                )
                .reject(later);
        }
        (first, rest_from)
    }

    /// This part if there is room and nothing went to the other one yet.
    fn part_for<'a>(
        &'a mut self,
        rest: &'a mut Gathered,
        rest_from: &mut Option<u64>,
        offset: u64,
        size: usize,
        (records, bytes): (usize, usize),
    ) -> &'a mut Gathered {
        let fits = self.len() == 0 || (self.len() < records && self.bytes() + size <= bytes);
        if rest_from.is_none() && fits {
            return self;
        }
        rest_from.get_or_insert(offset);
        rest
    }

    pub(crate) fn reject(&mut self, rejected: Rejected) {
        self.held += held(&rejected) + rejected.reason.len();
        self.rejected.push(rejected);
    }
}

/// Bytes of the input that a rejection has with it.
fn held(rejected: &Rejected) -> usize {
    rejected.preview.len() + rejected.key.as_ref().map_or(0, Vec::len)
}

/// Why gathering stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The batch is full.
    Full,
    /// There is no whole line left.
    NeedsInput,
}

impl Lines {
    pub(crate) fn new(partition: Partition, options: DecoderOptions) -> Result<Lines, OptionError> {
        let cutter = Cutter::new(options.rule(), options.max_record, 0);
        let awaits_header = options.format == Format::Csv;
        Ok(Lines {
            partition,
            decoder: Decoder::new(options)?,
            cutter,
            awaits_header,
        })
    }

    pub(crate) fn awaits_header(&self) -> bool {
        self.awaits_header
    }

    /// Takes the header row if it is awaited and there; true once it is no longer awaited.
    pub(crate) fn take_header(&mut self, ended: bool) -> Result<bool, Malformed> {
        if !self.awaits_header {
            return Ok(true);
        }
        loop {
            match self.cutter.cut(ended) {
                None => return Ok(false),
                Some(Piece::Whole { bytes, .. }) => {
                    let row = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
                    if is_blank(Format::Csv, row) {
                        continue;
                    }
                    self.decoder.header(row)?;
                    self.awaits_header = false;
                    return Ok(true);
                }
                Some(Piece::TooLong { length, .. } | Piece::Unclosed { length, .. }) => {
                    return Err(Malformed {
                        reason: format!(
                            "header row of {length} bytes is too long or has an open quote"
                        ),
                    });
                }
            }
        }
    }

    /// Adds lines to the batch until it is full or the bytes at hand are used up. The header row must have been taken.
    pub(crate) fn gather(
        &mut self,
        into: &mut Gathered,
        records: usize,
        bytes: usize,
        ended: bool,
    ) -> Stopped {
        let options = self.decoder.options();
        let (format, max_record) = (options.format, options.max_record);
        while into.len() < records.max(1) && (into.len() == 0 || into.bytes() < bytes) {
            let (offset, line) = match self.cutter.cut(ended) {
                None => return Stopped::NeedsInput,
                Some(Piece::Whole { offset, bytes }) => (offset, bytes),
                Some(Piece::TooLong {
                    offset,
                    preview,
                    length,
                }) => {
                    let reason = format!(
                        "line of {length} bytes exceeds max-record {}",
                        size(max_record)
                    );
                    into.reject(Rejected {
                        offset,
                        reason,
                        key: None,
                        preview,
                        length,
                        headers: Some(Vec::new()),
                        event_time: None,
                        private: 0,
                    });
                    continue;
                }
                Some(Piece::Unclosed {
                    offset,
                    preview,
                    length,
                }) => {
                    let reason = format!(
                        "quoted field is not closed within max-record {} or the end of the input",
                        size(max_record)
                    );
                    into.reject(Rejected {
                        offset,
                        reason,
                        key: None,
                        preview,
                        length,
                        headers: Some(Vec::new()),
                        event_time: None,
                        private: 0,
                    });
                    continue;
                }
            };
            if into.len() > 0 && into.bytes() + line.len() + ENTRY > bytes {
                self.cutter.put_back();
                return Stopped::Full;
            }
            let value = match line.strip_prefix(BYTE_ORDER_MARK) {
                Some(rest) if offset == 0 && format != Format::Raw => rest,
                _ => line,
            };
            if is_blank(format, value) {
                continue;
            }
            let input = Input {
                id: RecordId {
                    origin: Origin::Source,
                    source: self.partition.source,
                    partition: self.partition.number,
                    offset,
                    emit: 0,
                },
                value: Some(value),
                ..Input::default()
            };
            if let Err(Malformed { reason }) = self.decoder.decode(&input, &mut into.batch) {
                into.reject(Rejected {
                    offset,
                    reason,
                    key: None,
                    preview: line[..line.len().min(tidegate_codec::PREVIEW)].to_vec(),
                    length: line.len() as u64,
                    headers: Some(Vec::new()),
                    event_time: None,
                    private: 0,
                });
            }
        }
        Stopped::Full
    }
}

/// Whether a line says nothing and stands for nothing, as the empty one at the end of many files does. A raw line is
/// its bytes; a CSV row of spaces is a field of spaces.
fn is_blank(format: Format, line: &[u8]) -> bool {
    match format {
        Format::Json => line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')),
        Format::Csv => line.is_empty(),
        Format::Raw => false,
    }
}

/// A size as it is written in a pipeline file.
pub(crate) fn size(bytes: usize) -> String {
    const UNITS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use tidegate_record::NewRecord;

    use super::*;

    /// Pieces at these offsets; every third is a rejection.
    fn gathered(count: u64) -> Gathered {
        let mut gathered = Gathered::default();
        for offset in 0..count {
            if offset % 3 == 1 {
                gathered.reject(Rejected {
                    offset,
                    reason: "no".into(),
                    key: None,
                    preview: vec![b'x'; 100],
                    length: 100,
                    headers: Some(Vec::new()),
                    event_time: None,
                    private: 0,
                });
            } else {
                let id = RecordId {
                    offset,
                    ..RecordId::default()
                };
                let record = NewRecord {
                    id,
                    value: Some(&[b'y'; 100]),
                    ..NewRecord::default()
                };
                gathered.batch.push(&record).unwrap();
            }
        }
        gathered
    }

    fn offsets(gathered: Gathered) -> Vec<u64> {
        let batch = gathered.batch.finish(0);
        let records = batch.view().records().map(|record| record.id().offset);
        let rejected = gathered.rejected.iter().map(|rejected| rejected.offset);
        let mut offsets: Vec<u64> = records.chain(rejected).collect();
        offsets.sort_unstable();
        offsets
    }

    #[test]
    fn a_batch_taken_in_parts_stays_in_order_and_whole() {
        for (records, bytes) in [
            (1, 1 << 20),
            (4, 1 << 20),
            (100, 500),
            (1, 1),
            (100, 1 << 20),
        ] {
            let mut left = gathered(20);
            let mut expected = 0;
            while left.len() > 0 {
                let (part, rest_from) = left.take(records, bytes);
                let part = offsets(part);
                assert!(part.len() <= records && !part.is_empty());
                assert_eq!(
                    part,
                    (expected..expected + part.len() as u64).collect::<Vec<_>>()
                );
                expected += part.len() as u64;
                assert_eq!(rest_from.unwrap_or(20), expected);
                assert_eq!(rest_from.is_none(), left.len() == 0);
            }
            assert_eq!(expected, 20);
        }
    }
}
