//! What the admin API says, on both sides of the wire, and the port by which it reaches the running host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use tidegate_telemetry::{plain, work_line};

use crate::graph::Graph;
use crate::health::HealthReport;
use crate::letters::{
    LetterPage, LetterQuery, LetterReport, LettersRefused, SendLetters, SentLetters,
};
use crate::live::{CutsReport, DeploymentReport, LogReport, SourceReport, StageReport};
use crate::models::{ModelRefused, ModelReport, RemoteReport};
use crate::playground::{
    Hearer, ModelAnswer, ModelQuestion, PlaygroundRefused, TriedRecord, TryRecord,
};
use crate::troubles::TroubleReport;

/// Most bytes of a kind or unit that are shown.
const MOST_UNIT: usize = 64;

/// The running host, as the admin API sees it. Calls come from threads that may block.
pub trait Host: Send + Sync {
    /// How it stands.
    fn status(&self) -> StatusReport;

    /// Puts a component, a configuration or both into a slot; returns when every task runs it, or nothing has changed.
    fn deploy(&self, slot: &str, deployment: DeployRequest) -> Result<DeployReport, DeployRefused>;

    /// The models of its pipeline, in the order of the file.
    fn models(&self) -> Vec<ModelReport> {
        Vec::new()
    }

    /// Loads a model of the pipeline file, or puts another in its place: from `path` on the host's machine, or from
    /// where the file says. Returns when new requests go to it; old ones finish on the one it replaces.
    fn load_model(&self, name: &str, path: Option<&Path>) -> Result<ModelReport, ModelRefused> {
        let _ = path;
        Err(ModelRefused::Unknown {
            name: name.to_owned(),
            models: Vec::new(),
        })
    }

    /// Takes a model off its adapter once its requests have ended; records for it wait until it is loaded again.
    fn unload_model(&self, name: &str) -> Result<ModelReport, ModelRefused> {
        Err(ModelRefused::Unknown {
            name: name.to_owned(),
            models: Vec::new(),
        })
    }

    /// Whether it is well. It must not wait for anything.
    fn health(&self) -> HealthReport {
        HealthReport::well()
    }

    /// Dead letters, the newest first.
    fn dead_letters(&self, query: &LetterQuery) -> Result<LetterPage, LettersRefused> {
        let _ = query;
        Ok(LetterPage::default())
    }

    /// A dead letter as a whole.
    fn dead_letter(&self, id: &str) -> Result<LetterReport, LettersRefused> {
        Err(LettersRefused::Unknown { id: id.to_owned() })
    }

    /// Sends dead letters again, each once however often that is asked for.
    fn send_dead_letters(&self, letters: &SendLetters) -> Result<SentLetters, LettersRefused> {
        let id = letters.ids.first().cloned().unwrap_or_default();
        Err(LettersRefused::Unknown { id })
    }

    /// The log of a slot, lines of this number and later; none if there is no such slot.
    fn log(&self, slot: &str, after: u64) -> Option<LogReport> {
        let _ = (slot, after);
        None
    }

    /// Asks a model, behind all that the stream asks it. Returns when the answer has ended, or nobody hears it any more.
    fn ask_model(
        &self,
        question: &ModelQuestion,
        hearer: &dyn Hearer,
    ) -> Result<ModelAnswer, PlaygroundRefused> {
        let _ = (question, hearer);
        Err(PlaygroundRefused::NotRunning)
    }

    /// Runs a record through the pipeline beside its stream: nothing of it is written, and nothing counts. Returns when it
    /// has ended, or nobody waits for it any more.
    fn try_record(
        &self,
        record: &TryRecord,
        hearer: &dyn Hearer,
    ) -> Result<TriedRecord, PlaygroundRefused> {
        let _ = (record, hearer);
        Err(PlaygroundRefused::NotRunning)
    }

    /// Its counters in the text format of Prometheus, if it has any.
    fn metrics(&self) -> Option<String> {
        None
    }
}

/// What is put into a slot; what is not there stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployRequest {
    /// The component's bytes.
    pub component: Option<Vec<u8>>,
    /// The configuration: a JSON object, as text.
    pub config: Option<String>,
    /// A word for the log and the status.
    pub label: String,
}

