//! What a worker's tasks have done since its last cut: output in its sinks, and the counts of it.

mod inputs;
mod letters;
mod telling;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{
    Became, CommitError, Cut, DeadLetter, HostHeaders, LetterForm, LetterSeal, Participants,
    Partition, RefusedRecord, Sink, SinkError,
};
use tidegate_record::{BatchView, Origin, RecordId};
use tidegate_telemetry::events::RecordsWritten;
use tidegate_telemetry::{LatencyRecorder, Meters};

use self::inputs::Inputs;
pub(crate) use self::letters::Death;
use self::letters::now;
use crate::audit::Audit;
use crate::counts::Counts;
use crate::error::FlowError;
use crate::hearing::{At, Hearing};
use crate::pulse::Pulse;
use crate::refused::Refused;
use crate::topology::Topology;
use crate::traced::{ReadingRun, Sending, Traces};

/// Output that waits for a cut, bytes; more forces one.
const MAX_PENDING: usize = 8 << 20;

/// A worker's sinks and its open counts.
pub(crate) struct Output {
    pub topology: Arc<Topology>,
    pub sinks: Vec<Box<dyn Sink>>,
    pub dead: Box<dyn Sink>,
    /// Which inputs records are read from, for their letters.
    pub inputs: Inputs,
    /// With what dead letters keep private attributes.
    pub seal: Option<LetterSeal>,
    /// Who was answered what.
    pub audit: Audit,
    /// One for each sink: records written since the last flush that the sink may refuse when it is flushed.
    pub unsettled: Vec<u64>,
    pub meters: Arc<Meters>,
    /// Of its worker.
    pub pulse: Arc<Pulse>,
    /// Spans of what becomes of records.
    pub traces: Traces,
    pub latency: LatencyRecorder,
    /// What became of records since it was last taken: of the task that has its turn.
    pub counts: Counts,
    /// By partition, records that their sink refused when it was flushed: counted as written, and dead letters now.
    pub refused_late: HashMap<Partition, u64>,
    /// Records that a sink refuses for good, and why: they come again, and end as dead letters.
    pub refused: Refused,
    /// Whose answers callers hear.
    pub hearing: Hearing,
    /// When records were read that are finished since the last cut, and how many: their latency ends with the cut.
    pub finished: Vec<(Instant, u64)>,
}

impl Output {
    /// The output of a worker with these sinks.
    pub(crate) fn new(
        topology: Arc<Topology>,
        sinks: Vec<Box<dyn Sink>>,
        dead: Box<dyn Sink>,
        meters: Arc<Meters>,
    ) -> Output {
        let run = ReadingRun::begins();
        let tracer = meters.tracer().clone();
        Output {
            hearing: Hearing::new(&topology),
            inputs: Inputs::new(run),
            traces: Traces::new(topology.clone(), tracer, meters.pipeline(), run),
            topology,
            unsettled: vec![0; sinks.len()],
            sinks,
            dead,
            seal: None,
            audit: Audit::default(),
            latency: meters.latency_recorder(),
            meters,
            pulse: Arc::new(Pulse::new()),
            counts: Counts::default(),
            refused_late: HashMap::new(),
            refused: Refused::default(),
            finished: Vec::new(),
        }
    }

    /// Writes a batch to a sink. A record the sink cannot encode becomes a dead letter.
    pub(crate) fn write(&mut self, sink: usize, batch: BatchView<'_>) -> Result<(), FlowError> {
        let mut written = 0;
        let pending = self.sinks[sink].pending();
        let topology = self.topology.clone();
        let called = batch.get(0).map(|first| first.id().source);
        let called = called.and_then(|source| topology.callers_of(source));
        let answers = called.filter(|_| self.hearing.answers(sink));
        let settles_late = self.sinks[sink].settles_late();
        for record in batch.records() {
            if let Some(reason) = self.refused.meet(sink, record.id()) {
                let death = Death {
                    at: At::Sink(sink),
                    reason: &reason,
                    component: None,
                    backtrace: None,
                    attempts: 1,
                    error: None,
                };
                self.bury(&record, &death)?;
                continue;
            }
            if let Some(callers) = answers
                && record.id().origin == Origin::Source
            {
                let answer = self.hearing.brought(&record, sink);
                callers.brings(record.id().into(), answer);
            }
            let sending = self.traces.sends(sink, answers.is_some(), &record);
            let told = sending.as_ref().map(Sending::headers);
            let host = HostHeaders {
                names: self.traces.host_names(),
                written: told.as_deref().unwrap_or_default(),
            };
            let result = self.sinks[sink].write(record.public(), host);
            drop(told);
            if let Some(sending) = sending {
                let place = (sink, record.id());
                (self.traces).sent(sending, place, result.is_ok(), settles_late);
            }
            match result {
                Ok(()) => {
                    written += 1;
                    if called.is_some() {
                        // One that settles late may yet refuse it, which is of no interest to whoever waits for an answer.
                        let name = &topology.sinks[sink];
                        let written = Became::Written { sink: name };
                        self.tell(record.id(), At::Sink(sink), &written);
                    }
                }
                Err(error @ SinkError::Encode { .. }) => {
                    self.bury(
                        &record,
                        &Death {
                            at: At::Sink(sink),
                            reason: &error.to_string(),
                            component: None,
                            backtrace: None,
                            attempts: 1,
                            error: None,
                        },
                    )?;
                }
                Err(error) => {
                    return Err(FlowError::Sink {
                        name: self.topology.sinks[sink].clone(),
                        error,
                    });
                }
            }
        }
        self.counts.output += written;
        if let Some(meters) = self.meters.sinks().get(sink) {
            let bytes = self.sinks[sink].pending().saturating_sub(pending);
            meters.bytes.add(bytes as u64);
        }
        if settles_late {
            // It may yet refuse some of them.
            self.unsettled[sink] += written;
        } else {
            self.tell_written(sink, written);
        }
        Ok(())
    }

