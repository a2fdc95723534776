//! Parameters as they were asked for, checked.

use std::collections::HashSet;

use tidegate_contract::{MOST_LOGPROBS, MOST_STOPS, ModelError, Parameters};

/// Checks what a request asks for against what is possible.
pub(crate) fn check(
    parameters: &Parameters,
    vocabulary: usize,
    most_choices: u32,
) -> Result<(), ModelError> {
    let number = |name, value: f32, fits: bool, limit: &str| match fits && value.is_finite() {
        true => Ok(()),
        false => Err(wrong(name, value, limit)),
    };
    let p = parameters;
    number(
        "temperature",
        p.temperature,
        p.temperature >= 0.0,
        "finite and at least 0",
    )?;
    number(
        "top_p",
        p.top_p,
        p.top_p > 0.0 && p.top_p <= 1.0,
        "above 0 and at most 1",
    )?;
    number(
        "min_p",
        p.min_p,
        (0.0..1.0).contains(&p.min_p),
        "at least 0 and below 1",
    )?;
    number(
        "repetition_penalty",
        p.repetition_penalty,
        p.repetition_penalty > 0.0,
        "finite and above 0",
    )?;
    for (name, value) in [
        ("presence_penalty", p.presence_penalty),
        ("frequency_penalty", p.frequency_penalty),
    ] {
        number(
            name,
            value,
            (-2.0..=2.0).contains(&value),
            "between -2 and 2",
        )?;
    }
    let mut biased = HashSet::with_capacity(p.logit_bias.len());
    for (token, bias) in &p.logit_bias {
        if *token as usize >= vocabulary {
            let limit = format!("of tokens below the vocabulary of {vocabulary}");
            return Err(wrong("logit_bias", token, &limit));
        }
        if !(-100.0..=100.0).contains(bias) {
            return Err(wrong("logit_bias", bias, "between -100 and 100"));
        }
        if !biased.insert(*token) {
            return Err(wrong("logit_bias", token, "of each token once"));
        }
    }
    if let Some(likeliest) = p.logprobs.filter(|likeliest| *likeliest > MOST_LOGPROBS) {
        return Err(wrong(
            "logprobs",
            likeliest,
            &format!("at most {MOST_LOGPROBS}"),
        ));
    }
    if !(1..=most_choices).contains(&p.n) {
        return Err(wrong("n", p.n, &format!("between 1 and {most_choices}")));
    }
    if p.stop.len() > MOST_STOPS {
        let value = format!("{} strings", p.stop.len());
        return Err(wrong("stop", value, &format!("at most {MOST_STOPS}")));
    }
    Ok(())
}

pub(crate) fn wrong(name: &'static str, value: impl ToString, limit: &str) -> ModelError {
    ModelError::Parameter {
        name,
        value: value.to_string(),
        limit: limit.into(),
    }
}

/// The seed of a choice: the first has the request's own, the others one that is mixed from it and their place
/// (SplitMix64, Steele, Lea and Flood 2014).
pub(crate) fn choice_seed(seed: u64, choice: u32) -> u64 {
    if choice == 0 {
        return seed;
    }
    let mut z = seed.wrapping_add(u64::from(choice).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Parameters);

    #[test]
    fn what_is_out_of_range_is_named_with_value_and_limit() {
        let cases: [(Change, &str); 16] = [
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
                |p| p.logit_bias = vec![(10, 1.0)],
                "logit_bias is 10, must be of tokens below the vocabulary of 10",
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
            assert_eq!(check(&parameters, 10, 4), Ok(()));
            change(&mut parameters);
            assert_eq!(check(&parameters, 10, 4).unwrap_err().to_string(), text);
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
        assert_eq!(check(&parameters, 10, 4), Ok(()));
    }

    #[test]
    fn choices_have_seeds_of_their_own_and_the_first_the_requests() {
        let seeds: HashSet<u64> = (0..16)
            .flat_map(|seed| (0..16).map(move |choice| choice_seed(seed, choice)))
            .collect();
        assert_eq!(seeds.len(), 256);
        assert_eq!(choice_seed(7, 0), 7);
    }
}
