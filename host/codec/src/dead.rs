//! The JSON form of a dead letter, as it goes to the dead-letter file or topic.

use tidegate_contract::DeadLetter;

use crate::text::{write_bytes_member, write_number, write_string};

/// Appends the letter as one JSON object, without a line end:
///
/// ```text
/// {"id":"tickets/0/1234","source":"tickets","partition":0,"offset":1234,"stage":"decode","reason":"...",
///  "component":"sha256:..."|null,"backtrace":"..."|null,"attempts":1,"key":"..."|null,"value":"..."|null,"length":200}
/// ```
///
/// A key or value that is not UTF-8 stands under `key_base64` or `value_base64`. The id ends in the emit index if the
/// record is a piece of another one.
pub fn encode_dead_letter(out: &mut Vec<u8>, letter: &DeadLetter<'_>) {
    encode_dead_letter_cut(out, letter, &[]);
}

/// Appends a letter of which something was cut to fit its message. The object then ends in
/// `"cut":{"key":70000,"value":2097152}`: what was cut, and how many bytes it had.
pub fn encode_dead_letter_cut(out: &mut Vec<u8>, letter: &DeadLetter<'_>, cut: &[(&str, u64)]) {
    let id = letter.id;
    let mut name = format!("{}/{}/{}", letter.source, id.partition, id.offset);
    if id.emit != 0 {
        name.push_str(&format!("/{}", id.emit));
    }
    out.extend_from_slice(b"{\"id\":");
    write_string(out, &name);
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
