//! A task: one input partition's run of the pipeline, as a fold over its events.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{
    Answer, Cut, InFlightEntry, ModelError, Operator, OperatorVersion, Partition, Processed,
    Rejected, SlotVersion, SourcePosition,
};
use tidegate_record::{
    ArenaFull, Batch, BatchBuilder, Emission, Outcome, OutcomesView, Patch, RecordId, RecordView,
    child_emit,
};

use tidegate_telemetry::events::{
    BatchProcessed, ModelAnswered, ModelAsked, ModelFailed, RecordsFannedOut, RecordsRead,
};

use crate::entry::{Entry, Lane, Restored, State, Tokens};
use crate::error::FlowError;
use crate::output::{Death, Output};
use crate::plan::{OperatorStage, Order, Plan, StageKind, Target};
use crate::waiting::{Waiting, lane};

/// A task may have this many records waiting for the retry of an operator before it is read no further.
const MAX_RETRYING: usize = 1024;

/// A task.
pub(crate) struct Task {
    pub partition: Partition,
    pub plan: Arc<Plan>,
    /// One for each stage; none for a model stage or one that has seen no record.
    operators: Vec<Option<Instance>>,
    /// One for each stage.
    pub waiting: Vec<Waiting>,
    /// Where reading goes on.
    next: Option<u64>,
    committed: Option<u64>,
    /// JSON text of the operators' versions.
    versions: Arc<str>,
    pub ended: bool,
    pub paused: bool,
}

struct Instance {
    generation: u64,
    operator: Box<dyn Operator>,
    /// Who takes each output: main first, then the named ones in the component's order.
    routes: Vec<Vec<Target>>,
}

/// Work of a task that is not done: batches on their way to a target.
type Work = VecDeque<(Target, Batch)>;

impl Task {
    pub(crate) fn new(
        partition: Partition,
        plan: Arc<Plan>,
        position: Option<u64>,
    ) -> Result<Task, FlowError> {
        let mut task = Task {
            partition,
            operators: plan.stages.iter().map(|_| None).collect(),
            waiting: plan.stages.iter().map(|_| Waiting::default()).collect(),
            plan,
            next: position,
            committed: position,
            versions: "[]".into(),
            ended: false,
            paused: false,
        };
        for stage in 0..task.operators.len() {
            task.switch(stage)?;
        }
        Ok(task)
    }

    /// Takes back an entry of the commit log. Its lane follows from its record.
    pub(crate) fn restore(&mut self, restored: Restored) -> Result<(), FlowError> {
        let Restored {
            stage,
            number,
            mut entry,
            ..
        } = restored;
        let index = self.plan.stage(&stage).ok_or_else(|| {
            FlowError::State(format!(
                "records wait in flight for stage {stage}, which the pipeline no longer has; \
                 bring it back, let the pipeline finish, then remove it"
            ))
        })?;
        let order = match &self.plan.stages[index].kind {
            StageKind::Operator(_) => Order::Key,
            StageKind::Model(model) => model.order,
        };
        if let Some(record) = entry.view() {
            entry.lane = lane(order, &record, number);
        }
        self.waiting[index].add(number, entry);
        Ok(())
    }

    /// Runs the slot's current version from the next batch on. Returns how long that took, or none if it did already.
    pub(crate) fn switch(&mut self, stage: usize) -> Result<Option<Duration>, FlowError> {
        let plan = self.plan.clone();
        let StageKind::Operator(kind) = &plan.stages[stage].kind else {
            return Ok(None);
        };
        let running = self.operators[stage]
            .as_ref()
            .map(|instance| instance.generation);
        if running == Some(kind.slot.generation()) {
            return Ok(None);
        }
        let began = Instant::now();
        let (generation, operator) = kind.slot.instance().map_err(|error| FlowError::Operator {
            name: plan.stages[stage].name.clone(),
            error,
        })?;
        let mut routes = vec![plan.stages[stage].targets.clone()];
        for output in &operator.version().outputs {
            routes.push(kind.named.get(output).cloned().unwrap_or_default());
        }
        self.operators[stage] = Some(Instance {
            generation,
            operator,
            routes,
        });
        self.versions = self.describe_versions().into();
        Ok(Some(began.elapsed()))
    }

    fn describe_versions(&self) -> String {
        let versions: Vec<_> = self
            .slots()
            .map(|(slot, _, version)| {
                serde_json::json!({
                    "slot": slot, "name": version.name, "version": version.version, "digest": version.digest,
                })
            })
            .collect();
        serde_json::Value::Array(versions).to_string()
    }

