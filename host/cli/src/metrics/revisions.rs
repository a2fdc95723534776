//! The revisions of slots, as the host counts them.

use tidegate_operator::{ComponentSlot, OUTCOMES, RevisionReport};
use tidegate_telemetry::metrics::{Exposition, Value, table};

use super::short;

/// What the latest revisions of every slot have done, one by one. The series of one that is too long ago end: what it did
/// is in those of its stage.
pub(crate) fn revisions(exposition: &mut Exposition, slots: &[&ComponentSlot]) {
    for slot in slots {
        exposition.add(&table::SLOT_MEMORY, &[slot.name()], slot.memory());
        for report in slot.revisions() {
            revision(exposition, slot.name(), &report);
        }
    }
}

fn revision(exposition: &mut Exposition, slot: &str, report: &RevisionReport) {
    let (stats, since) = (&report.stats, report.since);
    let labels = [slot, short(&report.version), &report.version.version];
    exposition.add(&table::REVISION_MEMORY, &labels, stats.memory);
    exposition.add(&table::REVISION_INSTANCES, &labels, stats.instances);
    exposition.add(&table::REVISION_TRIPPED, &labels, report.tripped.is_some());
    let counted: [(_, Value); 4] = [
        (&table::REVISION_RECORDS, stats.records().into()),
        (&table::REVISION_FAILED, stats.failed.into()),
        (&table::REVISION_LOST_INSTANCES, stats.lost_instances.into()),
        (&table::REVISION_SECONDS, stats.guest_time.into()),
    ];
    for (family, value) in counted {
        exposition.add_since(family, &labels, value, since);
    }
    let [slot, digits, version] = labels;
    for (outcome, number) in OUTCOMES.into_iter().zip(stats.outcomes) {
        let labels = [slot, digits, version, outcome];
        exposition.add_since(&table::REVISION_OUTCOMES, &labels, number, since);
    }
}
