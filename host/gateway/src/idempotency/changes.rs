//! What is to be written next: of each key the newest change alone, in the order in which the keys came.
//!
//! A removal is never left out, and takes no room that somebody could wait for: there is at most one for each key that is
//! in the log, or on its way there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_contract::KeyedChange;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A change that waits.
pub(super) struct Change {
    pub(super) change: KeyedChange,
    /// Who waits until it is durable.
    pub(super) told: Option<oneshot::Sender<()>>,
    /// Until it is written.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl Change {
    fn key(&self) -> [u8; 32] {
        match &self.change {
            KeyedChange::Put(value) => value.key,
            KeyedChange::Remove(key) => *key,
        }
    }

    fn size(&self) -> usize {
        match &self.change {
            KeyedChange::Put(value) => value.value.len(),
            KeyedChange::Remove(_) => 0,
        }
    }
}

/// Changes that wait.
pub(super) struct Changes {
    inner: Mutex<Inner>,
    came: Condvar,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<[u8; 32], Change>,
    /// Each key that waits, once.
    order: VecDeque<[u8; 32]>,
    /// Keys that the log has, or may have.
    in_log: HashSet<[u8; 32]>,
    /// Removals that failed: they go with the next that is written.
    owed: HashSet<[u8; 32]>,
    /// Nothing more comes.
    ended: bool,
}

impl Inner {
    fn add(&mut self, change: Change) {
        let key = change.key();
        if self.waiting.insert(key, change).is_none() {
            self.order.push_back(key);
        }
    }
}

impl Changes {
    /// For a log that has these keys.
    pub(super) fn of(keys: impl IntoIterator<Item = [u8; 32]>) -> Changes {
        Changes {
            inner: Mutex::new(Inner {
                in_log: keys.into_iter().collect(),
                ..Inner::default()
            }),
            came: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change, in the place of another of its key.
    pub(super) fn add(&self, change: Change) {
        self.lock().add(change);
        self.came.notify_one();
    }

    /// What is under this key goes. What never came to the log needs nothing there.
    pub(super) fn remove(&self, key: [u8; 32]) {
        let mut inner = self.lock();
        if inner.in_log.contains(&key) {
            inner.add(Change {
                change: KeyedChange::Remove(key),
                told: None,
                room: None,
            });
            drop(inner);
            self.came.notify_one();
        } else if inner.waiting.remove(&key).is_some() {
            inner.order.retain(|other| *other != key);
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.came.notify_one();
    }

    /// Waits for changes and takes the oldest, of so many bytes or a single larger one. None once nothing more comes.
    pub(super) fn take(&self, bytes: usize) -> Option<Vec<Change>> {
        let inner = self.lock();
        let waited = self
            .came
            .wait_while(inner, |inner| inner.order.is_empty() && !inner.ended);
        let mut inner = waited.unwrap_or_else(PoisonError::into_inner);
        let (mut group, mut size) = (Vec::new(), 0);
        while let Some(key) = inner.order.front() {
            let next = inner.waiting.get(key).map_or(0, Change::size);
            if size + next > bytes && !group.is_empty() {
                break;
            }
            size += next;
            let Some(key) = inner.order.pop_front() else {
                break;
            };
            let Some(change) = inner.waiting.remove(&key) else {
                continue;
            };
            // Whether it gets there is known later: a removal that comes meanwhile must not be left out.
            inner.in_log.insert(key);
            inner.owed.remove(&key);
            group.push(change);
        }
        if group.is_empty() {
            return None;
        }
        let owed: Vec<_> = inner.owed.drain().collect();
        for key in owed {
            if !inner.waiting.contains_key(&key) {
                group.push(Change {
                    change: KeyedChange::Remove(key),
                    told: None,
                    room: None,
                });
            }
        }
        Some(group)
    }

    /// The log has these changes.
    pub(super) fn wrote(&self, changes: &[KeyedChange]) {
        let mut inner = self.lock();
        for change in changes {
            if let KeyedChange::Remove(key) = change {
                inner.in_log.remove(key);
            }
        }
    }

    /// The log may have these changes or not.
    pub(super) fn owe(&self, changes: &[KeyedChange]) {
        let mut inner = self.lock();
        for change in changes {
            if let KeyedChange::Remove(key) = change {
                inner.owed.insert(*key);
            }
        }
    }

    /// The log has this key no more.
    pub(super) fn lost(&self, key: &[u8; 32]) {
        self.lock().in_log.remove(key);
    }
}
