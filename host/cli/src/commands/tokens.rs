//! `tidegate tokens`: answers put together from their tokens.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::{Value, json};
use tidegate_codec::tokens::{
    Change, Joined, OwnedEvent, OwnedWhat, ReaderLimits, State, TokenReader, parse_token_event,
};
use tidegate_contract::Lane;
use tidegate_telemetry::plain;

use super::{is_read, print, print_json};
use crate::exit::Failure;

/// Longest line of input.
const LONGEST_LINE: u64 = 16 << 20;
/// Most bytes of a text that a terminal is shown at once.
const SHOWN: usize = 1 << 20;

/// Put answers together from their tokens as they are made, and show them as they grow.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    curl -sN http://localhost:8080/v1/outputs/tokens | tidegate tokens\n  \
    kcat -b localhost:9092 -t tokens -u | tidegate tokens --json\n\n\
    It reads events from standard input: a line of JSON each, or server-sent events. Of attempts that follow each other\n\
    the last counts, what comes twice is shown once, and what is missing is said.")]
pub(crate) struct Arguments {
    /// Print a line of JSON for each change, and one for each answer that is whole.
    #[arg(long)]
    json: bool,
}

/// Reads events from standard input, as lines of JSON or server-sent events, and shows answers as they grow.
pub(crate) fn tokens(arguments: &Arguments) -> Result<(), Failure> {
    let mut input = std::io::stdin().lock();
    let mut screen = Screen::new(arguments.json);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = (&mut input)
            .take(LONGEST_LINE + 1)
            .read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(());
        }
        number += 1;
        if line.len() as u64 > LONGEST_LINE {
            let why = anyhow!("line {number} is longer than {LONGEST_LINE} bytes");
            return Err(why.into());
        }
        let Some(event) = data(&line) else { continue };
        let event =
            parse_token_event(event).map_err(|why| anyhow!("line {number} of input: {why}"))?;
        let shown = screen.take(&event);
        if !shown.is_empty() {
            match arguments.json {
                true => print_json(&shown)?,
                false => print(&shown)?,
            }
            if !is_read() {
                return Ok(());
            }
        }
    }
}

/// The event in a line, if it has one: a line of JSON, or the data of a server-sent event.
fn data(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
    let event = data.unwrap_or(line);
    // Of a stream's own events that tell of a gap: the reader sees it by itself.
    let is_event = event.starts_with(b"{") && !event.starts_with(b"{\"after\"");
    is_event.then_some(event)
}

/// What is shown, and of what last.
struct Screen {
    reader: TokenReader,
    json: bool,
    last: Option<Last>,
    states: BTreeMap<String, State>,
}

/// The text that the terminal's last line is of.
struct Last {
    place: (String, u32, Lane),
    /// Characters that are shown of it.
    length: u64,
}

impl Screen {
    fn new(json: bool) -> Screen {
        Screen {
            reader: TokenReader::default(),
            json,
            last: None,
            states: BTreeMap::new(),
        }
    }

    fn take(&mut self, event: &OwnedEvent) -> String {
        let changes = self.reader.take(event);
        let request = event.request.as_str();
        let mut out = String::new();
        for change in changes {
            match self.json {
                true => out.push_str(&change_json(request, &change)),
                false => self.say(request, &change, &mut out),
            }
        }
        let state = self.reader.state(request).unwrap_or(State::Open);
        let before = self.states.insert(request.to_owned(), state);
        if before.unwrap_or(State::Open) != state {
            out.push_str(&self.stands(request, state));
        }
        // Bounded as the reader is.
        if self.states.len() > 2 * ReaderLimits::default().answers {
            let kept = |request: &String| self.reader.state(request).is_some();
            self.states.retain(|request, _| kept(request));
        }
        out
    }

    /// A text that grows goes on in its line; another, or one that is taken back in part, begins one.
    fn say(&mut self, request: &str, change: &Change, out: &mut String) {
        let place = (request.to_owned(), change.choice, change.lane);
        let goes_on = |last: &Last| last.place == place && last.length == change.keep;
        if !self.last.as_ref().is_some_and(goes_on) {
            let lane = OwnedWhat::lane_name(change.lane);
            let before = if self.last.is_some() { "\n" } else { "" };
            let from = match change.keep {
                0 => String::new(),
                keep => format!(" from character {keep}"),
            };
            let (request, choice) = (plain(request, 256), change.choice);
            out.push_str(&format!(
                "{before}--- {request} choice {choice} {lane}{from}\n"
            ));
        }
        let lines = change.text.split('\n').map(|line| plain(line, SHOWN));
        out.push_str(&lines.collect::<Vec<_>>().join("\n"));
        self.last = Some(Last {
            place,
            length: change.keep + change.text.chars().count() as u64,
        });
    }

