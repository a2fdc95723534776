//! Records between the endpoints and the thread that reads them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::CallerId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::line::Line;
use super::{NewRecord, Refused, lock};

/// A record that waits to be read.
pub(super) struct Queued {
    pub(super) id: CallerId,
    pub(super) record: NewRecord,
}

/// The records of one source.
pub(super) struct Queue {
    most: usize,
    /// Places that are free.
    places: Arc<Semaphore>,
    /// The turn to wait for places: one has it at a time.
    turn: Semaphore,
    waiting: Mutex<Records>,
    /// Those who wait, here and beyond.
    pub(super) line: Line,
    came: Condvar,
    /// Wakes the worker that reads it, if it waits for something else.
    wake: Mutex<Option<Wake>>,
    /// Whether someone reads it.
    pub(super) taken: AtomicBool,
}

/// How a worker is woken.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Records {
    queue: VecDeque<Queued>,
    closed: bool,
}

/// What came within a wait.
pub(super) enum Came {
    Records(Vec<Queued>),
    Closed,
    Nothing,
}

impl Queue {
    pub(super) fn new(most: usize) -> Queue {
        let most = most.max(1);
        Queue {
            most,
            places: Arc::new(Semaphore::new(most)),
            turn: Semaphore::new(1),
            waiting: Mutex::default(),
            line: Line::default(),
            came: Condvar::new(),
            wake: Mutex::default(),
            taken: AtomicBool::new(false),
        }
    }

    /// So many places at once, or all there are. Whoever finds none is refused; whoever finds some waits for the rest,
    /// and others find none meanwhile.
    pub(super) async fn places(&self, count: usize) -> Result<OwnedSemaphorePermit, Refused> {
        let count = u32::try_from(count.clamp(1, self.most)).unwrap_or(u32::MAX);
        let full = || Refused::Full {
            limit: self.most,
            after: self.line.turn(Instant::now()),
        };
        match self.places.clone().try_acquire_many_owned(count) {
            Ok(places) => return Ok(places),
            Err(TryAcquireError::Closed) => return Err(Refused::Closed),
            Err(TryAcquireError::NoPermits) if self.places.available_permits() == 0 => {
                return Err(full());
            }
            Err(TryAcquireError::NoPermits) => {}
        }
        let _turn = self.turn.try_acquire().map_err(|_| full())?;
        let places = self.places.clone().acquire_many_owned(count).await;
        places.map_err(|_| Refused::Closed)
    }

    /// A place for a record that was left, if there is one: it waits in any case.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Adds a record, which has its place.
    pub(super) fn push(&self, queued: Queued) -> Result<(), Refused> {
        let mut records = lock(&self.waiting);
        if records.closed {
            return Err(Refused::Closed);
        }
        records.queue.push_back(queued);
        drop(records);
        self.came.notify_one();
        let wake = lock(&self.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
        Ok(())
    }

    /// Who is woken from now on.
    pub(super) fn wakes(&self, wake: Wake) {
        *lock(&self.wake) = Some(wake);
    }

    /// Takes a record back; none if it was read.
    pub(super) fn remove(&self, id: CallerId) -> Option<Queued> {
        let mut records = lock(&self.waiting);
        // Offsets rise: those of a queue are in order, but for what two endpoints pushed at once.
        let at = records.queue.iter().position(|queued| queued.id == id)?;
        records.queue.remove(at)
    }

    /// Waits for records, if they are wanted now.
    pub(super) fn take(&self, records: usize, bytes: usize, wanted: bool, wait: Duration) -> Came {
        let until = Instant::now() + wait;
        let mut waiting = lock(&self.waiting);
        loop {
            if wanted && !waiting.queue.is_empty() {
                return Came::Records(taken(&mut waiting.queue, records.max(1), bytes));
            }
            if waiting.closed && waiting.queue.is_empty() {
                return Came::Closed;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Came::Nothing;
            }
            waiting = self
                .came
                .wait_timeout(waiting, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.places.close();
        self.came.notify_all();
    }

    /// Whether this reader may have the partition.
    pub(super) fn claim(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }
}

fn taken(queue: &mut VecDeque<Queued>, records: usize, bytes: usize) -> Vec<Queued> {
    let (mut taken, mut size) = (Vec::new(), 0usize);
    while let Some(next) = queue.front() {
        size = size.saturating_add(next.record.size());
        if taken.len() >= records || (size > bytes && !taken.is_empty()) {
            break;
        }
        taken.extend(queue.pop_front());
    }
    taken
}
