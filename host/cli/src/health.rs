//! Whether the host is well, and why not.

use std::time::Duration;

use tidegate_connect::remote;
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
        let workers = self.controls.health().into_iter();
        let stages = self.meters.stages().iter();
        report(&Standing {
            silent_at_most: self.silent_at_most,
            workers: workers
                .map(|worker| {
                    let source = worker.unassigned;
                    let source = source.map(|source| self.controls.source_name(source).to_owned());
                    (worker.silent, worker.uncut, source)
                })
                .collect(),
            engines: (self.models.iter())
                .map(|model| {
                    let report = model.report();
                    (report.name, model.silent(), report.loaded)
                })
                .collect(),
            servers: (self.remote.iter())
                .filter_map(|model| Some((model.stats().name, away(&model.stats().standing)?)))
                .collect(),
            stages: stages
                .filter_map(|stage| {
                    let trouble = stage.unavailable()?;
                    Some((stage.name.clone(), trouble.since.elapsed(), trouble.reason))
                })
                .collect(),
            ends: self.controls.is_stopping(),
        })
    }
}

/// For how long a server has not answered, while others than the request that may try it are refused. One that the next
/// request tries is no reason: a host that is not ready may be sent none, and would never know.
fn away(standing: &remote::Standing) -> Option<Duration> {
    match standing {
        remote::Standing::Open { since }
        | remote::Standing::HalfOpen {
            since,
            probing: true,
        } => Some(*since),
        remote::Standing::HalfOpen { probing: false, .. }
        | remote::Standing::Closed
        | remote::Standing::Resting => None,
    }
}

/// How everything stands that a host needs.
#[derive(Debug, Default)]
struct Standing {
    /// After so long a worker is taken for hung, if that is more than an engine is given.
    silent_at_most: Duration,
    /// For how long each worker has not gone on, for how long no cut of it has held, and which source it waits for.
    workers: Vec<(Duration, Duration, Option<String>)>,
    /// Models of this host: for how long their engine has not gone on, and whether they are loaded.
    engines: Vec<(String, Duration, bool)>,
    /// Models of other servers that do not answer, and for how long.
    servers: Vec<(String, Duration)>,
    /// Stages that cannot answer, for how long, and why.
    stages: Vec<(String, Duration, String)>,
    /// It was told to stop.
    ends: bool,
}

