//! The compacted topic that keeps what waits of a source: how it is made, checked and keyed.
//!
//! A record's key is text: `SOURCE/PARTITION/ENTRY` of an entry (see [`EntryKey`]), with `/` and a number behind it for
//! its further pieces; `SOURCE/PARTITION/position` of the position of a task whose source keeps none; `header` of what all
//! of a partition depends on. Values are sealed, each for its key, but for the header's.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::{EntryKey, TaskId};
use tracing::info;

use super::super::internal::{InternalTopic, Wanted};
use super::super::source::ASK;
use super::super::target::largest_message;
use super::super::topic::{Asker, Rules, wait_for};
use super::super::{Trouble, is_transient, native};
use super::options::{ChangelogOptions, ChangelogPartitions};
use super::outbox::Learnt;
use super::pieces::LONGEST_HEAD;

/// Bytes of a message that are not its value, beside its key: the batch's own and the record's.
const OVERHEAD: usize = 256;
/// Longest key of which entries are cut into pieces that fit; stages and sources have short names.
const LONGEST_KEY: usize = 512;
/// Smallest limit of messages with which a changelog works.
const SMALLEST_MESSAGE: usize = 4096;
/// Whoever takes a partition over reads its last segment, which is never compacted, and which brokers by themselves make up
/// to a gibibyte large. A ratio of compaction is not set: where brokers are somebody's service, they may refuse it.
const SMALL_SEGMENTS: (&str, &str) = ("segment.bytes", "67108864");
const HEADER_VERSION: &str = "1";
/// The key of a partition's header.
pub(super) const HEADER: &str = "header";

/// What all of a partition depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Which key its values are sealed with.
    key: String,
    /// The id of the source's topic, if it reads one.
    topic: Option<String>,
    /// How many partitions the source's topic had. Only told: they become more.
    partitions: usize,
}

/// A changelog that is ready to be read and written.
#[derive(Clone)]
pub(super) struct Changelog {
    pub(super) options: ChangelogOptions,
    pub(super) header: Header,
    /// How many partitions it has, as far as is known.
    pub(super) partitions: usize,
    /// Its own id, if the brokers tell.
    id: Option<String>,
    /// Index among the topics that transactions go to.
    pub(super) to: u16,
    pub(super) learnt: Arc<Learnt>,
}

impl Changelog {
    /// Makes the topic, or checks it. `plain` is a client's configuration. The second is the most that a batch of the
    /// topic may be, if it tells.
    pub(super) fn open(
        options: ChangelogOptions,
        asker: &AdminClient<Asker>,
        plain: &ClientConfig,
        brokers: &str,
        fingerprint: String,
        patience: Duration,
    ) -> Result<(Changelog, Option<usize>), String> {
        let place = format!("changelog topic {} at {brokers}", options.topic);
        let (topic, partitions) = match &options.partitions {
            ChangelogPartitions::Number(number) => (None, (*number).max(1) as usize),
            ChangelogPartitions::As(topic) => {
                let (id, partitions) = id_of(asker, topic, &place, patience)?;
                (Some(id), partitions)
            }
        };
        let wanted = Wanted {
            what: "changelog topic",
            topic: &options.topic,
            partitions: Some(partitions),
            made: &options.as_made(),
            said: &options.made,
        };
        let found = wanted.find_or_make(asker, &place, patience)?;
        if found < partitions {
            grow(asker, &options.topic, partitions, &place, patience)?;
        }
        let rules = match Rules::of(asker, &options.topic) {
            Ok(rules) => rules,
            Err(why) => {
                tracing::warn!(place, "the settings of the topic cannot be read: {why}");
                Rules::default()
            }
        };
        let limit = check_rules(&options, &rules, plain)?;
        let changelog = Changelog {
            header: Header {
                key: fingerprint,
                topic,
                partitions,
            },
            partitions: found.max(partitions),
            id: native::describe_topic(asker.inner(), &options.topic, ASK)
                .ok()
                .map(|(id, _)| id),
            to: 0,
            learnt: Learnt::new(limit - OVERHEAD - LONGEST_KEY),
            options,
        };
        Ok((changelog, rules.largest_batch))
    }

    /// Its name and its id, by which one that is made anew is known.
    pub(super) fn known(&self) -> Option<(String, String)> {
        let id = self.id.clone()?;
        Some((self.options.topic.clone(), id))
    }

    /// The partition that has this task.
    pub(super) fn partition_of(&self, task: &TaskId) -> i32 {
        match &self.options.partitions {
            ChangelogPartitions::As(_) => task.partition as i32,
            ChangelogPartitions::Number(number) => (task.partition % (*number).max(1)) as i32,
        }
    }

