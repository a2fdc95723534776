//! What a failed step means for those who were in it.

use std::collections::HashSet;

use tidegate_contract::{DecodeError, Decoder, ModelError};

use super::step_plan::StepPlan;
use super::{DraftModel, Generator};
use crate::blocks::Blocks;
use crate::sequence::Sequence;
use crate::stats::Counters;

/// Steps of one sequence that fail one after another before the decoder is to blame.
const ALONE: u32 = 3;

/// Whether the decoder can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can.
    GoesOn,
    /// It is of no more use and must be loaded again.
    Reload,
}

/// Who is to be tried apart, after a step failed without a known culprit: halves of halves, until one is alone.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    stack: Vec<Vec<u64>>,
    alone: u32,
}

impl Groups {
    /// Who may take part in the next step; everybody if `None`. A group waits while none of it runs, and is gone when
    /// none of it exists.
    pub(crate) fn next(
        &mut self,
        exists: impl Fn(u64) -> bool,
        runs: impl Fn(u64) -> bool,
    ) -> Option<HashSet<u64>> {
        for group in &mut self.stack {
            group.retain(|key| exists(*key));
        }
        self.stack.retain(|group| !group.is_empty());
        let running = |group: &&Vec<u64>| group.iter().any(|key| runs(*key));
        let group = self.stack.iter().rev().find(running)?;
        Some(group.iter().copied().collect())
    }

    /// Whether nobody is to be tried apart.
    pub(crate) fn are_settled(&self) -> bool {
        self.stack.is_empty() && self.alone == 0
    }

    /// A step of these went well.
    pub(crate) fn succeeded(&mut self, keys: impl Iterator<Item = u64>) {
        self.alone = 0;
        if !self.stack.is_empty() {
            self.leave(&keys.collect());
        }
    }

    /// A step of these failed: the culprit, if it is one alone, and whether there have been too many.
    pub(crate) fn failed(&mut self, mut keys: Vec<u64>) -> (Option<u64>, Verdict) {
        self.leave(&keys.iter().copied().collect());
        if let [culprit] = keys[..] {
            self.alone += 1;
            let verdict = match self.alone >= ALONE {
                true => Verdict::Reload,
                false => Verdict::GoesOn,
            };
            return (Some(culprit), verdict);
        }
        let rest = keys.split_off(keys.len() / 2);
        self.stack.push(rest);
        self.stack.push(keys);
        (None, Verdict::GoesOn)
    }

    /// Those who were to be tried apart; nobody is any more.
    pub(crate) fn take(&mut self) -> HashSet<u64> {
        self.alone = 0;
        std::mem::take(&mut self.stack)
            .into_iter()
            .flatten()
            .collect()
    }

    /// Those who are to be tried apart.
    pub(crate) fn keys(&self) -> HashSet<u64> {
        self.stack.iter().flatten().copied().collect()
    }

    fn leave(&mut self, keys: &HashSet<u64>) {
        for group in &mut self.stack {
            group.retain(|key| !keys.contains(key));
        }
    }

    /// The decoder was lost in a step of these: each is to be tried alone, and before those who were to be tried
    /// already.
    pub(crate) fn apart(&mut self, keys: &[u64]) {
        self.alone = 0;
        self.leave(&keys.iter().copied().collect());
        self.stack.extend(keys.iter().rev().map(|key| vec![*key]));
    }
}

impl Generator {
    /// The decoder refused or failed the step of `plan`. Nothing of it has happened: the tokens are as they were.
    pub(crate) fn failed(&mut self, plan: &StepPlan, error: &DecodeError) -> Verdict {
        Counters::add(&self.counters.failed_steps, 1);
        self.in_steps.clear();
        if error.is_fatal() {
            return Verdict::Reload;
        }
        let (culprit, verdict) = match error {
            DecodeError::Refused { sequence, .. } if *sequence < plan.parts.len() => {
                (Some(plan.parts[*sequence].key), Verdict::GoesOn)
            }
            _ => self
                .groups
                .failed(plan.parts.iter().map(|part| part.key).collect()),
        };
        if let Some(index) = culprit.and_then(|key| self.index_of(key)) {
            let request = self.running[index].request;
            self.fail(request, ModelError::Device(error.to_string()));
        }
        verdict
    }

