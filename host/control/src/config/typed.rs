//! What was typed: each section of the file by itself, its values read and in range, its names and paths still as
//! they stand. What could not be read is `None`, and a mistake says why.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_contract::{Parameters, PromptTemplate, Structure};

use super::findings::Typed;
use super::internal::NewTopic;
use super::models::{AdapterChoice, BiasedToken, Engine, Into, KvPrecision, Order};
use super::pipeline::{
    Breaker, Encoding, Format, Grant, Limits, Operators, PropertyPlaces, Start, Ungranted,
};
use super::text::Span;

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct TypedFile {
    pub(crate) name: Option<Typed<String>>,
    pub(crate) state: Option<Typed<String>>,
    pub(crate) workers: Option<Typed<u64>>,
    pub(crate) cut_interval: Option<Typed<Duration>>,
    pub(crate) delivery: Option<tidegate_contract::Wanted>,
    pub(crate) batch: Option<usize>,
    pub(crate) summary: Option<Typed<String>>,
    pub(crate) sources: Vec<TypedSource>,
    pub(crate) operators: Operators,
    pub(crate) engine: Engine,
    pub(crate) models: Vec<TypedModel>,
    pub(crate) stages: Vec<TypedStage>,
    pub(crate) sinks: Vec<TypedSink>,
    pub(crate) dead_letters: Option<Option<TypedSinkKind>>,
    pub(crate) admin: TypedAdmin,
}

/// Where the admin API listens.
#[derive(Debug, Default)]
pub(crate) enum TypedAdmin {
    #[default]
    Default,
    Off,
    Address(SocketAddr),
}

#[derive(Debug)]
pub(crate) struct TypedSource {
    pub(crate) name: Typed<String>,
    pub(crate) kind: Option<TypedSourceKind>,
    pub(crate) format: Format,
    pub(crate) key: Option<String>,
    pub(crate) event_time: Option<String>,
    pub(crate) required: Vec<String>,
    pub(crate) max_record: usize,
    pub(crate) delimiter: u8,
    pub(crate) changelog: Option<TypedChangelog>,
}

/// The topic of what waits, as far as it is told.
#[derive(Debug)]
pub(crate) struct TypedChangelog {
    pub(crate) place: Span,
    pub(crate) key: String,
    pub(crate) topic: Option<Typed<String>>,
    pub(crate) made: NewTopic,
}

#[derive(Debug)]
pub(crate) enum TypedSourceKind {
    File(Vec<Typed<String>>),
    Stdin,
    Kafka {
        topic: TypedTopic,
        group: Option<Typed<String>>,
        instance: Option<String>,
        start: Start,
    },
}

#[derive(Debug)]
pub(crate) struct TypedTopic {
    pub(crate) brokers: Vec<String>,
    pub(crate) topic: Typed<String>,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) places: Box<PropertyPlaces>,
}

#[derive(Debug)]
pub(crate) struct TypedModel {
    pub(crate) name: Typed<String>,
    pub(crate) path: Option<Typed<String>>,
    pub(crate) adapter: AdapterChoice,
    pub(crate) sequences: usize,
    pub(crate) context: Option<usize>,
    pub(crate) queue: usize,
    pub(crate) kv_memory: Option<u64>,
    pub(crate) kv_precision: KvPrecision,
    pub(crate) reproducible: bool,
    pub(crate) kernels: Option<String>,
    pub(crate) draft: Option<Typed<String>>,
}

#[derive(Debug)]
pub(crate) struct TypedStage {
    pub(crate) name: Option<Typed<String>>,
    pub(crate) place: Span,
    pub(crate) inputs: Option<Vec<Typed<String>>>,
    pub(crate) kind: Option<TypedStageKind>,
}

#[derive(Debug)]
pub(crate) enum TypedStageKind {
    Operator(Box<TypedOperator>),
    Model(Box<TypedModelStage>),
}

#[derive(Debug)]
pub(crate) struct TypedOperator {
    pub(crate) component: Typed<String>,
    pub(crate) config: serde_json::Map<String, serde_json::Value>,
    pub(crate) grants: BTreeSet<Grant>,
    pub(crate) ungranted: Ungranted,
    pub(crate) limits: Limits,
    pub(crate) retries: u32,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) max_failed_records: Option<u64>,
    pub(crate) samples: Option<Typed<String>>,
}

#[derive(Debug)]
pub(crate) struct TypedModelStage {
    pub(crate) model: Typed<String>,
    pub(crate) ask: TypedAsk,
    pub(crate) prompt: Option<PromptTemplate>,
    pub(crate) truncate: Option<Typed<String>>,
    pub(crate) prompt_tokens: Option<Typed<usize>>,
    pub(crate) seed: u64,
    pub(crate) priority: u8,
    pub(crate) order: Order,
    pub(crate) max_in_flight: usize,
    pub(crate) max_in_flight_per_key: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempts: u32,
    pub(crate) into: Into,
    pub(crate) field: String,
}

#[derive(Debug)]
pub(crate) enum TypedAsk {
    Generate(Box<TypedGenerate>),
    Embed,
    Classify { threshold: f32 },
}

#[derive(Debug)]
pub(crate) struct TypedGenerate {
    pub(crate) raw: bool,
    pub(crate) system: Option<String>,
    pub(crate) max_tokens: Option<Typed<usize>>,
    /// All but `max_tokens` and `structure`.
    pub(crate) parameters: Parameters,
    pub(crate) bias: Vec<(BiasedToken, f32)>,
    pub(crate) structure: Option<TypedStructure>,
}

/// What an answer must be.
#[derive(Debug)]
pub(crate) enum TypedStructure {
    /// Ready.
    Here(Structure),
    /// In a file with a JSON Schema.
    SchemaFile(Typed<String>),
    /// In a file with a grammar.
    GrammarFile(Typed<String>),
}

#[derive(Debug)]
pub(crate) struct TypedSink {
    pub(crate) name: Typed<String>,
    pub(crate) inputs: Option<Vec<Typed<String>>>,
    pub(crate) kind: Option<TypedSinkKind>,
    pub(crate) encoding: Encoding,
}

#[derive(Debug)]
pub(crate) enum TypedSinkKind {
    File(Typed<String>),
    Stdout { place: Span, key: String },
    Kafka(TypedTopic),
}
