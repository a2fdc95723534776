//! A run: its workers, started and joined.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::Sender;
use tidegate_contract::{
    AuditLog, CommitLog, Committer, Cut, LetterSeal, Recovered, Sink, SinkPosition, SlotVersion,
    Store, TaskId, TaskImage,
};
use tidegate_telemetry::Meters;
use tidegate_telemetry::events::WorkerFailed;

use crate::audit::Audit;
use crate::begin::{self, Known, Stored};
use crate::counts::Counts;
use crate::error::FlowError;
use crate::feeding::Attempts;
use crate::kept;
use crate::ledger::Ledger;
use crate::output::Output;
use crate::pulse::{Pulse, WorkerHealth};
use crate::topology::{Positions, StageKind, Topology};
use crate::worker::{Control, Shared, Worker};

/// The ports of one worker. Its sinks have been recovered.
pub struct WorkerParts {
    /// One for each source of the topology, in its order.
    pub sources: Vec<Box<dyn tidegate_contract::Source>>,
    /// One for each sink of the topology, in its order.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Dead letters.
    pub dead: Box<dyn Sink>,
    /// With what dead letters keep private attributes; without, they say only how many there were.
    pub seal: Option<LetterSeal>,
    /// Where it is written who was answered what, if it is.
    pub audit: Option<Box<dyn AuditLog>>,
    /// Takes its cuts.
    pub committer: Box<dyn Committer>,
}

/// A run that has been started.
pub struct Run {
    /// Each ends with where the files of its sinks do.
    workers: Vec<JoinHandle<Result<Vec<SinkPosition>, FlowError>>>,
    shared: Arc<Shared>,
    controls: Controls,
    audit: Audit,
}

/// What can be asked of a run from other threads.
#[derive(Clone)]
pub struct Controls {
    workers: Vec<Sender<Control>>,
    shared: Arc<Shared>,
}

/// How a deployment went through the tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwitchReport {
    /// Tasks whose instance was replaced, or was the current version's already. One that has seen no record has none
    /// yet.
    pub tasks: usize,
    /// Longest time a task could not take a batch because of it.
    pub longest_wait: Duration,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// What became of all records since the state directory was made, as the commit log has it.
    pub counts: Counts,
    /// Why it ended early, if it did.
    pub error: Option<FlowError>,
}

impl Run {
    /// Starts one thread for each of `workers`.
    pub fn start(
        topology: Topology,
        workers: Vec<WorkerParts>,
        log: Arc<dyn CommitLog>,
        recovered: Recovered,
        meters: Arc<Meters>,
    ) -> Result<Run, FlowError> {
        let topology = Arc::new(topology);
        let mut waited = HashMap::new();
        for (task, image) in &recovered.tasks {
            let records = begins(&topology, &workers, task, image)?;
            if records > 0 {
                waited.insert(task.clone(), records as usize);
            }
        }
        name_sinks(&workers, log.as_ref(), &recovered)?;
        meters.add_in_flight(waited.values().sum::<usize>() as i64);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let shared = Arc::new(Shared {
            topology: topology.clone(),
            ledger: Ledger::new(topology.clone(), log, &recovered),
            next_request: AtomicU64::new(
                (since_epoch.unwrap_or_default().as_millis() as u64) << 20,
            ),
            attempts: Attempts::default(),
            waited: Mutex::new(waited),
            pulses: workers.iter().map(|_| Arc::new(Pulse::new())).collect(),
            stop: AtomicBool::new(false),
            will_stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        });
        let audit = workers.first().and_then(|parts| parts.audit.as_ref());
        let mut run = Run {
            audit: Audit::new(audit.map(|audit| audit.sibling())),
            workers: Vec::new(),
            controls: Controls {
                workers: Vec::new(),
                shared: shared.clone(),
            },
            shared,
        };
        for (number, parts) in workers.into_iter().enumerate() {
            let (sender, controls) = crossbeam_channel::bounded(16);
            run.controls.workers.push(sender);
            let mut output = Output::new(topology.clone(), parts.sinks, parts.dead, meters.clone());
            output.audit = Audit::new(parts.audit);
            output.seal = parts.seal;
            if let Some(pulse) = run.shared.pulses.get(number) {
                output.pulse = pulse.clone();
            }
            let worker = Worker::new(
                number,
                run.shared.clone(),
                parts.sources,
                output,
                parts.committer,
                controls,
            );
            let meters = meters.clone();
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || guard(number, worker, &meters))
                .map_err(|error| FlowError::Worker {
                    worker: number,
                    why: error.to_string(),
                })?;
            run.workers.push(thread);
        }
        Ok(run)
    }

    /// The handle for other threads.
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Whether every worker has ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Waits until every worker has ended.
    pub fn join(mut self) -> Ended {
        let (mut error, mut files) = (None, Vec::new());
        for (worker, thread) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let result = thread.join().unwrap_or_else(|_| {
                Err(FlowError::Worker {
                    worker,
                    why: "its thread panicked".to_owned(),
                })
            });
            match result {
                Ok(of_worker) => furthest(&mut files, of_worker),
                Err(failure) => drop(error.get_or_insert(failure)),
            }
        }
        if error.is_none()
            && let Err(failure) = self.end(files)
        {
            error = Some(failure);
        }
        Ended {
            counts: self.shared.ledger.total(),
            error,
        }
    }

    /// All workers have ended in order, and left the files of their sinks so.
    fn end(&mut self, mut files: Vec<SinkPosition>) -> Result<(), FlowError> {
        files.extend(self.audit.end()?);
        self.shared.ledger.end(files)?;
        self.audit.logged();
        Ok(())
    }
}

