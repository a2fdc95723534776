//! Who goes first: by class, then the least slack, then arrival.
//!
//! The slack (or laxity) of a request at a moment is what is left until its deadline beyond the work that it still needs:
//! `deadline - now - work`, how long it could be left alone and still be done in time. Least slack first is optimal for
//! one server wherever all deadlines can be met, as the nearest deadline first is (Mok 1983, "Fundamental design problems
//! of distributed systems for the hard-real-time environment"); where several are served at once, as here, it keeps
//! deadlines that the nearest deadline first does not: a long answer is not begun last because it may end a little later.
//!
//! Work is counted when a request is queued ([`crate::remaining::Remaining`]), and takes the time that work takes at the
//! moment ([`crate::costs::StepCosts`]). It is not counted anew while the request runs: of two with the same slack the one that
//! is worked on would at once have more of it and stand back behind the other, and so on in turns until both are late
//! (Oh and Yang 1998, "A modified least-laxity-first scheduling algorithm for real-time tasks").

use std::time::Duration;

use tidegate_contract::CLASS_BESIDE;

/// A point in time: since the engine's start.
pub(crate) type Moment = Duration;

/// What a request's place is decided by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueKey {
    /// Lower goes first.
    pub(crate) class: u8,
    pub(crate) deadline: Option<Moment>,
    pub(crate) arrived: Moment,
    /// Counted in the order of arrival; unique.
    pub(crate) number: u64,
}

/// How long a request could be left alone; the less goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slack {
    /// Nanoseconds; below zero the deadline is met only if there is less to do than was counted.
    Until(i128),
    /// It has no deadline.
    Endless,
}

/// A place in the order; the smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Has waited so long that nothing but earlier arrivals goes before it.
    Overdue {
        /// Order of arrival.
        number: u64,
    },
    /// By class as it has aged, then slack, then arrival.
    OnTime {
        class: u64,
        slack: Slack,
        number: u64,
    },
    /// Is beside the stream, and behind all of it: by slack, then arrival. It does not age; its deadline ends it.
    Beside { slack: Slack, number: u64 },
}

impl Rank {
    /// Whether one that needs its room may take it, if that goes before it.
    pub(crate) fn gives_way(self) -> bool {
        !matches!(self, Rank::Overdue { .. })
    }
}

impl QueueKey {
    /// Whether it is beside the stream, and so behind all of it.
    pub(crate) fn is_beside(&self) -> bool {
        self.class >= CLASS_BESIDE
    }

    /// The place at a moment of a request that needs `work` until its end; with none, before anything was measured, the
    /// nearest deadline is the least slack.
    ///
    /// For each `aging` that it has waited a request rises by a class, and one `aging` after it would be in class 0 it
    /// is overdue. So a request of class c that arrives at t is overtaken by no request that arrives after
    /// t + (c + 1) * aging, whatever their classes, deadlines and work. What is beside the stream is overtaken by all of
    /// the stream.
    pub(crate) fn rank(&self, now: Moment, aging: Duration, work: Duration) -> Rank {
        let number = self.number;
        if self.is_beside() {
            let slack = self.slack(now, work);
            return Rank::Beside { slack, number };
        }
        let waited = now.saturating_sub(self.arrived).as_nanos();
        let risen = waited / aging.as_nanos().max(1);
        if risen > u128::from(self.class) {
            return Rank::Overdue { number };
        }
        Rank::OnTime {
            class: u64::from(self.class) - risen as u64,
            slack: self.slack(now, work),
            number,
        }
    }

