//! The input of a response: a text, or items of a conversation.

use std::collections::HashSet;

use serde_json::Value;
use tidegate_contract::{Call, Message, Role};

use super::super::error::ApiError;
use super::super::fields::{Fields, Known, wrong_type};
use super::super::messages::{content_text, role};

type Read<T> = Result<T, ApiError>;

const KNOWN: Known = Known {
    idle: &["id", "status", "phase"],
    refused: &[],
};

/// The messages of an input.
pub(super) fn messages(input: Value) -> Read<Vec<Message>> {
    let list = match input {
        Value::String(text) => return Ok(vec![Message::new(Role::User, text)]),
        Value::Array(list) => list,
        other => {
            let wanted = "a string or an array of items";
            return Err(wrong_type("input", &other, wanted));
        }
    };
    if list.is_empty() {
        let why = "input is empty, must have at least one item";
        return Err(ApiError::invalid("input", "invalid_value", why));
    }
    let mut conversation = Conversation::default();
    for (index, value) in list.into_iter().enumerate() {
        conversation.add(Fields::object(format!("input[{index}]"), value)?)?;
    }
    Ok(conversation.messages)
}

/// Messages as they come together: what an assistant thinks, says and calls stands in items of its own, and is one
/// message to a model.
#[derive(Default)]
struct Conversation {
    messages: Vec<Message>,
    calls: HashSet<String>,
    reasoning: Option<String>,
    /// Whether the last message is an assistant's turn that may go on.
    open: bool,
}

impl Conversation {
    fn add(&mut self, mut item: Fields) -> Read<()> {
        let kind = item.text("type")?;
        match kind.as_deref() {
            None | Some("message") => self.message(&mut item)?,
            Some("function_call") => self.call(&mut item)?,
            Some("function_call_output") => self.output(&mut item)?,
            Some("reasoning") => self.reasoning(&mut item)?,
            Some(other) => {
                let at = item.at("type");
                let why = format!("{at} is {other:?}, which models here do not read");
                return Err(ApiError::invalid(&at, "unsupported_parameter", why));
            }
        }
        item.end(&KNOWN)
    }

    fn message(&mut self, item: &mut Fields) -> Read<()> {
        let name = item.needed_text("role")?;
        let role = role(item, &name)?;
        if role == Role::Tool {
            let why = "is \"tool\", must be an item of type function_call_output";
            return Err(item.wrong("role", why));
        }
        let content = item.any("content").ok_or_else(|| item.missing("content"))?;
        let mut message = Message::new(role, content_text(&item.at("content"), content)?);
        self.open = role == Role::Assistant;
        if self.open {
            message.reasoning = self.reasoning.take();
        }
        self.messages.push(message);
        Ok(())
    }

    fn call(&mut self, item: &mut Fields) -> Read<()> {
        let call = Call {
            id: item.needed_text("call_id")?,
            name: item.needed_text("name")?,
            arguments: item.needed_text("arguments")?,
        };
        self.calls.insert(call.id.clone());
        if !self.open {
            let mut message = Message::new(Role::Assistant, "");
            message.reasoning = self.reasoning.take();
            self.messages.push(message);
            self.open = true;
        }
        if let Some(message) = self.messages.last_mut() {
            message.calls.push(call);
        }
        Ok(())
    }

    fn output(&mut self, item: &mut Fields) -> Read<()> {
        let id = item.needed_text("call_id")?;
        if !self.calls.contains(&id) {
            let why = format!("is {id:?}, which no item before it calls");
            return Err(item.wrong("call_id", why));
        }
        let output = item.any("output").ok_or_else(|| item.missing("output"))?;
        let content = content_text(&item.at("output"), output)?;
        self.open = false;
        self.messages.push(Message {
            answers: Some(id),
            ..Message::new(Role::Tool, content)
        });
        Ok(())
    }

    fn reasoning(&mut self, item: &mut Fields) -> Read<()> {
        // What is encrypted elsewhere says nothing here.
        item.any("encrypted_content");
        item.any("summary");
        let mut whole = String::new();
        for (index, part) in item
            .list("content")?
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            let at = format!("{}[{index}]", item.at("content"));
            whole.push_str(&Fields::object(at, part)?.needed_text("text")?);
        }
        self.open = false;
        self.reasoning = Some(whole).filter(|text| !text.is_empty());
        Ok(())
    }
}
