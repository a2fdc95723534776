//! Which tokens stand in prompt and answer, for penalties and bias.

use std::collections::BTreeMap;

use tidegate_contract::{Adjustment, Parameters};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    in_prompt: bool,
    count: u32,
    bias: f32,
}

/// Kept up with every token, so that a step costs what changed.
#[derive(Debug)]
pub(crate) struct Counts {
    entries: BTreeMap<u32, Entry>,
    /// Whether any penalty asks for counts of the answer.
    of_answer: bool,
}

impl Counts {
    /// Counts what `parameters` need to know of a prompt, and of an answer that is still empty.
    pub(crate) fn new(parameters: &Parameters, prompt: &[u32]) -> Counts {
        let repetition = parameters.repetition_penalty != 1.0;
        let mut entries: BTreeMap<u32, Entry> = BTreeMap::new();
        if repetition {
            for token in prompt {
                entries.entry(*token).or_default().in_prompt = true;
            }
        }
        for (token, bias) in &parameters.logit_bias {
            entries.entry(*token).or_default().bias = *bias;
        }
        Counts {
            entries,
            of_answer: repetition
                || parameters.presence_penalty != 0.0
                || parameters.frequency_penalty != 0.0,
        }
    }

    /// A token joins the answer.
    pub(crate) fn add(&mut self, token: u32) {
        if self.of_answer {
            self.entries.entry(token).or_default().count += 1;
        }
    }

    /// The last occurrence of a token that was added leaves the answer.
    pub(crate) fn remove(&mut self, token: u32) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.count = entry.count.saturating_sub(1);
            if *entry == Entry::default() {
                self.entries.remove(&token);
            }
        }
    }

    /// What changes logits now; ascending by token.
    pub(crate) fn adjustments(&self) -> Vec<Adjustment> {
        let adjustment = |(token, entry): (&u32, &Entry)| Adjustment {
            token: *token,
            count: entry.count,
            seen: entry.in_prompt || entry.count > 0,
            bias: entry.bias,
        };
        self.entries.iter().map(adjustment).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_that_nobody_asks_for() {
        let mut counts = Counts::new(&Parameters::default(), &[1, 2, 3]);
        counts.add(4);
        counts.remove(4);
        assert_eq!(counts.adjustments(), []);
    }

    #[test]
    fn prompt_answer_and_bias_come_together_ascending() {
        let parameters = Parameters {
            repetition_penalty: 1.2,
            logit_bias: vec![(5, -1.0), (2, 2.0)],
            ..Parameters::default()
        };
        let mut counts = Counts::new(&parameters, &[9, 2, 9]);
        counts.add(5);
        counts.add(5);
        counts.add(7);
        let of = |token, count, seen, bias| Adjustment {
            token,
            count,
            seen,
            bias,
        };
        let wanted = [
            of(2, 0, true, 2.0),
            of(5, 2, true, -1.0),
            of(7, 1, true, 0.0),
            of(9, 0, true, 0.0),
        ];
        assert_eq!(counts.adjustments(), wanted);
        // Guesses that were wrong leave no trace.
        counts.add(1);
        counts.add(9);
        counts.remove(9);
        counts.remove(1);
        assert_eq!(counts.adjustments(), wanted);
    }

    #[test]
    fn presence_and_frequency_look_at_the_answer_only() {
        let parameters = Parameters {
            frequency_penalty: 0.5,
            ..Parameters::default()
        };
        let mut counts = Counts::new(&parameters, &[1, 2]);
        counts.add(2);
        let adjustments = counts.adjustments();
        assert_eq!(adjustments.len(), 1);
        assert_eq!((adjustments[0].token, adjustments[0].count), (2, 1));
    }
}
