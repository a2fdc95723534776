//! A task: one input partition's run of the pipeline, as a fold over its events.
//!
//! A record that has come to a stage is in one of two places. In the stage's inbox it is untaken: the stage is full, its
//! operator has not been given it yet, or what the operator answered for it is held until the stages after this one have
//! room. In the stage's waiting entries it has a lane: it waits for a model's answer or for its retry, or is held behind
//! another of its lane that does. Either way it is in flight, and a cut has it. A stage without an instance of its
//! operator is unavailable; what has come to it stays where it is.

mod advance;
mod again;
mod answers;
mod collected;
mod cut;
mod gone;
mod inbox;
mod operate;
mod retry;
mod starts;
mod unavailable;
mod wants;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{
    Answer, CommitPoint, EntryKey, Operator, OperatorVersion, Partition, Rejected, RequestId,
    TaskImage,
};
use tidegate_record::{ArenaFull, Batch, BatchBuilder, Origin, RecordId, RecordView};
use tidegate_telemetry::Meters;
use tidegate_telemetry::events::RecordsRead;

pub(crate) use self::answers::{Shown, Then};
use self::inbox::Inbox;
pub(crate) use self::starts::{Pause, Starts};
pub(crate) use self::wants::{StageLoad, Wants};
use crate::begin::Begin;
use crate::counts::Counts;
use crate::entry::{By, Entry, EntryId, KeptParts, Lane, State, Tokens};
use crate::error::FlowError;
use crate::kept::{Callers, Restored, Waits};
use crate::output::Output;
use crate::topology::{Order, Stage, StageKind, Target, Topology};
use crate::versions::{Adds, Versions};
use crate::waiting::{Waiting, lane};

/// A task may have this many records waiting for the retry of an operator before that takes no further batch.
const MAX_RETRYING: usize = 1024;

/// A stage in which records of this many bytes wait takes no more, however few they are.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// A task.
pub(crate) struct Task {
    pub partition: Partition,
    pub topology: Arc<Topology>,
    /// One for each stage; none for a model stage or one that has seen no record.
    operators: Vec<Option<Instance>>,
    /// One for each stage.
    pub waiting: Vec<Waiting>,
    /// One for each stage: set while no instance of its operator can be started.
    unavailable: Vec<bool>,
    /// One for each stage: set where an instance is to be there before the first record.
    to_start: Vec<bool>,
    /// What is known of starts that failed.
    starts: Arc<Starts>,
    /// Offsets of callers that have gone, while records of theirs may come out of a batch that its operator has answered.
    gone: BTreeSet<u64>,
    /// The stage whose records come again just now: nothing that came later goes before them.
    retrying: Option<usize>,
    /// What has come to each stage and is not taken yet.
    inboxes: Vec<Inbox>,
    /// The stages that take each stage's outputs.
    readers: Vec<Vec<usize>>,
    /// Whether a stage has answers that may go as soon as those after it take them.
    answers_held: Vec<bool>,
    /// Who asked with the records that wait, by offset, where there is an audit to name them.
    callers: Callers,
    /// What its partition is.
    identity: String,
    /// How it began; none once a cut holds.
    begin: Option<Begin>,
    /// Entries that its store has and that count no more. They are done with the next cut.
    stale: BTreeSet<EntryKey>,
    /// Where reading goes on.
    next: Option<u64>,
    /// Where it began, if that is only known from what came.
    began: Option<u64>,
    /// When the record arose that was read last, if it says so; microseconds since 1970.
    pub event_time: Option<i64>,
    /// What became of its records, as the next cut has it.
    pub counts: Counts,
    /// Position and counts of the last cut.
    cut_position: Option<u64>,
    cut_counts: Counts,
    /// Answered records that have left their stage since the last cut, and those that had when it was begun: if it comes
    /// to nothing, they come again, and their answers are there.
    left: Vec<(usize, Entry)>,
    left_in_cut: Vec<(usize, Entry)>,
    /// The number of what waits next.
    next_number: u64,
    pub ended: bool,
    pub paused: bool,
}

