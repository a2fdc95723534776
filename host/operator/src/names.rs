//! The names that operators' metrics are shown by. Operators know nothing of each other, and each name means one thing: it
//! is of the slot that had it first, for as long as a revision of that slot is shown with it, and within a slot the
//! revision that runs says what it means. Nothing is decided for good: who has which name is settled anew whenever
//! revisions come or go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::metrics::{Kind, Metric, Metrics};
use crate::shared::lock;

/// The names of an engine's operators.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Standing>);

/// A slot among those that have names. Its names are free once this is gone.
#[derive(Debug)]
pub(crate) struct Seat {
    names: Arc<Names>,
    number: u64,
}

/// A metric of a revision, and whether it has at this moment the name that it is shown by.
#[derive(Debug)]
pub(crate) struct Naming {
    metric: String,
    shown: String,
    /// The names of all its lines, that one among them.
    lines: Vec<String>,
    kind: Kind,
    has_name: AtomicBool,
}

#[derive(Debug, Default)]
struct Standing {
    /// By number: in the order in which they came.
    slots: BTreeMap<u64, Seated>,
    next: u64,
    /// The slot that has each name, those of lines included.
    owners: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Seated {
    name: String,
    /// What its revisions measure, of those that are shown; the one that runs at the front.
    revisions: Vec<Arc<Metrics>>,
}

/// A metric that is left out, because its name is another slot's.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    slot: String,
    metric: String,
    shown: String,
    /// Whose name it is.
    of: String,
}

impl Naming {
    /// Of this metric; until others stand beside it, the name is its own.
    pub(crate) fn new(metric: &Metric) -> Naming {
        Naming {
            metric: metric.name.clone(),
            shown: metric.shown(),
            lines: metric.all_shown(),
            kind: metric.kind,
            has_name: AtomicBool::new(true),
        }
    }

    /// Whether it has its name now.
    pub(crate) fn has_name(&self) -> bool {
        self.has_name.load(Ordering::Relaxed)
    }

    /// Says whether it has; returns whether it had.
    fn set(&self, has_name: bool) -> bool {
        self.has_name.swap(has_name, Ordering::Relaxed)
    }
}

impl Names {
    /// A place for a slot of this name, whose revisions have no names yet.
    pub(crate) fn seat(self: &Arc<Names>, slot: &str) -> Seat {
        let mut standing = lock(&self.0);
        let number = standing.next;
        standing.next += 1;
        let seated = Seated {
            name: slot.to_owned(),
            revisions: Vec::new(),
        };
        standing.slots.insert(number, seated);
        let names = Arc::clone(self);
        Seat { names, number }
    }

    /// Settles them anew: a revision that stands has a metric more.
    pub(crate) fn settle(&self) {
        let left_out = lock(&self.0).settle(None);
        warn(&left_out);
    }
}

impl Seat {
    /// These are the revisions of the slot that are shown from now on, the one that runs at the front. Says which of that
    /// one's metrics are left out if it is a new one, and which of other slots now are.
    pub(crate) fn stand(&self, revisions: Vec<Arc<Metrics>>, is_new: bool) {
        let mut standing = lock(&self.names.0);
        if let Some(own) = standing.slots.get_mut(&self.number) {
            own.revisions = revisions;
        }
        let left_out = standing.settle(is_new.then_some(self.number));
        drop(standing);
        warn(&left_out);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut standing = lock(&self.names.0);
        // What its revisions hold may have the last reference to the names: it goes after the lock.
        let gone = standing.slots.remove(&self.number);
        standing.settle(None);
        drop(standing);
        drop(gone);
    }
}

/// A metric that a slot would show by its name.
struct Wanted {
    slot: u64,
    /// Whether it is of the revision that runs.
    runs: bool,
    naming: Arc<Naming>,
}

/// What names mean that are given away, those of lines included: the metric that is shown so, and whose it is.
#[derive(Default)]
struct Meanings(BTreeMap<String, (String, Kind, u64)>);

impl Meanings {
    /// Gives a metric its names, unless one of them means something else: then it is said whose that is.
    fn take(&mut self, naming: &Naming, slot: u64) -> Result<(), u64> {
        let other = naming.lines.iter().find_map(|line| {
            let (shown, kind, of) = self.0.get(line)?;
            ((shown, *kind) != (&naming.shown, naming.kind)).then_some(*of)
        });
        if let Some(of) = other {
            return Err(of);
        }
        for line in &naming.lines {
            let own = || (naming.shown.clone(), naming.kind, slot);
            self.0.entry(line.clone()).or_insert_with(own);
        }
        Ok(())
    }
}

