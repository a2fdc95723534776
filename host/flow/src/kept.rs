//! In-flight entries in the form in which cuts keep them.
//!
//! A record that waits is kept in parts: the record, written once; the prompt that was made of it, written once; and its
//! progress, written again as it changes. Records that have come to a stage and are not taken yet are kept together, and
//! beside them how many are taken since, so that the batch is not written again.
//!
//! ```text
//! record   = length u32 of a JSON header, the header (order, model, versions, caller), the record as a batch of one
//! prompt   = the prompt, UTF-8
//! progress = JSON: attempt, tokens, model, answer, handlers, adapter, delay_ms, due_ms, fed, put_off_ms
//! batch    = length u32 of a JSON header, the header (order, versions, callers by offset), the records as a batch
//! taken    = JSON: records
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_contract::{self as contract, EntryKey, EntryPart};
use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId, RecordRefused};

use crate::entry::{By, Entry, EntryId, KeptParts, Lane, State, Tokens};
use crate::stored::StoredAnswer;
use crate::versions::Versions;

/// The names of the keys that records were asked with, by offset.
pub(crate) type Callers = BTreeMap<u64, Arc<str>>;

/// The same as it is kept.
type Named = BTreeMap<u64, String>;

/// An entry as it comes back.
#[derive(Debug)]
pub(crate) struct Restored {
    /// Name of the stage.
    pub stage: String,
    /// Its place among those of its task: what came first has the lowest.
    pub order: u64,
    /// What waits there.
    pub waits: Waits,
}

/// What an entry holds.
#[derive(Debug)]
pub(crate) enum Waits {
    /// A record in the stage; its lanes are set by the stage that takes it.
    Entry {
        entry: Box<Entry>,
        /// Whether a model was to be asked, rather than an operator.
        model: bool,
    },
    /// Records that the stage has not taken yet.
    Untaken {
        /// The records that are left.
        batch: Batch,
        id: EntryId,
        /// Whether others of it were taken since it was written.
        taken: bool,
        /// Who asked with them.
        callers: Callers,
        /// The operators that they went through.
        versions: Versions,
    },
}

#[derive(Default, Serialize, Deserialize)]
struct RecordHeader {
    order: u64,
    model: bool,
    versions: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct BatchHeader {
    order: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    versions: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    callers: Named,
}

#[derive(Serialize, Deserialize)]
struct Taken {
    records: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Progress {
    attempt: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<StoredAnswer>,
    /// Who handled the tokens of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    handlers: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    adapter: String,
    /// Milliseconds until the retry, when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    /// When the retry is due, milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_ms: Option<u64>,
    /// The attempt as feeds of tokens know it.
    #[serde(default, skip_serializing_if = "is_zero")]
    fed: u64,
    /// Milliseconds since a server put it off for the first time, when it was written: the time that the program is away
    /// is not held against a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    put_off_ms: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Waits {
    /// How many records it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Waits::Entry { .. } => 1,
            Waits::Untaken { batch, .. } => batch.len(),
        }
    }

    /// Offset of the first.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Waits::Entry { entry, .. } => entry.id.offset,
            Waits::Untaken { id, .. } => id.offset,
        }
    }

    /// Its records.
    pub(crate) fn records(&self) -> impl Iterator<Item = RecordId> + '_ {
        let batch = match self {
            Waits::Entry { entry, .. } => &entry.record,
            Waits::Untaken { batch, .. } => batch,
        };
        batch.view().records().map(|record| record.id())
    }

    /// The records' source has this index in the pipeline, which it need not have had when they were read.
    pub(crate) fn come_from(&mut self, source: u16) -> Result<(), RecordRefused> {
        let batch = match self {
            Waits::Entry { entry, .. } => &mut entry.record,
            Waits::Untaken { batch, .. } => batch,
        };
        let records = || batch.view().records();
        if records().all(|record| record.id().source == source) {
            return Ok(());
        }
        let mut builder = BatchBuilder::default();
        for record in records() {
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
            if let Some(note) = record.note() {
                builder.note(note);
            }
        }
        *batch = builder.finish(batch.view().clock());
        Ok(())
    }
}

/// The name of a part of what waits in a stage.
pub(crate) fn key(stage: &str, id: EntryId, part: EntryPart) -> EntryKey {
    EntryKey {
        stage: stage.to_owned(),
        offset: id.offset,
        emit: id.emit,
        copy: id.copy,
        part,
    }
}

