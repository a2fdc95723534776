//! An answer that waits behind its lane, in its form in the commit log.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_contract::{Answer, Call, Choice, Entity, Finish, Made, Timings, TokenLogprob};

/// An answer as a JSON object. The tokens of the first choice are those of the entry. Floats are written so that they
/// come back with the same bits.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredAnswer {
    /// Text and end of the first choice; empty for vectors and labels.
    #[serde(default)]
    text: String,
    #[serde(default)]
    finish: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    logprobs: Vec<StoredLogprob>,
    /// Absent in entries of before they were kept, and where there are no log-probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Vec<Run>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reasoning: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    reasoning_tokens: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
    /// The choices after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<StoredChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding: Option<Vec<f32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<(String, f32)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entities: Option<Vec<Entity>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relevance: Option<Vec<f32>>,
    prompt_tokens: u32,
    timings_ms: (u64, u64, u64),
}

#[derive(Serialize, Deserialize)]
struct StoredChoice {
    text: String,
    tokens: Vec<u32>,
    finish: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    logprobs: Vec<StoredLogprob>,
    /// Absent in entries of before they were kept, and where there are no log-probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Vec<Run>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reasoning: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    reasoning_tokens: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
}

/// Token, its log-probability, and the likeliest with theirs.
type StoredLogprob = (u32, f32, Vec<(u32, f32)>);
/// Of the log-probabilities, those from one number up to another that are of the content.
type Run = (usize, usize);

impl StoredAnswer {
    pub(crate) fn of(answer: &Answer) -> StoredAnswer {
        let ms = |time: Duration| time.as_millis() as u64;
        let mut stored = StoredAnswer {
            text: String::new(),
            finish: String::new(),
            reasoning: String::new(),
            reasoning_tokens: 0,
            calls: Vec::new(),
            logprobs: Vec::new(),
            said: None,
            others: Vec::new(),
            embedding: None,
            labels: None,
            entities: None,
            relevance: None,
            prompt_tokens: answer.prompt_tokens,
            timings_ms: (
                ms(answer.timings.queued),
                ms(answer.timings.prefill),
                ms(answer.timings.decode),
            ),
        };
        match &answer.made {
            Made::Embedding(vector) => stored.embedding = Some(vector.clone()),
            Made::Labels(labels) => stored.labels = Some(labels.clone()),
            Made::Entities(entities) => stored.entities = Some(entities.clone()),
            Made::Relevance(scores) => stored.relevance = Some(scores.clone()),
            Made::Choices(choices) => {
                for (index, choice) in choices.iter().enumerate() {
                    let finish = choice.finish.name().to_owned();
                    let logprobs = choice.logprobs.iter().map(store_logprob).collect();
                    let said = said(&choice.logprobs);
                    if index == 0 {
                        stored.text = choice.text.clone();
                        stored.finish = finish;
                        stored.reasoning = choice.reasoning.clone();
                        stored.reasoning_tokens = choice.reasoning_tokens;
                        stored.calls = choice.calls.clone();
                        stored.logprobs = logprobs;
                        stored.said = said;
                    } else {
                        stored.others.push(StoredChoice {
                            text: choice.text.clone(),
                            tokens: choice.tokens.clone(),
                            finish,
                            reasoning: choice.reasoning.clone(),
                            reasoning_tokens: choice.reasoning_tokens,
                            calls: choice.calls.clone(),
                            logprobs,
                            said,
                        });
                    }
                }
            }
        }
        stored
    }

    /// `tokens` are those of the first choice.
    pub(crate) fn into_answer(self, tokens: &[u32]) -> Answer {
        let others = (self.labels, self.entities, self.relevance);
        let made = match (self.embedding, others) {
            (Some(vector), _) => Made::Embedding(vector),
            (None, (Some(labels), _, _)) => Made::Labels(labels),
            (None, (None, Some(entities), _)) => Made::Entities(entities),
            (None, (None, None, Some(scores))) => Made::Relevance(scores),
            (None, (None, None, None)) => {
                let first = StoredChoice {
                    text: self.text,
                    tokens: tokens.to_vec(),
                    finish: self.finish,
                    reasoning: self.reasoning,
                    reasoning_tokens: self.reasoning_tokens,
                    calls: self.calls,
                    logprobs: self.logprobs,
                    said: self.said,
                };
                let choices = std::iter::once(first).chain(self.others);
                Made::Choices(choices.map(StoredChoice::into_choice).collect())
            }
        };
        Answer {
            made,
            prompt_tokens: self.prompt_tokens,
            adapter: String::new(),
            timings: Timings {
                queued: Duration::from_millis(self.timings_ms.0),
                prefill: Duration::from_millis(self.timings_ms.1),
                decode: Duration::from_millis(self.timings_ms.2),
            },
        }
    }
}

