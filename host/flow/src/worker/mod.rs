//! A worker: the thread that owns sources, sinks and tasks, and takes their cuts.

mod assign;
mod begins;
mod callers;
mod cut;
mod kept_requests;
mod loads;
mod rests;
mod submit;
mod tasks;
mod watch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tidegate_contract::{
    Answer, Committer, Made, ModelError, MoveState, Partition, Piece, Reply, SinkPosition,
    SourceError, SourceEvent, Tally, TaskId,
};
use tidegate_telemetry::Meters;

use self::assign::Arriving;
use self::begins::Begins;
use self::cut::Committing;
use self::kept_requests::KeptRequests;
use self::rests::Rests;
use self::tasks::Tasks;
use self::watch::Watch;
use crate::entry::Tokens;
use crate::error::FlowError;
use crate::feeding::Attempts;
use crate::handlers::Handlers;
use crate::ledger::Ledger;
use crate::output::Output;
use crate::pieces::Pieces;
use crate::pulse::Pulse;
use crate::running::Runs;
use crate::task::{Starts, Task, Then};
use crate::topology::{Positions, Source, Topology};

/// Most requests of one worker that are with models at once.
const MAX_SUBMITTED: usize = 4096;
/// The channel for what comes of them: each has one place for its answer and one for what was made of it until then, and
/// one is for sources that wake the worker. So there is always room.
const MAX_COMPLETIONS: usize = 2 * MAX_SUBMITTED + 1;
/// Longest wait for input or an answer before timers and controls are looked at.
const PATIENCE: Duration = Duration::from_millis(10);
/// The same while a cut is under way: what becomes of it is told elsewhere, and output may wait for it.
const PATIENCE_IN_CUT: Duration = Duration::from_millis(1);
/// The same where records of callers come from a source that wakes nobody.
const PATIENCE_FOR_CALLERS: Duration = Duration::from_millis(1);

/// After so long with answers, or with what waits in tasks, cuts, controls and sources are looked at again.
const TURN: Duration = Duration::from_millis(100);

/// What a worker shares with the others of its run.
pub(crate) struct Shared {
    pub topology: Arc<Topology>,
    pub ledger: Ledger,
    /// Number of the next request; unique across lives, so that no line of a log is taken for another's.
    pub next_request: AtomicU64,
    /// Numbers of the attempts that feeds of tokens are told of.
    pub attempts: Attempts,
    /// Records that waited when the run began, of tasks that no worker has taken yet: they are shown as in flight.
    pub waited: Mutex<HashMap<TaskId, usize>>,
    /// Set when the run is to end before its input does.
    pub stop: AtomicBool,
    /// Set when that is certain, though it goes on for a while: those whom it answers part first.
    pub will_stop: AtomicBool,
    /// What each worker shows, by its number.
    pub pulses: Vec<Arc<Pulse>>,
    /// Set when a worker failed: the others end without waiting.
    pub failed: AtomicBool,
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

/// What wakes a worker.
pub(crate) enum Completion {
    /// Parts of an answer wait in their buffer.
    Pieces(u64),
    /// The end of a request.
    Done(u64, Box<Result<Answer, ModelError>>),
    /// A source has something.
    Awake,
}

/// Where a record waits for the answer to a request: the task, the stage, and its number there.
type Place = (Partition, usize, u64);

/// Where the engine sends the answer to a request: to the worker whose task waits for it.
struct TaskReply {
    sender: Sender<Completion>,
    request: u64,
    tokens: Tokens,
    /// Where parts of the answer go, if somebody is to see them.
    pieces: Option<Pieces>,
    /// Who counts what is made, if somebody waits for it.
    tally: Option<Arc<dyn Tally>>,
    /// Who is told that the answer has begun.
    begins: Begins,
    /// What another server goes on with, if the record is traced.
    traceparent: Option<String>,
    meters: Arc<Meters>,
}

impl Reply for TaskReply {
    fn traceparent(&self) -> Option<String> {
        self.traceparent.clone()
    }

