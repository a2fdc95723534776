//! Tokens guessed ahead: what to guess from a text itself, and how many.

use crate::costs::{StepCosts, StepSize};

/// Longest ending of the text that is looked for earlier in it.
const LONGEST: usize = 8;
/// Shortest.
const SHORTEST: usize = 2;
/// Share of the newest guess in the rate.
const NEWEST: f64 = 0.125;
/// The rate before anything is known.
const UNKNOWN: f64 = 0.6;
/// Below this rate guessing stops.
const POOR: f64 = 0.15;
/// Tokens without guesses after that, then it is tried again.
const PAUSE: u32 = 48;
/// The rate it is tried again with.
const AGAIN: f64 = 0.4;

/// Tokens that followed the longest earlier occurrence of the text's ending, of equals the latest; at most `most`.
///
/// Source: prompt lookup decoding (Saxena 2023), over prompt and answer.
pub(crate) fn look_up(tokens: &[u32], most: usize) -> &[u32] {
    let length = tokens.len();
    let (mut longest, mut at) = (SHORTEST - 1, None);
    for end in (SHORTEST..length).rev() {
        if tokens[end - 1] != tokens[length - 1] {
            continue;
        }
        let alike = (1..=LONGEST.min(end))
            .take_while(|back| tokens[end - back] == tokens[length - back])
            .count();
        if alike > longest {
            (longest, at) = (alike, Some(end));
            if alike == LONGEST {
                break;
            }
        }
    }
    match at {
        Some(end) => &tokens[end..length.min(end + most)],
        None => &[],
    }
}

/// How well a sequence's guesses have done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuessRate {
    rate: f64,
    pause: u32,
}

impl Default for GuessRate {
    fn default() -> Self {
        GuessRate {
            rate: UNKNOWN,
            pause: 0,
        }
    }
}

impl GuessRate {
    /// Learns that of `tried` guesses the first `right` were right.
    pub(crate) fn learn(&mut self, tried: usize, right: usize) {
        // What comes after the first wrong guess says nothing.
        for guess in 0..tried.min(right + 1) {
            let hit = if guess < right { 1.0 } else { 0.0 };
            self.rate += NEWEST * (hit - self.rate);
        }
        if self.rate < POOR {
            self.pause = PAUSE;
            self.rate = AGAIN;
        }
    }

    /// A step without guesses.
    pub(crate) fn rest(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// How many tokens are worth guessing after a position, beside the rows of `step`: the number with the most expected
    /// tokens for the time of a step (Leviathan et al. 2023), where that time is known, and hoped to be good where it could be.
    pub(crate) fn wanted(
        &self,
        most: usize,
        step: StepSize,
        position: usize,
        costs: &StepCosts,
    ) -> usize {
        if self.pause > 0 {
            return 0;
        }
        let Some(alone) = costs.predict(step) else {
            return most.min(2);
        };
        let (mut best, mut value) = (0, 1.0 / alone.as_secs_f64().max(1e-9));
        let (mut tokens, mut chance) = (1.0, 1.0);
        for guesses in 1..=most {
            chance *= self.rate;
            tokens += chance;
            let Some(time) = costs.hope(step.with_answer(guesses, position)) else {
                break;
            };
            let worth = tokens / time.as_secs_f64().max(1e-9);
            if worth > value {
                (best, value) = (guesses, worth);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_longest_ending_then_the_latest_is_followed() {
        let text = [1, 2, 3, 9, 5, 2, 3, 8, 7, 1, 2, 3];
        assert_eq!(look_up(&text, 3), [9, 5, 2]);
        let text = [2, 3, 9, 2, 3, 8, 2, 3];
        assert_eq!(look_up(&text, 1), [8]);
        assert_eq!(look_up(&text, 9), [8, 2, 3]);
    }

    #[test]
    fn a_text_that_repeats_nothing_has_no_guess() {
        assert_eq!(look_up(&[1, 2, 3, 4], 4), [0u32; 0]);
        // One token alike is too little.
        assert_eq!(look_up(&[1, 2, 3, 1], 4), [0u32; 0]);
        assert_eq!(look_up(&[], 4), [0u32; 0]);
        assert_eq!(look_up(&[5, 5, 5], 4), [5]);
    }

    fn costs(fixed: u64, row: u64) -> StepCosts {
        let mut costs = StepCosts::default();
        for step in 0..40 {
            let decode = 1 + step % 9;
            costs.observe(
                StepSize::answers(decode),
                Duration::from_micros(fixed + row * decode as u64),
                Duration::ZERO,
            );
        }
        costs
    }

    #[test]
    fn where_rows_are_cheap_more_is_guessed() {
        let rate = GuessRate::default();
        let (cheap, dear) = (costs(5000, 10), costs(10, 5000));
        assert!(rate.wanted(8, StepSize::answers(1), 0, &cheap) >= 6);
        assert_eq!(rate.wanted(8, StepSize::answers(1), 0, &dear), 0);
        assert_eq!(
            rate.wanted(8, StepSize::answers(1), 0, &StepCosts::default()),
            2
        );
        assert_eq!(rate.wanted(0, StepSize::answers(1), 0, &cheap), 0);
    }

    /// Steps of one row, the first of which were slower than those of a prompt: it is not known what a row costs.
    #[test]
    fn row_counts_that_were_never_measured_are_tried_and_then_known() {
        let millis = Duration::from_millis;
        for (of_two, wanted) in [(6, 1), (12, 0)] {
            let mut costs = StepCosts::default();
            let prompt = StepSize::prompt(4, 0);
            costs.observe(prompt, millis(1), Duration::ZERO);
            for _ in 0..20 {
                costs.observe(StepSize::answers(1), millis(6), Duration::ZERO);
            }
            let rate = GuessRate::default();
            assert_eq!(rate.wanted(1, StepSize::answers(1), 0, &costs), 1);
            for _ in 0..4 {
                costs.observe(StepSize::answers(2), millis(of_two), Duration::ZERO);
            }
            assert_eq!(rate.wanted(1, StepSize::answers(1), 0, &costs), wanted);
        }
    }

    #[test]
    fn guesses_that_are_poor_stop_and_are_tried_again() {
        let cheap = costs(5000, 10);
        let mut rate = GuessRate::default();
        let mut wrong = 0;
        while rate.wanted(8, StepSize::answers(1), 0, &cheap) > 0 {
            rate.learn(4, 0);
            wrong += 1;
            assert!(wrong < 20);
        }
        for _ in 0..PAUSE {
            assert_eq!(rate.wanted(8, StepSize::answers(1), 0, &cheap), 0);
            rate.rest();
        }
        assert!(rate.wanted(8, StepSize::answers(1), 0, &cheap) > 0);
        let mut good = GuessRate::default();
        good.learn(8, 8);
        good.learn(8, 8);
        assert_eq!(good.wanted(8, StepSize::answers(1), 0, &cheap), 8);
    }
}
