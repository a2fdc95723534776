//! One who sends letters again, alone for as long as it does.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::Producer as _;
use tidegate_codec::StoredLetter;
use tracing::debug;

use super::super::client::Settings;
use super::super::deliveries::{
    NotTaken, ONLY_FAILURES, Producer, is_of_the_message, produce, refusal,
};
use super::super::internal::Wanted;
use super::super::rebalance::Context;
use super::super::target::{Message, follow_topic};
use super::super::timeouts::TRANSACTION_TIMEOUT;
use super::super::topic::{self, Rules};
use super::super::transaction::{Failure, Line, Undelivered, deliver_all};
use super::marks::{BY, consumer};
use super::{KafkaAgain, LETTER, LOOK, MOST, SentAgain, WHAT, WITHOUT_PRIVATE, key_of, left};
use crate::again::letter_death;

/// How long one whom another has fenced leaves that one alone, at first and at the most.
const APART: Duration = Duration::from_millis(50);
const FAR_APART: Duration = Duration::from_secs(2);

/// A letter that is to be sent again.
#[derive(Clone, Debug)]
pub struct LetterToSend {
    /// Its id.
    pub id: String,
    /// What it is called in the topic.
    pub key: String,
    /// Its [`letter_death`].
    pub death: [u8; 32],
    /// Its bytes, as they were written.
    pub bytes: Vec<u8>,
    /// It goes without the private attributes that its record had.
    pub without_private: bool,
}

impl LetterToSend {
    /// A letter with this id, which has these bytes.
    pub fn new(id: &str, letter: &StoredLetter, bytes: Vec<u8>) -> LetterToSend {
        let death = letter_death(letter);
        LetterToSend {
            id: id.to_owned(),
            key: key_of(letter, &death),
            death,
            bytes,
            without_private: false,
        }
    }
}

/// What became of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterFate {
    /// It is sent, and was not before.
    Sent(SentAgain),
    /// It was sent before.
    Already(SentAgain),
    /// It cannot be sent, for this reason.
    Refused(String),
}

/// See the module. While it is there no other of this process sends; one of another process takes its place.
pub struct KafkaSending<'a> {
    again: &'a KafkaAgain,
    _alone: MutexGuard<'a, ()>,
    connected: Option<Connected>,
    apart: Duration,
}

/// The producer that has the topic's transactional id now.
struct Connected {
    line: Line,
    producer: Arc<Producer>,
    /// Sees all there is.
    all: BaseConsumer<Context>,
}

/// Why letters were not sent by an attempt, as far as is known.
enum Stop {
    /// Some cannot be: which, and why.
    Refused(BTreeMap<usize, String>),
    /// Another attempt may work.
    Again(String),
}

impl KafkaAgain {
    /// Waits until nobody else of this process sends.
    pub fn sending(&self, until: Instant) -> Result<KafkaSending<'_>, String> {
        Ok(KafkaSending {
            _alone: self.locked(&self.alone, until)?,
            again: self,
            connected: None,
            apart: APART,
        })
    }
}

