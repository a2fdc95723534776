//! What is declared, what is measured, and what is left out.

use tidegate_record::OutcomesBuilder;

use super::*;

fn metric(name: &str, kind: Kind, labels: &[&str]) -> Metric {
    Metric {
        kind,
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..Metric::counter(name.into())
    }
}

/// The effects of an answer that lets so many records pass and has these samples: record and label.
fn measured(
    metrics: &Arc<Metrics>,
    records: usize,
    samples: impl Iterator<Item = (u32, String)>,
) -> Box<dyn Effects> {
    let mut builder = OutcomesBuilder::default();
    for _ in 0..records {
        builder.pass();
    }
    for (record, label) in samples {
        builder.sample(record, 0, 1, &[&label]);
    }
    let answer = builder.finish();
    let view = OutcomesView::parse(&answer, records, 0).unwrap();
    Measured::of(metrics, &view).unwrap()
}

#[test]
fn combinations_of_labels_are_bounded_and_those_left_out_are_counted() {
    let metrics = Arc::new(Metrics::new(
        vec![metric("seen", Kind::Counter, &["word"])],
        &Arc::default(),
    ));
    for _ in 0..2 {
        let words = (0..SERIES + 5).map(|word| (0, word.to_string()));
        measured(&metrics, 1, words).accept(0);
    }
    let (_, series) = metrics.all().swap_remove(0);
    assert_eq!(series.len(), SERIES);
    assert!(series.values().all(|value| *value == Value::Sum(2)));
    assert_eq!(metrics.refused(), 10);
}

#[test]
fn a_combination_that_no_accepted_record_has_takes_no_place() {
    let metrics = Arc::new(Metrics::new(
        vec![metric("seen", Kind::Counter, &["word"])],
        &Arc::default(),
    ));
    let words = || (0..3).map(|record| (record, format!("word {record}")));
    let (mut one, mut other) = (
        measured(&metrics, 3, words()),
        measured(&metrics, 3, words()),
    );
    assert!(metrics.all()[0].1.is_empty());
    one.accept(1);
    // Both found it new, and it is one.
    other.accept(1);
    other.accept(2);
    let (_, series) = metrics.all().swap_remove(0);
    let sum = |word: &str| series.get([word.to_owned()].as_slice());
    assert_eq!(series.len(), 2);
    assert_eq!(sum("word 1"), Some(&Value::Sum(2)));
    assert_eq!(sum("word 2"), Some(&Value::Sum(1)));
}

#[test]
fn no_two_metrics_are_shown_by_one_name_and_none_by_one_of_the_host() {
    let refused = |metrics: &[(&str, Kind)], why: &str| {
        let made = metrics.iter().map(|(name, kind)| metric(name, *kind, &[]));
        assert_eq!(check(&mut made.collect::<Vec<_>>()).unwrap_err(), why);
    };
    use Kind::{Counter, Gauge, Histogram};
    refused(
        &[("words", Counter), ("words_total", Counter)],
        "its metric \"words_total\" is shown as tidegate_operator_words_total, as its metric \"words\" is",
    );
    refused(
        &[("words_total", Gauge), ("words", Counter)],
        "its metric \"words\" is shown as tidegate_operator_words_total, as its metric \"words_total\" is",
    );
    for end in SPREAD {
        let other = format!("size{end}");
        refused(
            &[("size", Histogram), (&other, Gauge)],
            &format!(
                "its metric \"{other}\" is shown as tidegate_operator_{other}, as its metric \"size\" is"
            ),
        );
    }
    refused(
        &[("series_refused", Counter)],
        "its metric \"series_refused\" is shown as tidegate_operator_series_refused_total, as a metric of the host is",
    );
    let mut good = [
        metric("size", Histogram, &[]),
        metric("size_total", Counter, &[]),
    ];
    check(&mut good).unwrap();
}

#[test]
fn counters_that_are_not_declared_are_bounded_have_names_of_their_own_and_are_counted_otherwise() {
    let metrics = Metrics::new(Vec::new(), &Arc::default());
    let count = |names: &[String]| {
        metrics.count(names.iter().map(|name| (name.clone(), 1)).collect());
    };
    let names: Vec<String> = (0..COUNTERS).map(|n| format!("n{n}")).collect();
    count(&["series_refused".into(), "n0".into(), "n0_total".into()]);
    assert_eq!(metrics.refused(), 2);
    count(&names);
    count(&["one_more".into()]);
    assert_eq!(metrics.refused(), 3);
    assert_eq!(metrics.all().len(), COUNTERS);
}

#[test]
fn what_another_slot_has_a_name_for_is_left_out_and_counted_until_the_name_is_free() {
    let names = Arc::new(Names::default());
    let (seat, seat_of_later) = (names.seat("first"), names.seat("later"));
    let first = vec![metric("load", Kind::Histogram, &[])];
    let first = Arc::new(Metrics::new(first, &names));
    seat.stand(vec![Arc::clone(&first)], true);
    // Who comes later has a gauge by the name of one of its lines, and something else.
    let later = vec![
        metric("load_count", Kind::Gauge, &["word"]),
        metric("words", Kind::Counter, &[]),
    ];
    let later = Arc::new(Metrics::new(later, &names));
    seat_of_later.stand(vec![Arc::clone(&later)], true);
    measured(&later, 2, (0..2).map(|record| (record, "a".into()))).accept(1);
    later.count([("load_bucket".to_owned(), 7), ("more".to_owned(), 1)].into());
    // A counter of that name is shown by another.
    let told = |metrics: &Metrics| {
        let all = metrics.all().into_iter();
        let names = all.map(|(metric, series)| (metric.name, series.len()));
        names.collect::<Vec<_>>()
    };
    let name = |name: &str, series| (name.to_owned(), series);
    let expected = [name("words", 0), name("load_bucket", 1), name("more", 1)];
    assert_eq!((told(&later), later.refused()), (expected.into(), 1));
    assert_eq!(told(&first), [name("load", 0)]);
    // Once it is gone, the other has the name, and what comes from then on counts.
    drop(seat);
    measured(&later, 1, std::iter::once((0, "a".into()))).accept(0);
    assert_eq!(told(&later)[0], name("load_count", 1));
    assert_eq!(later.refused(), 1);
}

#[test]
fn a_counter_that_is_not_declared_counts_while_its_name_is_no_other_slots() {
    let names = Arc::new(Names::default());
    let (seat, seat_of_later) = (names.seat("first"), names.seat("later"));
    let first = vec![metric("words_total", Kind::Gauge, &[])];
    seat.stand(vec![Arc::new(Metrics::new(first, &names))], true);
    let later = Arc::new(Metrics::new(Vec::new(), &names));
    seat_of_later.stand(vec![Arc::clone(&later)], true);
    let count = || later.count([("words".to_owned(), 3)].into());
    count();
    count();
    assert_eq!((later.all().len(), later.refused()), (0, 2));
    drop(seat);
    count();
    let (_, series) = later.all().swap_remove(0);
    assert_eq!(series.into_values().collect::<Vec<_>>(), [Value::Sum(3)]);
    assert_eq!(later.refused(), 2);
}
