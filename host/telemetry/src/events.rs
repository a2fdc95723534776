//! Events: what happens in a pipeline. `emit` logs it and counts it at once.
//!
//! `stage` is the index of the stage in the pipeline file; an index that no stage has counts for the pipeline only.

use std::time::Duration;

use tracing::field::display;
use tracing::{debug, error, info, trace, warn};

use crate::meters::{Meters, StageMeters};
use crate::plain::plain;
use crate::trace::TraceId;

/// Most bytes of a reason in a log line.
const REASON_BYTES: usize = 4096;

/// Counts for a stage, and gives its name.
fn stage(meters: &Meters, index: usize, count: impl Fn(&StageMeters)) -> &str {
    match meters.stages().get(index) {
        Some(stage) => {
            count(stage);
            &stage.name
        }
        None => "",
    }
}

/// Records were read, or were there and could not be decoded.
#[derive(Clone, Copy, Debug)]
pub struct RecordsRead<'a> {
    /// Name of the source.
    pub source: &'a str,
    /// Number of the partition.
    pub partition: u32,
    /// Records that were decoded.
    pub records: u64,
    /// Input that could not become a record; each is also a [`RecordDead`].
    pub rejected: u64,
}

impl RecordsRead<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.records_in.add(self.records + self.rejected);
        trace!(
            source = self.source,
            partition = self.partition,
            records = self.records,
            rejected = self.rejected,
            "records read"
        );
    }
}

/// Records were written to a sink.
#[derive(Clone, Copy, Debug)]
pub struct RecordsWritten<'a> {
    /// Name of the sink.
    pub sink: &'a str,
    /// Their number.
    pub records: u64,
}

impl RecordsWritten<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.records_out.add(self.records);
        trace!(sink = self.sink, records = self.records, "records written");
    }
}

/// An output has several readers: each record goes on to all of them.
#[derive(Clone, Copy, Debug)]
pub struct RecordsFannedOut {
    /// Records.
    pub records: u64,
    /// Readers, at least one.
    pub readers: u64,
}

impl RecordsFannedOut {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters
            .records_split
            .add(self.records * self.readers.saturating_sub(1));
        trace!(
            records = self.records,
            readers = self.readers,
            "records fanned out"
        );
    }
}

/// An operator answered a batch. Dead letters of the batch are a [`RecordDead`] each.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchProcessed {
    /// The stage.
    pub stage: usize,
    /// Whether this is more of a batch whose beginning was counted: a long answer is taken in parts.
    pub rest: bool,
    /// Records of the batch, or of this part of it.
    pub records: u64,
    /// Records that went out.
    pub output: u64,
    /// Records it dropped.
    pub dropped: u64,
    /// Records it sent to retry.
    pub retried: u64,
    /// Records that came of splits: of a split into n, n - 1.
    pub split: u64,
    /// How long it took.
    pub time: Duration,
}

impl BatchProcessed {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.batches.add(u64::from(!self.rest));
        meters.records_dropped.add(self.dropped);
        meters.records_retried.add(self.retried);
        meters.records_split.add(self.split);
        let stage = stage(meters, self.stage, |stage| {
            stage.batches.add(u64::from(!self.rest));
            stage.records_in.add(self.records);
            stage.records_out.add(self.output);
            stage.records_dropped.add(self.dropped);
            stage.records_retried.add(self.retried);
        });
        trace!(
            stage,
            records = self.records,
            output = self.output,
            dropped = self.dropped,
            retried = self.retried,
            micros = self.time.as_micros() as u64,
            "batch processed"
        );
    }
}

/// A record ended as a dead letter.
#[derive(Clone, Copy, Debug)]
pub struct RecordDead<'a> {
    /// Its trace, if it is recorded.
    pub trace: Option<TraceId>,
    /// Name of the stage or sink that gave up; `decode` if the input could not become a record.
    pub stage: &'a str,
    /// Name of the source.
    pub source: &'a str,
    /// Number of the partition.
    pub partition: u32,
    /// Where in the partition.
    pub offset: u64,
    /// Why.
    pub reason: &'a str,
}

impl RecordDead<'_> {
    /// Logs and counts. A flood is logged at its beginning and at each power of ten; the rest is for `debug`.
    pub fn emit(self, meters: &Meters) {
        meters.records_dead.add(1);
        let stage = self.stage;
        if let Some(stage) = meters.stages().iter().find(|known| known.name == stage) {
            stage.records_dead.add(1);
        }
        let number = meters.records_dead.get();
        let (source, partition, offset) = (self.source, self.partition, self.offset);
        let reason = &*plain(self.reason, REASON_BYTES);
        let trace_id = self.trace.map(display);
        if meters.logs(number) {
            warn!(
                stage,
                source, partition, offset, number, trace_id, reason, "record is a dead letter"
            );
        } else {
            debug!(
                stage,
                source, partition, offset, number, trace_id, reason, "record is a dead letter"
            );
        }
    }
}