    fn slots(&self) -> impl Iterator<Item = (&str, &OperatorStage, &Arc<OperatorVersion>)> {
        self.plan
            .stages
            .iter()
            .zip(&self.operators)
            .filter_map(|(stage, instance)| match (&stage.kind, instance) {
                (StageKind::Operator(kind), Some(instance)) => {
                    Some((stage.name.as_str(), kind, instance.operator.version()))
                }
                _ => None,
            })
    }

    /// How many more records may be read before a waiting stage is full; none if no stage waits.
    pub(crate) fn room(&self) -> usize {
        self.plan
            .stages
            .iter()
            .zip(&self.waiting)
            .map(|(stage, waiting)| {
                let limit = match &stage.kind {
                    StageKind::Operator(_) => MAX_RETRYING,
                    StageKind::Model(model) => model.max_in_flight,
                };
                limit.saturating_sub(waiting.len())
            })
            .min()
            .unwrap_or(usize::MAX)
    }

    /// Records that wait.
    pub(crate) fn in_flight(&self) -> usize {
        self.waiting.iter().map(Waiting::len).sum()
    }

    /// A batch came.
    pub(crate) fn on_records(
        &mut self,
        batch: Batch,
        rejected: &[Rejected],
        next: u64,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let count = (batch.len() + rejected.len()) as u64;
        output.counts.input += count;
        RecordsRead {
            source: &self.plan.sources[usize::from(self.partition.source)].name,
            partition: self.partition.number,
            records: batch.len() as u64,
            rejected: rejected.len() as u64,
        }
        .emit(&output.meters);
        let id = RecordId {
            source: self.partition.source,
            partition: self.partition.number,
            ..RecordId::default()
        };
        for rejected in rejected {
            output.reject(id, rejected)?;
        }
        self.next = Some(next);
        let began = Instant::now();
        let waited = self.in_flight();
        if !batch.is_empty() {
            let plan = self.plan.clone();
            let mut work = Work::new();
            send(
                &mut work,
                &plan.sources[usize::from(self.partition.source)].targets,
                batch,
                output,
            );
            self.run(work, began, numbers, output)?;
        }
        let waits = self.in_flight().saturating_sub(waited) as u64;
        output.finished.push((began, count.saturating_sub(waits)));
        Ok(())
    }

