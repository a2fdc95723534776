//! Writing what outlives the process: on a thread of its own, so that nobody else waits for the disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_contract::{KeyedChange, KeyedLog, KeyedValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// Most changes that wait for their turn.
const WAITING: usize = 1024;
/// Most bytes that are written at once, one larger value excepted.
const AT_ONCE: usize = 8 << 20;
/// How long an end waits to be durable. A disk that needs longer holds nobody up: the end is told without. Less than a cut
/// waits for it.
const DURABLE: Duration = Duration::from_secs(3);

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

/// How the disk does.
#[derive(Default)]
struct Disk {
    /// Since when the first waits of those who have come since a write last ended.
    waiting: Mutex<Option<Instant>>,
    /// That answers do not outlive the process is told once, not for each.
    failing: AtomicBool,
}

impl Disk {
    /// Since when somebody waits: this one, if nobody has before.
    fn waits(&self, now: Instant) -> Instant {
        let waiting = self.waiting.lock();
        *waiting
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(now)
    }

    fn wrote(&self) {
        let waiting = self.waiting.lock();
        *waiting.unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn fails(&self, why: &dyn std::fmt::Display) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%why, "answers to requests with an idempotency key do not outlive the process");
        }
    }

    fn works(&self) {
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("answers to requests with an idempotency key outlive the process again");
        }
    }
}

/// The way to the thread that writes, which ends with it.
pub(super) struct Journal {
    to: mpsc::Sender<Change>,
    disk: Arc<Disk>,
    /// Nothing is taken away any more: the process ends, and what it has begun is left to the next one.
    closed: AtomicBool,
}

impl Journal {
    pub(super) fn new(log: Box<dyn KeyedLog>) -> io::Result<Journal> {
        let (to, changes) = mpsc::channel(WAITING);
        let disk = Arc::new(Disk::default());
        let of_thread = disk.clone();
        let thread = std::thread::Builder::new().name("tidegate-answers".into());
        thread.spawn(move || write(log, changes, &of_thread))?;
        Ok(Journal {
            to,
            disk,
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

    /// Returns once this is durable, or is known not to become so. If the disk takes too long for whoever waits for it
    /// first, or this time comes, it returns before that.
    pub(super) async fn keep(&self, value: KeyedValue, until: Option<Instant>) {
        let (told, durable) = oneshot::channel();
        let change = Change {
            change: KeyedChange::Put(value),
            told: Some(told),
        };
        let now = Instant::now();
        let limit = self.disk.waits(now) + DURABLE;
        if limit <= now {
            let _ = self.to.try_send(change);
        } else {
            let kept = async {
                // Errors mean that nobody writes any more.
                if self.to.send(change).await.is_ok() {
                    let _ = durable.await;
                }
            };
            let until = until.map_or(limit, |until| limit.min(until));
            if timeout_at(until, kept).await.is_ok() {
                return;
            }
        }
        if limit <= Instant::now() {
            self.disk
                .fails(&format_args!("the disk takes longer than {DURABLE:?}"));
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

fn write(mut log: Box<dyn KeyedLog>, mut changes: mpsc::Receiver<Change>, disk: &Disk) {
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
        let written = log.write(&changes, durable);
        disk.wrote();
        match written {
            Ok(()) => disk.works(),
            // Answers go out all the same.
            Err(error) => disk.fails(&error),
        }
        for told in told.into_iter().flatten() {
            let _ = told.send(());
        }
    }
}
