//! What stands beside every position: who committed it, and where the rest of the task's state is.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::commit::TaskId;

/// Most bytes that a Kafka group takes with an offset, `offset.metadata.max.bytes`, unless brokers are told otherwise.
pub const LARGEST_MARK: usize = 4096;
/// No cut has a higher number: whoever commits one did not count.
const LAST: u64 = u64::MAX / 2;
/// What every mark begins with; the version is behind it.
const MAGIC: &str = "tidegate/";
const VERSION: &str = "2";
/// What marks of builds before the second version began with.
const FIRST: &str = "1 cut=";
/// Names that no counter has in the text.
const RESERVED: [&str; 9] = [
    "log",
    "changelog",
    "instance",
    "source",
    "of",
    "cut",
    "life",
    "waits",
    "at",
];

/// Where the state of tasks is kept between runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// The commit log of a state directory.
    #[default]
    Log,
    /// A changelog topic.
    Changelog(String),
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Store::Log => f.write_str("the commit log"),
            Store::Changelog(topic) => write!(f, "changelog topic {topic}"),
        }
    }
}

/// Who keeps the state of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeper {
    /// Where.
    pub store: Store,
    /// The state directory of the process, by its name.
    pub instance: String,
}

/// What is committed with a position, the same wherever cuts are committed. As a text:
/// `tidegate/2 log= instance=77f0 source=tickets of=topic%20tickets cut=12 life=5f0c waits=0 in=7 out=7`.
///
/// The first word is the version; `log=`, or `changelog=` and a topic, is where what waits is kept. Words that are none of
/// these are the task's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Who keeps the state; none where a group has only begun, and no cut was taken.
    pub keeper: Option<Keeper>,
    /// Name of the source.
    pub source: String,
    /// What the partition is.
    pub identity: String,
    /// Number of the cut.
    pub cut: u64,
    /// Whose cut it was: tells one life of a committer from all others. With the number it is the witness of a commit
    /// whose answer was lost.
    pub life: String,
    /// Records that waited at the cut.
    pub waits: u64,
    /// The position, where it is kept in the mark and not beside it.
    pub position: Option<u64>,
    /// Counters of the task.
    pub counters: Vec<(String, u64)>,
}

/// By what it is known later what became of a cut that is decided elsewhere than in the commit log: by what then stands
/// beside the position of one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutWitness {
    /// The task.
    #[serde(flatten)]
    pub task: TaskId,
    /// Whose cut it is: see [`Mark::life`].
    pub life: String,
    /// Its number.
    pub cut: u64,
    /// Whose cut stood there when this life began with the task; empty of a group that had only begun. None where nothing
    /// stood there.
    #[serde(default)]
    pub before: Option<String>,
}

impl CutWitness {
    /// Whether the cut holds, where this stands beside the position of its task now. None where that does not tell: others
    /// have gone on from there, or nothing stands there, which may have been taken away since.
    pub fn says(&self, mark: Option<&Mark>) -> Option<bool> {
        let mark = mark?;
        if mark.life == self.life {
            return Some(mark.cut >= self.cut);
        }
        (self.before.as_ref() == Some(&mark.life)).then_some(false)
    }
}

/// A mark of another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMark {
    /// The version.
    pub version: String,
}

impl Mark {
    /// As a text of at most so many bytes. Counters that have no room in it are left out.
    pub fn write(&self, most: usize) -> String {
        let mut text = format!("{MAGIC}{VERSION}");
        let mut word = |name: &str, value: &str| {
            // Writing to a text does not fail.
            let _ = write!(text, " {name}={}", escape(value));
        };
        if let Some(keeper) = &self.keeper {
            match &keeper.store {
                Store::Log => word("log", ""),
                Store::Changelog(topic) => word("changelog", topic),
            }
            word("instance", &keeper.instance);
        }
        word("source", &self.source);
        word("of", &self.identity);
        word("cut", &self.cut.to_string());
        word("life", &self.life);
        word("waits", &self.waits.to_string());
        if let Some(position) = self.position {
            word("at", &position.to_string());
        }
        for (name, value) in &self.counters {
            let mut name = escape(name);
            if RESERVED.contains(&name.as_str()) {
                let rest = name.split_off(1);
                name = format!("%{:02x}{rest}", name.as_bytes()[0]);
            }
            // One without room is left out: it begins anew when the task moves.
            let counter = format!(" {name}={value}");
            if text.len() + counter.len() <= most {
                text.push_str(&counter);
            }
        }
        text
    }