    /// Takes work to its end: to sinks and to waiting stages.
    fn run(
        &mut self,
        mut work: Work,
        arrived: Instant,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let plan = self.plan.clone();
        while let Some((target, batch)) = work.pop_front() {
            match target {
                Target::Sink(sink) => output.write(sink, batch.view())?,
                Target::Stage(stage) => match &plan.stages[stage].kind {
                    StageKind::Operator(_) => {
                        let batch = self.hold_back(stage, batch, arrived, numbers)?;
                        if !batch.is_empty() {
                            let again = self.operate(stage, &batch, 1, &mut work, output)?;
                            self.keep(stage, &batch, again, arrived, numbers)?;
                        }
                    }
                    StageKind::Model(kind) => {
                        let records = batch.len() as u64;
                        ModelAsked { stage, records }.emit(&output.meters);
                        for record in batch.view().records() {
                            let number = numbers();
                            let entry = self.entry(
                                stage,
                                &record,
                                arrived,
                                lane(kind.order, &record, number),
                            )?;
                            self.waiting[stage].add(number, entry);
                        }
                    }
                },
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        stage: usize,
        record: &RecordView<'_>,
        arrived: Instant,
        lane: Lane,
    ) -> Result<Entry, FlowError> {
        let mut builder = BatchBuilder::default();
        builder
            .push_record(record)
            .map_err(|full| self.too_large(stage, &full))?;
        Ok(Entry {
            record: builder.finish(clock()),
            lane,
            offset: record.id().offset,
            arrived,
            attempt: 0,
            state: State::Queued,
            prompt: String::new(),
            tokens: Tokens::default(),
            logged: None,
            versions: self.versions.clone(),
        })
    }

    fn too_large(&self, stage: usize, why: &dyn std::fmt::Display) -> FlowError {
        FlowError::Batch {
            name: self.plan.stages[stage].name.clone(),
            why: why.to_string(),
        }
    }

    /// Takes out records whose lane waits for a retry: they must not overtake it.
    fn hold_back(
        &mut self,
        stage: usize,
        batch: Batch,
        arrived: Instant,
        numbers: &mut impl FnMut() -> u64,
    ) -> Result<Batch, FlowError> {
        if self.waiting[stage].is_empty() {
            return Ok(batch);
        }
        let mut free = BatchBuilder::default();
        for record in batch.view().records() {
            let number = numbers();
            let lane = lane(Order::Key, &record, number);
            if self.waiting[stage].blocks(lane) {
                let entry = self.entry(stage, &record, arrived, lane)?;
                self.waiting[stage].add(number, entry);
            } else {
                free.push_record(&record)
                    .map_err(|full| self.too_large(stage, &full))?;
            }
        }
        Ok(free.finish(batch.view().clock()))
    }

    /// Runs an operator over a batch and sends on what it answers. Returns the records that must come again, by index:
    /// with the delay they asked for, or none for those held behind one of their lane.
    fn operate(
        &mut self,
        stage: usize,
        batch: &Batch,
        attempt: u32,
        work: &mut Work,
        output: &mut Output,
    ) -> Result<Vec<(usize, Option<u32>)>, FlowError> {
        let plan = self.plan.clone();
        let name = plan.stages[stage].name.as_str();
        let StageKind::Operator(kind) = &plan.stages[stage].kind else {
            return Ok(Vec::new());
        };
        self.switch(stage)?;
        let Some(instance) = &mut self.operators[stage] else {
            return Ok(Vec::new());
        };
        let began = Instant::now();
        let processed = instance
            .operator
            .process(batch)
            .map_err(|error| FlowError::Operator {
                name: name.to_owned(),
                error,
            })?;
        let outputs = instance.routes.len() as u16 - 1;
        let bad_answer = |error: &dyn std::fmt::Display| FlowError::Batch {
            name: name.to_owned(),
            why: error.to_string(),
        };
        if let [
            Processed::Answer {
                first: 0,
                count,
                outcomes,
            },
        ] = processed.as_slice()
            && *count == batch.len()
            && OutcomesView::parse(outcomes, *count, outputs)
                .map_err(|error| bad_answer(&error))?
                .all_pass()
        {
            let records = batch.len() as u64;
            BatchProcessed {
                stage,
                records,
                output: records,
                time: began.elapsed(),
                ..BatchProcessed::default()
            }
            .emit(&output.meters);
            send(work, &instance.routes[0], batch.clone(), output);
            return Ok(Vec::new());
        }
        let version = instance.operator.version().clone();
        let view = batch.view();
        let mut collected = Collected::new(instance.routes.len());
        let mut again: Vec<(usize, Option<u32>)> = Vec::new();
        let mut blocked = HashSet::new();
        let bury = |record: &RecordView<'_>, reason: &str, backtrace, output: &mut Output| {
            output.bury(
                record,
                &Death {
                    stage: name,
                    reason,
                    component: Some(&version.digest),
                    backtrace,
                    attempts: attempt,
                },
            )
        };
        for part in &processed {
            let (first, count, outcomes) = match part {
                Processed::Answer {
                    first,
                    count,
                    outcomes,
                } => (*first, *count, outcomes),
                Processed::Poison(cause) => {
                    if let Some(record) = view.get(cause.record) {
                        bury(&record, &cause.reason, cause.backtrace.as_deref(), output)?;
                    }
                    continue;
                }
            };
            let outcomes = OutcomesView::parse(outcomes, count, outputs)
                .map_err(|error| bad_answer(&error))?;
            for (index, outcome) in (first..).zip(outcomes.iter()) {
                let Some(record) = view.get(index) else {
                    continue;
                };
                if !blocked.is_empty() && blocked.contains(&lane(Order::Key, &record, 0)) {
                    again.push((index, None));
                    continue;
                }
                match collected
                    .take(&record, &outcome)
                    .map_err(|full| bad_answer(&full))?
                {
                    Fate::Gone => {}
                    Fate::Dead(reason) => bury(&record, &reason, None, output)?,
                    Fate::Retry { reason, .. } if attempt > kind.retries => {
                        let reason = format!(
                            "operator asked to retry {attempt} times, the limit is {}: {reason}",
                            kind.retries
                        );
                        bury(&record, &reason, None, output)?;
                    }
                    Fate::Retry { delay_ms, .. } => {
                        again.push((index, Some(delay_ms)));
                        if record.key().is_some() {
                            blocked.insert(lane(Order::Key, &record, 0));
                        }
                        output.counts.retried += 1;
                    }
                }
            }
        }
        output.counts.dropped += collected.dropped;
        output.counts.split += collected.split;
        BatchProcessed {
            stage,
            records: batch.len() as u64,
            output: collected
                .outputs
                .iter()
                .flatten()
                .map(|builder| builder.len() as u64)
                .sum(),
            dropped: collected.dropped,
            retried: again.iter().filter(|(_, delay)| delay.is_some()).count() as u64,
            split: collected.split,
            time: began.elapsed(),
        }
        .emit(&output.meters);
        for (builder, targets) in collected.outputs.into_iter().zip(&instance.routes) {
            if let Some(builder) = builder {
                send(work, targets, builder.finish(view.clock()), output);
            }
        }
        Ok(again)
    }

    /// Keeps records that must come again.
    fn keep(
        &mut self,
        stage: usize,
        batch: &Batch,
        again: Vec<(usize, Option<u32>)>,
        arrived: Instant,
        numbers: &mut impl FnMut() -> u64,
    ) -> Result<(), FlowError> {
        for (index, delay) in again {
            let Some(record) = batch.view().get(index) else {
                continue;
            };
            let number = numbers();
            let mut entry =
                self.entry(stage, &record, arrived, lane(Order::Key, &record, number))?;
            if let Some(delay) = delay {
                entry.attempt = 1;
                entry.state =
                    State::Delayed(Instant::now() + Duration::from_millis(u64::from(delay)));
            }
            self.waiting[stage].add(number, entry);
        }
        Ok(())
    }

    /// When the next retry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let entries = self.waiting.iter().flat_map(Waiting::iter);
        entries
            .filter_map(|(_, entry)| match entry.state {
                State::Delayed(due) => Some(due),
                _ => None,
            })
            .min()
    }

