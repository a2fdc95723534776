//! In-flight entries: what waits, and its form in the commit log.
//!
//! The form is: length u32 of a JSON header, the header, then the record as a batch of one. Records that have come to a
//! stage and are not taken yet are an entry together: their header says so, and the batch holds them all. As they are
//! taken, an entry beside it says how many are, so that the batch is not written again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_contract::{Answer, InFlightEntry};
use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId, RecordRefused, RecordView};

use crate::stored::StoredAnswer;
use crate::topology::Source;

/// Digest of a model that was replaced while a record was given to it: no model has it, so its tokens are of no use.
pub(crate) const UNKNOWN_MODEL: &str = "unknown";

/// A record that waits in a stage.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The record, in a batch of its own.
    pub record: Batch,
    /// Which records it must not overtake.
    pub lane: Lane,
    /// Its offset in the partition.
    pub offset: u64,
    /// When it was read.
    pub arrived: Instant,
    /// Attempts of the model or the operator that have ended. One that is under way is none: a crash, or a model that
    /// is unloaded, takes nothing away from a record.
    pub attempt: u32,
    /// What it waits for.
    pub state: State,
    /// The rendered user message, once rendered; empty in an operator stage.
    pub prompt: String,
    /// Tokens of the answer so far, written by the engine.
    pub tokens: Tokens,
    /// Tokens in the commit log's copy; none if the log has no copy.
    pub logged: Option<usize>,
    /// JSON text of the operators' versions when it came in.
    pub versions: Arc<str>,
    /// Digest of the model that made the tokens so far; empty in an operator stage.
    pub model: Arc<str>,
}

/// Tokens so far, shared with the engine that makes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Arc<Mutex<Vec<u32>>>);

impl Tokens {
    pub(crate) fn new(tokens: Vec<u32>) -> Tokens {
        Tokens(Arc::new(Mutex::new(tokens)))
    }

    pub(crate) fn push(&self, token: u32) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(token);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn to_vec(&self) -> Vec<u32> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Records of one lane keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// All records whose key has this hash.
    Key(u64),
    /// All records of the partition.
    Partition,
    /// A record of its own, by entry number.
    Own(u64),
}

/// What an entry waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// Its turn.
    Queued,
    /// The model's answer to this request.
    Submitted(u64),
    /// Those before it in its lane.
    Answered(Box<Answer>),
    /// The time of its retry.
    Delayed(Instant),
}