    /// Has it grow to so many partitions, if it has fewer.
    pub(super) fn grow(
        &mut self,
        asker: &AdminClient<Asker>,
        partitions: usize,
        place: &str,
        patience: Duration,
    ) -> Result<(), String> {
        grow(asker, &self.options.topic, partitions, place, patience)?;
        self.partitions = self.partitions.max(partitions);
        Ok(())
    }

    /// Messages are of so many bytes at most.
    pub(super) fn hold_to(&self, largest: usize) {
        self.learnt
            .at_most(largest.saturating_sub(OVERHEAD + LONGEST_KEY));
    }

    /// Most bytes of a value.
    pub(super) fn largest_value(&self) -> usize {
        self.learnt.largest().max(LONGEST_HEAD + 1)
    }

    /// Whether what was written under this header can be gone on with. The error says why not.
    pub(super) fn check(&self, found: &[u8], partition: i32) -> Result<(), String> {
        let name = &self.options.topic;
        let found = std::str::from_utf8(found).ok().and_then(Header::read);
        let Some(found) = found else {
            return Err(format!(
                "partition {partition} of changelog topic {name} was written by another version, or by another program"
            ));
        };
        let ours = &self.header;
        if found.key != ours.key {
            return Err(format!(
                "partition {partition} of changelog topic {name} was written with another state key (fingerprint {}, \
                 and this one's is {}); give all processes of the group the same key",
                found.key, ours.key
            ));
        }
        let source = match &self.options.partitions {
            ChangelogPartitions::As(topic) => format!("topic {topic}"),
            ChangelogPartitions::Number(_) => format!("source {}", self.options.source),
        };
        if found.topic != ours.topic {
            let id = |topic: &Option<String>| topic.clone().unwrap_or_else(|| "none".into());
            return Err(format!(
                "{source} is not the one that changelog topic {name} was written for (id {}, and now {}): it was made \
                 anew; name another changelog, or remove this one with what waits in it",
                id(&found.topic),
                id(&ours.topic)
            ));
        }
        Ok(())
    }
}

impl Header {
    pub(super) fn write(&self) -> String {
        let Header {
            key,
            topic,
            partitions,
        } = self;
        let mut text = format!("{HEADER_VERSION} key={key} partitions={partitions}");
        if let Some(topic) = topic {
            // Writing to a text does not fail.
            let _ = write!(text, " topic={topic}");
        }
        text
    }

