//! `/v1/chat/completions`.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate_contract::{Lane, TemplateArguments};

use super::answer::{Final, FinalChoice, Usage, finish_reason, marked};
use super::asking::Asking;
use super::error::ApiError;
use super::fields::{Fields, Known, wrong_type};
use super::framing::{DONE, Framing, Head, data};
use super::route::Endpoint;
use super::{conversation, logprobs, messages, parameters, tools};
use crate::requests::OwnedPiece;

/// Members of a chat that are accepted without effect, and those that are refused.
pub(crate) const KNOWN: Known = Known {
    idle: &[
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "store",
        "verbosity",
    ],
    refused: &[
        ("audio", "models here make text alone"),
        ("functions", "it gave way to tools"),
        ("function_call", "it gave way to tool_choice"),
        ("moderation", "a stage of the pipeline does that"),
        ("prediction", "guesses are made here without it"),
        ("web_search_options", "there is no search"),
    ],
};

/// Reads a chat. The second says whether a stream ends with its usage.
pub(crate) fn read(bytes: &[u8]) -> Result<(Asking, bool), ApiError> {
    let mut body = Fields::body(bytes)?;
    let model = body.needed_text("model")?;
    let list = body
        .list("messages")?
        .ok_or_else(|| body.missing("messages"))?;
    let messages = messages::messages(list, "messages")?;
    let tools = tools::tools(&mut body, tools::Form::Nested)?;
    let mut wishes = parameters::sampling(&mut body)?;
    wishes.structure = parameters::response_format(&mut body)?;
    wishes.logprobs = logprobs_wanted(&mut body)?;
    let older = body.integer("max_tokens", 1, u64::from(u32::MAX))?;
    let newer = body.integer("max_completion_tokens", 1, u64::from(u32::MAX))?;
    wishes.max_tokens = newer.or(older).map(|most| most as u32);
    only_text(&mut body)?;
    let arguments = template_arguments(&mut body)?;
    let (mut asking, usage) =
        conversation::asking(&mut body, Endpoint::Chat, model, messages, tools, wishes)?;
    for question in &mut asking.questions {
        question.asking.template_arguments = arguments.clone();
    }
    body.end(&KNOWN)?;
    Ok((asking, usage))
}

/// What the model's chat template is given, by the name that other servers have for it.
fn template_arguments(body: &mut Fields) -> Result<TemplateArguments, ApiError> {
    const ARGUMENTS: &str = "chat_template_kwargs";
    let arguments = match body.any(ARGUMENTS) {
        None => return Ok(TemplateArguments::default()),
        Some(Value::Object(arguments)) => arguments,
        Some(other) => return Err(wrong_type(ARGUMENTS, &other, "an object")),
    };
    TemplateArguments::new(arguments).map_err(|error| {
        let at = match &error.name {
            Some(name) if name.len() <= TemplateArguments::LONGEST_NAME => {
                format!("{ARGUMENTS}.{name}")
            }
            _ => ARGUMENTS.to_owned(),
        };
        ApiError::invalid(&at, "invalid_value", format!("{at}: {error}"))
    })
}

fn logprobs_wanted(body: &mut Fields) -> Result<Option<u8>, ApiError> {
    let wanted = body.flag("logprobs")?.unwrap_or(false);
    match body.integer("top_logprobs", 0, 20)? {
        Some(_) if !wanted => Err(body.wrong("top_logprobs", "needs logprobs")),
        most => Ok(wanted.then_some(most.unwrap_or(0) as u8)),
    }
}

fn only_text(body: &mut Fields) -> Result<(), ApiError> {
    match body.list("modalities")? {
        None => Ok(()),
        Some(list) if list == [Value::from("text")] => Ok(()),
        Some(_) => Err(body.wrong(
            "modalities",
            "must be [\"text\"]: models here make text alone",
        )),
    }
}

const CHUNK: &str = "chat.completion.chunk";

/// A part of a choice as an event. There is one for each token: no tree of values is made for it.
#[derive(Serialize)]
struct Chunk<'a, D> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Delta<D>; 1],
    /// Null before the end, where it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<()>,
}

#[derive(Serialize)]
struct Delta<D> {
    index: u32,
    delta: D,
    logprobs: Value,
    finish_reason: Option<&'static str>,
}

/// What is said.
#[derive(Serialize)]
struct Content<'a> {
    content: &'a str,
}

/// The form of chats.
pub(crate) struct ChatFraming {
    id: String,
    head: Head,
    usage: bool,
    /// Choices that have begun.
    begun: Vec<bool>,
}

impl ChatFraming {
    pub(crate) fn new(head: Head, usage: bool, n: u32) -> ChatFraming {
        ChatFraming {
            id: format!("chatcmpl-{}", head.id),
            head,
            usage,
            begun: vec![false; n as usize],
        }
    }

