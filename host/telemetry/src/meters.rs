//! Meters: the counters of a running pipeline.

mod expose;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::span::EnteredSpan;

use crate::edges::Edges;
use crate::ends::{CutClock, Settled, SinkMeters, SourceMeters, microseconds_now};
use crate::lately::Lately;
use crate::latency::{LatencyRecorder, merged};
use crate::metrics::{CUT_SECONDS, Gauge, Histogram, PointCounts, STAGE_SECONDS, Stretch};
use crate::summary::{LatencyMs, ModelTotals, Records, SlotSummary, Summary};
use crate::trace::Tracer;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts on.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// The number so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Keeps the greater of the two.
    fn raise(&self, number: u64) {
        self.0.fetch_max(number, Ordering::Relaxed);
    }
}

/// The counters of one stage.
#[derive(Debug)]
pub struct StageMeters {
    /// Name of the stage.
    pub name: String,
    /// Records that came in.
    pub records_in: Counter,
    /// Records that went out.
    pub records_out: Counter,
    /// Records it dropped.
    pub records_dropped: Counter,
    /// Records that ended here as dead letters.
    pub records_dead: Counter,
    /// Records sent back to it once more.
    pub records_retried: Counter,
    /// Batches it answered, or requests to a model.
    pub batches: Counter,
    /// Instances lost to a trap, a deadline or a bad answer.
    pub instances_lost: Counter,
    /// Revisions that failed more often than the pipeline file allows.
    pub revisions_tripped: Counter,
    /// Records that have come to it and that it has not taken.
    pub inbox: Gauge,
    /// Records that wait in it: for an answer, a retry, or others of their lane.
    pub waiting: Gauge,
    /// Most records that may wait in it, in all tasks together.
    pub limit: Gauge,
    /// When it, or one after it, took no more, by the clock of [`Meters::clock`].
    pub full: Stretch,
    /// How long calls of its operator took, each with a batch; or requests to its model.
    pub time: Histogram,
    unavailable: Mutex<Option<Unavailable>>,
    put_off: Mutex<PutOff>,
}

/// Records that wait to come to a stage again.
#[derive(Debug, Default)]
struct PutOff {
    records: usize,
    /// Why the last of them does; none where none does.
    reason: Option<String>,
}

/// A stage that cannot answer in some tasks: no instance of its operator can be started there.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// Tasks whose records wait.
    pub tasks: usize,
    /// Since when the first of them has waited.
    pub since: Instant,
    /// Why the last start failed.
    pub reason: String,
}

impl StageMeters {
    fn new(name: &str) -> StageMeters {
        StageMeters {
            name: name.to_owned(),
            records_in: Counter::default(),
            records_out: Counter::default(),
            records_dropped: Counter::default(),
            records_dead: Counter::default(),
            records_retried: Counter::default(),
            batches: Counter::default(),
            instances_lost: Counter::default(),
            revisions_tripped: Counter::default(),
            inbox: Gauge::default(),
            waiting: Gauge::default(),
            limit: Gauge::default(),
            full: Stretch::default(),
            time: Histogram::new(STAGE_SECONDS),
            unavailable: Mutex::default(),
            put_off: Mutex::default(),
        }
    }

    /// What keeps the stage from answering, if something does.
    pub fn unavailable(&self) -> Option<Unavailable> {
        self.lock().clone()
    }

    /// Why the last of its records that have to come again does, as long as one has to. Beside the stream alone: there
    /// somebody waits for just that record.
    pub fn put_off(&self) -> Option<String> {
        self.put_off_lock().reason.clone()
    }

    pub(crate) fn puts_off(&self, reason: &str) {
        let mut put_off = self.put_off_lock();
        put_off.records += 1;
        put_off.reason = Some(reason.to_owned());
    }

    /// One of those records has to come again no more.
    pub(crate) fn takes_again(&self) {
        let mut put_off = self.put_off_lock();
        put_off.records = put_off.records.saturating_sub(1);
        if put_off.records == 0 {
            put_off.reason = None;
        }
    }

