//! The slots: what runs in them, and what was deployed.

use tidegate_control::{DeploymentReport, SlotReport};
use tidegate_telemetry::{count, size};

use super::super::frame::{Line, Look, Row, table};
use super::{Seen, digits, fact, name, reason};

impl Seen<'_> {
    pub(super) fn slots(&self, all: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        for slot in &self.report.slots {
            lines.extend(self.slot(slot));
            if all {
                lines.extend(self.revisions(slot));
            }
        }
        if all {
            for deployment in &self.report.deployments {
                lines.extend(self.deployment(deployment));
            }
        }
        lines
    }

    fn slot(&self, slot: &SlotReport) -> Vec<Line> {
        let mut facts = vec![
            fact(name(&slot.slot)),
            fact(format!("{} {}", name(&slot.name), name(&slot.version))),
            fact(digits(&slot.digest)),
            fact(format!("generation {}", slot.generation)),
        ];
        if !slot.label.is_empty() {
            facts.push(fact(name(&slot.label)));
        }
        self.flow("slot", facts)
    }

    fn revisions(&self, slot: &SlotReport) -> Vec<Line> {
        const TITLES: [(&str, usize); 6] = [
            ("version", 10),
            ("records", 14),
            ("failed", 9),
            ("lost", 7),
            ("memory", 12),
            ("instances", 11),
        ];
        let rows = slot.revisions.iter().map(|revision| {
            let runs = if revision.runs { " runs" } else { "" };
            Row {
                name: format!("{}{runs}", digits(&revision.revision)),
                look: match (revision.runs, &revision.tripped) {
                    (true, Some(_)) => Look::Bad,
                    (true, None) => Look::Good,
                    (false, _) => Look::Plain,
                },
                cells: vec![
                    fact(name(&revision.version)),
                    fact(count(revision.records)),
                    fact(count(revision.failed)),
                    fact(count(revision.lost_instances)),
                    fact(size(revision.memory)),
                    fact(count(revision.instances)),
                ],
            }
        });
        let mut lines = table("revision", &TITLES, rows.collect(), self.columns);
        for revision in &slot.revisions {
            if let Some(why) = &revision.tripped {
                let (which, why) = (digits(&revision.revision), reason(why));
                lines.extend(self.flow("", vec![fact(format!("{which} is run no more: {why}"))]));
            }
        }
        lines
    }

    pub(super) fn deployment(&self, deployment: &DeploymentReport) -> Vec<Line> {
        let mut facts = vec![fact(format!(
            "{} {}",
            clock(deployment.at),
            name(&deployment.slot)
        ))];
        if !deployment.label.is_empty() {
            facts.push(fact(name(&deployment.label)));
        }
        if let Some(new) = &deployment.new {
            let (old, new) = (name(&deployment.old.version), name(&new.version));
            facts.push(fact(format!("{old} to {new}")));
        }
        if deployment.fell_back {
            facts.push((
                Look::Warn,
                "back by itself: a breaker had opened".to_owned(),
            ));
        }
        facts.push(match &deployment.refused {
            Some(why) => (Look::Warn, format!("refused: {}", reason(why))),
            None => (Look::Good, "switched".to_owned()),
        });
        self.flow("deployed", facts)
    }
}

/// The time of day in UTC, of milliseconds since 1970.
fn clock(at: u64) -> String {
    let seconds = at / 1000;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}
