//! Records whose model has no answer: which of them are asked again, and what becomes of that which was shown.

use std::time::{Duration, Instant};

use tidegate_contract::ModelError;
use tidegate_telemetry::events::ModelFailed;

use super::Task;
use crate::asked;
use crate::entry::State;
use crate::output::Output;
use crate::topology::ModelStage;

/// The longest that another server may put a record off whose stage has no deadline: its lane, and in the end its
/// partition, waits for it.
const LONGEST_PUT_OFF: Duration = Duration::from_secs(600);

/// How a record is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// The request was not made, or not to its end, and goes on from its tokens: this was no attempt.
    GoesOn,
    /// This was an attempt, and the next one goes on from its tokens.
    Attempt,
    /// From this time on: one that was put off was not made.
    PutOff(Instant),
    /// Its model was given up, and the stage's own is asked in its place.
    OwnModel,
}

impl Task {
    /// Has a record wait to be asked again after its model has said that it has no answer; false if it is not, and ends.
    ///
    /// One rule holds for every reason: where something was shown that the tokens do not bring again, the model may say
    /// something else. Then the record ends if whoever was shown it cannot forget it, and otherwise the answer is shown
    /// from its beginning, as another attempt.
    pub(crate) fn ask_again(
        &mut self,
        kind: &ModelStage,
        stage: usize,
        number: u64,
        error: &ModelError,
        output: &mut Output,
    ) -> bool {
        let Some(again) = self.again(kind, stage, number, error) else {
            return false;
        };
        let comes_again = again != Again::OwnModel && self.tokens_cover(stage, number);
        if !comes_again && !self.may_begin_anew(stage, number) {
            return false;
        }
        let entry = self.waiting[stage].get(number);
        let own = match again {
            Again::OwnModel => entry.and_then(|entry| asked::wants_own_model(kind, entry)),
            _ => None,
        };
        let attempt = self.waiting[stage].change(number, |entry| {
            entry.attempt += u32::from(again == Again::Attempt);
            if matches!(again, Again::PutOff(_)) {
                // One that was put off was not made.
                entry.put_off = entry.put_off.or(Some(Instant::now()));
            }
            entry.state = match again {
                Again::PutOff(due) => State::Delayed(due),
                _ => State::Queued,
            };
            if let Some(own) = own {
                (entry.wants, entry.asked) = (Some(own), None);
            }
            entry.attempt
        });
        if again != Again::GoesOn {
            let attempt = attempt.unwrap_or_default();
            self.count_again(stage, number, attempt, &error.to_string(), output);
        }
        true
    }

    /// Has a record wait to be asked again whose handlers cannot go on from what was shown of its answer: it is shown from
    /// its beginning, as another attempt. False if it is not, and ends.
    pub(super) fn show_anew(
        &mut self,
        kind: &ModelStage,
        stage: usize,
        number: u64,
        why: &str,
        output: &mut Output,
    ) -> bool {
        let entry = self.waiting[stage].get(number);
        let is_more = entry.is_some_and(|entry| entry.attempt + 1 < kind.attempts);
        if !is_more || !self.may_begin_anew(stage, number) {
            return false;
        }
        let attempt = self.waiting[stage].change(number, |entry| {
            entry.attempt += 1;
            entry.state = State::Queued;
            entry.attempt
        });
        self.count_again(stage, number, attempt.unwrap_or_default(), why, output);
        true
    }

    /// A try has come to nothing, and there is another.
    fn count_again(
        &self,
        stage: usize,
        number: u64,
        attempt: u32,
        reason: &str,
        output: &mut Output,
    ) {
        let entry = self.waiting[stage].get(number);
        output.counts.requests += 1;
        output.counts.failed += 1;
        output.counts.retried += 1;
        ModelFailed {
            stage,
            trace: entry.and_then(|entry| output.traces.of_entry(entry)),
            attempt,
            again: true,
            reason,
        }
        .emit(&output.meters);
    }