impl Standing {
    /// Gives every name to whoever has it by the rules of this module. Returns what is left out of revisions that run: of
    /// this slot all, of others what was not.
    fn settle(&mut self, told: Option<u64>) -> Vec<LeftOut> {
        let mut wanted = Vec::new();
        for (&slot, seated) in &self.slots {
            let mut own = Meanings::default();
            for (at, metrics) in seated.revisions.iter().enumerate() {
                for naming in metrics.namings() {
                    match own.take(&naming, slot) {
                        Ok(()) => wanted.push(Wanted {
                            slot,
                            runs: at == 0,
                            naming,
                        }),
                        // A revision that ran meant something else by it than one that came later.
                        Err(_) => _ = naming.set(false),
                    }
                }
            }
        }
        // Whoever has all its names keeps them; who has the one that it is shown by goes before those that have none.
        let owners = std::mem::take(&mut self.owners);
        wanted.sort_by_key(|wanted| {
            let owns = |line: &String| owners.get(line) == Some(&wanted.slot);
            let naming = &wanted.naming;
            (!naming.lines.iter().all(owns), !owns(&naming.shown))
        });
        let mut given = Meanings::default();
        let mut left_out = Vec::new();
        for Wanted { slot, runs, naming } in &wanted {
            let taken = given.take(naming, *slot);
            let had = naming.set(taken.is_ok());
            let (Err(of), true) = (taken, *runs && (had || told == Some(*slot))) else {
                continue;
            };
            let name = |slot: &u64| {
                let seated = self.slots.get(slot);
                seated.map_or_else(String::new, |seated| seated.name.clone())
            };
            left_out.push(LeftOut {
                slot: name(slot),
                metric: naming.metric.clone(),
                shown: naming.shown.clone(),
                of: name(&of),
            });
        }
        let given = given.0.into_iter();
        self.owners = given.map(|(line, (_, _, slot))| (line, slot)).collect();
        left_out
    }
}