/// How a running pipeline stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Its name.
    pub pipeline: String,
    /// Since the start, seconds.
    pub uptime_seconds: f64,
    /// What it is doing.
    pub state: RunState,
    /// Records since the state directory was made.
    pub records: RecordCounts,
    /// Tokens made since the start.
    pub tokens: u64,
    /// Tokens made a second, lately.
    pub tokens_per_second: f64,
    /// From read to committed, milliseconds.
    pub latency_ms: Percentiles,
    /// The adapter models run on, if there is a model.
    pub adapter: Option<String>,
    /// One for each operator stage, in the order of the file.
    pub slots: Vec<SlotReport>,
    /// One for each model that is loaded here and that a stage asks, in the order of the file.
    #[serde(default)]
    pub models: Vec<ModelReport>,
    /// One for each model that another server has and that a stage asks, in the order of the file.
    #[serde(default)]
    pub remote: Vec<RemoteReport>,
    /// Its gateway, if it has one that listens.
    #[serde(default)]
    pub gateway: Option<GatewayReport>,
    /// Deployments that switched.
    pub swaps: u64,
    /// Longest time a task waited for a switch, milliseconds.
    pub max_swap_wait_ms: f64,
    /// The end of its audit, if it has one.
    #[serde(default)]
    pub audit: Option<AuditReport>,
    /// What takes long and is under way, the oldest first.
    #[serde(default)]
    pub progress: Vec<ProgressReport>,
    /// One for each stage, in the order of the file; none before it runs.
    #[serde(default)]
    pub stages: Vec<StageReport>,
    /// One for each source, in the order of the file; none before it runs.
    #[serde(default)]
    pub sources: Vec<SourceReport>,
    /// Its cuts.
    #[serde(default)]
    pub cuts: CutsReport,
    /// The pipeline as a graph.
    #[serde(default)]
    pub graph: Graph,
    /// What was deployed since the start, the latest first.
    #[serde(default)]
    pub deployments: Vec<DeploymentReport>,
    /// What no other start of this or any other host has: with another one the counters begin anew.
    #[serde(default)]
    pub instance: String,
    /// What is wrong now, the worst first: all that makes it not ready, and what else holds the stream up. At most
    /// [`TROUBLES`](crate::TROUBLES).
    #[serde(default)]
    pub troubles: Vec<TroubleReport>,
}

/// How far the audit of a pipeline is. Who notes the head elsewhere can tell later that nothing before it was taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Its first file.
    pub path: PathBuf,
    /// Lines that are on the disk.
    pub lines: u64,
    /// Hash of the last one.
    pub head: String,
}

/// Something long that is under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressReport {
    /// What is done: `read`, `load`, `convert`, `compile`, `restore` or `replay`.
    pub kind: String,
    /// With what, without control characters: the name of a model, component, topic or log.
    pub subject: String,
    /// How much of it is done, in units.
    pub done: u64,
    /// How much there is, if that is known.
    pub of: Option<u64>,
    /// The unit: `bytes`, `records`, or `bytes of memory` of something whose end nobody can tell.
    pub unit: String,
    /// Since it was begun.
    pub seconds: f64,
}

impl std::fmt::Display for ProgressReport {
    /// One line, as it is shown everywhere.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, unit) = (plain(&self.kind, MOST_UNIT), plain(&self.unit, MOST_UNIT));
        let amount = (self.done, self.of, &*unit);
        f.write_str(&work_line(
            &kind,
            &self.subject,
            amount,
            self.seconds as u64,
        ))
    }
}

/// How the gateway of a running pipeline stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayReport {
    /// Where clients reach it.
    pub url: String,
    /// Requests that wait for an answer.
    pub waiting: u64,
    /// Requests that have had one since the start, whatever it said.
    pub answered: u64,
    /// What was done under load since the start.
    #[serde(default)]
    pub shed: Vec<ShedReport>,
}

/// With how many requests a step of a source under load has done something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedReport {
    /// The source.
    pub source: String,
    /// The number of its step, counted from 1, or `refused`.
    pub step: String,
    /// How many.
    pub requests: u64,
}

/// What a running pipeline is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Loading its models; nothing is read yet.
    Starting,
    /// Reading.
    Running,
    /// Finishing what it has read.
    Draining,
}

/// Records since the state directory was made: `in + split = out + dropped + dead + in_flight`, as soon as what is under
/// way between two looks is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCounts {
    /// Read from the sources.
    #[serde(rename = "in")]
    pub input: u64,
    /// Written to the sinks.
    #[serde(rename = "out")]
    pub output: u64,
    /// Dropped by an operator.
    pub dropped: u64,
    /// Ended as dead letters.
    pub dead: u64,
    /// Records that came of others: of a split into n, n - 1; of a fan-out to n, n - 1.
    #[serde(default)]
    pub split: u64,
    /// Waiting: for a model, for a retry, behind others of their key, or before a stage that is full. Those that an
    /// earlier run left count from the start.
    pub in_flight: u64,
}

