//! `/v1/completions`: texts that are gone on with.

use serde_json::{Map, Value, json};
use tidegate_contract::{AskingRecord, Finish, Lane};

use super::answer::{Final, Usage, finish_reason, marked};
use super::asking::{Asking, Question};
use super::error::ApiError;
use super::fields::{Fields, Known, text, wrong_type};
use super::framing::{DONE, Framing, Head, data};
use super::route::Endpoint;
use super::{logprobs, parameters};
use crate::requests::OwnedPiece;

const KNOWN: Known = Known {
    idle: &[],
    refused: &[
        ("best_of", "all answers are given: ask for n"),
        ("echo", "the prompt is with the client"),
        ("suffix", "models here go on with a text, and fill none in"),
    ],
};
/// Most prompts of a request.
const MOST_PROMPTS: usize = 128;
/// Most rivals of a token that are told.
const MOST_LOGPROBS: u64 = 5;

/// Reads a request. The second says whether a stream ends with its usage.
pub(crate) fn read(bytes: &[u8]) -> Result<(Asking, bool), ApiError> {
    let mut body = Fields::body(bytes)?;
    let model = body.needed_text("model")?;
    let prompts = prompts(&mut body)?;
    let mut wishes = parameters::sampling(&mut body)?;
    let most = body.integer("max_tokens", 1, u64::from(u32::MAX))?;
    wishes.max_tokens = most.map(|most| most as u32);
    let logprobs = body.integer("logprobs", 0, MOST_LOGPROBS)?;
    wishes.logprobs = logprobs.map(|most| most as u8);
    let (stream, usage) = parameters::stream(&mut body)?;
    let questions = prompts.into_iter().map(|prompt| Question {
        asking: AskingRecord {
            prompt: Some(prompt),
            parameters: wishes.clone(),
            ..AskingRecord::default()
        },
        input: None,
        documents: Vec::new(),
    });
    let asking = Asking {
        endpoint: Endpoint::Completions,
        model,
        user: parameters::user(&mut body)?,
        metadata: None,
        stream,
        told_to_continue: false,
        questions: questions.collect(),
    };
    body.end(&KNOWN)?;
    Ok((asking, usage))
}

fn prompts(body: &mut Fields) -> Result<Vec<String>, ApiError> {
    let prompts = match body.any("prompt") {
        None => return Err(body.missing("prompt")),
        Some(Value::String(prompt)) => vec![prompt],
        Some(Value::Array(list)) => texts("prompt", list)?,
        Some(other) => {
            let wanted = "a string or an array of strings";
            return Err(wrong_type("prompt", &other, wanted));
        }
    };
    if prompts.is_empty() || prompts.len() > MOST_PROMPTS {
        let why = format!(
            "has {} prompts, must have 1 to {MOST_PROMPTS}",
            prompts.len()
        );
        return Err(body.wrong("prompt", why));
    }
    Ok(prompts)
}

/// Texts; numbers of tokens are refused by name.
pub(crate) fn texts(name: &str, list: Vec<Value>) -> Result<Vec<String>, ApiError> {
    let texts = list.into_iter().enumerate().map(|(index, value)| {
        if value.is_number() || value.is_array() {
            let why = format!("{name} has numbers of tokens: texts alone are supported");
            return Err(ApiError::invalid(name, "unsupported_parameter", why));
        }
        text(&format!("{name}[{index}]"), value)
    });
    texts.collect()
}

/// The form of completions.
pub(crate) struct CompletionFraming {
    head: Head,
    usage: bool,
    n: u32,
    /// Characters of each choice so far.
    lengths: Vec<usize>,
}

impl CompletionFraming {
    pub(crate) fn new(head: Head, usage: bool, prompts: usize, n: u32) -> CompletionFraming {
        CompletionFraming {
            head,
            usage,
            n,
            lengths: vec![0; prompts * n as usize],
        }
    }

    fn object(&self, choices: Value) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("id".into(), format!("cmpl-{}", self.head.id).into());
        object.insert("object".into(), "text_completion".into());
        object.insert("created".into(), self.head.created.into());
        object.insert("model".into(), self.head.model.as_str().into());
        object.insert("choices".into(), choices);
        object
    }

    fn chunk(&self, choices: Value, usage: Value, out: &mut Vec<u8>) {
        let mut object = self.object(choices);
        if self.usage {
            object.insert("usage".into(), usage);
        }
        data(out, &Value::Object(object));
    }

    fn choice(index: u64, text: &str, logprobs: Value, finish: Option<Finish>) -> Value {
        let reason = finish.map(|finish| match finish {
            // There are no calls in a text.
            Finish::Calls => "stop",
            other => finish_reason(other),
        });
        json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason})
    }

    /// Indices of choices, prompt by prompt.
    fn each<'a>(&self, answers: &'a [Final]) -> Vec<(u64, &'a super::answer::FinalChoice)> {
        let n = u64::from(self.n);
        let answers = (0u64..).zip(answers);
        let choices = answers.flat_map(|(record, answer)| (record * n..).zip(&answer.choices));
        choices.collect()
    }
}

impl Framing for CompletionFraming {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn whole(&mut self, answers: &[Final], usage: Usage) -> Result<Value, ApiError> {
        let shown = self.head.token_text.as_ref();
        let choices = self.each(answers).into_iter().map(|(index, choice)| {
            let logprobs = logprobs::completion(&choice.logprobs, shown, 0);
            let text = Self::choice(index, &choice.text, logprobs, Some(choice.finish));
            marked(choice, text)
        });
        let mut object = self.object(choices.collect());
        object.insert("usage".into(), usage.json());
        Ok(Value::Object(object))
    }

    fn piece(&mut self, record: usize, piece: &OwnedPiece, out: &mut Vec<u8>) {
        // Without lanes there is one; what an operator makes of it is none of a text's.
        if piece.lane != Lane::Content {
            return;
        }
        let index = record * self.n as usize + piece.choice as usize;
        let Some(length) = self.lengths.get_mut(index) else {
            return;
        };
        let shown = self.head.token_text.as_ref();
        let logprobs = logprobs::completion(&piece.logprobs, shown, *length);
        *length += piece.text.chars().count();
        let choice = Self::choice(index as u64, &piece.text, logprobs, None);
        self.chunk(json!([choice]), Value::Null, out);
    }

    fn end(&mut self, answers: &[Final], usage: Usage, out: &mut Vec<u8>) {
        for (index, choice) in self.each(answers) {
            let choice = marked(
                choice,
                Self::choice(index, "", Value::Null, Some(choice.finish)),
            );
            self.chunk(json!([choice]), Value::Null, out);
        }
        if self.usage {
            self.chunk(json!([]), usage.json(), out);
        }
        out.extend_from_slice(DONE);
    }
}
