//! How a model writes reasoning and calls, as its chat template has it.

use crate::Tokenizer;
use crate::functions::{BEGINS_CALL, ENDS_CALL};
use crate::tokenizer::guarded;

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
    /// These tokens, some of them special, and their names together.
    Tokens(Vec<u32>, String),
}

impl Tag {
    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Tag::Text(text) | Tag::Token(_, text) | Tag::Tokens(_, text) => text,
        }
    }

    /// The special token, if it is one.
    pub fn token(&self) -> Option<u32> {
        match self {
            Tag::Text(_) | Tag::Tokens(..) => None,
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
    /// What begins an answer without reasoning, where it has a beginning of its own.
    pub opens: Option<Tag>,
    /// Whether lines stand between the reasoning and what begins and ends it.
    pub spaced: bool,
    /// Whether the template speaks of reasoning at all.
    pub reasons: bool,
    /// What begins and what ends a call; one is empty where there is none.
    pub call: (Tag, Tag),
    /// What stands between the name and the arguments of a call in a list, where the template has it.
    pub named: Option<Tag>,
    /// Special tokens with a meaning, which [`crate::Detokenizer::showing`] shows.
    pub shown: Vec<u32>,
    /// Those of them that begin and end the reasoning.
    pub shown_of_reasoning: Vec<u32>,
}

/// How the reasoning of a model is told from its answer, by what its template has. Where there are several, the first.
struct Thinks {
    /// What the template has in it.
    by: &'static str,
    begins: &'static str,
    ends: &'static str,
    opens: Option<&'static str>,
    spaced: bool,
}

/// Mistral's, gpt-oss's channels, Gemma's channel, Command's, Seed's, and, last, those of Qwen, DeepSeek and most others.
const FORMS: [Thinks; 6] = [
    Thinks {
        by: "[THINK]",
        begins: "[THINK]",
        ends: "[/THINK]",
        opens: None,
        spaced: true,
    },
    Thinks {
        by: CHANNELS,
        begins: "<|channel|>analysis<|message|>",
        ends: "<|end|><|start|>assistant<|channel|>final<|message|>",
        opens: Some("<|channel|>final<|message|>"),
        spaced: false,
    },
    Thinks {
        by: "<|channel>thought",
        begins: "<|channel>thought\n",
        ends: "<channel|>",
        opens: None,
        spaced: false,
    },
    Thinks {
        by: "<|START_THINKING|>",
        begins: "<|START_THINKING|>",
        ends: "<|END_THINKING|>",
        opens: None,
        spaced: false,
    },
    Thinks {
        by: "<seed:think>",
        begins: "<seed:think>",
        ends: "</seed:think>",
        opens: None,
        spaced: true,
    },
    Thinks {
        by: "</think>",
        begins: "<think>",
        ends: "</think>",
        opens: None,
        spaced: true,
    },
];

/// What the templates have whose answers are in channels.
pub(crate) const CHANNELS: &str = "<|channel|>analysis";

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
        let found = FORMS.iter().find(|form| source.contains(form.by));
        // A model without a word for it may have been trained to think all the same.
        let reasoning = found.unwrap_or(&FORMS[FORMS.len() - 1]);
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
        let special = |text: &str| {
            let added = inner.get_added_vocabulary();
            let tokens = guarded(|| inner.encode_fast(text, false));
            let tokens = tokens.map_or(Vec::new(), |tokens| tokens.get_ids().to_vec());
            let is_special = |token: &u32| {
                let name = inner.id_to_token(*token);
                name.is_some_and(|name| added.is_special_token(&name))
            };
            (
                tokens.clone(),
                tokens.into_iter().filter(is_special).collect::<Vec<u32>>(),
            )
        };
        // One that is made of several tokens, special ones among them.
        let tags = |text: &'static str| match (tag(text), special(text)) {
            (Tag::Text(text), (tokens, special)) if !special.is_empty() => {
                Tag::Tokens(tokens, text)
            }
            (tag, _) => tag,
        };
        let parts = [
            Some(reasoning.begins),
            Some(reasoning.ends),
            reasoning.opens,
        ];
        let mut shown_of_reasoning: Vec<u32> = Vec::new();
        for part in parts.into_iter().flatten() {
            shown_of_reasoning.extend(special(part).1);
        }
        shown_of_reasoning.sort_unstable();
        shown_of_reasoning.dedup();
        let others = ["[ARGS]", "[CALL_ID]"].map(tag);
        let of_calls = [&call.0, &call.1].into_iter().chain(&others);
        AnswerForm {
            named: (calls == CallForm::List && source.contains("[ARGS]")).then(|| tag("[ARGS]")),
            shown: (shown_of_reasoning.iter().copied())
                .chain(of_calls.filter_map(Tag::token))
                .collect(),
            shown_of_reasoning,
            calls,
            reasons: found.is_some(),
            reasoning: (tags(reasoning.begins), tags(reasoning.ends)),
            opens: reasoning.opens.map(tags),
            spaced: reasoning.spaced,
            call,
        }
    }
}
