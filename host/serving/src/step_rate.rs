//! What is left of a request, and how long that takes.

use std::time::Duration;

/// What a request still needs when it is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Tokens to be written before the next one can be drawn; those of kept blocks are among them, as such blocks come
    /// and go while it waits.
    pub(crate) rows: usize,
    /// Tokens to be drawn at the most: where an answer ends before its limit is not known.
    pub(crate) tokens: usize,
}

/// How fast work goes at the moment: `steps * seconds of a step + rows * seconds of a row`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StepRate {
    /// A step with the answers that are in the making, without prompts.
    pub(crate) step_seconds: f64,
    /// What a row of a prompt adds.
    pub(crate) row_seconds: f64,
    /// Rows of prompts that a step takes.
    pub(crate) rows_per_step: usize,
}

impl StepRate {
    /// How long it takes: the steps of the prompt, the last of which draws the first token, a step for each further one,
    /// and the prompt's rows. Zero by the default rate, before anything was measured.
    pub(crate) fn time_for(&self, remaining: Remaining) -> Duration {
        let prompt = remaining.rows.div_ceil(self.rows_per_step.max(1));
        let steps = prompt.saturating_add(remaining.tokens.saturating_sub(1));
        let seconds = steps as f64 * self.step_seconds + remaining.rows as f64 * self.row_seconds;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_the_steps_of_the_prompt_and_of_the_tokens_and_the_rows() {
        let step_rate = StepRate {
            step_seconds: 0.01,
            row_seconds: 0.001,
            rows_per_step: 32,
        };
        let time = |rows, tokens| step_rate.time_for(Remaining { rows, tokens }).as_micros();
        assert_eq!(time(1, 1), 11_000);
        assert_eq!(time(32, 1), 42_000);
        assert_eq!(time(33, 1), 53_000);
        assert_eq!(time(33, 11), 153_000);
        // What is more than a time can be is the longest time, and nothing measured is no work.
        let slow = StepRate {
            step_seconds: 100.0,
            ..step_rate
        };
        let all = Remaining {
            rows: usize::MAX,
            tokens: usize::MAX,
        };
        assert_eq!(slow.time_for(all), Duration::MAX);
        assert_eq!(StepRate::default().time_for(all), Duration::ZERO);
    }
}
