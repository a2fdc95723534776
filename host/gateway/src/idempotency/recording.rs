//! An answer as it is made, and those who read it from its beginning.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::exchange::{Answered, Content, Part};
use crate::openai::error::ApiError;

/// One answer.
pub(super) struct Recording {
    state: Mutex<State>,
    changed: watch::Sender<()>,
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

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }
}

impl Recording {
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

    /// Its bytes, if the same would be answered later: a failure of the moment is not, nor is what an operator refused (it
    /// may have another mind then), nor a stream that broke.
    pub(super) fn worth_keeping(&self) -> Option<usize> {
        let state = self.state();
        let (status, headers) = state.head.as_ref()?;
        let momentary = !status.is_success();
        let mut size = 256 + headers.len() * 64;
        match &state.whole {
            Some((_, bytes)) => size += bytes.len(),
            None if !matches!(state.parts.last(), Some(Part::Last(_))) => return None,
            None => {
                for part in &state.parts {
                    let (Part::Bytes(bytes) | Part::Last(bytes) | Part::Broken(bytes)) = part;
                    size += bytes.len() + 48;
                }
            }
        }
        (!momentary).then_some(size)
    }
}

/// One who reads. With the last of them the making ends.
pub(super) struct Reader {
    recording: Arc<Recording>,
    changed: watch::Receiver<()>,
}

impl Reader {
    /// A recording with its first reader.
    pub(super) fn first() -> (Reader, Arc<Recording>) {
        let recording = Arc::new(Recording::default());
        recording.state().readers = 1;
        let reader = Reader {
            recording: recording.clone(),
            changed: recording.changed.subscribe(),
        };
        (reader, recording)
    }

    /// None of a recording that was abandoned.
    pub(super) fn new(recording: &Arc<Recording>) -> Option<Reader> {
        let mut state = recording.state();
        if state.abandoned {
            return None;
        }
        state.readers += 1;
        drop(state);
        Some(Reader {
            recording: recording.clone(),
            changed: recording.changed.subscribe(),
        })
    }

    /// The answer, once its head is known. The making bounds the wait: it has a deadline.
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
            // An error would mean that the recording has gone, and it is held here.
            let _ = self.changed.changed().await;
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
            tokio::select! {
                () = to.closed() => return,
                _ = self.changed.changed() => {}
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.recording.state();
        state.readers -= 1;
        if state.readers > 0 || state.over {
            return;
        }
        state.abandoned = true;
        if let Some(task) = &state.task {
            task.abort();
        }
    }
}
