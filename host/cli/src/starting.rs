//! The host from its start on, as the admin API sees it: while its log is read and models are loaded it says how far that
//! is.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_connect::remote::RemoteModel;
use tidegate_control::config::Pipeline;
use tidegate_control::{
    CutsReport, DeployRefused, DeployReport, DeployRequest, Graph, HealthReport, Hearer, Host,
    LetterPage, LetterQuery, LetterReport, LettersRefused, LogReport, ModelAnswer, ModelQuestion,
    ModelRefused, ModelReport, Percentiles, PlaygroundRefused, RecordCounts, RunState, SendLetters,
    SentLetters, StatusReport, TriedRecord, TryRecord,
};
use tidegate_flow::Counts;
use tidegate_telemetry::metrics::Exposition;
use tidegate_telemetry::{UnderWay, WorkKind};

use crate::health::troubles_of;
use crate::host::RunningHost;
use crate::metrics;
use crate::models::{is_loaded, remote_report};
use crate::terminal::{under_way, works};

/// How long a deployment that comes while the host starts waits for it, and holds one of the admin API's places meanwhile:
/// whoever asks may come again.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so long in which no load of a model has gone on, a start is taken for hung.
const HUNG: Duration = Duration::from_secs(600);

/// A host that runs, or is about to.
pub(crate) struct StartingHost {
    pipeline: String,
    began: Instant,
    /// What the commit log says of records, once it is read.
    restored: OnceLock<Counts>,
    models: Vec<ModelReport>,
    remote: Vec<Arc<RemoteModel>>,
    graph: Graph,
    /// The process and when it began.
    instance: String,
    running: Mutex<Option<Arc<RunningHost>>>,
    runs: Condvar,
}

impl StartingHost {
    /// A host that will have these models of other servers, and load those of the pipeline that its stages ask.
    pub(crate) fn new(pipeline: &Pipeline, remote: Vec<Arc<RemoteModel>>) -> StartingHost {
        let models = pipeline.models.iter().enumerate();
        let loaded = models.filter(|(index, _)| is_loaded(pipeline, *index));
        let models = loaded.map(|(_, model)| ModelReport {
            name: model.name.clone(),
            path: model.path.clone(),
            ..ModelReport::default()
        });
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos());
        StartingHost {
            graph: Graph::of(pipeline).0,
            instance: format!("{:x}-{nanos:x}", std::process::id()),
            pipeline: pipeline.name.clone(),
            began: Instant::now(),
            restored: OnceLock::new(),
            models: models.collect(),
            remote,
            running: Mutex::new(None),
            runs: Condvar::new(),
        }
    }

    /// The commit log is read: this is what it says of records.
    pub(crate) fn restored(&self, counts: Counts) {
        // Set once: a log is read once.
        let _ = self.restored.set(counts);
    }

    /// It runs.
    pub(crate) fn runs(&self, host: Arc<RunningHost>) {
        *self.lock() = Some(host);
        self.runs.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<RunningHost>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> Option<Arc<RunningHost>> {
        self.lock().clone()
    }

    /// Whether it runs.
    pub(crate) fn has_started(&self) -> bool {
        self.lock().is_some()
    }

    /// The host that runs, for dead letters.
    fn ready(&self) -> Result<Arc<RunningHost>, LettersRefused> {
        let starting = || LettersRefused::Failed(DeployRefused::Starting.to_string());
        self.running().ok_or_else(starting)
    }

    /// Waits until it runs.
    fn wait(&self) -> Option<Arc<RunningHost>> {
        let waited = self
            .runs
            .wait_timeout_while(self.lock(), PATIENCE, |running| running.is_none());
        let (running, _) = waited.unwrap_or_else(PoisonError::into_inner);
        running.clone()
    }
}

/// How a start is: not live only where models are put onto their adapter and none of them goes on, which a driver that hangs
/// does. What is read from a disk or a broker may take as long as that takes, and compilers have a time of their own.
fn health(works: &[UnderWay]) -> HealthReport {
    let loads = works.iter().filter(|work| work.kind == WorkKind::Load);
    let hung = loads
        .min_by_key(|load| load.still)
        .filter(|load| load.still >= HUNG);
    let starts = "the pipeline is starting: it loads its models, or waits for its brokers";
    let reason = match hung {
        Some(load) => {
            let seconds = load.still.as_secs();
            format!(
                "the load of {} has not gone on for {seconds} s",
                load.subject
            )
        }
        None => starts.to_owned(),
    };
    HealthReport {
        live: hung.is_none(),
        ready: false,
        reasons: vec![reason],
    }
}

