//! Tasks that begin: what the changelogs have of them. How they begin with it is decided elsewhere.
//!
//! A thread reads, one at a time, and the worker goes on meanwhile. What it has read becomes part of the committer only
//! when the worker asks for it, which then makes the tasks at once: no cut has a task of which it is not decided how it
//! begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rdkafka::ClientConfig;
use tidegate_contract::{Assignment, CommitError, EntryCipher, EntryKey, Mark, TaskId};

use super::super::client::Settings;
use super::super::source::ASK;
use super::super::topic;
use super::changelog::{Changelog, HEADER, KeyOf, entry_key, prefix_of};
use super::committer::KafkaCommitter;
use super::image::{Image, Kept};
use super::pieces;
use super::restore::{Reader, Span};

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

/// What is being read of tasks that are to begin here.
pub(super) struct Loading {
    /// Those that are still to begin here.
    tasks: BTreeSet<TaskId>,
    stop: Arc<AtomicBool>,
    reports: Receiver<Result<Vec<Loaded>, CommitError>>,
}

impl Loading {
    /// This task does not begin here any more.
    pub(super) fn gone(&mut self, task: &TaskId) {
        self.tasks.remove(task);
        if self.tasks.is_empty() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one of these is read.
    pub(super) fn has_any(&self, tasks: &[Assignment]) -> bool {
        tasks.iter().any(|one| self.tasks.contains(&one.task))
    }

    /// Nobody waits for it any more: has the thread end, and waits for that a little.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.reports.recv_timeout(2 * ASK);
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What was read of one changelog.
struct Loaded {
    /// Its index.
    index: usize,
    /// How many partitions it has.
    partitions: usize,
    /// Partitions that have their header.
    headers: Vec<i32>,
    /// Where its partitions ended.
    ends: BTreeMap<i32, u64>,
    /// What it has of each task, and the number of that task's last cut.
    images: Vec<(TaskId, Image, u64)>,
}

/// What is to be read of one changelog.
struct Load {
    index: usize,
    changelog: Changelog,
    tasks: Vec<Assignment>,
    reader: Reader,
    cipher: Arc<dyn EntryCipher>,
    place: String,
    /// A client's configuration.
    plain: ClientConfig,
}

impl KafkaCommitter {
    /// Whether there is an image of each of these tasks. Begins to read those that are missing, and waits so long for
    /// what is being read of these.
    pub(super) fn have(
        &mut self,
        tasks: &[Assignment],
        wait: Duration,
    ) -> Result<bool, CommitError> {
        let missing = |images: &BTreeMap<TaskId, Image>| -> Vec<Assignment> {
            let missing = |one: &&Assignment| !images.contains_key(&one.task);
            tasks.iter().filter(missing).cloned().collect()
        };
        if missing(&self.images).is_empty() {
            return Ok(true);
        }
        if let Some(loading) = &self.loading {
            if !loading.has_any(tasks) && !loading.tasks.is_empty() {
                // Theirs is read first, and taken when they are asked for.
                return Ok(false);
            }
            let report = match loading.reports.recv_timeout(wait) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => {
                    Err(self.error("the thread that reads a changelog has ended"))
                }
            };
            let wanted = match self.loading.take() {
                Some(mut loading) => std::mem::take(&mut loading.tasks),
                None => BTreeSet::new(),
            };
            // Of what nobody waits for any more, it does not matter what became of it.
            if !wanted.is_empty() {
                self.take_loaded(report?, &wanted);
            }
        }
        let missing = missing(&self.images);
        if missing.is_empty() {
            return Ok(true);
        }
        self.begin_loading(&missing)?;
        Ok(false)
    }

    fn begin_loading(&mut self, tasks: &[Assignment]) -> Result<(), CommitError> {
        let stop = Arc::<AtomicBool>::default();
        let mut by_changelog: BTreeMap<usize, Vec<Assignment>> = BTreeMap::new();
        for task in tasks {
            let changelog = self.changelog_of(&task.task)?;
            by_changelog
                .entry(changelog)
                .or_default()
                .push(task.clone());
        }
        let brokers = &self.options.brokers;
        let plain = Settings::internal(brokers, &[], &[]).config(&self.options.properties);
        let plain = plain.map_err(|why| self.error(why))?;
        let load = |(index, tasks): (usize, Vec<Assignment>)| Load {
            index,
            changelog: self.changelogs[index].clone(),
            tasks,
            reader: Reader {
                stop: Arc::clone(&stop),
                ..Reader::clone(&self.reader)
            },
            cipher: Arc::clone(&self.cipher),
            place: self.place.clone(),
            plain: plain.clone(),
        };
        let loads: Vec<Load> = by_changelog.into_iter().map(load).collect();
        let (done, reports) = bounded(1);
        let run = move || {
            let read: Result<Vec<Loaded>, CommitError> =
                loads.into_iter().map(Load::read).collect();
            // Only fails when the worker has ended.
            let _ = done.send(read);
        };
        std::thread::Builder::new()
            .name("tidegate-load".into())
            .spawn(run)
            .map_err(|error| self.error(format!("cannot start a thread: {error}")))?;
        let tasks = tasks.iter().map(|one| one.task.clone());
        self.loading = Some(Loading {
            tasks: tasks.collect(),
            stop,
            reports,
        });
        Ok(())
    }

    /// Makes what was read of these tasks part of the committer.
    fn take_loaded(&mut self, loaded: Vec<Loaded>, wanted: &BTreeSet<TaskId>) {
        for one in loaded {
            let index = one.index;
            let changelog = &mut self.changelogs[index];
            changelog.partitions = changelog.partitions.max(one.partitions);
            let headers = one.headers.into_iter();
            self.headers
                .extend(headers.map(|partition| (index, partition)));
            let ends = one.ends.into_iter();
            self.ends
                .extend(ends.map(|(partition, end)| ((index, partition), end)));
            for (task, image, number) in one.images {
                if wanted.contains(&task) {
                    self.number = self.number.max(number);
                    self.images.insert(task, image);
                }
            }
        }
    }
}

impl Load {
    fn error(&self, why: impl Into<String>) -> CommitError {
        CommitError::Commit {
            place: self.place.clone(),
            why: why.into(),
        }
    }

    fn read(mut self) -> Result<Loaded, CommitError> {
        let partitions = self.tasks.iter();
        let partitions = partitions.map(|one| self.changelog.partition_of(&one.task));
        let needed = partitions.max().map_or(0, |last| last as usize + 1);
        self.grow(needed)?;
        let (changelog, tasks) = (&self.changelog, &self.tasks);
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
            let others = others.get(&changelog.partition_of(&assignment.task));
            image.beside = others.into_iter().flat_map(Others::told).collect();
            images.push((assignment.task.clone(), image, number));
        }
        Ok(Loaded {
            index: self.index,
            partitions: changelog.partitions,
            headers: headers.into_keys().collect(),
            ends,
            images,
        })
    }

    /// A topic that has more partitions now has tasks that need more of the changelog too.
    fn grow(&mut self, needed: usize) -> Result<(), CommitError> {
        if needed <= self.changelog.partitions {
            return Ok(());
        }
        let asker = topic::asker(&self.plain).map_err(|why| self.error(why))?;
        let (place, patience) = (self.place.clone(), self.reader.patience);
        let grown = self.changelog.grow(&asker, needed, &place, patience);
        grown.map_err(|why| self.error(why))
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
