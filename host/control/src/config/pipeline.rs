//! The validated pipeline: what the file means. Names are resolved to indexes, paths are absolute, units are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_contract::{CommitPoint, SinkClass, SourceClass, Wanted};

use super::audit::Audit;
use super::feeds::Feed;
use super::gateway::{Gateway, GatewayKey, GatewayTls, GatewayTokens, Ingest, Route};
use super::internal::{Changelog, NewTopic};
use super::mistake::Mistake;
use super::models::{Engine, Model, ModelStage};
use super::telemetry::{Collector, Telemetry};
use super::text::Span;

/// A pipeline file that has no mistake.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The file, absolute.
    pub file: PathBuf,
    /// Name, of `a-z`, `0-9` and `-`.
    pub name: String,
    /// Directory of the commit log, absolute.
    pub state: PathBuf,
    /// Workers asked for; without it [`Pipeline::workers_for`] decides.
    pub workers: Option<usize>,
    /// Longest time between two cuts.
    pub cut_interval: Duration,
    /// How often a record is to have an effect.
    pub delivery: Wanted,
    /// Most records of a batch.
    pub batch: usize,
    /// Where the summary is written at the end.
    pub summary: Option<PathBuf>,
    /// At least one, in the order of the file.
    pub sources: Vec<Source>,
    /// What all operators share.
    pub operators: Operators,
    /// What all models share.
    pub engine: Engine,
    /// In the order of the file.
    pub models: Vec<Model>,
    /// In the order of the file; a stage's inputs are sources and earlier stages.
    pub stages: Vec<Stage>,
    /// Where tokens go beside the cuts, in the order of the file; each has a stage that sends there.
    pub feeds: Vec<Feed>,
    /// At least one, in the order of the file.
    pub sinks: Vec<Sink>,
    /// Where dead letters go, as JSON. Unless the pipeline says otherwise, from topics to topics to a topic of the first
    /// source's cluster, `GROUP-dead-letters`; else to the file `dead-letters.jsonl` in the state directory.
    pub dead_letters: SinkKind,
    /// Where it is written who was answered what, if it is.
    pub audit: Option<Audit>,
    /// Loopback address of the admin API; none if it is off.
    pub admin: Option<SocketAddr>,
    /// The file with the token of those who scrape metrics, if they have one of their own.
    pub metrics_token: Option<MetricsToken>,
    /// Where metrics and health are told to those who ask from elsewhere, if they may.
    pub watch: Option<SocketAddr>,
    /// Where clients ask over HTTP; none if nobody can.
    pub gateway: Option<Gateway>,
    /// What is told to collectors of OpenTelemetry.
    pub telemetry: Telemetry,
    /// What may be run but is probably not meant.
    pub warnings: Vec<Mistake>,
    /// Where `step-tokens` is said, and by which key, if it is.
    pub(super) step_tokens_typed: Option<(Span, String)>,
    pub(super) text: std::sync::Arc<super::text::SourceText>,
}

/// The file with the token of those who scrape metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsToken {
    /// The file.
    pub path: PathBuf,
    pub(super) place: Span,
}

impl Pipeline {
    /// What stood in the file when it was read: what runs is that, whatever stands there later.
    pub fn written(&self) -> &str {
        &self.text.content
    }

