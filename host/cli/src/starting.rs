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

use crate::host::RunningHost;
use crate::metrics;
use crate::models::{asking, remote_report};
use crate::terminal::under_way;

/// How long a deployment that comes while the host starts waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
const STARTING: &str = "the pipeline is starting: its models are being loaded; try again";

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
        let loaded = models.filter(|(index, model)| {
            model.remote.is_none() && asking(pipeline, *index).next().is_some()
        });
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
        let starting = || LettersRefused::Failed(STARTING.to_owned());
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
        }
    }

    fn deploy(&self, slot: &str, deployment: DeployRequest) -> Result<DeployReport, DeployRefused> {
        match self.wait() {
            Some(running) => running.deploy(slot, deployment),
            None => Err(DeployRefused::Refused(STARTING.into())),
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
            None => Err(ModelRefused::Refused(STARTING.into())),
        }
    }

    fn unload_model(&self, name: &str) -> Result<ModelReport, ModelRefused> {
        match self.wait() {
            Some(running) => running.unload_model(name),
            None => Err(ModelRefused::Refused(STARTING.into())),
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
            None => HealthReport {
                live: true,
                ready: false,
                reasons: vec![
                    "the pipeline is starting: it loads its models, or waits for its brokers"
                        .to_owned(),
                ],
            },
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
