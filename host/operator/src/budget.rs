//! Memory that instances share: those of a slot together, and those of all slots.
//!
//! What an instance may have by itself is its own limit. These hold whatever runs: tasks, what is made ready for a
//! deployment, and what is tried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may be used, and how many are.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    most: u64,
    /// Whose memory it is, and how the pipeline file calls its limit.
    names: (&'static str, &'static str),
    /// That of which this is a part.
    around: Option<Arc<Budget>>,
}

/// More was asked for than a budget has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) names: (&'static str, &'static str),
    pub(crate) needed: u64,
    pub(crate) limit: u64,
    /// Whether it is that of all slots.
    pub(crate) of_all: bool,
}

impl Budget {
    /// That of all slots of an engine.
    pub(crate) fn of_engine(most: u64) -> Budget {
        Budget {
            used: AtomicU64::new(0),
            most,
            names: ("all operators", "operators.memory"),
            around: None,
        }
    }

    /// That of a slot.
    pub(crate) fn of_slot(most: Option<u64>, engine: &Arc<Budget>) -> Budget {
        Budget {
            used: AtomicU64::new(0),
            most: most.unwrap_or(u64::MAX),
            names: ("all instances of the stage", "limits.total-memory"),
            around: Some(Arc::clone(engine)),
        }
    }

    /// Takes so many bytes, of this and of those around it, or of none.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Exceeded> {
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|used| Exceeded {
                names: self.names,
                needed: used.saturating_add(bytes),
                limit: self.most,
                of_all: self.around.is_none(),
            })?;
        if let Some(around) = &self.around {
            around.take(bytes).inspect_err(|_| {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
            })?;
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(around) = &self.around {
            around.give(bytes);
        }
    }

    /// Bytes that are used.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_slot_takes_counts_for_all_and_what_is_refused_for_none() {
        let all = Arc::new(Budget::of_engine(100));
        let one = Budget::of_slot(Some(60), &all);
        let other = Budget::of_slot(None, &all);
        one.take(60).unwrap();
        let refused = one.take(1).unwrap_err();
        assert_eq!(
            (refused.names.1, refused.needed, refused.limit),
            ("limits.total-memory", 61, 60)
        );
        other.take(40).unwrap();
        let refused = other.take(1).unwrap_err();
        assert_eq!(
            (refused.names.1, refused.needed, refused.limit),
            ("operators.memory", 101, 100)
        );
        assert_eq!((one.used(), other.used(), all.used()), (60, 40, 100));
        one.give(60);
        other.take(60).unwrap();
        assert_eq!((one.used(), other.used(), all.used()), (0, 100, 100));
        assert!(other.take(u64::MAX).is_err());
    }
}
