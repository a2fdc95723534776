//! What parameters may be, wherever a model is: every room that takes them asks here.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use crate::ModelError;
use crate::decoder::MOST_LOGPROBS;
use crate::model::{MOST_STOPS, Parameters};

impl Parameters {
    /// What presence and frequency penalties may be.
    pub const PENALTIES: RangeInclusive<f32> = -2.0..=2.0;
    /// What is added to a logit.
    pub const BIASES: RangeInclusive<f32> = -100.0..=100.0;

    /// Whether every number is one that any model takes. What a model has no room for, it says itself.
    ///
    /// # Errors
    /// [`ModelError::Parameter`] with the first that is out of range.
    pub fn check_ranges(&self, most_choices: u32) -> Result<(), ModelError> {
        self.check_sampling()?;
        self.check_biases()?;
        if let Some(likeliest) = self.logprobs.filter(|count| *count > MOST_LOGPROBS) {
            let limit = format!("at most {MOST_LOGPROBS}");
            return Err(ModelError::parameter("logprobs", likeliest, limit));
        }
        if !(1..=most_choices).contains(&self.n) {
            let limit = format!("between 1 and {most_choices}");
            return Err(ModelError::parameter("n", self.n, limit));
        }
        if self.stop.len() > MOST_STOPS {
            let value = format!("{} strings", self.stop.len());
            let limit = format!("at most {MOST_STOPS}");
            return Err(ModelError::parameter("stop", value, limit));
        }
        Ok(())
    }

    fn check_sampling(&self) -> Result<(), ModelError> {
        let share = self.top_p > 0.0 && self.top_p <= 1.0;
        let penalty = |value| Self::PENALTIES.contains(&value);
        let (presence, frequency) = (self.presence_penalty, self.frequency_penalty);
        let heat = self.temperature;
        let least = self.min_p;
        let repetition = self.repetition_penalty;
        let numbers = [
            ("temperature", heat, heat >= 0.0, "finite and at least 0"),
            ("top_p", self.top_p, share, "above 0 and at most 1"),
            (
                "min_p",
                least,
                (0.0..1.0).contains(&least),
                "at least 0 and below 1",
            ),
            (
                "repetition_penalty",
                repetition,
                repetition > 0.0,
                "finite and above 0",
            ),
            (
                "presence_penalty",
                presence,
                penalty(presence),
                "between -2 and 2",
            ),
            (
                "frequency_penalty",
                frequency,
                penalty(frequency),
                "between -2 and 2",
            ),
        ];
        for (name, value, fits, limit) in numbers {
            if !(fits && value.is_finite()) {
                return Err(ModelError::parameter(name, value, limit));
            }
        }
        Ok(())
    }

    fn check_biases(&self) -> Result<(), ModelError> {
        let mut biased = HashSet::with_capacity(self.logit_bias.len());
        for (token, bias) in &self.logit_bias {
            if !Self::BIASES.contains(bias) {
                let limit = "between -100 and 100";
                return Err(ModelError::parameter("logit_bias", bias, limit));
            }
            if !biased.insert(*token) {
                let limit = "of each token once";
                return Err(ModelError::parameter("logit_bias", token, limit));
            }
        }
        Ok(())
    }
}

impl ModelError {
    /// A parameter that cannot be.
    pub fn parameter(
        name: &'static str,
        value: impl ToString,
        limit: impl Into<String>,
    ) -> ModelError {
        ModelError::Parameter {
            name,
            value: value.to_string(),
            limit: limit.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Parameters);

    #[test]
    fn what_is_out_of_range_is_named_with_value_and_limit() {
        let cases: [(Change, &str); 15] = [
            (
                |p| p.temperature = -0.5,
                "temperature is -0.5, must be finite and at least 0",
            ),
            (
                |p| p.temperature = f32::NAN,
                "temperature is NaN, must be finite and at least 0",
            ),
            (
                |p| p.top_p = 0.0,
                "top_p is 0, must be above 0 and at most 1",
            ),
            (
                |p| p.top_p = 1.5,
                "top_p is 1.5, must be above 0 and at most 1",
            ),
            (
                |p| p.min_p = 1.0,
                "min_p is 1, must be at least 0 and below 1",
            ),
            (
                |p| p.repetition_penalty = 0.0,
                "repetition_penalty is 0, must be finite and above 0",
            ),
            (
                |p| p.repetition_penalty = f32::INFINITY,
                "repetition_penalty is inf, must be finite and above 0",
            ),
            (
                |p| p.presence_penalty = 2.5,
                "presence_penalty is 2.5, must be between -2 and 2",
            ),
            (
                |p| p.frequency_penalty = f32::NAN,
                "frequency_penalty is NaN, must be between -2 and 2",
            ),
            (
                |p| p.logit_bias = vec![(1, 101.0)],
                "logit_bias is 101, must be between -100 and 100",
            ),
            (
                |p| p.logit_bias = vec![(1, 1.0), (1, 2.0)],
                "logit_bias is 1, must be of each token once",
            ),
            (
                |p| p.logprobs = Some(21),
                "logprobs is 21, must be at most 20",
            ),
            (|p| p.n = 0, "n is 0, must be between 1 and 4"),
            (|p| p.n = 5, "n is 5, must be between 1 and 4"),
            (
                |p| p.stop = vec!["x".into(); 65],
                "stop is 65 strings, must be at most 64",
            ),
        ];
        for (change, text) in cases {
            let mut parameters = Parameters::default();
            assert_eq!(parameters.check_ranges(4), Ok(()));
            change(&mut parameters);
            assert_eq!(parameters.check_ranges(4).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn limits_themselves_are_allowed() {
        let parameters = Parameters {
            temperature: 0.0,
            top_p: f32::MIN_POSITIVE,
            min_p: 0.0,
            presence_penalty: -2.0,
            frequency_penalty: 2.0,
            logit_bias: vec![(9, -100.0), (0, 100.0)],
            logprobs: Some(20),
            n: 4,
            max_tokens: 0,
            ..Parameters::default()
        };
        assert_eq!(parameters.check_ranges(4), Ok(()));
    }
}
