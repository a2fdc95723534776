//! What the revisions of slots did, for the status, and whether a run was well with it.

use tidegate_control::RevisionReport;
use tidegate_operator::{ComponentSlot, OUTCOMES, RevisionStats};

use crate::host::HostedSlot;

/// For the status.
pub(crate) fn reports(slot: &ComponentSlot) -> Vec<RevisionReport> {
    let report = |known: tidegate_operator::RevisionReport| RevisionReport {
        revision: known.version.revision.digest.clone(),
        version: known.version.version.clone(),
        digest: known.version.digest.clone(),
        runs: known.runs,
        tripped: known.tripped,
        records: known.stats.records(),
        outcomes: outcomes(&known.stats)
            .map(|(name, number)| (name.to_owned(), number))
            .collect(),
        failed: known.stats.failed,
        lost_instances: known.stats.lost_instances,
        guest_ms: u64::try_from(known.stats.guest_time.as_millis()).unwrap_or(u64::MAX),
        memory: known.stats.memory,
        instances: known.stats.instances,
    };
    slot.revisions().into_iter().map(report).collect()
}

fn outcomes(stats: &RevisionStats) -> impl Iterator<Item = (&'static str, u64)> {
    OUTCOMES.into_iter().zip(stats.outcomes)
}

/// Why a run is not well that came to its end: an operator failed on every record, or on more than the file allows.
pub(crate) fn failure(slots: &[HostedSlot]) -> Option<String> {
    let of = |hosted: &HostedSlot| {
        let stats = hosted.slot.totals();
        let (failed, records, name) = (stats.failed, stats.records(), hosted.slot.name());
        if failed > 0 && failed == records {
            return Some(format!(
                "the operator of stage {name} failed on every record it was given ({failed}); see the dead letters"
            ));
        }
        let most = hosted.max_failed_records.filter(|most| failed > *most)?;
        Some(format!(
            "the operator of stage {name} failed on {failed} of {records} records, limit {most} \
             (max-failed-records); see the dead letters"
        ))
    };
    let failed: Vec<String> = slots.iter().filter_map(of).collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}