/// A record that somebody waits for has no answer, of which they are told: it is no dead letter, and counts as dropped.
#[derive(Clone, Copy, Debug)]
pub struct RecordUnanswered<'a> {
    /// Its trace, if it is recorded.
    pub trace: Option<TraceId>,
    /// Name of the stage that gave up.
    pub stage: &'a str,
    /// Name of the source.
    pub source: &'a str,
    /// Number of the partition.
    pub partition: u32,
    /// Where in the partition.
    pub offset: u64,
    /// Why: more than is told.
    pub reason: &'a str,
    /// Whether another server has failed, which those who run this host have to know.
    pub elsewhere: bool,
}

impl RecordUnanswered<'_> {
    /// Logs and counts. Of other servers a flood is logged at its beginning and at each power of ten; the rest is for
    /// `debug`.
    pub fn emit(self, meters: &Meters) {
        meters.records_dropped.add(1);
        let stage = self.stage;
        if let Some(stage) = meters.stages().iter().find(|known| known.name == stage) {
            stage.records_dropped.add(1);
        }
        meters.unanswered_elsewhere.add(u64::from(self.elsewhere));
        let number = meters.unanswered_elsewhere.get();
        let (source, partition, offset) = (self.source, self.partition, self.offset);
        let reason = &*plain(self.reason, REASON_BYTES);
        let trace_id = self.trace.map(display);
        if self.elsewhere && meters.logs(number) {
            warn!(
                stage,
                source, partition, offset, number, trace_id, reason, "another server has no answer"
            );
        } else {
            debug!(
                stage,
                source, partition, offset, trace_id, reason, "record has no answer"
            );
        }
    }
}

/// A record has to come to its stage again.
#[derive(Clone, Copy, Debug)]
pub struct RecordPutOff<'a> {
    /// The stage.
    pub stage: usize,
    /// Why.
    pub reason: &'a str,
}

impl RecordPutOff<'_> {
    /// Logs; [`BatchProcessed`] and [`ModelFailed`] have counted it.
    pub fn emit(self, meters: &Meters) {
        let stage = stage(meters, self.stage, |stage| {
            if meters.is_beside() {
                stage.puts_off(&plain(self.reason, REASON_BYTES));
            }
        });
        debug!(
            stage,
            reason = &*plain(self.reason, REASON_BYTES),
            "a record comes again"
        );
    }
}

/// A record that its operator had put off has come to it again, and was answered.
#[derive(Clone, Copy, Debug)]
pub struct RecordTakenAgain {
    /// The stage.
    pub stage: usize,
}

impl RecordTakenAgain {
    /// Logs; [`BatchProcessed`] counts it. Where it is put off once more, a [`RecordPutOff`] follows.
    pub fn emit(self, meters: &Meters) {
        let stage = stage(meters, self.stage, |stage| {
            if meters.is_beside() {
                stage.takes_again();
            }
        });
        trace!(stage, "a record has come again");
    }
}

/// An instance was lost to a trap, a deadline or a bad answer.
#[derive(Clone, Copy, Debug)]
pub struct InstanceLost<'a> {
    /// The stage.
    pub stage: usize,
    /// Version of the component.
    pub version: &'a str,
    /// Its digest.
    pub digest: &'a str,
    /// Records of the call that it was lost in.
    pub records: usize,
    /// Why.
    pub reason: &'a str,
}

impl InstanceLost<'_> {
    /// Logs and counts. A flood is logged at its beginning and at each power of ten; the rest is for `debug`.
    pub fn emit(self, meters: &Meters) {
        let number = meters.stages().get(self.stage).map_or(1, |stage| {
            stage.instances_lost.add(1);
            stage.instances_lost.get()
        });
        let stage = stage(meters, self.stage, |_| {});
        let (digest, records) = (self.digest, self.records);
        let version = &*plain(self.version, REASON_BYTES);
        let reason = &*plain(self.reason, REASON_BYTES);
        if meters.logs(number) {
            warn!(
                stage,
                version, digest, records, number, reason, "an operator instance was lost"
            );
        } else {
            debug!(
                stage,
                version, digest, records, number, reason, "an operator instance was lost"
            );
        }
    }
}

/// No instance of a stage's operator could be started in a task: its records wait, and it is tried again.
#[derive(Clone, Copy, Debug)]
pub struct StageUnavailable<'a> {
    /// The stage.
    pub stage: usize,
    /// Whether this task's stage could answer before.
    pub first: bool,
    /// Why.
    pub reason: &'a str,
}