    fn tell_written(&self, sink: usize, records: u64) {
        if let Some(meters) = self.meters.sinks().get(sink) {
            meters.records.add(records);
        }
        RecordsWritten {
            sink: &self.topology.sinks[sink],
            records,
        }
        .emit(&self.meters);
    }

    /// What was collected since the last cut is forgotten, and records that these sinks refuse end as dead letters when
    /// they come again.
    pub(crate) fn discard(&mut self, refused: Vec<(String, RefusedRecord)>) {
        for sink in self.sinks.iter_mut().chain([&mut self.dead]) {
            sink.discard();
        }
        self.audit.discard();
        self.traces.discarded();
        self.counts = Counts::default();
        self.unsettled.fill(0);
        self.finished.clear();
        self.refused.cut_failed();
        for (name, record) in refused {
            // Of callers nothing comes again.
            if self.topology.callers_of(record.id.source).is_some() {
                continue;
            }
            let mut sinks = self.topology.sinks.iter();
            if let Some(sink) = sinks.position(|sink| *sink == name) {
                self.refused.add(sink, record.id, record.reason);
            }
        }
    }

    /// Bytes that wait for the cut.
    pub(crate) fn pending(&self) -> usize {
        let sinks = self.sinks.iter().map(|sink| sink.pending());
        sinks.sum::<usize>() + self.dead.pending() + self.audit.pending()
    }

    /// Whether so much waits that a cut comes before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.pending() >= MAX_PENDING
    }
}

fn source_name(topology: &Topology, id: RecordId) -> &str {
    topology
        .sources
        .get(usize::from(id.source))
        .map_or("", |source| source.name.as_str())
}

fn name_of(topology: &Topology, id: RecordId, at: At) -> &str {
    match at {
        At::Source => source_name(topology, id),
        At::Stage(stage) => &topology.stages[stage].name,
        At::Sink(sink) => &topology.sinks[sink],
    }
}

impl Participants for Output {
    /// A record that a sink refuses now is a dead letter of the same cut.
    fn flush(&mut self, cut: &mut Cut) -> Result<(), CommitError> {
        // First of all: no answer is on a disk before its line is.
        self.audit.flush(cut)?;
        let topology = self.topology.clone();
        for (index, name) in topology.sinks.iter().enumerate() {
            flush(name, self.sinks[index].as_mut(), cut)?;
            let refused = self.sinks[index].take_refused();
            let mut written = std::mem::take(&mut self.unsettled[index]);
            written = written.saturating_sub(refused.len() as u64);
            self.tell_written(index, written);
            let ids = refused.iter().map(|record| record.id);
            let traces = self.traces.settled(index, name, ids);
            for record in refused {
                let partition = Partition {
                    source: record.id.source,
                    number: record.id.partition,
                };
                if let Some(task) = cut.tasks.get_mut(&topology.task_id(partition)) {
                    let counts = Counts::from_log(&task.counters).refused_late(1);
                    task.counters = counts.to_log();
                }
                *self.refused_late.entry(partition).or_default() += 1;
                if let Some(meters) = self.meters.sinks().get(index) {
                    meters.failed.add(1);
                }
                let meters = self.meters.clone();
                // Its note is not known here any more. A letter of what was to be written is not sent again.
                let input = self.inputs.always(record.id);
                let letter = DeadLetter {
                    pipeline: meters.pipeline(),
                    id: record.id,
                    source: source_name(&topology, record.id),
                    input: input.as_deref(),
                    stage: name,
                    reason: &record.reason,
                    component: None,
                    backtrace: None,
                    attempts: 1,
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    length: record.value.as_ref().map_or(0, |value| value.len() as u64),
                    at: now(),
                    form: LetterForm::Output,
                    event_time: None,
                    headers: None,
                    ..DeadLetter::default()
                };
                self.write_letter(&letter, traces.get(&record.id).copied())?;
            }
        }
        flush(DEAD_LETTERS, self.dead.as_mut(), cut)
    }
}

/// What the sink of dead letters is called.
const DEAD_LETTERS: &str = "dead-letters";

fn flush(name: &str, sink: &mut dyn Sink, cut: &mut Cut) -> Result<(), CommitError> {
    if sink.pending() == 0 {
        return Ok(());
    }
    let position = sink.flush().map_err(|error| CommitError::Sink {
        sink: name.to_owned(),
        error,
    })?;
    cut.sinks.extend(position);
    Ok(())
}

#[cfg(test)]
mod tests;