impl Controls {
    /// Ends the run after its last cut. What is in flight stays in the commit log where that holds it, and is waited for
    /// otherwise.
    pub fn stop(&self) {
        self.will_stop();
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// It will be told to end: from now on it is said to be ending, and goes on until then.
    pub fn will_stop(&self) {
        self.shared.will_stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end: it was told so, or a worker has failed.
    pub fn is_stopping(&self) -> bool {
        let Shared {
            will_stop, failed, ..
        } = &*self.shared;
        will_stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)
    }

    /// How each worker stands.
    pub fn health(&self) -> Vec<WorkerHealth> {
        self.shared
            .pulses
            .iter()
            .map(|pulse| pulse.health())
            .collect()
    }

    /// The name of a source.
    pub fn source_name(&self, source: usize) -> &str {
        let source = self.shared.topology.sources.get(source);
        source.map_or("", |source| source.name.as_str())
    }

    /// What the cuts so far add up to.
    pub fn committed(&self) -> Counts {
        self.shared.ledger.total()
    }

    /// What tasks had done before they came here: the meters of this run do not count it. With what they do, less
    /// [`taken_back`](Controls::taken_back), it is what became of all records of the tasks that are known here.
    pub fn restored(&self) -> Counts {
        self.shared.ledger.beside_meters().0
    }

    /// What the meters of this run count, and no cut has: it was done again.
    pub fn taken_back(&self) -> Counts {
        self.shared.ledger.beside_meters().1
    }

    /// The components that the last cut named, by slot: what a restart would begin with.
    pub fn committed_slots(&self) -> Vec<SlotVersion> {
        self.shared.ledger.slots()
    }

    /// Makes every task run the current version of a stage, at its next batch boundary, and the log name it. Waits until
    /// all do, at most until `deadline`. After an error the log names what it named before.
    pub fn switch(&self, stage: &str, deadline: Duration) -> Result<SwitchReport, String> {
        let stage = self
            .shared
            .topology
            .stage(stage)
            .ok_or_else(|| format!("there is no stage {stage}"))?;
        let StageKind::Operator(kind) = &self.shared.topology.stages[stage].kind else {
            return Err(format!("stage {stage} runs no operator"));
        };
        let version = kind.slot.version();
        let until = Instant::now() + deadline;
        let (reply, answers) = crossbeam_channel::bounded(self.workers.len().max(1));
        let mut asked = 0;
        for worker in &self.workers {
            let control = Control::Switch {
                stage,
                reply: reply.clone(),
            };
            // A worker that has ended has no task to switch.
            asked += usize::from(worker.send_deadline(control, until).is_ok());
        }
        drop(reply);
        let mut report = SwitchReport::default();
        for _ in 0..asked {
            let switched = match answers.recv_deadline(until) {
                Ok(result) => result?,
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => break,
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                    return Err(format!("not every task has switched after {deadline:?}"));
                }
            };
            report.tasks += switched.tasks;
            report.longest_wait = report.longest_wait.max(switched.longest_wait);
        }
        self.shared.ledger.deployed(stage, &version)?;
        Ok(report)
    }
}

