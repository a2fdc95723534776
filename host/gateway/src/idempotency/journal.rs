//! Writing what outlives the process: on a thread of its own, so that nobody else waits for the disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_contract::{KeyedChange, KeyedLog, KeyedValue};
use tokio::sync::{mpsc, oneshot};

/// Most changes that wait for their turn.
const WAITING: usize = 1024;
/// Most bytes that are written at once, one larger value excepted.
const AT_ONCE: usize = 8 << 20;

struct Change {
    change: KeyedChange,
    /// Who waits until it is durable.
    told: Option<oneshot::Sender<()>>,
}

impl Change {
    fn size(&self) -> usize {
        match &self.change {
            KeyedChange::Put(value) => value.value.len(),
            KeyedChange::Remove(_) => 0,
        }
    }
}

/// The way to the thread that writes, which ends with it.
pub(super) struct Journal {
    to: mpsc::Sender<Change>,
    /// Nothing is taken away any more: the process ends, and what it has begun is left to the next one.
    closed: AtomicBool,
}

impl Journal {
    pub(super) fn new(log: Box<dyn KeyedLog>) -> io::Result<Journal> {
        let (to, changes) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new().name("tidegate-answers".into());
        thread.spawn(move || write(log, changes))?;
        Ok(Journal {
            to,
            closed: AtomicBool::new(false),
        })
    }

    /// Writes this when its turn comes. Where too many wait it is not written: an answer that is not known after a kill
    /// is made anew.
    pub(super) fn note(&self, value: KeyedValue) {
        let _ = self.to.try_send(Change {
            change: KeyedChange::Put(value),
            told: None,
        });
    }

    /// Returns once this is durable, or is known not to become so.
    pub(super) async fn keep(&self, value: KeyedValue) {
        let (told, durable) = oneshot::channel();
        let change = Change {
            change: KeyedChange::Put(value),
            told: Some(told),
        };
        // Errors mean that nobody writes any more.
        if self.to.send(change).await.is_ok() {
            let _ = durable.await;
        }
    }

    /// What is under this key is forgotten. Where too many wait it is when its time has come.
    pub(super) fn forget(&self, key: [u8; 32]) {
        if !self.closed.load(Ordering::Relaxed) {
            let _ = self.to.try_send(Change {
                change: KeyedChange::Remove(key),
                told: None,
            });
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

fn write(mut log: Box<dyn KeyedLog>, mut changes: mpsc::Receiver<Change>) {
    let mut failing = false;
    while let Some(first) = changes.blocking_recv() {
        let mut bytes = first.size();
        let mut group = vec![first];
        while bytes < AT_ONCE
            && let Ok(next) = changes.try_recv()
        {
            bytes += next.size();
            group.push(next);
        }
        let (changes, told): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|change| (change.change, change.told))
            .unzip();
        let durable = told.iter().any(Option::is_some);
        match log.write(&changes, durable) {
            Ok(()) if failing => {
                failing = false;
                tracing::info!(
                    "answers to requests with an idempotency key outlive the process again"
                );
            }
            Ok(()) => {}
            // Answers go out all the same. Told once, not for each.
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "answers to requests with an idempotency key do not outlive the process");
            }
            Err(_) => {}
        }
        for told in told.into_iter().flatten() {
            let _ = told.send(());
        }
    }
}