struct Instance {
    generation: u64,
    operator: Box<dyn Operator>,
    /// Its version, with which what it makes goes on.
    adds: Adds,
    /// Who takes each output: main first, then the named ones in the component's order.
    routes: Arc<[Vec<Target>]>,
}

impl Task {
    pub(crate) fn new(
        partition: Partition,
        topology: Arc<Topology>,
        begin: &Begin,
        starts: Arc<Starts>,
    ) -> Task {
        // Where partitions are there from the beginning. A group may give a worker a hundred at any time, and they start
        // their operators one by one, each with its first records.
        let at_once = topology.sources[usize::from(partition.source)].fixed;
        let (position, counts) = (begin.position, begin.counts);
        Task {
            partition,
            callers: Callers::new(),
            identity: begin.identity.clone(),
            stale: BTreeSet::new(),
            begin: Some(begin.clone()),
            operators: topology.stages.iter().map(|_| None).collect(),
            waiting: waiting_of(&topology),
            unavailable: vec![false; topology.stages.len()],
            // Only a note: a start may take its whole deadline, and so may that of every other task.
            to_start: (topology.stages.iter())
                .map(|stage| at_once && matches!(stage.kind, StageKind::Operator(_)))
                .collect(),
            starts,
            gone: BTreeSet::new(),
            retrying: None,
            inboxes: inboxes_of(&topology),
            readers: advance::readers(&topology),
            answers_held: vec![false; topology.stages.len()],
            topology,
            next: position,
            began: position,
            event_time: None,
            counts,
            cut_position: position,
            cut_counts: counts,
            left: Vec::new(),
            left_in_cut: Vec::new(),
            next_number: 1,
            ended: false,
            paused: false,
        }
    }

    /// Its store has these entries, and it does not begin with them: the next cut takes them away.
    pub(crate) fn takes_away(&mut self, stale: BTreeSet<EntryKey>) {
        self.stale = stale;
    }

    /// A number that none before had in this task.
    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Takes back what waited at the last cut. Its lane follows from its record.
    pub(crate) fn restore(&mut self, restored: Restored) -> Result<(), FlowError> {
        let Restored {
            stage,
            order: number,
            waits,
        } = restored;
        self.next_number = self.next_number.max(number + 1);
        let index = self.topology.stage(&stage).ok_or_else(|| {
            FlowError::State(format!(
                "records wait in flight for stage {stage}, which the pipeline no longer has; \
                 bring it back, let the pipeline finish, then remove it"
            ))
        })?;
        let (mut entry, of_model) = match waits {
            Waits::Entry { entry, model } => (*entry, model),
            Waits::Untaken {
                batch,
                id,
                taken,
                callers,
                versions,
            } => {
                self.callers.extend(callers);
                self.inboxes[index].restore(number, id, (batch, versions), taken);
                return Ok(());
            }
        };
        let order = match &self.topology.stages[index].kind {
            StageKind::Operator(_) if !of_model => Order::Key,
            StageKind::Model(model) if of_model => {
                let digest = crate::asked::chosen(model, &entry).model.facts().digest;
                entry.goes_to(&digest);
                model.order
            }
            _ => {
                return Err(FlowError::State(format!(
                    "records wait in flight for stage {stage}, which is no longer of the kind it was; \
                     bring it back, let the pipeline finish, then change it"
                )));
            }
        };
        if let Some(record) = entry.view() {
            let lanes = (
                lane(order, &record, number),
                lane(Order::Key, &record, number),
            );
            (entry.lane, entry.key) = lanes;
        }
        let caller = entry.caller.clone();
        self.callers
            .extend(caller.map(|caller| (entry.id.offset, caller)));
        self.waiting[index].add(number, entry);
        Ok(())
    }

