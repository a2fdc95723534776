//! Messages of a chat.

use std::collections::HashSet;

use serde_json::Value;
use tidegate_contract::{AskingRecord, Call, FunctionChoice, Message, Role};

use super::asking::Asking;
use super::error::ApiError;
use super::fields::{Fields, Known, text, wrong_type};

type Read<T> = Result<T, ApiError>;

/// Members that messages which clients send back have, and that say nothing to a model.
const KNOWN: Known = Known {
    idle: &["annotations", "id", "status"],
    refused: &[
        ("audio", "there is no model for audio"),
        ("function_call", "it gave way to tool_calls"),
    ],
};

/// Whether the last message is gone on with, by the name that other servers have for it.
const CONTINUES: &str = "continue_final_message";

/// Reads the messages, oldest first.
pub(crate) fn messages(list: Vec<Value>, path: &str) -> Read<Vec<Message>> {
    if list.is_empty() {
        let why = format!("{path} is empty, must have at least one message");
        return Err(ApiError::invalid(path, "invalid_value", why));
    }
    let mut calls = HashSet::new();
    let mut messages = Vec::with_capacity(list.len());
    for (index, value) in list.into_iter().enumerate() {
        let fields = Fields::object(format!("{path}[{index}]"), value)?;
        let message = message(fields, &calls)?;
        calls.extend(message.calls.iter().map(|call| call.id.clone()));
        messages.push(message);
    }
    Ok(messages)
}

/// Whether the last message is the beginning of the answer: an assistant's text, unless the client says otherwise. An
/// answer that has a form from its first character on, or must be a call, has no other beginning. The second says whether
/// the client says it by name.
pub(crate) fn continues(body: &mut Fields, asking: &AskingRecord) -> Read<(bool, bool)> {
    let last = asking.messages.last();
    let is_text = last.is_some_and(|last| last.role == Role::Assistant && last.calls.is_empty());
    let must_call = !matches!(
        asking.function_choice,
        FunctionChoice::Auto | FunctionChoice::None
    );
    let is_free = !must_call && asking.parameters.structure.is_none();
    match body.flag(CONTINUES)? {
        Some(true) if !is_text => {
            let why = "is true, and the last message is no text of the assistant";
            Err(body.wrong(CONTINUES, why))
        }
        Some(true) if !is_free => {
            let why =
                "is true, and what has a form or must be a call is made from its beginning on";
            Err(body.wrong(CONTINUES, why))
        }
        told => Ok((
            is_text && is_free && told.unwrap_or(true),
            told == Some(true),
        )),
    }
}

/// The same, where the stages of a route give their answers a form.
pub(crate) fn begins_anew(asking: &mut Asking) -> Read<()> {
    if asking.told_to_continue {
        let why = format!(
            "{CONTINUES} is true, and answers of {} have a form: they are made from their beginning on",
            asking.model
        );
        return Err(ApiError::invalid(CONTINUES, "invalid_value", why));
    }
    for question in &mut asking.questions {
        question.asking.continues = false;
    }
    Ok(())
}

/// The role of a name.
pub(crate) fn role(fields: &Fields, name: &str) -> Read<Role> {
    Ok(match name {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            let why = format!("is {other:?}, must be system, developer, user, assistant or tool");
            return Err(fields.wrong("role", why));
        }
    })
}

fn message(mut fields: Fields, known: &HashSet<String>) -> Read<Message> {
    let name = fields.needed_text("role")?;
    let role = role(&fields, &name)?;
    let refusal = fields.text("refusal")?;
    let content = match fields.any("content") {
        Some(content) => Some(content_text(&fields.at("content"), content)?),
        None => None,
    };
    let calls = match role {
        Role::Assistant => calls(&mut fields)?,
        _ => Vec::new(),
    };
    let answers = match role {
        Role::Tool => {
            let id = fields.needed_text("tool_call_id")?;
            if !known.contains(&id) {
                let why = format!("is {id:?}, which no message before it calls");
                return Err(fields.wrong("tool_call_id", why));
            }
            Some(id)
        }
        _ => None,
    };
    let reasoning = match role {
        // Servers and their clients name it so, or so.
        Role::Assistant => {
            let content = fields.text("reasoning_content")?;
            let reasoning = fields.text("reasoning")?;
            content.or(reasoning)
        }
        _ => None,
    };
    let content = match content.or(refusal) {
        Some(content) => content,
        None if calls.is_empty() => return Err(fields.missing("content")),
        None => String::new(),
    };
    let message = Message {
        role,
        content,
        name: fields.text("name")?,
        reasoning,
        calls,
        answers,
    };
    fields.end(&KNOWN)?;
    Ok(message)
}

/// A text, or parts that are texts.
pub(crate) fn content_text(at: &str, content: Value) -> Read<String> {
    let parts = match content {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        other => return Err(wrong_type(at, &other, "a string or an array of parts")),
    };
    let mut whole = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        let mut part = Fields::object(format!("{at}[{index}]"), part)?;
        let kind = part.needed_text("type")?;
        let member = match kind.as_str() {
            "text" | "input_text" | "output_text" => "text",
            "refusal" => "refusal",
            other => {
                let at = part.at("type");
                let why = format!("{at} is {other:?}: models here read text alone");
                return Err(ApiError::invalid(&at, "unsupported_parameter", why));
            }
        };
        whole.push_str(&part.needed_text(member)?);
        part.end(&Known {
            idle: &["annotations", "logprobs"],
            refused: &[],
        })?;
    }
    Ok(whole)
}

fn calls(fields: &mut Fields) -> Read<Vec<Call>> {
    let path = fields.at("tool_calls");
    let list = fields.list("tool_calls")?.unwrap_or_default();
    let calls = list.into_iter().enumerate().map(|(index, value)| {
        let mut call = Fields::object(format!("{path}[{index}]"), value)?;
        let id = call.needed_text("id")?;
        let kind = call.text("type")?;
        if kind.as_deref().is_some_and(|kind| kind != "function") {
            return Err(call.wrong("type", "must be \"function\""));
        }
        let inner = call.inner("function")?;
        let mut function = inner.ok_or_else(|| call.missing("function"))?;
        let name = function.needed_text("name")?;
        let arguments = function.any("arguments");
        let arguments = arguments.ok_or_else(|| function.missing("arguments"))?;
        let arguments = text(&function.at("arguments"), arguments)?;
        // Some clients send the index of a stream back.
        call.end(&Known {
            idle: &["index"],
            refused: &[],
        })?;
        Ok(Call {
            id,
            name,
            arguments,
        })
    });
    calls.collect()
}