/// Percentiles of a time, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half are faster.
    pub p50: f64,
    /// 95 of 100 are faster.
    pub p95: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
}

/// A slot and what it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotReport {
    /// Its name: that of the stage.
    pub slot: String,
    /// The operator's name for itself.
    pub name: String,
    /// The operator's version.
    pub version: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Grows with every deployment.
    pub generation: u64,
    /// What was said when it was deployed; empty for the one of the pipeline file.
    pub label: String,
    /// What this stage did since the start.
    pub counters: SlotCounters,
    /// What keeps it from answering, if something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<SlotTrouble>,
    /// That its revision failed too often and nothing was deployed since: it runs the one before, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenBreaker>,
    /// What its revisions did since the start: the latest, the one that runs at the end.
    #[serde(default)]
    pub revisions: Vec<RevisionReport>,
}

/// A component with its configuration, grants and limits, and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionReport {
    /// Digest of all of it: `sha256:` and 64 hexadecimal digits.
    pub revision: String,
    /// The operator's version.
    pub version: String,
    /// The component's digest.
    pub digest: String,
    /// Whether it runs now.
    pub runs: bool,
    /// Why it is run no more, if it failed more often than the pipeline file allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tripped: Option<String>,
    /// Records it was given; one that came again counts again.
    pub records: u64,
    /// What it said of them, by kind of outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Records it could not answer for.
    pub failed: u64,
    /// Instances it lost.
    pub lost_instances: u64,
    /// Time in its instances, milliseconds.
    pub guest_ms: u64,
    /// Memory of its instances now, bytes.
    pub memory: u64,
    /// Its instances now.
    pub instances: u64,
}

/// A breaker that is open: a revision is run no more, and nothing was deployed since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBreaker {
    /// Digest of the revision: `sha256:` and 64 hexadecimal digits.
    pub revision: String,
    /// The operator's version.
    pub version: String,
    /// Why it is run no more.
    pub reason: String,
}

/// A slot of which no instance can be started: its records wait, and it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotTrouble {
    /// Why the last start failed.
    pub reason: String,
    /// For how long, whole seconds.
    pub seconds: u64,
    /// Tasks that wait for it.
    pub tasks: usize,
}

/// What a stage did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotCounters {
    /// Records that came in.
    #[serde(rename = "in")]
    pub input: u64,
    /// Records that went out.
    #[serde(rename = "out")]
    pub output: u64,
    /// Records it dropped.
    pub dropped: u64,
    /// Records that ended here as dead letters.
    pub dead: u64,
    /// Records it sent to retry.
    pub retried: u64,
}

/// A version of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentVersion {
    /// The operator's name.
    #[serde(default)]
    pub name: String,
    /// The operator's version.
    pub version: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Digest of the component with its configuration, grants and limits.
    #[serde(default)]
    pub revision: String,
}

/// A deployment that switched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeployReport {
    /// The slot.
    pub slot: String,
    /// What it ran.
    pub old: ComponentVersion,
    /// What it runs.
    pub new: ComponentVersion,
    /// Tasks that switched.
    pub tasks: usize,
    /// From the request to the last task's switch, milliseconds.
    pub switched_ms: f64,
    /// Longest time a task waited for the switch, milliseconds.
    pub max_wait_ms: f64,
}

/// A deployment that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeployRefused {
    /// There is no such slot.
    #[error("there is no slot {slot:?}; slots: {}", list(.slots))]
    UnknownSlot {
        /// The name asked for.
        slot: String,
        /// Those there are.
        slots: Vec<String>,
    },
    /// Another deployment to this slot is not finished.
    #[error("a deployment to slot {slot:?} is under way; try again when it has ended")]
    UnderWay {
        /// The slot.
        slot: String,
    },
    /// The component cannot run here.
    #[error("{0}")]
    Refused(String),
    /// The host does not run yet.
    #[error("the pipeline is starting; try again when it runs")]
    Starting,
    /// The host is ending.
    #[error("the pipeline is ending")]
    Ending,
}

/// Of a member of a body that need not be there: null is as if it were not.
pub(crate) fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

pub(crate) fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}
