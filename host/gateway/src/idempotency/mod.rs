//! Answers that several read: of a request that is repeated, of equal ones at once, and of equal ones later.
//!
//! One structure serves all three. An answer is made by a task of its own, into a recording that any number of readers
//! follow from its beginning; the task ends with its last reader, so that a client that goes still frees what it asked
//! for. What has ended well is kept for a while, within a bound of bytes.

pub mod key;
mod recording;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::exchange::{Answered, Content};
use key::Digest;
use recording::{Reader, Recording};

/// How long and how much is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a finished answer is kept; zero keeps none beyond its readers.
    pub ttl: Duration,
    /// Most bytes of finished answers.
    pub bytes: usize,
    /// The header of an answer that was made for another request.
    pub mark: HeaderName,
}

/// Answers by key. A copy is the same.
#[derive(Clone)]
pub struct Answers(Arc<Inner>);

struct Inner {
    options: Options,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_key: HashMap<Digest, Entry>,
    /// Finished ones, oldest first.
    finished: VecDeque<(Instant, Digest, u64)>,
    bytes: usize,
    /// Number of the last recording.
    last: u64,
}

struct Entry {
    number: u64,
    body: Digest,
    recording: Arc<Recording>,
    bytes: usize,
}

/// An answer that is there, or will be.
pub type Joined = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// The same key came with another body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key was used with another request")]
pub struct OtherBody;

impl Answers {
    /// An empty store.
    pub fn new(options: Options) -> Answers {
        Answers(Arc::new(Inner {
            options,
            kept: Mutex::default(),
        }))
    }

    /// How many answers are made or kept.
    pub fn len(&self) -> usize {
        self.kept().by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The answer of this key: one that is there or in the making, if the body is the same; else this one, which is
    /// made from now on.
    pub fn join<F>(
        &self,
        key: Digest,
        body: Digest,
        make: impl FnOnce() -> F,
    ) -> Result<Joined, OtherBody>
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        let (reader, fresh) = {
            let mut kept = self.kept();
            kept.forget_old(Instant::now());
            let there = match kept.by_key.get(&key) {
                Some(entry) if entry.body != body => return Err(OtherBody),
                Some(entry) => Reader::new(&entry.recording),
                None => None,
            };
            match there {
                Some(reader) => (reader, None),
                None => {
                    let (reader, recording) = Reader::first();
                    kept.last += 1;
                    let number = kept.last;
                    let entry = Entry {
                        number,
                        body,
                        recording: recording.clone(),
                        bytes: 0,
                    };
                    kept.by_key.insert(key, entry);
                    (reader, Some((recording, number)))
                }
            }
        };
        let is_fresh = fresh.is_some();
        if let Some((recording, number)) = fresh {
            let ending = Ending {
                answers: self.clone(),
                key,
                number,
                recording: recording.clone(),
            };
            let task = tokio::spawn(make_answer(make(), ending));
            recording.made_by(task.abort_handle());
        }
        let mark = self.0.options.mark.clone();
        Ok(Box::pin(async move {
            let mut answered = reader.answered().await;
            if !is_fresh {
                // What is left of a quota was said to another, at another time.
                let stale = |name: &HeaderName| {
                    name.as_str().starts_with("x-ratelimit-")
                        || name.as_str().starts_with("ratelimit")
                };
                answered.headers.retain(|(name, _)| !stale(name));
                answered
                    .headers
                    .push((mark, HeaderValue::from_static("true")));
            }
            answered
        }))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A recording has ended: it is kept, or forgotten.
    fn ended(&self, key: Digest, number: u64, recording: &Recording) {
        let options = &self.0.options;
        let size = recording.worth_keeping();
        let mut kept = self.kept();
        let Some(entry) = kept
            .by_key
            .get_mut(&key)
            .filter(|entry| entry.number == number)
        else {
            return;
        };
        let Some(size) = size.filter(|size| *size <= options.bytes && !options.ttl.is_zero())
        else {
            kept.by_key.remove(&key);
            return;
        };
        entry.bytes = size;
        kept.bytes += size;
        kept.finished
            .push_back((Instant::now() + options.ttl, key, number));
        while kept.bytes > options.bytes {
            kept.forget_oldest();
        }
    }
}

impl Kept {
    fn forget_old(&mut self, now: Instant) {
        while self
            .finished
            .front()
            .is_some_and(|(until, ..)| *until <= now)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, key, number)) = self.finished.pop_front() else {
            self.bytes = 0;
            return;
        };
        if self
            .by_key
            .get(&key)
            .is_some_and(|entry| entry.number == number)
            && let Some(entry) = self.by_key.remove(&key)
        {
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
    }
}

/// Ends a recording however its task ends.
struct Ending {
    answers: Answers,
    key: Digest,
    number: u64,
    recording: Arc<Recording>,
}

impl Ending {
    /// Kept or forgotten before its readers hear of the end: who asks again after it must not find what is not kept.
    fn settle(&self) {
        self.answers.ended(self.key, self.number, &self.recording);
        self.recording.tell();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Of one that was settled this changes nothing.
        if self.recording.end() {
            self.settle();
        }
    }
}

async fn make_answer<F: Future<Output = Answered>>(make: F, ending: Ending) {
    let Answered {
        status,
        headers,
        content,
    } = make.await;
    let recording = &ending.recording;
    match content {
        Content::Whole { media_type, bytes } => {
            recording.begin(status, headers, Some((media_type, bytes)));
            ending.settle();
        }
        Content::Events(mut parts) => {
            recording.begin(status, headers, None);
            recording.tell();
            while let Some(part) = parts.recv().await {
                if recording.add(part) {
                    return ending.settle();
                }
                recording.tell();
            }
        }
        // A connection that is taken over is nobody else's; endpoints here take none.
        Content::Upgraded(_) => {}
    }
}
