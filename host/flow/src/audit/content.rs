//! What was asked and answered, as it is written to be sealed: nothing of it is copied before.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use tidegate_contract::{Answer, AuditContent, Choice, Entity, Made};
use tidegate_record::RecordView;

use super::Outcome;
use crate::entry::Entry;
use crate::prompt;
use crate::topology::{Ask, ModelStage};

#[derive(Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    private: BTreeMap<&'a str, Option<Cow<'a, str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<Vec<Said<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a [(String, f32)]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entities: Option<&'a [Entity]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relevance: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Vec<u32>>,
}

/// One of several answers.
#[derive(Serialize)]
struct Said<'a> {
    text: &'a str,
    reasoning: &'a str,
    calls: Vec<Called<'a>>,
    tokens: &'a [u32],
    finish: &'static str,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Content<'a> {
    pub(super) fn of(
        kind: &'a ModelStage,
        entry: &'a Entry,
        record: &RecordView<'a>,
        outcome: Outcome<'a>,
    ) -> Content<'a> {
        let system = match &kind.ask {
            Ask::Generate { system, .. } => system.as_deref(),
            _ => None,
        };
        // Of a record that says itself what is asked, that is the prompt.
        let (prompt, asked) = match entry.prompt.is_empty() {
            false => (Some(prompt::readable(&entry.prompt)), None),
            true => (None, record.value().map(String::from_utf8_lossy)),
        };
        let private = record.attributes();
        let content = Content {
            key: record.key().map(String::from_utf8_lossy),
            system,
            prompt,
            asked,
            private: private
                .map(|pair| (pair.name, pair.value.map(String::from_utf8_lossy)))
                .collect(),
            choices: None,
            embedding: None,
            labels: None,
            entities: None,
            relevance: None,
            reason: None,
            tokens: None,
        };
        match outcome {
            Outcome::Answered(answer) => content.with(answer),
            Outcome::Failed(reason) => Content {
                reason: Some(reason),
                tokens: Some(entry.tokens.to_vec()),
                ..content
            },
            Outcome::Left => Content {
                tokens: Some(entry.tokens.to_vec()),
                ..content
            },
        }
    }

    fn with(self, answer: &'a Answer) -> Content<'a> {
        match &answer.made {
            Made::Choices(choices) => Content {
                choices: Some(choices.iter().map(Said::of).collect()),
                ..self
            },
            Made::Embedding(vector) => Content {
                embedding: Some(vector),
                ..self
            },
            Made::Labels(labels) => Content {
                labels: Some(labels),
                ..self
            },
            Made::Entities(entities) => Content {
                entities: Some(entities),
                ..self
            },
            Made::Relevance(scores) => Content {
                relevance: Some(scores),
                ..self
            },
        }
    }
}

impl<'a> Said<'a> {
    fn of(choice: &'a Choice) -> Said<'a> {
        let calls = choice.calls.iter().map(|call| Called {
            name: &call.name,
            arguments: &call.arguments,
        });
        Said {
            text: &choice.text,
            reasoning: &choice.reasoning,
            calls: calls.collect(),
            tokens: &choice.tokens,
            finish: choice.finish.name(),
        }
    }
}

impl AuditContent for Content<'_> {
    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        Ok(serde_json::to_writer(to, self)?)
    }
}