    /// Sends records to their operator again whose time has come, with those that were held behind them.
    pub(crate) fn on_time(
        &mut self,
        now: Instant,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<bool, FlowError> {
        let mut any = false;
        for stage in 0..self.waiting.len() {
            let due: Vec<Lane> = self.waiting[stage]
                .iter()
                .filter(|(_, entry)| matches!(entry.state, State::Delayed(at) if at <= now))
                .map(|(_, entry)| entry.lane)
                .collect();
            for lane in due {
                any = true;
                self.retry(stage, lane, numbers, output)?;
            }
        }
        Ok(any)
    }

    /// Runs the front of a lane again, then those held behind it until one must come again itself.
    fn retry(
        &mut self,
        stage: usize,
        lane: Lane,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        while let Some((number, entry)) = self.waiting[stage].front(lane) {
            if matches!(entry.state, State::Delayed(at) if at > Instant::now()) {
                return Ok(());
            }
            let (record, arrived, attempt) =
                (entry.record.clone(), entry.arrived, entry.attempt + 1);
            let mut work = Work::new();
            let again = self.operate(stage, &record, attempt, &mut work, output)?;
            self.run(work, arrived, numbers, output)?;
            if let Some((_, delay)) = again.first() {
                if let Some(entry) = self.waiting[stage].change(number) {
                    let delay = Duration::from_millis(u64::from(delay.unwrap_or(0)));
                    entry.attempt = attempt;
                    entry.state = State::Delayed(Instant::now() + delay);
                }
                return Ok(());
            }
            self.waiting[stage].remove(number);
            output.finished.push((arrived, 1));
        }
        Ok(())
    }

    /// An answer came, or a model's refusal. Sends on what may go now.
    pub(crate) fn on_answer(
        &mut self,
        stage: usize,
        number: u64,
        request: u64,
        result: Result<Answer, ModelError>,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let plan = self.plan.clone();
        let StageKind::Model(kind) = &plan.stages[stage].kind else {
            return Ok(());
        };
        let expected = self.waiting[stage].get(number).map(|entry| &entry.state);
        if !matches!(expected, Some(State::Submitted(id)) if *id == request) {
            return Ok(());
        }
        output.counts.requests += 1;
        match result {
            Ok(answer) => {
                output.counts.tokens += answer.tokens.len() as u64;
                output.counts.prompt_tokens += u64::from(answer.prompt_tokens);
                if let Some(entry) = self.waiting[stage].change(number) {
                    entry.state = State::Answered(Box::new(answer));
                }
            }
            Err(error @ (ModelError::Closed | ModelError::Cancelled)) => {
                return Err(FlowError::Model {
                    name: plan.stages[stage].name.clone(),
                    why: error.to_string(),
                });
            }
            Err(error) => {
                output.counts.failed += 1;
                let again = matches!(error, ModelError::Device(_) | ModelError::Full { .. });
                if let Some(entry) = self.waiting[stage].change(number)
                    && again
                    && entry.attempt < kind.attempts
                {
                    let (attempt, reason) = (entry.attempt, error.to_string());
                    entry.state = State::Queued;
                    output.counts.retried += 1;
                    ModelFailed {
                        stage,
                        attempt,
                        again,
                        reason: &reason,
                    }
                    .emit(&output.meters);
                    return Ok(());
                }
                self.bury_entry(stage, number, &error.to_string(), output)?;
            }
        }
        self.send_answers(stage, numbers, output)
    }

    /// A waiting record ends as a dead letter.
    pub(crate) fn bury_entry(
        &mut self,
        stage: usize,
        number: u64,
        reason: &str,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let Some(entry) = self.waiting[stage].remove(number) else {
            return Ok(());
        };
        let plan = self.plan.clone();
        ModelFailed {
            stage,
            attempt: entry.attempt.max(1),
            again: false,
            reason,
        }
        .emit(&output.meters);
        output.finished.push((entry.arrived, 1));
        match entry.view() {
            None => Ok(()),
            Some(record) => output.bury(
                &record,
                &Death {
                    stage: &plan.stages[stage].name,
                    reason,
                    component: None,
                    backtrace: None,
                    attempts: entry.attempt.max(1),
                },
            ),
        }
    }

    /// Sends on every answered record that has nothing before it in its lane, in the order of arrival.
    pub(crate) fn send_answers(
        &mut self,
        stage: usize,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let plan = self.plan.clone();
        let StageKind::Model(kind) = &plan.stages[stage].kind else {
            return Ok(());
        };
        let facts = kind.model.facts();
        loop {
            let ready: Vec<u64> = self.waiting[stage]
                .iter()
                .filter(|(number, entry)| {
                    matches!(entry.state, State::Answered(_))
                        && self.waiting[stage]
                            .front(entry.lane)
                            .is_some_and(|(front, _)| front == *number)
                })
                .map(|(number, _)| number)
                .collect();
            if ready.is_empty() {
                return Ok(());
            }
            let mut builder = BatchBuilder::default();
            let mut oldest = Instant::now();
            for number in ready {
                let Some(entry) = self.waiting[stage].remove(number) else {
                    continue;
                };
                let (Some(record), State::Answered(answer)) = (entry.view(), &entry.state) else {
                    continue;
                };
                let patch = crate::answer::patch(kind, &facts, &entry, answer, record.id());
                let mut bytes = Vec::new();
                patch.write(&mut bytes);
                let Some(patch) = Patch::parse(&bytes) else {
                    continue;
                };
                builder
                    .push_patched(&record, &patch, record.id().emit)
                    .map_err(|full| self.too_large(stage, &full))?;
                oldest = oldest.min(entry.arrived);
                ModelAnswered {
                    stage,
                    prompt_tokens: u64::from(answer.prompt_tokens),
                    tokens: answer.tokens.len() as u64,
                    finish: answer.finish.name(),
                    queued: answer.timings.queued,
                    prefill: answer.timings.prefill,
                    decode: answer.timings.decode,
                }
                .emit(&output.meters);
                output.finished.push((entry.arrived, 1));
            }
            let mut work = Work::new();
            send(
                &mut work,
                &plan.stages[stage].targets,
                builder.finish(clock()),
                output,
            );
            self.run(work, oldest, numbers, output)?;
        }
    }

    /// This task's part of a cut, written into `cut`. Returns the position the source may commit, if it moved.
    pub(crate) fn cut(&mut self, cut: &mut Cut) -> Option<u64> {
        let plan = self.plan.clone();
        let source = &plan.sources[usize::from(self.partition.source)];
        let mut position = self.next;
        if plan.durable_in_flight {
            for (stage, waiting) in plan.stages.iter().zip(&mut self.waiting) {
                let (changed, done) = waiting.take_changes();
                for number in changed {
                    if let Some(entry) = waiting.get(number) {
                        let payload = crate::entry::encode(
                            &source.name,
                            self.partition.number,
                            &stage.name,
                            entry,
                        );
                        cut.in_flight_added.push(InFlightEntry { number, payload });
                    }
                }
                cut.in_flight_done.extend(done);
            }
        } else if let Some(lowest) = self.waiting.iter().filter_map(Waiting::lowest_offset).min() {
            position = position.map(|next| next.min(lowest));
        }
        for (slot, kind, version) in self.slots() {
            if !cut.slots.iter().any(|known| known.slot == slot) {
                cut.slots.push(SlotVersion {
                    slot: slot.to_owned(),
                    version: version.version.clone(),
                    digest: version.digest.clone(),
                    configured: kind.configured.clone(),
                });
            }
        }
        if position == self.committed {
            return None;
        }
        self.committed = position;
        if let (true, Some(position)) = (source.positions_in_log, position) {
            let number = self.partition.number;
            cut.sources.push(SourcePosition {
                source: source.name.clone(),
                partition: number,
                identity: source
                    .identities
                    .get(number as usize)
                    .cloned()
                    .unwrap_or_default(),
                position,
            });
        }
        position
    }

    /// Whether a cut would have something to say of this task.
    pub(crate) fn has_changes(&self) -> bool {
        let lowest = self.waiting.iter().filter_map(Waiting::lowest_offset).min();
        let position = if self.plan.durable_in_flight {
            self.next
        } else {
            lowest.or(self.next)
        };
        position != self.committed
            || (self.plan.durable_in_flight && self.waiting.iter().any(Waiting::has_changes))
    }
}

/// Sends a batch to all who take it; to nobody means its records are dropped.
fn send(work: &mut Work, targets: &[Target], batch: Batch, output: &mut Output) {
    let records = batch.len() as u64;
    let Some((last, others)) = targets.split_last() else {
        output.counts.dropped += records;
        output.meters.records_dropped.add(records);
        return;
    };
    output.counts.split += records * others.len() as u64;
    RecordsFannedOut {
        records,
        readers: targets.len() as u64,
    }
    .emit(&output.meters);
    for target in others {
        work.push_back((*target, batch.clone()));
    }
    work.push_back((*last, batch));
}

/// What becomes of a record beside its emissions.
enum Fate<'a> {
    /// It went on, or was dropped.
    Gone,
    /// It must come again.
    Retry { delay_ms: u32, reason: &'a str },
    /// It is a dead letter, for this reason.
    Dead(String),
}

/// Records on their way out of an operator, by output.
struct Collected {
    outputs: Vec<Option<BatchBuilder>>,
    dropped: u64,
    split: u64,
}

impl Collected {
    fn new(outputs: usize) -> Collected {
        Collected {
            outputs: (0..outputs).map(|_| None).collect(),
            dropped: 0,
            split: 0,
        }
    }

