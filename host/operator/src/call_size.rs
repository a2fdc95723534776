//! How many records an instance is given in one call, so that an operator that is slower than its deadline allows for a
//! whole batch has smaller calls instead of dead letters.
//!
//! A call that took too long is followed by calls of half as many records. If one record alone takes too long, that
//! record explains the calls it was in; otherwise the operator is slow, and calls stay small. After a run of calls in
//! time twice as many records are tried again, each time after a longer run.

use std::ops::Range;

/// Calls in time after which more records are tried: at first, and at most.
const PATIENCE: Range<u32> = 32..4096;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct CallSize {
    /// Records of the next call. After a record that took too long alone it begins at 1 and doubles, since another such
    /// record may follow.
    size: usize,
    /// Most records of a call.
    most: usize,
    /// The same as it was before this batch.
    settled: usize,
    /// Calls of this batch that took too long and that no record explains so far, by their records.
    late: Vec<Range<usize>>,
    /// Calls of most records that were in time since the last that was not.
    in_time: u32,
    /// As many of them as are needed before more records are tried.
    patience: u32,
}

impl CallSize {
    pub(crate) fn new() -> CallSize {
        CallSize {
            size: usize::MAX,
            most: usize::MAX,
            settled: usize::MAX,
            late: Vec::new(),
            in_time: 0,
            patience: PATIENCE.start,
        }
    }

    /// Most records of the next call.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// A call of so many records was answered in time.
    pub(crate) fn on_answer(&mut self, records: usize) {
        if records < self.size {
            return;
        }
        if self.size < self.most {
            self.size = self.size.saturating_mul(2).min(self.most);
            return;
        }
        self.in_time += 1;
        if self.in_time >= self.patience {
            self.in_time = 0;
            self.most = self.most.saturating_mul(2);
            self.size = self.most;
        }
    }

    /// A call for these records of the batch, more than one, took too long.
    pub(crate) fn on_late(&mut self, records: Range<usize>) {
        self.most = (records.len() / 2).clamp(1, self.most);
        self.size = self.most;
        self.in_time = 0;
        self.late.push(records);
    }

    /// This record of the batch took too long by itself.
    pub(crate) fn on_late_alone(&mut self, record: usize) {
        self.late.retain(|records| !records.contains(&record));
        let unexplained = self.late.iter().map(|records| records.len() / 2).min();
        self.most = unexplained.unwrap_or(usize::MAX).clamp(1, self.settled);
        self.size = 1;
    }

    /// The batch is done: what no record has explained by now is how fast the operator is.
    pub(crate) fn settle(&mut self) {
        if !self.late.is_empty() {
            self.late.clear();
            self.patience = (self.patience * 2).min(PATIENCE.end);
        }
        self.settled = self.most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a batch of records that take so many milliseconds each; returns the calls that were late and the records
    /// that were late alone.
    fn batch(call_size: &mut CallSize, deadline: u64, takes: &[u64]) -> (usize, Vec<usize>) {
        let (mut late, mut alone) = (0, Vec::new());
        let mut next = 0;
        while next < takes.len() {
            let count = call_size.size().min(takes.len() - next);
            let time: u64 = takes[next..next + count].iter().sum();
            if time <= deadline {
                call_size.on_answer(count);
                next += count;
            } else if count > 1 {
                late += 1;
                call_size.on_late(next..next + count);
            } else {
                late += 1;
                alone.push(next);
                call_size.on_late_alone(next);
                next += 1;
            }
        }
        call_size.settle();
        (late, alone)
    }

    #[test]
    fn a_slow_operator_has_smaller_calls_and_keeps_them() {
        let mut call_size = CallSize::new();
        let takes: Vec<u64> = (0..256).map(|n| 5 + n % 5).collect();
        let (late, alone) = batch(&mut call_size, 50, &takes);
        assert!(late <= 8 && alone.is_empty(), "{late} {alone:?}");
        let mut late = 0;
        for _ in 0..100 {
            let (more, alone) = batch(&mut call_size, 50, &takes);
            assert!(alone.is_empty());
            late += more;
        }
        assert!(late <= 10, "{late} of 6,400 calls");
    }

    #[test]
    fn an_operator_that_is_fast_again_has_whole_batches_again() {
        let mut call_size = CallSize::new();
        batch(&mut call_size, 50, &[9; 256]);
        // Four of them fit; it may be about to try more.
        assert!(call_size.size() <= 8, "{}", call_size.size());
        for _ in 0..100 {
            assert_eq!(batch(&mut call_size, 50, &[0; 256]).0, 0);
        }
        assert!(call_size.size() >= 256, "{}", call_size.size());
    }

    #[test]
    fn a_record_that_never_returns_explains_the_calls_it_was_in() {
        for at in [0, 100, 255] {
            let mut call_size = CallSize::new();
            let mut takes = vec![0; 256];
            takes[at] = 1000;
            let (late, alone) = batch(&mut call_size, 50, &takes);
            assert_eq!((late, alone), (9, vec![at]));
            batch(&mut call_size, 50, &[0; 256]);
            assert_eq!(batch(&mut call_size, 50, &[0; 256]).0, 0);
            assert!(call_size.size() >= 256, "{}", call_size.size());
        }
    }

    #[test]
    fn records_that_all_take_too_long_cost_one_call_each() {
        let mut call_size = CallSize::new();
        let (late, alone) = batch(&mut call_size, 50, &[60; 256]);
        assert_eq!((late, alone.len()), (256 + 8, 256));
    }
}
