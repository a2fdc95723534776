//! Letters on their way again: durable before it is said that they are sent, each once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_codec::{StoredLetter, format_time};
use tidegate_connect::kafka::{KafkaAgain, KafkaSending, LetterFate, LetterToSend, SentAgain};
use tidegate_connect::{letter_batch, letter_death, unsealable, unsendable};
use tidegate_contract::{IngestError, IngestLog as _, LetterForm, LetterSeal, LetterStore};
use tidegate_control::config::{Format, Pipeline};
use tidegate_control::{LettersRefused, SendLetters, SendResult, SendState};
use tidegate_state::Passed;
use tidegate_telemetry::plain;

use super::report;
use super::request::{End, Request, Time};
use crate::wire::again::{Again, LetterLog, SUFFIX, Way};

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
    /// Opens private attributes; none where letters are only looked at.
    seal: Option<LetterSeal>,
}

/// What becomes of a letter that was looked up.
enum Found {
    Done(End),
    /// It goes to a topic.
    ToTopic(usize, LetterToSend),
}

impl Sender {
    pub(crate) fn new(pipeline: &Pipeline, ways: Vec<Again>, seal: Option<LetterSeal>) -> Sender {
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
            seal,
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

    /// When a letter was sent again, if it was or another copy of it, and as which record.
    pub(super) fn sent(&self, letter: &StoredLetter) -> Option<(String, String)> {
        self.mark(self.way(&letter.source).ok()?, &letter_death(letter))
    }

    fn mark(&self, way: usize, death: &[u8; 32]) -> Option<(String, String)> {
        let again = &self.ways[way];
        match &again.way {
            Way::Log(log) => Some(in_log(again, log.sent(death)?)),
            Way::Topic(topic) => Some(in_topic(again, topic.sent(death)?)),
        }
    }

    /// What becomes of each, in their order. One that fails takes no other with it.
    pub(super) fn send(
        &self,
        store: &dyn LetterStore,
        letters: &SendLetters,
        time: Time,
    ) -> Vec<SendResult> {
        let request = Request {
            store,
            without_private: letters.without_private,
            each: time.each,
            until: Instant::now() + time.all,
        };
        let mut sending = BTreeMap::new();
        let mut results = Vec::with_capacity(letters.ids.len());
        for ids in letters.ids.chunks(TOGETHER) {
            let ends = self.together(&request, &mut sending, ids);
            let told = ids.iter().zip(ends).map(|(id, end)| {
                let lost = || End::new(SendState::Unknown, "the one who sends it panicked");
                end.unwrap_or_else(lost).result(id)
            });
            results.extend(told);
        }
        results
    }

    /// What became of these, where that is known.
    fn together<'t>(
        &'t self,
        request: &Request<'_>,
        sending: &mut BTreeMap<usize, Result<KafkaSending<'t>, String>>,
        ids: &[String],
    ) -> Vec<Option<End>> {
        let mut ends: Vec<Option<End>> = (0..ids.len()).map(|_| None).collect();
        let mut to_topics: BTreeMap<usize, (Vec<usize>, Vec<LetterToSend>)> = BTreeMap::new();
        for (index, found) in self.find(request, ids) {
            match found {
                Found::Done(end) => ends[index] = Some(end),
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
            let fates = match through_topic(sending, way, topic, &letters, request) {
                Ok(fates) => fates,
                Err(end) => {
                    for place in places {
                        ends[place] = Some(end.clone());
                    }
                    continue;
                }
            };
            for (place, fate) in places.into_iter().zip(fates) {
                ends[place] = Some(match fate {
                    LetterFate::Sent(_) => End::sent(),
                    LetterFate::Already(mark) => already(in_topic(again, mark)),
                    LetterFate::Refused(why) => End::new(SendState::Refused, why),
                });
            }
        }
        ends
    }

    /// Looks letters up, and keeps those that go through a log: each with its index.
    fn find(&self, request: &Request<'_>, ids: &[String]) -> Vec<(usize, Found)> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(id) = ids.get(index) else {
                    return done;
                };
                // One that panics takes nothing with it that was found before.
                let find = || self.find_one(request, id);
                if let Ok(found) = catch_unwind(AssertUnwindSafe(find)) {
                    done.push((index, found.unwrap_or_else(Found::Done)));
                }
            }
        };
        let mut found: Vec<(usize, Found)> = std::thread::scope(|scope| {
            let workers = 0..ids.len().min(AT_ONCE);
            let workers: Vec<_> = workers.map(|_| scope.spawn(work)).collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined.flat_map(Result::unwrap_or_default).collect()
        });
        found.sort_by_key(|(index, _)| *index);
        found
    }

    fn find_one(&self, request: &Request<'_>, id: &str) -> Result<Found, End> {
        let no = |why: String| End::new(SendState::Refused, why);
        let found = report::find(request.store, id, request.until_of_one()?);
        let found = found.map_err(|error| End::new(SendState::Unreached, error.to_string()))?;
        let unknown = || no(LettersRefused::Unknown { id: id.to_owned() }.to_string());
        let (written, letter) = found.ok_or_else(unknown)?;
        let mut letter = letter.map_err(no)?;
        if let Some(why) = self.of_another(&letter) {
            return Err(no(why));
        }
        let way = self.way(&letter.source).map_err(no)?;
        if let Some(why) = unsendable(&letter) {
            return Err(no(why.to_owned()));
        }
        let of = letter.source.strip_suffix(SUFFIX).unwrap_or(&letter.source);
        if letter.form == Some(LetterForm::Input) && self.rows.iter().any(|name| name == of) {
            return Err(no(
                "a row of CSV is nothing without its header row".to_owned()
            ));
        }
        let death = letter_death(&letter);
        // Who asks about one that was sent is told that, and not that it would now be refused.
        if let Some(mark) = self.mark(way, &death) {
            return Err(already(mark));
        }
        let mut without_private = false;
        if let Some(why) = unsealable(&letter, self.seal.as_ref()) {
            without_private = true;
            if !request.without_private {
                return Err(End {
                    without_private,
                    ..no(why.to_owned())
                });
            }
            (letter.private, letter.private_sealed) = (0, None);
        }
        match &self.ways[way].way {
            Way::Log(log) => Ok(Found::Done(self.through_log((way, log), id, letter, death))),
            Way::Topic(_) => {
                let bytes = written.bytes.unwrap_or_default();
                let mut sent = LetterToSend::new(id, &letter, bytes);
                sent.without_private = without_private;
                Ok(Found::ToTopic(way, sent))
            }
        }
    }

    fn through_log(
        &self,
        (way, log): (usize, &LetterLog),
        id: &str,
        letter: StoredLetter,
        death: [u8; 32],
    ) -> End {
        let no = |why: String| End::new(SendState::Refused, why);
        let open = match log.takes() {
            Ok(open) => open,
            Err(why) => return no(why),
        };
        match open.append(&letter_batch(id, letter, death, now())) {
            Ok(kept) if kept.replayed => match log.sent(&death) {
                Some(sent) => already(in_log(&self.ways[way], sent)),
                None => End::new(SendState::Already, "it was sent again before"),
            },
            Ok(_) => End::sent(),
            Err(error @ (IngestError::Full { .. } | IngestError::TooLarge { .. })) => {
                no(error.to_string())
            }
            // It may be kept or not: who asks again is told.
            Err(error) => End::new(SendState::Unknown, error.to_string()),
        }
    }
}

