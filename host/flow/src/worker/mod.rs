//! A worker: the thread that owns sources, sinks and tasks, and takes their cuts.

mod cut;
mod submit;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use tidegate_contract::{Answer, Made, ModelError, Partition, Reply, SourceEvent};
use tidegate_telemetry::Meters;

use crate::committer::{Committer, Counts};
use crate::entry::{Restored, Tokens};
use crate::error::FlowError;
use crate::output::Output;
use crate::running::Runs;
use crate::task::{Starts, Task};
use crate::topology::Topology;

/// Most requests of one worker that are with models at once; the channel for their answers is as long, so that an
/// answer always has room.
const MAX_SUBMITTED: usize = 4096;
/// Longest wait for input or an answer before timers and controls are looked at.
const PATIENCE: Duration = Duration::from_millis(10);

/// After so long with answers, or with what waits in tasks, cuts, controls and sources are looked at again.
const TURN: Duration = Duration::from_millis(100);

/// What a worker shares with the others of its run.
pub(crate) struct Shared {
    pub topology: Arc<Topology>,
    pub committer: Committer,
    /// Number of the next in-flight entry.
    pub next_entry: AtomicU64,
    /// Number of the next request.
    pub next_request: AtomicU64,
    /// Positions of the commit log, by source name and partition: position and identity.
    pub positions: HashMap<(String, u32), (u64, String)>,
    /// In-flight entries of the commit log that no task has taken yet.
    pub restored: Mutex<HashMap<(String, u32), Vec<Restored>>>,
    /// Set when the run is to end before its input does.
    pub stop: AtomicBool,
    /// Set when a worker failed: the others end without waiting.
    pub failed: AtomicBool,
    /// The counts of the commit log when the run began.
    pub began_with: Counts,
}

/// What a worker is told.
pub(crate) enum Control {
    /// Every task runs the stage's current component from its next batch on.
    Switch {
        stage: usize,
        reply: Sender<Result<Switched, String>>,
    },
}

/// How a worker's tasks switched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switched {
    pub tasks: usize,
    pub longest_wait: Duration,
}

/// An answer on its way from the engine to a task.
pub(crate) struct Completion {
    partition: Partition,
    stage: usize,
    number: u64,
    request: u64,
    result: Result<Answer, ModelError>,
}

/// Where the engine sends the answer to a request: to the task that waits for it.
struct TaskReply {
    sender: Sender<Completion>,
    partition: Partition,
    stage: usize,
    number: u64,
    request: u64,
    tokens: Tokens,
    meters: Arc<Meters>,
}

impl Reply for TaskReply {
    fn token(&mut self, _index: u32, token: u32, _text: &str) {
        self.tokens.push(token);
        self.meters.add_tokens(1);
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let TaskReply {
            sender,
            partition,
            stage,
            number,
            request,
            meters,
            ..
        } = *self;
        if let Ok(Answer {
            made: Made::Choices(choices),
            ..
        }) = &result
        {
            // Tokens of the first came one by one.
            let others = choices.iter().skip(1).map(|choice| choice.tokens.len());
            meters.add_tokens(others.sum::<usize>() as u64);
        }
        // Only fails when the worker has ended, and then nobody waits for it.
        let _ = sender.try_send(Completion {
            partition,
            stage,
            number,
            request,
            result,
        });
    }
}

