//! The one way to standard output and standard error. Much of what this program says is others' text: operators',
//! records', clients', brokers'. What would steer the terminal is escaped here, so that nothing that is put together
//! elsewhere can.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use serde_json::{Value, json};
use tidegate_telemetry::is_plain;
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::exit::Failure;
use crate::terminal::Errors;

/// Writes lines to standard output; a reader that has gone is not a failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    written(&plain_lines(text))
}

/// Writes JSON to standard output: a value, or a line for each of several.
pub(crate) fn print_json(json: &str) -> Result<(), Failure> {
    let is_ended = json.is_empty() || json.ends_with('\n');
    let line_end = if is_ended { "" } else { "\n" };
    written(&format!("{}{line_end}", plain_json(json)))
}

fn written(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other.context("cannot write to standard output")?),
    }
}

/// Whether somebody may still read standard output: nobody does once the other end of its pipe is closed.
#[cfg(unix)]
pub(crate) fn is_read() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let output = io::stdout();
    let mut output = [PollFd::new(&output, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // What cannot be asked is written to, and that tells.
    let asked = poll(&mut output, Some(&now)).is_ok();
    let gone = PollFlags::ERR | PollFlags::HUP;
    !asked || !output[0].revents().intersects(gone)
}

#[cfg(not(unix))]
pub(crate) fn is_read() -> bool {
    true
}

/// Whether standard error takes lines of JSON alone: whoever collects them drops all others.
static JSON: AtomicBool = AtomicBool::new(false);

/// Standard error takes lines of JSON alone from now on.
pub(crate) fn tell_json() {
    JSON.store(true, Ordering::Relaxed);
    std::panic::set_hook(Box::new(|panic| {
        // Not behind the line of progress, whose lock may be what the panic holds.
        let line = json_line(Level::ERROR, &panic.to_string(), Value::Null);
        let _ = io::stderr().write_all(line.as_bytes());
    }));
}

/// Whether standard error takes lines of JSON alone.
pub(crate) fn tells_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes lines to standard error. A reader that has gone is no reason to end.
pub(crate) fn tell(text: std::fmt::Arguments<'_>) {
    tell_as(Level::INFO, &text.to_string(), Value::Null);
}

/// Tells that something may not be as it is meant, on a line.
pub(crate) fn warn(text: &str) {
    match tells_json() {
        true => tell_as(Level::WARN, text, Value::Null),
        false => tell_as(Level::WARN, &format!("warning: {text}\n"), Value::Null),
    }
}

/// Tells why something has ended, on a line or several.
pub(crate) fn fail(text: &str) {
    tell_as(Level::ERROR, &format!("{text}\n"), Value::Null);
}

/// Tells of figures: for people as they stand in a table, as JSON under a name.
pub(crate) fn tell_figures(name: &str, table: &str, json: &[u8]) {
    match tells_json() {
        true => {
            let figures = serde_json::from_slice(json).unwrap_or_default();
            tell_as(Level::INFO, name, figures);
        }
        false => tell(format_args!("{table}")),
    }
}

/// A line of progress in the form that standard error takes.
pub(crate) fn progress_line(text: &str) -> Cow<'_, str> {
    match (tells_json(), text.trim()) {
        (false, _) => Cow::Borrowed(text),
        (true, "") => Cow::Borrowed(""),
        (true, text) => Cow::Owned(json_line(Level::INFO, text, Value::Null)),
    }
}

fn tell_as(level: Level, text: &str, figures: Value) {
    let told = match tells_json() {
        true => json_line(level, text, figures),
        false => plain_lines(text).into_owned(),
    };
    let _ = Errors.write_all(told.as_bytes());
}

/// A line as the log has them, whatever the log's filter: these are answers to whoever began the program.
fn json_line(level: Level, text: &str, figures: Value) -> String {
    let mut time = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let message = text.trim();
    let mut line = json!({
        "timestamp": time,
        "level": level.as_str(),
        "message": message,
        "target": "tidegate",
    });
    if !figures.is_null() {
        line[message] = figures;
    }
    format!("{}\n", plain_json(&line.to_string()))
}

/// Standard error for the lines of the log.
#[derive(Clone, Copy)]
pub(crate) enum LogLines {
    /// For people, with colours or without.
    Text {
        /// Whether it has colours.
        coloured: bool,
    },
    /// JSON.
    Json,
}

impl LogLines {
    fn plain(self, text: &str) -> String {
        match self {
            LogLines::Json => plain_json(text).into_owned(),
            LogLines::Text { coloured: false } => plain_lines(text).into_owned(),
            // The colours are those of whoever makes the lines: of others' text it has escaped ESC.
            LogLines::Text { coloured: true } => {
                let mut parts = text.split('\u{1b}');
                let first = parts.next().unwrap_or_default();
                let mut shown = plain_lines(first).into_owned();
                for part in parts {
                    let colour = colour(part);
                    shown.push_str(if colour > 0 { "\u{1b}" } else { "\\u{1b}" });
                    shown.push_str(&part[..colour]);
                    shown.push_str(&plain_lines(&part[colour..]));
                }
                shown
            }
        }
    }
}