    fn token(&mut self, index: u32, token: u32, _text: &str) {
        self.begins.tell();
        self.tokens.push(token);
        if let Some(tally) = &self.tally {
            tally.made(0, index.saturating_add(1));
        }
        self.meters.add_tokens(1);
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        self.begins.tell();
        if let Some(tally) = &self.tally {
            tally.made(piece.choice, piece.index.saturating_add(1));
        }
        if let Some(pieces) = &self.pieces
            && pieces.add(piece)
        {
            let _ = self.sender.try_send(Completion::Pieces(self.request));
        }
    }

    fn wants_pieces(&self) -> bool {
        self.pieces.is_some() || self.tally.is_some()
    }

    fn choice_ended(&mut self, choice: u32) {
        if let Some(pieces) = &self.pieces
            && pieces.end_choice(choice)
        {
            let _ = self.sender.try_send(Completion::Pieces(self.request));
        }
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let TaskReply {
            sender,
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
        let _ = sender.try_send(Completion::Done(request, Box::new(result)));
    }
}

/// A worker.
pub(crate) struct Worker {
    pub number: usize,
    pub shared: Arc<Shared>,
    pub sources: Vec<Box<dyn tidegate_contract::Source>>,
    pub output: Output,
    committer: Box<dyn Committer>,
    pub controls: Receiver<Control>,
    /// A source that keeps positions has not taken those of the last cut.
    untold: bool,
    /// When such a source is told again, if that is not at once.
    tell_again: Option<Instant>,
    /// How many cuts have come to nothing since one held.
    failed_cuts: u32,
    /// When the cut came to nothing that was to be the last.
    last_failed: Option<Instant>,
    /// The cut that is under way.
    committing: Option<Committing>,
    /// Where the requests belong that models have.
    requests: HashMap<u64, Place>,
    /// Requests that models have for records that will come again.
    kept: KeptRequests,
    /// Those of which something is not shown yet.
    rests: Rests,
    tasks: Tasks,
    /// Partitions of which it is not known yet where they begin.
    arriving: Vec<Arriving>,
    sender: Sender<Completion>,
    completions: Receiver<Completion>,
    /// What woke this worker, and comes before everything in the channel.
    woke: Option<Completion>,
    /// Set from when a source wakes this worker until it looks.
    awake: Arc<AtomicBool>,
    /// Whether all sources with callers say when they have something.
    is_woken: bool,
    /// What its answers' tokens go through.
    handlers: Handlers,
    submitted: usize,
    /// Which partition is first in asking models.
    turn: usize,
    /// The first of the tasks that have not had their turn.
    next: Option<Partition>,
    /// The source with which it waits for input: the last one, but for those that give something now and then only.
    waited_with: usize,
    /// Sources that have said which partitions are read here.
    assigned: Vec<bool>,
    /// Sources that have just said so, and were not polled since.
    opening: Vec<bool>,
    last_cut: Instant,
    /// Records of this worker that the meters count as in flight.
    shown: usize,
    /// What its tasks know of starts that failed.
    starts: Arc<Starts>,
    watch: Watch,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        sources: Vec<Box<dyn tidegate_contract::Source>>,
        output: Output,
        committer: Box<dyn Committer>,
        controls: Receiver<Control>,
    ) -> Worker {
        let (sender, completions) = crossbeam_channel::bounded(MAX_COMPLETIONS);
        let of_topology = &shared.topology.sources;
        let waited_with = of_topology.iter().rposition(|source| !source.beside);
        Worker {
            number,
            waited_with: waited_with.unwrap_or_default(),
            assigned: vec![false; sources.len()],
            opening: vec![false; sources.len()],
            starts: Arc::new(Starts::new(shared.topology.stages.len())),
            watch: Watch::new(&output.meters),
            shared,
            sources,
            tasks: Tasks::new(output.meters.clone()),
            output,
            committer,
            controls,
            untold: false,
            tell_again: None,
            failed_cuts: 0,
            last_failed: None,
            committing: None,
            requests: HashMap::new(),
            kept: KeptRequests::default(),
            rests: Rests::default(),
            arriving: Vec::new(),
            sender,
            completions,
            woke: None,
            awake: Arc::default(),
            is_woken: true,
            handlers: Handlers::default(),
            submitted: 0,
            turn: 0,
            next: None,
            last_cut: Instant::now(),
            shown: 0,
        }
    }

