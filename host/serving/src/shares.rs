//! Whose turn it is among the models of an adapter.

use std::collections::HashMap;
use std::time::Duration;

/// Equal shares of the adapter's time for all models with work: start-time fair queueing (Goyal, Vin and Cheng 1996),
/// a step being a packet and its time its length.
///
/// While a model has work, no other gets more time than it does by more than one step of each.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// When, in virtual time, each model's next step may begin.
    tags: HashMap<u64, Duration>,
    /// Who had work at the last choice.
    ready: Vec<u64>,
    /// The tag of the last choice.
    clock: Duration,
}

impl Shares {
    /// Chooses among those with work; of equals the first.
    pub(crate) fn choose(&mut self, ready: &[u64]) -> Option<u64> {
        for model in ready {
            let tag = self.tags.entry(*model).or_default();
            if !self.ready.contains(model) {
                // Who had no work has saved nothing up.
                *tag = (*tag).max(self.clock);
            }
        }
        self.ready = ready.to_vec();
        let chosen = ready
            .iter()
            .min_by_key(|model| self.tags.get(model))
            .copied()?;
        self.clock = self.tags.get(&chosen).copied().unwrap_or_default();
        Some(chosen)
    }

    /// The chosen model's step took so long.
    pub(crate) fn charge(&mut self, model: u64, took: Duration) {
        *self.tags.entry(model).or_default() += took;
    }

    /// The model is gone.
    pub(crate) fn forget(&mut self, model: u64) {
        self.tags.remove(&model);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_model_with_work_falls_behind_by_more_than_a_step_of_each(
            steps in proptest::collection::vec(1u64..100, 3..200), idle in proptest::collection::vec(any::<bool>(), 200),
        ) {
            let mut shares = Shares::default();
            // Model 0 always has work, 1 too, 2 now and then.
            let mut time = [0u64; 3];
            for (place, took) in steps.iter().enumerate() {
                let ready: &[u64] = if idle[place] { &[0, 1] } else { &[0, 1, 2] };
                let chosen = shares.choose(ready).unwrap();
                prop_assert!(ready.contains(&chosen));
                shares.charge(chosen, Duration::from_millis(*took));
                time[chosen as usize] += took;
                prop_assert!(time[0].abs_diff(time[1]) <= 100);
                // Time without work is not made up for.
                prop_assert!(time[2] <= time[0].max(time[1]) + 100);
            }
        }
    }

    #[test]
    fn a_model_that_joins_late_gets_its_share_from_then_on_only() {
        let mut shares = Shares::default();
        for _ in 0..100 {
            assert_eq!(shares.choose(&[7]), Some(7));
            shares.charge(7, Duration::from_millis(10));
        }
        let mut turns = [0; 2];
        for _ in 0..20 {
            let chosen = shares.choose(&[7, 8]).unwrap();
            turns[chosen as usize - 7] += 1;
            shares.charge(chosen, Duration::from_millis(10));
        }
        assert!(turns[0] >= 9, "{turns:?}");
        assert_eq!(shares.choose(&[]), None);
    }
}