/// A worker.
pub(crate) struct Worker {
    pub number: usize,
    pub shared: Arc<Shared>,
    pub sources: Vec<Box<dyn tidegate_contract::Source>>,
    pub output: Output,
    pub controls: Receiver<Control>,
    tasks: BTreeMap<Partition, Task>,
    sender: Sender<Completion>,
    completions: Receiver<Completion>,
    submitted: usize,
    /// Which partition is first in asking models.
    turn: usize,
    /// The first of the tasks that have not had their turn.
    next: Option<Partition>,
    /// Sources that have said which partitions are read here.
    assigned: Vec<bool>,
    last_cut: Instant,
    /// Records of this worker that the meters count as in flight.
    shown: usize,
    /// What its tasks know of starts that failed.
    starts: Arc<Starts>,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        sources: Vec<Box<dyn tidegate_contract::Source>>,
        output: Output,
        controls: Receiver<Control>,
    ) -> Worker {
        let (sender, completions) = crossbeam_channel::bounded(MAX_SUBMITTED);
        Worker {
            number,
            assigned: vec![false; sources.len()],
            starts: Arc::new(Starts::new(shared.topology.stages.len())),
            shared,
            sources,
            output,
            controls,
            tasks: BTreeMap::new(),
            sender,
            completions,
            submitted: 0,
            turn: 0,
            next: None,
            last_cut: Instant::now(),
            shown: 0,
        }
    }

    /// Runs until the input ends, the run is stopped, or something fails.
    pub(crate) fn run(&mut self) -> Result<(), FlowError> {
        let mut stopping: Option<Instant> = None;
        loop {
            if self.shared.failed.load(Ordering::Relaxed) {
                return self.close();
            }
            if stopping.is_none() && self.shared.stop.load(Ordering::Relaxed) {
                stopping = Some(Instant::now());
            }
            self.take_controls();
            let mut busy = self.take_completions()?;
            busy |= self.take_time()?;
            if stopping.is_none() {
                busy |= self.read(busy)?;
            }
            self.submit()?;
            if self.cut_is_due() {
                self.cut()?;
            }
            let in_flight = self.in_flight();
            self.output
                .meters
                .add_in_flight(in_flight as i64 - self.shown as i64);
            self.shown = in_flight;
            if self.is_done(stopping, in_flight) {
                self.cut()?;
                return self.close();
            }
            if !busy {
                self.rest(stopping.is_some());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.tasks.values().map(Task::in_flight).sum()
    }

    fn is_done(&self, stopping: Option<Instant>, in_flight: usize) -> bool {
        if let Some(since) = stopping {
            let kept = |task: &Task| task.is_durable() || task.in_flight() == 0;
            return self.tasks.values().all(kept) || since.elapsed() > self.shared.topology.drain;
        }
        self.assigned.iter().all(|assigned| *assigned)
            && in_flight == 0
            && self.tasks.values().all(|task| task.ended)
    }

    fn take_controls(&mut self) {
        while let Ok(control) = self.controls.try_recv() {
            match control {
                Control::Switch { stage, reply } => {
                    let switched = self.switch(stage);
                    self.tell_running();
                    // The one who asked may have given up.
                    let _ = reply.try_send(switched);
                }
            }
        }
    }

    /// Has every task run the stage's current version. After one that cannot start it the others are not tried: each
    /// try may take as long.
    fn switch(&mut self, stage: usize) -> Result<Switched, String> {
        let mut switched = Switched::default();
        for task in self.tasks.values_mut() {
            let waited = task.switch(stage)?;
            switched.longest_wait = switched.longest_wait.max(waited.unwrap_or_default());
            switched.tasks += usize::from(task.runs(stage).is_some());
        }
        Ok(switched)
    }

    /// Tells the committer which versions the tasks run.
    fn tell_running(&self) {
        let runs = (0..self.shared.topology.stages.len())
            .map(|stage| Runs::of(self.tasks.values().filter_map(|task| task.runs(stage))));
        self.shared
            .committer
            .set_running(self.number, runs.collect());
    }

    fn take_completions(&mut self) -> Result<bool, FlowError> {
        let began = Instant::now();
        let mut any = false;
        while (!any || began.elapsed() < TURN)
            && let Ok(completion) = self.completions.try_recv()
        {
            self.complete(completion)?;
            any = true;
        }
        Ok(any)
    }

    fn complete(&mut self, completion: Completion) -> Result<(), FlowError> {
        self.submitted = self.submitted.saturating_sub(1);
        let Completion {
            partition,
            stage,
            number,
            request,
            result,
        } = completion;
        let shared = self.shared.clone();
        let mut numbers = || shared.next_entry.fetch_add(1, Ordering::Relaxed);
        match self.tasks.get_mut(&partition) {
            Some(task) => task.on_answer(
                stage,
                number,
                request,
                result,
                &mut numbers,
                &mut self.output,
            ),
            // Its partition was taken away; whoever has it now asks again.
            None => Ok(()),
        }
    }

    fn take_time(&mut self) -> Result<bool, FlowError> {
        let shared = self.shared.clone();
        let mut numbers = || shared.next_entry.fetch_add(1, Ordering::Relaxed);
        let turn = Instant::now();
        let mut any = false;
        let waits = |task: &Task| task.in_flight() > 0 || task.is_suspended();
        let waiting = self.tasks.iter().filter(|(_, task)| waits(task));
        let mut waiting: Vec<Partition> = waiting.map(|(partition, _)| *partition).collect();
        if let Some(next) = self.next.take() {
            let before = waiting.partition_point(|partition| *partition < next);
            waiting.rotate_left(before);
        }
        for partition in waiting {
            if turn.elapsed() >= TURN {
                self.next = Some(partition);
                return Ok(true);
            }
            if let Some(task) = self.tasks.get_mut(&partition) {
                any |= task.go_on(&mut numbers, &mut self.output)?;
                any |= task.on_time(Instant::now(), &mut numbers, &mut self.output)?;
            }
        }
        Ok(any)
    }

    /// Asks every source once. Waits for input only if nothing else is to be done.
    fn read(&mut self, busy: bool) -> Result<bool, FlowError> {
        let mut any = false;
        for index in 0..self.sources.len() {
            let room = self.hold(index)?;
            let idle = !busy && !any && self.in_flight() == 0 && index + 1 == self.sources.len();
            let wait = if idle { PATIENCE } else { Duration::ZERO };
            let topology = self.shared.topology.clone();
            let records = topology.batch.min(room).max(1);
            let event = self.sources[index]
                .poll(records, topology.batch_bytes, wait)
                .map_err(|error| FlowError::Source {
                    name: topology.sources[index].name.clone(),
                    error,
                })?;
            any |= !matches!(event, SourceEvent::Idle);
            self.take_event(index, event)?;
        }
        Ok(any)
    }

    /// Pauses the partitions whose tasks are full and resumes those that have room again. Returns the least room of
    /// those that are read.
    fn hold(&mut self, source: usize) -> Result<usize, FlowError> {
        let mut least = usize::MAX;
        let port = &mut self.sources[source];
        for task in self
            .tasks
            .values_mut()
            .filter(|t| usize::from(t.partition.source) == source)
        {
            let room = task.room();
            if room > 0 {
                least = least.min(room);
            }
            if task.paused != (room == 0) {
                task.paused = room == 0;
                let result = if task.paused {
                    port.pause(task.partition)
                } else {
                    port.resume(task.partition)
                };
                result.map_err(|error| FlowError::Source {
                    name: self.shared.topology.sources[source].name.clone(),
                    error,
                })?;
            }
        }
        Ok(least)
    }

    fn take_event(&mut self, source: usize, event: SourceEvent) -> Result<(), FlowError> {
        match event {
            SourceEvent::Idle => {}
            SourceEvent::Assigned(partitions) => {
                self.assigned[source] = true;
                for partition in partitions {
                    self.open(source, partition)?;
                }
            }
            SourceEvent::Revoked(partitions) => {
                // Before the next poll the source still takes positions of theirs: what is done need not be read again.
                // One that has taken them away for good may refuse: whoever has them now reads from the last position
                // that was committed, and those of partitions that stay are committed with the next cut.
                if let Some(error) = self.cut_but(Some(source))? {
                    let name = &self.shared.topology.sources[source].name;
                    tracing::warn!(source = name, %error, "positions of revoked partitions were not committed");
                }
                for partition in partitions {
                    if let Some(task) = self.tasks.remove(&partition) {
                        let again = task.counted_again();
                        self.output.meters.add_abandoned(again.read, again.split);
                        self.output.abandoned.add(again);
                        task.abandon(&self.output.meters);
                    }
                }
                self.tell_running();
                // Without a partition this worker is not done: it may be given others.
                let reads = |partition: &Partition| usize::from(partition.source) == source;
                self.assigned[source] = self.tasks.keys().any(reads);
            }
            SourceEvent::End(partition) => {
                if let Some(task) = self.tasks.get_mut(&partition) {
                    task.ended = true;
                }
            }
            SourceEvent::Records {
                partition,
                batch,
                rejected,
                next,
            } => {
                let shared = self.shared.clone();
                let mut numbers = || shared.next_entry.fetch_add(1, Ordering::Relaxed);
                if let Some(task) = self.tasks.get_mut(&partition) {
                    task.on_records(batch, &rejected, next, &mut numbers, &mut self.output)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the task of a partition, from where the commit log left it.
    fn open(&mut self, source: usize, partition: Partition) -> Result<(), FlowError> {
        let topology = self.shared.topology.clone();
        let described = &topology.sources[source];
        let key = (described.name.clone(), partition.number);
        let mut position = None;
        if let (true, Some((at, identity))) =
            (described.positions_in_log, self.shared.positions.get(&key))
        {
            let now = described.identities.get(partition.number as usize);
            if now.is_some_and(|now| now != identity) {
                return Err(FlowError::State(format!(
                    "partition {} of source {} was {identity} at the last cut and is now {}; \
                     give the source its old input, or begin with a new state directory",
                    partition.number,
                    described.name,
                    now.map_or("", String::as_str),
                )));
            }
            self.sources[source]
                .seek(partition, *at)
                .map_err(|error| FlowError::Source {
                    name: described.name.clone(),
                    error,
                })?;
            position = Some(*at);
        }
        let mut task = Task::new(partition, topology.clone(), position, self.starts.clone());
        let restored = self
            .shared
            .restored
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key)
            .unwrap_or_default();
        let shared = self.shared.clone();
        let mut numbers = || shared.next_entry.fetch_add(1, Ordering::Relaxed);
        for entry in restored {
            // In flight since the run began, whoever takes it.
            self.shown += entry.waits.len();
            task.restore(entry, &mut numbers)?;
        }
        for stage in 0..topology.stages.len() {
            task.send_answers(stage, &mut numbers, &mut self.output)?;
        }
        self.tasks.insert(partition, task);
        Ok(())
    }

    /// Waits for an answer, a control or the next timer.
    fn rest(&mut self, stopping: bool) {
        let now = Instant::now();
        let due = self.tasks.values();
        let due = due.filter_map(|task| task.next_due(&self.output)).min();
        let until_due = due.map_or(PATIENCE, |due| due.saturating_duration_since(now));
        let wait = until_due.min(PATIENCE);
        if self.submitted == 0 && !stopping && self.in_flight() == 0 {
            // The source has waited already.
            return;
        }
        match self.completions.recv_timeout(wait) {
            Ok(completion) => {
                // Goes to the end of the queue it came from: handled with the others, in their order of arrival, in the
                // next round. There is room: it has just left.
                let _ = self.sender.try_send(completion);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    fn close(&mut self) -> Result<(), FlowError> {
        for task in self.tasks.values() {
            task.forget_suspended(&self.output.meters);
        }
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.close().map_err(|error| FlowError::Source {
                name: self.shared.topology.sources[index].name.clone(),
                error,
            })?;
        }
        Ok(())
    }
}