    fn output(&mut self, output: u16) -> &mut BatchBuilder {
        self.outputs[usize::from(output)].get_or_insert_default()
    }

    fn take<'a>(
        &mut self,
        record: &RecordView<'_>,
        outcome: &Outcome<'a>,
    ) -> Result<Fate<'a>, ArenaFull> {
        let emit = record.id().emit;
        match outcome {
            Outcome::Pass => self.output(0).push_record(record)?,
            Outcome::Drop => self.dropped += 1,
            Outcome::Replace(patch) => self.output(0).push_patched(record, patch, emit)?,
            Outcome::Route(Emission { output, patch }) => {
                self.output(*output).push_patched(record, patch, emit)?;
            }
            Outcome::Split(pieces) if pieces.is_empty() => self.dropped += 1,
            Outcome::Split(pieces) => {
                let children: Result<Vec<u32>, _> = (0..pieces.len() as u32)
                    .map(|piece| child_emit(emit, piece))
                    .collect();
                let children = match children {
                    Ok(children) => children,
                    Err(too_deep) => return Ok(Fate::Dead(too_deep.to_string())),
                };
                for (emission, child) in pieces.iter().zip(children) {
                    self.output(emission.output)
                        .push_patched(record, &emission.patch, child)?;
                }
                self.split += pieces.len() as u64 - 1;
            }
            Outcome::Retry { delay_ms, reason } => {
                return Ok(Fate::Retry {
                    delay_ms: *delay_ms,
                    reason,
                });
            }
            Outcome::DeadLetter { reason } => return Ok(Fate::Dead((*reason).to_owned())),
        }
        Ok(Fate::Gone)
    }
}

/// Microseconds since the Unix epoch.
pub(crate) fn clock() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}
