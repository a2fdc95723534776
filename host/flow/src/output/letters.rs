//! Records that end as dead letters.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_contract::{
    Became, Blame, CommitError, DeadLetter, HostHeaders, LETTER_HEADERS, LetterForm, LetterHeader,
    LetterSeal, ModelError, Rejected, SealedFor,
};
use tidegate_record::{RecordId, RecordView};
use tidegate_telemetry::events::{RecordDead, RecordUnanswered};
use tidegate_telemetry::trace::TraceId;

use super::{DEAD_LETTERS, Output, name_of, source_name};
use crate::error::FlowError;
use crate::hearing::At;
use crate::traced::Onward;

/// Where input ends that cannot become a record.
const DECODE: &str = "decode";

/// Why a record cannot go on.
pub(crate) struct Death<'a> {
    pub at: At,
    pub reason: &'a str,
    pub component: Option<&'a str>,
    pub backtrace: Option<&'a str>,
    pub attempts: u32,
    /// What the model said, where one refused.
    pub error: Option<&'a ModelError>,
}

impl Output {
    /// Writes a record to the dead letters.
    pub(crate) fn bury(
        &mut self,
        record: &RecordView<'_>,
        death: &Death<'_>,
    ) -> Result<(), FlowError> {
        if let At::Sink(sink) = death.at
            && let Some(meters) = self.meters.sinks().get(sink)
        {
            meters.failed.add(1);
        }
        let value = record.value();
        let topology = self.topology.clone();
        let stage = name_of(&topology, record.id(), death.at);
        let called = topology.callers_of(record.id().source).is_some();
        let blame = death.error.map(ModelError::blame);
        if called && blame.is_some_and(|blame| blame != Blame::Host) {
            // Who asked is told, and asks otherwise or again: nobody would look for it among the dead letters, which
            // whoever asks could fill.
            self.counts.dropped += 1;
            let trace = self.traces.dead(record, stage, false, death.attempts);
            RecordUnanswered {
                trace,
                stage,
                source: source_name(&topology, record.id()),
                partition: record.id().partition,
                offset: record.id().offset,
                reason: death.reason,
                elsewhere: blame == Some(Blame::Elsewhere),
            }
            .emit(&self.meters);
        } else {
            let onward = self.traces.onward(record);
            let told = onward.as_ref().map(Onward::headers);
            let host = HostHeaders {
                names: self.traces.host_names(),
                written: told.as_deref().unwrap_or_default(),
            };
            let headers = headers(record, host);
            let trace = self.traces.dead(record, stage, true, death.attempts);
            let meters = self.meters.clone();
            let input = self.inputs.of(record);
            let mut letter = DeadLetter {
                pipeline: meters.pipeline(),
                id: record.id(),
                source: source_name(&topology, record.id()),
                input: input.as_deref(),
                stage,
                reason: death.reason,
                component: death.component,
                backtrace: death.backtrace,
                attempts: death.attempts,
                key: record.key(),
                value,
                length: value.map_or(0, |value| value.len() as u64),
                at: now(),
                form: LetterForm::Record,
                event_time: record.event_time(),
                headers: headers.as_deref(),
                private: u64::from(record.attributes().number()),
                private_sealed: None,
            };
            // One of a caller is not sent again, and who asked has what is private.
            let seal = self.seal.as_ref().filter(|_| !called && letter.private > 0);
            let sealed = seal.and_then(|seal| sealed(seal, &letter, record));
            letter.private_sealed = sealed.as_deref();
            self.write_dead(&letter, trace)?;
        }
        self.tell(
            record.id(),
            death.at,
            &Became::Dead {
                stage,
                reason: death.reason,
                error: death.error,
            },
        );
        Ok(())
    }

    /// Writes input that could not become a record to the dead letters.
    pub(crate) fn reject(
        &mut self,
        id: RecordId,
        identity: &str,
        rejected: &Rejected,
    ) -> Result<(), FlowError> {
        let topology = self.topology.clone();
        let id = RecordId {
            offset: rejected.offset,
            ..id
        };
        let headers = rejected.headers.as_ref().map(|headers| {
            let headers = headers.iter();
            headers
                .map(|(name, value)| (name.as_str(), value.as_deref()))
                .collect::<Vec<_>>()
        });
        let meters = self.meters.clone();
        let input = self.inputs.now(id);
        let letter = DeadLetter {
            pipeline: meters.pipeline(),
            id,
            source: source_name(&topology, id),
            input: input.as_deref(),
            stage: DECODE,
            reason: &rejected.reason,
            component: None,
            backtrace: None,
            attempts: 1,
            key: rejected.key.as_deref(),
            value: Some(&rejected.preview),
            length: rejected.length,
            at: now(),
            form: LetterForm::Input,
            event_time: rejected.event_time,
            headers: headers.as_deref(),
            private: rejected.private,
            private_sealed: None,
        };
        let trace = self.traces.rejected(id, identity, rejected, DECODE);
        self.write_dead(&letter, trace)?;
        self.tell(
            id,
            At::Source,
            &Became::Dead {
                stage: DECODE,
                reason: &rejected.reason,
                error: None,
            },
        );
        Ok(())
    }

    fn write_dead(
        &mut self,
        letter: &DeadLetter<'_>,
        trace: Option<TraceId>,
    ) -> Result<(), FlowError> {
        self.write_letter(letter, trace)?;
        self.counts.dead += 1;
        Ok(())
    }

    pub(super) fn write_letter(
        &mut self,
        letter: &DeadLetter<'_>,
        trace: Option<TraceId>,
    ) -> Result<(), CommitError> {
        self.dead
            .write_dead(letter)
            .map_err(|error| CommitError::Sink {
                sink: DEAD_LETTERS.to_owned(),
                error,
            })?;
        RecordDead {
            stage: letter.stage,
            source: letter.source,
            partition: letter.id.partition,
            offset: letter.id.offset,
            reason: letter.reason,
            trace,
        }
        .emit(&self.meters);
        Ok(())
    }
}

/// The private attributes of a record, for its letter alone.
fn sealed(seal: &LetterSeal, letter: &DeadLetter<'_>, record: &RecordView<'_>) -> Option<Vec<u8>> {
    let name = SealedFor::letter_name(letter.pipeline, &letter.record(), letter.stage, letter.at);
    let place = SealedFor {
        letter: &name,
        key: letter.key,
        value: letter.value,
    };
    seal.seal(&place, record.attributes())
}

/// The public headers of a record, unless its own are more than a letter is to have: those of the host are not counted, so
/// that what can be sent again is the same whether it is traced or not.
fn headers<'a>(record: &RecordView<'a>, host: HostHeaders<'a>) -> Option<Vec<LetterHeader<'a>>> {
    let own = record.headers();
    (own.as_bytes().len() <= LETTER_HEADERS).then(|| host.over(own).collect())
}

/// Microseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}
