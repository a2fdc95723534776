//! What a record's answer is, once the pipeline is done with it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_contract::{Call, Choice, Finish, Lane, Made, TokenLogprob};

use crate::requests::{Failure, Lanes, OwnedPiece, Reply};

/// An answer to one record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Final {
    pub(crate) choices: Vec<FinalChoice>,
    pub(crate) prompt_tokens: u64,
    pub(crate) answer_tokens: u64,
    /// Of these, tokens of reasoning.
    pub(crate) reasoning_tokens: u64,
    /// Of an embedding.
    pub(crate) vector: Option<Vec<f32>>,
    /// Of a ranking, best first.
    pub(crate) ranking: Option<Vec<Ranked>>,
}

/// A document in its place.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct Ranked {
    /// Its place among those that were asked for, counted from 0.
    pub(crate) index: usize,
    pub(crate) score: f32,
}

/// One text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FinalChoice {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) finish: Finish,
    /// Its tokens.
    pub(crate) tokens: usize,
    /// The limit of tokens that ended it, where that was the load's and not the client's own.
    pub(crate) shortened: Option<u32>,
    /// Of the content, where it is as the model made it.
    pub(crate) logprobs: Vec<TokenLogprob>,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u64,
    pub(crate) answer: u64,
    /// Of these, tokens of reasoning.
    pub(crate) reasoning: u64,
}

impl Usage {
    pub(crate) fn of(answers: &[Final]) -> Usage {
        Usage {
            prompt: answers.iter().map(|answer| answer.prompt_tokens).sum(),
            answer: answers.iter().map(|answer| answer.answer_tokens).sum(),
            reasoning: answers.iter().map(|answer| answer.reasoning_tokens).sum(),
        }
    }

    pub(crate) fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.answer,
            "total_tokens": self.prompt + self.answer,
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        })
    }
}

/// The answer, and what of it was not heard yet. What was heard must be its beginning.
pub(crate) fn conclude(reply: Reply) -> Result<(Final, Vec<OwnedPiece>), Failure> {
    let Reply {
        written,
        answer,
        shown,
    } = reply;
    let text = |said: Option<&str>| text_of(&written.answer, said);
    let mut finished = Final::default();
    match answer.map(Arc::unwrap_or_clone) {
        None => {
            finished.vector = vector(&written.answer);
            finished.ranking = ranking(&written.answer);
            finished.choices.push(own(text(None)));
        }
        Some(answer) => {
            finished.prompt_tokens = u64::from(answer.prompt_tokens);
            match answer.made {
                Made::Embedding(_) => finished.vector = vector(&written.answer),
                Made::Relevance(_) => finished.ranking = ranking(&written.answer),
                Made::Labels(_) | Made::Entities(_) => finished.choices.push(own(text(None))),
                Made::Choices(made) => {
                    let counts = made.iter().map(|choice| choice.tokens.len() as u64);
                    finished.answer_tokens = counts.sum();
                    let thought = made.iter().map(|choice| u64::from(choice.reasoning_tokens));
                    finished.reasoning_tokens = thought.sum();
                    let first = text(made.first().map(|choice| choice.text.as_str()));
                    finished.choices = choices(made, first, written.choices.as_deref());
                }
            }
        }
    }
    for ((choice, lane), heard) in &shown {
        let whole = finished.choices.get(*choice as usize);
        let whole = whole.and_then(|whole| whole.lane(*lane));
        if !whole.unwrap_or_default().starts_with(heard.as_str()) {
            return Err(Failure::Contradicted);
        }
    }
    let rest = unheard(&finished, &shown);
    Ok((finished, rest))
}

/// The whole of an answer, in pieces.
pub(crate) fn all_pieces(answer: &Final) -> Vec<OwnedPiece> {
    unheard(answer, &Lanes::new())
}