/// Sends letters through a topic, all of a request as one sender. A topic that has failed is not tried again by it.
fn through_topic<'t>(
    sending: &mut BTreeMap<usize, Result<KafkaSending<'t>, String>>,
    way: usize,
    topic: &'t Arc<KafkaAgain>,
    letters: &[LetterToSend],
    request: &Request<'_>,
) -> Result<Vec<LetterFate>, End> {
    let until = request.until_of_one()?;
    let one = match sending.entry(way) {
        Entry::Occupied(one) => one.into_mut(),
        Entry::Vacant(none) => none.insert(topic.sending(until)),
    };
    let unreached = |why: &mut String| End::new(SendState::Unreached, why.as_str());
    match one.as_mut().map_err(unreached)?.send(letters, until) {
        Ok(fates) => Ok(fates),
        Err(why) => {
            *one = Err(why.clone());
            Err(End::new(SendState::Unknown, why))
        }
    }
}

/// When a letter was sent again, and as which record.
fn in_log(again: &Again, sent: Passed) -> (String, String) {
    let record = format!("{}/0/{}", again.name, sent.first);
    (format_time(sent.at), record)
}

fn in_topic(again: &Again, mark: SentAgain) -> (String, String) {
    let record = format!("{}/0/{}", again.name, mark.offset);
    (format_time(mark.at), record)
}

fn already((at, record): (String, String)) -> End {
    let why = format!("it was sent again as {record} at {at}");
    End::new(SendState::Already, why)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

#[cfg(test)]
mod tests;