fn warn(left_out: &[LeftOut]) {
    for one in left_out {
        tracing::warn!(
            target: "tidegate::operator",
            slot = one.slot,
            "its metric \"{}\" is left out: {} is something else of slot {}",
            one.metric,
            one.shown,
            one.of,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Kind::{Counter, Gauge, Histogram};

    fn metrics(names: &Arc<Names>, declared: &[(&str, Kind)]) -> Arc<Metrics> {
        let metric = |&(name, kind): &(&str, Kind)| Metric {
            kind,
            ..Metric::counter(name.into())
        };
        let declared = declared.iter().map(metric).collect();
        Arc::new(Metrics::new(declared, names))
    }

    /// The metrics that have their names.
    fn shown(metrics: &Metrics) -> Vec<(String, Kind)> {
        let all = metrics.all().into_iter();
        all.map(|(metric, _)| (metric.name, metric.kind)).collect()
    }

    fn is_shown(metrics: &Metrics) -> bool {
        !shown(metrics).is_empty()
    }

    #[test]
    fn a_name_means_one_thing_for_as_long_as_any_slot_has_it() {
        // Who was first, and what nobody else may have beside it.
        let cases = [
            ((Histogram, "load"), (Counter, "load_count_total"), true),
            ((Histogram, "load"), (Gauge, "load_count"), false),
            ((Histogram, "load"), (Gauge, "load"), false),
            ((Histogram, "load"), (Histogram, "load_sum"), false),
            ((Histogram, "load"), (Gauge, "loads"), true),
            ((Gauge, "load_bucket"), (Histogram, "load"), false),
            ((Gauge, "load"), (Gauge, "load_sum"), true),
            ((Counter, "load"), (Counter, "load_total"), true),
            ((Counter, "load"), (Gauge, "load_total"), false),
            ((Histogram, "a_sum"), (Histogram, "a"), false),
        ];
        for ((first, of), (second, name), both) in cases {
            let names = Arc::new(Names::default());
            let seats = ["one", "same", "second"].map(|slot| names.seat(slot));
            let (one, same) = (
                metrics(&names, &[(of, first)]),
                metrics(&names, &[(of, first)]),
            );
            let second = metrics(&names, &[(name, second)]);
            let [seat, seat_of_same, seat_of_second] = seats;
            seat.stand(vec![one.clone()], true);
            seat_of_same.stand(vec![same.clone()], true);
            seat_of_second.stand(vec![second.clone()], true);
            let now = || [&one, &same, &second].map(|metrics| is_shown(metrics));
            assert_eq!(now(), [true, true, both], "{of} {name}");
            drop(seat);
            assert_eq!(now()[1..], [true, both], "{of} {name}");
            drop(seat_of_same);
            assert!(now()[2], "{of} {name}");
            drop(seat_of_second);
            assert!(lock(&names.0).owners.is_empty());
        }
    }

    #[test]
    fn the_revision_that_runs_says_what_a_name_of_its_slot_means_however_often_that_changes() {
        let names = Arc::new(Names::default());
        let seat = names.seat("guest");
        let old = metrics(&names, &[("load", Gauge), ("seen", Counter)]);
        let new = metrics(&names, &[("load", Histogram), ("seen", Counter)]);
        let of = |kind| vec![("load".to_owned(), kind), ("seen".to_owned(), Counter)];
        let seen = || vec![("seen".to_owned(), Counter)];
        seat.stand(vec![old.clone()], true);
        assert_eq!(shown(&old), of(Gauge));
        for _ in 0..2 {
            // Its samples go somewhere, and what the other measured is kept for when it runs again.
            seat.stand(vec![new.clone(), old.clone()], true);
            assert_eq!((shown(&new), shown(&old)), (of(Histogram), seen()));
            seat.stand(vec![old.clone(), new.clone()], true);
            assert_eq!((shown(&new), shown(&old)), (seen(), of(Gauge)));
        }
    }

    #[test]
    fn a_slot_keeps_its_name_when_the_kind_changes_and_another_has_it_when_the_last_revision_is_gone()
     {
        let names = Arc::new(Names::default());
        let (first, second) = (names.seat("first"), names.seat("second"));
        let gauge = metrics(&names, &[("load", Gauge)]);
        let histogram = metrics(&names, &[("load", Histogram)]);
        let without = metrics(&names, &[]);
        let others = metrics(&names, &[("load", Gauge)]);
        first.stand(vec![gauge.clone()], true);
        second.stand(vec![others.clone()], true);
        assert!(is_shown(&gauge) && is_shown(&others));
        // The name is the first slot's: what the second means by it is something else now.
        first.stand(vec![histogram.clone(), gauge.clone()], true);
        let now = || [&gauge, &histogram, &others].map(|metrics| is_shown(metrics));
        assert_eq!(now(), [false, true, false]);
        first.stand(vec![gauge.clone(), histogram.clone()], true);
        assert_eq!(now(), [true, false, true]);
        // While a revision is shown with it, the slot has it; then whoever else wants it does.
        first.stand(vec![without.clone(), histogram.clone()], true);
        assert_eq!(now()[1..], [true, false]);
        first.stand(vec![without], true);
        assert!(is_shown(&others));
        first.stand(vec![histogram.clone()], true);
        assert_eq!(now()[1..], [false, true], "it is the second's by now");
        drop(second);
        assert!(is_shown(&histogram));
    }

    #[test]
    fn what_is_left_out_is_said_once_with_whose_the_name_is_and_again_when_it_is_deployed_again() {
        let names = Arc::new(Names::default());
        let (first, second) = (names.seat("first"), names.seat("second"));
        first.stand(vec![metrics(&names, &[("load_count", Gauge)])], true);
        let late = metrics(&names, &[("load", Histogram)]);
        let stand = |told: Option<u64>| {
            let mut standing = lock(&names.0);
            if let Some(own) = standing.slots.get_mut(&second.number) {
                own.revisions = vec![late.clone()];
            }
            standing.settle(told)
        };
        let said = LeftOut {
            slot: "second".into(),
            metric: "load".into(),
            shown: "tidegate_operator_load".into(),
            of: "first".into(),
        };
        assert_eq!(stand(Some(second.number)), [said]);
        assert_eq!(stand(None), []);
        assert_eq!(stand(Some(second.number)).len(), 1);
        drop(first);
        assert_eq!(stand(Some(second.number)), []);
    }
}