    /// Workers for so many partitions: those asked for, else one per core, never more than partitions, at least one.
    pub fn workers_for(&self, partitions: usize) -> usize {
        let wanted = self.workers.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
        });
        wanted.min(partitions).max(1)
    }

    /// What makes a cut hold.
    pub fn commit_point(&self) -> CommitPoint {
        let sources: Vec<_> = self.sources.iter().map(|one| one.kind.class()).collect();
        let sinks: Vec<_> = self.sinks.iter().map(|one| one.kind.class()).collect();
        CommitPoint::of(self.delivery, &sources, &sinks)
    }

    /// Index of a stage.
    pub fn stage(&self, name: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.name == name)
    }

    /// Something that is wrong with a model, found after the file was read, at its line.
    pub fn mistake_of_model(&self, model: &Model, what: impl ToString) -> Mistake {
        self.mistake(&model.place, format!("model.{}", model.name), what)
    }

    /// Something that is wrong with one of the adapters that a model is to run on, by its number, at the line that names it.
    pub fn mistake_of_adapter(&self, model: &Model, number: usize, what: impl ToString) -> Mistake {
        match model.adapters_typed.get(number) {
            Some(Some((place, key))) => self.mistake(place, key.clone(), what),
            _ => self.mistake_of_model(model, what),
        }
    }

    /// Something that is wrong with the tokens of a step for a model, at the line that says how many; at the model's where none does.
    pub fn mistake_of_step_tokens(&self, model: &Model, what: impl ToString) -> Mistake {
        match &self.step_tokens_typed {
            Some((place, key)) => self.mistake(place, key.clone(), what),
            None => self.mistake_of_model(model, what),
        }
    }

    /// Something that is wrong with how many sequences a model runs at once, at the line that says it.
    pub fn mistake_of_sequences(&self, model: &Model, what: impl ToString) -> Mistake {
        match &model.sequences_typed {
            Some((place, key)) => self.mistake(place, key.clone(), what),
            None => self.mistake_of_model(model, what),
        }
    }

    /// Something that is wrong with a stage, found after the file was read, at its line.
    pub fn mistake_of_stage(&self, stage: &Stage, what: impl ToString) -> Mistake {
        self.mistake(&stage.place, format!("stage.{}", stage.name), what)
    }

    /// Something that is wrong with how long the answers of a stage may be, at the line that says it.
    pub fn mistake_of_length(&self, stage: &Stage, what: impl ToString) -> Mistake {
        match &stage.kind {
            StageKind::Model(asks) => match &asks.typed_max_tokens {
                Some(typed) => self.mistake(&typed.place, typed.key.clone(), what),
                None => self.mistake_of_stage(stage, what),
            },
            StageKind::Operator(_) => self.mistake_of_stage(stage, what),
        }
    }

    /// Something about what a stage says of its model's reasoning, at each line that says something.
    pub fn mistakes_of_reasoning(&self, asks: &ModelStage, what: impl ToString) -> Vec<Mistake> {
        let what = what.to_string();
        let places = [
            (asks.typed_reasoning.as_ref()).map(|typed| (&typed.place, &typed.key)),
            (asks.typed_reasoning_tokens.as_ref()).map(|typed| (&typed.place, &typed.key)),
        ];
        let places = places.into_iter().flatten();
        places
            .map(|(place, key)| self.mistake(place, key.clone(), &what))
            .collect()
    }

    /// Something about what a stage pins, at the line that says so.
    pub fn mistake_of_pin(&self, stage: &Stage, what: impl ToString) -> Mistake {
        match &stage.kind {
            StageKind::Model(asks) => match &asks.typed_pin_prefix {
                Some(typed) => self.mistake(&typed.place, typed.key.clone(), what),
                None => self.mistake_of_stage(stage, what),
            },
            StageKind::Operator(_) => self.mistake_of_stage(stage, what),
        }
    }

    /// Something about the prompt that a stage names, at the line that names it.
    pub fn mistake_of_prompt_name(&self, stage: &Stage, what: impl ToString) -> Mistake {
        match &stage.kind {
            StageKind::Model(asks) => match &asks.typed_prompt_name {
                Some(typed) => self.mistake(&typed.place, typed.key.clone(), what),
                None => self.mistake_of_stage(stage, what),
            },
            StageKind::Operator(_) => self.mistake_of_stage(stage, what),
        }
    }

    /// Something that is wrong with how the gateway speaks TLS, at its line.
    pub fn mistake_of_tls(&self, tls: &GatewayTls, what: impl ToString) -> Mistake {
        self.mistake(&tls.place, "gateway.certificate".to_owned(), what)
    }

    /// Something that is wrong with the token of metrics, at its line.
    pub fn mistake_of_metrics_token(&self, token: &MetricsToken, what: impl ToString) -> Mistake {
        self.mistake(&token.place, "admin.metrics-token-file".to_owned(), what)
    }

    /// Something that is wrong with a key of the gateway, at its line.
    pub fn mistake_of_key(&self, key: &GatewayKey, what: impl ToString) -> Mistake {
        self.mistake(&key.place, format!("gateway.key.{}", key.name), what)
    }

    /// Something that is wrong with the signed tokens of the gateway, at their line.
    pub fn mistake_of_tokens(&self, tokens: &GatewayTokens, what: impl ToString) -> Mistake {
        self.mistake(&tokens.place, "gateway.tokens".to_owned(), what)
    }

    /// Something that is wrong with where the gateway listens and to whom, at its line.
    pub fn mistake_of_gateway(&self, gateway: &Gateway, what: impl ToString) -> Mistake {
        self.mistake(&gateway.place, "gateway".to_owned(), what)
    }

    /// Something that is wrong with where something is told, at its line.
    pub fn mistake_of_collector(&self, collector: &Collector, what: impl ToString) -> Mistake {
        self.mistake(&collector.place, collector.key.to_owned(), what)
    }

    fn mistake(&self, place: &Span, key: String, what: impl ToString) -> Mistake {
        Mistake {
            file: self.text.shown.clone(),
            position: Some(self.text.position(place)),
            key,
            what: what.to_string(),
        }
    }
}