    /// A record with its answer has left a stage.
    fn has_left(&mut self, stage: usize, mut entry: Entry, answer: Arc<Answer>) {
        // Of callers nothing comes again.
        let called = self.topology.callers_of(self.partition.source).is_some();
        if self.topology.commit_point != CommitPoint::Log && !called {
            entry.state = State::Answered(Box::new(Arc::unwrap_or_clone(answer)));
            self.left.push((stage, entry));
        }
    }

    /// The last cut holds.
    pub(crate) fn cut_holds(&mut self) {
        self.left_in_cut.clear();
        self.stale.clear();
        self.begin = None;
    }

    /// Whether it has had no cut that holds.
    pub(crate) fn begins(&self) -> bool {
        self.begin.is_some()
    }

    /// Takes out what waits in stages, or was answered since the last cut that holds, by stage: the task is about to go
    /// back.
    pub(crate) fn take_waiting(&mut self) -> Vec<(usize, Entry)> {
        let left = std::mem::take(&mut self.left_in_cut).into_iter();
        let left = left.chain(std::mem::take(&mut self.left));
        let waiting = std::mem::replace(&mut self.waiting, waiting_of(&self.topology));
        let stages = waiting.into_iter().enumerate();
        let entries = stages.flat_map(|(stage, waiting)| {
            let entries = waiting.into_entries();
            entries.map(move |entry| (stage, entry))
        });
        left.chain(entries).collect()
    }

    /// So many records that the last cut counted as written are dead letters in it.
    pub(crate) fn refused_late(&mut self, records: u64) {
        self.counts = self.counts.refused_late(records);
        self.cut_counts = self.cut_counts.refused_late(records);
    }

    /// Goes back to its last cut, which this image is of, or to how it began: what was done since was not. Its operators
    /// stay. Returns where reading goes on, and leaves in the image what waits.
    pub(crate) fn go_back(&mut self, image: &mut TaskImage) -> Option<u64> {
        let (position, counts) = match &self.begin {
            Some(begin) => (begin.position, begin.counts),
            None => (image.position, Counts::from_log(&image.counters)),
        };
        let position = position.or(self.began);
        image.entries.retain(|key, _| !self.stale.contains(key));
        self.waiting = waiting_of(&self.topology);
        self.inboxes = inboxes_of(&self.topology);
        self.answers_held.fill(false);
        (self.retrying, self.ended, self.paused) = (None, false, false);
        (self.next, self.cut_position) = (position, position);
        (self.counts, self.cut_counts) = (counts, counts);
        self.next_number = 1;
        position
    }

    /// A cut came to nothing, and the task stays as it is, since its records cannot come again: this image is of the last
    /// one that holds, and the next one says what differs from it.
    pub(crate) fn stay(&mut self, image: &TaskImage) {
        let mut kept: BTreeSet<EntryKey> = image.entries.keys().cloned().collect();
        for waiting in &mut self.waiting {
            waiting.stay(&mut kept);
        }
        for inbox in &mut self.inboxes {
            inbox.stay(&mut kept);
        }
        self.stale = kept;
        self.left.clear();
        self.left_in_cut.clear();
        self.cut_counts = match &self.begin {
            Some(begin) => begin.counts,
            None => Counts::from_log(&image.counters),
        };
    }

    /// What waits here, as records read and those that came of them beyond that.
    pub(crate) fn left_behind(&self) -> Counts {
        let waiting = self.waiting.iter().flat_map(Waiting::iter);
        let offsets = waiting.map(|(_, entry)| entry.id.offset);
        let untaken = self.inboxes.iter().flat_map(Inbox::offsets);
        let read: HashSet<u64> = offsets.chain(untaken).collect();
        Counts {
            input: read.len() as u64,
            split: (self.in_flight() - read.len()) as u64,
            ..Counts::default()
        }
    }

    /// Runs the slot's current version from the next batch on. Returns how long that took, or none if it did already.
    /// Where that version cannot be started, the one that ran goes on. A stage that has seen no record has none to
    /// switch.
    pub(crate) fn switch(&mut self, stage: usize) -> Result<Option<Duration>, String> {
        if self.operators[stage].is_none() && !self.unavailable[stage] && !self.to_start[stage] {
            return Ok(None);
        }
        self.start(stage)
    }

