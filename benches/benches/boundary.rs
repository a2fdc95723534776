//! What it costs to cross into an operator: nanoseconds for each record, in batches of 256, for a filter that reads one
//! byte of the value and an echo that replaces the value by itself, through the SDK and as a native closure over the same
//! batch. Each of criterion's iterations is one record; the shortest call of many is printed beside it. The operator is built by `cargo xtask operators`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tidegate_benches::batch;
use tidegate_contract::Slot;
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, Limits, SlotOptions};
use tidegate_record::{Batch, OutcomesBuilder, PatchBuilder, RecordView};

const RECORDS: usize = 256;
const SIZES: [usize; 3] = [128, 1024, 8192];

fn slot(engine: &Engine, mode: &str) -> ComponentSlot {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")),
        PathBuf::from,
    );
    let path = target.join("operators/bench-operator.wasm");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run `cargo xtask operators` first",
            path.display()
        )
    });
    let options = SlotOptions {
        config: format!("{{\"mode\": {mode:?}}}"),
        limits: Limits {
            deadline: Duration::from_secs(60),
            ..Limits::default()
        },
        ..SlotOptions::new(mode)
    };
    ComponentSlot::new(engine, options, &bytes, "bench-operator").unwrap()
}

/// The shortest call of many, in nanoseconds for each record: what a busy machine says of a quiet one.
fn minimum(name: &str, mut call: impl FnMut()) {
    let shortest = (0..4000).map(|_| {
        let began = Instant::now();
        call();
        began.elapsed()
    });
    let shortest = shortest.min().unwrap_or_default().as_secs_f64();
    println!("minimum {name}: {:.1} ns", shortest * 1e9 / RECORDS as f64);
}

/// Time for this many records, measured over whole batches.
fn per_record(iterations: u64, records: usize, mut call: impl FnMut()) -> Duration {
    let batches = iterations.div_ceil(records as u64);
    let began = Instant::now();
    for _ in 0..batches {
        call();
    }
    let records = (batches * records as u64) as f64;
    began.elapsed().mul_f64(iterations as f64 / records)
}

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

fn native(batch: &Batch, each: fn(&RecordView<'_>, &mut OutcomesBuilder)) -> Vec<u8> {
    let view = batch.view();
    let mut answer = OutcomesBuilder::with_capacity(view.len());
    for record in view.records() {
        each(&record, &mut answer);
    }
    answer.finish()
}

fn boundary(criterion: &mut Criterion) {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    type Each = fn(&RecordView<'_>, &mut OutcomesBuilder);
    for (mode, each) in [("filter", filter as Each), ("echo", echo as Each)] {
        let slot = slot(&engine, mode);
        let mut group = criterion.benchmark_group(format!("boundary/{mode}"));
        for size in SIZES {
            let batch = batch(RECORDS, size);
            let (_, mut operator) = slot.instance().unwrap();
            group.bench_function(BenchmarkId::new("sdk", size), |bencher| {
                bencher.iter_custom(|n| {
                    per_record(n, RECORDS, || {
                        drop(black_box(operator.process(&batch).unwrap()))
                    })
                });
            });
            group.bench_function(BenchmarkId::new("native", size), |bencher| {
                bencher.iter_custom(|n| {
                    per_record(n, RECORDS, || {
                        drop(black_box(native(black_box(&batch), each)))
                    })
                });
            });
        }
        group.finish();
        for size in SIZES {
            let batch = batch(RECORDS, size);
            let (_, mut operator) = slot.instance().unwrap();
            minimum(&format!("boundary/{mode}/sdk/{size}"), || {
                drop(black_box(operator.process(&batch).unwrap()))
            });
            minimum(&format!("boundary/{mode}/native/{size}"), || {
                drop(black_box(native(black_box(&batch), each)))
            });
        }
    }
    let slot = slot(&engine, "filter");
    let single = batch(1, 128);
    let (_, mut operator) = slot.instance().unwrap();
    criterion.bench_function("boundary/batch-of-one/sdk/128", |bencher| {
        bencher.iter(|| operator.process(black_box(&single)).unwrap());
    });
}

criterion_group!(benches, boundary);
criterion_main!(benches);