impl StageUnavailable<'_> {
    /// Logs and counts. Only the first failure of the stage is a warning; the tries after it are for `debug`.
    pub fn emit(self, meters: &Meters) {
        let Some(of) = meters.stages().get(self.stage) else {
            return;
        };
        // For people who look: the first line. The log has all, a backtrace too.
        let first_line = self.reason.lines().next().unwrap_or_default();
        let (stage, reason) = (of.name.as_str(), &*plain(self.reason, REASON_BYTES));
        if of.fails(self.first, &plain(first_line, REASON_BYTES)) && meters.logs(1) {
            warn!(
                stage,
                reason, "stage cannot answer: its records wait, and it is tried again"
            );
        } else {
            debug!(stage, reason, "stage still cannot answer");
        }
    }
}

/// A task's stage answers again after a [`StageUnavailable`].
#[derive(Clone, Copy, Debug)]
pub struct StageAvailable {
    /// The stage.
    pub stage: usize,
}

impl StageAvailable {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        let of = meters.stages().get(self.stage);
        if let Some((stage, time)) = of.and_then(|of| Some((of.name.as_str(), of.answers()?))) {
            let seconds = time.as_secs_f64();
            match meters.logs(1) {
                true => info!(stage, seconds, "stage answers again"),
                false => debug!(stage, seconds, "stage answers again"),
            }
        }
    }
}

/// Records were sent to a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelAsked {
    /// The stage.
    pub stage: usize,
    /// Records.
    pub records: u64,
}

impl ModelAsked {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        let stage = stage(meters, self.stage, |stage| {
            stage.records_in.add(self.records);
        });
        trace!(stage, records = self.records, "model asked");
    }
}

/// A model answered, and the record left the stage.
#[derive(Clone, Copy, Debug)]
pub struct ModelAnswered<'a> {
    /// The record's trace, if it is recorded.
    pub trace: Option<TraceId>,
    /// The stage.
    pub stage: usize,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer. They are counted where they are made, by [`Meters::add_tokens`].
    pub tokens: u64,
    /// Why it ended.
    pub finish: &'a str,
    /// From submission to the first step.
    pub queued: Duration,
    /// From the first step to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

impl ModelAnswered<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.model_requests.add(1);
        meters.prompt_tokens.add(self.prompt_tokens);
        let stage = stage(meters, self.stage, |stage| {
            stage.batches.add(1);
            stage.records_out.add(1);
            stage.time.observe(self.queued + self.prefill + self.decode);
            if meters.is_beside() {
                stage.puts_off_none();
            }
        });
        debug!(
            stage,
            prompt_tokens = self.prompt_tokens,
            tokens = self.tokens,
            finish = self.finish,
            queued_ms = self.queued.as_millis() as u64,
            prefill_ms = self.prefill.as_millis() as u64,
            decode_ms = self.decode.as_millis() as u64,
            trace_id = self.trace.map(display),
            "model answered"
        );
    }
}

/// A request to a model ended without an answer.
#[derive(Clone, Copy, Debug)]
pub struct ModelFailed<'a> {
    /// The record's trace, if it is recorded.
    pub trace: Option<TraceId>,
    /// The stage.
    pub stage: usize,
    /// Counted from 1.
    pub attempt: u32,
    /// Whether it is asked again; otherwise the record is a [`RecordDead`] or a [`RecordUnanswered`].
    pub again: bool,
    /// Why.
    pub reason: &'a str,
}

impl ModelFailed<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.model_requests.add(1);
        meters.model_failures.add(1);
        if self.again {
            meters.records_retried.add(1);
        }
        let stage = stage(meters, self.stage, |stage| {
            stage.batches.add(1);
            stage.records_retried.add(u64::from(self.again));
            match (meters.is_beside(), self.again) {
                (true, true) => stage.puts_off(&plain(self.reason, REASON_BYTES)),
                (true, false) => stage.puts_off_none(),
                (false, _) => {}
            }
        });
        debug!(
            stage,
            attempt = self.attempt,
            again = self.again,
            reason = self.reason,
            trace_id = self.trace.map(display),
            "model failed"
        );
    }
}

/// A cut was committed.
#[derive(Clone, Copy, Debug)]
pub struct CutCommitted {
    /// Number of the cut.
    pub cut: u64,
    /// The worker.
    pub worker: usize,
    /// Records that are done with it.
    pub records: u64,
    /// Records that wait for a model across it.
    pub in_flight: u64,
    /// How long the commit took.
    pub time: Duration,
}

impl CutCommitted {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.cut_held(self.time);
        debug!(
            cut = self.cut,
            worker = self.worker,
            records = self.records,
            in_flight = self.in_flight,
            micros = self.time.as_micros() as u64,
            "cut committed"
        );
    }
}

