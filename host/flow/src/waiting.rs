//! A stage in which records wait: for a model's answer, for their retry, or behind others of their lane.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::entry::{Entry, Lane};
use crate::topology::Order;
use tidegate_record::RecordView;

/// A submitted entry is written again when its answer has grown by this many tokens.
const TOKENS_WORTH_LOGGING: usize = 16;

/// The records that wait in one stage of one task.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    entries: BTreeMap<u64, Entry>,
    lanes: HashMap<Lane, VecDeque<u64>>,
    /// Bytes of all records together.
    bytes: usize,
    /// Entries the commit log does not have, or has otherwise.
    changed: BTreeSet<u64>,
    /// Entries the commit log has and that are done.
    done: Vec<u64>,
}

/// The lane of a record.
pub(crate) fn lane(order: Order, record: &RecordView<'_>, number: u64) -> Lane {
    match (order, record.key()) {
        (Order::Partition, _) => Lane::Partition,
        (Order::Key, Some(key)) => {
            // Two keys with one hash share a lane, which only costs them some waiting.
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            Lane::Key(hasher.finish())
        }
        (Order::Key, None) | (Order::None, _) => Lane::Own(number),
    }
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the records that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether records of this lane wait.
    pub(crate) fn blocks(&self, lane: Lane) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// Adds an entry at the end of its lane.
    pub(crate) fn add(&mut self, number: u64, entry: Entry) {
        self.lanes.entry(entry.lane).or_default().push_back(number);
        if entry.logged.is_none() {
            self.changed.insert(number);
        }
        self.bytes += entry.record.as_bytes().len();
        self.entries.insert(number, entry);
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// The entry, to be changed; the commit log will hear of it.
    pub(crate) fn change(&mut self, number: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&number)?;
        self.changed.insert(number);
        Some(entry)
    }

    /// Entries in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// The first of a lane.
    pub(crate) fn front(&self, lane: Lane) -> Option<(u64, &Entry)> {
        let number = *self.lanes.get(&lane)?.front()?;
        Some((number, self.entries.get(&number)?))
    }

    /// The first of each lane, in order of arrival.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let mut fronts: Vec<u64> = self
            .lanes
            .values()
            .filter_map(|lane| lane.front().copied())
            .collect();
        fronts.sort_unstable();
        fronts
            .into_iter()
            .filter_map(|number| Some((number, self.entries.get(&number)?)))
    }

    /// Takes an entry out of its lane, wherever it stands in it.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        self.bytes -= entry.record.as_bytes().len();
        if let Some(lane) = self.lanes.get_mut(&entry.lane) {
            lane.retain(|other| *other != number);
            if lane.is_empty() {
                self.lanes.remove(&entry.lane);
            }
        }
        self.changed.remove(&number);
        if entry.logged.is_some() {
            self.done.push(number);
        }
        Some(entry)
    }

    /// The offset of each record.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.entries.values().map(|entry| entry.offset)
    }

    /// What the next cut must say: entries new or changed, and entries done. Afterwards the log is taken to have it.
    pub(crate) fn take_changes(&mut self) -> (Vec<u64>, Vec<u64>) {
        for (number, entry) in &self.entries {
            if has_grown(entry) {
                self.changed.insert(*number);
            }
        }
        let changed: Vec<u64> = std::mem::take(&mut self.changed).into_iter().collect();
        for number in &changed {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.logged = Some(entry.tokens.len());
            }
        }
        (changed, std::mem::take(&mut self.done))
    }

    /// Whether the next cut has something to say of this stage; `durable` if it takes entries at all.
    pub(crate) fn has_changes(&self, durable: bool) -> bool {
        let grown = || self.entries.values().any(has_grown);
        durable && (!self.done.is_empty() || !self.changed.is_empty() || grown())
    }
}

/// Whether an answer has so many more tokens than the log knows that losing them would be a pity.
fn has_grown(entry: &Entry) -> bool {
    entry
        .logged
        .is_some_and(|logged| entry.tokens.len() >= logged + TOKENS_WORTH_LOGGING)
}
