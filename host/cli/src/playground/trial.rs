//! A record that is tried: it goes through the pipeline as every other one does, by the same code, with instances of its
//! operators' own, and is written nowhere. Beside each stage stands a sink that shows what leaves it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use tidegate_contract::{AuditLog, CommitPoint, OperatorError, Recovered, Sink, Slot as _, Source};
use tidegate_control::config::SinkKind;
use tidegate_control::{
    Hearer, MAX_TRIED_SECONDS, PlaygroundRefused, TriedRecord, TriedStage, TryRecord,
};
use tidegate_flow::{Ask, Positions, Run, Stage, StageKind, Target, Topology, WorkerParts};
use tidegate_operator::{ComponentSlot, Ending};
use tidegate_state::LogCommitter;
use tidegate_telemetry::Meters;

use super::lent::Loans;
use super::ports::{Forgetful, Forwarded, One};
use super::taps::{At, Gathered, Lines, Seen, Tap};
use super::watch::{DRAIN, OwnRun, QUESTIONS, TICK, Watch};
use super::{Playground, count};
use crate::wire;

/// A trial that is under way.
struct Trial<'a> {
    playground: &'a Playground,
    watch: &'a Watch,
    /// Slots with the revisions that run, and what is said in them.
    slots: Vec<(Arc<ComponentSlot>, Arc<Lines>)>,
}

impl Playground {
    /// Tries a record on what the slots run now. One at a time: each has instances and threads of its own.
    pub(crate) fn try_record<'s>(
        &self,
        slots: impl Iterator<Item = &'s Arc<ComponentSlot>>,
        record: &TryRecord,
        hearer: &dyn Hearer,
    ) -> Result<TriedRecord, PlaygroundRefused> {
        let sources = &self.pipeline.sources;
        let Some(source) = sources.iter().position(|one| one.name == record.source) else {
            return Err(PlaygroundRefused::Unknown {
                kind: "source",
                name: record.source.clone(),
                known: sources.iter().map(|one| one.name.clone()).collect(),
            });
        };
        let began = Instant::now();
        let seconds = record.seconds.unwrap_or(MAX_TRIED_SECONDS);
        let patience = Duration::from_secs(seconds.into());
        // After it was looked at, so that it is said why.
        let until = began + patience + DRAIN;
        let watch = Watch {
            controls: self.controls.clone(),
            seen: Gathered::default(),
            loans: Loans::new(QUESTIONS, until, self.tokens.clone()),
            ending: Arc::new(Ending::at(until)),
            began,
            patience,
            own: OnceLock::new(),
            ended: OnceLock::new(),
        };
        let (under_way, ends) = mpsc::channel::<()>();
        let tried = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("trial".into());
            let watch = &watch;
            let watcher = thread.spawn_scoped(scope, move || watch.until_it_ends(&ends, hearer));
            watcher.map_err(|error| refused(&error))?;
            let tried = watch.try_it(self, slots, (source, record));
            drop(under_way);
            tried
        });
        watch.loans.call_in();
        let mut tried = match (tried, watch.ended.get()) {
            // What was ended could not start.
            (Err(Stopped::AtStart(_)), Some(_)) => Ok(TriedRecord::default()),
            (tried, _) => tried.map_err(|stopped| match stopped {
                Stopped::AtStart(error) => refused(&error),
                Stopped::Refused(refused) => refused,
            }),
        };
        if let Ok(tried) = &mut tried {
            tried.ended = watch.ended.get().map(|ended| ended.why.words());
            tried.ms = began.elapsed().as_secs_f64() * 1e3;
        }
        count(match (&tried, watch.ended.get()) {
            (_, Some(ended)) if ended.why.is_left() => &self.records.left,
            _ if !hearer.is_there() => &self.records.left,
            (Ok(_), None) => &self.records.answered,
            _ => &self.records.failed,
        });
        tried
    }
}

/// Why nothing came of it.
enum Stopped {
    /// An operator could not be started.
    AtStart(OperatorError),
    Refused(PlaygroundRefused),
}

impl From<PlaygroundRefused> for Stopped {
    fn from(refused: PlaygroundRefused) -> Stopped {
        Stopped::Refused(refused)
    }
}

fn refused(error: &dyn Display) -> PlaygroundRefused {
    PlaygroundRefused::Refused(error.to_string())
}

impl Watch {
    fn try_it<'s>(
        &self,
        playground: &Playground,
        slots: impl Iterator<Item = &'s Arc<ComponentSlot>>,
        record: (usize, &TryRecord),
    ) -> Result<TriedRecord, Stopped> {
        let slots = slots.map(|slot| {
            let lines = Arc::new(Lines::default());
            let beside = slot.beside(lines.clone(), self.ending.clone());
            Ok((Arc::new(beside.map_err(Stopped::AtStart)?), lines))
        });
        let trial = Trial {
            playground,
            watch: self,
            slots: slots.collect::<Result<_, Stopped>>()?,
        };
        Ok(trial.run(record)?)
    }
}