    /// Where the files of its sinks end.
    pub(crate) fn files(&self) -> Vec<SinkPosition> {
        let Output { sinks, dead, .. } = &self.output;
        let sinks = sinks.iter().chain([dead]);
        sinks.filter_map(|sink| sink.position()).collect()
    }

    /// Runs until the input ends, the run is stopped, or something fails.
    pub(crate) fn run(&mut self) -> Result<(), FlowError> {
        let mut stopping: Option<Instant> = None;
        self.hear_sources();
        loop {
            if self.shared.failed.load(Ordering::Relaxed) {
                return self.close();
            }
            self.pulse(|pulse, unassigned| pulse.round(unassigned));
            if stopping.is_none() && self.shared.stop.load(Ordering::Relaxed) {
                stopping = Some(Instant::now());
            }
            self.take_controls()?;
            let mut busy = self.take_completions()?;
            busy |= self.take_rests()?;
            busy |= self.take_gone()?;
            busy |= self.take_time()?;
            // Also after a last cut that came to nothing: what its source has to say of the group may be why.
            if stopping.is_none() || self.last_failed.is_some() {
                self.pulse(|pulse, _| pulse.outside(true));
                busy |= self.take_arrived()?;
                busy |= self.read(busy)?;
                self.pulse(|pulse, _| pulse.outside(false));
            }
            self.submit()?;
            self.pulse(|pulse, _| pulse.outside(true));
            busy |= self.settle(Duration::ZERO)?;
            if self.committing.is_none() && self.failed_cuts == 0 {
                self.pulse(|pulse, _| pulse.held());
            }
            if self.cut_is_due() {
                self.begin_cut()?;
                busy |= self.settle(Duration::ZERO)?;
            }
            self.pulse(|pulse, _| pulse.outside(false));
            let in_flight = self.in_flight();
            self.output
                .meters
                .add_in_flight(in_flight as i64 - self.shown as i64);
            self.shown = in_flight;
            self.tasks.count_full();
            self.look();
            // A cut that came to nothing leaves something to be done.
            let again = self.last_failed.is_none_or(|since| since.elapsed() >= TURN);
            if again && self.is_done(stopping, in_flight) {
                // The last cut, and leaving a group, are up to what is outside.
                self.pulse(|pulse, _| pulse.outside(true));
                if self.last_cut()? {
                    let nothing_waits = |task: &Task| task.in_flight() == 0;
                    self.moved(MoveState::Ended, nothing_waits)?;
                    return self.close();
                }
                self.last_failed = Some(Instant::now());
            }
            if !busy {
                self.rest(stopping.is_some());
            }
        }
    }

    /// Shows something of this worker, with the first source that has not said what is read of it.
    fn pulse(&self, show: impl FnOnce(&Pulse, Option<usize>)) {
        if let Some(pulse) = self.shared.pulses.get(self.number) {
            show(pulse, self.assigned.iter().position(|assigned| !assigned));
        }
    }

    fn in_flight(&self) -> usize {
        self.tasks.in_flight()
    }

    fn is_done(&self, stopping: Option<Instant>, in_flight: usize) -> bool {
        if let Some(since) = stopping {
            let sources = &self.shared.topology.sources;
            let kept = |task: &Task| {
                let source = sources.get(usize::from(task.partition.source));
                // Who waits for a record is not there any more in the next run.
                let waits =
                    |source: &Source| source.positions == Positions::CutsAndSource || source.called;
                task.in_flight() == 0 || !source.is_some_and(waits)
            };
            return self.tasks.values().all(kept) || since.elapsed() > self.shared.topology.drain;
        }
        let all_are_here =
            self.assigned.iter().all(|assigned| *assigned) && self.arriving.is_empty();
        all_are_here && in_flight == 0 && self.tasks.have_ended()
    }