impl StoredChoice {
    fn into_choice(self) -> Choice {
        // Without runs, as it was told before there were any: all but the thoughts.
        let reasoning = self.reasoning_tokens as usize;
        let said = (self.said).unwrap_or_else(|| vec![(reasoning, self.logprobs.len())]);
        let is_said = |number: usize| {
            let mut runs = said.iter();
            runs.any(|(from, to)| (*from..*to).contains(&number))
        };
        Choice {
            text: self.text,
            reasoning: self.reasoning,
            reasoning_tokens: self.reasoning_tokens,
            calls: self.calls,
            tokens: self.tokens,
            finish: match self.finish.as_str() {
                "stop" => Finish::Stop,
                "length" => Finish::Length,
                "calls" => Finish::Calls,
                "filtered" => Finish::Filtered,
                _ => Finish::End,
            },
            logprobs: self
                .logprobs
                .into_iter()
                .enumerate()
                .map(|(number, (token, logprob, top))| TokenLogprob {
                    token,
                    logprob,
                    top,
                    said: is_said(number),
                })
                .collect(),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn store_logprob(logprob: &TokenLogprob) -> StoredLogprob {
    (logprob.token, logprob.logprob, logprob.top.clone())
}

fn said(logprobs: &[TokenLogprob]) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, _) in logprobs.iter().enumerate().filter(|(_, each)| each.said) {
        match runs.last_mut() {
            Some((_, to)) if *to == number => *to += 1,
            _ => runs.push((number, number + 1)),
        }
    }
    (!logprobs.is_empty()).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(made: Made) -> Answer {
        Answer {
            made,
            prompt_tokens: 3,
            adapter: String::new(),
            timings: Timings {
                queued: Duration::from_millis(1),
                prefill: Duration::from_millis(2),
                decode: Duration::from_millis(3),
            },
        }
    }

    fn through_the_log(answer: &Answer, tokens: &[u32]) -> Answer {
        let bytes = serde_json::to_vec(&StoredAnswer::of(answer)).unwrap();
        let stored: StoredAnswer = serde_json::from_slice(&bytes).unwrap();
        stored.into_answer(tokens)
    }

    #[test]
    fn an_entry_of_before_says_of_all_behind_the_thoughts_that_they_are_content() {
        let old = r#"{"text": "b", "finish": "stop", "logprobs": [[1, -0.5, []], [2, -0.25, []]], "reasoning": "a",
            "reasoning_tokens": 1, "prompt_tokens": 3, "timings_ms": [1, 2, 3]}"#;
        let stored: StoredAnswer = serde_json::from_str(old).unwrap();
        let Made::Choices(choices) = stored.into_answer(&[1, 2]).made else {
            panic!("no choices");
        };
        let logprobs = choices[0].logprobs.iter();
        let said: Vec<(u32, bool)> = logprobs.map(|of| (of.token, of.said)).collect();
        assert_eq!(said, [(1, false), (2, true)]);
    }

    #[test]
    fn every_kind_of_answer_comes_back_from_the_log_with_the_same_bits() {
        let logprob = |token: u32| TokenLogprob {
            token,
            logprob: -0.1 * token as f32,
            top: vec![(token, -0.1 * token as f32), (token + 1, -1.0 / 3.0)],
            said: token > 1,
        };
        let choice = |text: &str, tokens: &[u32], finish, logprobs| Choice {
            text: text.into(),
            reasoning: format!("why {text}"),
            reasoning_tokens: tokens.len() as u32,
            calls: vec![Call {
                id: "call_1".into(),
                name: text.into(),
                arguments: "{}".into(),
            }],
            tokens: tokens.into(),
            finish,
            logprobs,
        };
        let choices = answer(Made::Choices(vec![
            choice("one", &[1, 2], Finish::Stop, vec![logprob(1), logprob(2)]),
            choice("two \"", &[3], Finish::Length, vec![logprob(3)]),
            choice("", &[], Finish::End, Vec::new()),
            choice("four", &[4], Finish::Calls, Vec::new()),
            choice("five", &[5], Finish::Filtered, Vec::new()),
        ]));
        assert_eq!(through_the_log(&choices, &[1, 2]), choices);
        let vector = answer(Made::Embedding(vec![0.1, -1.0 / 3.0, f32::MIN_POSITIVE]));
        assert_eq!(through_the_log(&vector, &[]), vector);
        let labels = answer(Made::Labels(vec![("a".into(), 0.7), ("b".into(), 0.3)]));
        assert_eq!(through_the_log(&labels, &[]), labels);
        for entities in [
            Vec::new(),
            vec![Entity {
                label: "PER".into(),
                score: 1.0 / 3.0,
                start: 2,
                end: 5,
                text: "\"é\n".into(),
            }],
        ] {
            let entities = answer(Made::Entities(entities));
            assert_eq!(through_the_log(&entities, &[]), entities);
        }
    }
}