impl Trial<'_> {
    fn run(&self, (source, record): (usize, &TryRecord)) -> Result<TriedRecord, PlaygroundRefused> {
        let pipeline = &self.playground.pipeline;
        let mut topology = self.topology()?;
        let sinks = self.taps(&mut topology, record.ask)?;
        let decoding = wire::decoder(&pipeline.sources[source].decoding);
        let mut given = Some((decoding, record.clone()));
        let ports = (0..topology.sources.len()).map(|index| -> Box<dyn Source> {
            let record = given.take_if(|_| index == source);
            Box::new(One::new(index as u16, record, self.watch.seen.clone()))
        });
        let log = Arc::new(Forgetful::default());
        let number = self.playground.next.fetch_add(1, Ordering::Relaxed);
        let trial = self.playground.name("record", number);
        let audit = self.playground.audit.clone();
        let audit = audit.map(|door| Box::new(Forwarded { door, trial }) as Box<dyn AuditLog>);
        let parts = WorkerParts {
            sources: ports.collect(),
            sinks,
            dead: Box::new(self.tap(At::Read)),
            seal: None,
            audit,
            committer: Box::new(LogCommitter::alone(log.clone())),
        };
        let stages = pipeline.stages.iter().map(|stage| stage.name.as_str());
        let meters = Arc::new(Meters::new("playground", stages).beside());
        let parts = vec![parts];
        let of_models = |stage: &Stage| matches!(stage.kind, StageKind::Model(_));
        let asks = topology.stages.iter().map(of_models).collect();
        let run = Run::start(topology, parts, log, Recovered::default(), meters.clone());
        let run = run.map_err(|error| refused(&error))?;
        let own = OwnRun {
            meters: meters.clone(),
            controls: run.controls(),
            asks,
        };
        // The one place where it is set.
        let _ = self.watch.own.set(own);
        while !run.is_finished() && self.watch.ended.get().is_none() {
            std::thread::sleep(TICK);
        }
        run.controls().stop();
        // It waits for no operator: those that were ended are no longer called.
        if let Some(error) = run.join().error
            // What was ended has no more to say: a question that was called in is no failure.
            && self.watch.ended.get().is_none()
        {
            return Err(refused(&error));
        }
        Ok(self.told(&meters, self.watch.seen.take()))
    }

    /// That of the stream, with these slots, and models behind what the stream asks them.
    fn topology(&self) -> Result<Topology, PlaygroundRefused> {
        let pipeline = &self.playground.pipeline;
        let mut read = wire::sources(pipeline, None, &[], "");
        for source in &mut read {
            source.called = false;
            source.fixed = false;
            source.positions = Positions::Nobody;
            source.identities = vec!["the playground".to_owned()];
        }
        let slots: Vec<_> = self.slots.iter().map(|(slot, _)| slot.clone()).collect();
        let configured = slots.iter().map(|slot| slot.version().digest.clone());
        let configured: Vec<_> = configured.collect();
        let served = &self.playground.served;
        let topology = wire::topology(pipeline, read, &slots, &configured, served, &[], None);
        let mut topology =
            topology.map_err(|error| PlaygroundRefused::Refused(format!("{error:#}")))?;
        topology.commit_point = CommitPoint::Log;
        topology.drain = DRAIN;
        for stage in &mut topology.stages {
            if let StageKind::Model(kind) = &mut stage.kind {
                kind.model = self.watch.loans.lend(&kind.model);
                for other in &mut kind.alternatives {
                    other.model = self.watch.loans.lend(&other.model);
                }
            }
        }
        Ok(topology)
    }

    fn tap(&self, at: At) -> Tap {
        Tap {
            at,
            seen: self.watch.seen.clone(),
            encoder: None,
        }
    }

    /// Every sink shows what it is given, and so does one beside each source and each output of a stage.
    fn taps(
        &self,
        topology: &mut Topology,
        asks: bool,
    ) -> Result<Vec<Box<dyn Sink>>, PlaygroundRefused> {
        let pipeline = &self.playground.pipeline;
        let names = pipeline.sources.iter().map(|source| source.name.clone());
        let names: Vec<String> = names.collect();
        let mut taps = Vec::new();
        for sink in &pipeline.sinks {
            let mut tap = self.tap(At::Sink(sink.name.clone()));
            let lines = match sink.kind {
                SinkKind::File { .. } | SinkKind::Stdout | SinkKind::Output { .. } => true,
                SinkKind::Kafka(_) | SinkKind::Gateway { .. } => false,
            };
            if lines {
                let encoder = wire::encoder(&sink.encoding, names.clone());
                tap.encoder = Some(encoder.map_err(|error| refused(&error))?);
            }
            taps.push(tap);
        }
        let mut beside = |targets: &mut Vec<Target>, at: At| {
            targets.push(Target::Sink(taps.len()));
            taps.push(self.tap(at));
        };
        for source in &mut topology.sources {
            beside(&mut source.targets, At::Read);
        }
        let mut slots = self.slots.iter();
        for (index, stage) in topology.stages.iter_mut().enumerate() {
            beside(&mut stage.targets, At::Left(index, String::new()));
            if let StageKind::Operator(operator) = &mut stage.kind
                && let Some((slot, _)) = slots.next()
            {
                for output in &slot.version().outputs {
                    operator.named.entry(output.clone()).or_default();
                }
            }
            for (output, targets) in named(&mut stage.kind).into_iter().flatten() {
                beside(targets, At::Left(index, output.clone()));
            }
        }
        if !asks {
            let mut unasked = BTreeMap::new();
            for (index, stage) in topology.stages.iter().enumerate() {
                if matches!(stage.kind, StageKind::Model(_)) {
                    unasked.insert(index, Target::Sink(taps.len()));
                    taps.push(self.tap(At::Before(index)));
                }
            }
            redirect(topology, &unasked);
        }
        let more = topology.sinks.len()..taps.len();
        topology
            .sinks
            .extend(more.map(|number| format!("tap {number}")));
        let sinks = taps.into_iter().map(|tap| Box::new(tap) as Box<dyn Sink>);
        Ok(sinks.collect())
    }

    /// What was seen, by stages.
    fn told(&self, meters: &Meters, seen: Seen) -> TriedRecord {
        let mut tried = TriedRecord {
            dead: seen.dead,
            cut: seen.cut,
            rows_left_out: seen.rows_left_out,
            ..TriedRecord::default()
        };
        let stages = meters.stages().iter().enumerate();
        let mut stages: Vec<TriedStage> = stages
            .map(|(index, stage)| {
                let before = seen.before.get(&index).copied();
                TriedStage {
                    name: stage.name.clone(),
                    input: before.unwrap_or(stage.records_in.get()),
                    dropped: stage.records_dropped.get(),
                    dead: stage.records_dead.get(),
                    retried: stage.records_retried.get(),
                    ms: stage.time.spread().sum * 1e3,
                    unasked: before.is_some(),
                    ..TriedStage::default()
                }
            })
            .collect();
        for (slot, lines) in &self.slots {
            if let Some(stage) = stages.iter_mut().find(|stage| stage.name == slot.name()) {
                let version = slot.version();
                stage.operator = Some((version.name.clone(), version.version.clone()));
                (stage.log, stage.log_left_out) = lines.take();
            }
        }
        let ended = self.watch.ended.get();
        for (index, waited) in ended.iter().flat_map(|ended| &ended.waits) {
            if let Some(stage) = stages.get_mut(*index) {
                stage.waits = Some(waited.clone());
            }
        }
        for (at, value) in seen.records {
            match at {
                At::Read => tried.read.push(value),
                At::Sink(_) => tried.written.push(value),
                At::Left(stage, _) => {
                    if let Some(stage) = stages.get_mut(stage) {
                        stage.output.push(value);
                    }
                }
                At::Before(_) => {}
            }
        }
        // Those that the record did not come to say nothing.
        stages.retain(|stage| stage.input > 0 || stage.dead > 0 || stage.waits.is_some());
        tried.stages = stages;
        tried
    }
}

/// What would go to these stages goes elsewhere.
fn redirect(topology: &mut Topology, elsewhere: &BTreeMap<usize, Target>) {
    let turn = |target: &mut Target| {
        if let Target::Stage(stage) = target
            && let Some(other) = elsewhere.get(stage)
        {
            *target = *other;
        }
    };
    for source in &mut topology.sources {
        source.targets.iter_mut().for_each(turn);
    }
    for stage in &mut topology.stages {
        stage.targets.iter_mut().for_each(turn);
        let named = named(&mut stage.kind).into_iter();
        named
            .flat_map(BTreeMap::values_mut)
            .flatten()
            .for_each(turn);
    }
}

/// Who takes the named outputs of a stage, if it has such.
fn named(kind: &mut StageKind) -> Option<&mut BTreeMap<String, Vec<Target>>> {
    match kind {
        StageKind::Operator(operator) => Some(&mut operator.named),
        StageKind::Model(model) => match &mut model.ask {
            Ask::Classify { routes, .. } => Some(routes),
            _ => None,
        },
    }
}
