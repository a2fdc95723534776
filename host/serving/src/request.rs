//! A request between its submission and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_contract::{
    Answer, CLASS_BESIDE, Made, ModelError, Parameters, RequestId, Timings, share_beside,
};
use tidegate_grammar::Matcher;
use tidegate_text::{Detokenizer, EncodedPair, LaneParser};

use crate::entities::Recognizing;
use crate::order::{Moment, QueueKey};
use crate::replicas::{Burden, Chosen, Replicas, Wanted};
use crate::reply::GuardedReply;
use crate::thoughts::Thinking;
use crate::worker::Command;

/// Most losses of the device that a request goes on after, where others were in the step too.
const MOST_FAULTS: u32 = 3;

/// Classes that are told apart: a pipeline file has 0 to 9, and behind them are those of nobody's stream.
pub(crate) const CLASSES: usize = 1 + CLASS_BESIDE as usize;

/// Places of a queue: those of the stream, and so many more that nothing beside it takes one of them.
#[derive(Debug)]
pub(crate) struct Places {
    stream: Bound,
    beside: Bound,
    /// Of these, how many of each class.
    classes: [AtomicUsize; CLASSES],
}

impl Places {
    pub(crate) fn new(limit: usize) -> Arc<Places> {
        Arc::new(Places {
            stream: Bound::new(limit),
            beside: Bound::new(share_beside(limit)),
            classes: Default::default(),
        })
    }

    fn bound(&self, class: usize) -> &Bound {
        match class < usize::from(CLASS_BESIDE) {
            true => &self.stream,
            false => &self.beside,
        }
    }

    /// Most requests that take a place where one of this class does.
    pub(crate) fn limit(&self, class: u8) -> usize {
        self.bound(class.into()).limit
    }

    /// Places that are taken, by class.
    pub(crate) fn by_class(&self) -> [usize; CLASSES] {
        std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed))
    }

    /// Takes a place for a request of this class; `None` if there is none.
    pub(crate) fn take(self: &Arc<Places>, class: u8) -> Option<Permit> {
        let class = usize::from(class).min(CLASSES - 1);
        self.bound(class).take()?;
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        Some(Permit {
            places: Arc::clone(self),
            class,
        })
    }
}

#[derive(Debug)]
struct Bound {
    limit: usize,
    taken: AtomicUsize,
}

impl Bound {
    fn new(limit: usize) -> Bound {
        Bound {
            limit,
            taken: AtomicUsize::new(0),
        }
    }

    fn take(&self) -> Option<()> {
        let more = |taken: usize| (taken < self.limit).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(drop)
    }
}

/// A place in a queue, free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    places: Arc<Places>,
    class: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.places.classes[self.class].fetch_sub(1, Ordering::Relaxed);
        let bound = self.places.bound(self.class);
        bound.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What is asked, rendered and encoded.
pub(crate) enum Work {
    /// Answers to a prompt.
    Generate {
        prompt: Vec<u32>,
        /// How the answer becomes text: after the prompt's, as a text of its own, or verbatim.
        detokenizer: Box<Detokenizer>,
        prefix: Vec<u32>,
        seed: u64,
        parameters: Parameters,
        matcher: Option<Box<Matcher>>,
        /// What an answer may be before its content.
        thinking: Option<Box<Thinking>>,
        /// What takes reasoning and calls out of the text, with a seed for the ids of calls.
        lanes: Option<Box<LaneParser>>,
    },
    /// The vector of a text, or the scores of several pairs of texts; at least one.
    Encode {
        texts: Vec<EncodedPair>,
        /// Of a text whose entities are asked for.
        recognizing: Option<Box<Recognizing>>,
    },
}

/// A request that has a place in its model's queue, without what it asks.
pub(crate) struct Placed {
    pub(crate) id: RequestId,
    pub(crate) class: u8,
    pub(crate) deadline: Option<Moment>,
    pub(crate) submitted: Moment,
    pub(crate) lora: u32,
    pub(crate) reply: GuardedReply,
    pub(crate) permit: Permit,
}

