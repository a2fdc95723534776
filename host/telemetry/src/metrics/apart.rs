//! Histograms whose names mean something else too are taken apart.
//!
//! In Prometheus's text a histogram `load` has the names `load_bucket`, `load_sum` and `load_count`, and operators that know
//! nothing of each other may give one of these to something else, or call a number `load`. A strict parser refuses the
//! whole page for that. So such a histogram becomes the three families that its lines are, without a type.

use std::borrow::Cow;
use std::collections::HashMap;

use super::text::real;
use super::{Kind, Measured, Sample, Spread, Value};

const BUCKET: &str = "_bucket";
const SUM: &str = "_sum";
const COUNT: &str = "_count";

/// The same, with what is ambiguous taken apart.
pub(super) fn taken(families: &[Measured]) -> Cow<'_, [Measured]> {
    let mut families = Cow::Borrowed(families);
    // Each round takes one apart, and makes no histogram.
    while let Some(place) = ambiguous(&families) {
        take(families.to_mut(), place);
    }
    families
}

fn ambiguous(families: &[Measured]) -> Option<usize> {
    let has_spread = |family: &Measured| {
        let mut samples = family.samples.iter();
        samples.any(|sample| matches!(sample.value, Value::Spread(_)))
    };
    let places: HashMap<&str, usize> = (families.iter().enumerate())
        .map(|(place, family)| (&*family.name, place))
        .collect();
    let is_named = |family: &Measured, suffix: &str| {
        places.contains_key(format!("{}{suffix}", family.name).as_str())
    };
    families.iter().position(|family| {
        let mut suffixes = [BUCKET, SUM, COUNT].into_iter();
        has_spread(family)
            && (family.kind != Kind::Histogram || suffixes.any(|suffix| is_named(family, suffix)))
    })
}

fn take(families: &mut Vec<Measured>, place: usize) {
    let family = &mut families[place];
    let (spreads, rest) = std::mem::take(&mut family.samples)
        .into_iter()
        .partition(|sample| matches!(sample.value, Value::Spread(_)));
    let spreads: Vec<Sample> = spreads;
    family.samples = rest;
    family.kind = Kind::Untyped;
    let family = family.clone();
    if family.samples.is_empty() {
        families.remove(place);
    }
    for suffix in [BUCKET, SUM, COUNT] {
        let name = format!("{}{suffix}", family.name);
        let found = families.iter_mut().position(|other| *other.name == *name);
        let place = found.unwrap_or_else(|| {
            families.push(Measured {
                name: name.into(),
                samples: Vec::new(),
                ..family.clone()
            });
            families.len() - 1
        });
        let into = &mut families[place];
        into.kind = Kind::Untyped;
        for sample in &spreads {
            if let Value::Spread(spread) = &sample.value {
                into.samples.extend(lines(sample, spread, suffix));
            }
        }
    }
}

/// The lines of a histogram that end so.
fn lines(sample: &Sample, spread: &Spread, suffix: &str) -> Vec<Sample> {
    let one = |value: Value| Sample {
        labels: sample.labels.clone(),
        value,
        since: sample.since,
    };
    match suffix {
        SUM => vec![one(spread.sum.into())],
        COUNT => vec![one(spread.counts.iter().sum::<u64>().into())],
        _ => {
            let bounds = spread.bounds.iter().map(|bound| real(*bound));
            let bounds = bounds.chain(["+Inf".to_owned()]);
            let below = spread.counts.iter().scan(0, |below, count| {
                *below += count;
                Some(*below)
            });
            let bucket = |(bound, below): (String, u64)| {
                let mut bucket = one(below.into());
                bucket.labels.push(("le".into(), bound));
                bucket
            };
            bounds.zip(below).map(bucket).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Exposition, Unit};
    use super::*;

    fn measured(name: &'static str, kind: Kind, slot: &str, value: impl Into<Value>) -> Measured {
        Measured {
            name: name.into(),
            kind,
            unit: Unit::Of(""),
            help: "".into(),
            samples: vec![Sample {
                labels: vec![("slot".into(), slot.to_owned())],
                value: value.into(),
                since: 7,
            }],
        }
    }

    fn spread() -> Spread {
        Spread {
            bounds: vec![0.5].into(),
            counts: vec![1, 2],
            sum: 4.5,
        }
    }

    fn exposition(families: impl IntoIterator<Item = Measured>) -> Exposition {
        let mut exposition = Exposition::default();
        for mut family in families {
            let samples = std::mem::take(&mut family.samples);
            exposition.family(family).samples.extend(samples);
        }
        exposition
    }

    #[test]
    fn a_histogram_whose_lines_have_the_name_of_something_else_is_no_histogram() {
        let text = exposition([
            measured("load", Kind::Histogram, "one", spread()),
            measured("load_count", Kind::Counter, "two", 9_u64),
        ])
        .text();
        let expected = "\
# TYPE load_count untyped
load_count{slot=\"two\"} 9
load_count{slot=\"one\"} 3
# TYPE load_bucket untyped
load_bucket{slot=\"one\",le=\"0.5\"} 1
load_bucket{slot=\"one\",le=\"+Inf\"} 3
# TYPE load_sum untyped
load_sum{slot=\"one\"} 4.5
";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_name_is_said_twice_however_histograms_are_named_after_each_other() {
        let exposition = exposition([
            measured("a_sum_count", Kind::Gauge, "three", 1.5),
            measured("a_sum", Kind::Histogram, "two", spread()),
            measured("a", Kind::Histogram, "one", spread()),
            measured("b", Kind::Gauge, "one", 1.0),
            measured("b", Kind::Histogram, "two", spread()),
        ]);
        let families = exposition.families();
        let mut names: Vec<_> = families.iter().map(|family| &*family.name).collect();
        names.sort_unstable();
        // What `a` was ambiguous with is gone.
        let expected = [
            "a",
            "a_sum_bucket",
            "a_sum_count",
            "a_sum_sum",
            "b",
            "b_bucket",
            "b_count",
            "b_sum",
        ];
        assert_eq!(names, expected);
        for family in families.iter() {
            let is_whole = *family.name == *"a";
            assert_eq!(family.kind == Kind::Histogram, is_whole, "{}", family.name);
            for sample in &family.samples {
                assert_eq!(matches!(sample.value, Value::Spread(_)), is_whole);
                assert_eq!(sample.since, 7);
            }
        }
    }

    #[test]
    fn what_is_not_ambiguous_stays_as_it_is() {
        let exposition = exposition([
            measured("load", Kind::Histogram, "one", spread()),
            measured("loads", Kind::Counter, "two", 9_u64),
        ]);
        assert!(matches!(exposition.families(), Cow::Borrowed(_)));
    }
}