impl Host for StartingHost {
    fn status(&self) -> StatusReport {
        if let Some(running) = self.running() {
            return StatusReport {
                instance: self.instance.clone(),
                ..running.status()
            };
        }
        let counts = self.restored.get().copied().unwrap_or_default();
        StatusReport {
            pipeline: self.pipeline.clone(),
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            state: RunState::Starting,
            records: RecordCounts {
                input: counts.input,
                output: counts.output,
                dropped: counts.dropped,
                dead: counts.dead,
                split: counts.split,
                in_flight: counts.in_flight(),
            },
            tokens: 0,
            tokens_per_second: 0.0,
            latency_ms: Percentiles::default(),
            adapter: None,
            slots: Vec::new(),
            models: self.models.clone(),
            remote: self
                .remote
                .iter()
                .map(|model| remote_report(model))
                .collect(),
            gateway: None,
            swaps: 0,
            max_swap_wait_ms: 0.0,
            stages: Vec::new(),
            sources: Vec::new(),
            cuts: CutsReport::default(),
            graph: self.graph.clone(),
            deployments: Vec::new(),
            instance: self.instance.clone(),
            audit: None,
            progress: under_way(),
            troubles: troubles_of(&health(&works().under_way())),
        }
    }

    fn deploy(&self, slot: &str, deployment: DeployRequest) -> Result<DeployReport, DeployRefused> {
        match self.wait() {
            Some(running) => running.deploy(slot, deployment),
            None => Err(DeployRefused::Starting),
        }
    }

    fn models(&self) -> Vec<ModelReport> {
        match self.running() {
            Some(running) => running.models(),
            None => self.models.clone(),
        }
    }

    fn load_model(&self, name: &str, path: Option<&Path>) -> Result<ModelReport, ModelRefused> {
        match self.wait() {
            Some(running) => running.load_model(name, path),
            None => Err(ModelRefused::Starting),
        }
    }

    fn unload_model(&self, name: &str) -> Result<ModelReport, ModelRefused> {
        match self.wait() {
            Some(running) => running.unload_model(name),
            None => Err(ModelRefused::Starting),
        }
    }

    fn log(&self, slot: &str, after: u64) -> Option<LogReport> {
        self.running()?.log(slot, after)
    }

    fn metrics(&self) -> Option<String> {
        if let Some(running) = self.running() {
            return running.metrics();
        }
        // Nothing is counted until it runs, but for what it takes to get there.
        let mut exposition = Exposition::default();
        metrics::process(&mut exposition, &self.pipeline, false);
        Some(exposition.text())
    }

    fn health(&self) -> HealthReport {
        match self.running() {
            Some(running) => running.health(),
            None => health(&works().under_way()),
        }
    }

    fn dead_letters(&self, query: &LetterQuery) -> Result<LetterPage, LettersRefused> {
        self.ready()?.dead_letters(query)
    }

    fn dead_letter(&self, id: &str) -> Result<LetterReport, LettersRefused> {
        self.ready()?.dead_letter(id)
    }

    fn ask_model(
        &self,
        question: &ModelQuestion,
        hearer: &dyn Hearer,
    ) -> Result<ModelAnswer, PlaygroundRefused> {
        let running = self.running().ok_or(PlaygroundRefused::NotRunning)?;
        running.ask_model(question, hearer)
    }

    fn try_record(
        &self,
        record: &TryRecord,
        hearer: &dyn Hearer,
    ) -> Result<TriedRecord, PlaygroundRefused> {
        let running = self.running().ok_or(PlaygroundRefused::NotRunning)?;
        running.try_record(record, hearer)
    }

    fn send_dead_letters(&self, letters: &SendLetters) -> Result<SentLetters, LettersRefused> {
        self.ready()?.send_dead_letters(letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(kind: WorkKind, still: u64) -> UnderWay {
        UnderWay {
            number: 1,
            kind,
            subject: "support".into(),
            done: 1,
            of: Some(4),
            elapsed: Duration::from_secs(still + 5),
            still: Duration::from_secs(still),
        }
    }

    #[test]
    fn a_start_is_live_while_a_load_goes_on_and_whatever_it_waits_for_elsewhere() {
        use WorkKind::{Compile, Load, Read, Replay, Restore};
        let day = 86_400;
        for (works, live) in [
            (vec![], true),
            (vec![work(Load, 599)], true),
            (vec![work(Load, 600)], false),
            // One of several goes on.
            (vec![work(Load, day), work(Load, 1)], true),
            (vec![work(Load, 600), work(Read, 1)], false),
            // A disk, a broker, and what has a deadline of its own.
            (
                [Read, Replay, Restore, Compile]
                    .map(|kind| work(kind, day))
                    .to_vec(),
                true,
            ),
        ] {
            let health = health(&works);
            assert_eq!((health.live, health.ready), (live, false), "{works:?}");
            assert_eq!(health.reasons.len(), 1);
        }
        let hung = health(&[work(Load, 601)]);
        assert_eq!(
            hung.reasons[0],
            "the load of support has not gone on for 601 s"
        );
    }
}