/// The parts of an entry that a cut is to have, which it has from then on. `changed` says that its progress is another
/// than before.
pub(crate) fn put(
    stage: &str,
    order: u64,
    entry: &mut Entry,
    changed: bool,
) -> Vec<contract::Entry> {
    let mut put = Vec::new();
    let mut part = |part, payload| {
        put.push(contract::Entry {
            key: key(stage, entry.id, part),
            payload,
        });
    };
    if !entry.kept.record {
        let header = RecordHeader {
            order,
            model: !entry.model.is_empty(),
            versions: entry.versions.to_kept().to_owned(),
            caller: entry.caller.as_deref().map(str::to_owned),
        };
        part(EntryPart::Record, join(&header, &entry.record));
    }
    if !entry.kept.prompt && !entry.prompt.is_empty() {
        entry.kept.prompt = true;
        part(EntryPart::Prompt, entry.prompt.clone().into_bytes());
    }
    let tokens = entry.tokens.to_vec();
    let queued = matches!(entry.state, State::Queued | State::Submitted(_));
    let begun = !queued || entry.attempt > 0 || entry.put_off.is_some() || !tokens.is_empty();
    if (begun && (changed || !entry.kept.record)) || (entry.kept.progress && changed) {
        entry.kept.progress = true;
        part(EntryPart::Progress, json(&progress(entry, tokens)));
    }
    entry.kept.record = true;
    put
}

fn progress(entry: &Entry, tokens: Vec<u32>) -> Progress {
    let mut progress = Progress {
        attempt: entry.attempt,
        tokens,
        model: entry.model.to_string(),
        handlers: entry.by.handlers.to_kept().to_owned(),
        adapter: entry.by.adapter.to_string(),
        fed: entry.fed,
        put_off_ms: entry
            .put_off
            .map(|since| since.elapsed().as_millis() as u64),
        ..Progress::default()
    };
    match &entry.state {
        State::Answered(made) => progress.answer = Some(StoredAnswer::of(made)),
        State::Delayed(due) => {
            let delay = due.saturating_duration_since(Instant::now());
            progress.delay_ms = Some(delay.as_millis() as u64);
            progress.due_ms = Some((since_epoch() + delay).as_millis() as u64);
        }
        State::Queued | State::Submitted(_) => {}
    }
    progress
}

/// The names of the parts of an entry that the cuts have, and need not have any more.
pub(crate) fn done(stage: &str, id: EntryId, kept: KeptParts) -> impl Iterator<Item = EntryKey> {
    let parts = [
        (kept.record, EntryPart::Record),
        (kept.prompt, EntryPart::Prompt),
        (kept.progress, EntryPart::Progress),
    ];
    let there = parts.into_iter().filter(|(there, _)| *there);
    there.map(move |(_, part)| key(stage, id, part))
}

/// Records that a stage has not taken yet.
pub(crate) fn put_batch(
    stage: &str,
    order: u64,
    id: EntryId,
    (batch, versions): (&Batch, &Versions),
    callers: &Callers,
) -> contract::Entry {
    let callers = match callers.is_empty() {
        true => Named::new(),
        false => (batch.view().records())
            .filter_map(|record| {
                let caller = callers.get(&record.id().offset)?;
                Some((record.id().offset, caller.as_ref().to_owned()))
            })
            .collect(),
    };
    contract::Entry {
        key: key(stage, id, EntryPart::Batch),
        payload: join(
            &BatchHeader {
                order,
                versions: versions.to_kept().to_owned(),
                callers,
            },
            batch,
        ),
    }
}

/// How many of them are taken since they were written.
pub(crate) fn put_taken(stage: &str, id: EntryId, records: u64) -> contract::Entry {
    contract::Entry {
        key: key(stage, id, EntryPart::Taken),
        payload: json(&Taken { records }),
    }
}

/// How many records wait in these.
pub(crate) fn records(restored: &[Restored]) -> u64 {
    restored.iter().map(|one| one.waits.len() as u64).sum()
}

