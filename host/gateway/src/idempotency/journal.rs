//! Writing what outlives the process: on a thread of its own, so that nobody else waits for the disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_contract::{KeyedChange, KeyedLog, KeyedLoss, KeyedValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::changes::{Change, Changes};
use super::seconds;

/// Bytes of room that changes wait in, and those that are being written.
const ROOM: usize = 32 << 20;
/// Room is given in such pieces.
const PIECE: usize = 256;
/// Bytes that a value takes beside its own.
const BESIDE: usize = 256;
/// Most bytes that are written at once, one larger value excepted.
const AT_ONCE: usize = 8 << 20;
/// How long an end waits to be durable. A disk that needs longer holds nobody up: the end is told without. Less than a cut
/// waits for it.
const DURABLE: Duration = Duration::from_secs(3);

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

/// What the process knows of a key that the log has lost.
pub(super) type Recall = Box<dyn Fn(&[u8; 32]) -> Option<KeyedValue> + Send>;

/// The way to the thread that writes, which ends with it.
pub(super) struct Journal {
    changes: Arc<Changes>,
    /// Pieces of room that are left.
    room: Arc<Semaphore>,
    disk: Arc<Disk>,
    /// Nothing is taken away any more: the process ends, and what it has begun is left to the next one.
    closed: AtomicBool,
}

impl Journal {
    /// Over a log that has these keys.
    pub(super) fn new(
        log: Box<dyn KeyedLog>,
        keys: impl IntoIterator<Item = [u8; 32]>,
        recall: Recall,
    ) -> io::Result<Journal> {
        let changes = Arc::new(Changes::of(keys));
        let disk = Arc::new(Disk::default());
        let mut writing = Writing {
            log,
            changes: changes.clone(),
            disk: disk.clone(),
            recall,
        };
        let thread = std::thread::Builder::new().name("tidegate-answers".into());
        thread.spawn(move || writing.write())?;
        Ok(Journal {
            changes,
            room: Arc::new(Semaphore::new(ROOM / PIECE)),
            disk,
            closed: AtomicBool::new(false),
        })
    }

    /// Writes this when its turn comes. Where too much waits it is not written: an answer that is not known after a kill
    /// is made anew.
    pub(super) fn note(&self, value: KeyedValue) {
        let room = self.room.clone().try_acquire_many_owned(pieces(&value));
        if let Ok(room) = room {
            self.put(value, room, None);
        }
    }

