//! Whether the host is well, and what is wrong with it: one list, of which health is a part.

use std::time::Duration;

use tidegate_connect::remote;
use tidegate_control::config::{Pipeline, StageKind};
use tidegate_control::{
    HealthReport, OpenBreaker, PlaceKind, ReplicaReport, ReplicaState, TROUBLES, Tone,
    TroublePlace, TroubleReport,
};
use tidegate_operator::Limits as OperatorLimits;
use tidegate_telemetry::{count, plain};

use crate::host::RunningHost;
use crate::lately::Grown;

/// After so long in one round a worker is taken for hung, unless its operators are given longer; an engine's thread always:
/// no step of a model takes nearly as long.
const SILENT: Duration = Duration::from_secs(300);
/// After so long without what it needs a host is not ready.
const WITHOUT: Duration = Duration::from_secs(30);
/// Of this share of the time on a stage that takes no more holds up what comes before it.
const FULL: f64 = 0.5;
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
        health(&found(&self.standing()))
    }

    /// What is wrong, the worst first. Nothing is waited for.
    pub(crate) fn troubles(&self) -> Vec<TroubleReport> {
        let mut all = found(&self.standing());
        let breakers = self.slots.iter();
        all.extend(breakers.filter_map(|hosted| Some(open(hosted.slot.name(), &hosted.open()?))));
        all.extend(growing(&self.grown()));
        told(all)
    }

    fn standing(&self) -> Standing {
        let workers = self.controls.health().into_iter();
        let stages = self.meters.stages().iter();
        Standing {
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
                    EngineStanding {
                        name: report.name,
                        silent: model.silent(),
                        loaded: report.loaded,
                        away: report.away,
                    }
                })
                .collect(),
            replicas: (self.models.iter())
                .flat_map(|model| {
                    let report = model.report();
                    let name = report.name;
                    let replicas = report.replicas.into_iter().enumerate();
                    replicas.map(move |(number, replica)| (name.clone(), number, replica))
                })
                .collect(),
            servers: (self.remote.iter())
                .map(|model| model.stats())
                .map(|stats| (stats.name, stats.standing))
                .collect(),
            stages: stages
                .filter_map(|stage| {
                    let trouble = stage.unavailable()?;
                    Some((stage.name.clone(), trouble.since.elapsed(), trouble.reason))
                })
                .collect(),
            ends: self.controls.is_stopping(),
        }
    }
}

/// For how long a server has not been known to be well, and whether others than the request that may try it are refused.
/// One that the next request tries makes nothing not ready: a host that is not ready may be sent none, and would never know.
fn away(standing: &remote::Standing) -> Option<(Duration, bool)> {
    match standing {
        remote::Standing::Open { since } => Some((*since, true)),
        remote::Standing::HalfOpen { since, probing } => Some((*since, *probing)),
        remote::Standing::Closed | remote::Standing::Resting => None,
    }
}

/// How everything stands that a host needs.
#[derive(Debug, Default)]
struct Standing {
    /// After so long a worker is taken for hung, if that is more than an engine is given.
    silent_at_most: Duration,
    /// For how long each worker has not gone on, for how long no cut of it has held, and which source it waits for.
    workers: Vec<(Duration, Duration, Option<String>)>,
    /// Models of this host.
    engines: Vec<EngineStanding>,
    /// Replicas of models that have several, by their models and numbers.
    replicas: Vec<(String, usize, ReplicaReport)>,
    /// Models of other servers, and how those stand.
    servers: Vec<(String, remote::Standing)>,
    /// Stages that cannot answer, for how long, and why.
    stages: Vec<(String, Duration, String)>,
    /// It was told to stop.
    ends: bool,
}

/// How a model of this host stands.
#[derive(Debug, Default)]
struct EngineStanding {
    name: String,
    /// For how long its engine has not gone on.
    silent: Duration,
    loaded: bool,
    /// Nothing of it serves.
    away: bool,
}

/// What something that is wrong means for probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Only a restart helps.
    Hung,
    /// The host does not do its work.
    Missing,
    /// Nothing.
    Told,
}

/// Something that is wrong.
#[derive(Debug)]
struct Found {
    weight: Weight,
    trouble: TroubleReport,
}

