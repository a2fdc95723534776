//! Makes an answer of the chunks of a stream, and shows it as it grows.

use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_contract::{Answer, Call, Choice, Finish, Lane, MOST_CALLS, Made, Piece, Timings};

use super::chunks::{CallDelta, Chunk, ChunkChoice, Delta, Usage};
use super::reply::GuardedReply;
use super::request::Asked;
use super::trouble::Trouble;

/// Most bytes of all texts of an answer.
const MOST_TEXT: usize = 32 << 20;

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Assembly {
    choices: Vec<Growing>,
    max_tokens: u32,
    lanes: bool,
    /// Tokens of the prompt, estimated until the server says.
    prompt_tokens: u64,
    /// Tokens of the answer, as the server says.
    completion_tokens: Option<u64>,
    /// Of these, those of the reasoning.
    reasoning_tokens: Option<u64>,
    bytes: usize,
    shown: bool,
    started: Instant,
    first: Option<Instant>,
}

#[derive(Debug, Default)]
struct Growing {
    text: String,
    reasoning: String,
    calls: Vec<(u32, Call)>,
    /// Pieces that came; most servers send one for each token.
    pieces: u32,
    /// Of these, those of the reasoning.
    reasoning_pieces: u32,
    finish: Option<Finish>,
    refused: bool,
}

/// Why a chunk is not taken.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The server is at fault.
    Trouble(Trouble),
    /// Nobody listens any more.
    Gone,
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Stopped {
        Stopped::Trouble(trouble)
    }
}

impl Assembly {
    pub(crate) fn new(asked: &Asked) -> Assembly {
        Assembly {
            choices: (0..asked.choices).map(|_| Growing::default()).collect(),
            max_tokens: asked.max_tokens,
            lanes: asked.lanes,
            prompt_tokens: asked.prompt_tokens as u64,
            completion_tokens: None,
            reasoning_tokens: None,
            bytes: 0,
            shown: false,
            started: Instant::now(),
            first: None,
        }
    }

    /// Whether anything of it was shown: then it cannot begin anew.
    pub(crate) fn shown(&self) -> bool {
        self.shown
    }

    /// Whether every choice has its end.
    pub(crate) fn finished(&self) -> bool {
        self.choices.iter().all(|choice| choice.finish.is_some())
    }

    /// Tokens that were made, as far as it is known.
    pub(crate) fn made(&self) -> usize {
        self.choices
            .iter()
            .map(|choice| choice.pieces as usize)
            .sum()
    }

    /// A try begins: what was made of another is forgotten.
    pub(crate) fn begin(&mut self) {
        self.choices.fill_with(Growing::default);
        self.completion_tokens = None;
        self.reasoning_tokens = None;
        self.bytes = 0;
    }

    /// Every choice that has no end ends here.
    pub(crate) fn end(&mut self) {
        for choice in &mut self.choices {
            choice.finish.get_or_insert(Finish::Filtered);
        }
    }

    /// Takes a chunk and shows what it adds.
    pub(crate) fn take(&mut self, chunk: Chunk, reply: &mut GuardedReply) -> Result<(), Stopped> {
        if let Some(Usage {
            prompt_tokens,
            completion_tokens,
            completion_tokens_details,
        }) = chunk.usage
        {
            self.prompt_tokens = prompt_tokens.unwrap_or(self.prompt_tokens);
            self.completion_tokens = completion_tokens.or(self.completion_tokens);
            let details = completion_tokens_details.unwrap_or_default();
            self.reasoning_tokens = details.reasoning_tokens.or(self.reasoning_tokens);
        }
        for choice in chunk.choices.into_iter().flatten() {
            self.choice(choice, reply)?;
        }
        Ok(())
    }

