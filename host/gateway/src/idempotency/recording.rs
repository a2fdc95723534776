//! An answer as it is made, and those who read it from its beginning.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::finished::{Body, Finished};
use crate::exchange::{Answered, Content, Part};
use crate::openai::error::ApiError;
use crate::openai::late;
use crate::requests::Patience;

/// The records that an answer is made of, as an audit names them. A copy is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Arc<Mutex<Vec<String>>>);

impl Records {
    fn list(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is made of this one, too.
    pub(crate) fn note(&self, record: String) {
        self.list().push(record);
    }

    /// Those so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.list().clone()
    }
}

/// One answer.
pub(super) struct Recording {
    state: Mutex<State>,
    pub(super) records: Records,
    changed: watch::Sender<()>,
    /// How long those who read it wait for it.
    pub(super) patience: Patience,
    /// Whether it is made to its end without readers, too.
    lasting: bool,
}

#[derive(Default)]
struct State {
    head: Option<(StatusCode, Vec<(HeaderName, HeaderValue)>)>,
    whole: Option<(&'static str, Bytes)>,
    parts: Vec<Part>,
    over: bool,
    /// Its last reader has gone before it ended: nobody may follow it any more.
    abandoned: bool,
    readers: usize,
    task: Option<AbortHandle>,
}

impl Recording {
    fn new(patience: Patience, lasting: bool) -> Arc<Recording> {
        Arc::new(Recording {
            state: Mutex::default(),
            records: Records::default(),
            changed: watch::Sender::new(()),
            patience,
            lasting,
        })
    }

