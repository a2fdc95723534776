//! The making of an answer: what it knows of those who wait, and how it ends.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use super::finished::{Body, Finished};
use super::recording::{Recording, Records};
use super::stored::{Begun, StoredAnswer};
use super::{Answers, Joining};
use crate::access::UnderWay;
use crate::exchange::{Answered, Content, Part};
use crate::requests::Patience;

/// An answer that an earlier process was making.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub(crate) begun: Begun,
    /// How long those who ask for it wait. Whoever makes it has the same.
    pub(crate) patience: Patience,
    /// Whether the pipeline was asked for it: it goes on here, or there is nothing of it.
    taken: Arc<AtomicBool>,
}

impl Left {
    pub(super) fn new(begun: Begun) -> Left {
        Left {
            begun,
            patience: Patience::until(Instant::now()),
            taken: Arc::default(),
        }
    }

    /// The pipeline has said whether it has it. Whatever becomes of it now, nothing is left for another time.
    pub(crate) fn take(&self) {
        self.taken.store(true, Ordering::Release);
    }
}

/// What whoever makes an answer knows of it.
pub struct Making {
    pub(super) answers: Answers,
    pub(super) joining: Joining,
    pub(super) patience: Patience,
    pub(super) left: Option<Left>,
    pub(super) condition: Condition,
    pub(super) records: Records,
}

/// Whether an answer is kept, asked when it is whole; without one it is.
pub(super) type Condition = Arc<OnceLock<Box<dyn Fn() -> bool + Send + Sync>>>;

impl Making {
    /// How long those who read it wait.
    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Where it is noted which records it is made of.
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// The answer is kept if this is so when it is whole. The first that is told counts.
    pub(crate) fn keep_if(&self, is_so: impl Fn() -> bool + Send + Sync + 'static) {
        self.condition.get_or_init(|| Box::new(is_so));
    }

    /// What an earlier process has of it.
    pub(crate) fn left(&self) -> Option<&Left> {
        self.left.as_ref()
    }

    /// Before its one record is asked for: the answer is to be kept before the record is let go of.
    pub(crate) fn begins(&self) {
        if self.answers.0.journal.is_some() {
            self.patience.is_kept();
        }
    }

    /// Notes for the next process what it is made of.
    pub(crate) fn begun(&self, begun: Begun) {
        if let Some(journal) = &self.answers.0.journal {
            let value = self
                .answers
                .stored(&self.joining, StoredAnswer::Begun(begun));
            journal.note(value);
        }
    }
}

/// Ends a recording however its task ends.
pub(super) struct Ending {
    pub(super) answers: Answers,
    pub(super) joining: Joining,
    pub(super) number: u64,
    pub(super) recording: Arc<Recording>,
    pub(super) left: Option<Left>,
    /// The place of whoever asked, where it is made to its end without readers, too.
    pub(super) under_way: Option<UnderWay>,
    pub(super) condition: Condition,
    /// What is kept of it.
    pub(super) finished: Option<Finished>,
}

impl Ending {
    /// Makes the answer.
    pub(super) async fn record<F: Future<Output = Answered>>(mut self, make: F) {
        let Answered {
            status,
            headers,
            content,
        } = make.await;
        match content {
            Content::Whole { media_type, bytes } => {
                let body = Body::Whole(bytes.clone());
                let finished = Finished::of(status, headers.clone(), body);
                self.keep(finished.filter(|_| media_type == Body::MEDIA_TYPE))
                    .await;
                self.recording
                    .begin(status, headers, Some((media_type, bytes)));
                self.settle();
            }
            Content::Events(mut parts) => {
                self.recording.begin(status, headers, None);
                self.recording.tell();
                while let Some(part) = parts.recv().await {
                    if !matches!(part, Part::Bytes(_)) {
                        self.keep(self.recording.finished(&part)).await;
                    }
                    if self.recording.add(part) {
                        return self.settle();
                    }
                    self.recording.tell();
                }
            }
            // A connection that is taken over is nobody else's, nor what another server made; endpoints here have neither.
            Content::Upgraded(_) | Content::Streamed(_) => {}
        }
    }

    /// What an earlier process has, unless the pipeline was asked for it.
    pub(super) fn left(&self) -> Option<&Left> {
        let left = self.left.as_ref();
        left.filter(|left| !left.taken.load(Ordering::Acquire))
    }

    /// What is kept is durable before anyone is told the end, if the disk is quick enough for those who wait.
    async fn keep(&mut self, finished: Option<Finished>) {
        let may = self.condition.get().is_none_or(|is_so| is_so());
        let finished = finished.map(|finished| Finished {
            records: self.recording.records.all(),
            ..finished
        });
        self.finished = finished.filter(|finished| may && self.answers.is_kept(finished));
        if let (Some(journal), Some(finished)) = (&self.answers.0.journal, &self.finished) {
            let finished = StoredAnswer::Finished(finished.clone());
            let value = self.answers.stored(&self.joining, finished);
            let (now, until) = (Instant::now(), self.recording.patience.deadline());
            // Where nobody waits any longer, the disk has the time that it may have.
            let until = Some(until).filter(|until| *until > now);
            journal.keep(value, until).await;
        }
    }

    /// Kept or forgotten before its readers hear of the end: who asks again after it must not find what is not kept, and
    /// finds a place.
    fn settle(&mut self) {
        self.answers.ended(self);
        self.under_way = None;
        self.recording.patience.settle();
        self.recording.tell();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Of one that was settled this changes nothing.
        if self.recording.end() {
            self.finished = None;
            self.settle();
        }
    }
}
