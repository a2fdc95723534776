//! Events of a streaming chat completion, as far as figures need them.

use std::borrow::Cow;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// A data event.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Usage {
    completion_tokens: u64,
}

/// What a line of the stream means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A piece of text.
    Piece,
    /// How many tokens the answer has.
    Tokens(u64),
    /// The end.
    Done,
}

/// Cuts a stream into lines, wherever its bytes were cut.
#[derive(Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes what came, and gives the events of the lines that are whole.
    pub(crate) fn take(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> anyhow::Result<()> {
        self.rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(length) = self.rest[begin..].iter().position(|byte| *byte == b'\n') {
            read(&self.rest[begin..begin + length], events)?;
            begin += length + 1;
        }
        self.rest.drain(..begin);
        Ok(())
    }
}

fn read(line: &[u8], events: &mut Vec<Event>) -> anyhow::Result<()> {
    // Comments and empty lines have nothing to count.
    let Some(data) = line.strip_prefix(b"data:") else {
        return Ok(());
    };
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        events.push(Event::Done);
        return Ok(());
    }
    let shown = || format!("not a chunk: {}", String::from_utf8_lossy(data));
    let chunk: Chunk<'_> = serde_json::from_slice(data).with_context(shown)?;
    if let Some(error) = chunk.error {
        bail!("the stream ended with an error: {error}");
    }
    let has_text = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|text| !text.is_empty());
    let pieces = chunk.choices.iter().map(|choice| &choice.delta);
    for _ in pieces.filter(|delta| has_text(&delta.content) || has_text(&delta.reasoning_content)) {
        events.push(Event::Piece);
    }
    if let Some(usage) = chunk.usage {
        events.push(Event::Tokens(usage.completion_tokens));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": ready\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\n\"}}]}\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"b\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7}}\n\n\
        data: [DONE]\n\n";

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        for size in [1, 7, 64, STREAM.len()] {
            let (mut lines, mut events) = (Lines::default(), Vec::new());
            for part in STREAM.as_bytes().chunks(size) {
                lines.take(part, &mut events).unwrap();
            }
            let wanted = [Event::Piece, Event::Piece, Event::Tokens(7), Event::Done];
            assert_eq!(events, wanted, "in parts of {size}");
        }
    }

    #[test]
    fn a_stream_that_says_it_broke_is_an_error() {
        let broken = b"data: {\"error\":{\"message\":\"the device failed\"}}\n";
        let error = Lines::default().take(broken, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("the device failed"), "{error}");
    }
}
