//! A task's part of a cut.

use tidegate_contract::{Cut, InFlightEntry, SourcePosition};

use super::Task;
use super::inbox::{Change, Inbox};
use crate::entry::{encode_taken, encode_untaken};
use crate::waiting::Waiting;

impl Task {
    /// This task's part of a cut, written into `cut`. Returns the position the source may commit, if it moved; it is
    /// given again until [`Task::committed`] is called.
    pub(crate) fn cut(&mut self, cut: &mut Cut) -> Option<u64> {
        let topology = self.topology.clone();
        let source = &topology.sources[usize::from(self.partition.source)];
        let mut position = self.next;
        if source.durable_in_flight {
            let inboxes = topology.stages.iter().zip(&mut self.inboxes);
            for (stage, inbox) in inboxes {
                let (changed, done) = inbox.take_changes();
                let of = (source, self.partition.number, &stage.name);
                for (number, change) in changed {
                    let payload = match change {
                        Change::Whole(batch) => encode_untaken(of.0, of.1, of.2, &batch),
                        Change::Taken(all, taken) => encode_taken(of.0, of.1, of.2, (all, taken)),
                    };
                    cut.in_flight_added.push(InFlightEntry { number, payload });
                }
                cut.in_flight_done.extend(done);
            }
            for (stage, waiting) in topology.stages.iter().zip(&mut self.waiting) {
                let (changed, done) = waiting.take_changes();
                for number in changed {
                    if let Some(entry) = waiting.get(number) {
                        let payload =
                            crate::entry::encode(source, self.partition.number, &stage.name, entry);
                        cut.in_flight_added.push(InFlightEntry { number, payload });
                    }
                }
                cut.in_flight_done.extend(done);
            }
        } else if let Some(lowest) = self.lowest_offset() {
            position = position.map(|next| next.min(lowest));
        }
        if position == self.committed {
            return None;
        }
        if let (true, Some(position)) = (source.positions_in_log, position) {
            let number = self.partition.number;
            cut.sources.push(SourcePosition {
                source: source.name.clone(),
                partition: number,
                identity: source
                    .identities
                    .get(number as usize)
                    .cloned()
                    .unwrap_or_default(),
                position,
            });
        }
        position
    }

    /// The cut holds, and where positions are the source's, it has this one.
    pub(crate) fn committed(&mut self, position: u64) {
        self.committed = Some(position);
    }

    /// Whether a cut would have something to say of this task.
    pub(crate) fn has_changes(&self) -> bool {
        let durable = self.is_durable();
        let position = if durable {
            self.next
        } else {
            self.lowest_offset().or(self.next)
        };
        position != self.committed
            || self
                .waiting
                .iter()
                .any(|waiting| waiting.has_changes(durable))
            || self.inboxes.iter().any(|inbox| inbox.has_changes(durable))
    }

    /// Whether the records that wait here are part of the cut.
    pub(crate) fn is_durable(&self) -> bool {
        self.topology.sources[usize::from(self.partition.source)].durable_in_flight
    }

    /// The lowest offset of what waits in a stage or before one.
    fn lowest_offset(&self) -> Option<u64> {
        let waiting = self.waiting.iter().flat_map(Waiting::offsets);
        let untaken = self.inboxes.iter().flat_map(Inbox::offsets);
        waiting.chain(untaken).min()
    }
}