    /// Has the slot's current version run, as [`Task::switch`], also where none has run yet.
    fn start(&mut self, stage: usize) -> Result<Option<Duration>, String> {
        let topology = self.topology.clone();
        let StageKind::Operator(kind) = &topology.stages[stage].kind else {
            return Ok(None);
        };
        let generation = kind.slot.generation();
        if let Some(instance) = &mut self.operators[stage] {
            // After a deployment that was taken back, the version that ran here may be the current one again.
            if Arc::ptr_eq(instance.operator.version(), &kind.slot.version()) {
                instance.generation = generation;
            }
            if instance.generation == generation {
                return Ok(None);
            }
        }
        self.starts.may(stage, generation)?;
        let began = Instant::now();
        let (generation, operator) = kind.slot.instance().map_err(|error| {
            let why = error.to_string();
            self.starts.failed(stage, generation, began.elapsed(), &why);
            why
        })?;
        self.starts.succeeded(stage);
        let mut routes = vec![topology.stages[stage].targets.clone()];
        for output in &operator.version().outputs {
            routes.push(kind.named.get(output).cloned().unwrap_or_default());
        }
        self.operators[stage] = Some(Instance {
            generation,
            adds: Adds::new(&topology.stages[stage].name, operator.version()),
            operator,
            routes: routes.into(),
        });
        Ok(Some(began.elapsed()))
    }

    /// The version that a stage's operator runs here, if there is one.
    pub(crate) fn runs(&self, stage: usize) -> Option<&Arc<OperatorVersion>> {
        let instance = self.operators[stage].as_ref()?;
        Some(instance.operator.version())
    }

    /// How many more records may be read before a waiting stage is full; none if no stage waits. While something has
    /// come to a stage that cannot take it, nothing is read.
    pub(crate) fn room(&self) -> usize {
        if !self.inboxes.iter().all(Inbox::is_empty) {
            return 0;
        }
        self.topology
            .stages
            .iter()
            .zip(&self.waiting)
            .map(|(stage, waiting)| room_of(stage, waiting))
            .min()
            .unwrap_or(usize::MAX)
    }

