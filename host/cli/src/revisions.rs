//! What the revisions of slots did, for status and metrics, and whether a run was well with it.

use std::fmt::Write as _;

use tidegate_contract::OperatorVersion;
use tidegate_control::RevisionReport;
use tidegate_operator::{ComponentSlot, OUTCOMES, RevisionStats};

use crate::host::HostedSlot;

/// Digits of a revision's digest that are its name in metrics.
const DIGITS: usize = 16;

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

/// Gauges and counters of every slot's revisions, in the text format of Prometheus.
pub(crate) fn metrics(slots: &[&ComponentSlot]) -> String {
    type Figure = (&'static str, &'static str, fn(&RevisionStats) -> String);
    const FIGURES: [Figure; 6] = [
        ("records_total", "counter", |s| s.records().to_string()),
        ("failed_records_total", "counter", |s| s.failed.to_string()),
        ("lost_instances_total", "counter", |s| {
            s.lost_instances.to_string()
        }),
        ("guest_seconds_total", "counter", |s| {
            s.guest_time.as_secs_f64().to_string()
        }),
        ("memory_bytes", "gauge", |s| s.memory.to_string()),
        ("instances", "gauge", |s| s.instances.to_string()),
    ];
    let known: Vec<_> = slots
        .iter()
        .flat_map(|slot| slot.revisions().into_iter().map(|report| (*slot, report)))
        .map(|(slot, report)| {
            let own = labels(slot.name(), &report.version);
            let version = escaped(&report.version.version);
            (format!("{own},version=\"{version}\""), report.stats)
        })
        .collect();
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (name, kind, figure) in FIGURES {
        let _ = writeln!(text, "# TYPE tidegate_revision_{name} {kind}");
        for (labels, stats) in &known {
            let _ = writeln!(
                text,
                "tidegate_revision_{name}{{{labels}}} {}",
                figure(stats)
            );
        }
    }
    let _ = writeln!(text, "# TYPE tidegate_revision_outcomes_total counter");
    for (labels, stats) in &known {
        for (outcome, number) in outcomes(stats) {
            let _ = writeln!(
                text,
                "tidegate_revision_outcomes_total{{{labels},outcome=\"{outcome}\"}} {number}"
            );
        }
    }
    text
}

/// The labels that name a revision in metrics: those of what the host counts of it, and of what it measures itself.
pub(crate) fn labels(slot: &str, version: &OperatorVersion) -> String {
    let digest = &version.revision.digest;
    let digits = digest.trim_start_matches("sha256:");
    let digits = digits.get(..DIGITS).unwrap_or(digits);
    format!("slot=\"{}\",revision=\"{digits}\"", escaped(slot))
}

/// A label's value, as the format wants it.
pub(crate) fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
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