    /// Reads what [`write`](Mark::write) made. None of what is no mark: other programs may set a position. The error is of
    /// marks of a version that is not known.
    pub fn read(text: &str) -> Result<Option<Mark>, UnknownMark> {
        let unknown = |version: &str| UnknownMark {
            version: version.to_owned(),
        };
        if text.starts_with(FIRST) {
            return Err(unknown("1"));
        }
        let Some(text) = text.strip_prefix(MAGIC) else {
            return Ok(None);
        };
        let (version, words) = text.split_once(' ').unwrap_or((text, ""));
        if version != VERSION {
            return Err(unknown(version));
        }
        // One of this version that cannot be read was not written by it.
        Mark::parse(words).map(Some).ok_or_else(|| unknown(version))
    }

    fn parse(words: &str) -> Option<Mark> {
        let mut mark = Mark::default();
        let (mut store, mut instance) = (None, String::new());
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=')?;
            match name {
                "log" => store = Some(Store::Log),
                "changelog" => store = Some(Store::Changelog(unescape(value)?)),
                "instance" => instance = unescape(value)?,
                "source" => mark.source = unescape(value)?,
                "of" => mark.identity = unescape(value)?,
                "cut" => mark.cut = value.parse().ok().filter(|cut| *cut <= LAST)?,
                "life" => mark.life = unescape(value)?,
                "waits" => mark.waits = value.parse().ok()?,
                "at" => mark.position = Some(value.parse().ok()?),
                _ => mark.counters.push((unescape(name)?, value.parse().ok()?)),
            }
        }
        mark.keeper = store.map(|store| Keeper { store, instance });
        Some(mark)
    }
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

    fn mark(counters: &[(&str, u64)]) -> Mark {
        let counters = counters.iter();
        Mark {
            keeper: Some(Keeper {
                store: Store::Log,
                instance: "77f0".into(),
            }),
            source: "tickets".into(),
            identity: "topic tickets".into(),
            cut: 12,
            life: "5f0c".into(),
            waits: 3,
            position: None,
            counters: counters
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let plain = mark(&[("in", 7), ("out", 9)]);
        assert_eq!(
            plain.write(LARGEST_MARK),
            "tidegate/2 log= instance=77f0 source=tickets of=topic%20tickets cut=12 life=5f0c waits=3 in=7 out=9"
        );
        let odd = Mark {
            keeper: Some(Keeper {
                store: Store::Changelog("a=b".into()),
                instance: String::new(),
            }),
            identity: "/data/in put.jsonl".into(),
            position: Some(77),
            ..mark(&[("a b=c%é", 1), ("cut", 2), ("", 3), ("of", 4), ("log", 5)])
        };
        let begun = Mark {
            keeper: None,
            ..Mark::default()
        };
        for mark in [plain, odd, begun] {
            assert_eq!(Mark::read(&mark.write(LARGEST_MARK)), Ok(Some(mark)));
        }
    }

    #[test]
    fn counters_without_room_are_left_out_and_the_rest_is_kept() {
        let long = "n".repeat(100);
        let text = mark(&[("in", 7), (&long, 1), ("out", 9)]).write(130);
        assert!(text.len() <= 130);
        assert!(text.ends_with(" waits=3 in=7 out=9"), "{text}");
    }

    #[test]
    fn what_stands_beside_a_position_tells_what_became_of_a_cut() {
        let witness = CutWitness {
            task: TaskId {
                source: "in".into(),
                partition: 0,
            },
            life: "this".into(),
            cut: 7,
            before: Some("former".into()),
        };
        let says = |life: &str, cut| {
            let mark = Mark {
                life: life.into(),
                cut,
                ..Mark::default()
            };
            witness.says(Some(&mark))
        };
        assert_eq!([says("this", 7), says("this", 8)], [Some(true); 2]);
        assert_eq!([says("this", 6), says("former", 90)], [Some(false); 2]);
        assert_eq!([says("another", 90), witness.says(None)], [None; 2]);
        // A group that had only begun; and one of which there was nothing, as there is once it was taken away.
        for (before, expected) in [(Some(String::new()), Some(false)), (None, None)] {
            let first = CutWitness {
                before,
                ..witness.clone()
            };
            let begun = Mark::default();
            assert_eq!(first.says(None), None);
            assert_eq!((first.says(Some(&begun)), says("", 0)), (expected, None));
        }
    }

    #[test]
    fn the_metadata_of_other_programs_is_none_and_another_version_is_named() {
        for text in ["", "2 cut=1", "AAAA", "1", "tidegate"] {
            assert_eq!(Mark::read(text), Ok(None), "{text}");
        }
        for (text, version) in [
            ("1 cut=12 life=5f0c in=7", "1"),
            ("tidegate/3 whatever", "3"),
            ("tidegate/2 cut=x", "2"),
            ("tidegate/2 cut=18446744073709551615", "2"),
            ("tidegate/2 %zz=1", "2"),
            ("tidegate/2 a=%f", "2"),
        ] {
            let version = version.to_owned();
            assert_eq!(Mark::read(text), Err(UnknownMark { version }), "{text}");
        }
    }
}
