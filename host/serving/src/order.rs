//! Who goes first.

use std::time::Duration;

/// A point in time: since the engine's start.
pub(crate) type Moment = Duration;

/// What a request's place is decided by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Lower goes first.
    pub(crate) class: u8,
    pub(crate) deadline: Option<Moment>,
    pub(crate) arrived: Moment,
    /// Counted in the order of arrival; unique.
    pub(crate) number: u64,
}

/// A place in the order; the smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Has waited so long that nothing but earlier arrivals goes before it.
    Overdue {
        /// Order of arrival.
        number: u64,
    },
    /// By class as it has aged, then deadline (all slacks are measured at the same moment, so the nearest deadline is
    /// the least slack; none comes last), then arrival.
    OnTime {
        class: u64,
        no_deadline: bool,
        deadline: Option<Moment>,
        number: u64,
    },
}

impl Standing {
    /// The place at a moment.
    ///
    /// For each `aging` that it has waited a request rises by a class, and one `aging` after it would be in class 0 it
    /// is overdue. So a request of class c that arrives at t is overtaken by no request that arrives after
    /// t + (c + 1) * aging, whatever their classes and deadlines.
    pub(crate) fn rank(&self, now: Moment, aging: Duration) -> Rank {
        let number = self.number;
        let waited = now.saturating_sub(self.arrived).as_nanos();
        let risen = waited / aging.as_nanos().max(1);
        if risen > u128::from(self.class) {
            return Rank::Overdue { number };
        }
        Rank::OnTime {
            class: u64::from(self.class) - risen as u64,
            no_deadline: self.deadline.is_none(),
            deadline: self.deadline,
            number,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGING: Duration = Duration::from_secs(1);

    fn standing(class: u8, deadline: Option<u64>, arrived: u64, number: u64) -> Standing {
        Standing {
            class,
            deadline: deadline.map(Duration::from_millis),
            arrived: Duration::from_millis(arrived),
            number,
        }
    }

    #[test]
    fn class_then_deadline_then_arrival() {
        let ordered = [
            standing(0, Some(600), 0, 4),
            standing(0, Some(900), 0, 3),
            standing(0, None, 0, 1),
            standing(0, None, 0, 2),
            standing(1, Some(100), 0, 0),
        ];
        let now = Duration::from_millis(10);
        let ranks: Vec<Rank> = ordered.iter().map(|s| s.rank(now, AGING)).collect();
        assert!(ranks.is_sorted() && ranks[0] < ranks[4]);
    }

    #[test]
    fn waiting_raises_and_in_the_end_goes_before_everything() {
        let old = standing(3, None, 0, 0);
        let new = |arrived| standing(2, Some(9_999_999), arrived, 1);
        let before = |now| {
            let now = Duration::from_millis(now);
            old.rank(now, AGING) < new(now.as_millis() as u64).rank(now, AGING)
        };
        assert!(!before(999) && before(2000) && before(4000));
        let urgent = standing(0, Some(4001), 4000, 2);
        let at = |now| (old.rank(now, AGING), urgent.rank(now, AGING));
        let (older, younger) = at(Duration::from_millis(3999));
        assert!(younger < older);
        let (older, younger) = at(Duration::from_millis(4000));
        assert!(older < younger);
    }

    proptest! {
        /// One server, any arrivals: the promise of `rank`, counted.
        #[test]
        fn a_flood_overtakes_only_within_the_bound(
            arrivals in proptest::collection::vec((0u8..10, proptest::option::of(0u64..5000), 0u64..300), 1..120),
            service in 1u64..400,
        ) {
            let mut at = 0;
            let mut coming: Vec<Standing> = arrivals.iter().enumerate().map(|(number, (class, deadline, gap))| {
                at += gap;
                standing(*class, deadline.map(|d| at + d), at, number as u64)
            }).collect();
            coming.reverse();
            let (mut now, mut waiting) = (0u64, Vec::<Standing>::new());
            while !waiting.is_empty() || !coming.is_empty() {
                while coming.last().is_some_and(|s| s.arrived <= Duration::from_millis(now)) {
                    waiting.extend(coming.pop());
                }
                let moment = Duration::from_millis(now);
                let Some(best) = (0..waiting.len()).min_by_key(|i| waiting[*i].rank(moment, AGING)) else {
                    now += 1;
                    continue;
                };
                let served = waiting.remove(best);
                for passed in &waiting {
                    let bound = passed.arrived + AGING * (u32::from(passed.class) + 1);
                    prop_assert!(served.number < passed.number || served.arrived < bound,
                        "{passed:?} is overtaken by {served:?}");
                }
                now += service;
            }
        }
    }
}
