//! What the last cut of a task has, in memory: a task that goes back to it is answered from here.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_contract::{EntryKey, Mark, TaskCut, TaskId, TaskImage};

/// An entry, and how many pieces it has in the changelog.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) payload: Vec<u8>,
    pub(super) pieces: u32,
}

/// What the last cut of a task has.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// Whether a group keeps its position.
    pub(super) in_group: bool,
    /// What the partition is.
    pub(super) identity: String,
    pub(super) position: Option<u64>,
    pub(super) entries: BTreeMap<EntryKey, Kept>,
    pub(super) counters: Vec<(String, u64)>,
    /// Records that waited at the cut.
    pub(super) waits: u64,
    /// What was kept with the position, where no group keeps it.
    pub(super) mark: Option<Mark>,
    /// Other tasks of which the changelog has entries in the same partition, and how many.
    pub(super) beside: Vec<(TaskId, u64)>,
}

impl Image {
    /// For the task that begins, or goes back.
    pub(super) fn told(&self) -> TaskImage {
        let entries = self.entries.iter();
        TaskImage {
            identity: self.identity.clone(),
            position: self.position,
            unfinished: None,
            entries: entries
                .map(|(key, kept)| (key.clone(), kept.payload.clone()))
                .collect(),
            counters: self.counters.clone(),
            mark: self.mark.clone(),
            moved: None,
            marked: true,
            beside: self.beside.clone(),
        }
    }

    /// Whether a cut says anything that is not here.
    pub(super) fn differs(&self, cut: &TaskCut) -> bool {
        !cut.put.is_empty()
            || !cut.done.is_empty()
            || (cut.position.is_some() && cut.position != self.position)
            || cut.waits != self.waits
            || cut.counters != self.counters
    }

    /// Entries that a cut takes away, with their pieces. What it puts again is not among them.
    pub(super) fn gone(&self, cut: &TaskCut) -> Vec<(EntryKey, u32)> {
        let put: BTreeSet<&EntryKey> = cut.put.iter().map(|entry| &entry.key).collect();
        let done = cut.done.iter().filter(|key| !put.contains(key));
        let known = done.filter_map(|key| {
            let kept = self.entries.get(key)?;
            Some((key.clone(), kept.pieces))
        });
        known.collect()
    }

    /// How many pieces of an entry are in the changelog.
    pub(super) fn pieces(&self, key: &EntryKey) -> u32 {
        self.entries.get(key).map_or(0, |kept| kept.pieces)
    }

    /// The cut holds. `pieces` of its entries, in their order.
    pub(super) fn apply(&mut self, cut: TaskCut, pieces: &[u32]) {
        for key in &cut.done {
            self.entries.remove(key);
        }
        for (entry, pieces) in cut.put.into_iter().zip(pieces) {
            let kept = Kept {
                payload: entry.payload,
                pieces: *pieces,
            };
            self.entries.insert(entry.key, kept);
        }
        self.beside.clear();
        self.waits = cut.waits;
        self.position = cut.position.or(self.position);
        self.counters = cut.counters;
        if !cut.identity.is_empty() {
            self.identity = cut.identity;
        }
    }
}
