//! Whether the host is well, and why not.

use std::time::Duration;

use tidegate_control::HealthReport;
use tidegate_control::config::{Pipeline, StageKind};
use tidegate_operator::Limits as OperatorLimits;
use tidegate_telemetry::plain;

use crate::host::RunningHost;

/// After so long in one round a worker is taken for hung, unless its operators are given longer; an engine's thread always:
/// no step of a model takes nearly as long.
const SILENT: Duration = Duration::from_secs(300);
/// After so long without what it needs a host is not ready.
const WITHOUT: Duration = Duration::from_secs(30);
/// Most bytes of what a stage says.
const REASON: usize = 400;

/// After how long in one round a worker is taken for hung: a call of an operator, the start of an instance before it, and
/// as much again.
pub(crate) fn silent_at_most(pipeline: &Pipeline) -> Duration {
    let deadlines = pipeline
        .stages
        .iter()
        .filter_map(|stage| match &stage.kind {
            StageKind::Operator(operator) => Some(operator.limits.deadline),
            _ => None,
        });
    let longest = deadlines.max().unwrap_or_default();
    SILENT.max((longest + OperatorLimits::default().init_deadline) * 2)
}

impl RunningHost {
    /// Whether it is well. Nothing is waited for.
    pub(crate) fn health_now(&self) -> HealthReport {
        let workers = self.controls.health();
        let (mut hung, mut missing) = (Vec::new(), Vec::new());
        for (number, worker) in workers.iter().enumerate() {
            if worker.silent >= self.silent_at_most {
                let seconds = worker.silent.as_secs();
                hung.push(format!("worker {number} has not gone on for {seconds} s"));
            }
            if let Some(source) = worker.unassigned {
                let name = self.controls.source_name(source);
                missing.push(format!(
                    "source {name}: worker {number} has not been told yet what to read"
                ));
            }
            if worker.uncut >= WITHOUT {
                let seconds = worker.uncut.as_secs();
                missing.push(format!(
                    "no cut of worker {number} has held for {seconds} s"
                ));
            }
        }
        for model in &self.models {
            let (report, silent) = (model.report(), model.silent());
            if silent >= SILENT {
                hung.push(format!(
                    "the engine of model {} has not gone on for {} s",
                    report.name,
                    silent.as_secs()
                ));
            }
            if !report.loaded {
                missing.push(format!("model {} is not loaded", report.name));
            }
        }
        for stage in self.meters.stages() {
            if let Some(trouble) = stage.unavailable()
                && trouble.since.elapsed() >= WITHOUT
            {
                let (name, seconds) = (&stage.name, trouble.since.elapsed().as_secs());
                let why = plain(&trouble.reason, REASON);
                missing.push(format!("stage {name} cannot answer for {seconds} s: {why}"));
            }
        }
        if self.controls.is_stopping() {
            missing.push("the pipeline is ending".to_owned());
        }
        HealthReport {
            live: hung.is_empty(),
            ready: hung.is_empty() && missing.is_empty(),
            reasons: hung.into_iter().chain(missing).collect(),
        }
    }
}
