//! What the last cut of a task has, in memory: a task that goes back to it is answered from here.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_contract::{Entry, EntryKey, TaskCut, TaskImage};

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
    /// Entries of the changelog that count no more, and are to be taken away: key and pieces.
    pub(super) stale: Vec<(EntryKey, u32)>,
}

impl Image {
    /// For the task that begins, or goes back.
    pub(super) fn told(&self) -> TaskImage {
        let entries = self.entries.iter();
        TaskImage {
            // It was held against the assignment when the task was loaded.
            identity: String::new(),
            position: self.position,
            entries: entries
                .map(|(key, kept)| Entry {
                    key: key.clone(),
                    payload: kept.payload.clone(),
                })
                .collect(),
            counters: self.counters.clone(),
        }
    }

    /// Whether a cut says anything that is not here.
    pub(super) fn differs(&self, cut: &TaskCut) -> bool {
        !cut.put.is_empty()
            || !cut.done.is_empty()
            || (cut.position.is_some() && cut.position != self.position)
            || cut.counters != self.counters
    }

    /// Whether anything waits once a cut holds; none if the task is not in it.
    pub(super) fn waits_after(&self, cut: Option<&TaskCut>) -> bool {
        let Some(cut) = cut else {
            return !self.entries.is_empty();
        };
        let done = cut.done.iter();
        let done = done.filter(|key| self.entries.contains_key(key)).count();
        !cut.put.is_empty() || self.entries.len() > done
    }

    /// Entries that a cut takes away, with their pieces. What it puts again is not among them.
    pub(super) fn gone(&self, cut: &TaskCut) -> Vec<(EntryKey, u32)> {
        let put: BTreeSet<&EntryKey> = cut.put.iter().map(|entry| &entry.key).collect();
        let done = cut.done.iter().filter(|key| !put.contains(key));
        let known = done.filter_map(|key| {
            let kept = self.entries.get(key)?;
            Some((key.clone(), kept.pieces))
        });
        let stale = self.stale.iter().filter(|(key, _)| !put.contains(key));
        known.chain(stale.cloned()).collect()
    }

    /// How many pieces of an entry are in the changelog.
    pub(super) fn pieces(&self, key: &EntryKey) -> u32 {
        let stale = self.stale.iter().find(|(stale, _)| stale == key);
        let kept = self.entries.get(key).map(|kept| kept.pieces);
        kept.or(stale.map(|(_, pieces)| *pieces)).unwrap_or(0)
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
        self.stale.clear();
        self.position = cut.position.or(self.position);
        self.counters = cut.counters;
        if !cut.identity.is_empty() {
            self.identity = cut.identity;
        }
    }
}
