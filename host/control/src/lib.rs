//! Configuration and administration: the pipeline file and the admin API.
//!
//! This crate knows what a pipeline file may say and how a running host is asked over HTTP. It deliberately knows no
//! wasm, no GPU, no Kafka client and nothing of how a pipeline runs: the host is reached through the [`Host`] port.
//!
//! Invariants:
//! - a [`config::Pipeline`] that exists has no mistake that can be found without running it: its names are resolved,
//!   its files are there, its numbers are in range;
//! - every mistake of a pipeline file is reported at once, with its line and what would be right;
//! - the admin API listens on loopback only, and answers nobody who does not know its token; of another token it tells
//!   metrics alone.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod admin;
mod api;
pub mod client;
pub mod config;
mod graph;
mod health;
mod letters;
mod live;
mod metrics_token;
mod models;
mod playground;
mod token;
mod troubles;

pub use api::{
    AuditReport, ComponentVersion, DeployRefused, DeployReport, DeployRequest, GatewayReport, Host,
    OpenBreaker, Percentiles, ProgressReport, RecordCounts, RevisionReport, RunState, ShedReport,
    SlotCounters, SlotReport, SlotTrouble, StatusReport,
};
pub use graph::{DEAD_LETTERS, Graph, GraphEdge, GraphNode, NodeKind, Way};
pub use health::HealthReport;
pub use letters::{
    LETTERS, LetterHeader, LetterPage, LetterQuery, LetterReport, LetterSent, LettersRefused,
    MAX_LETTERS, MAX_SENT, SendLetters, SendResult, SendState, SentLetters,
};
pub use live::{
    CutsReport, DEPLOYMENTS, DeploymentReport, LogLine, LogReport, SourceReport, StageReport,
    StageRole,
};
pub use metrics_token::{MetricsTokenError, read_metrics_token};
pub use models::{
    BreakerState, LoraReport, ModelRefused, ModelReport, RemoteReport, ReplicaReport, ReplicaState,
};
pub use playground::{
    Hearer, MAX_ANSWER, MAX_PROMPT, MAX_TRIED, MAX_TRIED_HEAD, MAX_TRIED_HEADERS,
    MAX_TRIED_SECONDS, ModelAnswer, ModelQuestion, PlaygroundRefused, TriedDeath, TriedRecord,
    TriedStage, TriedValue, TryRecord,
};
pub use troubles::{PlaceKind, TROUBLES, Tone, TroublePlace, TroubleReport};
