//! Tasks that begin: what the changelogs have of them. How they begin with it is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_contract::{Assignment, CommitError, EntryKey, Mark, TaskId};

use super::super::client::Settings;
use super::super::topic;
use super::changelog::{HEADER, KeyOf, entry_key, prefix_of};
use super::committer::KafkaCommitter;
use super::image::{Image, Kept};
use super::pieces;
use super::restore::Span;

/// What a changelog has of a task, as it was read.
#[derive(Default)]
struct Found {
    position: Option<Vec<u8>>,
    pieces: BTreeMap<EntryKey, BTreeMap<u32, Vec<u8>>>,
}

/// Entries of other tasks in a partition of a changelog, by task.
#[derive(Default)]
struct Others(BTreeMap<TaskId, BTreeSet<EntryKey>>);

impl Others {
    /// A record under this key, which is of none of the tasks that begin; whether it has a value.
    fn take(&mut self, key: &str, has_value: bool) {
        let mut fields = key.splitn(3, '/');
        let (Some(source), Some(partition), Some(rest)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return;
        };
        let (Ok(partition), Some(KeyOf::Piece(entry, 0))) = (partition.parse(), KeyOf::parse(rest))
        else {
            return;
        };
        let source = source.to_owned();
        let entries = self.0.entry(TaskId { source, partition }).or_default();
        match has_value {
            true => entries.insert(entry),
            false => entries.remove(&entry),
        };
    }

    /// Those that have any, and how many.
    fn told(&self) -> impl Iterator<Item = (TaskId, u64)> {
        let entries = self.0.iter().filter(|(_, entries)| !entries.is_empty());
        entries.map(|(task, entries)| (task.clone(), entries.len() as u64))
    }
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
        let partitions = tasks
            .iter()
            .map(|one| self.changelogs[index].partition_of(&one.task));
        let needed = partitions.max().map_or(0, |last| last as usize + 1);
        self.grow(index, needed)?;
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
        let mut others: BTreeMap<i32, Others> = BTreeMap::new();
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
                let others = others.entry(partition).or_default();
                others.take(key, value.is_some());
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
            let (mut image, number) = self.image(&topic, assignment, found)?;
            let partition = self.changelogs[index].partition_of(&assignment.task);
            let others = others.get(&partition).into_iter();
            image.beside = others.flat_map(Others::told).collect();
            images.push((image, number));
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

    /// A topic that has more partitions now has tasks that need more of the changelog too.
    fn grow(&mut self, index: usize, needed: usize) -> Result<(), CommitError> {
        let changelog = &mut self.changelogs[index];
        if needed <= changelog.partitions {
            return Ok(());
        }
        let (options, place) = (&self.options, &self.place);
        let fail = |why: String| CommitError::Commit {
            place: place.clone(),
            why,
        };
        let plain = Settings::internal(&options.brokers, &[], &[])
            .config(&options.properties)
            .map_err(fail)?;
        let asker = topic::asker(&plain).map_err(fail)?;
        let grown = changelog.grow(&asker, needed, place, options.patience);
        grown.map_err(fail)
    }

    /// What the changelog has of a task, and the number of its last cut.
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
        let mut mark = None;
        let unknown = |version: &str| {
            CommitError::State(format!(
                "the position of {task} in changelog topic {topic} is of another version of Tidegate (its mark has \
                 version {version:?})"
            ))
        };
        if let (None, Some(sealed)) = (kept, found.position) {
            let key = super::changelog::position_key(task);
            let plain = self.unseal(topic, &key, &sealed)?;
            let text = String::from_utf8(plain).unwrap_or_default();
            let read = Mark::read(&text).map_err(|other| unknown(&other.version))?;
            mark = Some(read.ok_or_else(|| unknown("none"))?);
        }
        let metadata = kept.as_ref().and_then(|kept| kept.metadata.as_deref());
        let beside = metadata.and_then(|text| Mark::read(text).ok().flatten());
        let last = mark.clone().or(beside).unwrap_or_default();
        let of_group = kept.as_ref().map(|kept| kept.position);
        let mut image = Image {
            in_group: kept.is_some(),
            identity: identity.clone(),
            position: of_group.or(last.position),
            waits: last.waits,
            counters: last.counters,
            mark,
            ..Image::default()
        };
        for (key, pieces) in found.pieces {
            let count = pieces.keys().next_back().map_or(0, |last| last + 1);
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
                pieces: count,
            };
            image.entries.insert(key, kept);
        }
        Ok((image, last.cut))
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
