//! A task: one input partition's run of the pipeline, as a fold over its events.

mod answers;
mod cut;
mod operate;
mod retry;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{Operator, OperatorVersion, Partition, Rejected, RequestId};
use tidegate_record::{Batch, BatchBuilder, RecordId, RecordView};
use tidegate_telemetry::Meters;
use tidegate_telemetry::events::{ModelAsked, RecordsFannedOut, RecordsRead};

use crate::entry::{Entry, Lane, Restored, State, Tokens};
use crate::error::FlowError;
use crate::output::Output;
use crate::plan::{OperatorStage, Order, Plan, StageKind, Target};
use crate::waiting::{Waiting, lane};

/// A task may have this many records waiting for the retry of an operator before it is read no further.
const MAX_RETRYING: usize = 1024;

/// A task whose records that wait in one stage have this many bytes is read no further, however few they are.
const MAX_WAITING_BYTES: usize = 256 << 20;

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
            StageKind::Operator(_) if entry.model.is_empty() => Order::Key,
            StageKind::Model(model) if !entry.model.is_empty() => {
                entry.goes_to(&model.model.facts().digest);
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
                if waiting.bytes() >= MAX_WAITING_BYTES {
                    return 0;
                }
                limit.saturating_sub(waiting.len())
            })
            .min()
            .unwrap_or(usize::MAX)
    }

    /// Records that wait for a model, or for those before them.
    pub(crate) fn with_models(&self) -> usize {
        let stages = self.plan.stages.iter().zip(&self.waiting);
        stages
            .filter(|(stage, _)| matches!(stage.kind, StageKind::Model(_)))
            .map(|(_, waiting)| waiting.len())
            .sum()
    }

    /// Records that wait.
    pub(crate) fn in_flight(&self) -> usize {
        self.waiting.iter().map(Waiting::len).sum()
    }

    /// The partition is read elsewhere: whoever has it now asks the models again.
    pub(crate) fn abandon(self, meters: &Meters) {
        meters.add_in_flight(-(self.with_models() as i64));
        for (stage, waiting) in self.plan.stages.iter().zip(&self.waiting) {
            let StageKind::Model(kind) = &stage.kind else {
                continue;
            };
            for (_, entry) in waiting.iter() {
                if let State::Submitted(request) = entry.state {
                    kind.model.cancel(RequestId(request));
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
            model: match &self.plan.stages[stage].kind {
                StageKind::Operator(_) => "".into(),
                StageKind::Model(model) => model.model.facts().digest.into(),
            },
        })
    }

    fn too_large(&self, stage: usize, why: &dyn std::fmt::Display) -> FlowError {
        FlowError::Batch {
            name: self.plan.stages[stage].name.clone(),
            why: why.to_string(),
        }
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

/// Microseconds since the Unix epoch.
pub(crate) fn clock() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}
