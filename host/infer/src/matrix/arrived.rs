//! How much of a model's weights is on the device, for those who wait for it.

use std::cell::Cell;

/// Counts the bytes of matrices as they arrive.
pub(crate) struct Arrived<'a> {
    done: Cell<u64>,
    of: u64,
    told: &'a dyn Fn(u64, u64),
}

impl<'a> Arrived<'a> {
    /// None of so many has.
    pub(crate) fn new(of: u64, told: &'a dyn Fn(u64, u64)) -> Arrived<'a> {
        told(0, of);
        Arrived {
            done: Cell::new(0),
            of,
            told,
        }
    }

    /// So many more have. Weights are estimated before a device is open: never more than all of them are told.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.set((self.done.get() + bytes).min(self.of));
        (self.told)(self.done.get(), self.of);
    }
}