/// What that comes to: only what hangs in this process makes it not live.
fn report(standing: &Standing) -> HealthReport {
    let (mut hung, mut missing) = (Vec::new(), Vec::new());
    for (number, (silent, uncut, unassigned)) in standing.workers.iter().enumerate() {
        if *silent >= standing.silent_at_most.max(SILENT) {
            let seconds = silent.as_secs();
            hung.push(format!("worker {number} has not gone on for {seconds} s"));
        }
        if let Some(name) = unassigned {
            missing.push(format!(
                "source {name}: worker {number} has not been told yet what to read"
            ));
        }
        if *uncut >= WITHOUT {
            let seconds = uncut.as_secs();
            missing.push(format!(
                "no cut of worker {number} has held for {seconds} s"
            ));
        }
    }
    for (name, silent, loaded) in &standing.engines {
        if *silent >= SILENT {
            let seconds = silent.as_secs();
            hung.push(format!(
                "the engine of model {name} has not gone on for {seconds} s"
            ));
        }
        if !loaded {
            missing.push(format!("model {name} is not loaded"));
        }
    }
    for (name, away) in &standing.servers {
        if *away >= WITHOUT {
            let seconds = away.as_secs();
            missing.push(format!(
                "model {name}: its server has not answered for {seconds} s"
            ));
        }
    }
    for (name, since, reason) in &standing.stages {
        if *since >= WITHOUT {
            let (seconds, why) = (since.as_secs(), plain(reason, REASON));
            missing.push(format!("stage {name} cannot answer for {seconds} s: {why}"));
        }
    }
    if standing.ends {
        missing.push("the pipeline is ending".to_owned());
    }
    HealthReport {
        live: hung.is_empty(),
        ready: hung.is_empty() && missing.is_empty(),
        reasons: hung.into_iter().chain(missing).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_secs(31);
    const HUNG: Duration = Duration::from_secs(301);
    const SOON: Duration = Duration::from_secs(29);

    fn said(standing: Standing) -> (bool, bool, Vec<String>) {
        let report = report(&standing);
        (report.live, report.ready, report.reasons)
    }

    #[test]
    fn what_is_away_for_a_moment_is_no_reason() {
        let standing = Standing {
            silent_at_most: Duration::ZERO,
            workers: vec![(SOON, SOON, None), (Duration::ZERO, Duration::ZERO, None)],
            engines: vec![("small".to_owned(), LATE, true)],
            servers: vec![("far".to_owned(), SOON)],
            stages: vec![("redact".to_owned(), SOON, "it traps".to_owned())],
            ends: false,
        };
        assert_eq!(said(standing), (true, true, Vec::new()));
    }

    #[test]
    fn what_hangs_in_this_process_makes_it_not_live() {
        let engine = Standing {
            engines: vec![("small".to_owned(), HUNG, true)],
            ..Standing::default()
        };
        let why = "the engine of model small has not gone on for 301 s".to_owned();
        assert_eq!(said(engine), (false, false, vec![why]));
        let worker = Standing {
            workers: vec![(HUNG, SOON, None)],
            ..Standing::default()
        };
        let why = "worker 0 has not gone on for 301 s".to_owned();
        assert_eq!(said(worker), (false, false, vec![why]));
    }

    #[test]
    fn a_worker_has_as_long_as_its_operators_may_take() {
        let standing = |silent| Standing {
            silent_at_most: HUNG * 2,
            workers: vec![(silent, SOON, None)],
            ..Standing::default()
        };
        assert!(report(&standing(HUNG)).live);
        assert!(!report(&standing(HUNG * 2)).live);
    }

    #[test]
    fn what_a_restart_would_not_mend_makes_it_not_ready_and_leaves_it_live() {
        let hour = Duration::from_secs(3600);
        let fine = Duration::ZERO;
        for (standing, why) in [
            (
                Standing {
                    workers: vec![(fine, fine, Some("tickets".to_owned()))],
                    ..Standing::default()
                },
                "source tickets: worker 0 has not been told yet what to read",
            ),
            (
                Standing {
                    workers: vec![(fine, fine, None), (fine, hour, None)],
                    ..Standing::default()
                },
                "no cut of worker 1 has held for 3600 s",
            ),
            (
                Standing {
                    engines: vec![("small".to_owned(), fine, false)],
                    ..Standing::default()
                },
                "model small is not loaded",
            ),
            (
                Standing {
                    servers: vec![("far".to_owned(), LATE)],
                    ..Standing::default()
                },
                "model far: its server has not answered for 31 s",
            ),
            (
                Standing {
                    stages: vec![("redact".to_owned(), LATE, "it\ntraps".to_owned())],
                    ..Standing::default()
                },
                "stage redact cannot answer for 31 s: it\\ntraps",
            ),
            (
                Standing {
                    ends: true,
                    ..Standing::default()
                },
                "the pipeline is ending",
            ),
        ] {
            assert_eq!(said(standing), (true, false, vec![why.to_owned()]));
        }
    }

    #[test]
    fn a_server_is_away_until_the_next_request_would_try_it() {
        let since = LATE;
        let half_open = |probing| remote::Standing::HalfOpen { since, probing };
        for (standing, expected) in [
            (remote::Standing::Closed, None),
            (remote::Standing::Resting, None),
            (remote::Standing::Open { since }, Some(LATE)),
            (half_open(false), None),
            // A server that hangs is tried for a minute, in which every other request is refused.
            (half_open(true), Some(LATE)),
        ] {
            assert_eq!(away(&standing), expected);
        }
    }
}
