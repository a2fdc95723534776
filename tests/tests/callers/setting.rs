//! A run over a table of callers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    Assignment, AuditLog, CommitError, CommitLog, CommitPoint, Committer, Cut, DeadLetter,
    FileLayer, HostHeaders, Keeper, Model, Parameters, Participants, PromptTemplate, Settled, Sink,
    SinkError, SinkPosition, TaskId, TaskImage,
};
use tidegate_flow::{
    AnswerInto, Ask, Called, Ended, Heard, Makers, ModelStage, OperatorStage, Order, Outdated,
    Positions, Run, Source, Stage, StageKind, Target, Topology, WorkerParts,
};
use tidegate_record::PublicRecord;
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

use crate::native::Native;
use crate::table::{Answers, Incoming, Table};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Takes everything and keeps nothing.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn pending(&self) -> usize {
        0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn discard(&mut self) {}
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Takes back every so many cuts.
struct TakesBack {
    inner: LogCommitter,
    every: usize,
    begun: usize,
    taken_back: bool,
}

impl Committer for TakesBack {
    fn keeper(&self, source: &str) -> Keeper {
        self.inner.keeper(source)
    }
    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        self.inner.load(tasks)
    }
    fn begin(&mut self, mut cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        self.begun += 1;
        self.taken_back = self.every > 0 && self.begun.is_multiple_of(self.every);
        match self.taken_back {
            true => sinks.flush(&mut cut),
            false => self.inner.begin(cut, sinks),
        }
    }
    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError> {
        if std::mem::take(&mut self.taken_back) {
            let (why, refused) = ("the test says so".into(), Vec::new());
            return Ok(Some(Settled::Aborted { why, refused }));
        }
        self.inner.settled(wait)
    }
    fn release(&mut self, tasks: &[TaskId]) {
        self.inner.release(tasks);
    }
}

/// A run, and those who wait.
pub(crate) struct Setting {
    pub(crate) table: Table,
    pub(crate) disk: MemoryDisk,
    pub(crate) stages: Vec<Stage>,
    /// Who takes what is asked.
    pub(crate) targets: Vec<Target>,
    /// Every so many cuts come to nothing; 0 is none.
    pub(crate) takes_back: usize,
    pub(crate) cut_interval: Duration,
    pub(crate) batch: usize,
    pub(crate) batch_bytes: usize,
    /// How long a run that is told to end waits for what is in flight.
    pub(crate) drain: Duration,
    pub(crate) audit: Option<Box<dyn AuditLog>>,
}

/// The sink that answers, and one that does not.
pub(crate) const ANSWERS: Target = Target::Sink(0);
pub(crate) const ELSEWHERE: Target = Target::Sink(1);

impl Setting {
    pub(crate) fn new(stages: Vec<Stage>) -> Setting {
        Setting {
            table: Table::default(),
            disk: MemoryDisk::new(),
            stages,
            targets: vec![Target::Stage(0)],
            takes_back: 0,
            cut_interval: Duration::from_millis(1),
            batch: 8,
            batch_bytes: 1 << 20,
            drain: Duration::from_secs(20),
            audit: None,
        }
    }

    pub(crate) fn start(mut self) -> Running {
        let layer: Arc<dyn FileLayer> = Arc::new(self.disk.clone());
        let key = StateKey::from_hex(&"55".repeat(32)).unwrap();
        let (log, recovered) = FileCommitLog::open(layer, Path::new("/state/log"), key).unwrap();
        let log: Arc<dyn CommitLog> = Arc::new(log);
        let names: Vec<String> = self.stages.iter().map(|stage| stage.name.clone()).collect();
        let (table, takes_back) = (self.table.clone(), self.takes_back);
        let audit = self.audit.take();
        let topology = self.topology();
        let makers = topology.makers(0);
        let incoming = Incoming {
            table: table.clone(),
            assigned: false,
            paused: false,
        };
        let parts = WorkerParts {
            seal: None,
            audit,
            sources: vec![Box::new(incoming)],
            sinks: vec![Box::new(Answers(table.clone())), Box::new(Nowhere)],
            dead: Box::new(Nowhere),
            committer: Box::new(TakesBack {
                inner: LogCommitter::alone(log.clone()),
                every: takes_back,
                begun: 0,
                taken_back: false,
            }),
        };
        let meters = Arc::new(Meters::new("callers", names.iter().map(String::as_str)));
        let run = Run::start(topology, vec![parts], log, recovered, meters.clone()).unwrap();
        Running {
            table,
            makers,
            run,
            meters,
        }
    }

