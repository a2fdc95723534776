//! What a run promised, held against what is in its topics. Pure, and tested by itself.

use std::collections::{BTreeMap, BTreeSet};

/// What a run wrote for one record of its input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: String,
    /// The running number of the record under its key.
    pub(crate) number: u64,
    pub(crate) value: String,
}

/// A record of the input: its key, and its number under it.
pub(crate) type Record = (String, u64);

/// What differs from one output for each record, in the order of its key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Records without output.
    pub(crate) missing: Vec<Record>,
    /// Records with more than one, and how many outputs they have beside the first.
    pub(crate) doubled: BTreeMap<Record, usize>,
    /// Outputs whose first sight comes behind that of a later record of their key.
    pub(crate) out_of_order: Vec<Record>,
    /// Outputs of no record of the input.
    pub(crate) unknown: Vec<Record>,
    /// Keys in more than one partition, where order says nothing.
    pub(crate) scattered: BTreeSet<String>,
    /// Places that only a reader of uncommitted records saw.
    pub(crate) aborted: usize,
    /// Places that a reader of committed records saw while the run went on, and none sees afterwards, or the reverse.
    pub(crate) changed: Vec<(i32, i64)>,
}

/// What readers saw of a topic.
pub(crate) struct Sights<'a> {
    /// Committed records, after the run.
    pub(crate) committed: &'a [Seen],
    /// All records, after the run.
    pub(crate) uncommitted: &'a [Seen],
    /// Committed records, by a reader that began before the run.
    pub(crate) live: &'a [Seen],
}

/// Holds what was seen against the records of the input, those of a key in their order.
pub(crate) fn check(expected: &[Record], sights: &Sights<'_>) -> Findings {
    let mut findings = Findings::default();
    let known: BTreeSet<&Record> = expected.iter().collect();
    let mut outputs: Vec<&Seen> = sights.committed.iter().collect();
    outputs.sort_by_key(|seen| (seen.partition, seen.offset));
    let mut first: BTreeSet<Record> = BTreeSet::new();
    let mut last: BTreeMap<&str, (i32, u64)> = BTreeMap::new();
    for seen in outputs {
        let record = (seen.key.clone(), seen.number);
        if !known.contains(&record) {
            findings.unknown.push(record);
            continue;
        }
        let (partition, highest) = *last
            .entry(&seen.key)
            .or_insert((seen.partition, seen.number));
        if partition != seen.partition {
            findings.scattered.insert(seen.key.clone());
        }
        if !first.insert(record.clone()) {
            *findings.doubled.entry(record).or_default() += 1;
            continue;
        }
        if seen.number < highest {
            findings.out_of_order.push(record);
        }
        last.insert(&seen.key, (partition, highest.max(seen.number)));
    }
    let missing = expected.iter().filter(|record| !first.contains(*record));
    findings.missing = missing.cloned().collect();
    let places = |seen: &[Seen]| -> BTreeSet<(i32, i64)> {
        seen.iter()
            .map(|seen| (seen.partition, seen.offset))
            .collect()
    };
    let (committed, live) = (places(sights.committed), places(sights.live));
    findings.aborted = places(sights.uncommitted).difference(&committed).count();
    findings.changed = live.symmetric_difference(&committed).copied().collect();
    findings
}

impl Findings {
    /// What no delivery allows: records lost, out of order or from nowhere.
    pub(crate) fn broken(&self) -> bool {
        !(self.missing.is_empty()
            && self.out_of_order.is_empty()
            && self.unknown.is_empty()
            && self.scattered.is_empty()
            && self.changed.is_empty())
    }

    /// Outputs beside the first of their record.
    pub(crate) fn repeats(&self) -> usize {
        self.doubled.values().sum()
    }

    /// The figures, and the first few of what is wrong.
    pub(crate) fn shown(&self) -> String {
        let Findings {
            missing,
            doubled,
            out_of_order,
            unknown,
            scattered,
            aborted,
            changed,
        } = self;
        let few = |records: &[Record]| format!("{:?}", &records[..records.len().min(5)]);
        format!(
            "{} missing {}, {} doubled in {} records, {} out of order {}, {} unknown {}, {} keys in several partitions, \
             {} places changed, {aborted} aborted",
            missing.len(),
            few(missing),
            self.repeats(),
            doubled.len(),
            out_of_order.len(),
            few(out_of_order),
            unknown.len(),
            few(unknown),
            scattered.len(),
            changed.len(),
        )
    }
}