    fn take_controls(&mut self) -> Result<(), FlowError> {
        while let Ok(control) = self.controls.try_recv() {
            match control {
                Control::Switch { stage, reply } => {
                    let switched = self.switch(stage);
                    // What kept answers may be over with that version.
                    self.rests.wake(Instant::now());
                    self.tell_running();
                    // The one who asked may have given up.
                    let _ = reply.try_send(switched);
                }
            }
        }
        Ok(())
    }

    /// Has every task run the stage's current version. After one that cannot start it the others are not tried: each
    /// try may take as long.
    fn switch(&mut self, stage: usize) -> Result<Switched, String> {
        let mut switched = Switched::default();
        for partition in self.tasks.partitions() {
            let Some(mut task) = self.tasks.get_mut(partition) else {
                continue;
            };
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
        self.shared.ledger.set_running(self.number, runs.collect());
    }

    fn take_completions(&mut self) -> Result<bool, FlowError> {
        let began = Instant::now();
        let mut any = false;
        while (!any || began.elapsed() < TURN)
            && let Some(completion) = self.next_completion()
        {
            self.complete(completion)?;
            any = true;
        }
        Ok(any)
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let woke = self.woke.take();
        woke.or_else(|| self.completions.try_recv().ok())
    }

    fn complete(&mut self, completion: Completion) -> Result<(), FlowError> {
        let (request, result) = match completion {
            Completion::Done(request, result) => (request, *result),
            Completion::Pieces(request) => return self.show(request),
            Completion::Awake => {
                self.awake.store(false, Ordering::Release);
                return Ok(());
            }
        };
        self.submitted = self.submitted.saturating_sub(1);
        let Some((partition, stage, number)) = self.requests.get(&request).copied() else {
            // Its partition was taken away, and whoever has it now asks again; or its record will come again.
            self.kept.answered(request, result);
            return Ok(());
        };
        let shown = self.with_task(partition, |task, output| {
            task.on_answer(stage, number, request, result, output)
        })?;
        self.shown(stage, request, shown.unwrap_or(Then::Done.into()));
        Ok(())
    }

    /// Has a task do something, and counts for it what became of records. None if there is no such task.
    fn with_task<T>(
        &mut self,
        partition: Partition,
        act: impl FnOnce(&mut Task, &mut Output) -> Result<T, FlowError>,
    ) -> Result<Option<T>, FlowError> {
        let Some(mut task) = self.tasks.get_mut(partition) else {
            return Ok(None);
        };
        let result = act(&mut task, &mut self.output);
        task.counts.add(std::mem::take(&mut self.output.counts));
        result.map(Some)
    }

    fn take_time(&mut self) -> Result<bool, FlowError> {
        let turn = Instant::now();
        let mut any = false;
        let mut waiting = self.tasks.with_turn(turn);
        if let Some(next) = self.next.take() {
            let before = waiting.partition_point(|partition| *partition < next);
            waiting.rotate_left(before);
        }
        for partition in waiting {
            if turn.elapsed() >= TURN {
                self.next = Some(partition);
                return Ok(true);
            }
            let went = self.with_task(partition, |task, output| {
                Ok(task.go_on(output)? | task.on_time(Instant::now(), output)?)
            })?;
            any |= went.unwrap_or_default();
        }
        Ok(any)
    }

    /// Asks every source once. Waits for input only if nothing else is to be done.
    fn read(&mut self, busy: bool) -> Result<bool, FlowError> {
        if self.committing.is_some() && self.output.is_full() {
            // So much waits for the end of a cut that the next one is due: there is no room for what would be read.
            std::thread::sleep(PATIENCE_IN_CUT);
            return Ok(false);
        }
        let mut any = false;
        for index in 0..self.sources.len() {
            let room = self.hold(index)?;
            let idle = !busy && !any && self.in_flight() == 0 && index == self.waited_with;
            // One that wakes this worker is not kept waiting while another is waited for.
            let wait = if idle && !self.waits_by_itself() {
                self.patience()
            } else {
                Duration::ZERO
            };
            let topology = self.shared.topology.clone();
            let records = topology.batch.min(room).max(1);
            let event = self.sources[index]
                .poll(records, topology.batch_bytes, wait)
                .map_err(|error| self.source_error(index, error))?;
            self.opening[index] = matches!(event, SourceEvent::Assigned(_));
            any |= !matches!(event, SourceEvent::Idle);
            self.take_event(index, event)?;
        }
        Ok(any)
    }

    /// How long is waited while there is nothing to do.
    fn patience(&self) -> Duration {
        match self.committing {
            Some(_) => PATIENCE_IN_CUT,
            // Somebody may wait for what comes meanwhile.
            None if !self.is_woken => PATIENCE_FOR_CALLERS,
            None => PATIENCE,
        }
    }

    /// Pauses the partitions whose tasks are full and resumes those that have room again. Returns the least room of
    /// those that are read.
    fn hold(&mut self, source: usize) -> Result<usize, FlowError> {
        for partition in self.tasks.turned(source) {
            let Some(mut task) = self.tasks.get_mut(partition) else {
                continue;
            };
            task.paused = !task.paused;
            let port = &mut self.sources[source];
            let result = match task.paused {
                true => port.pause(partition),
                false => port.resume(partition),
            };
            drop(task);
            result.map_err(|error| self.source_error(source, error))?;
        }
        Ok(self.tasks.least_room(source).unwrap_or(usize::MAX))
    }

    fn take_event(&mut self, source: usize, event: SourceEvent) -> Result<(), FlowError> {
        match event {
            SourceEvent::Idle => {}
            SourceEvent::Assigned(partitions) => {
                self.assigned[source] = true;
                self.come(source, partitions)?;
            }
            SourceEvent::Revoked(partitions) => {
                self.revoked(source, &partitions)?;
            }
            SourceEvent::End(partition) => {
                if let Some(mut task) = self.tasks.get_mut(partition) {
                    task.ended = true;
                    return Ok(());
                }
                for arriving in &mut self.arriving {
                    arriving.ends(partition);
                }
            }
            SourceEvent::Records {
                partition,
                batch,
                rejected,
                next,
            } => {
                self.with_task(partition, |task, output| {
                    task.on_records(batch, &rejected, next, output)
                })?;
            }
        }
        Ok(())
    }

    fn source_error(&self, source: usize, error: SourceError) -> FlowError {
        FlowError::Source {
            name: self.shared.topology.sources[source].name.clone(),
            error,
        }
    }

    /// Waits for an answer, a control or the next timer.
    fn rest(&mut self, stopping: bool) {
        let now = Instant::now();
        // Before a cut that is to come nothing goes.
        let due = self.tasks.next_due().filter(|_| !self.output.is_full());
        let due = due.into_iter().chain(self.rests.next_due()).min();
        let until_due = due.map_or(PATIENCE, |due| due.saturating_duration_since(now));
        let wait = until_due.min(self.patience());
        let waited = self.submitted == 0 && self.in_flight() == 0 && !self.waits_by_itself();
        if waited && !stopping {
            // The source has waited already.
            return;
        }
        // Handled with the others, in their order of arrival, in the next round.
        self.woke = self.completions.recv_timeout(wait).ok();
    }

    fn close(&mut self) -> Result<(), FlowError> {
        for task in self.tasks.values() {
            task.forget_suspended(&self.output.meters);
        }
        self.handlers.forget(&self.output.meters);
        for index in 0..self.sources.len() {
            let closed = self.sources[index].close();
            closed.map_err(|error| self.source_error(index, error))?;
        }
        Ok(self.committer.close()?)
    }
}
