//! How long those who wait for an answer do: others may join them, and wait longer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The latest deadline of all who wait, and whether their answer is settled. A copy is the same.
#[derive(Clone, Debug)]
pub struct Patience(Arc<Waits>);

#[derive(Debug)]
struct Waits {
    deadline: watch::Sender<Instant>,
    settling: Mutex<Settling>,
    settled: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settling {
    /// Nobody cares.
    Nothing,
    /// What comes of its record is to be kept.
    Open,
    Settled,
}

impl Patience {
    /// Until then, so far.
    pub fn until(deadline: Instant) -> Patience {
        Patience(Arc::new(Waits {
            deadline: watch::Sender::new(deadline),
            settling: Mutex::new(Settling::Nothing),
            settled: Condvar::new(),
        }))
    }

    /// The answer of the one record that is asked for is kept, and the pipeline does not let go of the record before.
    pub fn is_kept(&self) {
        self.set(Settling::Open);
    }

    /// It is kept, or will not be.
    pub fn settle(&self) {
        self.set(Settling::Settled);
        self.0.settled.notify_all();
    }

    /// Whether the record's answer is still to be kept.
    pub(super) fn is_open(&self) -> bool {
        let settling = self.0.settling.lock();
        *settling.unwrap_or_else(PoisonError::into_inner) == Settling::Open
    }

    /// Waits until it is, at most until then. Blocks.
    pub(super) fn wait_settled(&self, until: std::time::Instant) {
        let settling = self.0.settling.lock();
        let settling = settling.unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(std::time::Instant::now());
        let is_open = |settling: &mut Settling| *settling == Settling::Open;
        // Whether it was settled or the time is over is the same to whoever waits.
        drop(self.0.settled.wait_timeout_while(settling, left, is_open));
    }

    fn set(&self, to: Settling) {
        let settling = self.0.settling.lock();
        *settling.unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Somebody waits until then.
    pub fn lasts(&self, until: Instant) {
        self.0.deadline.send_if_modified(|deadline| {
            let longer = until > *deadline;
            *deadline = until.max(*deadline);
            longer
        });
    }

    /// The latest deadline so far.
    pub fn deadline(&self) -> Instant {
        *self.0.deadline.borrow()
    }

    /// Returns once somebody waits longer than this.
    pub async fn exceeds(&self, until: Instant) {
        let mut deadline = self.0.deadline.subscribe();
        // It is held here: there is no error.
        let _ = deadline.wait_for(|deadline| *deadline > until).await;
    }

    /// Returns when nobody waits any longer.
    pub async fn is_over(&self) {
        let mut deadline = self.0.deadline.subscribe();
        loop {
            let until = *deadline.borrow_and_update();
            tokio::select! {
                () = sleep_until(until) => return,
                // It is held here: an error would come at once, and again.
                changed = deadline.changed() => if changed.is_err() { return },
            }
        }
    }
}
