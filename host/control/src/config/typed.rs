//! What was typed: each section of the file by itself, its values read and in range, its names and paths still as
//! they stand. What could not be read is `None`, and a mistake says why.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_contract::{Aggregation, Parameters, PromptTemplate, Structure, TemplateArguments};

use super::audit::TypedAudit;
use super::findings::Typed;
use super::gateway::{
    Endpoint, GatewayLimits, Ingest, Kept, KeySecret, Quota, Route, TokenAlgorithm,
};
use super::internal::NewTopic;
use super::models::{AdapterChoice, BiasedToken, Into, KvPrecision, Order, Turn};
use super::pipeline::{
    Breaker, Encoding, Format, Grant, Limits, Operators, PropertyPlaces, Start, Ungranted,
};
use super::remote_models::RemoteModel;
use super::telemetry::Telemetry;
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
    pub(crate) engine: TypedEngine,
    pub(crate) models: Vec<TypedModel>,
    pub(crate) stages: Vec<TypedStage>,
    pub(crate) feeds: Vec<TypedFeed>,
    pub(crate) sinks: Vec<TypedSink>,
    pub(crate) dead_letters: Option<Option<TypedSinkKind>>,
    pub(crate) audit: Option<TypedAudit>,
    pub(crate) admin: TypedAdmin,
    pub(crate) metrics_token: Option<Typed<String>>,
    pub(crate) watch: Option<SocketAddr>,
    pub(crate) gateway: Option<TypedGateway>,
    pub(crate) telemetry: Telemetry,
}

/// What the models of an adapter share.
#[derive(Debug, Default)]
pub(crate) struct TypedEngine {
    pub(crate) memory: Option<u64>,
    pub(crate) step_tokens: Option<Typed<usize>>,
}

/// Where the admin API listens.
#[derive(Debug, Default)]
pub(crate) enum TypedAdmin {
    #[default]
    Default,
    Off,
    Address(SocketAddr),
}

/// The gateway, its files not yet looked for.
#[derive(Debug)]
pub(crate) struct TypedGateway {
    pub(crate) place: Span,
    pub(crate) address: SocketAddr,
    pub(crate) address_place: Option<Span>,
    pub(crate) certificate: Option<Typed<String>>,
    pub(crate) private_key: Option<Typed<String>>,
    pub(crate) origins: Vec<String>,
    pub(crate) limits: GatewayLimits,
    pub(crate) keys: Vec<TypedKey>,
    pub(crate) tokens: Option<TypedTokens>,
    pub(crate) cache: Option<Kept>,
    pub(crate) idempotency: Kept,
    pub(crate) share_equal_requests: bool,
}

#[derive(Debug)]
pub(crate) struct TypedKey {
    pub(crate) name: Typed<String>,
    pub(crate) secret: Option<KeySecret>,
    pub(crate) scope: TypedScope,
    pub(crate) quota: Quota,
}

#[derive(Debug)]
pub(crate) struct TypedTokens {
    pub(crate) place: Span,
    pub(crate) algorithm: Option<TokenAlgorithm>,
    pub(crate) keys: Option<TypedTokenKeys>,
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) leeway: Duration,
    pub(crate) scope: TypedScope,
    pub(crate) quota: Quota,
}

#[derive(Debug)]
pub(crate) enum TypedTokenKeys {
    Variable(Typed<String>),
    File(Typed<String>),
    Url { url: String, refresh: Duration },
}

#[derive(Debug)]
pub(crate) struct TypedScope {
    pub(crate) endpoints: Option<Vec<Endpoint>>,
    pub(crate) models: Option<Vec<Typed<String>>>,
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
    Gateway(Box<Route>),
    Ingest(Box<Ingest>),
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
    /// None where the file names none.
    pub(crate) adapters: Vec<Option<Typed<AdapterChoice>>>,
    pub(crate) sequences: Option<Typed<usize>>,
    pub(crate) context: Option<usize>,
    pub(crate) queue: usize,
    pub(crate) kv_memory: Option<u64>,
    pub(crate) kv_precision: KvPrecision,
    pub(crate) reproducible: bool,
    pub(crate) kernels: Option<String>,
    pub(crate) pre_tokenizer: Option<String>,
    pub(crate) draft: Option<Typed<String>>,
    /// Whether it is another model through a low-rank adapter, and which.
    pub(crate) is_lora: bool,
    pub(crate) base: Option<Typed<String>>,
    /// What is known of one that another server has.
    pub(crate) remote: Option<Box<TypedRemote>>,
}

/// A model that another server has, its files not yet looked for.
#[derive(Debug)]
pub(crate) struct TypedRemote {
    pub(crate) model: RemoteModel,
    pub(crate) url: Typed<String>,
    pub(crate) certificates: Option<Typed<String>>,
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
    pub(crate) prompt_name: Option<Typed<String>>,
    pub(crate) messages: bool,
    pub(crate) tokens: Vec<Typed<String>>,
    pub(crate) tokens_to: Vec<Typed<String>>,
    pub(crate) truncate: Option<Typed<String>>,
    pub(crate) prompt_tokens: Option<Typed<usize>>,
    pub(crate) seed: u64,
    pub(crate) priority: Option<u8>,
    pub(crate) order: Option<Typed<Order>>,
    pub(crate) in_flight: Option<Typed<usize>>,
    pub(crate) per_key: Option<Typed<usize>>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempts: u32,
    pub(crate) into: Into,
    pub(crate) field: String,
}

#[derive(Debug)]
pub(crate) enum TypedAsk {
    Generate(Box<TypedGenerate>),
    Embed,
    Classify {
        threshold: f32,
    },
    Recognize {
        aggregation: Aggregation,
        threshold: f32,
    },
    Rerank {
        documents: Vec<String>,
        top: Option<usize>,
    },
}

#[derive(Debug)]
pub(crate) struct TypedGenerate {
    /// Where it is true.
    pub(crate) pin_prefix: Option<Typed<bool>>,
    pub(crate) raw: bool,
    pub(crate) system: Option<String>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) template_arguments: TemplateArguments,
    pub(crate) reasoning: Option<Typed<String>>,
    pub(crate) max_tokens: Option<Typed<usize>>,
    /// As `parameters` have it.
    pub(crate) reasoning_tokens: Option<Typed<u64>>,
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
pub(crate) struct TypedFeed {
    pub(crate) name: Typed<String>,
    pub(crate) kind: Option<TypedFeedKind>,
}

#[derive(Debug)]
pub(crate) enum TypedFeedKind {
    Output {
        max_records: u64,
        max_bytes: u64,
    },
    Kafka {
        topic: TypedTopic,
        queue: usize,
        patience: Duration,
    },
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
    Gateway { field: Option<String> },
    Output { max_records: u64, max_bytes: u64 },
}