impl Found {
    fn new(weight: Weight, tone: Tone, (kind, name): (PlaceKind, &str), text: String) -> Found {
        Found {
            weight,
            trouble: TroubleReport {
                tone,
                text,
                place: TroublePlace {
                    kind,
                    name: name.to_owned(),
                },
            },
        }
    }
}

/// What is wrong with that: only what hangs in this process makes it not live.
fn found(standing: &Standing) -> Vec<Found> {
    const HOST: (PlaceKind, &str) = (PlaceKind::Host, "");
    let mut found = Vec::new();
    let missing_after = |time: Duration| match time >= WITHOUT {
        true => Weight::Missing,
        false => Weight::Told,
    };
    for (number, (silent, uncut, unassigned)) in standing.workers.iter().enumerate() {
        if *silent >= standing.silent_at_most.max(SILENT) {
            let seconds = silent.as_secs();
            let text = format!("worker {number} has not gone on for {seconds} s");
            found.push(Found::new(Weight::Hung, Tone::Bad, HOST, text));
        }
        if let Some(name) = unassigned {
            let text = format!("source {name}: worker {number} has not been told yet what to read");
            let source = (PlaceKind::Source, &**name);
            found.push(Found::new(Weight::Missing, Tone::Warn, source, text));
        }
        if *uncut >= WITHOUT {
            let seconds = uncut.as_secs();
            let text = format!("no cut of worker {number} has held for {seconds} s");
            let cuts = (PlaceKind::Cuts, "");
            found.push(Found::new(Weight::Missing, Tone::Bad, cuts, text));
        }
    }
    for EngineStanding {
        name,
        silent,
        loaded,
        away,
    } in &standing.engines
    {
        let model = (PlaceKind::Model, &**name);
        if *silent >= SILENT {
            let seconds = silent.as_secs();
            let text = format!("the engine of model {name} has not gone on for {seconds} s");
            found.push(Found::new(Weight::Hung, Tone::Bad, model, text));
        }
        if !loaded {
            let text = format!("model {name} is not loaded");
            found.push(Found::new(Weight::Missing, Tone::Warn, model, text));
        } else if *away {
            let several = (standing.replicas.iter()).any(|(of, ..)| of == name);
            let text = match several {
                true => format!("model {name}: no replica serves, and requests wait"),
                false => format!(
                    "model {name} does not serve: its device was lost, or its engine does not go on"
                ),
            };
            found.push(Found::new(Weight::Missing, Tone::Bad, model, text));
        }
    }
    for (name, number, replica) in &standing.replicas {
        let what = match replica.standing {
            ReplicaState::Serves => continue,
            ReplicaState::Away => "has lost its device, and is loaded again".to_owned(),
            ReplicaState::Stalled => {
                "does not go on: what it was asked goes to the others".to_owned()
            }
            ReplicaState::LeftOut => {
                let again = tried_again(replica);
                format!("is left out: {}{again}", plain(&replica.reason, REASON))
            }
        };
        let text = format!(
            "model {name}: replica {number} on {} {what}",
            replica.adapter
        );
        let model = (PlaceKind::Model, &**name);
        found.push(Found::new(Weight::Told, Tone::Warn, model, text));
    }
    for (name, standing) in &standing.servers {
        let Some((since, others_are_refused)) = away(standing) else {
            continue;
        };
        let seconds = since.as_secs();
        let text = format!("model {name}: its server has not answered for {seconds} s");
        let model = (PlaceKind::Model, &**name);
        found.push(match others_are_refused {
            true => Found::new(missing_after(since), Tone::Bad, model, text),
            false => {
                let text = text + ", and the next request tries it";
                Found::new(Weight::Told, Tone::Warn, model, text)
            }
        });
    }
    for (name, since, reason) in &standing.stages {
        let (seconds, why) = (since.as_secs(), plain(reason, REASON));
        let text = format!("stage {name} cannot answer for {seconds} s: {why}");
        let stage = (PlaceKind::Stage, &**name);
        found.push(Found::new(missing_after(*since), Tone::Bad, stage, text));
    }
    if standing.ends {
        let text = "the pipeline is ending".to_owned();
        found.push(Found::new(Weight::Missing, Tone::Warn, HOST, text));
    }
    found
}