    fn object(&self, kind: &str, choices: Value) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("id".into(), self.id.as_str().into());
        object.insert("object".into(), kind.into());
        object.insert("created".into(), self.head.created.into());
        object.insert("model".into(), self.head.model.as_str().into());
        object.insert("choices".into(), choices);
        object
    }

    fn chunk(&self, choices: Value, usage: Value, out: &mut Vec<u8>) {
        let mut object = self.object(CHUNK, choices);
        if self.usage {
            object.insert("usage".into(), usage);
        }
        data(out, &Value::Object(object));
    }

    fn delta(&self, index: u32, delta: impl Serialize, logprobs: Value, out: &mut Vec<u8>) {
        let chunk = Chunk {
            id: &self.id,
            object: CHUNK,
            created: self.head.created,
            model: &self.head.model,
            choices: [Delta {
                index,
                delta,
                logprobs,
                finish_reason: None,
            }],
            usage: self.usage.then_some(()),
        };
        data(out, &chunk);
    }

    /// The first chunk of a choice says who speaks.
    fn first(&mut self, choice: u32, out: &mut Vec<u8>) {
        let begun = self.begun.get_mut(choice as usize);
        if begun.is_some_and(|begun| !std::mem::replace(begun, true)) {
            let role = json!({"role": "assistant", "content": ""});
            self.delta(choice, role, Value::Null, out);
        }
    }

    fn message(&self, choice: &FinalChoice) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let silent = choice.text.is_empty() && !choice.calls.is_empty();
        let content = if silent {
            Value::Null
        } else {
            choice.text.as_str().into()
        };
        message.insert("content".into(), content);
        message.insert("refusal".into(), Value::Null);
        message.insert("annotations".into(), json!([]));
        if !choice.reasoning.is_empty() {
            message.insert("reasoning_content".into(), choice.reasoning.as_str().into());
        }
        if !choice.calls.is_empty() {
            let calls = choice.calls.iter().map(|call| {
                json!({
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                })
            });
            message.insert("tool_calls".into(), calls.collect());
        }
        Value::Object(message)
    }
}

impl Framing for ChatFraming {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn whole(&mut self, answers: &[Final], usage: Usage) -> Result<Value, ApiError> {
        let shown = self.head.token_text.as_ref();
        let choices = answers
            .iter()
            .flat_map(|answer| &answer.choices)
            .enumerate();
        let choices = choices.map(|(index, choice)| {
            marked(
                choice,
                json!({
                    "index": index,
                    "message": self.message(choice),
                    "logprobs": logprobs::chat(&choice.logprobs, shown),
                    "finish_reason": finish_reason(choice.finish),
                }),
            )
        });
        let mut object = self.object("chat.completion", choices.collect());
        object.insert("usage".into(), usage.json());
        Ok(Value::Object(object))
    }

    fn piece(&mut self, _: usize, piece: &OwnedPiece, out: &mut Vec<u8>) {
        let choice = piece.choice;
        self.first(choice, out);
        match piece.lane {
            Lane::Content => {
                let shown = self.head.token_text.as_ref();
                let logprobs = logprobs::chat(&piece.logprobs, shown);
                let content = &piece.text;
                self.delta(choice, Content { content }, logprobs, out);
            }
            Lane::Reasoning => {
                let delta = json!({"reasoning_content": piece.text});
                self.delta(choice, delta, Value::Null, out);
            }
            Lane::Arguments(call) => {
                if let Some((id, name)) = &piece.begins {
                    let function = json!({"name": name, "arguments": ""});
                    let begun =
                        json!({"index": call, "id": id, "type": "function", "function": function});
                    self.delta(choice, json!({"tool_calls": [begun]}), Value::Null, out);
                }
                if !piece.text.is_empty() {
                    let more = json!({"index": call, "function": {"arguments": piece.text}});
                    self.delta(choice, json!({"tool_calls": [more]}), Value::Null, out);
                }
            }
        }
    }

    fn end(&mut self, answers: &[Final], usage: Usage, out: &mut Vec<u8>) {
        let choices = answers.iter().flat_map(|answer| &answer.choices);
        for (index, choice) in (0u32..).zip(choices) {
            // An answer may have no text at all.
            self.first(index, out);
            let choice = marked(
                choice,
                json!({
                    "index": index,
                    "delta": {},
                    "logprobs": null,
                    "finish_reason": finish_reason(choice.finish),
                }),
            );
            self.chunk(json!([choice]), Value::Null, out);
        }
        if self.usage {
            self.chunk(json!([]), usage.json(), out);
        }
        out.extend_from_slice(DONE);
    }
}
