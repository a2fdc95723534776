//! What an answer must be, worked out without scheduler, blocks or guesses.

use std::collections::BTreeSet;

use tidegate_contract::{Adjustment, Finish, Sampling};
use tidegate_reference::sampling::draw;

use super::fake::{Logits, hashed};
use super::{Ask, EOS, VOCABULARY, prompt};
use crate::parameters::choice_seed;

/// The only answer of a model whose logits are [`hashed`].
pub(crate) fn alone(ask: &Ask, context: usize) -> (Vec<u32>, Finish) {
    choice_alone(ask, 0, context, &hashed)
}

/// One of the answers: its tokens and end.
pub(crate) fn choice_alone(
    ask: &Ask,
    choice: u32,
    context: usize,
    logits: &Logits,
) -> (Vec<u32>, Finish) {
    let p = &ask.parameters;
    let prompt = prompt(&ask.content);
    let mut answer: Vec<u32> = Vec::new();
    let mut matcher = ask.matcher();
    loop {
        let full = answer.len() >= p.max_tokens as usize || prompt.len() + answer.len() >= context;
        if let Some(matcher) = &mut matcher
            && (matcher.must_end() || (full && matcher.may_end().unwrap()))
        {
            return (answer, Finish::End);
        }
        if full {
            return (answer, Finish::Length);
        }
        let history: Vec<u32> = prompt.iter().chain(&answer).copied().collect();
        let mut row = vec![0.0; VOCABULARY];
        logits(&history, &mut row);
        let mut touched: BTreeSet<u32> = p.logit_bias.iter().map(|(token, _)| *token).collect();
        touched.extend(&history);
        let adjustments = touched.into_iter().map(|token| Adjustment {
            token,
            count: answer.iter().filter(|other| **other == token).count() as u32,
            seen: history.contains(&token),
            bias: p
                .logit_bias
                .iter()
                .find(|(other, _)| *other == token)
                .map_or(0.0, |(_, bias)| *bias),
        });
        let sampling = Sampling {
            temperature: p.temperature,
            top_k: p.top_k,
            top_p: p.top_p,
            min_p: p.min_p,
            repetition: p.repetition_penalty,
            presence: p.presence_penalty,
            frequency: p.frequency_penalty,
            seed: choice_seed(ask.seed, choice),
            index: answer.len() as u32,
            adjustments: adjustments.collect(),
            allowed: matcher.as_mut().map(|matcher| {
                let mut mask = vec![0; VOCABULARY.div_ceil(32)];
                matcher.mask(&mut mask).unwrap();
                mask.into()
            }),
            logprobs: None,
        };
        let token = draw(&row, &sampling).token.unwrap();
        if let Some(matcher) = &mut matcher {
            matcher.accept(token).unwrap();
        }
        if token == EOS {
            return (answer, Finish::End);
        }
        answer.push(token);
    }
}
