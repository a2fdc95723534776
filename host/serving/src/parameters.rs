//! Parameters as they were asked for, checked.

use tidegate_contract::{ModelError, Parameters};

/// Checks what a request asks for against what is possible.
pub(crate) fn check(
    parameters: &Parameters,
    vocabulary: usize,
    most_choices: u32,
) -> Result<(), ModelError> {
    parameters.check_ranges(most_choices)?;
    let mut tokens = parameters.logit_bias.iter().map(|(token, _)| *token);
    match tokens.find(|token| *token as usize >= vocabulary) {
        None => Ok(()),
        Some(token) => {
            let limit = format!("of tokens below the vocabulary of {vocabulary}");
            Err(ModelError::parameter("logit_bias", token, limit))
        }
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_bias_is_of_a_token_that_the_model_has() {
        let biased = |token| Parameters {
            logit_bias: vec![(token, 1.0)],
            ..Parameters::default()
        };
        assert_eq!(check(&biased(9), 10, 4), Ok(()));
        assert_eq!(
            check(&biased(10), 10, 4).unwrap_err().to_string(),
            "logit_bias is 10, must be of tokens below the vocabulary of 10"
        );
        let ranges = check(&biased(1), 10, 0).unwrap_err();
        assert_eq!(ranges.to_string(), "n is 1, must be between 1 and 0");
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