impl KafkaSending<'_> {
    /// Sends these letters, each unless it was sent before. What became of them, in their order; what is told as sent is
    /// committed. After an error they may be sent or not: who sends them again is told.
    pub fn send(
        &mut self,
        letters: &[LetterToSend],
        until: Instant,
    ) -> Result<Vec<LetterFate>, String> {
        let sent = self.try_send(letters, until);
        sent.map_err(|why| format!("{}: {why}", self.again.place))
    }

    fn try_send(
        &mut self,
        letters: &[LetterToSend],
        until: Instant,
    ) -> Result<Vec<LetterFate>, String> {
        let by = RandomState::new().build_hasher().finish();
        let keys: Vec<[u8; 32]> = letters.iter().map(|letter| letter.death).collect();
        let mut refused = BTreeMap::new();
        let mut committed = false;
        let mut last = "no attempt was made".to_owned();
        loop {
            let connected = match self.connected.take() {
                Some(connected) => connected,
                None => self.connect(until)?,
            };
            // The epoch is this one's: what is not marked by now is marked by nobody else, unless it is fenced.
            let mut reader = self.again.locked(&self.again.reader, until)?;
            reader.read_on(self.again, Some(&connected.all), until)?;
            drop(reader);
            let left = self.unsent(&keys, &mut refused);
            if left.is_empty() {
                self.connected = Some(connected);
                return self.fates(&keys, &refused, by);
            }
            if committed {
                return Err("letters were committed to it and are not there".into());
            }
            if Instant::now() >= until {
                return Err(format!("letters are not sent in time: {last}"));
            }
            match attempt(&connected, self.again, letters, &left, by, until) {
                Ok(()) => {
                    committed = true;
                    self.connected = Some(connected);
                }
                Err(Stop::Refused(which)) => {
                    refused.extend(which);
                    self.keep_if_aborted(connected);
                }
                Err(Stop::Again(why)) => {
                    debug!(place = self.again.place, "letters are not sent: {why}");
                    last = why;
                    // Another sender may have taken the epoch. It gets on with it for a moment, no two for the same time.
                    let share = RandomState::new().build_hasher().finish() % 100;
                    std::thread::sleep(self.apart.mul_f64(0.5 + share as f64 / 100.0));
                    self.apart = (self.apart * 2).min(FAR_APART);
                }
            }
        }
    }

    /// Letters that are to be sent, each once.
    fn unsent(&self, keys: &[[u8; 32]], refused: &mut BTreeMap<usize, String>) -> Vec<usize> {
        let known = self.again.known();
        let mut first = HashSet::new();
        let mut unsent: Vec<usize> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            if known.sent(key).is_some() || refused.contains_key(&index) || !first.insert(*key) {
                continue;
            }
            if known.len() + unsent.len() >= MOST {
                let why = format!(
                    "{MOST} letters of this source were sent again, which is all that topic {} marks",
                    self.again.options.topic
                );
                refused.insert(index, why);
                continue;
            }
            unsent.push(index);
        }
        unsent
    }

    fn fates(
        &self,
        keys: &[[u8; 32]],
        refused: &BTreeMap<usize, String>,
        by: u64,
    ) -> Result<Vec<LetterFate>, String> {
        let known = self.again.known();
        let mut told = HashSet::new();
        let fate = |(index, key): (usize, &[u8; 32])| match (refused.get(&index), known.mark(key)) {
            (_, Some(mark)) if mark.by == by && told.insert(*key) => {
                Ok(LetterFate::Sent(mark.sent))
            }
            (_, Some(mark)) => Ok(LetterFate::Already(mark.sent)),
            (Some(why), None) => Ok(LetterFate::Refused(why.clone())),
            (None, None) => Err("a letter that was sent is not there".to_owned()),
        };
        keys.iter().enumerate().map(fate).collect()
    }

    fn keep_if_aborted(&mut self, connected: Connected) {
        if connected.line.abort(&connected.producer) {
            connected.producer.context().take_failure();
            connected.producer.context().take_returned();
            self.connected = Some(connected);
        }
    }

    /// Makes the topic if it is missing, and fences whoever sent before: what that one left open is ended.
    fn connect(&self, until: Instant) -> Result<Connected, String> {
        let again = self.again;
        let options = &again.options;
        let patience = until.saturating_duration_since(Instant::now()).max(LOOK);
        let plain = again.plain()?;
        let asker = topic::asker(&plain)?;
        let wanted = Wanted {
            what: WHAT,
            topic: &options.topic,
            partitions: Some(1),
            made: &options.as_made(),
            said: &options.made,
        };
        wanted.find_or_make(&asker, &again.place, patience)?;
        let rules = Rules::of(&asker, &options.topic).unwrap_or_default();
        if let Some(policy) = rules.policy.filter(|policy| policy != "compact") {
            return Err(format!(
                "it has cleanup.policy {policy}, which loses the marks of what was sent: it must be compact"
            ));
        }
        let timeout = options.transaction_timeout.as_millis().max(1_000);
        let timeout = timeout.to_string();
        let ours = [
            ("linger.ms", "0"),
            ("compression.type", "lz4"),
            // One that the topic refuses takes no others with it.
            ("batch.num.messages", "1"),
        ];
        let reserved = [
            ("transactional.id", options.topic.as_str()),
            (TRANSACTION_TIMEOUT, timeout.as_str()),
            ("message.timeout.ms", timeout.as_str()),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ONLY_FAILURES,
        ];
        let settings = Settings::internal(&options.brokers, &ours, &reserved);
        let mut config = settings.config(&options.properties)?;
        follow_topic(&mut config, rules.largest_batch);
        let line = Line::new(config, plain, again.place.clone(), patience);
        let producer = line.connect()?;
        let all = consumer(again, "read_uncommitted")?;
        again.bell.ring();
        Ok(Connected {
            line,
            producer,
            all,
        })
    }
}

/// One transaction that has these letters.
fn attempt(
    connected: &Connected,
    again: &KafkaAgain,
    letters: &[LetterToSend],
    which: &[usize],
    by: u64,
    until: Instant,
) -> Result<(), Stop> {
    let producer = &*connected.producer;
    let topic = again.options.topic.as_str();
    let stop = |why: String| Stop::Again(why);
    let begun = producer.begin_transaction();
    begun.map_err(|error| stop(error.to_string()))?;
    let end = Instant::now() + again.options.transaction_timeout;
    let until = until.min(end).max(Instant::now() + LOOK);
    let by = format!("{by:016x}");
    for index in which {
        let letter = &letters[*index];
        let header = Header {
            key: BY,
            value: Some(by.as_str()),
        };
        let id = Header {
            key: LETTER,
            value: Some(letter.id.as_str()),
        };
        let mut headers = OwnedHeaders::new().insert(header).insert(id);
        if letter.without_private {
            headers = headers.insert(Header {
                key: WITHOUT_PRIVATE,
                value: Some("true"),
            });
        }
        let message = Message {
            key: Some(letter.key.as_bytes()),
            value: Some(&letter.bytes),
            millis: None,
            headers: Some(headers),
            partition: Some(0),
        };
        let Err(why) = produce(producer, topic, message, *index, left(until)) else {
            continue;
        };
        return Err(match why {
            NotTaken::TooLarge => {
                let why = format!(
                    "{} bytes are more than a message to {} may have",
                    letter.bytes.len(),
                    again.place
                );
                Stop::Refused(BTreeMap::from([(*index, why)]))
            }
            NotTaken::Full => stop("the queue to the brokers stayed full".into()),
            NotTaken::Undelivered(why) => stop(why),
            NotTaken::Failed(error) => stop(error.to_string()),
        });
    }
    match deliver_all(producer, until) {
        Ok(()) => {}
        Err(Undelivered::Failed(why)) => return Err(stop(why)),
        Err(Undelivered::Refused) => {
            let returned = producer.context().take_returned().into_iter();
            let refused = returned.filter(|one| is_of_the_message(one.code));
            let refused = refused.map(|one| (one.number, refusal(topic, one.code, true)));
            return Err(Stop::Refused(refused.collect()));
        }
    }
    // Once more if it may be made again; after that only a new producer, and what it reads, can tell.
    let commit = || producer.commit_transaction(again.options.transaction_timeout);
    let Err(error) = commit() else { return Ok(()) };
    if let Failure::Again(_) = Failure::of(&error) {
        return commit().map_err(|error| stop(error.to_string()));
    }
    Err(stop(error.to_string()))
}
