//! A filter and an echo through the SDK of each language: nanoseconds for each record in batches of 256, beside a native
//! closure over the same batch; memory of an instance; time to start.
//!
//! Components are given as `NAME=FILE`; they take the configuration of `tests/guests/bench-operator` and do what it does.
//! `benches/sdk/run.py` builds and gives them. Prints one JSON object. Of the calls of each round the shortest and the
//! median are kept: the shortest says what a quiet machine would come near.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_benches::{batch, memory};
use tidegate_contract::{Operator, Processed, Slot as _};
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, Grants, Limits, SlotOptions};
use tidegate_record::{Batch, Outcome, OutcomesBuilder, OutcomesView, PatchBuilder, RecordView};

const RECORDS: usize = 256;
const SIZES: [usize; 2] = [200, 1024];
const MODES: [&str; 2] = ["filter", "echo"];
/// Time over which calls are measured, for each operator, mode and size.
const MEASURED: Duration = Duration::from_millis(1500);
const WARMING: Duration = Duration::from_millis(300);
/// Instances whose memory is shared out.
const INSTANCES: usize = 16;
const STARTS: usize = 15;

fn options(mode: &str) -> SlotOptions {
    let patient = Duration::from_secs(60);
    SlotOptions {
        grants: Grants::ALL,
        config: json!({"mode": mode}).to_string(),
        limits: Limits {
            memory: 256 << 20,
            deadline: patient,
            init_deadline: patient,
            ..Limits::default()
        },
        ..SlotOptions::new(mode)
    }
}

/// Nanoseconds for each record: of the shortest call, and of the median one.
fn measured(mut call: impl FnMut()) -> Value {
    let began = Instant::now();
    while began.elapsed() < WARMING {
        call();
    }
    let mut calls = Vec::new();
    let began = Instant::now();
    while began.elapsed() < MEASURED || calls.len() < 20 {
        let began = Instant::now();
        call();
        calls.push(began.elapsed());
    }
    calls.sort_unstable();
    let each = |call: Duration| (call.as_secs_f64() * 1e10 / RECORDS as f64).round() / 10.0;
    json!({"shortest": each(calls[0]), "median": each(calls[calls.len() / 2]), "calls": calls.len()})
}

/// That an operator does what is measured: half of the records are dropped, or each has its own value again.
fn check(name: &str, mode: &str, batch: &Batch, operator: &mut dyn Operator) {
    let mut seen = 0;
    for processed in operator.process(batch).unwrap() {
        let Processed::Answer {
            first,
            count,
            outcomes,
            ..
        } = processed
        else {
            panic!("{name}, {mode}: {processed:?}");
        };
        let view = OutcomesView::parse(&outcomes, count, 0).unwrap();
        for (record, outcome) in batch.view().records().skip(first).zip(view.iter()) {
            let is_odd = record.value().unwrap()[10] % 2 == 1;
            let is_right = match outcome {
                Outcome::Drop => mode == "filter" && is_odd,
                Outcome::Pass => mode == "filter" && !is_odd,
                Outcome::Replace(patch) => mode == "echo" && patch.value() == Some(record.value()),
                _ => false,
            };
            assert!(is_right, "{name}, {mode}, record {seen}: {outcome:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, RECORDS, "{name}, {mode}");
}

fn operator(name: &str, file: &Path) -> Value {
    let home = tempfile::tempdir().unwrap();
    let engine = || {
        Engine::new(EngineOptions {
            cache_dir: Some(home.path().join("code")),
            ..EngineOptions::default()
        })
        .unwrap()
    };
    let bytes = std::fs::read(file).unwrap();
    let began = Instant::now();
    drop(engine().compile(bytes.as_slice(), name).unwrap());
    let compiled = began.elapsed();
    let engine = engine();
    // What was written just now is not known by its times yet.
    let copy = home.path().join("operator.wasm");
    std::fs::write(&copy, &bytes).unwrap();
    std::thread::sleep(Duration::from_millis(3100));
    let open = || engine.open(&copy, |path| std::fs::read(path)).unwrap();
    let median = |work: &mut dyn FnMut()| {
        let mut times: Vec<f64> = (0..STARTS)
            .map(|_| {
                let began = Instant::now();
                work();
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        (times[STARTS / 2] * 100.0).round() / 100.0
    };
    let slot = |mode: &str| ComponentSlot::new(&engine, options(mode), open(), name).unwrap();
    let from_cache = median(&mut || drop(slot("filter")));
    let filter = slot("filter");
    let another = median(&mut || drop(filter.instance().unwrap()));
    drop(filter);
    let mut figures = serde_json::Map::new();
    for mode in MODES {
        for size in SIZES {
            let slot = slot(mode);
            let (_, mut operator) = slot.instance().unwrap();
            let batch = batch(RECORDS, size);
            check(name, mode, &batch, &mut *operator);
            let each = measured(|| drop(std::hint::black_box(operator.process(&batch).unwrap())));
            figures.insert(format!("{mode} {size}"), each);
        }
    }
    let slot = slot("filter");
    let before = memory("RssAnon");
    let batch = batch(RECORDS, 1024);
    let mut held = Vec::new();
    for _ in 0..INSTANCES {
        let (_, mut operator) = slot.instance().unwrap();
        check(name, "filter", &batch, &mut *operator);
        held.push(operator);
    }
    let resident = memory("RssAnon").zip(before);
    let resident = resident.map(|(now, before)| now.saturating_sub(before) / INSTANCES as u64);
    json!({
        "bytes": bytes.len(),
        "compiled_s": (compiled.as_secs_f64() * 100.0).round() / 100.0,
        "start_from_cache_ms": from_cache,
        "another_instance_ms": another,
        "linear_memory_bytes": slot.memory() / INSTANCES as u64,
        "resident_bytes": resident,
        "ns_per_record": figures,
    })
}

fn native() -> Value {
    fn filter(record: &RecordView<'_>, answer: &mut OutcomesBuilder) {
        match record.value() {
            Some(value) if value.get(10).is_some_and(|byte| byte % 2 == 1) => answer.drop_record(),
            _ => answer.pass(),
        }
    }
    fn echo(record: &RecordView<'_>, answer: &mut OutcomesBuilder) {
        let mut patch = PatchBuilder::default();
        patch.set_value(record.value().map(<[u8]>::to_vec));
        answer.replace(&patch);
    }
    let mut figures = serde_json::Map::new();
    for (mode, each) in MODES.iter().zip([filter, echo]) {
        for size in SIZES {
            let batch = batch(RECORDS, size);
            let found = measured(|| {
                let view = std::hint::black_box(&batch).view();
                let mut answer = OutcomesBuilder::with_capacity(view.len());
                view.records().for_each(|record| each(&record, &mut answer));
                drop(std::hint::black_box(answer.finish()));
            });
            figures.insert(format!("{mode} {size}"), found);
        }
    }
    json!({"ns_per_record": figures})
}

fn main() {
    let mut found = serde_json::Map::new();
    found.insert("native closure".into(), native());
    for argument in std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
    {
        let (name, file) = argument.split_once('=').expect("NAME=FILE");
        eprintln!("{name}");
        found.insert(name.into(), operator(name, Path::new(file)));
    }
    println!("{}", serde_json::to_string_pretty(&found).unwrap());
}
