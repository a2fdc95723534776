//! The validated gateway: where it listens, who may ask, and what its sources and sinks are.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::findings::Typed;
use super::read_load::TypedLoadStep;
use super::text::Span;

/// The HTTP front of a pipeline.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Where it listens; loopback unless there are keys or tokens.
    pub address: SocketAddr,
    /// With these it speaks TLS.
    pub tls: Option<GatewayTls>,
    /// Origins whose pages may ask, as browsers send them, or `*`.
    pub origins: Vec<String>,
    /// What a connection and a request may take.
    pub limits: GatewayLimits,
    /// Static keys, in the order of the file.
    pub keys: Vec<GatewayKey>,
    /// Signed tokens.
    pub tokens: Option<GatewayTokens>,
    /// Answers that are kept to be given again.
    pub cache: Option<Kept>,
    /// Answers that are kept for whoever asks again with the same idempotency key.
    pub idempotency: Kept,
    /// Whether equal requests that run at once are one.
    pub share_equal_requests: bool,
    pub(super) place: Span,
}

/// Files of a certificate; they exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayTls {
    /// The chain, PEM; absolute.
    pub certificate: PathBuf,
    /// Its key, PEM; absolute.
    pub private_key: PathBuf,
    pub(super) place: Span,
}

/// What a connection and a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Connections at once.
    pub connections: usize,
    /// Of these from one address.
    pub connections_per_address: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Time for a request's head.
    pub header_deadline: Duration,
    /// Time for its body.
    pub body_deadline: Duration,
    /// Longest time in which a reader takes nothing.
    pub write_deadline: Duration,
    /// Longest time between two requests.
    pub idle: Duration,
    /// Wrong keys that an address may send in a minute; then it is sent away until the minute is over.
    pub wrong_keys: u32,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_address: 256,
            body: 16 << 20,
            header_deadline: Duration::from_secs(10),
            body_deadline: Duration::from_secs(120),
            write_deadline: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            wrong_keys: 20,
        }
    }
}

/// Answers that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// For how long.
    pub ttl: Duration,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/responses`.
    Responses,
    /// `/v1/completions`.
    Completions,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/rerank`.
    Rerank,
    /// `/v1/ingest/SOURCE`.
    Ingest,
    /// `/v1/outputs/NAME`.
    Outputs,
    /// `/tidegate/`, the page. Who does not name it may not ask for it.
    Page,
}

impl Endpoint {
    /// Those that a gateway source can have, by the names of the pipeline file.
    pub const OF_SOURCES: [(&'static str, Endpoint); 5] = [
        ("chat", Endpoint::Chat),
        ("responses", Endpoint::Responses),
        ("completions", Endpoint::Completions),
        ("embeddings", Endpoint::Embeddings),
        ("rerank", Endpoint::Rerank),
    ];
    /// All.
    pub const ALL: [(&'static str, Endpoint); 8] = [
        ("chat", Endpoint::Chat),
        ("responses", Endpoint::Responses),
        ("completions", Endpoint::Completions),
        ("embeddings", Endpoint::Embeddings),
        ("rerank", Endpoint::Rerank),
        ("ingest", Endpoint::Ingest),
        ("outputs", Endpoint::Outputs),
        ("page", Endpoint::Page),
    ];

    /// Its name in the pipeline file.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, endpoint)| *endpoint == self);
        found.map_or("", |(name, _)| name)
    }
}

/// What someone may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only these endpoints; without, every one but the page.
    pub endpoints: Option<Vec<Endpoint>>,
    /// Only these models; every one if there is none.
    pub models: Option<Vec<String>>,
}

impl Gateway {
    /// Whether somebody may ask for the page.
    pub fn shows_page(&self) -> bool {
        let keys = self.keys.iter().map(|key| &key.scope);
        let tokens = self.tokens.iter().map(|tokens| &tokens.scope);
        let mut named = keys
            .chain(tokens)
            .flat_map(|scope| scope.endpoints.iter().flatten());
        named.any(|endpoint| *endpoint == Endpoint::Page)
    }
}

