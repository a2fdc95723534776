//! How a model writes reasoning and calls, as its chat template has it.

use crate::Tokenizer;
use crate::functions::{BEGINS_CALL, ENDS_CALL};

/// How calls are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallForm {
    /// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as Hermes and Qwen write, and whoever has no form
    /// of its own or one that is not known here.
    Tagged,
    /// `{"name": ..., "parameters": {...}}` as the whole answer, as Llama 3 writes, or after `<|python_tag|>`.
    Bare,
    /// `[TOOL_CALLS][{"name": ..., "arguments": {...}}]`, as Mistral writes, or `[TOOL_CALLS]name[ARGS]{...}`.
    List,
}

/// A text with a meaning in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tag {
    /// Text like other text.
    Text(String),
    /// A special token of this number and name.
    Token(u32, String),
}

impl Tag {
    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Tag::Text(text) | Tag::Token(_, text) => text,
        }
    }

    /// The special token, if it is one.
    pub fn token(&self) -> Option<u32> {
        match self {
            Tag::Text(_) => None,
            Tag::Token(token, _) => Some(*token),
        }
    }
}

/// How a model writes what is not content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerForm {
    /// Calls.
    pub calls: CallForm,
    /// What begins and what ends the reasoning.
    pub reasoning: (Tag, Tag),
    /// Whether the template speaks of reasoning at all.
    pub reasons: bool,
    /// What begins and what ends a call; one is empty where there is none.
    pub call: (Tag, Tag),
    /// What stands between the name and the arguments of a call in a list, where the template has it.
    pub named: Option<Tag>,
    /// Special tokens with a meaning, which [`crate::Detokenizer::showing`] shows.
    pub shown: Vec<u32>,
}

impl Tokenizer {
    /// How the model writes reasoning and calls: as far as its chat template says.
    pub fn answer_form(&self) -> &AnswerForm {
        &self.form
    }

    /// Finds out.
    pub(crate) fn form_of(inner: &tokenizers::Tokenizer, template: Option<&str>) -> AnswerForm {
        let source = template.unwrap_or_default();
        let knows_tools = source.contains("tools");
        let calls = if knows_tools && source.contains("[TOOL_CALLS]") {
            CallForm::List
        } else if knows_tools
            && source.contains("<|start_header_id|>")
            && source.contains("\"parameters\"")
        {
            CallForm::Bare
        } else {
            CallForm::Tagged
        };
        let reasoning = match source.contains("[THINK]") {
            true => ("[THINK]", "[/THINK]"),
            false => ("<think>", "</think>"),
        };
        let tag = |text: &str| match inner.token_to_id(text) {
            Some(token) if inner.get_added_vocabulary().is_special_token(text) => {
                Tag::Token(token, text.to_owned())
            }
            _ => Tag::Text(text.to_owned()),
        };
        let call = match calls {
            CallForm::Tagged => (tag(BEGINS_CALL), tag(ENDS_CALL)),
            CallForm::Bare => (tag("<|python_tag|>"), tag("")),
            CallForm::List => (tag("[TOOL_CALLS]"), tag("")),
        };
        let others = [reasoning.0, reasoning.1, "[ARGS]", "[CALL_ID]"].map(tag);
        let tags = [&call.0, &call.1].into_iter().chain(&others);
        AnswerForm {
            named: (calls == CallForm::List && source.contains("[ARGS]")).then(|| tag("[ARGS]")),
            shown: tags.filter_map(Tag::token).collect(),
            calls,
            reasons: source.contains(reasoning.1),
            reasoning: (tag(reasoning.0), tag(reasoning.1)),
            call,
        }
    }
}