/// When a replica that is left out is tried again, if it is.
pub(crate) fn tried_again(replica: &ReplicaReport) -> String {
    match replica.again_seconds {
        None => String::new(),
        Some(0) => "; it is tried again now".to_owned(),
        Some(seconds) => format!("; it is tried again in {seconds} s"),
    }
}

/// A breaker that is open.
fn open(slot: &str, open: &OpenBreaker) -> Found {
    let (version, why) = (plain(&open.version, REASON), plain(&open.reason, REASON));
    let text = format!("a breaker is open in slot {slot}: version {version} is run no more: {why}");
    Found::new(Weight::Told, Tone::Bad, (PlaceKind::Stage, slot), text)
}

/// Totals that ought to grow no more, while they do, and stages that hold up what comes before them.
fn growing(grown: &Grown) -> Vec<Found> {
    let seconds = grown.since.as_secs_f64().round();
    let bad = |place, text| {
        let text = format!("{text} within {seconds} s");
        Found::new(Weight::Told, Tone::Bad, place, text)
    };
    let many = |number: u64, one: &str, more: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{} {more}", count(number))),
    };
    let mut found = Vec::new();
    if let Some(cuts) = many(grown.aborted, "cut has come", "cuts have come") {
        found.push(bad((PlaceKind::Cuts, ""), format!("{cuts} to nothing")));
    }
    for (name, rejected) in &grown.rejected {
        if let Some(inputs) = many(*rejected, "input was", "inputs were") {
            let text = format!("source {name}: {inputs} no record");
            found.push(bad((PlaceKind::Source, name), text));
        }
    }
    for (name, failed) in &grown.failed {
        if let Some(requests) = many(*failed, "request has failed", "requests have failed") {
            let text = format!("model {name}: {requests}");
            found.push(bad((PlaceKind::Model, name), text));
        }
    }
    for stage in &grown.stages {
        let place = (PlaceKind::Stage, &*stage.name);
        let parts = [
            many(stage.dead, "dead letter", "dead letters"),
            many(stage.failed, "failed record", "failed records"),
            many(stage.lost, "lost instance", "lost instances"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            let text = format!("stage {}: {}", stage.name, parts.join(", "));
            found.push(bad(place, text));
        }
        if stage.full >= FULL {
            let percent = (stage.full.min(1.0) * 100.0).round();
            let text = format!(
                "stage {} is full {percent} % of the time: what comes before it waits",
                stage.name
            );
            found.push(Found::new(Weight::Told, Tone::Warn, place, text));
        }
    }
    found
}

/// What that comes to for probes.
fn health(found: &[Found]) -> HealthReport {
    let mut of: Vec<&Found> = found.iter().collect();
    of.retain(|one| one.weight < Weight::Told);
    of.sort_by_key(|one| one.weight);
    HealthReport {
        live: of.iter().all(|one| one.weight != Weight::Hung),
        ready: of.is_empty(),
        reasons: of.iter().map(|one| one.trouble.text.clone()).collect(),
    }
}

/// What that comes to for people.
fn told(mut found: Vec<Found>) -> Vec<TroubleReport> {
    found.sort_by_key(|one| (one.trouble.tone, one.weight));
    let more = found.len().saturating_sub(TROUBLES);
    if more > 0 {
        let last = found.get(TROUBLES - 1).map(|one| one.trouble.tone);
        found.truncate(TROUBLES - 1);
        let text = format!("and {} more", more + 1);
        let tone = last.unwrap_or(Tone::Warn);
        found.push(Found::new(Weight::Told, tone, (PlaceKind::Host, ""), text));
    }
    found.into_iter().map(|one| one.trouble).collect()
}

/// Of a host that does not run yet, or runs no more: what its health says.
pub(crate) fn troubles_of(health: &HealthReport) -> Vec<TroubleReport> {
    let tone = match health.live {
        true => Tone::Warn,
        false => Tone::Bad,
    };
    let found = health.reasons.iter();
    let found = found.map(|why| Found::new(Weight::Told, tone, (PlaceKind::Host, ""), why.clone()));
    told(found.collect())
}

#[cfg(test)]
mod tests;
