//! What is committed with a position, as a text: `1 cut=12 life=5f0c in=7 out=9`.
//!
//! The first word is the version. `cut` is the number of the cut, `life` tells this life of a committer from all others,
//! and together they are the witness of a commit whose answer was lost. `log` names the changelog of what waits before the
//! position. `at` and `of` stand only where the position itself is kept so. All others are the task's counters. What cannot be read is as if nothing had been committed with the
//! position: other programs may set it.

use std::fmt::Write as _;

/// Most bytes that a group takes with an offset, `offset.metadata.max.bytes`, unless brokers are told otherwise.
pub(super) const LARGEST: usize = 4096;
/// No cut has a higher number: whoever commits one did not count.
const LAST: u64 = u64::MAX / 2;
const VERSION: &str = "1";
/// Names that no counter has in the text.
const RESERVED: [&str; 5] = ["cut", "life", "at", "of", "log"];

/// What is committed with a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Number of the cut.
    pub(super) cut: u64,
    /// Whose cut it was.
    pub(super) life: String,
    /// The changelog that has what waits before the position; none if nothing does.
    pub(super) log: Option<String>,
    /// The position, and what the partition is.
    pub(super) position: Option<(u64, String)>,
    /// Counters of the task.
    pub(super) counters: Vec<(String, u64)>,
}

impl Mark {
    /// As a text of at most so many bytes. Counters that have no room in it are left out.
    pub(super) fn write(&self, most: usize) -> String {
        let mut text = format!("{VERSION} cut={} life={}", self.cut, escape(&self.life));
        if let Some((at, of)) = &self.position {
            // Writing to a text does not fail.
            let _ = write!(text, " at={at} of={}", escape(of));
        }
        if let Some(log) = &self.log {
            let _ = write!(text, " log={}", escape(log));
        }
        for (name, value) in &self.counters {
            let mut name = escape(name);
            if RESERVED.contains(&name.as_str()) {
                let rest = name.split_off(1);
                name = format!("%{:02x}{rest}", name.as_bytes()[0]);
            }
            let counter = format!(" {name}={value}");
            if text.len() + counter.len() > most {
                tracing::warn!(
                    counter = name,
                    "no room for this counter beside the offset: it begins anew when the task moves"
                );
                continue;
            }
            text.push_str(&counter);
        }
        text
    }

    /// Reads what `write` made.
    pub(super) fn read(text: &str) -> Option<Mark> {
        let mut words = text.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let mut mark = Mark::default();
        let (mut at, mut of) = (None, String::new());
        for word in words {
            let (name, value) = word.split_once('=')?;
            match name {
                "cut" => mark.cut = value.parse().ok().filter(|cut| *cut <= LAST)?,
                "life" => mark.life = unescape(value)?,
                "at" => at = Some(value.parse().ok()?),
                "of" => of = unescape(value)?,
                "log" => mark.log = Some(unescape(value)?),
                _ => mark.counters.push((unescape(name)?, value.parse().ok()?)),
            }
        }
        mark.position = at.map(|at| (at, of));
        Some(mark)
    }
}

/// The changelog topic of what waits before a position, by what was committed with it; none if nothing does.
pub(in super::super) fn changelog_beside(metadata: &str) -> Option<String> {
    let log = Mark::read(metadata)?.log?;
    let topic = log.split_once('/').map(|(topic, _)| topic.to_owned());
    Some(topic.unwrap_or(log))
}

/// Without what would end a word or a name.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | b'=' | 0..=b' ' | 127.. => {
                let _ = write!(escaped, "%{byte:02x}");
            }
            byte => escaped.push(char::from(byte)),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(counters: &[(&str, u64)], position: Option<(u64, String)>) -> Mark {
        let counters = counters.iter();
        Mark {
            cut: 12,
            life: "5f0c".into(),
            log: None,
            position,
            counters: counters
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let plain = mark(&[("in", 7), ("out", 9)], None);
        assert_eq!(plain.write(LARGEST), "1 cut=12 life=5f0c in=7 out=9");
        let odd = mark(
            &[("a b=c%é", 1), ("cut", 2), ("", 3), ("of", 4)],
            Some((77, "/data/in put.jsonl".into())),
        );
        let waiting = Mark {
            log: Some("tickets-changelog/F2iGRfPkTJqtTV8kTjdvZQ".into()),
            ..mark(&[("log", 5)], None)
        };
        for mark in [plain, odd, waiting] {
            assert_eq!(Mark::read(&mark.write(LARGEST)), Some(mark));
        }
    }

    #[test]
    fn counters_without_room_are_left_out_and_the_rest_is_kept() {
        let long = "n".repeat(100);
        let mark = mark(&[("in", 7), (&long, 1), ("out", 9)], None);
        let text = mark.write(60);
        assert!(text.len() <= 60);
        assert_eq!(text, "1 cut=12 life=5f0c in=7 out=9");
    }

    #[test]
    fn the_metadata_of_other_programs_is_none() {
        for text in [
            "",
            "2 cut=1",
            "AAAA",
            "1 cut=x",
            "1 cut=18446744073709551615",
            "1 cut",
            "1 %zz=1",
            "1 a=%f",
        ] {
            assert_eq!(Mark::read(text), None, "{text}");
        }
    }
}
