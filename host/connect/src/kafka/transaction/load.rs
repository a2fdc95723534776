//! Tasks that begin: their images, out of the changelogs.

use std::collections::BTreeMap;

use tidegate_contract::{Assignment, CommitError, EntryKey, TaskId};
use tracing::warn;

use super::changelog::{HEADER, KeyOf, entry_key, prefix_of};
use super::committer::KafkaCommitter;
use super::image::{Image, Kept};
use super::mark::Mark;
use super::pieces;
use super::restore::Span;

/// What a changelog has of a task, as it was read.
#[derive(Default)]
struct Found {
    position: Option<Vec<u8>>,
    pieces: BTreeMap<EntryKey, BTreeMap<u32, Vec<u8>>>,
}

impl KafkaCommitter {
    /// Makes the images of those tasks that do not run here yet.
    pub(super) fn restore(&mut self, tasks: &[Assignment]) -> Result<(), CommitError> {
        let mut by_changelog: BTreeMap<usize, Vec<&Assignment>> = BTreeMap::new();
        for task in tasks {
            if !self.images.contains_key(&task.task) {
                let changelog = self.changelog_of(&task.task)?;
                by_changelog.entry(changelog).or_default().push(task);
            }
        }
        for (changelog, tasks) in by_changelog {
            self.restore_from(changelog, &tasks)?;
        }
        Ok(())
    }

    fn restore_from(&mut self, index: usize, tasks: &[&Assignment]) -> Result<(), CommitError> {
        let changelog = &self.changelogs[index];
        let topic = changelog.options.topic.clone();
        let mut wanted: BTreeMap<i32, Vec<(String, &TaskId)>> = BTreeMap::new();
        for Assignment { task, .. } in tasks {
            let partition = wanted.entry(changelog.partition_of(task)).or_default();
            partition.push((prefix_of(task), task));
        }
        let spans = wanted.keys().map(|partition| Span {
            partition: *partition,
            from: None,
        });
        let spans: Vec<Span> = spans.collect();
        let mut headers: BTreeMap<i32, Vec<u8>> = BTreeMap::new();
        let mut found: BTreeMap<&TaskId, Found> = BTreeMap::new();
        let mut foreign = None;
        let ends = self.reader.read(&topic, &spans, |partition, key, value| {
            if key == HEADER.as_bytes() {
                headers.extend(value.map(|value| (partition, value.to_vec())));
                return;
            }
            let key = std::str::from_utf8(key).unwrap_or_default();
            let tasks = wanted.get(&partition).into_iter().flatten();
            let mut ours = tasks.filter_map(|(prefix, task)| {
                let rest = key.strip_prefix(prefix.as_str())?;
                Some((KeyOf::parse(rest), *task))
            });
            let Some((of, task)) = ours.next() else {
                return;
            };
            let found = found.entry(task).or_default();
            match of {
                Some(KeyOf::Position) => found.position = value.map(<[u8]>::to_vec),
                Some(KeyOf::Piece(entry, piece)) => {
                    let pieces = found.pieces.entry(entry.clone()).or_default();
                    match value {
                        Some(value) => drop(pieces.insert(piece, value.to_vec())),
                        None => drop(pieces.remove(&piece)),
                    }
                    if pieces.is_empty() {
                        found.pieces.remove(&entry);
                    }
                }
                None => foreign = Some((partition, key.to_owned())),
            }
        });
        let ends = ends.map_err(|why| self.error(why))?;
        for (partition, header) in &headers {
            let checked = changelog.check(header, *partition);
            checked.map_err(CommitError::State)?;
        }
        if let Some((partition, key)) = foreign {
            return Err(CommitError::State(format!(
                "partition {partition} of changelog topic {topic} has a record that is not Tidegate's, under the key {key}"
            )));
        }
        let mut images = Vec::with_capacity(tasks.len());
        for assignment in tasks {
            let found = found.remove(&assignment.task).unwrap_or_default();
            images.push(self.image(&topic, assignment, found)?);
        }
        for (partition, end) in ends {
            self.ends.insert((index, partition), end);
        }
        let headers = headers.into_keys();
        self.headers
            .extend(headers.map(|partition| (index, partition)));
        for (assignment, (image, number)) in tasks.iter().zip(images) {
            self.number = self.number.max(number);
            self.images.insert(assignment.task.clone(), image);
        }
        Ok(())
    }

    /// What a task begins with, and the number of its last cut.
    fn image(
        &self,
        topic: &str,
        assignment: &Assignment,
        found: Found,
    ) -> Result<(Image, u64), CommitError> {
        let Assignment {
            task,
            identity,
            kept,
        } = assignment;
        let mark = match (kept, found.position) {
            (Some(kept), _) => Mark::read(&kept.metadata),
            (None, Some(sealed)) => {
                let key = super::changelog::position_key(task);
                let plain = self.unseal(topic, &key, &sealed)?;
                let text = String::from_utf8(plain).unwrap_or_default();
                Some(Mark::read(&text).ok_or_else(|| {
                    CommitError::State(format!(
                        "the position of {task} in changelog topic {topic} is of another version"
                    ))
                })?)
            }
            (None, None) => None,
        };
        let mark = mark.unwrap_or_default();
        if let (Some(known), Some(_)) = (&mark.log, kept) {
            let changelog = &self.changelogs[self.changelog_of(task)?];
            let checked = changelog.check_known_as(known, task);
            checked.map_err(CommitError::State)?;
        }
        let mut image = Image {
            in_group: kept.is_some(),
            identity: identity.clone(),
            position: kept.as_ref().map(|kept| kept.position),
            counters: mark.counters,
            ..Image::default()
        };
        if let (None, Some((position, was))) = (kept, mark.position) {
            if !identity.is_empty() && was != *identity {
                return Err(CommitError::State(format!(
                    "{task} was {was} at the last cut and is now {identity}; give the source its old input, or another \
                     changelog topic than {topic}"
                )));
            }
            image.position = Some(position);
        }
        for (key, pieces) in found.pieces {
            let last = pieces.keys().next_back().map_or(0, |last| last + 1);
            // What waits was read before the position. If somebody has set that back, it is read again.
            if image.position.is_none_or(|position| key.offset >= position) {
                image.stale.push((key, last));
                continue;
            }
            let name = entry_key(task, &key, 0);
            let bad = |why: String| {
                CommitError::State(format!(
                    "{name} in changelog topic {topic} cannot be read: {why}"
                ))
            };
            let first = pieces.get(&0).map_or(&[][..], Vec::as_slice);
            let later = |number: u32| pieces.get(&number).map(Vec::as_slice);
            let (_, sealed) = pieces::join(first, later).map_err(bad)?;
            let payload = self.unseal(topic, &name, &sealed)?;
            let kept = Kept {
                payload,
                pieces: last,
            };
            image.entries.insert(key, kept);
        }
        if !image.stale.is_empty() {
            warn!(
                topic,
                entries = image.stale.len(),
                "the position of {task} was set back: what waits of it comes again as it is read"
            );
        }
        Ok((image, mark.cut))
    }

    fn unseal(&self, topic: &str, key: &str, sealed: &[u8]) -> Result<Vec<u8>, CommitError> {
        let plain = self.cipher.open(key.as_bytes(), sealed);
        plain.ok_or_else(|| {
            CommitError::State(format!(
                "{key} in changelog topic {topic} cannot be decrypted: it is damaged, or of another state key"
            ))
        })
    }
}