    /// How a record might be asked again, whatever was shown of its answer; none if it is not.
    fn again(
        &self,
        kind: &ModelStage,
        stage: usize,
        number: u64,
        error: &ModelError,
    ) -> Option<Again> {
        let entry = self.waiting[stage].get(number)?;
        let is_more = entry.attempt + 1 < kind.attempts;
        match error {
            // Unloaded, or left alone, with the record in its queue.
            ModelError::Unknown(_) | ModelError::Full { .. } => Some(Again::GoesOn),
            ModelError::Expired { .. } | ModelError::Hopeless { .. } => {
                self.has_longer(stage, number).then_some(Again::GoesOn)
            }
            ModelError::Remote {
                again: true,
                after: Some(after),
                ..
            } => {
                let due = Instant::now() + *after;
                // Whoever waits hears at once that it will not be in time.
                self.waits_until(kind, stage, number, due)
                    .then_some(Again::PutOff(due))
            }
            ModelError::Device(_) | ModelError::Remote { again: true, .. } => {
                is_more.then_some(Again::Attempt)
            }
            ModelError::Closed | ModelError::Cancelled => asked::which(kind, entry)
                .is_some()
                .then_some(Again::OwnModel),
            _ => None,
        }
    }

    /// Another model is asked from now on, which does not go on with the tokens so far. False if somebody was shown an
    /// answer that it cannot go on with.
    pub(crate) fn goes_to(&mut self, stage: usize, number: u64, digest: &str) -> bool {
        let may = self.may_begin_anew(stage, number);
        if may {
            self.waiting[stage].change(number, |entry| entry.goes_to(digest));
        }
        may
    }

    /// Whether what was shown of an answer comes again with the tokens that are there.
    fn tokens_cover(&mut self, stage: usize, number: u64) -> bool {
        let entry = self.waiting[stage].get(number);
        let tokens = entry.map_or(0, |entry| entry.tokens.len());
        match self.waiting[stage].showing(number) {
            Some(Some(showing)) => showing.shown_tokens() <= tokens,
            _ => true,
        }
    }

    /// What was shown of an answer counts no more; false if that cannot be taken back.
    fn may_begin_anew(&mut self, stage: usize, number: u64) -> bool {
        match self.waiting[stage].showing(number) {
            Some(Some(showing)) => showing.begin_anew(),
            _ => true,
        }
    }

    /// Whether the caller of an entry waits longer by now than the model was told.
    fn has_longer(&self, stage: usize, number: u64) -> bool {
        let told = self.waiting[stage]
            .get(number)
            .and_then(|entry| entry.until);
        told.is_some_and(|until| {
            let later = |deadline| deadline > until && deadline > Instant::now();
            self.caller_waits(stage, number)
                .is_some_and(|deadline| deadline.is_none_or(later))
        })
    }

    /// Whether whoever waits for an entry still does then.
    fn waits_until(&self, kind: &ModelStage, stage: usize, number: u64, due: Instant) -> bool {
        let first = self.waiting[stage]
            .get(number)
            .and_then(|entry| entry.put_off);
        // A server may put it off again and again, and those behind it wait.
        let longest = first.unwrap_or_else(Instant::now) + kind.deadline.unwrap_or(LONGEST_PUT_OFF);
        due < self
            .caller_waits(stage, number)
            .flatten()
            .unwrap_or(longest)
    }

    /// The deadline of the caller of an entry, if it has a caller, and that one a deadline.
    fn caller_waits(&self, stage: usize, number: u64) -> Option<Option<Instant>> {
        let callers = self.topology.callers_of(self.partition.source)?;
        let id = self.waiting[stage].get(number)?.view()?.id();
        Some(callers.terms(id.into())?.deadline)
    }
}

/// Why a record has no answer; what ends by a deadline names the one of the stage.
pub(super) fn refusal(error: &ModelError, deadline: Option<Duration>) -> String {
    match (error, deadline) {
        (ModelError::Expired { .. } | ModelError::Hopeless { .. }, Some(deadline)) => {
            format!("{error}; the stage's is {deadline:?} from asking")
        }
        _ => error.to_string(),
    }
}