    fn choice(&mut self, said: ChunkChoice, reply: &mut GuardedReply) -> Result<(), Stopped> {
        let number = said.index.unwrap_or(0);
        let most = self.choices.len();
        let Some(growing) = self.choices.get_mut(number as usize) else {
            let why = format!("its answer has a choice {number}, {most} were asked for");
            return Err(Trouble::wrong(why).into());
        };
        if growing.finish.is_some() {
            return Ok(());
        }
        let delta = said.delta.or(said.message).unwrap_or_default();
        let Delta {
            content,
            reasoning_content,
            reasoning,
            refusal,
            tool_calls,
        } = delta;
        let reasoning = reasoning_content.or(reasoning).filter(|_| self.lanes);
        growing.refused |= refusal.as_ref().is_some_and(|text| !text.is_empty());
        let content = [content, said.text, refusal];
        let texts = [(Lane::Reasoning, reasoning)]
            .into_iter()
            .chain(content.map(|text| (Lane::Content, text)));
        let mut show = Show {
            number,
            growing,
            bytes: &mut self.bytes,
            shown: &mut self.shown,
            first: &mut self.first,
            reply,
        };
        for (lane, text) in texts {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                show.text(lane, &text)?;
            }
        }
        for call in tool_calls.into_iter().flatten() {
            show.call(call)?;
        }
        if let Some(reason) = said.finish_reason {
            let stopped = matches!(said.stop_reason, Some(Value::String(_)));
            growing.finish = Some(match reason.as_str() {
                _ if growing.refused => Finish::Filtered,
                "length" => Finish::Length,
                "tool_calls" | "function_call" => Finish::Calls,
                "content_filter" => Finish::Filtered,
                "stop" if !growing.calls.is_empty() => Finish::Calls,
                "stop" if stopped => Finish::Stop,
                "error" => return Err(Trouble::failed("its answer ended with an error").into()),
                _ => Finish::End,
            });
            // That the last has ended is said with the answer.
            if !self.finished() {
                self.shown = true;
                if !reply.choice_ended(number) {
                    return Err(Stopped::Gone);
                }
            }
        }
        Ok(())
    }

    /// The answer, all of whose choices have ended, or as it stands.
    ///
    /// Its tokens have no numbers here: each choice has as many zeros as tokens, so that counts are right. Of several
    /// choices the server says the sum alone: they share it by what came of them. No choice has more than were asked
    /// for, whatever the server says.
    pub(crate) fn answer(mut self) -> Answer {
        let pieces: u64 = self
            .choices
            .iter()
            .map(|choice| u64::from(choice.pieces))
            .sum();
        let sum = self.completion_tokens.unwrap_or(pieces);
        let mut left = sum;
        // Those of the reasoning are shared in the same way.
        let thought: u64 = (self.choices.iter())
            .map(|choice| u64::from(choice.reasoning_pieces))
            .sum();
        let reasoning = self.reasoning_tokens.unwrap_or(thought);
        let alone = self.choices.len() == 1;
        let last = self.choices.len().saturating_sub(1);
        let now = Instant::now();
        let first = self.first.unwrap_or(now);
        let mut choices = Vec::with_capacity(self.choices.len());
        for (number, growing) in self.choices.drain(..).enumerate() {
            let share = match number == last {
                true => left,
                false => {
                    (sum as u128 * u128::from(growing.pieces) / u128::from(pieces.max(1))) as u64
                }
            };
            left = left.saturating_sub(share);
            let tokens = share.min(u64::from(self.max_tokens)) as usize;
            let reasoning = match alone {
                true => reasoning,
                false => {
                    let own = u128::from(growing.reasoning_pieces);
                    (u128::from(reasoning) * own / u128::from(thought.max(1))) as u64
                }
            };
            choices.push(Choice {
                text: growing.text,
                reasoning: growing.reasoning,
                reasoning_tokens: reasoning.min(tokens as u64) as u32,
                calls: growing.calls.into_iter().map(|(_, call)| call).collect(),
                tokens: vec![0; tokens],
                finish: growing.finish.unwrap_or(Finish::End),
                logprobs: Vec::new(),
            });
        }
        Answer {
            made: Made::Choices(choices),
            prompt_tokens: u32::try_from(self.prompt_tokens).unwrap_or(u32::MAX),
            adapter: String::new(),
            timings: Timings {
                queued: Duration::ZERO,
                prefill: first.saturating_duration_since(self.started),
                decode: now.saturating_duration_since(first),
            },
        }
    }
}

/// A choice that grows, before those who see it.
struct Show<'a> {
    number: u32,
    growing: &'a mut Growing,
    bytes: &'a mut usize,
    shown: &'a mut bool,
    first: &'a mut Option<Instant>,
    reply: &'a mut GuardedReply,
}

impl Show<'_> {
    fn text(&mut self, lane: Lane, text: &str) -> Result<(), Stopped> {
        self.hold(text.len())?;
        match lane {
            Lane::Reasoning => {
                self.growing.reasoning.push_str(text);
                self.growing.reasoning_pieces = self.growing.reasoning_pieces.saturating_add(1);
            }
            _ => self.growing.text.push_str(text),
        }
        self.piece(lane, text, None)
    }

    fn call(&mut self, said: CallDelta) -> Result<(), Stopped> {
        let function = said.function.unwrap_or_default();
        let arguments = function.arguments.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let id = said.id.unwrap_or_default();
        self.hold(arguments.len() + name.len() + id.len())?;
        let calls = &mut self.growing.calls;
        // Some servers leave the index out: a name then begins a call, and what has none goes on with the last.
        let index = said.index.unwrap_or_else(|| {
            let next = calls.iter().map(|(index, _)| index + 1).max();
            match name.is_empty() {
                true => next.unwrap_or(1) - 1,
                false => next.unwrap_or(0),
            }
        });
        if let Some(place) = calls.iter().position(|(there, _)| *there == index) {
            calls[place].1.arguments.push_str(&arguments);
            return match arguments.is_empty() {
                true => Ok(()),
                false => self.piece(Lane::Arguments(place as u32), &arguments, None),
            };
        }
        if name.is_empty() {
            let why = format!("its answer goes on with a call {index} that has not begun");
            return Err(Trouble::wrong(why).into());
        }
        if calls.len() == MOST_CALLS {
            let why = format!("its answer has more than {MOST_CALLS} calls");
            return Err(Trouble::wrong(why).into());
        }
        let place = calls.len() as u32;
        // A call without an id could not be answered.
        let id = match id.is_empty() {
            true => format!("call_{}_{place}", self.number),
            false => id,
        };
        let call = Call {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
        };
        calls.push((index, call));
        self.piece(Lane::Arguments(place), &arguments, Some((&id, &name)))
    }

    fn hold(&mut self, more: usize) -> Result<(), Stopped> {
        *self.bytes += more;
        if *self.bytes > MOST_TEXT {
            return Err(
                Trouble::wrong(format!("its answer is longer than {MOST_TEXT} bytes")).into(),
            );
        }
        Ok(())
    }

    fn piece(
        &mut self,
        lane: Lane,
        text: &str,
        begins: Option<(&str, &str)>,
    ) -> Result<(), Stopped> {
        self.first.get_or_insert_with(Instant::now);
        *self.shown = true;
        let index = self.growing.pieces;
        self.growing.pieces = index.saturating_add(1);
        let piece = Piece {
            choice: self.number,
            index,
            lane,
            text,
            begins,
            logprobs: &[],
        };
        match self.reply.piece(&piece) {
            true => Ok(()),
            false => Err(Stopped::Gone),
        }
    }
}
