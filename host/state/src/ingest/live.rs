//! The segment files of a log: which are in use, and which may be used next.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// A segment file in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) slot: usize,
    pub(super) number: u64,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) length: u64,
}

/// Those in use, oldest first; the last is the one that is written.
#[derive(Debug, Default)]
pub(super) struct LiveSegments {
    segments: VecDeque<Live>,
    bytes: u64,
}

impl LiveSegments {
    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.segments.iter()
    }

    /// Offsets of their records; none where there is no segment.
    pub(super) fn offsets(&self) -> Option<Range<u64>> {
        Some(self.segments.front()?.first..self.segments.back()?.end)
    }

    /// The one that has this offset, and whether it is the last.
    pub(super) fn with(&self, offset: u64) -> Option<(Live, bool)> {
        let at = self.segments.partition_point(|live| live.end <= offset);
        let live = self.segments.get(at)?;
        Some((*live, at + 1 == self.segments.len()))
    }

    pub(super) fn push(&mut self, live: Live) {
        self.bytes += live.length;
        self.segments.push_back(live);
    }

    /// The last has grown.
    pub(super) fn grow(&mut self, end: u64, length: u64) {
        if let Some(last) = self.segments.back_mut() {
            self.bytes = self.bytes - last.length + length;
            (last.end, last.length) = (end, length);
        }
    }

    /// The oldest are gone.
    pub(super) fn let_go(&mut self, count: usize) {
        for gone in self.segments.drain(..count) {
            self.bytes -= gone.length;
        }
    }
}

/// Files for further segments.
#[derive(Debug)]
pub(super) struct Slots {
    free: BTreeSet<usize>,
    /// Files there are: a further one is made only when none of them is free, so that there is no gap.
    count: usize,
}

impl Slots {
    /// Of so many files these are in use.
    pub(super) fn new<'l>(count: usize, used: impl Iterator<Item = &'l Live>) -> Slots {
        let mut free: BTreeSet<usize> = (0..count).collect();
        for live in used {
            free.remove(&live.slot);
        }
        Slots { free, count }
    }

    /// The one to be used next.
    pub(super) fn next(&self) -> usize {
        self.free.first().copied().unwrap_or(self.count)
    }

    /// This one is used from now on.
    pub(super) fn take(&mut self, slot: usize) {
        self.free.remove(&slot);
        self.count = self.count.max(slot + 1);
    }

    /// This one holds nothing any more.
    pub(super) fn give_back(&mut self, slot: usize) {
        self.free.insert(slot);
    }
}