/// What of an answer was not heard.
fn unheard(answer: &Final, shown: &Lanes) -> Vec<OwnedPiece> {
    let mut rest = Vec::new();
    for (index, choice) in (0u32..).zip(&answer.choices) {
        let mut lanes = vec![Lane::Reasoning, Lane::Content];
        lanes.extend(
            (0u32..)
                .zip(&choice.calls)
                .map(|(call, _)| Lane::Arguments(call)),
        );
        for lane in lanes {
            let heard = shown.get(&(index, lane));
            let whole = choice.lane(lane).unwrap_or_default();
            let begins = match lane {
                Lane::Arguments(call) if heard.is_none() => choice.calls.get(call as usize),
                _ => None,
            };
            let text = &whole[heard.map_or(0, String::len)..];
            if text.is_empty() && begins.is_none() {
                continue;
            }
            let logprobs = match (lane, heard) {
                (Lane::Content, None) => choice.logprobs.clone(),
                _ => Vec::new(),
            };
            rest.push(OwnedPiece {
                choice: index,
                // Its tokens are told with the answer.
                index: 0,
                lane,
                text: text.to_owned(),
                begins: begins.map(|call| (call.id.clone(), call.name.clone())),
                logprobs,
            });
        }
    }
    rest
}

/// The texts: the record's own where it has them. A text that was changed while the others are not to be found in the
/// record is the only one: nobody has looked at the others.
fn choices(made: Vec<Choice>, first: String, written: Option<&[Value]>) -> Vec<FinalChoice> {
    let unchanged = made.first().is_some_and(|choice| choice.text == first);
    let known = match written {
        Some(written) => written.len(),
        None if unchanged => made.len(),
        None => 1,
    };
    let made = made.into_iter().take(known.max(1)).enumerate();
    let choices = made.map(|(index, choice)| {
        let other = written
            .and_then(|written| written.get(index)?.get("text"))
            .map(|text| text_of(text, Some(&choice.text)));
        let text = match other {
            _ if index == 0 => first.clone(),
            Some(other) => other,
            None => choice.text.clone(),
        };
        // Of a text that was changed nobody knows the tokens.
        let logprobs = match text == choice.text {
            true => choice.said_logprobs().cloned().collect(),
            false => Vec::new(),
        };
        FinalChoice {
            text,
            reasoning: choice.reasoning,
            calls: choice.calls,
            finish: choice.finish,
            tokens: choice.tokens.len(),
            shortened: None,
            logprobs,
        }
    });
    choices.collect()
}

/// An answer that no model made.
fn own(text: String) -> FinalChoice {
    FinalChoice {
        text,
        reasoning: String::new(),
        calls: Vec::new(),
        finish: Finish::End,
        tokens: 0,
        shortened: None,
        logprobs: Vec::new(),
    }
}

/// JSON that means what the model said is what it said, to the byte.
fn text_of(value: &Value, said: Option<&str>) -> String {
    let means = |said: &&str| serde_json::from_str::<Value>(said).is_ok_and(|said| said == *value);
    match (value, said) {
        (Value::String(text), Some(said)) if text == said => text.clone(),
        // Also a string: what was asked for as JSON stands as such in the record.
        (_, Some(said)) if means(&said) => said.to_owned(),
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

fn vector(value: &Value) -> Option<Vec<f32>> {
    let parsed;
    let list = match value {
        Value::Array(list) => list,
        // As an attribute or a header has it.
        Value::String(text) => {
            parsed = serde_json::from_str::<Vec<Value>>(text).ok()?;
            &parsed
        }
        _ => return None,
    };
    list.iter()
        .map(|number| Some(number.as_f64()? as f32))
        .collect()
}

fn ranking(value: &Value) -> Option<Vec<Ranked>> {
    match value {
        Value::Array(_) => Vec::deserialize(value).ok(),
        // As an attribute or a header has it.
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

impl Final {
    /// Load has limited the answer to so many tokens: says so where that ended it.
    pub(crate) fn limited_to(&mut self, most: u32) {
        for choice in &mut self.choices {
            let ended = choice.finish == Finish::Length && choice.tokens >= most as usize;
            choice.shortened = ended.then_some(most);
        }
    }
}

impl FinalChoice {
    fn lane(&self, lane: Lane) -> Option<&str> {
        match lane {
            Lane::Content => Some(&self.text),
            Lane::Reasoning => Some(&self.reasoning),
            Lane::Arguments(call) => Some(&self.calls.get(call as usize)?.arguments),
        }
    }
}

/// What a choice, or the response that it is, says beside OpenAI's members: clients keep what they do not know.
pub(crate) fn marked(choice: &FinalChoice, mut shown: Value) -> Value {
    if let Some(most) = choice.shortened {
        shown["tidegate"] = json!({"shortened": true, "max_tokens": most});
    }
    shown
}

/// OpenAI's five words, of which one has gone out of use.
pub(crate) fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::End | Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Calls => "tool_calls",
        Finish::Filtered => "content_filter",
    }
}