/// A text of several lines: those stay, and tabs with them.
fn plain_lines(text: &str) -> Cow<'_, str> {
    let stays = |character| matches!(character, '\n' | '\t') || is_harmless(character);
    escaped(text, stays, |character, shown| {
        shown.extend(character.escape_default());
    })
}

/// JSON of the same meaning: what disturbs stands in strings alone, and is written as an escape of JSON. Writers of JSON
/// escape what lies below U+0020 and no more.
fn plain_json(json: &str) -> Cow<'_, str> {
    let stays = |character| character == '\n' || is_harmless(character);
    escaped(json, stays, |character, shown| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

fn is_harmless(character: char) -> bool {
    is_plain(character.encode_utf8(&mut [0; 4]))
}

fn escaped(
    text: &str,
    stays: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if text.chars().all(&stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 32);
    for character in text.chars() {
        match stays(character) {
            true => shown.push(character),
            false => escape(character, &mut shown),
        }
    }
    Cow::Owned(shown)
}

/// Bytes of the colour that a text begins with, after ESC: `[`, numbers and `m`.
fn colour(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix('[') else {
        return 0;
    };
    let end = numbers.find(|one: char| !one.is_ascii_digit() && one != ';');
    match end {
        Some(end) if numbers[end..].starts_with('m') => end + 2,
        _ => 0,
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.plain(&String::from_utf8_lossy(bytes));
        Errors.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Errors.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_json_keeps_its_meaning_whatever_stands_in_them() {
        let hostile = "a\tb\n\u{1b}[2J\r\u{9b}2J\u{202e}\u{e0041}\u{7f}नमस्ते 👩‍🚀";
        assert_eq!(
            plain_lines(hostile),
            "a\tb\n\\u{1b}[2J\\r\\u{9b}2J\\u{202e}\\u{e0041}\\u{7f}नमस्ते 👩‍🚀"
        );
        assert!(matches!(plain_lines("a\n\tb\n"), Cow::Borrowed(_)));
        let meant = serde_json::json!({ "a": hostile });
        let json = plain_json(&serde_json::to_string_pretty(&meant).unwrap()).into_owned();
        assert!(
            json.contains("\\u009b2J\\u202e\\udb40\\udc41\\u007f"),
            "{json}"
        );
        assert!(json.lines().all(is_plain), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read, meant);
    }

    #[test]
    fn what_is_told_as_json_is_a_line_whatever_it_says() {
        let line = json_line(
            Level::ERROR,
            "\nsink \"a\":\n  \u{1b}[2J\u{9b}\n",
            json!({ "out": 3 }),
        );
        assert!(line.ends_with('\n') && is_plain(line.trim_end()), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        let message = "sink \"a\":\n  \u{1b}[2J\u{9b}";
        assert_eq!(
            (&read["level"], &read["message"]),
            (&json!("ERROR"), &json!(message))
        );
        assert_eq!(read[message]["out"], 3);
        assert!(read["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }

    #[test]
    fn a_line_of_the_log_has_its_colours_and_nothing_else_that_steers() {
        let line = "\u{1b}[2m12:00\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m a\u{202e}b\u{9b}2J \u{1b}[2J \u{1b}]0;x\u{7}\n";
        let shown = "\u{1b}[2m12:00\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m a\\u{202e}b\\u{9b}2J \\u{1b}[2J \\u{1b}]0;x\\u{7}\n";
        assert_eq!(LogLines::Text { coloured: true }.plain(line), shown);
        let without = LogLines::Text { coloured: false }.plain(line);
        assert!(!without.contains('\u{1b}') && without.ends_with("x\\u{7}\n"));
        assert_eq!(
            LogLines::Json.plain("{\"why\":\"\u{202e}\"}\n"),
            "{\"why\":\"\\u202e\"}\n"
        );
    }

    /// Every source of this program but those that are the way itself, or give standard output to something else.
    #[test]
    fn nothing_else_of_this_program_writes_to_a_terminal() {
        let own = ["printing.rs", "terminal.rs", "top/screen.rs"];
        let mut left = vec![std::path::PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src"
        ))];
        while let Some(place) = left.pop() {
            if place.is_dir() {
                left.extend(
                    std::fs::read_dir(place)
                        .unwrap()
                        .map(|one| one.unwrap().path()),
                );
                continue;
            }
            if own.iter().any(|name| place.ends_with(name)) {
                continue;
            }
            let source = std::fs::read_to_string(&place).unwrap();
            for way in [
                "println!",
                "print!(",
                "stdout().write",
                "stdout().lock",
                "stderr().write",
                "stderr().lock",
            ] {
                assert!(!source.contains(way), "{} has {way}", place.display());
            }
        }
    }
}
