//! What the page and `tidegate top` show of a running host beside the rest of its status.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_control::config::{Pipeline, StageKind};
use tidegate_control::{
    ComponentVersion, CutsReport, DEPLOYMENTS, DeploymentReport, Graph, LogLine, LogReport,
    SlotCounters, SourceReport, StageReport, StageRole, Way,
};
use tidegate_telemetry::{Edges, Meters, SourceMeters, StageMeters};

use crate::stage_times::{StageTimes, in_milliseconds};
use crate::wire;

/// Most bytes of why a deployment was refused.
const REFUSAL_BYTES: usize = 2048;

/// The parts of a running pipeline, and what was deployed to it.
pub(crate) struct Live {
    stages: Vec<(StageRole, Option<String>)>,
    graph: Graph,
    ways: Vec<Way>,
    lately: StageTimes,
    /// The latest first.
    deployments: Mutex<VecDeque<DeploymentReport>>,
}

impl Live {
    pub(crate) fn new(pipeline: &Pipeline) -> Live {
        let stage = |kind: &StageKind| match kind {
            StageKind::Operator(_) => (StageRole::Operator, None),
            StageKind::Model(asks) => {
                let model = pipeline.models.get(asks.model);
                (StageRole::Model, model.map(|model| model.name.clone()))
            }
        };
        let (graph, ways) = Graph::of(pipeline);
        Live {
            stages: (pipeline.stages.iter())
                .map(|one| stage(&one.kind))
                .collect(),
            graph,
            ways,
            lately: StageTimes::default(),
            deployments: Mutex::default(),
        }
    }

    /// Counters for its ways, which the meters have.
    pub(crate) fn edges(&self) -> Edges {
        Edges::new(self.ways.iter().copied())
    }

    /// The graph, with what went each way.
    pub(crate) fn graph(&self, meters: &Meters) -> Graph {
        let mut graph = self.graph.clone();
        for (edge, (from, to)) in graph.edges.iter_mut().zip(&self.ways) {
            edge.records = meters.edges().get(*from, *to);
        }
        graph
    }

    pub(crate) fn stages(&self, meters: &Meters) -> Vec<StageReport> {
        let times = self.lately.look(meters.clock(), meters.stages());
        let stages = self.stages.iter().zip(meters.stages()).zip(times);
        let report = stages.map(|(((kind, model), stage), time_ms)| StageReport {
            name: stage.name.clone(),
            kind: *kind,
            model: model.clone(),
            counters: counters(stage),
            batches: stage.batches.get(),
            inbox: stage.inbox.get(),
            waiting: stage.waiting.get(),
            limit: stage.limit.get(),
            full_seconds: stage.full.get().as_secs_f64(),
            time_ms,
        });
        report.collect()
    }

    /// What was deployed, the latest first.
    pub(crate) fn deployments(&self) -> Vec<DeploymentReport> {
        self.lock().iter().cloned().collect()
    }

    /// A deployment ended: what came of it.
    pub(crate) fn deployed(
        &self,
        slot: &str,
        label: &str,
        old: ComponentVersion,
        new: Result<ComponentVersion, &str>,
        fell_back: bool,
    ) {
        let (new, refused) = match new {
            Ok(new) => (Some(new), None),
            Err(why) => (None, Some(tidegate_telemetry::plain(why, REFUSAL_BYTES))),
        };
        let mut deployments = self.lock();
        deployments.truncate(DEPLOYMENTS - 1);
        deployments.push_front(DeploymentReport {
            at: milliseconds(SystemTime::now()),
            slot: slot.to_owned(),
            label: label.to_owned(),
            old,
            new,
            refused: refused.map(|why| why.to_string()),
            fell_back,
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<DeploymentReport>> {
        // Each change is whole before anything can panic.
        self.deployments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sources, and how far they are. Those of letters that are sent again are among them as soon as there is one.
pub(crate) fn sources(meters: &Meters) -> Vec<SourceReport> {
    let report = |source: &SourceMeters| {
        let lag = source.lag();
        SourceReport {
            name: source.name.clone(),
            records: source.records.get(),
            rejected: source.rejected.get(),
            unread_records: lag.records,
            unread_bytes: lag.bytes,
            behind_seconds: lag.behind.map(|behind| behind.as_secs_f64()),
        }
    };
    let is_shown = |source: &SourceReport| {
        !source.name.ends_with(wire::again::SUFFIX)
            || source.records + source.rejected + source.unread_records.unwrap_or(0) > 0
    };
    let all = meters.sources().iter().map(report);
    all.filter(is_shown).collect()
}

/// The cuts, and what none has yet.
pub(crate) fn cuts(meters: &Meters) -> CutsReport {
    CutsReport {
        held: meters.cuts.get(),
        aborted: meters.cuts_aborted.get(),
        uncommitted_seconds: meters.uncommitted().as_secs_f64(),
        time_ms: in_milliseconds(&meters.cut_seconds.spread()),
    }
}

/// What a stage did since the start.
pub(crate) fn counters(stage: &StageMeters) -> SlotCounters {
    SlotCounters {
        input: stage.records_in.get(),
        output: stage.records_out.get(),
        dropped: stage.records_dropped.get(),
        dead: stage.records_dead.get(),
        retried: stage.records_retried.get(),
    }
}

/// A slot's log, as reports have it.
pub(crate) fn log_report(log: tidegate_operator::LogLines) -> LogReport {
    let line = |line: tidegate_operator::LogLine| LogLine {
        number: line.number,
        at: milliseconds(line.at),
        level: line.level.name().to_owned(),
        text: line.text,
    };
    LogReport {
        lines: log.lines.into_iter().map(line).collect(),
        next: log.next,
        missed: log.missed,
    }
}

/// Since 1970.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A version of a component, as reports have it.
pub(crate) fn reported(version: &tidegate_contract::OperatorVersion) -> ComponentVersion {
    ComponentVersion {
        name: version.name.clone(),
        version: version.version.clone(),
        digest: version.digest.clone(),
        revision: version.revision.digest.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: &str) -> ComponentVersion {
        ComponentVersion {
            name: "redact-pii".into(),
            version: version.into(),
            digest: String::new(),
            revision: String::new(),
        }
    }

    #[test]
    fn the_last_deployments_are_told_the_latest_first() {
        let live = Live {
            stages: Vec::new(),
            graph: Graph::default(),
            ways: Vec::new(),
            lately: StageTimes::default(),
            deployments: Mutex::default(),
        };
        for number in 0..DEPLOYMENTS + 5 {
            let (old, new) = (version("1"), version(&number.to_string()));
            live.deployed("redact", "", old, Ok(new), false);
        }
        live.deployed(
            "redact",
            "x",
            version("1"),
            Err("it\u{1b}[31m imports"),
            false,
        );
        let told = live.deployments();
        assert_eq!(told.len(), DEPLOYMENTS);
        let refused = told[0].refused.as_deref();
        assert!(
            refused.is_some_and(|why| !why.contains('\u{1b}')),
            "{refused:?}"
        );
        let newest = told[1].new.as_ref().map(|new| new.version.clone());
        assert_eq!(newest, Some((DEPLOYMENTS + 4).to_string()));
    }
}
