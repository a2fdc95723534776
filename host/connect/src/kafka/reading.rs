//! One partition: messages to records.

use tidegate_codec::{Decoder, Input, Malformed, PREVIEW};
use tidegate_contract::{LETTER_HEADERS, Rejected};
use tidegate_record::{Origin, RecordId};

use super::again;
use super::native::Message;
use super::options::KafkaSourceOptions;
use crate::lines::{Gathered, size};

/// One partition that is read here.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) gathered: Gathered,
    /// Bytes that the last batch had: the next will have about as many.
    pub(super) usual: usize,
    pub(super) next: u64,
    pub(super) committed: Option<(u64, bool)>,
    /// Where it ended when it was assigned, if it is read until there.
    pub(super) end: Option<u64>,
    pub(super) at_end: bool,
    pub(super) end_told: bool,
    /// `flow` takes no records for now. They are held until there are too many.
    pub(super) paused: bool,
    /// librdkafka fetches no more for now: it is at its end, or paused for so long that enough is held.
    pub(super) stopped: bool,
}

/// What is held for a paused partition before librdkafka is told to stop. Its pause throws away what it has fetched,
/// so a short one should not come to that.
const HELD_RECORDS: usize = 256;
const HELD_BYTES: usize = 1 << 20;

impl Reading {
    /// Whether no more should be fetched for now.
    pub(super) fn has_enough(&self) -> bool {
        let held = self.gathered.len() >= HELD_RECORDS || self.gathered.bytes() >= HELD_BYTES;
        self.at_end || (self.paused && held)
    }

    /// Takes a message as a record or a rejection; past the end it is left out.
    pub(super) fn accept(
        &mut self,
        message: &Message,
        options: &KafkaSourceOptions,
        decoder: &mut Decoder,
    ) {
        let offset = message.offset().max(0) as u64;
        if self.end.is_some_and(|end| offset + 1 >= end) {
            self.at_end = true;
        }
        if self.end.is_some_and(|end| offset >= end) {
            return;
        }
        self.next = offset + 1;
        if self.gathered.len() == 0 {
            self.gathered = Gathered::with_capacity(self.usual);
        }
        let id = RecordId {
            origin: Origin::Source,
            source: options.source,
            partition: message.partition() as u32,
            offset,
            emit: 0,
        };
        let headers = message.headers();
        let mut again = None;
        if let Some(seal) = &options.letters {
            let headers = headers.as_deref().unwrap_or_default();
            match again::read(message.key(), message.value(), headers) {
                Ok(letter) => {
                    let batch = &mut self.gathered.batch;
                    if let Err(reason) = letter.take(decoder, seal, id, batch) {
                        self.gathered.reject(letter.rejected(offset, reason));
                    }
                    return;
                }
                Err(reason) => again = Some(Malformed { reason }),
            }
        }
        let input = Input {
            id,
            key: message.key(),
            value: message.value(),
            headers: headers.as_deref().unwrap_or_default(),
            event_time: message.millis().and_then(|millis| millis.checked_mul(1000)),
        };
        let value = message.value().unwrap_or_default();
        let max_record = decoder.options().max_record;
        let decoded = if let Some(malformed) = again {
            Err(malformed)
        } else if headers.is_err() {
            Err(Malformed {
                reason: "the name of a header is not UTF-8".into(),
            })
        } else if value.len() > max_record {
            Err(Malformed {
                reason: format!(
                    "value of {} bytes exceeds max-record {}",
                    value.len(),
                    size(max_record)
                ),
            })
        } else {
            decoder.decode(&input, &mut self.gathered.batch)
        };
        if let Err(Malformed { reason }) = decoded {
            let first = |bytes: &[u8]| bytes[..bytes.len().min(PREVIEW)].to_vec();
            self.gathered.reject(Rejected {
                offset,
                reason,
                key: message.key().map(first),
                preview: first(value),
                length: value.len() as u64,
                headers: headers.as_ref().ok().and_then(|headers| kept(headers)),
                event_time: input.event_time,
                private: 0,
            });
        }
    }
}

/// A message's headers, unless they are more than a letter is to have.
fn kept(headers: &[(&str, Option<&[u8]>)]) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let bytes = |(name, value): &(&str, Option<&[u8]>)| name.len() + value.map_or(0, <[u8]>::len);
    let owned =
        |(name, value): &(&str, Option<&[u8]>)| ((*name).to_owned(), value.map(<[u8]>::to_vec));
    let all: usize = headers.iter().map(bytes).sum();
    (all <= LETTER_HEADERS).then(|| headers.iter().map(owned).collect())
}
