//! Guests that are started, and the one that is kept ready for when another is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_contract::OperatorError;

use crate::guest::Guest;
use crate::meters::Held;
use crate::revision::Revision;
use crate::shared::lock;

/// A guest that has been initialised, and what it holds.
pub(crate) struct Started {
    pub(crate) guest: Guest,
    pub(crate) held: Held,
}

impl Started {
    pub(crate) fn new(revision: &Revision) -> Result<Started, OperatorError> {
        let guest = revision.start()?;
        let held = Held::new(&revision.meters, guest.memory());
        Ok(Started { guest, held })
    }
}

/// A revision's spare. There is none until an instance was lost: most operators never lose one.
#[derive(Default)]
pub(crate) struct Spares {
    spare: Mutex<Option<Started>>,
    making: AtomicBool,
    /// Whether the slot runs another revision now.
    retired: AtomicBool,
}

impl Spares {
    /// An instance in the place of one that was lost: the spare, or else one that is started now. Another spare is made
    /// beside the stream.
    pub(crate) fn restart(revision: &Arc<Revision>) -> Result<Started, OperatorError> {
        let spare = lock(&revision.spares.spare).take();
        let started = match spare {
            Some(started) => started,
            None => Started::new(revision)?,
        };
        Spares::make(revision);
        Ok(started)
    }

    /// Makes a spare on a thread of its own, if none is there or being made. One that cannot be made is tried again
    /// after the next loss.
    fn make(revision: &Arc<Revision>) {
        let spares = &revision.spares;
        if spares.is_retired() || spares.making.swap(true, Ordering::AcqRel) {
            return;
        }
        let of = Arc::clone(revision);
        let thread = std::thread::Builder::new().name("spare".into());
        let spawned = thread.spawn(move || {
            let spares = &of.spares;
            if lock(&spares.spare).is_none() {
                match Started::new(&of) {
                    Ok(started) => *lock(&spares.spare) = Some(started),
                    Err(error) => tracing::debug!(
                        target: "tidegate::operator",
                        slot = of.context.shared.name,
                        "no spare instance: {error}"
                    ),
                }
            }
            spares.making.store(false, Ordering::Release);
            if spares.is_retired() {
                spares.retire();
            }
        });
        if spawned.is_err() {
            spares.making.store(false, Ordering::Release);
        }
    }

    /// The slot runs another revision: this one needs no spare.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        drop(lock(&self.spare).take());
    }

    /// The slot runs this revision (again).
    pub(crate) fn revive(&self) {
        self.retired.store(false, Ordering::Release);
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::instance::tests::pass;

    #[test]
    fn a_lost_instance_is_replaced_by_the_spare_that_the_loss_before_it_had_made() {
        let revision = pass();
        let first = Spares::restart(&revision).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while lock(&revision.spares.spare).is_none()
            || revision.spares.making.load(Ordering::Acquire)
        {
            assert!(Instant::now() < until, "no spare was made");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(revision.meters.stats().instances, 2);
        drop(first);
        // No other is made beside it now.
        revision.spares.retired.store(true, Ordering::Release);
        let _second = Spares::restart(&revision).unwrap();
        assert_eq!(revision.meters.stats().instances, 1, "the spare");
        assert!(revision.meters.stats().memory > 0);
        revision.spares.revive();
        Spares::restart(&revision).unwrap();
        revision.spares.retire();
        let until = Instant::now() + Duration::from_secs(60);
        while revision.meters.stats().instances > 1 {
            assert!(
                Instant::now() < until,
                "a revision that has left keeps a spare"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