    /// A model has answered, or gives up: whatever it was asked again for is over, or is said again.
    pub(crate) fn puts_off_none(&self) {
        *self.put_off_lock() = PutOff::default();
    }

    fn put_off_lock(&self) -> MutexGuard<'_, PutOff> {
        // Each change is whole before anything can panic.
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task's start has failed, for the first time or again. Returns whether the stage could answer everywhere before.
    pub(crate) fn fails(&self, first: bool, reason: &str) -> bool {
        let mut unavailable = self.lock();
        let known = unavailable.is_some();
        let now = unavailable.get_or_insert_with(|| Unavailable {
            tasks: 0,
            since: Instant::now(),
            reason: String::new(),
        });
        now.tasks += usize::from(first);
        reason.clone_into(&mut now.reason);
        !known
    }

    /// A task's stage answers again. Returns how long the stage could not, if it can everywhere now.
    pub(crate) fn answers(&self) -> Option<Duration> {
        let mut unavailable = self.lock();
        let now = unavailable.as_mut()?;
        now.tasks = now.tasks.saturating_sub(1);
        let over = now.tasks == 0;
        unavailable.take_if(|_| over).map(|was| was.since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Unavailable>> {
        // Each change is whole before anything can panic.
        self.unavailable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of a pipeline. Events count here; whoever reports looks here.
#[derive(Debug)]
pub struct Meters {
    pipeline: String,
    /// Whether what happens is of no stream, and nothing for the log.
    beside: bool,
    tracer: Tracer,
    points: Arc<PointCounts>,
    started: Instant,
    /// Read from the sources, those that could not be decoded included.
    pub records_in: Counter,
    /// Written to the sinks.
    pub records_out: Counter,
    /// Dropped: by operators, for want of anyone who takes them, with their caller, or because a model has no answer and
    /// whoever waits for it is told.
    pub records_dropped: Counter,
    /// Of those, the ones that another server has not answered.
    pub unanswered_elsewhere: Counter,
    /// Ended as dead letters.
    pub records_dead: Counter,
    /// Records that came of others: of a split into n, n - 1; of a fan-out to n, n - 1.
    pub records_split: Counter,
    /// Sent back once more.
    pub records_retried: Counter,
    /// Read, and in flight when their partition was taken away: whoever reads them counts them again.
    pub records_abandoned: Counter,
    /// Of what came of others: the same.
    pub splits_abandoned: Counter,
    /// Batches that operators answered.
    pub batches: Counter,
    /// Cuts committed.
    pub cuts: Counter,
    /// Deployments that switched.
    pub swaps: Counter,
    /// Requests to models that ended.
    pub model_requests: Counter,
    /// Those that ended without an answer.
    pub model_failures: Counter,
    /// Tokens of prompts.
    pub prompt_tokens: Counter,
    generated_tokens: Counter,
    longest_swap_wait_micros: Counter,
    in_flight: AtomicI64,
    tokens_lately: Lately,
    /// How long cuts took that hold.
    pub cut_seconds: Histogram,
    /// Cuts that came to nothing.
    pub cuts_aborted: Counter,
    /// When the last one held, milliseconds since 1970.
    last_cut: AtomicU64,
    stages: Vec<StageMeters>,
    edges: Edges,
    sources: Vec<SourceMeters>,
    sinks: Vec<SinkMeters>,
    cut_clocks: Mutex<Vec<Settled>>,
    latencies: Mutex<Vec<LatencyRecorder>>,
}

impl Meters {
    /// Meters that stand at zero, for stages of these names in this order.
    pub fn new<'a>(pipeline: &str, stages: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            pipeline: pipeline.to_owned(),
            beside: false,
            tracer: Tracer::default(),
            points: Arc::default(),
            started: Instant::now(),
            records_in: Counter::default(),
            records_out: Counter::default(),
            records_dropped: Counter::default(),
            unanswered_elsewhere: Counter::default(),
            records_dead: Counter::default(),
            records_split: Counter::default(),
            records_retried: Counter::default(),
            records_abandoned: Counter::default(),
            splits_abandoned: Counter::default(),
            batches: Counter::default(),
            cuts: Counter::default(),
            swaps: Counter::default(),
            model_requests: Counter::default(),
            model_failures: Counter::default(),
            prompt_tokens: Counter::default(),
            generated_tokens: Counter::default(),
            longest_swap_wait_micros: Counter::default(),
            in_flight: AtomicI64::new(0),
            tokens_lately: Lately::new(),
            cut_seconds: Histogram::new(CUT_SECONDS),
            cuts_aborted: Counter::default(),
            last_cut: AtomicU64::new(0),
            stages: stages.into_iter().map(StageMeters::new).collect(),
            edges: Edges::default(),
            sources: Vec::new(),
            sinks: Vec::new(),
            cut_clocks: Mutex::default(),
            latencies: Mutex::new(Vec::new()),
        }
    }

    /// The same, which also count what goes from whom to whom.
    pub fn with_edges(self, edges: Edges) -> Self {
        Self { edges, ..self }
    }

    /// Of what runs beside the stream: it is counted, and no more than `debug` is said of it in the log, in the span
    /// `trial` ([`marks`](Meters::marks)).
    #[must_use]
    pub fn beside(self) -> Self {
        Self {
            beside: true,
            ..self
        }
    }

    /// Whether the n-th event of a flood is logged for everybody: the first ten are, and each power of ten.
    pub(crate) fn logs(&self, number: u64) -> bool {
        let power = |digits| 10u64.pow(digits) == number;
        !self.beside && (number <= 10 || number.checked_ilog10().is_some_and(power))
    }

    /// What this thread logs until the guard goes is of what these count: beside the stream it is marked as a trial's.
    pub fn marks(&self) -> Option<EnteredSpan> {
        self.beside.then(|| tracing::debug_span!("trial").entered())
    }

    /// Whether this is of what runs beside the stream.
    pub(crate) fn is_beside(&self) -> bool {
        self.beside
    }

    /// What went from whom to whom.
    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    /// Name of the pipeline.
    pub fn pipeline(&self) -> &str {
        &self.pipeline
    }

    /// With spans of what is counted.
    #[must_use]
    pub fn with_tracer(self, tracer: Tracer) -> Self {
        Self { tracer, ..self }
    }

    /// With what becomes of the points of metrics.
    #[must_use]
    pub fn with_points(self, points: Arc<PointCounts>) -> Self {
        Self { points, ..self }
    }

    /// Where spans go.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// The stages, in the order of the pipeline file.
    pub fn stages(&self) -> &[StageMeters] {
        &self.stages
    }

    /// The same for these sources and sinks, in the order of the topology.
    pub fn with_ends<'a>(
        mut self,
        sources: impl IntoIterator<Item = &'a str>,
        sinks: impl IntoIterator<Item = &'a str>,
    ) -> Meters {
        self.sources = sources.into_iter().map(SourceMeters::new).collect();
        self.sinks = sinks.into_iter().map(SinkMeters::new).collect();
        self
    }

    /// The sources; none where nobody has named them.
    pub fn sources(&self) -> &[SourceMeters] {
        &self.sources
    }

    /// The sinks; none where nobody has named them.
    pub fn sinks(&self) -> &[SinkMeters] {
        &self.sinks
    }

    /// For one worker, to tell how far its cuts are.
    pub fn cut_clock(&self) -> CutClock {
        let (clock, settled) = CutClock::new(self.clock());
        self.settled().push(settled);
        clock
    }

    /// How old the oldest is that no cut may have.
    pub fn uncommitted(&self) -> Duration {
        let now = self.clock();
        let ages = self.settled();
        ages.iter()
            .filter_map(|settled| settled.age(now))
            .max()
            .unwrap_or_default()
    }

    /// A cut holds that took so long.
    pub(crate) fn cut_held(&self, time: Duration) {
        self.cuts.add(1);
        self.cut_seconds.observe(time);
        let now = microseconds_now() / 1000;
        // Also where it is less: a clock that was ahead once is set right again.
        self.last_cut
            .store(u64::try_from(now).unwrap_or(0), Ordering::Relaxed);
    }

    fn settled(&self) -> MutexGuard<'_, Vec<Settled>> {
        // The list is whole after any panic: a push is its only change.
        self.cut_clocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A recorder for one worker's latencies.
    pub fn latency_recorder(&self) -> LatencyRecorder {
        let recorder = LatencyRecorder::new();
        self.recorders().push(recorder.clone());
        recorder
    }

    /// Tokens were made. Called for each step of a model, so that a rate is known before an answer ends.
    pub fn add_tokens(&self, tokens: u64) {
        self.generated_tokens.add(tokens);
        self.tokens_lately
            .add(self.started.elapsed().as_secs(), tokens);
    }

    /// Tokens made so far.
    pub fn tokens(&self) -> u64 {
        self.generated_tokens.get()
    }

    /// Records came into flight (positive) or left it (negative).
    pub fn add_in_flight(&self, change: i64) {
        self.in_flight.fetch_add(change, Ordering::Relaxed);
    }

    /// A partition was taken away while so many of its records, and of what came of them beyond that, were in flight.
    pub fn add_abandoned(&self, records: u64, splits: u64) {
        self.records_abandoned.add(records);
        self.splits_abandoned.add(splits);
    }

    /// A task waited this long for a switch.
    pub fn add_swap_wait(&self, wait: Duration) {
        self.longest_swap_wait_micros
            .raise(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    }

    /// How things stand.
    pub fn snapshot(&self) -> Snapshot {
        let elapsed = self.started.elapsed();
        Snapshot {
            elapsed,
            records: Records {
                input: less(&self.records_in, &self.records_abandoned),
                output: self.records_out.get(),
                dropped: self.records_dropped.get(),
                dead: self.records_dead.get(),
                split: less(&self.records_split, &self.splits_abandoned),
                retried: self.records_retried.get(),
                in_flight: u64::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(0),
            },
            tokens: self.tokens(),
            tokens_per_second: self.tokens_lately.rate(elapsed.as_secs_f64()),
            latency_ms: merged(&self.recorders()),
            swaps: self.swaps.get(),
            longest_swap_wait_ms: self.longest_swap_wait_micros.get() as f64 / 1000.0,
        }
    }

    /// The summary of the run until now.
    pub fn summary(&self, adapter: Option<String>, slots: Vec<SlotSummary>) -> Summary {
        let now = self.snapshot();
        let seconds = now.elapsed.as_secs_f64();
        let rate = |number: u64| number as f64 / seconds.max(1e-6);
        Summary {
            pipeline: self.pipeline.clone(),
            seconds,
            records: now.records,
            records_per_second: rate(now.records.input),
            latency_ms: now.latency_ms,
            tokens: now.tokens,
            tokens_per_second: rate(now.tokens),
            adapter,
            model: ModelTotals {
                requests: self.model_requests.get(),
                failed: self.model_failures.get(),
                prompt_tokens: self.prompt_tokens.get(),
                generated_tokens: now.tokens,
            },
            cuts: self.cuts.get(),
            swaps: now.swaps,
            longest_swap_wait_ms: now.longest_swap_wait_ms,
            slots,
        }
    }

    /// Time since the start: the clock of [`StageMeters::full`].
    pub fn clock(&self) -> Duration {
        self.started.elapsed()
    }

    fn recorders(&self) -> MutexGuard<'_, Vec<LatencyRecorder>> {
        // The list is whole after any panic: a push is its only change.
        self.latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was counted and not taken back.
fn less(all: &Counter, back: &Counter) -> u64 {
    all.get().saturating_sub(back.get())
}

/// How a pipeline stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Since the start.
    pub elapsed: Duration,
    /// What became of the records.
    pub records: Records,
    /// Tokens made.
    pub tokens: u64,
    /// Tokens made a second, over the last ten seconds.
    pub tokens_per_second: f64,
    /// From read to committed, milliseconds.
    pub latency_ms: LatencyMs,
    /// Deployments that switched.
    pub swaps: u64,
    /// Longest time a task waited for a switch, milliseconds.
    pub longest_swap_wait_ms: f64,
}