/// Puts the parts of what waits in a task together again, in the order in which it came.
pub(crate) fn restore(
    entries: impl IntoIterator<Item = (EntryKey, Vec<u8>)>,
) -> Result<Vec<Restored>, String> {
    let mut whole: BTreeMap<(String, EntryId), Parts> = BTreeMap::new();
    for (key, payload) in entries {
        let id = EntryId {
            offset: key.offset,
            emit: key.emit,
            copy: key.copy,
        };
        let parts = whole.entry((key.stage, id)).or_default();
        let place = match key.part {
            EntryPart::Record => &mut parts.record,
            EntryPart::Prompt => &mut parts.prompt,
            EntryPart::Progress => &mut parts.progress,
            EntryPart::Batch => &mut parts.batch,
            EntryPart::Taken => &mut parts.taken,
        };
        *place = Some(payload);
    }
    let mut restored = Vec::with_capacity(whole.len());
    for ((stage, id), parts) in whole {
        let EntryId { offset, emit, copy } = id;
        let damaged = |why: String| {
            format!("in-flight entry {stage}/{offset}/{emit}/{copy} is damaged: {why}")
        };
        let waiting = parts.waiting(id).map_err(damaged)?;
        let untaken = parts.untaken(id).map_err(damaged)?;
        if waiting.is_none() && untaken.is_none() {
            return Err(damaged("it has no record".to_owned()));
        }
        for (order, waits) in waiting.into_iter().chain(untaken) {
            let stage = stage.clone();
            restored.push(Restored {
                stage,
                order,
                waits,
            });
        }
    }
    restored.sort_by_key(|restored| restored.order);
    Ok(restored)
}

/// What was kept under one name.
#[derive(Default)]
struct Parts {
    record: Option<Vec<u8>>,
    prompt: Option<Vec<u8>>,
    progress: Option<Vec<u8>>,
    batch: Option<Vec<u8>>,
    taken: Option<Vec<u8>>,
}

impl Parts {
    fn waiting(&self, id: EntryId) -> Result<Option<(u64, Waits)>, String> {
        let Some(record) = &self.record else {
            return Ok(None);
        };
        let (header, record): (RecordHeader, _) = split(record)?;
        if record.len() != 1 {
            return Err("it does not hold one record".to_owned());
        }
        let prompt = self.prompt.clone().unwrap_or_default();
        let prompt = String::from_utf8(prompt).map_err(|error| error.to_string())?;
        let progress = match &self.progress {
            Some(progress) => parse(progress)?,
            None => Progress::default(),
        };
        let state = match (progress.answer, progress.delay_ms) {
            (Some(answer), _) => State::Answered(Box::new(answer.into_answer(&progress.tokens))),
            (None, Some(delay)) => {
                State::Delayed(Instant::now() + left(delay, progress.due_ms, since_epoch()))
            }
            (None, None) => State::Queued,
        };
        let entry = Entry {
            record,
            id,
            lane: Lane::Own(header.order),
            key: Lane::Own(header.order),
            arrived: Instant::now(),
            attempt: progress.attempt,
            state,
            prompt,
            wants: None,
            asked: None,
            tokens: Tokens::new(progress.tokens),
            versions: Versions::kept(&header.versions),
            by: By {
                handlers: Versions::kept(&progress.handlers),
                adapter: progress.adapter.into(),
            },
            model: progress.model.into(),
            kept: KeptParts {
                record: true,
                prompt: self.prompt.is_some(),
                progress: self.progress.is_some(),
            },
            showing: None,
            fed: progress.fed,
            until: None,
            submitted: None,
            put_off: progress.put_off_ms.and_then(ago),
            caller: header.caller.map(Arc::from),
        };
        let waits = Waits::Entry {
            entry: Box::new(entry),
            model: header.model,
        };
        Ok(Some((header.order, waits)))
    }

