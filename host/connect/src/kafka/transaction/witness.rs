//! Whether a cut holds whose commit was not answered.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaResult;
use tidegate_contract::{EntryCipher, Mark};

use super::super::assignment::metadata_of;
use super::super::source::ASK;
use super::super::{Trouble, is_transient};
use super::courier::{GroupOffsets, PositionEntry};
use super::outbox::Destination;
use super::restore::{Reader, Span};

/// Asks the brokers what they have of a cut: its number stands beside every offset that it committed.
pub(super) struct Witness {
    pub(super) life: String,
    pub(super) patience: Duration,
    pub(super) place: String,
    pub(super) reader: Arc<Reader>,
    pub(super) cipher: Arc<dyn EntryCipher>,
    pub(super) destinations: Vec<Destination>,
}

impl Witness {
    /// Called when the transaction of the cut is over.
    pub(super) fn has_seen(
        &self,
        number: u64,
        groups: &[GroupOffsets],
        positions: &[PositionEntry],
    ) -> Result<bool, String> {
        for group in groups {
            let mut trouble = Trouble::new(self.patience);
            loop {
                match self.is_in(number, group) {
                    Ok(true) => return Ok(true),
                    Ok(false) => break,
                    Err(error) if is_transient(&error) => {
                        trouble.note(&self.place, &error.to_string())?;
                    }
                    Err(error) => return Err(error.to_string()),
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        if groups.is_empty() {
            return self.is_in_changelog(number, positions);
        }
        Ok(false)
    }

    fn is_ours(&self, number: u64, text: &str) -> bool {
        let mark = Mark::read(text).ok().flatten();
        mark.is_some_and(|mark| mark.cut == number && mark.life == self.life)
    }

    fn is_in(&self, number: u64, group: &GroupOffsets) -> KafkaResult<bool> {
        let Some(consumer) = group.consumer.upgrade() else {
            return Ok(false);
        };
        let committed = consumer.committed_offsets(group.list.clone(), ASK)?;
        for element in &committed.elements() {
            element.error()?;
            if self.is_ours(number, &metadata_of(element)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One of the entries tells for all.
    fn is_in_changelog(&self, number: u64, positions: &[PositionEntry]) -> Result<bool, String> {
        let Some(entry) = positions.first() else {
            return Ok(false);
        };
        let destination = self.destinations.get(usize::from(entry.changelog));
        let topic = destination.map_or("", |destination| destination.topic.as_str());
        let span = Span {
            partition: entry.partition,
            from: Some(entry.from),
        };
        let mut seen = false;
        self.reader.read(topic, &[span], |_, key, value| {
            if let (true, Some(value)) = (key == entry.key.as_bytes(), value) {
                let plain = self.cipher.open(key, value);
                let plain = plain.and_then(|plain| String::from_utf8(plain).ok());
                seen |= plain.is_some_and(|text| self.is_ours(number, &text));
            }
        })?;
        Ok(seen)
    }
}
