//! A run: its workers, started and joined.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use tidegate_contract::{CommitLog, Cut, Recovered, Sink, SinkPosition, SlotVersion};
use tidegate_telemetry::Meters;

use crate::committer::{Committer, CountedAgain, Counts};
use crate::entry;
use crate::error::FlowError;
use crate::output::Output;
use crate::topology::{Source, StageKind, Topology};
use crate::worker::{Control, Shared, Worker};

/// The ports of one worker. Its sinks have been recovered.
pub struct WorkerParts {
    /// One for each source of the topology, in its order.
    pub sources: Vec<Box<dyn tidegate_contract::Source>>,
    /// One for each sink of the topology, in its order.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Dead letters.
    pub dead: Box<dyn Sink>,
}

/// A run that has been started.
pub struct Run {
    workers: Vec<JoinHandle<Result<(), FlowError>>>,
    shared: Arc<Shared>,
    controls: Controls,
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
        let mut restored: HashMap<(String, u32), Vec<entry::Restored>> = HashMap::new();
        let last_entry = recovered.in_flight.iter().map(|logged| logged.number).max();
        let mut in_flight = 0;
        for mut entry in entry::decode_all(&recovered.in_flight).map_err(FlowError::State)? {
            if topology.stage(&entry.stage).is_none() || topology.source(&entry.source).is_none() {
                return Err(FlowError::State(format!(
                    "records of source {} wait in flight for stage {}, and the pipeline no longer has both; \
                     bring them back, let the pipeline finish, then remove them",
                    entry.source, entry.stage
                )));
            }
            let gone = |source: &Source| {
                source.positions_in_log && entry.partition as usize >= source.identities.len()
            };
            if topology
                .source(&entry.source)
                .is_some_and(|index| gone(&topology.sources[index]))
            {
                return Err(FlowError::State(format!(
                    "records of partition {} of source {} wait in flight, and the source no longer has it; \
                     bring its file back, let the pipeline finish, then remove it",
                    entry.partition, entry.source
                )));
            }
            if let Some(index) = topology.source(&entry.source) {
                same_input(&topology.sources[index], &entry, &recovered)?;
                entry.waits.come_from(index as u16).map_err(|why| {
                    FlowError::State(format!("in-flight entry {}: {why}", entry.number))
                })?;
            }
            in_flight += entry.waits.len();
            restored
                .entry((entry.source.clone(), entry.partition))
                .or_default()
                .push(entry);
        }
        let positions = recovered
            .sources
            .iter()
            .map(|known| {
                (
                    (known.source.clone(), known.partition),
                    (known.position, known.identity.clone()),
                )
            })
            .collect();
        for known in &recovered.sources {
            let renamed = topology
                .sources
                .iter()
                .find(|now| now.identities.contains(&known.identity));
            if let (None, Some(now)) = (topology.source(&known.source), renamed) {
                return Err(FlowError::State(format!(
                    "{} was read as source {} and would be read again from its beginning as {}; \
                     give the source its old name, or begin with a new state directory and new output",
                    known.identity, known.source, now.name
                )));
            }
        }
        let counts = Counts::begin(&recovered, &topology.sources)?;
        begin(&workers, log.as_ref(), &recovered)?;
        meters.add_in_flight(in_flight as i64);
        let shared = Arc::new(Shared {
            topology: topology.clone(),
            committer: Committer::new(topology.clone(), log, counts, recovered.slots.clone()),
            next_entry: AtomicU64::new(last_entry.unwrap_or(0) + 1),
            next_request: AtomicU64::new(1),
            positions,
            restored: Mutex::new(restored),
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            began_with: counts,
        });
        let mut run = Run {
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
            let output = Output {
                topology: topology.clone(),
                unsettled: vec![0; parts.sinks.len()],
                sinks: parts.sinks,
                dead: parts.dead,
                meters: meters.clone(),
                latency: meters.latency_recorder(),
                counts: Counts::default(),
                abandoned: CountedAgain::default(),
                finished: Vec::new(),
            };
            let worker = Worker::new(number, run.shared.clone(), parts.sources, output, controls);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || guard(number, worker))
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
    pub fn join(self) -> Ended {
        let mut error = None;
        for (worker, thread) in self.workers.into_iter().enumerate() {
            let result = thread.join().unwrap_or_else(|_| {
                Err(FlowError::Worker {
                    worker,
                    why: "its thread panicked".to_owned(),
                })
            });
            if let Err(failure) = result {
                error.get_or_insert(failure);
            }
        }
        if error.is_none()
            && let Err(failure) = self.shared.committer.end()
        {
            error = Some(failure);
        }
        Ended {
            counts: self.shared.committer.total(),
            error,
        }
    }
}

impl Controls {
    /// Ends the run after its last cut. What is in flight stays in the commit log where that holds it, and is waited for
    /// otherwise.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn is_stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// What the cuts so far add up to.
    pub fn committed(&self) -> Counts {
        self.shared.committer.total()
    }

    /// What the cuts of earlier runs add up to. With what the meters of this run count, it is what became of all records
    /// since the state directory was made.
    pub fn restored(&self) -> Counts {
        self.shared.began_with
    }

    /// The components that the last cut named, by slot: what a restart would begin with.
    pub fn committed_slots(&self) -> Vec<SlotVersion> {
        self.shared.committer.slots()
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
        self.shared.committer.deployed(stage, &version)?;
        Ok(report)
    }
}

/// A record that waits goes on only where it was read: its offset is a byte of a file, and means nothing in another one,
/// in a topic or in standard input. Its entry has what was read; entries from before that was part of them are those of
/// the position in the log, which standard input has none of.
fn same_input(
    source: &Source,
    entry: &entry::Restored,
    recovered: &Recovered,
) -> Result<(), FlowError> {
    let position = || {
        let mut known = recovered.sources.iter();
        known.find(|known| known.source == entry.source && known.partition == entry.partition)
    };
    let was = entry
        .input
        .as_deref()
        .or_else(|| position().map(|known| known.identity.as_str()));
    let now = source.identity(entry.partition);
    let same = match was {
        Some(was) => now.is_none_or(|now| now == was),
        None => !source.positions_in_log,
    };
    let was = was.unwrap_or("standard input");
    // Records of topics do not wait in the log.
    if same && source.durable_in_flight {
        return Ok(());
    }
    Err(FlowError::State(format!(
        "records of source {} wait in flight that were read from {was}, and it now reads {}; \
         bring its old input back, let the pipeline finish, then change it",
        source.name,
        now.unwrap_or("something else"),
    )))
}

/// Tells the commit log of sinks and files it does not know, or knows as left, before they have any output: a crash
/// before the first cut then leaves a file that recovery knows how to cut. So does a cut after one that ended a run.
fn begin(
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
        .filter(|position| recovered.sink(&position.sink) != Some(position))
        .collect();
    if !sinks.is_empty() || recovered.ended {
        log.commit(&Cut {
            sinks,
            ..Cut::default()
        })?;
    }
    Ok(())
}

/// Runs a worker; its failure, or its panic, ends the others too.
fn guard(number: usize, mut worker: Worker) -> Result<(), FlowError> {
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
    shared.committer.set_running(number, Vec::new());
    if let Err(error) = &result {
        tracing::error!(worker = number, %error, "worker failed");
        shared.failed.store(true, Ordering::Relaxed);
    }
    result
}