/// Adds where files end. Workers append to the same ones in turns: of several ends the last one is it.
fn furthest(files: &mut Vec<SinkPosition>, of_worker: Vec<SinkPosition>) {
    for file in of_worker {
        let same = |known: &&mut SinkPosition| {
            (&known.sink, &known.identity) == (&file.sink, &file.identity)
        };
        match files.iter_mut().find(same) {
            Some(known) => known.length = known.length.max(file.length),
            None => files.push(file),
        }
    }
}

/// How many records of a task wait that begins here whatever others do: of files. Refuses it where it could not begin, and
/// what the pipeline no longer has. Of a partition that comes and goes others may have done what waits.
fn begins(
    topology: &Topology,
    workers: &[WorkerParts],
    task: &TaskId,
    image: &TaskImage,
) -> Result<u64, FlowError> {
    let restored = kept::restore(image.entries.clone()).map_err(FlowError::State)?;
    let log = Stored {
        image,
        records: kept::records(&restored),
    };
    begin::left_over(topology, task, log).map_err(FlowError::State)?;
    let source = topology.source(&task.source);
    let source = source.and_then(|index| topology.sources.get(index));
    if let Some(source) = source {
        let identity = source.identity(task.partition).unwrap_or_default();
        begin::waits_of_another(task, identity, log).map_err(FlowError::State)?;
    }
    let keeper = workers
        .first()
        .map(|parts| parts.committer.keeper(&task.source))
        .unwrap_or_default();
    let (Some(source), Store::Log) = (source, &keeper.store) else {
        return Ok(0);
    };
    if source.positions == Positions::CutsAndSource {
        return Ok(0);
    }
    let identity = source.identity(task.partition).unwrap_or_default();
    let known = Known {
        task,
        identity,
        fixed: source.fixed,
        keeper: &keeper,
        kept: None,
        log: Some(log),
        changelog: None,
        former: None,
    };
    begin::begin(&known).map_err(FlowError::State)?;
    let gone = |one: &&kept::Restored| topology.stage(&one.stage).is_none();
    if let Some(gone) = restored.iter().find(gone) {
        return Err(FlowError::State(format!(
            "records of source {} wait in flight for stage {}, and the pipeline no longer has both; bring them back, let \
             the pipeline finish, then remove them",
            task.source, gone.stage
        )));
    }
    Ok(log.records)
}

/// Tells the commit log of sinks and files it does not know, or knows as left, before they have any output: a crash
/// before the first cut then leaves a file that recovery knows how to cut. So does a cut after one that ended a run.
fn name_sinks(
    workers: &[WorkerParts],
    log: &dyn CommitLog,
    recovered: &Recovered,
) -> Result<(), FlowError> {
    let Some(parts) = workers.first() else {
        return Ok(());
    };
    let sinks: Vec<SinkPosition> = parts
        .sinks
        .iter()
        .chain([&parts.dead])
        .filter_map(|sink| sink.position())
        .chain(parts.audit.iter().filter_map(|audit| audit.position()))
        .filter(|position| recovered.sink(&position.sink) != Some(position))
        .collect();
    if !sinks.is_empty() {
        log.commit(&Cut {
            sinks,
            ..Cut::default()
        })?;
    }
    Ok(())
}

/// Runs a worker; its failure, or its panic, ends the others too.
fn guard(
    number: usize,
    mut worker: Worker,
    meters: &Meters,
) -> Result<Vec<SinkPosition>, FlowError> {
    let _marked = meters.marks();
    let shared = worker.shared.clone();
    let result = catch_unwind(AssertUnwindSafe(|| worker.run())).unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("panic")
            .to_owned();
        Err(FlowError::Worker {
            worker: number,
            why,
        })
    });
    // Its tasks run nothing any more: what the others run is what all run.
    shared.ledger.set_running(number, Vec::new());
    if let Some(pulse) = shared.pulses.get(number) {
        pulse.ended();
    }
    if let Err(error) = &result {
        WorkerFailed {
            worker: number,
            error,
        }
        .emit(meters);
        shared.failed.store(true, Ordering::Relaxed);
    }
    result.map(|()| worker.files())
}