/// How much someone may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Requests a minute, of every kind.
    pub requests: Option<u64>,
    /// Tokens of prompts and answers a minute.
    pub tokens: Option<u64>,
    /// Requests at once, of those that wait for a model or follow an output.
    pub concurrent: Option<u64>,
}

/// A static key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayKey {
    /// Its name, for logs, quotas and records; not a secret.
    pub name: String,
    /// What is known of the secret.
    pub secret: KeySecret,
    /// What it may ask for.
    pub scope: Scope,
    /// How much.
    pub quota: Quota,
    pub(super) place: Span,
}

/// What is known of a key's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySecret {
    /// Its SHA-256.
    Digest([u8; 32]),
    /// It is in this variable of the environment.
    Variable(String),
}

/// Signed tokens (JWT).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayTokens {
    /// The one algorithm that is taken.
    pub algorithm: TokenAlgorithm,
    /// What signatures are checked with.
    pub keys: TokenKeys,
    /// Who must have made them.
    pub issuer: Option<String>,
    /// Whom they must be for; without it, they may be for nobody in particular alone.
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// What every token may ask for at most.
    pub scope: Scope,
    /// How much each subject may ask for.
    pub quota: Quota,
    pub(super) place: Span,
}

/// How tokens are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

/// What signatures of tokens are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKeys {
    /// A secret in this variable of the environment; HS256 only.
    Variable(String),
    /// A file with a PEM public key or a JWKS, absolute; it exists.
    File(PathBuf),
    /// A JWKS that is fetched.
    Url {
        /// From here, `https` or loopback.
        url: String,
        /// Again after so long.
        refresh: Duration,
    },
}

/// A source of requests.
#[derive(Clone, Debug)]
pub struct Route {
    /// The names that clients ask for; at least one.
    pub models: Vec<String>,
    /// What can be asked for; at least one.
    pub endpoints: Vec<Endpoint>,
    /// Headers that records have of their request, in small letters.
    pub headers: Vec<String>,
    /// The header that is the record's key.
    pub key_header: Option<String>,
    /// Longest time to the end of an answer.
    pub deadline: Duration,
    /// Goes first with the models: 0 before 9.
    pub priority: u8,
    /// Most records that wait at once: from when they are asked until a model has made the first of their answer.
    pub max_waiting: usize,
    /// What is done as they get more, in this order.
    pub under_load: Vec<LoadStep>,
    pub(crate) places: Box<RoutePlaces>,
}

/// What is done once so many requests of a source wait, or the oldest so long. It is done beside what the steps before
/// it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStep {
    /// From so many waiting on.
    pub waiting: Option<usize>,
    /// From so long a wait of the oldest on.
    pub oldest: Option<Duration>,
    /// This model answers, by its index.
    pub model: Option<usize>,
    /// Most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Requests are told to come again.
    pub refuse: bool,
}

/// Where a route stands in the file.
#[derive(Clone, Debug)]
pub(crate) struct RoutePlaces {
    pub(crate) name: Typed<String>,
    pub(crate) models: Option<Vec<Typed<String>>>,
    pub(crate) endpoints: Option<Vec<Typed<Endpoint>>>,
    pub(crate) under_load: Vec<TypedLoadStep>,
}

/// A source of records that clients send and need no answer to.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The header that is the record's key, where its format gives none.
    pub key_header: Option<String>,
    /// Headers that records have of their request, in small letters.
    pub headers: Vec<String>,
    /// Most records of a request.
    pub max_records: usize,
    /// Most bytes of the log; a request that does not fit now is told to come again. The longest body fits into an empty one.
    pub log_bytes: u64,
    pub(crate) name: Typed<String>,
    /// Where the bytes of the log are told, if they are.
    pub(crate) log_place: Option<Typed<usize>>,
}