impl Entry {
    /// The record.
    pub(crate) fn view(&self) -> Option<RecordView<'_>> {
        self.record.view().get(0)
    }

    /// The model of this digest is asked from now on. Another than before does not go on with the tokens so far, it
    /// begins anew; an answer that is there already stays that of the model that made it.
    pub(crate) fn goes_to(&mut self, digest: &str) {
        if *self.model != *digest && !matches!(self.state, State::Answered(_)) {
            self.tokens = Tokens::default();
            self.model = digest.into();
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Header {
    source: String,
    /// What the partition was when the record was read. Empty in logs from before that was part of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    input: String,
    partition: u32,
    stage: String,
    offset: u64,
    attempt: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prompt: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<u32>,
    versions: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<StoredAnswer>,
    /// Milliseconds until the retry, when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    /// When the retry is due, milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_ms: Option<u64>,
    /// Whether these are records that the stage has not taken yet, in one batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    untaken: bool,
    /// That of the records of the untaken entry of this number so many, from the first, are taken since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken_of: Option<(u64, u64)>,
}

impl Header {
    /// Where an entry was read and where it waits.
    fn of(source: &Source, partition: u32, stage: &str) -> Header {
        Header {
            source: source.name.clone(),
            input: source.identity(partition).unwrap_or_default().to_owned(),
            partition,
            stage: stage.to_owned(),
            ..Header::default()
        }
    }
}

/// An entry as it comes back from the commit log.
#[derive(Debug)]
pub(crate) struct Restored {
    /// Name of the source.
    pub source: String,
    /// What was read, if the entry says so.
    pub input: Option<String>,
    /// Number of the partition.
    pub partition: u32,
    /// Name of the stage.
    pub stage: String,
    /// Number of the entry.
    pub number: u64,
    /// What waits there.
    pub waits: Waits,
    /// Number of the entry that said how much of this one is taken.
    pub taken: Option<u64>,
}

/// What an entry of the commit log holds.
#[derive(Debug)]
pub(crate) enum Waits {
    /// A record in the stage; its lane is set by the stage that takes it.
    Entry(Box<Entry>),
    /// Records that the stage has not taken yet.
    Untaken(Batch),
}

/// What one entry of the log says.
#[derive(Debug)]
enum Said {
    /// This waits.
    Waits(Restored),
    /// Of the untaken entry of this number so many records, from the first, are taken.
    Taken { of: u64, records: u64 },
}

impl Waits {
    /// Its records.
    pub(crate) fn len(&self) -> usize {
        match self {
            Waits::Entry(_) => 1,
            Waits::Untaken(batch) => batch.len(),
        }
    }

    /// The records' source has this index in the pipeline, which it need not have had when they were read.
    pub(crate) fn come_from(&mut self, source: u16) -> Result<(), RecordRefused> {
        let batch = match self {
            Waits::Entry(entry) => &mut entry.record,
            Waits::Untaken(batch) => batch,
        };
        if batch
            .view()
            .records()
            .all(|record| record.id().source == source)
        {
            return Ok(());
        }
        let mut builder = BatchBuilder::default();
        for record in batch.view().records() {
            let headers: Vec<_> = record
                .headers()
                .map(|pair| (pair.name, pair.value))
                .collect();
            let attributes: Vec<_> = record
                .attributes()
                .map(|pair| (pair.name, pair.value))
                .collect();
            builder.push(&NewRecord {
                id: RecordId {
                    source,
                    ..record.id()
                },
                event_time: record.event_time(),
                key: record.key(),
                value: record.value(),
                headers: &headers,
                attributes: &attributes,
            })?;
        }
        *batch = builder.finish(batch.view().clock());
        Ok(())
    }
}

/// The entry's bytes in the commit log.
pub(crate) fn encode(source: &Source, partition: u32, stage: &str, entry: &Entry) -> Vec<u8> {
    let (mut answer, mut delay_ms, mut due_ms) = (None, None, None);
    match &entry.state {
        State::Answered(made) => answer = Some(StoredAnswer::of(made)),
        State::Delayed(due) => {
            let delay = due.saturating_duration_since(Instant::now());
            delay_ms = Some(delay.as_millis() as u64);
            due_ms = Some((since_epoch() + delay).as_millis() as u64);
        }
        State::Queued | State::Submitted(_) => {}
    }
    let header = Header {
        offset: entry.offset,
        attempt: entry.attempt,
        prompt: entry.prompt.clone(),
        tokens: entry.tokens.to_vec(),
        versions: entry.versions.to_string(),
        model: entry.model.to_string(),
        answer,
        delay_ms,
        due_ms,
        ..Header::of(source, partition, stage)
    };
    join(&header, &entry.record)
}

/// The bytes in the commit log of records that a stage has not taken yet.
pub(crate) fn encode_untaken(
    source: &Source,
    partition: u32,
    stage: &str,
    batch: &Batch,
) -> Vec<u8> {
    let header = Header {
        offset: batch.view().get(0).map_or(0, |first| first.id().offset),
        untaken: true,
        ..Header::of(source, partition, stage)
    };
    join(&header, batch)
}

/// The bytes in the commit log that say how many records of an untaken entry are taken since it was written.
pub(crate) fn encode_taken(
    source: &Source,
    partition: u32,
    stage: &str,
    (of, records): (u64, u64),
) -> Vec<u8> {
    let header = Header {
        taken_of: Some((of, records)),
        ..Header::of(source, partition, stage)
    };
    join(&header, &BatchBuilder::default().finish(0))
}

/// Reads all entries of the log: those that say how much of another is taken are part of that one.
pub(crate) fn decode_all(logged: &[InFlightEntry]) -> Result<Vec<Restored>, String> {
    let (mut entries, mut taken) = (Vec::new(), HashMap::new());
    for logged in logged {
        match decode(logged.number, &logged.payload)? {
            Said::Waits(entry) => entries.push(entry),
            Said::Taken { of, records } => {
                taken.insert(of, (logged.number, records));
            }
        }
    }
    for entry in &mut entries {
        let Waits::Untaken(batch) = &mut entry.waits else {
            continue;
        };
        let Some((number, records)) = taken.remove(&entry.number) else {
            continue;
        };
        if records >= batch.len() as u64 {
            return Err(format!(
                "in-flight entry {number} is damaged: {records} records taken of {}",
                batch.len()
            ));
        }
        *batch = after(batch, records as usize);
        entry.taken = Some(number);
    }
    match taken.into_values().next() {
        None => Ok(entries),
        Some((number, _)) => Err(format!(
            "in-flight entry {number} is damaged: it speaks of another that is not there"
        )),
    }
}

/// The records of a batch after so many.
pub(crate) fn after(batch: &Batch, records: usize) -> Batch {
    if records == 0 {
        return batch.clone();
    }
    let view = batch.view();
    let mut rest = BatchBuilder::default();
    for record in view.records().skip(records) {
        // A part of a batch is no larger than the batch.
        let _ = rest.push_record(&record);
    }
    rest.finish(view.clock())
}

fn join(header: &Header, batch: &Batch) -> Vec<u8> {
    // Strings and numbers only: this cannot fail.
    let header = serde_json::to_vec(header).unwrap_or_default();
    let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(batch.as_bytes());
    bytes
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// How long a retry is still to wait. It is due at a point in time, so that a restart does not begin the delay again;
/// and if the clock was set back, it waits no longer than it had to when it was written.
fn left(delay_ms: u64, due_ms: Option<u64>, now: Duration) -> Duration {
    let delay = Duration::from_millis(delay_ms);
    due_ms.map_or(delay, |due| {
        Duration::from_millis(due).saturating_sub(now).min(delay)
    })
}

/// Reads what `encode` wrote.
fn decode(number: u64, bytes: &[u8]) -> Result<Said, String> {
    let damaged = |why: &str| format!("in-flight entry {number} is damaged: {why}");
    let (length, rest) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("too short"))?;
    let (header, record) = rest
        .split_at_checked(u32::from_le_bytes(*length) as usize)
        .ok_or_else(|| damaged("header is cut"))?;
    let mut header: Header =
        serde_json::from_slice(header).map_err(|error| damaged(&error.to_string()))?;
    let record = Batch::from_bytes(record.to_vec()).map_err(|error| damaged(&error.to_string()))?;
    if let Some((of, records)) = header.taken_of {
        return Ok(Said::Taken { of, records });
    }
    let restored = |waits: Waits, header: Header| {
        Said::Waits(Restored {
            source: header.source,
            input: Some(header.input).filter(|input| !input.is_empty()),
            partition: header.partition,
            stage: header.stage,
            number,
            waits,
            taken: None,
        })
    };
    if header.untaken {
        return Ok(restored(Waits::Untaken(record), header));
    }
    if record.len() != 1 {
        return Err(damaged("it does not hold one record"));
    }
    let tokens = std::mem::take(&mut header.tokens);
    let state = match (header.answer.take(), header.delay_ms) {
        (Some(answer), _) => State::Answered(Box::new(answer.into_answer(&tokens))),
        (None, Some(delay)) => {
            State::Delayed(Instant::now() + left(delay, header.due_ms, since_epoch()))
        }
        (None, None) => State::Queued,
    };
    let entry = Entry {
        record,
        lane: Lane::Own(number),
        offset: header.offset,
        arrived: Instant::now(),
        attempt: header.attempt,
        state,
        prompt: std::mem::take(&mut header.prompt),
        logged: Some(tokens.len()),
        tokens: Tokens::new(tokens),
        versions: std::mem::take(&mut header.versions).into(),
        model: std::mem::take(&mut header.model).into(),
    };
    Ok(restored(Waits::Entry(Box::new(entry)), header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_contract::{Made, Timings};

    fn entry(state: State) -> Entry {
        let mut record = BatchBuilder::default();
        record.push(&NewRecord::default()).unwrap();
        Entry {
            record: record.finish(0),
            lane: Lane::Own(1),
            offset: 0,
            arrived: Instant::now(),
            attempt: 1,
            state,
            prompt: "a prompt".into(),
            tokens: Tokens::new(vec![5, 6]),
            logged: None,
            versions: "[]".into(),
            model: "sha256:old".into(),
        }
    }

    fn source() -> Source {
        Source {
            name: "source".into(),
            targets: Vec::new(),
            positions_in_log: true,
            durable_in_flight: true,
            identities: vec!["a.jsonl".into(), "b.jsonl".into(), "c.jsonl".into()],
        }
    }

    fn decoded(bytes: &[u8]) -> Restored {
        match decode(7, bytes).unwrap() {
            Said::Waits(restored) => restored,
            said => panic!("{said:?}"),
        }
    }

    /// As a run finds it that begins with this model.
    fn found(entry: &Entry, digest: &str) -> Entry {
        let restored = decoded(&encode(&source(), 0, "stage", entry));
        let Waits::Entry(mut found) = restored.waits else {
            panic!("{restored:?}");
        };
        found.goes_to(digest);
        *found
    }

    #[test]
    fn an_attempt_that_a_crash_cut_short_is_not_counted() {
        let under_way = Entry {
            attempt: 0,
            ..entry(State::Submitted(3))
        };
        assert_eq!(found(&under_way, "sha256:old").attempt, 0);
    }

    #[test]
    fn a_delay_ends_at_its_time_however_often_the_run_is_started_again() {
        let seconds = Duration::from_secs;
        let due = Some(1_060_000);
        assert_eq!(left(60_000, due, seconds(1_000)), seconds(60));
        assert_eq!(left(60_000, due, seconds(1_045)), seconds(15));
        assert_eq!(left(60_000, due, seconds(5_000)), seconds(0));
        // The clock was set back: no longer than was left when it was written.
        assert_eq!(left(60_000, due, seconds(1)), seconds(60));
        // Written before the time was part of it.
        assert_eq!(left(60_000, None, seconds(1_045)), seconds(60));
        let delayed = entry(State::Delayed(Instant::now() + seconds(60)));
        let bytes = encode(&source(), 0, "stage", &delayed);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("\"due_ms\""), "{text}");
    }

    #[test]
    fn records_that_a_stage_has_not_taken_come_back_together() {
        let mut batch = BatchBuilder::default();
        for _ in 0..3 {
            batch.push(&NewRecord::default()).unwrap();
        }
        let batch = batch.finish(5);
        let restored = decoded(&encode_untaken(&source(), 2, "stage", &batch));
        assert_eq!((restored.partition, &*restored.stage), (2, "stage"));
        assert_eq!(restored.input.as_deref(), Some("c.jsonl"));
        assert!(matches!(restored.waits, Waits::Untaken(found) if found == batch));
    }

    #[test]
    fn a_batch_of_which_records_are_taken_comes_back_without_them() {
        let mut batch = BatchBuilder::default();
        for n in 0..3 {
            let id = RecordId {
                offset: n,
                ..RecordId::default()
            };
            let record = NewRecord {
                id,
                ..NewRecord::default()
            };
            batch.push(&record).unwrap();
        }
        let batch = batch.finish(5);
        let whole = InFlightEntry {
            number: 7,
            payload: encode_untaken(&source(), 2, "stage", &batch),
        };
        let taken = |of, records| InFlightEntry {
            number: 8,
            payload: encode_taken(&source(), 2, "stage", (of, records)),
        };
        let restored = decode_all(&[whole.clone(), taken(7, 2)]).unwrap();
        let [one] = restored.as_slice() else {
            panic!("{restored:?}");
        };
        assert_eq!((one.number, one.taken), (7, Some(8)));
        let Waits::Untaken(rest) = &one.waits else {
            panic!("{one:?}");
        };
        assert_eq!(rest.len(), 1);
        assert_eq!(rest.view().get(0).unwrap().id().offset, 2);
        // More than there are, and of none.
        for taken in [taken(7, 3), taken(6, 1)] {
            let error = decode_all(&[whole.clone(), taken]).unwrap_err();
            assert!(error.contains("entry 8 is damaged"), "{error}");
        }
    }

    #[test]
    fn another_model_begins_anew_and_the_same_one_goes_on() {
        let same = found(&entry(State::Submitted(3)), "sha256:old");
        assert_eq!(
            (&*same.model, same.tokens.to_vec()),
            ("sha256:old", vec![5, 6])
        );
        let other = found(&entry(State::Submitted(3)), "sha256:new");
        assert_eq!(
            (&*other.model, other.tokens.to_vec()),
            ("sha256:new", vec![])
        );
    }

    #[test]
    fn an_answer_that_waits_behind_its_lane_keeps_its_tokens_and_the_model_that_made_it() {
        let answer = Answer {
            made: Made::Embedding(vec![1.0]),
            prompt_tokens: 3,
            timings: Timings::default(),
        };
        let waits = found(&entry(State::Answered(Box::new(answer))), "sha256:new");
        assert!(matches!(waits.state, State::Answered(_)));
        assert_eq!(
            (&*waits.model, waits.tokens.to_vec()),
            ("sha256:old", vec![5, 6])
        );
    }
}
