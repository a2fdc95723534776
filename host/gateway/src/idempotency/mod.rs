//! Answers that several read: of a request that is repeated, of equal ones at once, and of equal ones later.
//!
//! One structure serves all three. An answer is made by a task of its own, into a recording that any number of readers
//! follow from its beginning, each until a deadline of its own. What has ended well is kept for a while, within a bound
//! of bytes of which each client has its share.
//!
//! The making ends with its last reader, so that a client that goes frees what it asked for; but not where answers are
//! lasting: there whoever goes may ask again. Those may outlive the process, too: what is being made is noted with the
//! record that it is made of, so that the next process knows it, and what is finished is durable before its end is told.

mod changes;
mod finished;
pub(crate) mod header;
mod journal;
pub mod key;
mod known;
mod making;
mod recording;
mod shares;
mod stored;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{HeaderName, HeaderValue};
use tidegate_contract::{KeyedLog, KeyedValue};
use tokio::time::Instant;

use self::finished::{Finished, is_momentary};
use self::journal::Journal;
use self::known::{Answer, Known};
pub(crate) use self::making::Left;
pub use self::making::Making;
use self::making::{Condition, Ending};
pub(crate) use self::recording::Records;
use self::recording::{Reader, Recording};
pub(crate) use self::stored::Begun;
use self::stored::{Stored, StoredAnswer};
use crate::access::UnderWay;
use crate::exchange::Answered;
use crate::requests::Patience;
use key::Digest;

/// How long and how much is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a finished answer is kept; zero keeps none beyond its readers.
    pub ttl: Duration,
    /// Most bytes of finished answers.
    pub bytes: usize,
    /// The header of an answer that was made for another request.
    pub mark: HeaderName,
    /// Whether an answer is made to its end when nobody reads it any more.
    pub lasting: bool,
}

/// Answers by key. A copy is the same.
#[derive(Clone)]
pub struct Answers(Arc<Inner>);

struct Inner {
    options: Options,
    known: Mutex<Known>,
    journal: Option<Journal>,
}

/// Someone who asks.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    /// Whose share of the bound an answer takes that is made for this one.
    pub client: Digest,
    /// What tells the answer.
    pub key: Digest,
    /// What was asked. One key stands for one thing.
    pub body: Digest,
    /// How long this one waits.
    pub until: Instant,
}

/// Told before an answer is given that was made for somebody else: which records it was made of. Answers in its place where
/// that cannot be.
pub type Given = Box<dyn FnOnce(&[String]) -> Result<(), Answered> + Send>;

/// An answer that is there, or will be.
pub type Joined = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// The same key came with another body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key was used with another request")]
pub struct OtherBody;

impl Answers {
    /// An empty store that ends with the process.
    pub fn new(options: Options) -> Answers {
        Answers(Arc::new(Inner {
            options,
            known: Mutex::default(),
            journal: None,
        }))
    }

    /// One that outlives the process, in a log that has these values.
    pub fn over(
        options: Options,
        log: Box<dyn KeyedLog>,
        values: Vec<KeyedValue>,
    ) -> io::Result<Answers> {
        let mut known = Known::default();
        let (now, seconds) = (Instant::now(), seconds());
        let keys: Vec<_> = values.iter().map(|value| value.key).collect();
        for KeyedValue { key, until, value } in values {
            let left = until.saturating_sub(seconds);
            // What another version wrote otherwise is not known.
            if let (1.., Some(stored)) = (left, Stored::read(&value)) {
                let answer = match stored.answer {
                    StoredAnswer::Begun(begun) => Answer::Left(Left::new(begun)),
                    StoredAnswer::Finished(finished) => Answer::Recorded(Recording::of(finished)),
                };
                let bytes = value.len();
                let until = now + Duration::from_secs(left).min(options.time());
                let entry = known.entry(stored.client, stored.body, answer);
                known.put(Digest::from(key), entry);
                known.keep(Digest::from(key), bytes, until);
            }
        }
        let memory = Arc::new(OnceLock::<Weak<Inner>>::new());
        let of_journal = memory.clone();
        let recall = move |key: &[u8; 32]| {
            let answers = of_journal.get()?.upgrade()?;
            answers.recall(Digest::from(*key))
        };
        let journal = Journal::new(log, keys, Box::new(recall))?;
        let answers = Answers(Arc::new(Inner {
            options,
            known: Mutex::new(known),
            journal: Some(journal),
        }));
        memory.get_or_init(|| Arc::downgrade(&answers.0));
        let bound = answers.0.options.bytes;
        answers.forget(|known| {
            let over = known.shares.bytes() > bound;
            over.then(|| known.shares.take_of_largest()).flatten()
        });
        Ok(answers)
    }