/// Where records come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name, unique over sources, stages and sinks.
    pub name: String,
    /// What it reads.
    pub kind: SourceKind,
    /// How bytes become records.
    pub decoding: Decoding,
    /// What has the records that wait, where cuts are transactions.
    pub changelog: Changelog,
}

/// What a source reads.
#[derive(Clone, Debug)]
pub enum SourceKind {
    /// Files; the k-th is partition k. Patterns are expanded and every file exists.
    File {
        /// Absolute, no two the same.
        paths: Vec<PathBuf>,
    },
    /// Standard input, one partition.
    Stdin,
    /// A topic.
    Kafka(KafkaSource),
    /// Requests of the gateway's clients.
    Gateway(Box<Route>),
    /// Records that the gateway's clients send.
    Ingest(Box<Ingest>),
}

impl SourceKind {
    /// What it can do.
    pub fn class(&self) -> SourceClass {
        match self {
            SourceKind::File { .. } => SourceClass::Replayable,
            SourceKind::Stdin => SourceClass::Once,
            SourceKind::Kafka(topic) => SourceClass::Group {
                cluster: cluster_of(&topic.brokers),
            },
            SourceKind::Gateway(_) => SourceClass::Caller,
            SourceKind::Ingest(_) => SourceClass::Ingest,
        }
    }
}

/// A cluster by its brokers, in whatever order they are given.
pub fn cluster_of(brokers: &[String]) -> String {
    let mut brokers = brokers.to_vec();
    brokers.sort();
    brokers.join(",")
}

/// A topic to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSource {
    /// `host:port`, at least one.
    pub brokers: Vec<String>,
    /// The topic.
    pub topic: String,
    /// Consumer group; pipeline and source, `support-bot-tickets`, unless the file says otherwise.
    pub group: String,
    /// Static id of this process in the group.
    pub instance: Option<String>,
    /// Where reading begins when the group has no offset.
    pub start: Start,
    /// Further settings of the client.
    pub properties: BTreeMap<String, String>,
    pub(super) places: Box<PropertyPlaces>,
}

/// Where the properties of a topic stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PropertyPlaces {
    /// Key of the table.
    pub(crate) key: String,
    pub(crate) table: Span,
    /// Of each name, and of its value.
    pub(crate) names: BTreeMap<String, (Span, Span)>,
}

/// Where reading of a topic begins when nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record.
    Earliest,
    /// After the newest record.
    Latest,
    /// At the first record of a time or later.
    At {
        /// Milliseconds since 1970.
        millis: i64,
    },
}

/// How bytes become records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoding {
    /// The format.
    pub format: Format,
    /// Dotted path of the key's field, or name of its column.
    pub key: Option<String>,
    /// Dotted path of the field with the event time, or name of its column.
    pub event_time: Option<String>,
    /// Dotted paths or columns that every record must have.
    pub required: Vec<String>,
    /// Longest record, bytes.
    pub max_record: usize,
    /// `csv` only: the byte between fields.
    pub delimiter: u8,
}

/// A format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON value a line.
    Json,
    /// CSV with a header line.
    Csv,
    /// One record a line (or a message), as it is.
    Raw,
}

impl Format {
    /// Its name in the pipeline file.
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Raw => "raw",
        }
    }
}

/// A stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Name, unique over sources, stages and sinks.
    pub name: String,
    /// Where its records come from; at least one, no two the same.
    pub inputs: Vec<Input>,
    /// What it does.
    pub kind: StageKind,
    pub(super) place: Span,
}

/// What a stage does.
#[derive(Clone, Debug)]
pub enum StageKind {
    /// Runs a component.
    Operator(Box<OperatorStage>),
    /// Asks a model.
    Model(Box<ModelStage>),
}

/// An input of a stage or a sink.
#[derive(Clone, Debug)]
pub struct Input {
    /// Who gives it.
    pub from: Node,
    /// A named output of that stage; without it, its main output.
    pub output: Option<String>,
    pub(super) place: Span,
}

/// A source or a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// Index of a source.
    Source(usize),
    /// Index of a stage.
    Stage(usize),
}

/// A stage that runs a component.
#[derive(Clone, Debug)]
pub struct OperatorStage {
    /// The component's file, absolute; it exists.
    pub component: PathBuf,
    /// Passed to the operator as JSON; an object.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// What it may import.
    pub grants: BTreeSet<Grant>,
    /// What becomes of a component that imports more.
    pub ungranted: Ungranted,
    /// What it may use.
    pub limits: Limits,
    /// How often it may send one record to `retry`; after that the record is a dead letter.
    pub retries: u32,
    /// How often one revision of it may fail before it is run no more; any number if there is none.
    pub breaker: Option<Breaker>,
    /// Most records that it may fail on in a run that ends well; any number but all if there is none.
    pub max_failed_records: Option<u64>,
    /// A file of records on which `tidegate check` tries it, absolute; it exists.
    pub samples: Option<PathBuf>,
}

