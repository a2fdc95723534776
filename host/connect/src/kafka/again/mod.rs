//! Dead letters that are sent again where cuts are Kafka transactions: a compacted topic, which is the input and the mark.
//!
//! A record of it is a letter as it was written, under its record and the digest of its death. Who sends has the one
//! transactional id of the topic, so that whoever sent before is fenced, and reads the topic to its end before it writes:
//! what is there was sent. So a letter is there once, whichever processes of the group send it, and however they end. The
//! group of the source reads it like any topic.

mod marks;
mod sending;
mod source;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use sha2::{Digest as _, Sha256};
use tidegate_codec::{StoredLetter, decode_dead_letter};
use tidegate_contract::LetterHeader;

pub use self::marks::SentAgain;
use self::marks::{Known, Reader};
pub use self::sending::{KafkaSending, LetterFate, LetterToSend};
pub use self::source::KafkaLetterSource;
use super::client::Settings;
use super::internal::InternalTopic;
use super::source::ASK;
use super::{Properties, timeouts};
use crate::again::{Again, MAX_LETTER_ID, letter_death, unsealable, unsendable};

/// Letters of a source that can be sent again: each stays in the topic as its mark, and in memory by its digest.
const MOST: usize = 1_000_000;
/// How long is waited at a time.
const LOOK: Duration = Duration::from_millis(20);
/// What such a topic is, to stand before its name.
const WHAT: &str = "topic of letters sent again";
/// The header with the id of the letter that was sent.
const LETTER: &str = "tidegate-letter";
/// The header of a letter that is sent without the private attributes that its record had.
const WITHOUT_PRIVATE: &str = "tidegate-without-private";
/// Hexadecimal digits of the death in a key.
const DIGITS: usize = 64;

/// Where letters of a source are sent again.
#[derive(Clone, Debug)]
pub struct KafkaAgainOptions {
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// The topic. It is made for the first letter.
    pub topic: String,
    /// How it is made; compacted, whatever is said here.
    pub made: InternalTopic,
    /// After how long the brokers end the transaction of a sender that was killed.
    pub transaction_timeout: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaAgainOptions {
    /// The usual options: the cluster's own replication and settings.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> KafkaAgainOptions {
        KafkaAgainOptions {
            brokers: brokers.into(),
            topic: topic.into(),
            made: InternalTopic::default(),
            transaction_timeout: timeouts::TRANSACTION,
            properties: Properties::new(),
        }
    }

    /// A topic that is not compacted would lose marks by their age.
    fn as_made(&self) -> InternalTopic {
        let mut made = self.made.clone();
        let compact = ("cleanup.policy".to_owned(), "compact".to_owned());
        made.settings.extend([compact]);
        made
    }
}

/// The letters of a source that were sent again, and the way on which they are. Nothing is connected before it is needed.
pub struct KafkaAgain {
    options: KafkaAgainOptions,
    place: String,
    known: Mutex<Known>,
    reader: Mutex<Reader>,
    /// Held by whoever sends: two of one process would fence each other.
    alone: Mutex<()>,
    bell: Arc<Bell>,
}

impl fmt::Debug for KafkaAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaAgain")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl KafkaAgain {
    /// Those of this topic.
    pub fn new(options: KafkaAgainOptions) -> KafkaAgain {
        KafkaAgain {
            place: format!("topic {} at {}", options.topic, options.brokers),
            options,
            known: Mutex::default(),
            reader: Mutex::default(),
            alone: Mutex::default(),
            bell: Arc::default(),
        }
    }

    /// Learns what was sent meanwhile, by whichever process. The error says why that is not known; what was read counts
    /// for the next time.
    pub fn look(&self, until: Instant) -> Result<(), String> {
        let mut reader = self.locked(&self.reader, until)?;
        let read = reader.read_on(self, None, until);
        read.map_err(|why| format!("{}: {why}", self.place))
    }

    /// When a letter was sent again, as far as is known since the last [`look`](KafkaAgain::look). `death` is its
    /// [`letter_death`].
    pub fn sent(&self, death: &[u8; 32]) -> Option<SentAgain> {
        self.known().sent(death)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked<'l, T>(
        &self,
        lock: &'l Mutex<T>,
        until: Instant,
    ) -> Result<MutexGuard<'l, T>, String> {
        loop {
            match lock.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(format!("{}: others are at it; try again", self.place));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        }
    }

    /// The configuration of who asks.
    fn plain(&self) -> Result<ClientConfig, String> {
        let options = &self.options;
        Settings::internal(&options.brokers, &[], &[]).config(&options.properties)
    }
}