    /// How many answers are made or kept.
    pub fn len(&self) -> usize {
        self.known().by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets what is too old.
    pub fn forget_old(&self) {
        let now = Instant::now();
        self.forget(|known| known.shares.take_old(now));
    }

    /// The process ends. What is being made is left to the next one.
    pub fn close(&self) {
        if let Some(journal) = &self.0.journal {
            journal.close();
        }
    }

    /// What an earlier process was making, and nobody has asked for again: when it is forgotten.
    pub(crate) fn left(&self) -> Vec<(Left, Instant)> {
        let known = self.known();
        let left = known
            .by_key
            .values()
            .filter_map(|entry| match &entry.answer {
                Answer::Left(left) => Some((left.clone(), entry.until?)),
                Answer::Recorded(_) => None,
            });
        left.collect()
    }

    /// Whether an answer of this key is there or in the making.
    pub fn has(&self, key: Digest) -> bool {
        self.forget_old();
        self.known().by_key.contains_key(&key)
    }

    /// The answer of this key: one that is there or in the making, if the body is the same; else this one, which is
    /// made from now on. Where answers are lasting, the place of whoever asks is taken until this one is made: it goes on
    /// without its reader.
    pub fn join<F>(
        &self,
        joining: Joining,
        under_way: Option<UnderWay>,
        given: Option<Given>,
        make: impl FnOnce(Making) -> F,
    ) -> Result<Joined, OtherBody>
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        self.forget_old();
        let Joining { key, until, .. } = joining;
        let (reader, fresh) = {
            let mut known = self.known();
            let there = match known.by_key.get(&key) {
                Some(entry) if entry.body != joining.body => return Err(OtherBody),
                Some(entry) => match &entry.answer {
                    Answer::Recorded(recording) => Reader::new(recording, until).ok_or(None),
                    Answer::Left(left) => Err(Some(left.clone())),
                },
                None => Err(None),
            };
            match there {
                Ok(reader) => (reader, None),
                Err(left) => {
                    let patience = match &left {
                        Some(left) => left.patience.clone(),
                        None => Patience::until(until),
                    };
                    let lasting = self.0.options.lasting;
                    let (reader, recording) = Reader::first(patience, lasting, until);
                    let answer = Answer::Recorded(recording.clone());
                    let entry = known.entry(joining.client, joining.body, answer);
                    let number = entry.number;
                    known.put(key, entry);
                    (reader, Some((recording, number, left)))
                }
            }
        };
        let is_fresh = fresh.is_some();
        if let Some((recording, number, left)) = fresh {
            let condition = Condition::default();
            let making = Making {
                condition: condition.clone(),
                answers: self.clone(),
                joining,
                patience: recording.patience.clone(),
                left: left.clone(),
                records: recording.records.clone(),
            };
            let ending = Ending {
                answers: self.clone(),
                joining,
                number,
                recording: recording.clone(),
                left,
                condition,
                under_way: under_way.filter(|_| self.0.options.lasting),
                finished: None,
            };
            let task = tokio::spawn(ending.record(make(making)));
            recording.made_by(task.abort_handle());
        }
        let mark = self.0.options.mark.clone();
        Ok(Box::pin(async move {
            let records = reader.records();
            let mut answered = reader.answered().await;
            if !is_fresh {
                if let Some(given) = given
                    && answered.status.is_success()
                    && let Err(instead) = given(&records.all())
                {
                    return instead;
                }
                // Said to another, at another time.
                answered.headers.retain(|(name, _)| !is_momentary(name));
                answered
                    .headers
                    .push((mark, HeaderValue::from_static("true")));
            }
            answered
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this would be kept.
    fn is_kept(&self, finished: &Finished) -> bool {
        let options = &self.0.options;
        finished.size() <= options.bytes && !options.ttl.is_zero()
    }

    /// What the journal has of a key.
    fn stored(&self, joining: &Joining, answer: StoredAnswer) -> KeyedValue {
        let stored = Stored {
            client: joining.client,
            body: joining.body,
            answer,
        };
        KeyedValue {
            key: joining.key.bytes(),
            until: seconds() + self.0.options.time().as_secs(),
            value: stored.write(),
        }
    }

    /// A recording has ended: it is kept, or forgotten, or left as it was.
    fn ended(&self, ending: &Ending) {
        let key = ending.joining.key;
        let mut known = self.known();
        let ours = known.by_key.get(&key);
        if ours.is_none_or(|entry| entry.number != ending.number) {
            return;
        }
        let now = Instant::now();
        match (&ending.finished, ending.left()) {
            (Some(finished), _) => {
                let until = now + self.0.options.ttl;
                known.keep(key, finished.size(), until);
            }
            // Nobody has asked the pipeline for it: whoever asks next may.
            (None, Some(left)) => {
                let answer = Answer::Left(left.clone());
                let (client, body) = (ending.joining.client, ending.joining.body);
                let entry = known.entry(client, body, answer);
                known.put(key, entry);
                known.keep(key, 0, now + self.0.options.time());
            }
            (None, None) => {
                known.remove(key);
                if let Some(journal) = &self.0.journal {
                    journal.forget(key.bytes());
                }
            }
        }
        drop(known);
        let bound = self.0.options.bytes;
        self.forget(|known| {
            let over = known.shares.bytes() > bound;
            over.then(|| known.shares.take_of_largest()).flatten()
        });
    }

    /// Forgets what is taken out of the shares, as long as something is.
    fn forget(&self, mut take: impl FnMut(&mut Known) -> Option<shares::Kept>) {
        let mut known = self.known();
        while let Some(kept) = take(&mut known) {
            known.by_key.remove(&kept.key);
            if let Some(journal) = &self.0.journal {
                journal.forget(kept.key.bytes());
            }
        }
    }
}

impl Inner {
    /// What the log has of a key that nobody makes, once more.
    fn recall(&self, key: Digest) -> Option<KeyedValue> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.by_key.get(&key)?;
        let left = entry.until?.saturating_duration_since(Instant::now());
        let answer = match &entry.answer {
            Answer::Recorded(recording) => StoredAnswer::Finished(recording.kept()?),
            Answer::Left(left) => StoredAnswer::Begun(left.begun.clone()),
        };
        let stored = Stored {
            client: entry.client,
            body: entry.body,
            answer,
        };
        drop(known);
        Some(KeyedValue {
            key: key.bytes(),
            until: seconds() + left.as_secs(),
            value: stored.write(),
        })
    }
}

impl Options {
    /// How long an answer is known that nobody makes, at least so long that its client can ask again.
    fn time(&self) -> Duration {
        self.ttl.max(Duration::from_secs(60))
    }
}

/// Since the Unix epoch.
fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