    fn slack(&self, now: Moment, work: Duration) -> Slack {
        let nanoseconds = |time: Duration| time.as_nanos() as i128;
        self.deadline.map_or(Slack::Endless, |deadline| {
            Slack::Until(nanoseconds(deadline) - nanoseconds(now) - nanoseconds(work))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGING: Duration = Duration::from_secs(1);
    const NO_WORK: Duration = Duration::ZERO;

    fn queue_key(class: u8, deadline: Option<u64>, arrived: u64, number: u64) -> QueueKey {
        QueueKey {
            class,
            deadline: deadline.map(Duration::from_millis),
            arrived: Duration::from_millis(arrived),
            number,
        }
    }

    #[test]
    fn class_then_deadline_then_arrival_while_nothing_is_known_of_the_work() {
        let ordered = [
            queue_key(0, Some(600), 0, 4),
            queue_key(0, Some(900), 0, 3),
            queue_key(0, None, 0, 1),
            queue_key(0, None, 0, 2),
            queue_key(1, Some(100), 0, 0),
        ];
        let now = Duration::from_millis(10);
        let ranks: Vec<Rank> = ordered
            .iter()
            .map(|s| s.rank(now, AGING, NO_WORK))
            .collect();
        assert!(ranks.is_sorted() && ranks[0] < ranks[4]);
    }

    #[test]
    fn of_a_class_the_least_slack_goes_first() {
        let now = Duration::from_millis(500);
        let rank = |class, deadline, number, work| {
            queue_key(class, deadline, 0, number).rank(now, AGING, Duration::from_millis(work))
        };
        let ordered = [
            // Too late by its own work, the more the sooner: what was counted is the most that it may need.
            rank(0, Some(900), 9, 5000),
            rank(0, Some(600), 8, 200),
            // 100 ms and 150 ms, though the second has the nearer deadline.
            rank(0, Some(2000), 7, 1400),
            rank(0, Some(1000), 6, 350),
            // The same slack: the earlier.
            rank(0, Some(1200), 4, 100),
            rank(0, Some(1100), 5, 0),
            // No deadline is endless slack, however much there is to do.
            rank(0, None, 1, 0),
            rank(0, None, 2, 1_000_000),
            // Slack decides within a class only.
            rank(1, Some(501), 0, 1000),
        ];
        assert!(ordered.is_sorted(), "{ordered:?}");
    }

    #[test]
    fn waiting_raises_and_in_the_end_goes_before_everything() {
        let old = queue_key(3, None, 0, 0);
        let new = |arrived| queue_key(2, Some(9_999_999), arrived, 1);
        let before = |now| {
            let now = Duration::from_millis(now);
            let new = new(now.as_millis() as u64);
            old.rank(now, AGING, NO_WORK) < new.rank(now, AGING, NO_WORK)
        };
        assert!(!before(999) && before(2000) && before(4000));
        let urgent = queue_key(0, Some(4001), 4000, 2);
        let work = Duration::from_secs(60);
        let at = |now| (old.rank(now, AGING, NO_WORK), urgent.rank(now, AGING, work));
        let (older, younger) = at(Duration::from_millis(3999));
        assert!(younger < older);
        let (older, younger) = at(Duration::from_millis(4000));
        assert!(older < younger);
    }

    proptest! {
        /// However long it has waited, whatever its deadline.
        #[test]
        fn nothing_beside_the_stream_goes_before_anything_of_it(
            beside in (proptest::option::of(0u64..100_000), 0u64..100_000, 0u64..9000),
            stream in (0u8..CLASS_BESIDE, proptest::option::of(0u64..100_000), 0u64..100_000, 0u64..9000),
            now in 0u64..200_000,
        ) {
            let rank = |class, (deadline, arrived, work), number| {
                let work = Duration::from_millis(work);
                queue_key(class, deadline, arrived, number).rank(Duration::from_millis(now), AGING, work)
            };
            let (class, deadline, arrived, work) = stream;
            let stream = rank(class, (deadline, arrived, work), 1);
            prop_assert!(stream < rank(CLASS_BESIDE, beside, 0));
        }

        /// One server, any arrivals: the promise of `rank`, counted.
        #[test]
        fn a_flood_overtakes_only_within_the_bound(
            arrivals in proptest::collection::vec(
                (0u8..10, proptest::option::of(0u64..5000), 0u64..300, 0u64..9000), 1..120),
            service in 1u64..400,
        ) {
            let mut at = 0;
            let mut coming: Vec<QueueKey> = arrivals.iter().enumerate().map(|(number, (class, deadline, gap, _))| {
                at += gap;
                queue_key(*class, deadline.map(|d| at + d), at, number as u64)
            }).collect();
            coming.reverse();
            let work = |queue_key: &QueueKey| Duration::from_millis(arrivals[queue_key.number as usize].3);
            let (mut now, mut waiting) = (0u64, Vec::<QueueKey>::new());
            while !waiting.is_empty() || !coming.is_empty() {
                while coming.last().is_some_and(|s| s.arrived <= Duration::from_millis(now)) {
                    waiting.extend(coming.pop());
                }
                let moment = Duration::from_millis(now);
                let Some(best) = (0..waiting.len()).min_by_key(|i| waiting[*i].rank(moment, AGING, work(&waiting[*i]))) else {
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
