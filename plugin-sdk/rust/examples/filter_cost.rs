//! What a filter costs through the SDK, natively: 1 KiB records in batches of 256, half of them dropped.
//!
//! ```text
//! cargo run --release -p tidegate-sdk --example filter_cost
//! ```

use std::hint::black_box;
use std::time::Instant;

use tidegate_record::{BatchBuilder, NewRecord};
use tidegate_sdk::Runner;
use tidegate_sdk::prelude::*;

#[operator(name = "keep-even", reads = "value")]
fn keep_even(record: &Record) -> bool {
    record.value().is_some_and(|value| value[0] % 2 == 0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = BatchBuilder::default();
    for index in 0..=255u8 {
        let value = [index; 1024];
        builder.push(&NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        })?;
    }
    let batch = builder.finish(0);
    let mut runner = Runner::<KeepEven>::start("{}")?;
    let rounds = 20_000;
    let started = Instant::now();
    for _ in 0..rounds {
        black_box(runner.process(black_box(batch.as_bytes()))?);
    }
    let each = started.elapsed().as_nanos() as f64 / f64::from(rounds) / 256.0;
    println!("{each:.1} ns a record, the host's copy into the operator not counted");
    Ok(())
}