/// What a letter is called in the topic: its record and stage, for who reads it there, and its death. Of several copies one
/// is there.
fn key_of(letter: &StoredLetter, death: &[u8; 32]) -> String {
    let mut name = format!("{}@{}#", letter.id, letter.stage);
    for byte in death {
        for half in [byte >> 4, byte & 15] {
            name.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
    }
    name
}

/// The death that a key names; of what is no letter's key, something that is no death.
fn death_in(key: &[u8]) -> [u8; 32] {
    let digits = key.len().checked_sub(DIGITS).and_then(|at| key.get(at..));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    let byte = |index: usize| u8::from_str_radix(digits?.get(2 * index..2 * index + 2)?, 16).ok();
    let mut death = [0; 32];
    for (index, into) in death.iter_mut().enumerate() {
        match byte(index) {
            Some(byte) => *into = byte,
            None => return Sha256::digest(key).into(),
        }
    }
    death
}

/// The letter of a message. Whoever may write to the topic may write anything: the error says why it is none.
pub(super) fn read(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[LetterHeader<'_>],
) -> Result<Again, String> {
    let none = |why: &str| Err(format!("no letter that was sent again: {why}"));
    let bytes = value.unwrap_or_default();
    let Some(mut letter) = decode_dead_letter(bytes) else {
        return none("its bytes are no dead letter of Tidegate");
    };
    if key != Some(key_of(&letter, &letter_death(&letter)).as_bytes()) {
        return none("its key is that of another letter");
    }
    let header = |wanted: &str| headers.iter().find(|(name, _)| *name == wanted);
    let id = header(LETTER).and_then(|(_, value)| std::str::from_utf8((*value)?).ok());
    let Some(id) = id else {
        return none("it has no header with its id");
    };
    if id.len() > MAX_LETTER_ID {
        let length = id.len();
        return none(&format!("an id of {length} bytes exceeds {MAX_LETTER_ID}"));
    }
    if (id.rsplit_once('@')).is_none_or(|(record, _)| record != letter.id) {
        return none("its id is that of another record");
    }
    if header(WITHOUT_PRIVATE).is_some() {
        (letter.private, letter.private_sealed) = (0, None);
    }
    match unsendable(&letter).or_else(|| unsealable(&letter, None)) {
        Some(why) => none(why),
        None => Ok(Again::of(id, letter)),
    }
}

/// What is left of the time, for one question to brokers.
fn left(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    left.clamp(LOOK, ASK)
}

/// Rung when the topic may be there.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
    over: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_all();
    }

    /// Waits until it is rung, no longer than this; false when nobody waits for what follows any more.
    fn wait(&self, longest: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.heard.wait_timeout_while(rung, longest, |rung| !*rung);
        let (mut rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *rung = false;
        !self.over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_letter_is_refused_by_its_reason() {
        let letter = br#"{"id":"in/0/1","source":"in","partition":0,"offset":1,"stage":"s","reason":"r","attempts":1,
            "key":null,"value":"v","length":1,"at":"2026-11-22T08:00:00Z","form":"record","event_time":null,"headers":[]}"#;
        let of = |bytes: &[u8]| {
            let letter = decode_dead_letter(bytes).unwrap();
            key_of(&letter, &letter_death(&letter)).into_bytes()
        };
        let key = of(letter);
        assert!(key.starts_with(b"in/0/1@s#"));
        assert_eq!(key.len(), "in/0/1@s#".len() + DIGITS);
        let death = letter_death(&decode_dead_letter(letter).unwrap());
        assert_eq!(death_in(&key), death);
        let id = |id: &'static str| (LETTER, Some(id.as_bytes()));
        let good = [id("in/0/1@0.7")];
        assert!(read(Some(&key), Some(letter), &good).is_ok());
        // A copy that was written a second later is the same death.
        let copy = String::from_utf8(letter.to_vec())
            .unwrap()
            .replace("08:00:00", "08:00:01");
        assert!(read(Some(&key), Some(copy.as_bytes()), &[id("in/0/1@0.8")]).is_ok());
        let private = |sealed: &str| copy.replace("}", &format!(",\"private\":1{sealed}}}"));
        let (lost, kept) = (private(""), private(",\"private_sealed\":\"AAAA\""));
        assert!(read(Some(&key), Some(kept.as_bytes()), &good).is_ok());
        let without = [good[0], (WITHOUT_PRIVATE, Some(&b"true"[..]))];
        assert!(read(Some(&key), Some(lost.as_bytes()), &without).is_ok());
        let long = "x".repeat(MAX_LETTER_ID + 1);
        let long = [(LETTER, Some(long.as_bytes()))];
        let other = String::from_utf8(letter.to_vec())
            .unwrap()
            .replace("in/0/1", "in/0/2");
        let input = copy.replace("}", ",\"input\":\"standard input (id 1)\"}");
        for (key, value, headers, why) in [
            (
                Some(&key[..]),
                Some(input.as_bytes()),
                &good[..],
                "another letter",
            ),
            (None, Some(&letter[..]), &good[..], "another letter"),
            (
                Some(&b"\xff#"[..]),
                Some(&letter[..]),
                &good[..],
                "another letter",
            ),
            (
                Some(&key),
                Some(other.as_bytes()),
                &good[..],
                "another letter",
            ),
            (Some(&key), Some(&b"{}"[..]), &good[..], "no dead letter"),
            (Some(&key), None, &good[..], "no dead letter"),
            (Some(&key), Some(&letter[..]), &[], "no header with its id"),
            (Some(&key), Some(&letter[..]), &long[..], "exceeds 1024"),
            (
                Some(&key),
                Some(&letter[..]),
                &[id("in/0/2@0.7")],
                "another record",
            ),
            (
                Some(&key),
                Some(lost.as_bytes()),
                &good[..],
                "private attributes",
            ),
        ] {
            let refused = read(key, value, headers).unwrap_err();
            assert!(refused.contains(why), "{refused}: {why}");
        }
    }
}
