//! Letters on their way again: durable before it is said that they are sent, each once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_codec::{StoredLetter, format_time};
use tidegate_connect::kafka::{
    KafkaAgain, KafkaSending, LetterFate, LetterToSend, SentAgain, letter_name,
};
use tidegate_connect::{letter_batch, letter_key, letter_sent, unsendable};
use tidegate_contract::{IngestError, IngestLog, Ingested, LetterForm, LetterStore};
use tidegate_control::config::{Format, Pipeline};
use tidegate_control::{LettersRefused, SendResult, SendState};
use tidegate_telemetry::plain;

use super::{refused, report};
use crate::wire::again::{Again, AgainLog, MOST, SUFFIX, Way};

/// Letters that are looked up and kept at once: those that come together share a sync of the disk.
const AT_ONCE: usize = 16;
/// Most bytes of a name that a letter has, where it is told.
const NAME: usize = 200;
/// Letters that are held at once, and go to a topic together.
const TOGETHER: usize = 64;

/// Sends letters again, each on the way of its source.
pub(crate) struct Sender {
    pipeline: String,
    ways: Vec<Again>,
    /// Of each source, index of its way; none of a gateway.
    sources: BTreeMap<String, Option<usize>>,
    /// Sources of rows, which are nothing without their header row.
    rows: Vec<String>,
}

/// What becomes of a letter that was looked up.
enum Found {
    Done(SendState, Option<String>),
    /// It goes to a topic.
    ToTopic(usize, LetterToSend),
}

impl Sender {
    pub(crate) fn new(pipeline: &Pipeline, ways: Vec<Again>) -> Sender {
        let way = |index: usize| ways.iter().position(|way| way.of == index);
        let sources = pipeline.sources.iter().enumerate();
        let sources = sources.map(|(index, source)| (source.name.clone(), way(index)));
        let rows = pipeline.sources.iter();
        let rows = rows.filter(|source| source.decoding.format == Format::Csv);
        Sender {
            pipeline: pipeline.name.clone(),
            sources: sources.collect(),
            rows: rows.map(|source| source.name.clone()).collect(),
            ways,
        }
    }

    fn way(&self, source: &str) -> Result<usize, String> {
        let source = source.strip_suffix(SUFFIX).unwrap_or(source);
        match self.sources.get(source) {
            None => Err(format!("the pipeline has no source {source:?}")),
            Some(None) => {
                Err("whoever asked was told that there is no answer, and asks again".to_owned())
            }
            Some(Some(index)) => Ok(*index),
        }
    }

    /// Why a letter is none of this pipeline's; none if it is, or does not say.
    pub(super) fn of_another(&self, letter: &StoredLetter) -> Option<String> {
        let pipeline = letter.pipeline.as_ref()?;
        (*pipeline != self.pipeline).then(|| {
            let (its, own) = (plain(pipeline, NAME), &self.pipeline);
            format!("it is of pipeline {its}, and this one is {own}")
        })
    }

    /// Why no letter of a source can be sent again; none if they can.
    pub(super) fn refusal(&self, source: &str) -> Option<String> {
        self.way(source).err()
    }

    /// Learns what other processes have sent again.
    pub(super) fn look(&self, until: Instant) -> Result<(), LettersRefused> {
        for way in &self.ways {
            if let Way::Topic(topic) = &way.way {
                topic.look(until).map_err(LettersRefused::Failed)?;
            }
        }
        Ok(())
    }

    /// When a letter was sent again, if it was, and as which record. `bytes` are the letter's.
    pub(super) fn sent(&self, source: &str, id: &str, bytes: &[u8]) -> Option<(String, String)> {
        let again = &self.ways[self.way(source).ok()?];
        match &again.way {
            Way::Log(log) => {
                let log = log.known()?;
                let kept = log.kept(&letter_key(id))?;
                Some(in_log(again, log.as_ref(), &kept))
            }
            Way::Topic(topic) => Some(in_topic(again, topic.sent(&letter_name(id, bytes))?)),
        }
    }

    /// What becomes of each, in their order.
    pub(super) fn send(
        &self,
        store: &dyn LetterStore,
        ids: &[String],
        each: Duration,
    ) -> Result<Vec<SendResult>, LettersRefused> {
        let mut sending = BTreeMap::new();
        let mut results = Vec::with_capacity(ids.len());
        for ids in ids.chunks(TOGETHER) {
            let mut ends: Vec<_> = (0..ids.len()).map(|_| None).collect();
            let mut to_topics: BTreeMap<usize, (Vec<usize>, Vec<LetterToSend>)> = BTreeMap::new();
            for (index, found) in self.find(store, ids, each)? {
                match found {
                    Found::Done(state, why) => ends[index] = Some((state, why)),
                    Found::ToTopic(way, letter) => {
                        let (places, letters) = to_topics.entry(way).or_default();
                        places.push(index);
                        letters.push(letter);
                    }
                }
            }
            for (way, (places, letters)) in to_topics {
                let again = &self.ways[way];
                let Way::Topic(topic) = &again.way else {
                    continue;
                };
                let fates = through_topic(&mut sending, way, topic, &letters, each)?;
                for (place, fate) in places.into_iter().zip(fates) {
                    ends[place] = Some(match fate {
                        LetterFate::Sent(_) => (SendState::Sent, None),
                        LetterFate::Already(mark) => already(in_topic(again, mark)),
                        LetterFate::Refused(why) => (SendState::Refused, Some(why)),
                    });
                }
            }
            for (id, end) in ids.iter().zip(ends) {
                let lost = || LettersRefused::Failed(format!("nothing is known of {id}"));
                let (state, why) = end.ok_or_else(lost)?;
                let id = id.clone();
                results.push(SendResult { id, state, why });
            }
        }
        Ok(results)
    }

