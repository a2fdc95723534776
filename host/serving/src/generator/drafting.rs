//! When the draft model is asked, and what becomes of one that fails.
//!
//! A draft that fails a step costs guesses and never an answer: those it would have made are looked up meanwhile. It
//! rests for some steps of its model and is asked again; where it is of no more use it is loaded again, beside the model
//! that goes on. One that fails time after time is left out for good.

use tidegate_contract::DecodeError;

use super::DraftModel;

/// Steps of the model for which a draft that failed rests; each further failure in a row doubles them.
const REST: u32 = 64;
/// Failures in a row after which it is not asked again.
const MOST_FAILURES: u32 = 6;
/// Times in a row that it guesses without failing until its failures are forgotten.
const FORGIVEN: u32 = 256;

/// The draft model of a generator, if it has one.
#[derive(Default)]
pub(crate) struct Drafting {
    draft: Option<Box<DraftModel>>,
    /// The model came with a draft: it can be loaded again.
    wanted: bool,
    /// The loader has been asked for it.
    asked: bool,
    /// In a row.
    failures: u32,
    /// Steps until it is asked again.
    rest: u32,
    /// Times it guessed since it failed last.
    well: u32,
    /// It was lost, and no step of the model has gone well since.
    took_along: bool,
}

impl Drafting {
    pub(super) fn new(draft: Option<Box<DraftModel>>) -> Drafting {
        Drafting {
            wanted: draft.is_some(),
            draft,
            ..Drafting::default()
        }
    }

    /// Whether it can be asked now.
    pub(super) fn is_ready(&self) -> bool {
        self.draft.is_some() && self.rest == 0
    }

    /// The draft, to be asked.
    pub(super) fn ready(&mut self) -> Option<&mut DraftModel> {
        match self.rest {
            0 => self.draft.as_deref_mut(),
            _ => None,
        }
    }

    /// A sequence has lost its blocks or ended.
    pub(super) fn forget(&mut self, key: u64) {
        if let Some(draft) = &mut self.draft {
            draft.forget(key);
        }
    }

    /// Of a sequence's tokens the first `written` were right.
    pub(super) fn keep(&mut self, key: u64, written: usize) {
        if let Some(draft) = &mut self.draft {
            draft.keep(key, written);
        }
    }

    /// A step of the model is done.
    pub(super) fn rests(&mut self) {
        self.took_along = false;
        self.rest = self.rest.saturating_sub(1);
    }

    /// It guessed without failing.
    pub(super) fn did_well(&mut self) {
        self.well = self.well.saturating_add(1);
        if self.well >= FORGIVEN {
            self.failures = 0;
        }
    }

    /// It failed a step.
    pub(super) fn failed(&mut self, error: &DecodeError) {
        if error.is_fatal() {
            self.draft = None;
            self.took_along = true;
        } else if let Some(draft) = &mut self.draft {
            draft.forget_all();
        }
        self.count_failure(&error.to_string());
    }

    fn count_failure(&mut self, reason: &str) {
        self.well = 0;
        self.failures += 1;
        if self.failures >= MOST_FAILURES {
            self.draft = None;
            self.wanted = false;
            tracing::error!(%reason, failures = self.failures, "the draft model is left out: answers are made without it");
            return;
        }
        self.rest = REST << (self.failures - 1);
        tracing::warn!(%reason, failures = self.failures, steps = self.rest, "the draft model failed; it is asked again after some steps");
    }

    /// Whether there is one, or could be again.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether it is to be loaded again, beside its model.
    pub(super) fn is_missing(&self) -> bool {
        self.wanted && !self.asked && self.draft.is_none() && self.rest == 0
    }

    /// The loader has been asked.
    pub(super) fn is_asked_for(&mut self) {
        self.asked = true;
    }

    /// The loader has an answer: the draft, or why it could not be loaded, or nothing that is of use.
    pub(super) fn loaded(&mut self, draft: Option<Result<Box<DraftModel>, String>>) {
        self.asked = false;
        match draft {
            None => {}
            Some(Ok(draft)) => {
                tracing::warn!("the draft model was loaded again");
                self.draft = Some(draft);
            }
            Some(Err(reason)) => self.count_failure(&reason),
        }
    }

    /// The device is gone, and the draft with it; whether it was the draft that was lost first, so that nobody in the
    /// model's step is to blame.
    pub(super) fn lost(&mut self) -> bool {
        self.draft = None;
        std::mem::take(&mut self.took_along)
    }

    /// The model was loaded again, with its draft if that could be loaded too. One that had failed still rests: it may
    /// be what took the device down.
    pub(super) fn restored(&mut self, draft: Option<Box<DraftModel>>) {
        if !self.wanted {
            return;
        }
        if draft.is_none() {
            self.count_failure("it could not be loaded with its model");
        }
        self.draft = draft;
    }

    #[cfg(test)]
    pub(super) fn check(&self, runs: impl Fn(u64) -> bool) {
        if let Some(draft) = &self.draft {
            draft.check(runs);
        }
        assert!(self.failures < MOST_FAILURES || (self.draft.is_none() && !self.wanted));
    }
}
