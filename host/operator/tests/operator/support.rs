//! Batches, slots and what came of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_contract::{DeadLetterCause, Operator, Processed, Slot};
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, Grants, Limits, SlotOptions, Value};
use tidegate_record::{Batch, BatchBuilder, NewRecord, Outcome, OutcomesView, RecordId};

/// The smallest operator: everything passes. See `fixtures/released/0.1.0/pass.wat`.
pub(crate) const PASS: &[u8] = include_bytes!("../fixtures/released/0.1.0/pass.wasm");

/// The hostile guest of 0.1.0, built with the SDK of that time.
pub(crate) const HOSTILE_OF_OLD: &[u8] = include_bytes!("../fixtures/released/0.1.0/hostile.wasm");

pub(crate) static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| Engine::new(EngineOptions::default()).unwrap());

/// For components that take seconds: what is compiled once is kept.
pub(crate) static KEEPING: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(EngineOptions {
        cache_dir: Some(compiled()),
        ..EngineOptions::default()
    })
    .unwrap()
});

/// Where `cargo xtask operators` puts what it builds.
pub(crate) fn operators() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    target.join("operators")
}

fn compiled() -> PathBuf {
    use std::os::unix::fs::DirBuilderExt as _;
    let directory = operators().join("compiled");
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .unwrap();
    directory
}

/// A guest of `tests/guests` or `tests/toolchains`, as built for WebAssembly.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let path = operators().join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run `cargo xtask operators` first",
            path.display()
        )
    })
}

/// What the version that runs now has counted, without labels, by name.
pub(crate) fn counted(slot: &ComponentSlot) -> BTreeMap<String, u64> {
    let sum = |series: BTreeMap<Vec<String>, Value>| match series.into_values().next() {
        Some(Value::Sum(sum)) => sum,
        _ => 0,
    };
    let current = slot.metrics().swap_remove(0);
    let metrics = current.metrics.into_iter();
    metrics
        .map(|(metric, series)| (metric.name, sum(series)))
        .collect()
}

pub(crate) fn options(mode: &str) -> SlotOptions {
    SlotOptions {
        grants: Grants::ALL,
        config: format!("{{\"mode\": {mode:?}}}"),
        limits: patient(),
        ..SlotOptions::new(mode)
    }
}

pub(crate) fn hostile(mode: &str) -> ComponentSlot {
    ComponentSlot::new(&ENGINE, options(mode), &guest("hostile"), "hostile").unwrap()
}

pub(crate) fn hostile_within(mode: &str, limits: Limits) -> ComponentSlot {
    let options = SlotOptions {
        limits,
        ..options(mode)
    };
    ComponentSlot::new(&ENGINE, options, &guest("hostile"), "hostile").unwrap()
}

/// No deadline that a busy machine could miss, for operators that end otherwise.
pub(crate) fn patient() -> Limits {
    Limits {
        deadline: Duration::from_secs(60),
        init_deadline: Duration::from_secs(60),
        bisect: Duration::from_secs(120),
        ..Limits::default()
    }
}

/// Short deadlines, for operators that never return; what finds the record among others has time.
pub(crate) fn hasty() -> Limits {
    Limits {
        deadline: Duration::from_millis(200),
        init_deadline: Duration::from_millis(200),
        ..patient()
    }
}

/// Records with offsets from 0 on and these values.
pub(crate) fn batch_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Batch {
    let mut builder = BatchBuilder::default();
    for (offset, value) in values.into_iter().enumerate() {
        let record = NewRecord {
            id: RecordId {
                offset: offset as u64,
                ..RecordId::default()
            },
            key: Some(b"key"),
            value: Some(value.as_bytes()),
            headers: &[("h", Some(b"v"))],
            attributes: &[("a", Some(b"p"))],
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.finish(1_700_000_000_123_456)
}

/// Good records, but for those at these places.
pub(crate) fn batch_with_bad(records: usize, bad: &[usize]) -> Batch {
    batch_of((0..records).map(|n| if bad.contains(&n) { "bad" } else { "good" }))
}

/// What became of a batch, one entry for each record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Outcome(String),
    Poison(DeadLetterCause),
}

impl Came {
    pub(crate) fn poison(&self) -> Option<&DeadLetterCause> {
        match self {
            Came::Poison(cause) => Some(cause),
            Came::Outcome(_) => None,
        }
    }
}

/// Runs a batch and checks that every record came back once and in order. Those that come again untried are given as a
/// batch of their own, as a task does.
pub(crate) fn run(operator: &mut dyn Operator, batch: &Batch) -> Vec<Came> {
    let outputs = operator.version().outputs.len() as u16;
    let mut came = Vec::new();
    for processed in operator.process(batch).unwrap() {
        match processed {
            Processed::Untried { first, count } => {
                assert!(batch.len() > 1, "a record alone is always tried");
                assert_eq!((first, first + count), (came.len(), batch.len()));
                let mut rest = BatchBuilder::default();
                for record in batch.view().records().skip(first) {
                    rest.push_record(&record).unwrap();
                }
                let rest = rest.finish(batch.view().clock());
                came.extend(run(operator, &rest).into_iter().map(|came| match came {
                    Came::Poison(cause) => Came::Poison(DeadLetterCause {
                        record: first + cause.record,
                        ..cause
                    }),
                    other => other,
                }));
            }
            Processed::Answer {
                first,
                count,
                outcomes,
                effects,
            } => {
                assert_eq!(first, came.len(), "answers are in order");
                let view = OutcomesView::parse(&outcomes, count, outputs).unwrap();
                came.extend(view.iter().map(|outcome| Came::Outcome(shown(&outcome))));
                // What comes again is not accepted.
                let accepted = view.iter().enumerate();
                let accepted = accepted.filter(|(_, to)| !matches!(to, Outcome::Retry { .. }));
                if let Some(mut effects) = effects {
                    accepted.for_each(|(record, _)| effects.accept(record));
                }
                assert_eq!(came.len(), first + count);
            }
            Processed::Poison(cause) => {
                assert_eq!(cause.record, came.len(), "poison is in order");
                came.push(Came::Poison(cause));
            }
        }
    }
    assert_eq!(came.len(), batch.len(), "every record came back");
    came
}

fn shown(outcome: &Outcome<'_>) -> String {
    let text = |value: Option<Option<&[u8]>>| {
        let value = value.flatten().unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    match outcome {
        Outcome::Pass => "pass".into(),
        Outcome::Drop => "drop".into(),
        Outcome::Replace(patch) => format!("replace {}", text(patch.value())),
        Outcome::Split(pieces) => {
            let pieces: Vec<String> = pieces
                .iter()
                .map(|piece| format!("{}:{}", piece.output, text(piece.patch.value())))
                .collect();
            format!("split {}", pieces.join(" "))
        }
        Outcome::Route(emission) => {
            format!("route {}:{}", emission.output, text(emission.patch.value()))
        }
        Outcome::Retry { delay_ms, reason } => format!("retry {delay_ms} {reason}"),
        Outcome::DeadLetter { reason } => format!("dead {reason}"),
    }
}

pub(crate) fn instance(slot: &ComponentSlot) -> Box<dyn Operator> {
    slot.instance().unwrap().1
}

/// The places of poison records.
pub(crate) fn poisoned(came: &[Came]) -> Vec<usize> {
    came.iter()
        .filter_map(Came::poison)
        .map(|cause| cause.record)
        .collect()
}

pub(crate) fn slot(name: &str, bytes: &[u8]) -> Arc<ComponentSlot> {
    Arc::new(ComponentSlot::new(&ENGINE, SlotOptions::new(name), bytes, name).unwrap())
}