    /// One that has ended.
    pub(super) fn of(finished: Finished) -> Arc<Recording> {
        let recording = Recording::new(Patience::until(Instant::now()), true);
        *recording.records.list() = finished.records;
        {
            let mut state = recording.state();
            state.head = Some((finished.status, finished.headers));
            match finished.body {
                Body::Whole(bytes) => state.whole = Some((Body::MEDIA_TYPE, bytes)),
                Body::Stream(bytes) => state.parts.push(Part::Last(bytes)),
            }
            state.over = true;
        }
        recording
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task that makes it. One whose readers have gone already is of no use.
    pub(super) fn made_by(&self, task: AbortHandle) {
        let mut state = self.state();
        if state.abandoned {
            task.abort();
        }
        state.task = Some(task);
    }

    /// Its head is known, and its body, if that is whole. Readers know of it once they are [told](Recording::tell).
    pub(super) fn begin(
        &self,
        status: StatusCode,
        headers: Vec<(HeaderName, HeaderValue)>,
        whole: Option<(&'static str, Bytes)>,
    ) {
        let mut state = self.state();
        state.head = Some((status, headers));
        state.over = whole.is_some();
        state.whole = whole;
    }

    /// Another part. Returns whether it was the last.
    pub(super) fn add(&self, part: Part) -> bool {
        let mut state = self.state();
        state.over = !matches!(part, Part::Bytes(_));
        state.parts.push(part);
        state.over
    }

    /// Nothing follows, whatever there is. Returns whether that is news.
    pub(super) fn end(&self) -> bool {
        !std::mem::replace(&mut self.state().over, true)
    }

    /// Readers look.
    pub(super) fn tell(&self) {
        self.changed.send_replace(());
    }

    /// The stream, if it ends in order with this part.
    pub(super) fn finished(&self, last: &Part) -> Option<Finished> {
        self.state().stream(Some(last))
    }

    /// What has ended in order.
    pub(super) fn kept(&self) -> Option<Finished> {
        let kept = self.ended()?;
        Some(Finished {
            records: self.records.all(),
            ..kept
        })
    }

    fn ended(&self) -> Option<Finished> {
        let state = self.state();
        match &state.whole {
            Some((Body::MEDIA_TYPE, bytes)) => {
                let (status, headers) = state.head.clone()?;
                Finished::of(status, headers, Body::Whole(bytes.clone()))
            }
            Some(_) => None,
            None => state.stream(None),
        }
    }
}

impl State {
    /// The stream of these parts and a further one, if it ends in order.
    fn stream(&self, further: Option<&Part>) -> Option<Finished> {
        let Some(Part::Last(_)) = further.or(self.parts.last()) else {
            return None;
        };
        let (status, headers) = self.head.clone()?;
        let mut bytes = Vec::new();
        for part in self.parts.iter().chain(further) {
            let (Part::Bytes(part) | Part::Last(part) | Part::Broken(part)) = part;
            bytes.extend_from_slice(part);
        }
        Finished::of(status, headers, Body::Stream(bytes.into()))
    }
}

/// One who reads. With the last of them the making ends, unless it lasts.
pub(super) struct Reader {
    recording: Arc<Recording>,
    changed: watch::Receiver<()>,
    until: Instant,
}

impl Reader {
    /// A recording with its first reader, who waits until then; others may wait longer.
    pub(super) fn first(
        patience: Patience,
        lasting: bool,
        until: Instant,
    ) -> (Reader, Arc<Recording>) {
        let recording = Recording::new(patience, lasting);
        recording.state().readers = 1;
        (Reader::of(&recording, until), recording)
    }

    /// One who waits until then. None of a recording that was abandoned.
    pub(super) fn new(recording: &Arc<Recording>, until: Instant) -> Option<Reader> {
        let mut state = recording.state();
        if state.abandoned {
            return None;
        }
        state.readers += 1;
        drop(state);
        Some(Reader::of(recording, until))
    }

    fn of(recording: &Arc<Recording>, until: Instant) -> Reader {
        recording.patience.lasts(until);
        Reader {
            recording: recording.clone(),
            changed: recording.changed.subscribe(),
            until,
        }
    }

    /// Returns when this one waits no longer and others do: a making that nobody waits for any longer says so itself.
    async fn is_late(&self) {
        sleep_until(self.until).await;
        self.recording.patience.exceeds(self.until).await;
    }

    /// What it is made of. Known when its head is.
    pub(super) fn records(&self) -> Records {
        self.recording.records.clone()
    }

    /// The answer, once its head is known.
    pub(super) async fn answered(mut self) -> Answered {
        loop {
            {
                let state = self.recording.state();
                if let Some((status, headers)) = &state.head {
                    let (status, headers) = (*status, headers.clone());
                    let content = state
                        .whole
                        .as_ref()
                        .map(|(media_type, bytes)| Content::Whole {
                            media_type,
                            bytes: bytes.clone(),
                        });
                    drop(state);
                    return Answered {
                        status,
                        headers,
                        content: content.unwrap_or_else(|| self.follow()),
                    };
                }
                if state.over {
                    return ApiError::gone().answered();
                }
            }
            let mut changed = self.changed.clone();
            tokio::select! {
                biased;
                // An error would mean that the recording has gone, and it is held here.
                _ = changed.changed() => self.changed = changed,
                () = self.is_late() => return ApiError::deadline().answered(),
            }
        }
    }

    fn follow(self) -> Content {
        let (to, parts) = unbounded_channel();
        tokio::spawn(self.go_on(to));
        Content::Events(parts)
    }

    async fn go_on(mut self, to: UnboundedSender<Part>) {
        let mut next = 0;
        loop {
            let over = {
                let state = self.recording.state();
                for part in state.parts.get(next..).unwrap_or_default() {
                    next += 1;
                    if to.send(part.clone()).is_err() {
                        return;
                    }
                }
                state.over
            };
            if over {
                return;
            }
            let mut changed = self.changed.clone();
            tokio::select! {
                biased;
                () = to.closed() => return,
                _ = changed.changed() => self.changed = changed,
                () = self.is_late() => {
                    let _ = to.send(Part::Broken(late().into()));
                    return;
                }
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.recording.state();
        state.readers -= 1;
        if state.readers > 0 || state.over || self.recording.lasting {
            return;
        }
        state.abandoned = true;
        if let Some(task) = &state.task {
            task.abort();
        }
    }
}