impl Placed {
    /// Whether its deadline has passed.
    pub(crate) fn is_late(&self, now: Moment) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Sends it, with what there is to do or why that cannot be done, to the replica that is expected to have it done first.
    pub(crate) fn submit(self, replicas: &Replicas, work: Result<Work, ModelError>) {
        // Where all have ended just now it is dropped, and its reply answers `Closed`.
        let Some(first) = replicas.first() else {
            return;
        };
        let several = replicas.serving.len() > 1;
        let wanted = work
            .as_ref()
            .map(|work| Wanted::of(work, self.lora, several));
        let wanted = wanted.unwrap_or_default();
        let chosen = replicas.choose(&wanted).unwrap_or(Chosen {
            replica: first,
            rows: 0,
        });
        let submission = Submission {
            work,
            burden: chosen.burden(&wanted),
            id: self.id,
            class: self.class,
            deadline: self.deadline,
            reply: self.reply,
            submitted: self.submitted,
            lora: self.lora,
            permit: self.permit,
        };
        // If the thread has just ended, the submission is dropped here and its reply answers `Closed`.
        let loaded = Arc::clone(&chosen.replica.loaded);
        let submit = Command::Submit(loaded, Box::new(submission));
        let _ = chosen.replica.engine.commands.send(submit);
    }
}

/// A request as the engine's thread gets it.
pub(crate) struct Submission {
    pub(crate) id: RequestId,
    pub(crate) class: u8,
    pub(crate) deadline: Option<Moment>,
    pub(crate) submitted: Moment,
    /// Which low-rank adapter of the model it goes through; 0 for none.
    pub(crate) lora: u32,
    pub(crate) reply: GuardedReply,
    /// Held until the request's first step or its end.
    pub(crate) permit: Permit,
    /// Its part of what its replica has to do.
    pub(crate) burden: Burden,
    /// What to do, or why it cannot be done.
    pub(crate) work: Result<Work, ModelError>,
}

/// What all kinds of requests have between submission and end.
pub(crate) struct Open {
    pub(crate) id: RequestId,
    pub(crate) queue_key: QueueKey,
    pub(crate) reply: GuardedReply,
    /// Steps with it in which the device was lost.
    faults: u32,
    pub(crate) prompt_tokens: usize,
    /// Which low-rank adapter it goes through; 0 for none.
    lora: u32,
    permit: Option<Permit>,
    /// Until its end.
    burden: Burden,
    /// Adapters that have made parts of it and do no more.
    before: Vec<Arc<str>>,
    first_step: Option<Moment>,
    first_token: Option<Moment>,
    last_token: Option<Moment>,
}

impl Open {
    /// A request that has arrived as the `number`th.
    pub(crate) fn new(
        submission: Submission,
        number: u64,
        prompt_tokens: usize,
    ) -> (Open, Result<Work, ModelError>) {
        let open = Open {
            id: submission.id,
            queue_key: QueueKey {
                class: submission.class,
                deadline: submission.deadline,
                arrived: submission.submitted,
                number,
            },
            reply: submission.reply,
            faults: 0,
            prompt_tokens,
            lora: submission.lora,
            permit: Some(submission.permit),
            burden: submission.burden,
            before: Vec::new(),
            first_step: None,
            first_token: None,
            last_token: None,
        };
        (open, submission.work)
    }

    /// It is of another replica from now on.
    pub(crate) fn goes_on(&mut self, burden: Burden) {
        let from = std::mem::replace(&mut self.burden, burden);
        // Where no step had a part of it nothing of it was made.
        if self.first_step.is_some() {
            self.before.push(from.adapter());
        }
    }

