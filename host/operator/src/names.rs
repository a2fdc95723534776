//! The names that operators' metrics are shown by. Operators know nothing of each other, and each name means one thing: it
//! is of whoever had it first, for as long as that is told of. Who comes later with something else is left out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::metrics::{Kind, Metric, SPREAD};
use crate::shared::lock;

/// The names of an engine's operators.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<BTreeMap<String, Held>>);

/// What a name means, and how many revisions have it.
#[derive(Debug)]
struct Held {
    kind: Kind,
    holders: usize,
}

/// That a revision has a name. It is free again once all that have it are gone.
#[derive(Debug)]
pub(crate) struct Claim {
    names: Arc<Names>,
    shown: String,
}

impl Names {
    /// The name that this metric is shown by; none where that, or a line of it, has another meaning already.
    pub(crate) fn claim(self: &Arc<Names>, metric: &Metric) -> Option<Claim> {
        let shown = metric.shown();
        let mut held = lock(&self.0);
        let is_free = match held.get(&shown) {
            Some(same) => same.kind == metric.kind,
            None => !is_taken(&held, metric),
        };
        if !is_free {
            return None;
        }
        let kind = metric.kind;
        let own = held.entry(shown.clone());
        own.or_insert(Held { kind, holders: 0 }).holders += 1;
        let names = Arc::clone(self);
        Some(Claim { names, shown })
    }
}

/// Whether a line of the metric has the name of another, or of a line of another.
fn is_taken(held: &BTreeMap<String, Held>, metric: &Metric) -> bool {
    let spread_of = |name: &str, end: &str| {
        let of = name.strip_suffix(end).and_then(|of| held.get(of));
        of.is_some_and(|of| of.kind == Kind::Histogram)
    };
    metric
        .all_shown()
        .iter()
        .any(|name| held.contains_key(name) || SPREAD.iter().any(|end| spread_of(name, end)))
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = lock(&self.names.0);
        if let Some(own) = held.get_mut(&self.shown) {
            own.holders -= 1;
            if own.holders == 0 {
                held.remove(&self.shown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, kind: Kind) -> Metric {
        Metric {
            kind,
            ..Metric::counter(name.into())
        }
    }

    #[test]
    fn a_name_means_one_thing_for_as_long_as_anybody_has_it() {
        use Kind::{Counter, Gauge, Histogram};
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
            let first = metric(of, first);
            let (one, same) = (names.claim(&first).unwrap(), names.claim(&first).unwrap());
            let second = metric(name, second);
            assert_eq!(names.claim(&second).is_some(), both, "{of} {name}");
            drop(one);
            assert_eq!(names.claim(&second).is_some(), both, "{of} {name}");
            drop(same);
            assert!(names.claim(&second).is_some(), "{of} {name}");
            assert!(lock(&names.0).is_empty());
        }
    }
}
