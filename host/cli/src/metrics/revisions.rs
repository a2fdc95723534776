//! The revisions of slots, as the host counts them.

use tidegate_operator::{ComponentSlot, OUTCOMES, RevisionStats};
use tidegate_telemetry::metrics::{Exposition, table};

use super::short;

/// What revisions are called that are too long ago to stand by themselves.
const EARLIER: &str = "earlier";

/// What every slot's revisions have done: the latest one by one, those before together.
pub(crate) fn revisions(exposition: &mut Exposition, slots: &[&ComponentSlot]) {
    for slot in slots {
        let name = slot.name();
        exposition.add(&table::SLOT_MEMORY, &[name], slot.memory());
        let before = slot.before();
        if before != RevisionStats::default() {
            revision(exposition, &[name, EARLIER, ""], &before, false);
        }
        for report in slot.revisions() {
            let labels = [name, short(&report.version), &report.version.version];
            let tripped = report.tripped.is_some();
            revision(exposition, &labels, &report.stats, tripped);
        }
    }
}

fn revision(exposition: &mut Exposition, labels: &[&str; 3], stats: &RevisionStats, tripped: bool) {
    exposition.add(&table::REVISION_RECORDS, labels, stats.records());
    exposition.add(&table::REVISION_FAILED, labels, stats.failed);
    exposition.add(
        &table::REVISION_LOST_INSTANCES,
        labels,
        stats.lost_instances,
    );
    exposition.add(&table::REVISION_SECONDS, labels, stats.guest_time);
    exposition.add(&table::REVISION_MEMORY, labels, stats.memory);
    exposition.add(&table::REVISION_INSTANCES, labels, stats.instances);
    exposition.add(&table::REVISION_TRIPPED, labels, tripped);
    let [slot, digits, version] = *labels;
    for (outcome, number) in OUTCOMES.into_iter().zip(stats.outcomes) {
        let labels = [slot, digits, version, outcome];
        exposition.add(&table::REVISION_OUTCOMES, &labels, number);
    }
}