    /// Looks letters up, and keeps those that go through a log: each with its index, in their order.
    fn find(
        &self,
        store: &dyn LetterStore,
        ids: &[String],
        each: Duration,
    ) -> Result<Vec<(usize, Found)>, LettersRefused> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(id) = ids.get(index) else {
                    return Ok(done);
                };
                done.push((index, self.find_one(store, id, Instant::now() + each)?));
            }
        };
        let done: Vec<Result<Vec<_>, LettersRefused>> = std::thread::scope(|scope| {
            let workers = 0..ids.len().min(AT_ONCE);
            let workers: Vec<_> = workers.map(|_| scope.spawn(work)).collect();
            let panicked = || LettersRefused::Failed("the one who sends panicked".to_owned());
            let joined = workers.into_iter().map(|worker| worker.join());
            joined
                .map(|done| done.unwrap_or_else(|_| Err(panicked())))
                .collect()
        });
        let mut found = Vec::with_capacity(ids.len());
        for done in done {
            found.extend(done?);
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(found)
    }

    fn find_one(
        &self,
        store: &dyn LetterStore,
        id: &str,
        until: Instant,
    ) -> Result<Found, LettersRefused> {
        let no = |why: String| Ok(Found::Done(SendState::Refused, Some(why)));
        let found = report::find(store, id, until).map_err(refused)?;
        let Some((written, letter)) = found else {
            return no(LettersRefused::Unknown { id: id.to_owned() }.to_string());
        };
        let letter = match letter {
            Ok(letter) => letter,
            Err(why) => return no(why),
        };
        if let Some(why) = self.of_another(&letter) {
            return no(why);
        }
        let way = match self.way(&letter.source) {
            Ok(way) => way,
            Err(why) => return no(why),
        };
        if let Some(why) = unsendable(&letter) {
            return no(why.to_owned());
        }
        let of = letter.source.strip_suffix(SUFFIX).unwrap_or(&letter.source);
        if letter.form == Some(LetterForm::Input) && self.rows.iter().any(|name| name == of) {
            return no("a row of CSV is nothing without its header row".to_owned());
        }
        let bytes = written.bytes.unwrap_or_default();
        match &self.ways[way].way {
            Way::Log(log) => self.through_log((&self.ways[way], log), id, letter, &bytes),
            Way::Topic(_) => {
                let key = letter_name(id, &bytes);
                Ok(Found::ToTopic(way, LetterToSend { key, bytes }))
            }
        }
    }

    fn through_log(
        &self,
        (again, log): (&Again, &AgainLog),
        id: &str,
        letter: StoredLetter,
        bytes: &[u8],
    ) -> Result<Found, LettersRefused> {
        let no = |why: String| Ok(Found::Done(SendState::Refused, Some(why)));
        let log = match log.opened() {
            Ok(log) => log,
            Err(error) => return no(format!("{error:#}")),
        };
        if log.offsets().end >= MOST && log.kept(&letter_key(id)).is_none() {
            return no(format!(
                "{MOST} letters of this source were sent again, which is all that a state directory marks"
            ));
        }
        match log.append(&letter_batch(id, letter, bytes, now())) {
            Ok(kept) if kept.replayed => {
                let (state, why) = already(in_log(again, log.as_ref(), &kept));
                Ok(Found::Done(state, why))
            }
            Ok(_) => Ok(Found::Done(SendState::Sent, None)),
            Err(IngestError::OtherBody) => {
                no("another letter was at this place when one was sent again".to_owned())
            }
            Err(error @ (IngestError::Full { .. } | IngestError::TooLarge { .. })) => {
                no(error.to_string())
            }
            // It may be kept or not: who asks again is told.
            Err(error) => Err(LettersRefused::Failed(error.to_string())),
        }
    }
}

/// Sends letters through a topic, all of a request as one sender.
fn through_topic<'t>(
    sending: &mut BTreeMap<usize, KafkaSending<'t>>,
    way: usize,
    topic: &'t Arc<KafkaAgain>,
    letters: &[LetterToSend],
    time: Duration,
) -> Result<Vec<LetterFate>, LettersRefused> {
    let until = Instant::now() + time;
    let one = match sending.entry(way) {
        Entry::Occupied(one) => one.into_mut(),
        Entry::Vacant(none) => none.insert(topic.sending(until).map_err(LettersRefused::Failed)?),
    };
    one.send(letters, until).map_err(LettersRefused::Failed)
}

/// When a letter was sent again, and as which record.
fn in_log(again: &Again, log: &dyn IngestLog, kept: &Ingested) -> (String, String) {
    let record = format!("{}/0/{}", again.name, kept.first);
    let found = log.read(kept.first, 1, 0).unwrap_or_default();
    let at = found.first().and_then(|logged| letter_sent(&logged.record));
    (at.map(format_time).unwrap_or_default(), record)
}

fn in_topic(again: &Again, mark: SentAgain) -> (String, String) {
    let record = format!("{}/0/{}", again.name, mark.offset);
    (format_time(mark.at), record)
}

fn already((at, record): (String, String)) -> (SendState, Option<String>) {
    let why = format!("it was sent again as {record} at {at}");
    (SendState::Already, Some(why))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}
