//! Text input of one partition: bytes in, batches and rejections out. Shared by files and standard input.

use tidegate_codec::{
    Cutter, Decoder, DecoderOptions, Format, Input, Malformed, OptionError, Piece,
};
use tidegate_contract::{Partition, Rejected};
use tidegate_record::layout::ENTRY;
use tidegate_record::{BatchBuilder, RecordId};

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
    /// Bytes of the rejections' previews.
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

    fn bytes(&self) -> usize {
        self.batch.bytes() + self.held
    }

    fn reject(&mut self, rejected: Rejected) {
        self.held += rejected.preview.len() + rejected.reason.len();
        self.rejected.push(rejected);
    }
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
        match self.cutter.cut(ended) {
            None => Ok(false),
            Some(Piece::Whole { bytes, .. }) => {
                let row = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
                self.decoder.header(row)?;
                self.awaits_header = false;
                Ok(true)
            }
            Some(Piece::TooLong { length, .. } | Piece::Unclosed { length, .. }) => {
                Err(Malformed {
                    reason: format!(
                        "header row of {length} bytes is too long or has an open quote"
                    ),
                })
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
                        "line of {length} bytes exceeds max_record {}",
                        size(max_record)
                    );
                    into.reject(Rejected {
                        offset,
                        reason,
                        preview,
                        length,
                    });
                    continue;
                }
                Some(Piece::Unclosed {
                    offset,
                    preview,
                    length,
                }) => {
                    let reason = format!(
                        "quoted field is not closed within max_record {} or the end of the input",
                        size(max_record)
                    );
                    into.reject(Rejected {
                        offset,
                        reason,
                        preview,
                        length,
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
            let input = Input {
                id: RecordId {
                    source: self.partition.source,
                    partition: self.partition.number,
                    offset,
                    emit: 0,
                },
                value: Some(value),
                ..Input::default()
            };
            let decoded = if value.is_empty() {
                Err(Malformed {
                    reason: "empty line".into(),
                })
            } else {
                self.decoder.decode(&input, &mut into.batch)
            };
            if let Err(Malformed { reason }) = decoded {
                into.reject(Rejected {
                    offset,
                    reason,
                    preview: line[..line.len().min(tidegate_codec::PREVIEW)].to_vec(),
                    length: line.len() as u64,
                });
            }
        }
        Stopped::Full
    }
}

/// A size as it is written in a pipeline file.
pub(crate) fn size(bytes: usize) -> String {
    const UNITS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes % unit == 0)
    {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}
