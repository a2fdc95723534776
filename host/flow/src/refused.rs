//! Records that a sink refuses for good, until they have come again and a cut has them as dead letters.

use std::collections::HashMap;

use tidegate_contract::Partition;
use tidegate_record::RecordId;

/// Records that are remembered until they come again.
const MOST: usize = 10_000;

/// A record, and the sink that refuses it.
type Place = (usize, RecordId);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    reasons: HashMap<Place, String>,
    /// Those that came again since the last cut was begun.
    met: Vec<Place>,
    /// Those that the cut that is under way has.
    in_cut: Vec<Place>,
}

impl Refused {
    /// Remembers a record, and why it is refused.
    pub(crate) fn add(&mut self, sink: usize, record: RecordId, reason: String) {
        self.reasons.insert((sink, record), reason);
    }

    /// Why this sink refuses a record that comes now, if it does.
    pub(crate) fn meet(&mut self, sink: usize, record: RecordId) -> Option<String> {
        if self.reasons.is_empty() {
            return None;
        }
        let reason = self.reasons.get(&(sink, record))?.clone();
        self.met.push((sink, record));
        Some(reason)
    }

    /// A cut begins, with those that were met.
    pub(crate) fn cut_begins(&mut self) {
        self.in_cut = std::mem::take(&mut self.met);
    }

    /// It holds: they come no more.
    pub(crate) fn cut_holds(&mut self) {
        for place in std::mem::take(&mut self.in_cut) {
            self.reasons.remove(&place);
        }
    }

    /// It came to nothing: all come again.
    pub(crate) fn cut_failed(&mut self) {
        self.in_cut.clear();
        self.met.clear();
        if self.reasons.len() > MOST {
            // What comes in their place is refused once more.
            self.reasons.clear();
        }
    }

    /// A partition is read elsewhere.
    pub(crate) fn gone(&mut self, partition: Partition) {
        self.reasons.retain(|(_, record), _| {
            (record.source, record.partition) != (partition.source, partition.number)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: u32, offset: u64) -> RecordId {
        RecordId {
            partition,
            offset,
            ..RecordId::default()
        }
    }

    #[test]
    fn a_refused_record_is_forgotten_with_the_cut_that_has_its_dead_letter_and_not_before() {
        let mut refused = Refused::default();
        for offset in 1..=3 {
            refused.add(0, record(0, offset), "too large".into());
        }
        assert_eq!(refused.meet(1, record(0, 1)), None, "another sink");
        assert!(refused.meet(0, record(0, 1)).is_some());
        refused.cut_begins();
        // Of the next cut.
        assert!(refused.meet(0, record(0, 2)).is_some());
        refused.cut_failed();
        // Both come again.
        assert!(refused.meet(0, record(0, 1)).is_some());
        refused.cut_begins();
        assert!(refused.meet(0, record(0, 2)).is_some());
        refused.cut_holds();
        assert_eq!(refused.meet(0, record(0, 1)), None);
        assert!(refused.meet(0, record(0, 2)).is_some(), "its cut is open");
        refused.cut_begins();
        refused.cut_holds();
        refused.add(0, record(7, 3), "too large".into());
        refused.gone(Partition {
            source: 0,
            number: 0,
        });
        assert_eq!(refused.meet(0, record(0, 3)), None, "read elsewhere");
        assert!(refused.meet(0, record(7, 3)).is_some());
        refused.cut_begins();
        refused.cut_holds();
        assert!(refused.reasons.is_empty(), "nothing is looked for any more");
    }
}