fn seen(partition: i32, offset: i64, key: &str, number: u64) -> Seen {
    Seen {
        partition,
        offset,
        key: key.into(),
        number,
        value: String::new(),
    }
}

/// Two keys with three records each.
fn expected() -> Vec<Record> {
    (0..3)
        .flat_map(|n| [("a".into(), n), ("b".into(), n)])
        .collect()
}

/// Each record once, the keys in two partitions.
fn whole() -> Vec<Seen> {
    (0..3)
        .flat_map(|n| [seen(0, n, "a", n as u64), seen(1, n, "b", n as u64)])
        .collect()
}

fn checked(committed: &[Seen]) -> Findings {
    let sights = Sights {
        committed,
        uncommitted: committed,
        live: committed,
    };
    check(&expected(), &sights)
}

#[test]
fn one_output_for_each_record_in_order_is_what_is_promised() {
    assert_eq!(checked(&whole()), Findings::default());
}

#[test]
fn a_missing_record_is_found() {
    let mut seen = whole();
    seen.retain(|seen| (seen.key.as_str(), seen.number) != ("b", 1));
    let findings = checked(&seen);
    assert_eq!(findings.missing, [("b".to_owned(), 1)]);
    assert!(findings.broken() && findings.out_of_order.is_empty());
    // All of them, as after a run that wrote nothing.
    assert_eq!(checked(&[]).missing, expected());
}

#[test]
fn a_doubled_record_is_found_and_no_disorder() {
    let mut all = whole();
    all.extend([
        seen(0, 3, "a", 1),
        seen(0, 4, "a", 2),
        seen(0, 5, "a", 1),
        seen(1, 3, "b", 2),
    ]);
    let findings = checked(&all);
    let doubled = [
        (("a".into(), 1), 2),
        (("a".into(), 2), 1),
        (("b".into(), 2), 1),
    ];
    assert_eq!(findings.doubled, doubled.into());
    assert_eq!(findings.repeats(), 4);
    assert!(!findings.broken());
}

#[test]
fn disorder_within_a_key_is_found_and_between_keys_is_none() {
    let order = [("a", 0), ("b", 0), ("b", 1), ("a", 2), ("b", 2), ("a", 1)];
    let all: Vec<Seen> = (0i64..)
        .zip(order)
        .map(|(offset, (key, number))| seen(0, offset, key, number))
        .collect();
    let findings = checked(&all);
    assert_eq!(findings.out_of_order, [("a".to_owned(), 1)]);
    assert!(findings.broken() && findings.missing.is_empty());
}

#[test]
fn order_is_that_of_the_partition_and_not_of_the_reader() {
    let mut all = whole();
    all.reverse();
    assert_eq!(checked(&all), Findings::default());
}

#[test]
fn what_nobody_sent_and_keys_in_two_partitions_are_found() {
    let mut all = whole();
    all.push(seen(0, 3, "a", 7));
    all.push(seen(0, 4, "c", 0));
    assert_eq!(checked(&all).unknown, [("a".into(), 7), ("c".into(), 0)]);
    let mut all = whole();
    all[2].partition = 1;
    all[2].offset = 9;
    assert_eq!(checked(&all).scattered, BTreeSet::from(["a".into()]));
}

#[test]
fn aborted_records_are_those_that_only_a_reader_of_uncommitted_ones_sees() {
    let committed = whole();
    let mut uncommitted = whole();
    uncommitted.extend([seen(0, 3, "a", 2), seen(1, 7, "b", 0)]);
    let sights = Sights {
        committed: &committed,
        uncommitted: &uncommitted,
        live: &committed,
    };
    let findings = check(&expected(), &sights);
    assert_eq!((findings.aborted, findings.broken()), (2, false));
}

#[test]
fn what_a_reader_saw_that_was_aborted_later_is_found() {
    let committed = whole();
    let mut live = whole();
    live.pop();
    live.push(seen(1, 9, "b", 2));
    let sights = Sights {
        committed: &committed,
        uncommitted: &committed,
        live: &live,
    };
    let findings = check(&expected(), &sights);
    assert_eq!(findings.changed, [(1, 2), (1, 9)]);
    assert!(findings.broken());
}