    pub(crate) fn topology(self) -> Topology {
        let callers = Called {
            callers: Arc::new(self.table.clone()),
            sinks: [(0, heard(&self.stages, "answer"))].into(),
            outdated: Outdated::default(),
        };
        Topology {
            sources: vec![Source {
                name: "asked".into(),
                targets: self.targets,
                fixed: true,
                positions: Positions::Nobody,
                called: true,
                beside: false,
                identities: vec!["requests".into()],
                apart: String::new(),
            }],
            stages: self.stages,
            sinks: vec!["answers".into(), "elsewhere".into()],
            commit_point: CommitPoint::Log,
            batch: self.batch,
            batch_bytes: self.batch_bytes,
            cut_interval: self.cut_interval,
            callers: Some(callers),
            drain: self.drain,
        }
    }
}

/// A run that goes on.
pub(crate) struct Running {
    pub(crate) table: Table,
    pub(crate) makers: Makers,
    pub(crate) run: Run,
    pub(crate) meters: Arc<Meters>,
}

impl Running {
    /// Waits until every record has ended, and ends the run, which must be well.
    pub(crate) fn end(self) -> Ended {
        let run = &self.run;
        until("every record has ended", PATIENCE, || {
            self.table.is_done() || run.is_finished()
        });
        run.controls().stop();
        let ended = self.run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert!(self.table.is_done());
        let counts = ended.counts;
        assert_eq!(
            counts.input + counts.split,
            counts.output + counts.dropped + counts.dead,
            "every record is accounted for: {counts:?}"
        );
        ended
    }
}

/// A stage over a native operator; its named output is `side`.
pub(crate) fn operator(name: &str, slot: Native, main: Vec<Target>, side: Vec<Target>) -> Stage {
    Stage {
        name: name.into(),
        targets: main,
        kind: StageKind::Operator(OperatorStage {
            slot: Arc::new(slot),
            configured: "sha256:0".into(),
            named: [("side".to_owned(), side)].into(),
            retries: 3,
        }),
    }
}

/// A stage whose records say themselves what is asked.
pub(crate) fn asking(name: &str, model: Arc<dyn Model>, targets: Vec<Target>) -> Stage {
    model_stage(name, stage_of(model), targets)
}

pub(crate) fn model_stage(name: &str, stage: ModelStage, targets: Vec<Target>) -> Stage {
    Stage {
        name: name.into(),
        targets,
        kind: StageKind::Model(Box::new(stage)),
    }
}

pub(crate) fn stage_of(model: Arc<dyn Model>) -> ModelStage {
    ModelStage {
        name: "model".into(),
        model,
        alternatives: Vec::new(),
        ask: Ask::Generate {
            from_record: true,
            turns: Vec::new(),
            template_arguments: Default::default(),
            reasoning: None,
            raw: false,
            system: None,
            parameters: Box::new(Parameters {
                max_tokens: 64,
                ..Parameters::default()
            }),
        },
        prompt: PromptTemplate::default(),
        truncate: None,
        prompt_tokens: 100,
        seed: 7,
        class: None,
        order: Order::None,
        max_in_flight: 64,
        max_in_flight_per_key: 4,
        deadline: None,
        tokens: Vec::new(),
        token_feeds: Vec::new(),
        attempts: 3,
        into: AnswerInto::Member,
        field: "answer".into(),
    }
}

/// Whose answers a sink takes that answers with this member: first of those that write it, of each the last first.
pub(crate) fn heard(stages: &[Stage], field: &str) -> Vec<Heard> {
    let stages = stages.iter().enumerate().rev();
    let all = stages.filter_map(|(index, stage)| match &stage.kind {
        StageKind::Model(asks) => Some(Heard {
            stage: index,
            writes: match asks.into {
                AnswerInto::Attributes => false,
                AnswerInto::Value => true,
                AnswerInto::Member => asks.field == field,
            },
        }),
        StageKind::Operator(_) => None,
    });
    let (mut writing, aside): (Vec<_>, Vec<_>) = all.partition(|heard| heard.writes);
    writing.extend(aside);
    writing
}

/// What asks for an answer to this.
pub(crate) fn chat(text: &str) -> String {
    serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string()
}