    /// The decoder is gone, and all blocks with it: who ran is queued again with its tokens. Who was in the step, and
    /// has been in too many that ended like this, fails ([`crate::request::Open::lost`]); the others of the step are
    /// tried alone at first, so that one that does this to every decoder takes no other along. Where the draft was lost
    /// just before, it is to blame and none of them. Where the step after it was begun too, either may be to blame.
    pub(crate) fn lost(&mut self, plan: &StepPlan, after: Option<&StepPlan>, reason: &str) {
        for index in (0..self.running.len()).rev() {
            self.preempt(index);
        }
        self.blocks = Blocks::new(self.shape.blocks).known_to(self.known.as_ref());
        self.pinned.clear();
        let by_draft = self.draft.lost();
        let parts = || {
            plan.parts
                .iter()
                .chain(after.iter().flat_map(|after| &after.parts))
        };
        let stepped = |sequence: &&Sequence| parts().any(|part| part.key == sequence.key);
        let mut requests: Vec<u64> = self
            .waiting
            .values()
            .filter(stepped)
            .map(|sequence| sequence.request)
            .collect();
        requests.sort_unstable();
        requests.dedup();
        let alone = requests.len() == 1;
        for request in requests {
            let goes_on = match self.requests.get_mut(&request) {
                Some(generation) => by_draft || generation.open.lost(alone),
                None => continue,
            };
            if goes_on {
                Counters::add(&self.counters.retried, 1);
            } else {
                self.fail(request, ModelError::Device(reason.to_owned()));
            }
        }
        if !by_draft {
            let mut keys: Vec<u64> = Vec::new();
            for part in parts() {
                if !keys.contains(&part.key) {
                    keys.push(part.key);
                }
            }
            self.groups.apart(&keys);
        }
    }

    /// The decoder was loaded again, and has computed what is pinned. False if it is not the one it was: nothing that is queued could be relied on.
    pub(crate) fn restored(
        &mut self,
        decoder: &dyn Decoder,
        draft: Option<Box<DraftModel>>,
    ) -> bool {
        self.draft.restored(draft);
        self.pinned = self.pins.take(&mut self.blocks);
        decoder.shape() == &self.shape
    }

    /// Whether the model is to be loaded with its draft.
    pub(crate) fn wants_draft(&self) -> bool {
        self.draft.is_wanted()
    }

    /// Whether the draft is to be loaded again, and which vocabulary it must have.
    pub(crate) fn misses_draft(&self) -> Option<usize> {
        self.draft.is_missing().then_some(self.shape.vocabulary)
    }

    /// The loader has been asked for the draft.
    pub(crate) fn draft_is_asked_for(&mut self) {
        self.draft.is_asked_for();
    }

    /// What the loader has to say of the draft; `None` if that is of no use any more.
    pub(crate) fn draft_loaded(&mut self, draft: Option<Result<Box<DraftModel>, String>>) {
        match draft {
            Some(Ok(_)) => Counters::add(&self.counters.draft_reloads, 1),
            Some(Err(_)) => Counters::add(&self.counters.draft_failures, 1),
            None => {}
        }
        self.draft.loaded(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_halves_find_the_one_that_fails() {
        let everyone: Vec<u64> = (1..=9).collect();
        let mut groups = Groups::default();
        let mut found = Vec::new();
        let mut step = everyone.clone();
        for _ in 0..40 {
            if step.contains(&6) && !found.contains(&6) {
                let (culprit, verdict) = groups.failed(step.clone());
                assert_eq!(verdict, Verdict::GoesOn);
                found.extend(culprit);
            } else {
                groups.succeeded(step.iter().copied());
            }
            match groups.next(|key| !found.contains(&key), |_| true) {
                Some(group) => step = group.into_iter().collect(),
                None => break,
            }
        }
        assert_eq!(found, [6]);
        assert_eq!(groups.next(|_| true, |_| true), None);
    }

    #[test]
    fn who_is_to_be_tried_alone_keeps_its_turn_while_it_waits() {
        let mut groups = Groups::default();
        groups.apart(&[1, 2, 3]);
        let only = |key: u64| Some(HashSet::from([key]));
        // 1 has no blocks yet: 2 goes first, and 1 when it runs.
        assert_eq!(groups.next(|_| true, |key| key > 1), only(2));
        groups.succeeded([2].into_iter());
        assert_eq!(groups.next(|_| true, |_| true), only(1));
        assert_eq!(groups.next(|key| key == 3, |_| true), only(3));
        // Others may go on while none of them runs.
        assert_eq!(groups.next(|_| true, |_| false), None);
        assert_eq!(groups.next(|_| true, |_| true), only(3));
    }

    #[test]
    fn a_decoder_that_fails_everyone_is_to_blame() {
        let mut groups = Groups::default();
        let mut step: Vec<u64> = (0..8).collect();
        let mut gone = HashSet::new();
        loop {
            let (culprit, verdict) = groups.failed(step.clone());
            gone.extend(culprit);
            if verdict == Verdict::Reload {
                break;
            }
            let group = groups.next(|key| !gone.contains(&key), |_| true);
            step = group.unwrap().into_iter().collect();
            step.sort_unstable();
        }
        assert_eq!(gone.len(), 3);
    }
}