/// When an operator's revision is run no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// Most instances it may lose.
    pub lost_instances: Option<u64>,
    /// Most records it may fail on.
    pub failed_records: Option<u64>,
    /// Within this time.
    pub within: Duration,
    /// What then.
    pub then: Then,
}

/// What becomes of a slot whose revision has failed too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The revision before it runs again, after a restart that of the file; where there is none the pipeline stops.
    FallBack,
    /// The pipeline stops; what waits stays in the commit log.
    Stop,
}

/// A capability given to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// Writing log lines.
    Log,
    /// Reading its configuration.
    Config,
    /// Counting.
    Metrics,
}

impl Grant {
    /// All there are.
    pub const ALL: [Grant; 3] = [Grant::Log, Grant::Config, Grant::Metrics];

    /// Its name in the pipeline file: that of the interface.
    pub fn name(self) -> &'static str {
        match self {
            Grant::Log => "log",
            Grant::Config => "config",
            Grant::Metrics => "metrics",
        }
    }
}

/// What becomes of a component that imports what it is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ungranted {
    /// It does not start.
    Refuse,
    /// It starts, and a call of what is not granted is a trap.
    Trap,
}

/// What all operators of a pipeline may use together, and what compiling one of them may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operators {
    /// Memory of all instances together, bytes; without it, half of what the machine has.
    pub memory: Option<u64>,
    /// Memory of a compilation, bytes.
    pub compile_memory: u64,
    /// CPU time of a compilation.
    pub compile_time: Duration,
}

impl Default for Operators {
    fn default() -> Self {
        Self {
            memory: None,
            compile_memory: 1 << 30,
            compile_time: Duration::from_secs(120),
        }
    }
}

/// What a component may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of an instance, bytes.
    pub memory: usize,
    /// Memory of all instances of the stage together, bytes, those of a deployment included; without it there is only
    /// that of all operators.
    pub total_memory: Option<u64>,
    /// Wall-clock time for one call, of a whole batch or of as much of it as the operator manages.
    pub deadline: Duration,
    /// Answer to a batch, bytes.
    pub output: usize,
    /// Time for finding the poison record of a batch; its other records come again one by one then.
    pub bisect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            total_memory: None,
            deadline: Duration::from_secs(1),
            output: 16 << 20,
            bisect: Duration::from_secs(2),
        }
    }
}

/// Where records go.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Name, unique over sources, stages and sinks.
    pub name: String,
    /// Where its records come from; at least one, no two the same.
    pub inputs: Vec<Input>,
    /// What it writes.
    pub kind: SinkKind,
    /// How records become bytes.
    pub encoding: Encoding,
}

/// What a sink writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// A file, which no other sink writes and no source reads.
    File {
        /// Absolute.
        path: PathBuf,
    },
    /// Standard output.
    Stdout,
    /// A topic.
    Kafka(KafkaSink),
    /// Whoever asked through the gateway.
    Gateway {
        /// The member of the value that is the answer.
        field: String,
    },
    /// Those who follow `/v1/outputs/NAME` at the gateway.
    Output {
        /// Most records that are kept for those who come later.
        max_records: u64,
        /// Most bytes of them.
        max_bytes: u64,
    },
}

impl SinkKind {
    /// What it can do.
    pub fn class(&self) -> SinkClass {
        match self {
            SinkKind::File { .. } => SinkClass::Truncatable,
            SinkKind::Stdout => SinkClass::AtLeastOnce,
            SinkKind::Kafka(topic) => SinkClass::Transactional {
                cluster: cluster_of(&topic.brokers),
            },
            SinkKind::Gateway { .. } => SinkClass::Caller,
            SinkKind::Output { .. } => SinkClass::AtLeastOnce,
        }
    }
}

/// How records become bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The format.
    pub format: Format,
    /// `json` only: the whole record as an object, not its value alone.
    pub envelope: bool,
    /// `csv` only: the columns, dotted paths into the value; at least one.
    pub columns: Vec<String>,
    /// `csv` only: the byte between fields.
    pub delimiter: u8,
}

/// A topic to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSink {
    /// `host:port`, at least one.
    pub brokers: Vec<String>,
    /// The topic.
    pub topic: String,
    /// How it is made if it is missing; one that the file names must be there, and has none.
    pub made: Option<NewTopic>,
    /// Further settings of the client.
    pub properties: BTreeMap<String, String>,
    pub(super) places: Box<PropertyPlaces>,
}