    fn untaken(&self, id: EntryId) -> Result<Option<(u64, Waits)>, String> {
        let Some(batch) = &self.batch else {
            return Ok(None);
        };
        let (header, mut batch): (BatchHeader, _) = split(batch)?;
        if let Some(taken) = &self.taken {
            let Taken { records } = parse(taken)?;
            if records >= batch.len() as u64 {
                return Err(format!("{records} records taken of {}", batch.len()));
            }
            batch = after(&batch, records as usize);
        }
        let waits = Waits::Untaken {
            batch,
            id,
            taken: self.taken.is_some(),
            versions: Versions::kept(&header.versions),
            callers: (header.callers.into_iter())
                .map(|(offset, caller)| (offset, caller.into()))
                .collect(),
        };
        Ok(Some((header.order, waits)))
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

fn json(value: &impl Serialize) -> Vec<u8> {
    // Strings and numbers only: this cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn join(header: &impl Serialize, batch: &Batch) -> Vec<u8> {
    let header = json(header);
    let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(batch.as_bytes());
    bytes
}

/// Reads what `join` wrote.
fn split<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<(T, Batch), String> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("too short")?;
    let (header, batch) = rest
        .split_at_checked(u32::from_le_bytes(*length) as usize)
        .ok_or("header is cut")?;
    let batch = Batch::from_bytes(batch.to_vec()).map_err(|error| error.to_string())?;
    Ok((parse(header)?, batch))
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// So long before now; none before the machine's own time began.
fn ago(milliseconds: u64) -> Option<Instant> {
    Instant::now().checked_sub(Duration::from_millis(milliseconds))
}

/// How long a retry is still to wait. It is due at a point in time, so that a restart does not begin the delay again;
/// and if the clock was set back, it waits no longer than it had to when it was written.
fn left(delay_ms: u64, due_ms: Option<u64>, now: Duration) -> Duration {
    let delay = Duration::from_millis(delay_ms);
    due_ms.map_or(delay, |due| {
        Duration::from_millis(due).saturating_sub(now).min(delay)
    })
}

#[cfg(test)]
mod tests {
    use tidegate_contract::{Answer, Made, Timings};

    use super::*;

    fn named(entries: Vec<contract::Entry>) -> impl Iterator<Item = (EntryKey, Vec<u8>)> {
        entries.into_iter().map(|entry| (entry.key, entry.payload))
    }

    fn records(offsets: std::ops::Range<u64>) -> Batch {
        let mut builder = BatchBuilder::default();
        for offset in offsets {
            let id = RecordId {
                offset,
                ..RecordId::default()
            };
            let record = NewRecord {
                id,
                ..NewRecord::default()
            };
            builder.push(&record).unwrap();
        }
        builder.finish(5)
    }

    fn entry(state: State) -> Entry {
        Entry {
            record: records(7..8),
            id: EntryId {
                offset: 7,
                emit: 3,
                copy: 0,
            },
            lane: Lane::Own(1),
            key: Lane::Own(1),
            arrived: Instant::now(),
            attempt: 1,
            state,
            wants: None,
            asked: None,
            showing: None,
            fed: 9,
            until: None,
            submitted: None,
            put_off: None,
            caller: None,
            prompt: "a prompt".into(),
            tokens: Tokens::new(vec![5, 6]),
            versions: Versions::default(),
            by: By::default(),
            model: "sha256:old".into(),
            kept: KeptParts::default(),
        }
    }

    /// As a run finds it that begins with this model.
    fn found(entry: &mut Entry, digest: &str) -> Entry {
        let restored = restore(named(put("stage", 4, entry, true))).unwrap();
        let [one] = <[Restored; 1]>::try_from(restored).unwrap();
        assert_eq!((one.stage.as_str(), one.order), ("stage", 4));
        let Waits::Entry {
            entry: mut found,
            model: true,
        } = one.waits
        else {
            panic!("{:?}", one.waits);
        };
        assert_eq!((found.id, found.kept), (entry.id, entry.kept));
        found.goes_to(digest);
        *found
    }

    fn parts(put: &[contract::Entry]) -> Vec<EntryPart> {
        put.iter().map(|entry| entry.key.part).collect()
    }

    #[test]
    fn record_and_prompt_are_written_once_and_progress_as_it_changes() {
        use EntryPart::{Progress, Prompt, Record};
        let mut one = Entry {
            prompt: String::new(),
            attempt: 0,
            tokens: Tokens::default(),
            ..entry(State::Queued)
        };
        assert_eq!(parts(&put("stage", 1, &mut one, true)), [Record]);
        one.prompt = "a prompt".into();
        one.state = State::Submitted(5);
        assert_eq!(parts(&put("stage", 1, &mut one, true)), [Prompt]);
        for token in 0..3 {
            one.tokens.push(token);
            assert_eq!(parts(&put("stage", 1, &mut one, true)), [Progress]);
        }
        assert_eq!(parts(&put("stage", 1, &mut one, false)), []);
        // The model was replaced, and began anew: what is known of the tokens goes too.
        one.goes_to("sha256:new");
        assert_eq!(parts(&put("stage", 1, &mut one, true)), [Progress]);
        let gone: Vec<EntryPart> = done("stage", one.id, one.kept)
            .map(|key| key.part)
            .collect();
        assert_eq!(gone, [Record, Prompt, Progress]);
    }

    #[test]
    fn an_attempt_that_a_crash_cut_short_is_not_counted() {
        let mut under_way = Entry {
            attempt: 0,
            ..entry(State::Submitted(3))
        };
        let found = found(&mut under_way, "sha256:old");
        assert_eq!(found.attempt, 0);
        assert!(matches!(found.state, State::Queued));
        assert_eq!(found.prompt, "a prompt");
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
        let mut delayed = entry(State::Delayed(Instant::now() + seconds(60)));
        let put = put("stage", 1, &mut delayed, true);
        let progress = put.last().unwrap();
        let text = String::from_utf8_lossy(&progress.payload);
        assert!(text.contains("\"due_ms\""), "{text}");
    }

    #[test]
    fn how_long_a_record_is_put_off_goes_on_where_it_was() {
        let minute = Duration::from_secs(60);
        // Its turn has come again, and it was no attempt.
        for state in [State::Queued, State::Delayed(Instant::now() + minute)] {
            let mut one = Entry {
                attempt: 0,
                tokens: Tokens::default(),
                put_off: Instant::now().checked_sub(minute),
                ..entry(state)
            };
            let found = found(&mut one, "sha256:old");
            assert!(found.put_off.unwrap().elapsed() >= minute);
        }
    }

    #[test]
    fn records_that_a_stage_has_not_taken_come_back_together_and_without_those_taken() {
        let batch = records(2..5);
        let id = EntryId {
            offset: 2,
            ..EntryId::default()
        };
        let callers = Callers::from([(3, Arc::from("desk")), (7, Arc::from("another"))]);
        let came = Versions::kept("[{\"slot\":\"redact\"}]");
        let whole = || put_batch("stage", 9, id, (&batch, &came), &callers);
        let back = |entries| {
            let restored = restore(named(entries)).unwrap();
            let [one] = <[Restored; 1]>::try_from(restored).unwrap();
            assert_eq!((one.stage.as_str(), one.order), ("stage", 9));
            match one.waits {
                Waits::Untaken {
                    batch,
                    taken,
                    callers,
                    versions,
                    ..
                } => {
                    assert_eq!(versions, came);
                    assert_eq!(callers, Callers::from([(3, Arc::from("desk"))]));
                    (batch, taken)
                }
                waits => panic!("{waits:?}"),
            }
        };
        assert_eq!(back(vec![whole()]), (batch.clone(), false));
        let (rest, taken) = back(vec![whole(), put_taken("stage", id, 2)]);
        assert_eq!((rest.len(), taken), (1, true));
        assert_eq!(rest.view().get(0).unwrap().id().offset, 4);
        // More than there are, and of none.
        for entries in [
            vec![whole(), put_taken("stage", id, 3)],
            vec![put_taken("stage", id, 1)],
        ] {
            let error = restore(named(entries)).unwrap_err();
            assert!(error.contains("entry stage/2/0/0 is damaged"), "{error}");
        }
    }

    #[test]
    fn what_waits_comes_back_in_the_order_in_which_it_came() {
        let mut entries = Vec::new();
        for (order, offset) in [(3, 1), (1, 9), (2, 5)] {
            let mut one = entry(State::Queued);
            one.id.offset = offset;
            entries.extend(put("stage", order, &mut one, true));
        }
        let restored = restore(named(entries)).unwrap();
        let orders: Vec<u64> = restored.iter().map(|one| one.order).collect();
        assert_eq!(orders, [1, 2, 3]);
    }

    #[test]
    fn another_model_begins_anew_and_the_same_one_goes_on() {
        let mut asked = Entry {
            caller: Some("desk".into()),
            ..entry(State::Submitted(3))
        };
        let same = found(&mut asked, "sha256:old");
        assert_eq!(same.caller.as_deref(), Some("desk"));
        assert_eq!(
            (&*same.model, same.tokens.to_vec()),
            ("sha256:old", vec![5, 6])
        );
        let other = found(&mut entry(State::Submitted(3)), "sha256:new");
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
            adapter: String::new(),
            timings: Timings::default(),
        };
        let waits = found(&mut entry(State::Answered(Box::new(answer))), "sha256:new");
        assert!(matches!(waits.state, State::Answered(_)));
        assert_eq!(
            (&*waits.model, waits.tokens.to_vec()),
            ("sha256:old", vec![5, 6])
        );
    }
}