    /// Where it was made.
    fn adapters(&self) -> String {
        let mut all: Vec<&str> = Vec::new();
        let last = self.burden.adapter();
        for adapter in self.before.iter().chain([&last]) {
            if all.last() != Some(&&**adapter) {
                all.push(adapter);
            }
        }
        all.join(", ")
    }

    /// A step with a part of it begins. Returns how long it has waited for that, if it is the first, and it is of a stream:
    /// what is beside one waits on purpose, and is in none of its figures of time.
    pub(crate) fn steps_at(&mut self, now: Moment) -> Option<Duration> {
        self.permit = None;
        let first = self.first_step.is_none();
        self.first_step.get_or_insert(now);
        (first && !self.is_beside()).then(|| now.saturating_sub(self.queue_key.arrived))
    }

    /// A token of it is there. Returns how long it took since it was submitted, if it is the first, and it is of a stream.
    pub(crate) fn token_at(&mut self, now: Moment) -> Option<Duration> {
        let first = self.first_token.is_none();
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
        self.burden.prompt_is_in();
        (first && !self.is_beside()).then(|| now.saturating_sub(self.queue_key.arrived))
    }

    /// Whether a step has had a part of it.
    pub(crate) fn has_begun(&self) -> bool {
        self.first_step.is_some()
    }

    /// Whether it is of nobody's stream.
    pub(crate) fn is_beside(&self) -> bool {
        self.queue_key.class >= CLASS_BESIDE
    }

    /// What counters tell it from others by: whether it is of nobody's stream, and its low-rank adapter.
    pub(crate) fn counted_as(&self) -> (bool, u32) {
        (self.is_beside(), self.lora)
    }

    /// The device was lost in a step with it; whether it may be tried once more. Alone in the step, it may once; with
    /// others, one of them may be to blame.
    pub(crate) fn lost(&mut self, alone: bool) -> bool {
        self.faults += 1;
        self.faults <= if alone { 1 } else { MOST_FAULTS }
    }

    /// Whether its deadline has passed.
    pub(crate) fn is_late(&self, now: Moment) -> bool {
        self.queue_key
            .deadline
            .is_some_and(|deadline| deadline <= now)
    }

    /// Ends it with what was made.
    pub(crate) fn done(mut self, made: Made) {
        let between = |from: Option<Moment>, to: Option<Moment>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_sub(from),
            _ => Duration::ZERO,
        };
        let timings = Timings {
            queued: between(Some(self.queue_key.arrived), self.first_step),
            prefill: between(self.first_step, self.first_token),
            decode: between(self.first_token, self.last_token),
        };
        let adapter = self.adapters();
        self.lets_go();
        self.reply.done(Ok(Answer {
            made,
            prompt_tokens: u32::try_from(self.prompt_tokens).unwrap_or(u32::MAX),
            adapter,
            timings,
        }));
    }

    /// Ends it without.
    pub(crate) fn fail(mut self, error: ModelError) {
        self.lets_go();
        self.reply.done(Err(error));
    }

    /// Gives back its place and its part of what its replica has to do: whoever hears of its end may count on both.
    fn lets_go(&mut self) {
        self.permit = None;
        self.burden.is_done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_the_stream_takes_none_of_its_places_and_a_share_at_most() {
        let places = Places::new(8);
        let beside: Vec<Permit> = std::iter::from_fn(|| places.take(CLASS_BESIDE)).collect();
        assert_eq!((beside.len(), places.limit(CLASS_BESIDE)), (2, 2));
        let stream: Vec<Permit> = (0..).map_while(|n| places.take(n % CLASS_BESIDE)).collect();
        assert_eq!((stream.len(), places.limit(0)), (8, 8));
        assert_eq!(places.by_class(), [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 2]);
        drop(stream);
        assert!(places.take(CLASS_BESIDE).is_none());
        drop(beside);
        assert!(places.take(CLASS_BESIDE).is_some());
        assert!(Places::new(1).take(CLASS_BESIDE).is_some());
    }
}
