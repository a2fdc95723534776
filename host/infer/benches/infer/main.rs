//! Each product at the shapes of a 125M model and in every format, attention over long contexts, draws of tokens, and the whole
//! decoder's tokens per second.
//!
//! `TIDEGATE_ADAPTER` and `TIDEGATE_KERNELS` choose where and with what; by default the first adapter and its kernels.
//! Models are random: speed does not depend on the values.

mod adapters;
mod attention;
mod products;
mod sampling;
mod throughput;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate_infer::Adapter;

fn adapter() -> Adapter {
    let selector = std::env::var("TIDEGATE_ADAPTER").ok();
    match Adapter::choose(selector.as_deref()) {
        Ok(adapter) => adapter,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn configured() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2))
}

criterion_group!(
    name = benches;
    config = configured();
    targets = products::benches, attention::benches, sampling::benches, throughput::benches, adapters::benches
);
criterion_main!(benches);