    fn stands(&mut self, request: &str, state: State) -> String {
        let name = match state {
            State::Open => "open",
            State::Gap => "gap",
            State::Complete => "complete",
            State::Lost => "lost",
        };
        if self.json {
            let answer = self.reader.answer(request);
            let answer = answer.filter(|_| state == State::Complete);
            let attempt = answer.as_ref().map(|answer| answer.attempt);
            let choices = answer.as_ref().map(choices_json);
            let line =
                json!({"request": request, "state": name, "attempt": attempt, "choices": choices});
            return format!("{line}\n");
        }
        let break_before = if self.last.take().is_some() { "\n" } else { "" };
        let request = plain(request, 256);
        match state {
            State::Open => format!("{break_before}--- {request} goes on\n"),
            _ => format!("{break_before}--- {request} {name}\n"),
        }
    }
}

fn change_json(request: &str, change: &Change) -> String {
    let line = json!({
        "request": request,
        "choice": change.choice,
        "lane": OwnedWhat::lane_name(change.lane),
        "keep": change.keep,
        "text": change.text,
    });
    format!("{line}\n")
}

fn choices_json(answer: &Joined) -> Value {
    let choices = answer.choices.iter().map(|choice| {
        let lanes = choice.lanes.iter();
        let lanes: serde_json::Map<String, Value> = lanes
            .map(|(lane, text)| (OwnedWhat::lane_name(*lane), text.as_str().into()))
            .collect();
        let calls = choice.calls.iter();
        let calls: Vec<Value> = calls
            .map(|(number, (id, name))| json!({"number": number, "id": id, "name": name}))
            .collect();
        json!({"choice": choice.choice, "finish": choice.finish, "lanes": lanes, "calls": calls})
    });
    choices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: bool, lines: &[&str]) -> String {
        let mut screen = Screen::new(json);
        let events = lines.iter().filter_map(|line| data(line.as_bytes()));
        let events = events.map(|event| parse_token_event(event).unwrap());
        events.map(|event| screen.take(&event)).collect()
    }

    const LINES: [&str; 9] = [
        ": a comment",
        "event: gap",
        "data: {\"after\":\"1\",\"next\":\"2\"}",
        r#"data: {"request":"ask/0/0/1","attempt":7,"choice":0,"lane":"content","at":0,"index":0,"text":"It is"}"#,
        r#"{"request":"ask/0/0/1","attempt":7,"choice":0,"lane":"content","at":5,"index":1,"text":" so"}"#,
        r#"{"request":"ask/0/0/1","attempt":9,"reset":0}"#,
        r#"{"request":"ask/0/0/1","attempt":9,"choice":0,"lane":"content","at":0,"index":1,"text":"It is not"}"#,
        r#"{"request":"ask/0/0/1","attempt":9,"end":[{"choice":0,"finish":"end","lanes":{"content":9}}]}"#,
        "",
    ];

    #[test]
    fn an_answer_is_shown_as_it_grows_and_from_where_an_attempt_says_something_else() {
        assert_eq!(
            shown(false, &LINES),
            "--- ask/0/0/1 choice 0 content\nIt is so\n--- ask/0/0/1 choice 0 content from character 6\nnot\n\
             --- ask/0/0/1 complete\n"
        );
    }

    #[test]
    fn as_json_every_change_is_a_line_and_the_whole_answer_is_one() {
        let text = shown(true, &LINES);
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1]["keep"], 5);
        assert_eq!(
            (&lines[2]["keep"], &lines[2]["text"]),
            (&6.into(), &"not".into())
        );
        assert_eq!(
            (&lines[3]["state"], &lines[3]["attempt"]),
            (&"complete".into(), &9.into())
        );
        assert_eq!(lines[3]["choices"][0]["lanes"]["content"], "It is not");
    }
}
