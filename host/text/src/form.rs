//! How a model writes reasoning and calls, as its chat template has it.

use std::ops::Range;

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
    /// Messages in channels, as gpt-oss writes: `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}`,
    /// which ends the answer. What else it says is in messages as well ([`Channels`]).
    Channels,
}

/// What parts the messages of an answer in channels.
///
/// Each is a head, `<|message|>` and a body; `<|end|><|start|>assistant` stands between two. The head has the channel and,
/// in front of it or behind, `to=` whom the message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channels {
    /// Before the name of a channel.
    pub channel: Tag,
    /// Before the kind of what is in the body.
    pub constrain: Tag,
    /// Before the body.
    pub message: Tag,
    /// Behind it.
    pub end: Tag,
    /// Before the name of who says the next message.
    pub start: Tag,
}

/// A text with a meaning in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tag {
    /// Text like other text.
    Text(String),
    /// A token of this number and name that the tokenizer has for it alone: a special one, or one that was added.
    Token(u32, String),
    /// Several tokens, some of which the tokenizer has for this alone.
    Tokens {
        /// All of them.
        tokens: Vec<u32>,
        /// Their names together.
        text: String,
        /// Those, and where in the text each stands, in bytes.
        own: Vec<(u32, Range<usize>)>,
    },
}

