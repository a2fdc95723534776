//! Messages and functions as chat templates see them.

use minijinja::value::{Value, ValueKind};
use tidegate_contract::{Call, Function, Message, Role};

use crate::chat::ThoughtsName;
use crate::{ChatMessage, PromptError};

/// Does something with a text of a conversation, and gives what stands for it.
pub(crate) type OnText<'a> = dyn FnMut(&str) -> Result<String, PromptError> + 'a;

/// One message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    pub(crate) role: String,
    pub(crate) content: String,
    pub(crate) name: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) calls: Vec<TurnCall>,
    /// The call it answers.
    pub(crate) answers: Option<String>,
}

/// A call in a message.
#[derive(Debug, Clone)]
pub(crate) struct TurnCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
}

/// Arguments of a call.
#[derive(Debug, Clone)]
pub(crate) enum Arguments {
    Object(Value),
    /// What is no JSON object.
    Text(String),
}

impl Arguments {
    fn of(text: &str) -> Arguments {
        match serde_json::from_str::<Value>(text) {
            Ok(value) if value.kind() == ValueKind::Map => Arguments::Object(value),
            _ => Arguments::Text(text.to_owned()),
        }
    }

    /// As JSON text, in Python's way of writing it.
    pub(crate) fn text(&self) -> String {
        match self {
            Arguments::Object(value) => crate::chat::json_text(value),
            Arguments::Text(text) => text.clone(),
        }
    }
}

impl From<ChatMessage<'_>> for Turn {
    fn from(message: ChatMessage<'_>) -> Turn {
        Turn {
            role: message.role.into(),
            content: message.content.into(),
            ..Turn::default()
        }
    }
}

impl From<&Call> for TurnCall {
    fn from(call: &Call) -> TurnCall {
        TurnCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: Arguments::of(&call.arguments),
        }
    }
}

impl Turn {
    /// The messages of a conversation. One that answers a call has the name of the function, also where it does not
    /// say it.
    pub(crate) fn all(messages: &[Message]) -> Vec<Turn> {
        let called = |id: &str| {
            let calls = messages.iter().flat_map(|message| &message.calls);
            calls.rev().find(|call| call.id == id)
        };
        let turn = |message: &Message| Turn {
            role: match message.role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            }
            .into(),
            content: message.content.clone(),
            name: message.name.clone().or_else(|| {
                let call = called(message.answers.as_deref()?)?;
                Some(call.name.clone())
            }),
            reasoning: message.reasoning.clone(),
            calls: message.calls.iter().map(TurnCall::from).collect(),
            answers: message.answers.clone(),
        };
        messages.iter().map(turn).collect()
    }

    /// As a template finds it; arguments as objects, or as their JSON text.
    pub(crate) fn value(&self, objects: bool, thoughts: ThoughtsName) -> Value {
        let mut fields = vec![
            ("role", Value::from(self.role.as_str())),
            ("content", Value::from(self.content.as_str())),
        ];
        let texts = [
            ("name", &self.name),
            (thoughts.text(), &self.reasoning),
            ("tool_call_id", &self.answers),
        ];
        for (field, text) in texts {
            fields.extend(text.as_deref().map(|text| (field, Value::from(text))));
        }
        if !self.calls.is_empty() {
            let call = |call: &TurnCall| {
                let arguments = match &call.arguments {
                    Arguments::Object(value) if objects => value.clone(),
                    arguments => Value::from(arguments.text()),
                };
                let function = Value::from_pairs([
                    ("name", Value::from(call.name.as_str())),
                    ("arguments", arguments),
                ]);
                Value::from_pairs([
                    ("id", Value::from(call.id.as_str())),
                    ("type", Value::from("function")),
                    ("function", function),
                ])
            };
            fields.push(("tool_calls", self.calls.iter().map(call).collect()));
        }
        Value::from_pairs(fields)
    }

    /// Puts something else for each of its texts.
    pub(crate) fn replace(&mut self, with: &mut OnText<'_>) -> Result<(), PromptError> {
        self.content = with(&self.content)?;
        let texts = [&mut self.name, &mut self.reasoning, &mut self.answers];
        for text in texts.into_iter().flatten() {
            *text = with(text)?;
        }
        for call in &mut self.calls {
            call.id = with(&call.id)?;
            call.name = with(&call.name)?;
            match &mut call.arguments {
                Arguments::Object(value) => *value = replaced(value, with)?,
                Arguments::Text(text) => *text = with(text)?,
            }
        }
        Ok(())
    }
}

/// A function as an entry of `tools`.
pub(crate) fn tool(function: &Function) -> Value {
    let parameters = serde_json::from_str(&function.parameters);
    let mut fields = vec![("name", Value::from(function.name.as_str()))];
    if let Some(description) = &function.description {
        fields.push(("description", Value::from(description.as_str())));
    }
    let text = || Value::from(function.parameters.as_str());
    fields.push(("parameters", parameters.unwrap_or_else(|_| text())));
    Value::from_pairs([
        ("type", Value::from("function")),
        ("function", Value::from_pairs(fields)),
    ])
}

/// A value with something else for each text in it, names of fields too.
pub(crate) fn replaced(value: &Value, with: &mut OnText<'_>) -> Result<Value, PromptError> {
    let items = |value: &Value| {
        let items = value.try_iter();
        items.map_err(|error| PromptError::Template(error.to_string()))
    };
    match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => Ok(Value::from(with(text)?)),
        (ValueKind::Map, _) => {
            let mut fields = Vec::new();
            for key in items(value)? {
                let field = value.get_item(&key);
                let field = field.map_err(|error| PromptError::Template(error.to_string()))?;
                fields.push((replaced(&key, with)?, replaced(&field, with)?));
            }
            Ok(Value::from_pairs(fields))
        }
        (ValueKind::Seq, _) => {
            let items: Result<Vec<Value>, PromptError> =
                items(value)?.map(|item| replaced(&item, with)).collect();
            Ok(Value::from(items?))
        }
        _ => Ok(value.clone()),
    }
}