/// A cut came to nothing: its worker goes back to the one before.
#[derive(Clone, Copy, Debug)]
pub struct CutAborted<'a> {
    /// The worker.
    pub worker: usize,
    /// Why.
    pub reason: &'a str,
}

impl CutAborted<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.cuts_aborted.add(1);
        let reason = &*plain(self.reason, REASON_BYTES);
        match meters.logs(1) {
            true => warn!(worker = self.worker, "a cut was taken back: {reason}"),
            false => debug!(worker = self.worker, "a cut was taken back: {reason}"),
        }
    }
}

/// A worker has ended before its time, and its run with it.
#[derive(Clone, Copy, Debug)]
pub struct WorkerFailed<'a> {
    /// The worker.
    pub worker: usize,
    /// Why.
    pub error: &'a (dyn std::error::Error + 'static),
}

impl WorkerFailed<'_> {
    /// Logs. Beside the stream whoever tries something is told, and nobody else has to know.
    pub fn emit(self, meters: &Meters) {
        let (worker, error) = (self.worker, display(self.error));
        match meters.logs(1) {
            true => error!(worker, error, "worker failed"),
            false => debug!(worker, error, "worker failed"),
        }
    }
}

/// A deployment switched every task.
#[derive(Clone, Copy, Debug)]
pub struct Deployed<'a> {
    /// The slot.
    pub slot: &'a str,
    /// Version it ran.
    pub old: &'a str,
    /// Version it runs.
    pub new: &'a str,
    /// Digest of the component it runs.
    pub digest: &'a str,
    /// Digest of that with its configuration, grants and limits.
    pub revision: &'a str,
    /// Tasks that switched.
    pub tasks: usize,
    /// Longest time a task waited for the switch.
    pub longest_wait: Duration,
}

impl Deployed<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        meters.swaps.add(1);
        meters.add_swap_wait(self.longest_wait);
        info!(
            slot = self.slot,
            old = self.old,
            new = self.new,
            digest = self.digest,
            revision = self.revision,
            tasks = self.tasks,
            longest_wait_micros = self.longest_wait.as_micros() as u64,
            "component deployed"
        );
    }
}

/// A deployment was refused; nothing has changed.
#[derive(Clone, Copy, Debug)]
pub struct DeploymentRefused<'a> {
    /// The slot.
    pub slot: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl DeploymentRefused<'_> {
    /// Logs.
    pub fn emit(self) {
        let reason = &*plain(self.reason, REASON_BYTES);
        warn!(slot = self.slot, reason, "deployment refused");
    }
}

/// A revision has failed more often than the pipeline file allows.
#[derive(Clone, Copy, Debug)]
pub struct RevisionTripped<'a> {
    /// The stage.
    pub stage: usize,
    /// Version of the component.
    pub version: &'a str,
    /// Digest of the revision.
    pub revision: &'a str,
    /// How often in which time, and the limit.
    pub reason: &'a str,
    /// What is done about it.
    pub then: &'a str,
}

impl RevisionTripped<'_> {
    /// Logs and counts.
    pub fn emit(self, meters: &Meters) {
        let stage = stage(meters, self.stage, |stage| stage.revisions_tripped.add(1));
        let (version, reason) = (
            plain(self.version, REASON_BYTES),
            plain(self.reason, REASON_BYTES),
        );
        error!(
            stage,
            version = &*version,
            revision = self.revision,
            reason = &*reason,
            then = self.then,
            "an operator is run no more"
        );
    }
}

/// The pipeline began to run.
#[derive(Clone, Copy, Debug)]
pub struct RunStarted<'a> {
    /// Its name.
    pub pipeline: &'a str,
    /// Workers.
    pub workers: usize,
    /// The cut it goes on from; 0 if it begins.
    pub cut: u64,
}

impl RunStarted<'_> {
    /// Logs.
    pub fn emit(self) {
        info!(
            pipeline = self.pipeline,
            workers = self.workers,
            cut = self.cut,
            "run started"
        );
    }
}

/// The run ended.
#[derive(Clone, Copy, Debug)]
pub struct RunEnded<'a> {
    /// Name of the pipeline.
    pub pipeline: &'a str,
    /// Why it failed, if it did.
    pub failure: Option<&'a str>,
}

impl RunEnded<'_> {
    /// Logs.
    pub fn emit(self) {
        match self.failure {
            None => info!(pipeline = self.pipeline, "run ended"),
            Some(failure) => {
                let failure = &*plain(failure, REASON_BYTES);
                error!(pipeline = self.pipeline, failure, "run failed");
            }
        }
    }
}