    /// Returns once this is durable, or is known not to become so. If the disk takes too long for whoever waits for it
    /// first, or this time comes, it returns before that.
    pub(super) async fn keep(&self, value: KeyedValue, until: Option<Instant>) {
        let now = Instant::now();
        let limit = self.disk.waits(now) + DURABLE;
        if limit <= now {
            self.note(value);
        } else {
            let kept = async {
                let room = self.room.clone().acquire_many_owned(pieces(&value));
                // It is never closed.
                let Ok(room) = room.await else { return };
                let (told, durable) = oneshot::channel();
                self.put(value, room, Some(told));
                // An error means that nobody writes any more, or that something else is under this key by now.
                let _ = durable.await;
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

    fn put(
        &self,
        value: KeyedValue,
        room: OwnedSemaphorePermit,
        told: Option<oneshot::Sender<()>>,
    ) {
        self.changes.add(Change {
            change: KeyedChange::Put(value),
            told,
            room: Some(room),
        });
    }

    /// What is under this key is forgotten.
    pub(super) fn forget(&self, key: [u8; 32]) {
        if !self.closed.load(Ordering::Relaxed) {
            self.changes.remove(key);
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.changes.end();
    }
}

/// The room that a value takes; a very large one takes all of it.
fn pieces(value: &KeyedValue) -> u32 {
    ((value.value.len() + BESIDE).min(ROOM) / PIECE) as u32
}

/// What the thread has.
struct Writing {
    log: Box<dyn KeyedLog>,
    changes: Arc<Changes>,
    disk: Arc<Disk>,
    recall: Recall,
}

impl Writing {
    fn write(&mut self) {
        while let Some(group) = self.changes.take(AT_ONCE) {
            let (mut changes, mut told, mut rooms) = (Vec::new(), Vec::new(), Vec::new());
            for change in group {
                changes.push(change.change);
                told.extend(change.told);
                rooms.push(change.room);
            }
            let written = self.log.write(&changes, !told.is_empty(), seconds());
            self.disk.wrote();
            match written {
                Ok(loss) => {
                    self.changes.wrote(&changes);
                    self.disk.works();
                    if let Some(loss) = loss {
                        self.restore(loss);
                    }
                }
                // Answers go out all the same.
                Err(error) => {
                    self.changes.owe(&changes);
                    self.disk.fails(&error);
                }
            }
            for told in told {
                let _ = told.send(());
            }
        }
    }

    /// Writes again what the log had and the process knows.
    fn restore(&mut self, loss: KeyedLoss) {
        let mut restored = 0;
        for key in &loss.keys {
            let Some(value) = (self.recall)(key) else {
                self.changes.lost(key);
                continue;
            };
            // What fails, or is lost once more, is of a disk that is past help.
            match self.log.write(&[KeyedChange::Put(value)], false, seconds()) {
                Ok(_) => restored += 1,
                Err(error) => return self.disk.fails(&error),
            }
        }
        if let Err(error) = self.log.write(&[], true, seconds()) {
            self.disk.fails(&error);
        }
        tracing::warn!(
            why = %loss.why,
            lost = loss.keys.len(),
            restored,
            "the log of answers to requests with an idempotency key has lost some",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tidegate_contract::KeyedLogError;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A log that says what it is to write, and does once it is told to or nobody tells any more.
    #[derive(Debug)]
    struct Waits(Sender<Vec<KeyedChange>>, Mutex<Receiver<()>>);

    impl KeyedLog for Waits {
        fn write(
            &mut self,
            changes: &[KeyedChange],
            _: bool,
            _: u64,
        ) -> Result<Option<KeyedLoss>, KeyedLogError> {
            let _ = self.0.send(changes.to_vec());
            let _ = self.1.lock().unwrap().recv_timeout(PATIENCE);
            Ok(None)
        }
    }

    fn value(number: u32, bytes: usize) -> KeyedValue {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        KeyedValue {
            key,
            until: u64::MAX,
            value: vec![0; bytes],
        }
    }

    #[test]
    fn what_waits_for_a_slow_disk_is_bounded_by_its_bytes_and_a_removal_is_never_left_out() {
        let ((to, written), (go, wait)) = (channel(), channel::<()>());
        let log = Box::new(Waits(to, Mutex::new(wait)));
        let kept = value(1_000_000, 0).key;
        let journal = Journal::new(log, [kept], Box::new(|_| None)).unwrap();
        journal.note(value(0, 0));
        // It hangs from here on.
        let mut all = written.recv_timeout(PATIENCE).unwrap();
        for number in 1..100 {
            journal.note(value(number, 1 << 20));
        }
        journal.forget(kept);
        // What never came to the log needs no removal; what is on its way does.
        journal.forget(value(1, 0).key);
        journal.forget(value(77, 0).key);
        journal.forget(value(0, 0).key);
        drop((go, journal));
        while let Ok(changes) = written.recv_timeout(PATIENCE) {
            all.extend(changes);
        }
        let size = |change: &KeyedChange| match change {
            KeyedChange::Put(value) => value.value.len(),
            KeyedChange::Remove(_) => 0,
        };
        let bytes: usize = all.iter().map(size).sum();
        assert!(bytes > ROOM / 2 && bytes <= ROOM, "{bytes}");
        let removed = all.iter().filter_map(|change| match change {
            KeyedChange::Put(_) => None,
            KeyedChange::Remove(key) => Some(*key),
        });
        let removed: Vec<_> = removed.collect();
        assert_eq!(removed, [kept, value(0, 0).key]);
    }
}
