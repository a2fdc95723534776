//! What is lost where rows are encoded anew because no kernel reads what they are stored in.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::{Format, GROUP};
use crate::packed::Stored;

/// The tensors of one format that are handed on in one other.
#[derive(Clone, Debug, PartialEq)]
pub struct Reencoded {
    /// What they lie in.
    pub stored: Stored,
    /// What they are handed on in.
    pub held: Format,
    /// How many they are.
    pub tensors: usize,
    /// Bytes that they take in the file.
    pub stored_bytes: u64,
    /// Bytes that they take as they are handed on.
    pub handed_on_bytes: u64,
    /// What the rows lost that were read so far; nothing before the first.
    pub loss: Option<RoundingLoss>,
}

/// How far rows that were encoded anew are from what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundingLoss {
    /// Root mean square of the differences, as a share of that of the elements.
    pub rms: f64,
    /// The tensor whose own such share is the largest, and that share.
    pub worst: (String, f64),
    /// The largest difference, as a share of the greatest magnitude in its group of 32.
    pub largest: f64,
}

/// What rows lost, by what they are stored and handed on in, and by tensor. Rows that are read again count again.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<BTreeMap<(Stored, Format), BTreeMap<String, Sums>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    differences: f64,
    elements: f64,
    largest: f64,
}

impl Sums {
    fn add(&mut self, more: Sums) {
        self.differences += more.differences;
        self.elements += more.elements;
        self.largest = self.largest.max(more.largest);
    }

    fn rms(self) -> f64 {
        if self.elements > 0.0 {
            (self.differences / self.elements).sqrt()
        } else {
            0.0
        }
    }
}

impl Losses {
    /// Counts a row of `before` of a tensor that became `after`.
    pub(crate) fn add(&self, way: (Stored, Format), tensor: &str, before: &[f32], after: &[f32]) {
        let mut row = Sums::default();
        for (before, after) in before.chunks(GROUP).zip(after.chunks(GROUP)) {
            let (mut greatest, mut largest) = (0f64, 0f64);
            for (x, y) in before.iter().zip(after) {
                let (x, difference) = (f64::from(*x), f64::from(*x) - f64::from(*y));
                row.differences += difference * difference;
                row.elements += x * x;
                greatest = greatest.max(x.abs());
                largest = largest.max(difference.abs());
            }
            if greatest > 0.0 {
                row.largest = row.largest.max(largest / greatest);
            }
        }
        let mut all = self.lock();
        let tensors = all.entry(way).or_default();
        match tensors.get_mut(tensor) {
            Some(sums) => sums.add(row),
            None => {
                tensors.insert(tensor.to_owned(), row);
            }
        }
    }

    /// What rows lost so far that went one way.
    pub(crate) fn of(&self, way: (Stored, Format)) -> Option<RoundingLoss> {
        let all = self.lock();
        let tensors = all.get(&way)?;
        let mut whole = Sums::default();
        let mut worst: Option<(&String, f64)> = None;
        for (name, sums) in tensors {
            whole.add(*sums);
            if worst.is_none_or(|(_, rms)| sums.rms() > rms) {
                worst = Some((name, sums.rms()));
            }
        }
        let (name, rms) = worst?;
        Some(RoundingLoss {
            rms: whole.rms(),
            worst: (name.clone(), rms),
            largest: whole.largest,
        })
    }

    /// Sums are whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Stored, Format), BTreeMap<String, Sums>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::StoredFormat;

    #[test]
    fn losses_are_shares_and_add_up_over_rows() {
        let [q5, q3] = [StoredFormat::Q5K, StoredFormat::Q3K]
            .map(|format| (Stored::Blocks(format), Format::Int8));
        let losses = Losses::default();
        assert_eq!(losses.of(q5), None);
        losses.add(q5, "a", &[3.0, -4.0], &[3.0, -3.0]);
        let one = losses.of(q5).unwrap();
        assert_eq!((one.rms, one.largest), (0.2, 0.25));
        losses.add(q5, "a", &[0.0; 32], &[0.0; 32]);
        losses.add(q5, "a", &[5.0, 0.0], &[4.0, 0.0]);
        let both = losses.of(q5).unwrap();
        assert_eq!((both.rms, both.largest), (0.2, 0.25));
        assert_eq!(losses.of(q3), None);
        losses.add(q3, "a", &[0.0; 32], &[0.0; 32]);
        let none = losses.of(q3).unwrap();
        assert_eq!((none.rms, none.largest), (0.0, 0.0));
        // A small tensor that is lost altogether hardly moves what all lose, and is named.
        losses.add(q5, "b", &[1e-6; 32], &[0.0; 32]);
        let all = losses.of(q5).unwrap();
        assert!((all.rms - 0.2).abs() < 1e-9, "{all:?}");
        assert_eq!((all.worst, all.largest), (("b".to_owned(), 1.0), 1.0));
    }
}