impl Tag {
    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Tag::Text(text) | Tag::Token(_, text) | Tag::Tokens { text, .. } => text,
        }
    }

    /// The token, if it is one.
    pub fn token(&self) -> Option<u32> {
        match self {
            Tag::Text(_) | Tag::Tokens { .. } => None,
            Tag::Token(token, _) => Some(*token),
        }
    }

    /// The tokens in it that the tokenizer has for it alone, and where in its text each stands. What other tokens spell
    /// there is no tag.
    pub(crate) fn own(&self) -> Vec<(u32, Range<usize>)> {
        match self {
            Tag::Text(_) => Vec::new(),
            Tag::Token(token, text) => vec![(*token, 0..text.len())],
            Tag::Tokens { own, .. } => own.clone(),
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
    /// What parts the messages of an answer with calls in channels.
    pub channels: Option<Channels>,
    /// Special and added tokens with a meaning, which [`crate::Detokenizer::showing`] shows.
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

/// What ends the reasoning of an answer in channels that may call functions: another message begins, in whichever channel.
const NEXT_MESSAGE: &str = "<|end|><|start|>assistant";

impl Tokenizer {
    /// How the model writes reasoning and calls: as far as its chat template says.
    pub fn answer_form(&self) -> &AnswerForm {
        &self.form
    }

    /// The same of an answer that may call functions, where `calls`: in channels a call may come where the content would.
    pub fn answer_form_with(&self, calls: bool) -> &AnswerForm {
        let with_calls = self.form_with_calls.as_deref().filter(|_| calls);
        with_calls.unwrap_or(&self.form)
    }

    /// How an answer is written in which functions may be called, where that is another form.
    pub(crate) fn form_with_calls(
        inner: &tokenizers::Tokenizer,
        template: Option<&str>,
    ) -> Option<Box<AnswerForm>> {
        let found = FORMS
            .iter()
            .find(|form| template.is_some_and(|source| source.contains(form.by)))
            .filter(|form| form.by == CHANNELS)?;
        let next = Thinks {
            ends: NEXT_MESSAGE,
            opens: None,
            ..*found
        };
        let mut form = Tokenizer::form(inner, CallForm::Channels, &next, true, false);
        let names = [
            "<|channel|>",
            "<|constrain|>",
            "<|message|>",
            "<|end|>",
            "<|start|>",
        ];
        let [channel, constrain, message, end, start] = names.map(|name| tag(inner, name));
        for part in [&channel, &constrain, &message, &end, &start] {
            let more = part.token().filter(|token| !form.shown.contains(token));
            form.shown.extend(more);
        }
        form.shown_of_reasoning.clone_from(&form.shown);
        form.channels = Some(Channels {
            channel,
            constrain,
            message,
            end,
            start,
        });
        Some(Box::new(form))
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
        let named = calls == CallForm::List && source.contains("[ARGS]");
        Tokenizer::form(inner, calls, reasoning, found.is_some(), named)
    }

    fn form(
        inner: &tokenizers::Tokenizer,
        calls: CallForm,
        reasoning: &Thinks,
        reasons: bool,
        named: bool,
    ) -> AnswerForm {
        let tag = |text: &str| tag(inner, text);
        let call = match calls {
            CallForm::Tagged => (tag(BEGINS_CALL), tag(ENDS_CALL)),
            CallForm::Bare => (tag("<|python_tag|>"), tag("")),
            CallForm::List => (tag("[TOOL_CALLS]"), tag("")),
            CallForm::Channels => (tag("<|channel|>"), tag("")),
        };
        let parts = [
            Some(reasoning.begins),
            Some(reasoning.ends),
            reasoning.opens,
        ];
        let mut shown_of_reasoning: Vec<u32> = Vec::new();
        for part in parts.into_iter().flatten() {
            shown_of_reasoning.extend(spelled(inner, part).1.iter().map(|(token, _)| *token));
        }
        shown_of_reasoning.sort_unstable();
        shown_of_reasoning.dedup();
        let others = ["[ARGS]", "[CALL_ID]"].map(tag);
        let of_calls = [&call.0, &call.1].into_iter().chain(&others);
        AnswerForm {
            named: named.then(|| tag("[ARGS]")),
            channels: None,
            shown: (shown_of_reasoning.iter().copied())
                .chain(of_calls.filter_map(Tag::token))
                .collect(),
            shown_of_reasoning,
            calls,
            reasons,
            reasoning: (mark(inner, reasoning.begins), mark(inner, reasoning.ends)),
            opens: reasoning.opens.map(|opens| mark(inner, opens)),
            spaced: reasoning.spaced,
            call,
        }
    }
}

/// A text, or the special token with this name.
fn tag(inner: &tokenizers::Tokenizer, text: &str) -> Tag {
    match inner.token_to_id(text) {
        Some(token) if inner.get_added_vocabulary().is_special_token(text) => {
            Tag::Token(token, text.to_owned())
        }
        _ => Tag::Text(text.to_owned()),
    }
}

/// The tokens of a text, and those of them that the tokenizer has for texts like it alone (special ones, and others that
/// were added to its vocabulary), each with where its name stands in the text. None where the names are not the text.
type Spelled = (Vec<u32>, Vec<(u32, Range<usize>)>);

fn spelled(inner: &tokenizers::Tokenizer, text: &str) -> Spelled {
    let tokens = guarded(|| inner.encode_fast(text, false));
    let tokens = tokens.map_or(Vec::new(), |tokens| tokens.get_ids().to_vec());
    let added = inner.get_added_tokens_decoder();
    let (mut own, mut at) = (Vec::new(), 0);
    for token in &tokens {
        let Some(name) = added.get(token).map(|added| added.content.as_str()) else {
            continue;
        };
        // What stands between is of other tokens, whose names may be spelled otherwise.
        let Some(found) = text[at..].find(name).filter(|_| !name.is_empty()) else {
            return (tokens, Vec::new());
        };
        own.push((*token, at + found..at + found + name.len()));
        at += found + name.len();
    }
    (tokens, own)
}

/// What begins or ends reasoning, by the tokens that there are for it.
fn mark(inner: &tokenizers::Tokenizer, text: &'static str) -> Tag {
    let (tokens, own) = spelled(inner, text);
    let whole = own.len() == 1 && tokens.len() == 1 && own[0].1 == (0..text.len());
    match (own.is_empty(), whole) {
        (true, _) => Tag::Text(text.into()),
        (false, true) => Tag::Token(own[0].0, text.into()),
        (false, false) => Tag::Tokens {
            tokens,
            text: text.into(),
            own,
        },
    }
}
