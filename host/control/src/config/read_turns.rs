//! Reads what a stage asks in the place of one prompt: the turns of a chat, and what its template is given beside them.

use tidegate_contract::{PromptTemplate, Role, TemplateArguments};
use toml::de::DeValue;

use super::findings::Typed;
use super::models::Turn;
use super::read_stage::json;
use super::reader::{Table, Value};
use super::text::{Span, byte_in_literal};

/// Most turns of a stage.
const MOST_TURNS: usize = 64;
/// What a list of turns looks like.
const EXAMPLE: &str = "[{ role = \"user\", content = \"{text}\" }]";

/// What `messages` says.
pub(crate) enum TypedMessages {
    /// Nothing, or that there are none.
    None,
    /// The record says what is asked.
    FromRecord,
    /// These are asked.
    Turns(Vec<Turn>),
}

/// Reads `messages`, and says what has no place beside it.
pub(crate) fn read_messages(table: &Table<'_>) -> TypedMessages {
    let Some(value) = table.get("messages") else {
        return TypedMessages::None;
    };
    let (messages, absent, why): (TypedMessages, &[&'static str], &str) = match value.raw {
        DeValue::Boolean(false) => return TypedMessages::None,
        DeValue::Boolean(true) => (
            TypedMessages::FromRecord,
            &["prompt", "raw", "prompt-tokens", "truncate"],
            "has no place beside messages = true: the record says what is asked, whole",
        ),
        DeValue::Array(entries) => (
            TypedMessages::Turns(read_turns(table, &value, entries)),
            &["prompt", "system", "raw"],
            "has no place beside a list of messages: what is asked stands there, whole; write it as one of them",
        ),
        _ => {
            let wanted = "true or a list of messages";
            value.wrong(table.found, wanted, EXAMPLE);
            (
                TypedMessages::Turns(Vec::new()),
                &["prompt"],
                "stands beside messages; leave one",
            )
        }
    };
    for name in absent {
        if let Some(value) = table.get(name) {
            table.found.mistake(&value.place, &value.key, why);
        }
    }
    messages
}

fn read_turns<'t>(
    table: &Table<'t>,
    value: &Value<'t>,
    entries: &'t toml::de::DeArray<'t>,
) -> Vec<Turn> {
    let wrong = |why: String| table.found.mistake(&value.place, &value.key, why);
    if entries.is_empty() {
        wrong(format!("is empty; write for example {EXAMPLE}"));
    }
    if entries.len() > MOST_TURNS {
        wrong(format!(
            "has {} messages; at most {MOST_TURNS} may be",
            entries.len()
        ));
    }
    let mut turns = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let entry = Value {
            raw: entry.get_ref(),
            place: Span(entry.span()),
            key: format!("{}[{}]", value.key, number + 1),
        };
        let Some(entry) = entry.table(table.found) else {
            continue;
        };
        let roles = [
            ("system", Role::System),
            ("user", Role::User),
            ("assistant", Role::Assistant),
        ];
        let role = entry.word("role", &roles);
        if entry.get("role").is_none() {
            entry.missing("role", "role = \"system\", \"user\" or \"assistant\"");
        }
        let content = read_template(&entry, "content");
        let last = number + 1 == entries.len();
        if let Some(role) = role.as_ref().filter(|_| last) {
            match role.value {
                Role::System | Role::Tool => entry.found.about(
                    role,
                    "is the role of the last message; a model answers a user, or goes on with an assistant",
                ),
                Role::Assistant if entries.len() == 1 => entry.found.about(
                    role,
                    "is the role of the only message; write before it what the assistant answers",
                ),
                Role::Assistant | Role::User => {}
            }
        }
        if let (Some(role), Some(content)) = (role, content) {
            turns.push(Turn {
                role: role.value,
                content,
            });
        }
        entry.finish();
    }
    turns
}

/// A text with places for what the record says.
pub(crate) fn read_template(table: &Table<'_>, name: &'static str) -> Option<PromptTemplate> {
    let Some(value) = table.get(name) else {
        table.missing(name, &format!("{name} = \"{{text}}\""));
        return None;
    };
    let typed: Typed<String> = value.string(table.found)?;
    if typed.value.trim().is_empty() {
        table
            .found
            .about(&typed, "is empty; write for example \"{text}\"");
        return None;
    }
    match PromptTemplate::parse(&typed.value) {
        Ok(prompt) => Some(prompt),
        Err(error) => {
            let span = &typed.place.0;
            let literal = table.found.text.content.get(span.clone()).unwrap_or("");
            let at = span.start + byte_in_literal(literal, error.at);
            table
                .found
                .mistake(&Span(at..at + 1), &typed.key, error.why);
            None
        }
    }
}

/// `{ enable_thinking = false }`.
pub(crate) fn read_template_arguments(table: &Table<'_>) -> TemplateArguments {
    let Some(value) = table.get("template-arguments") else {
        return TemplateArguments::default();
    };
    let DeValue::Table(_) = value.raw else {
        value.wrong(table.found, "a table", "{ enable_thinking = false }");
        return TemplateArguments::default();
    };
    let serde_json::Value::Object(arguments) = json(&value, table.found) else {
        return TemplateArguments::default();
    };
    match TemplateArguments::new(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let all = table.table("template-arguments").map(|inner| inner.all());
            let named = all
                .into_iter()
                .flatten()
                .find(|(name, _)| error.name.as_ref() == Some(&name.value));
            match named {
                Some((name, _)) => table.found.about(&name, error.why),
                None => table.found.mistake(&value.place, &value.key, error.why),
            }
            TemplateArguments::default()
        }
    }
}
