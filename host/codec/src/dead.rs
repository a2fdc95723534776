//! The JSON form of a dead letter, as it goes to the dead-letter file or topic.

use tidegate_contract::{DeadLetter, LetterHeader};

use crate::text::{write_base64, write_bytes_member, write_number, write_string};
use crate::time::format_time;

/// The header of a record that was sent again: the id of the letter it was sent from.
pub const SENT_FROM: &str = "tidegate-sent-from";

/// Appends the letter as one JSON object, without a line end:
///
/// ```text
/// {"id":"tickets/0/1234","source":"tickets","partition":0,"offset":1234,"stage":"decode","reason":"...",
///  "component":"sha256:..."|null,"backtrace":"..."|null,"attempts":1,"key":"..."|null,"value":"..."|null,"length":200,
///  "at":"2026-11-21T08:21:42.123456Z","form":"record"|"input"|"output","event_time":"...",
///  "input":"kafka topic tickets (id ...)","pipeline":"support-bot","headers":[{"name":"...","value":"..."|null}],"sent_from":"..."}
/// ```
///
/// `input` tells records of one id apart, where a source read another input under its name. `event_time` is of a record that has one; `headers` are not there if there are none, and null if they cannot be part of
/// a letter: they have more than 64 KiB, or are no text. `sent_from` is the letter of which the record was sent again.
/// Of a record that had private attributes `"private":2` says how many, and `"private_sealed":"..."` has them in base64,
/// sealed by the key of the state, unless they could not be kept.
/// A key or value that is not UTF-8 stands under `key_base64` or `value_base64`. The id ends in the emit index if the
/// record is a piece of another one.
pub fn encode_dead_letter(out: &mut Vec<u8>, letter: &DeadLetter<'_>) {
    encode_dead_letter_cut(out, letter, &[]);
}

/// Appends a letter of which something was cut to fit its message. The object then ends in
/// `"cut":{"key":70000,"value":2097152}`: what was cut, and how many bytes it had.
pub fn encode_dead_letter_cut(out: &mut Vec<u8>, letter: &DeadLetter<'_>, cut: &[(&str, u64)]) {
    let id = letter.id;
    out.extend_from_slice(b"{\"id\":");
    write_string(out, &letter.record());
    out.extend_from_slice(b",\"source\":");
    write_string(out, letter.source);
    out.extend_from_slice(b",\"partition\":");
    write_number(out, u64::from(id.partition));
    out.extend_from_slice(b",\"offset\":");
    write_number(out, id.offset);
    out.extend_from_slice(b",\"stage\":");
    write_string(out, letter.stage);
    out.extend_from_slice(b",\"reason\":");
    write_string(out, letter.reason);
    for (name, text) in [
        ("component", letter.component),
        ("backtrace", letter.backtrace),
    ] {
        out.push(b',');
        write_bytes_member(out, name, text.map(str::as_bytes));
    }
    out.extend_from_slice(b",\"attempts\":");
    write_number(out, u64::from(letter.attempts));
    for (name, bytes) in [("key", letter.key), ("value", letter.value)] {
        out.push(b',');
        write_bytes_member(out, name, bytes);
    }
    out.extend_from_slice(b",\"length\":");
    write_number(out, letter.length);
    write_rest(out, letter);
    for (index, (name, length)) in cut.iter().enumerate() {
        out.extend_from_slice(if index == 0 {
            b",\"cut\":{".as_slice()
        } else {
            b",".as_slice()
        });
        write_string(out, name);
        out.push(b':');
        write_number(out, *length);
    }
    if !cut.is_empty() {
        out.push(b'}');
    }
    out.push(b'}');
}

/// What sending it again needs beside key and value.
fn write_rest(out: &mut Vec<u8>, letter: &DeadLetter<'_>) {
    let mut text = |name: &str, value: &str| {
        out.push(b',');
        write_string(out, name);
        out.push(b':');
        write_string(out, value);
    };
    text("at", &format_time(letter.at));
    text("form", letter.form.name());
    if let Some(time) = letter.event_time {
        text("event_time", &format_time(time));
    }
    if let Some(input) = letter.input {
        text("input", input);
    }
    if !letter.pipeline.is_empty() {
        text("pipeline", letter.pipeline);
    }
    if letter.private > 0 {
        out.extend_from_slice(b",\"private\":");
        write_number(out, letter.private);
    }
    if let Some(sealed) = letter.private_sealed {
        out.extend_from_slice(b",\"private_sealed\":\"");
        write_base64(out, sealed);
        out.push(b'"');
    }
    let Some(headers) = letter.headers else {
        out.extend_from_slice(b",\"headers\":null");
        return;
    };
    write_headers(out, headers);
    let from = headers.iter().rev().find(|(name, _)| *name == SENT_FROM);
    let from = from.and_then(|(_, value)| std::str::from_utf8((*value)?).ok());
    if let Some(from) = from {
        out.extend_from_slice(b",\"sent_from\":");
        write_string(out, from);
    }
}

fn write_headers(out: &mut Vec<u8>, headers: &[LetterHeader<'_>]) {
    for (index, (name, value)) in headers.iter().enumerate() {
        out.extend_from_slice(match index {
            0 => b",\"headers\":[{\"name\":".as_slice(),
            _ => b",{\"name\":".as_slice(),
        });
        write_string(out, name);
        out.push(b',');
        write_bytes_member(out, "value", *value);
        out.push(b'}');
    }
    if !headers.is_empty() {
        out.push(b']');
    }
}
