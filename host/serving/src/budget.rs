//! Bytes of the device that models hold.

use std::sync::{Arc, Mutex, PoisonError};

/// One budget for all models of an engine.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: Mutex<u64>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            used: Mutex::new(0),
        })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes out; the error is what is free.
    pub(crate) fn take(self: &Arc<Budget>, bytes: u64) -> Result<Reservation, u64> {
        let mut reservation = Reservation {
            budget: Arc::clone(self),
            bytes: 0,
        };
        reservation.resize(bytes)?;
        Ok(reservation)
    }
}

/// Bytes taken out of a budget until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// Changes how many; on error, what could have been had, nothing changes.
    pub(crate) fn resize(&mut self, bytes: u64) -> Result<(), u64> {
        let mut used = self
            .budget
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let free = self.budget.limit.saturating_sub(*used - self.bytes);
        if bytes > free {
            return Err(free);
        }
        *used = *used - self.bytes + bytes;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let mut one = budget.take(60).unwrap();
        assert_eq!(budget.take(41).unwrap_err(), 40);
        let two = budget.take(40).unwrap();
        assert_eq!(one.resize(61), Err(60));
        drop(two);
        assert_eq!(one.resize(100), Ok(()));
        assert_eq!(budget.used(), 100);
        drop(one);
        assert_eq!(budget.used(), 0);
    }
}
