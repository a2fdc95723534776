//! A task's part of a cut.

use tidegate_contract::{Cut, InFlightEntry, SlotVersion, SourcePosition};

use super::Task;
use crate::waiting::Waiting;

impl Task {
    /// This task's part of a cut, written into `cut`. Returns the position the source may commit, if it moved.
    pub(crate) fn cut(&mut self, cut: &mut Cut) -> Option<u64> {
        let plan = self.plan.clone();
        let source = &plan.sources[usize::from(self.partition.source)];
        let mut position = self.next;
        if plan.durable_in_flight {
            for (stage, waiting) in plan.stages.iter().zip(&mut self.waiting) {
                let (changed, done) = waiting.take_changes();
                for number in changed {
                    if let Some(entry) = waiting.get(number) {
                        let payload = crate::entry::encode(
                            &source.name,
                            self.partition.number,
                            &stage.name,
                            entry,
                        );
                        cut.in_flight_added.push(InFlightEntry { number, payload });
                    }
                }
                cut.in_flight_done.extend(done);
            }
        } else if let Some(lowest) = self.waiting.iter().filter_map(Waiting::lowest_offset).min() {
            position = position.map(|next| next.min(lowest));
        }
        for (slot, kind, version) in self.slots() {
            if !cut.slots.iter().any(|known| known.slot == slot) {
                cut.slots.push(SlotVersion {
                    slot: slot.to_owned(),
                    version: version.version.clone(),
                    digest: version.digest.clone(),
                    configured: kind.configured.clone(),
                });
            }
        }
        if position == self.committed {
            return None;
        }
        self.committed = position;
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

    /// Whether a cut would have something to say of this task.
    pub(crate) fn has_changes(&self) -> bool {
        let lowest = self.waiting.iter().filter_map(Waiting::lowest_offset).min();
        let position = if self.plan.durable_in_flight {
            self.next
        } else {
            lowest.or(self.next)
        };
        position != self.committed
            || (self.plan.durable_in_flight && self.waiting.iter().any(Waiting::has_changes))
    }
}
