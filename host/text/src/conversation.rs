//! From a conversation to the tokens of a prompt.

use std::collections::BTreeSet;

use minijinja::value::Value;
use tidegate_contract::{Function, Message};

use crate::turn::{OnText, Turn, replaced, tool};
use crate::{ChatMessage, PromptError, Tokenizer, chat, functions};

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedChat {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Whether it ends with the tag that begins the reasoning: the answer goes on inside.
    pub thinks: bool,
}

/// What is rendered.
struct Chat {
    turns: Vec<Turn>,
    functions: Vec<Value>,
}

impl Chat {
    fn replace(&mut self, with: &mut OnText<'_>) -> Result<(), PromptError> {
        for turn in &mut self.turns {
            turn.replace(with)?;
        }
        for function in &mut self.functions {
            *function = replaced(function, with)?;
        }
        Ok(())
    }
}

impl Tokenizer {
    /// Renders messages with the model's template, up to the beginning of the answer.
    ///
    /// Without a template each message is a line, `System: ...`, `User: ...` or `Assistant: ...`, and the answer
    /// begins after `Assistant:`.
    ///
    /// # Errors
    /// The template refuses the messages or fails on them.
    pub fn render_chat(&self, messages: &[ChatMessage<'_>]) -> Result<String, PromptError> {
        self.render(&Chat::of(messages))
    }

    /// As [`Tokenizer::render_chat`], with functions that may be called, calls, their answers and reasoning.
    ///
    /// A template finds them as `transformers` gives them: `tools`, `tool_calls` with arguments as objects, the role
    /// `tool` with `tool_call_id` and `name`, and `reasoning_content`. For a template that has no word for tools, and
    /// where there is no template, the functions are described before the first message, with the form of a call:
    /// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`; calls and their answers are part of the messages.
    ///
    /// # Errors
    /// The template refuses the messages or fails on them.
    pub fn render_conversation(
        &self,
        messages: &[Message],
        functions: &[Function],
    ) -> Result<String, PromptError> {
        self.render(&self.conversation(messages, functions))
    }

    /// The tokens of a prompt: the messages rendered and encoded, their content as plain text only.
    ///
    /// A template writes the beginning-of-sequence token itself, so none is added; without a template the
    /// tokenizer's own special tokens are added, the beginning of the sequence once.
    ///
    /// # Errors
    /// The template refuses the messages or fails on them, or the tokenizer fails on the text.
    pub fn encode_chat(&self, messages: &[ChatMessage<'_>]) -> Result<Vec<u32>, PromptError> {
        Ok(self.encode_literally(Chat::of(messages))?.tokens)
    }

    /// As [`Tokenizer::encode_chat`], of what [`Tokenizer::render_conversation`] renders: no text of it, of whatever
    /// field, becomes a special token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_chat`].
    pub fn encode_conversation(
        &self,
        messages: &[Message],
        functions: &[Function],
    ) -> Result<EncodedChat, PromptError> {
        self.encode_literally(self.conversation(messages, functions))
    }

    fn conversation(&self, messages: &[Message], functions: &[Function]) -> Chat {
        let mut turns = Turn::all(messages);
        let source = self.config.chat_template.as_deref();
        if source.is_some_and(|source| source.contains("tools")) {
            if source.is_some_and(functions::wants_short_ids) {
                functions::shorten_ids(&mut turns);
            }
            return Chat {
                turns,
                functions: functions.iter().map(tool).collect(),
            };
        }
        functions::describe(&mut turns, functions, source.is_some());
        Chat {
            turns,
            functions: Vec::new(),
        }
    }

    fn render(&self, chat: &Chat) -> Result<String, PromptError> {
        match &self.chat {
            Some(template) => template.render(&chat.turns, &chat.functions, &self.config),
            None => Ok(chat::plain(&chat.turns)),
        }
    }

    fn encode_literally(&self, mut chat: Chat) -> Result<EncodedChat, PromptError> {
        let mut has_names = false;
        let mut unused: BTreeSet<char> = ('\u{fdd0}'..='\u{fdef}').collect();
        chat.replace(&mut |text| {
            has_names |= self.literal_pieces(text)?.len() > 1;
            unused.retain(|mark| !text.contains(*mark));
            Ok(text.to_owned())
        })?;
        let mark = match has_names {
            true => Some(unused_mark(&unused)?),
            false => None,
        };
        if let Some(mark) = mark {
            let mut buffer = [0; 4];
            let mark: &str = mark.encode_utf8(&mut buffer);
            chat.replace(&mut |text| Ok(self.literal_pieces(text)?.join(mark)))?;
        }
        let rendered = self.render(&chat)?;
        let pieces: Vec<&str> = match mark {
            Some(mark) => rendered.split(mark).collect(),
            None => vec![&rendered],
        };
        let mut tokens = Vec::new();
        for (index, piece) in pieces.into_iter().enumerate() {
            tokens.extend(self.encode_piece(piece, index == 0 && self.chat.is_none())?);
        }
        if self.bos.is_some_and(|bos| tokens.starts_with(&[bos, bos])) {
            tokens.remove(0);
        }
        let begins = self.answer_form().reasoning.0.text();
        Ok(EncodedChat {
            tokens,
            thinks: rendered.trim_end().ends_with(begins),
        })
    }
}

impl Chat {
    fn of(messages: &[ChatMessage<'_>]) -> Chat {
        Chat {
            turns: messages.iter().copied().map(Turn::from).collect(),
            functions: Vec::new(),
        }
    }
}

/// A noncharacter (U+FDD0 to U+FDEF, for use inside programs) that nothing in the conversation has.
fn unused_mark(unused: &BTreeSet<char>) -> Result<char, PromptError> {
    unused.first().copied().ok_or_else(|| {
        PromptError::Encode("the messages have all the noncharacters U+FDD0 to U+FDEF".into())
    })
}