    /// Records that wait in a stage, or before one.
    pub(crate) fn in_flight(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Waiting::len).sum();
        waiting + self.inboxes.iter().map(Inbox::len).sum::<usize>()
    }

    /// The partition is read elsewhere: whoever has it now asks the models again.
    pub(crate) fn abandon(self, meters: &Meters) {
        self.forget_suspended(meters);
        for (stage, waiting) in self.topology.stages.iter().zip(&self.waiting) {
            let StageKind::Model(kind) = &stage.kind else {
                continue;
            };
            for (_, entry) in waiting.iter() {
                if let State::Submitted(request) = entry.state {
                    kind.cancel(RequestId(request));
                }
            }
        }
    }

    /// A batch came.
    pub(crate) fn on_records(
        &mut self,
        batch: Batch,
        rejected: &[Rejected],
        next: u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let count = (batch.len() + rejected.len()) as u64;
        output.counts.input += count;
        RecordsRead {
            source: &self.topology.sources[usize::from(self.partition.source)].name,
            partition: self.partition.number,
            records: batch.len() as u64,
            rejected: rejected.len() as u64,
        }
        .emit(&output.meters);
        let index = usize::from(self.partition.source);
        if let Some(meters) = output.meters.sources().get(index) {
            meters.records.add(batch.len() as u64);
            meters.rejected.add(rejected.len() as u64);
            meters.bytes.add(batch.as_bytes().len() as u64);
        }
        if let Some(last) = batch.len().checked_sub(1) {
            self.event_time = batch.view().get(last).and_then(|last| last.event_time());
        }
        let id = RecordId {
            source: self.partition.source,
            partition: self.partition.number,
            ..RecordId::default()
        };
        for rejected in rejected {
            output.reject(id, &self.identity, rejected)?;
        }
        let first = batch.view().get(0).map(|first| first.id().offset);
        let first_rejected = rejected.first().map(|rejected| rejected.offset);
        self.began = self.began.or(first.into_iter().chain(first_rejected).min());
        self.next = Some(next);
        let began = Instant::now();
        let waited = self.in_flight();
        if !batch.is_empty() {
            let topology = self.topology.clone();
            if let Some(callers) = topology.callers_of(self.partition.source)
                && output.audit.is_there()
            {
                // While it is known: the client may be gone when its question has ended.
                let named = batch.view().records().filter_map(|record| {
                    let name = callers.name(record.id().into())?;
                    Some((record.id().offset, name))
                });
                self.callers.extend(named.collect::<Vec<_>>());
            }
            let targets = &topology.sources[usize::from(self.partition.source)].targets;
            let mut batch = output.traces.enter(self.partition, &self.identity, batch);
            if output.audit.is_there() {
                batch = output.traces.note_came(batch);
            }
            let received = output.traces.received(&batch);
            let came = (batch, Versions::default());
            self.send(None, targets, came, began, output)?;
            self.advance(output)?;
            output.traces.took(received, began);
        }
        let waits = self.in_flight().saturating_sub(waited) as u64;
        output.finished.push((began, count.saturating_sub(waits)));
        Ok(())
    }

    fn entry(
        &self,
        stage: usize,
        (record, versions): (&RecordView<'_>, &Versions),
        arrived: Instant,
        lane: Lane,
    ) -> Result<Entry, ArenaFull> {
        let mut builder = BatchBuilder::default();
        builder.push_record(record)?;
        Ok(Entry {
            record: builder.finish(clock()),
            id: EntryId::of(record.id()),
            lane,
            key: match lane {
                Lane::Own(number) => self::lane(Order::Key, record, number),
                Lane::Key(_) => lane,
                // A record without a key counts for itself.
                Lane::Partition => self::lane(Order::Key, record, record.id().offset),
            },
            arrived,
            attempt: 0,
            state: State::Queued,
            prompt: String::new(),
            wants: None,
            asked: None,
            tokens: Tokens::default(),
            versions: versions.clone(),
            by: By::default(),
            model: match &self.topology.stages[stage].kind {
                StageKind::Operator(_) => "".into(),
                StageKind::Model(model) => model.model.facts().digest.into(),
            },
            kept: KeptParts::default(),
            showing: None,
            fed: 0,
            until: None,
            submitted: None,
            put_off: None,
            caller: (record.id().origin == Origin::Source)
                .then(|| self.callers.get(&record.id().offset).cloned())
                .flatten(),
        })
    }
}

fn waiting_of(topology: &Topology) -> Vec<Waiting> {
    let of = |stage: &Stage| {
        let most_of_key = match &stage.kind {
            StageKind::Operator(_) => 1,
            StageKind::Model(model) => model.max_in_flight_per_key,
        };
        Waiting::new(&stage.name, most_of_key)
    };
    topology.stages.iter().map(of).collect()
}

fn inboxes_of(topology: &Topology) -> Vec<Inbox> {
    let stages = topology.stages.iter();
    stages.map(|stage| Inbox::new(&stage.name)).collect()
}

/// Most records that a stage may have waiting.
fn limit_of(stage: &Stage) -> usize {
    match &stage.kind {
        StageKind::Operator(_) => MAX_RETRYING,
        StageKind::Model(model) => model.max_in_flight,
    }
}

/// How many more records a stage may have waiting.
fn room_of(stage: &Stage, waiting: &Waiting) -> usize {
    if waiting.bytes() >= MAX_WAITING_BYTES {
        return 0;
    }
    limit_of(stage).saturating_sub(waiting.len())
}

/// Microseconds since the Unix epoch.
pub(crate) fn clock() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}