    fn read(text: &str) -> Option<Header> {
        let mut words = text.split(' ');
        if words.next() != Some(HEADER_VERSION) {
            return None;
        }
        let (mut key, mut topic, mut partitions) = (None, None, None);
        for word in words {
            let (name, value) = word.split_once('=')?;
            match name {
                "key" => key = Some(value.to_owned()),
                "topic" => topic = Some(value.to_owned()),
                "partitions" => partitions = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(Header {
            key: key?,
            topic,
            partitions: partitions?,
        })
    }
}

/// What the keys of a task's records begin with.
pub(super) fn prefix_of(task: &TaskId) -> String {
    format!("{}/{}/", task.source, task.partition)
}

/// The key of a task's position.
pub(super) fn position_key(task: &TaskId) -> String {
    format!("{}position", prefix_of(task))
}

/// The key of an entry's piece.
pub(super) fn entry_key(task: &TaskId, entry: &EntryKey, piece: u32) -> String {
    let prefix = prefix_of(task);
    match piece {
        0 => format!("{prefix}{entry}"),
        piece => format!("{prefix}{entry}/{piece}"),
    }
}

/// What a key behind the task's prefix is of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyOf {
    Position,
    Piece(EntryKey, u32),
}

impl KeyOf {
    pub(super) fn parse(rest: &str) -> Option<KeyOf> {
        if rest == "position" {
            return Some(KeyOf::Position);
        }
        if let Some(entry) = EntryKey::parse(rest) {
            return Some(KeyOf::Piece(entry, 0));
        }
        let (entry, piece) = rest.rsplit_once('/')?;
        Some(KeyOf::Piece(EntryKey::parse(entry)?, piece.parse().ok()?))
    }
}

/// The id of a topic that is there, and how many partitions it has.
fn id_of(
    asker: &AdminClient<Asker>,
    topic: &str,
    place: &str,
    patience: Duration,
) -> Result<(String, usize), String> {
    let mut trouble = Trouble::new(patience);
    loop {
        match native::describe_topic(asker.inner(), topic, ASK) {
            Ok(described) => return Ok(described),
            Err(why) => trouble.note(
                place,
                &format!("cannot learn the id of topic {topic}: {why}"),
            )?,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl ChangelogOptions {
    /// How it is made: what the brokers would remove by its age or size would be lost.
    pub(in super::super) fn as_made(&self) -> InternalTopic {
        let mut made = self.made.clone();
        let (name, value) = SMALL_SEGMENTS;
        let setting = made.settings.entry(name.to_owned());
        setting.or_insert_with(|| value.to_owned());
        let compact = ("cleanup.policy".to_owned(), "compact".to_owned());
        made.settings.extend([compact]);
        made
    }
}

/// Has a topic grow to so many partitions, if it has fewer.
fn grow(
    asker: &AdminClient<Asker>,
    topic: &str,
    partitions: usize,
    place: &str,
    patience: Duration,
) -> Result<(), String> {
    let mut trouble = Trouble::new(patience);
    loop {
        let found = asker.inner().fetch_metadata(Some(topic), ASK);
        let found = found.map(|metadata| {
            let topics = metadata.topics().iter();
            let found = topics.filter(|found| found.name() == topic);
            found.map(|found| found.partitions().len()).sum::<usize>()
        });
        let why = match found {
            Ok(found) if found >= partitions => {
                info!(place, topic, partitions, "the changelog has grown");
                return Ok(());
            }
            Ok(found) => {
                let asked = AdminOptions::new().request_timeout(Some(5 * ASK));
                let more = [NewPartitions::new(topic, partitions)];
                let fail = |code: RDKafkaErrorCode| {
                    format!(
                        "changelog topic {topic} has {found} partitions, needs {partitions}, and cannot be given more: \
                         {code}"
                    )
                };
                match wait_for(asker.create_partitions(&more, &asked), 10 * ASK) {
                    Some(Ok(answers)) => match answers.into_iter().next() {
                        // Another process may have been faster.
                        Some(Err((_, RDKafkaErrorCode::InvalidPartitions)))
                        | Some(Ok(_))
                        | None => "it is growing".to_owned(),
                        Some(Err((_, code))) if is_transient(&KafkaError::Global(code)) => {
                            fail(code)
                        }
                        Some(Err((_, code))) => return Err(fail(code)),
                    },
                    Some(Err(error)) => error.to_string(),
                    None => "it cannot be given more partitions: no answer".to_owned(),
                }
            }
            Err(error) if is_transient(&error) => error.to_string(),
            Err(error) => return Err(format!("changelog topic {topic}: {error}")),
        };
        trouble.note(place, &why)?;
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The most that a message of it may be. The error says why it cannot be a changelog.
pub(in super::super) fn check_rules(
    options: &ChangelogOptions,
    rules: &Rules,
    plain: &ClientConfig,
) -> Result<usize, String> {
    let name = &options.topic;
    if let Some(policy) = &rules.policy
        && policy != "compact"
    {
        return Err(format!(
            "changelog topic {name} has cleanup.policy {policy}, which loses what waits: it must be compact"
        ));
    }
    let largest = largest_message(plain);
    let limit = largest.min(rules.largest_batch.unwrap_or(largest));
    if limit < SMALLEST_MESSAGE {
        return Err(format!(
            "changelog topic {name} takes messages of {limit} bytes (max.message.bytes, message.max.bytes): it needs \
             {SMALLEST_MESSAGE}"
        ));
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use tidegate_contract::EntryPart;

    use super::*;

    #[test]
    fn every_key_is_read_as_it_was_written() {
        let task = TaskId {
            source: "tickets".into(),
            partition: 3,
        };
        let entry = EntryKey {
            stage: "ask/7".into(),
            offset: 9,
            emit: 1,
            copy: 0,
            part: EntryPart::Progress,
        };
        let prefix = prefix_of(&task);
        for piece in [0, 1, 17] {
            let key = entry_key(&task, &entry, piece);
            let rest = key.strip_prefix(&prefix).unwrap();
            assert_eq!(KeyOf::parse(rest), Some(KeyOf::Piece(entry.clone(), piece)));
        }
        assert_eq!(
            entry_key(&task, &entry, 2),
            "tickets/3/ask/7/9/1/0/progress/2"
        );
        let key = position_key(&task);
        assert_eq!(
            KeyOf::parse(key.strip_prefix(&prefix).unwrap()),
            Some(KeyOf::Position)
        );
        assert_eq!(KeyOf::parse("ask/9/1/0/whatever"), None);
        assert_eq!(KeyOf::parse(""), None);
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for topic in [None, Some("F2iGRfPkTJqtTV8kTjdvZQ".to_owned())] {
            let header = Header {
                key: "00ff".into(),
                topic,
                partitions: 6,
            };
            assert_eq!(Header::read(&header.write()), Some(header));
        }
        assert_eq!(Header::read("2 key=a partitions=1"), None);
        assert_eq!(Header::read("1 key=a"), None);
    }
}
