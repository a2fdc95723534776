//! Attention of one layer by itself: 12 heads of 64 over 2,048 positions in f16 and in int8, as a 125M model has, for 1, 8 and 32
//! sequences that decode. A measured iteration is one submission.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use tidegate_contract::BLOCK;
use tidegate_infer::kernels::lab::{Experiment, HeadShape, Lab, sequence};
use tidegate_infer::{AdapterKind, DeviceOptions, KernelVariant, KvPrecision, LoadError};

const CONTEXT: usize = 2048;
const HEADS: usize = 12;
const WIDTH: usize = 64;

pub(crate) fn benches(criterion: &mut Criterion) {
    let adapter = crate::adapter();
    let variant = match adapter.info().kind {
        AdapterKind::Software => KernelVariant::Software,
        _ => KernelVariant::Portable,
    };
    let lab = match Lab::open(&adapter, variant, false, DeviceOptions::default()) {
        Ok(lab) => lab,
        Err(error) => return eprintln!("{error}"),
    };
    let mut group = criterion.benchmark_group("attention");
    let precisions = [KvPrecision::F16, KvPrecision::Int8];
    for (batch, kv) in [1, 8, 32]
        .into_iter()
        .flat_map(|batch| precisions.map(|kv| (batch, kv)))
    {
        let experiment = match attention(&lab, batch, kv) {
            Ok(experiment) => experiment,
            Err(error) => return eprintln!("{error}"),
        };
        // Of keys and of values.
        let bytes = 2 * batch * CONTEXT * HEADS * kv.head_bytes(WIDTH);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new(kv.name(), batch), |bencher| {
            bencher.iter_custom(|times| {
                let started = Instant::now();
                for _ in 0..times {
                    if let Err(error) = lab.run(&experiment, 1) {
                        eprintln!("{error}");
                        return Duration::MAX;
                    }
                }
                started.elapsed()
            });
        });
    }
    group.finish();
}

fn attention(lab: &Lab, batch: usize, kv: KvPrecision) -> Result<Experiment, LoadError> {
    let each = CONTEXT / BLOCK;
    let shape = HeadShape {
        kv,
        context: CONTEXT,
        ..HeadShape::plain(HEADS, HEADS, WIDTH, batch * each)
    };
    let decoding = |index: usize| {
        let blocks: Vec<u32> = (index * each..(index + 1) * each)
            .map(|block| block as u32)
            .collect();
        sequence(CONTEXT - 1, 1, &blocks)
    };
    let step: Vec<_> = (0..batch).map(decoding).collect();
    let cache = vec![0.25; batch * CONTEXT * HEADS * WIDTH];
    let queries = vec![0.25; batch * HEADS * WIDTH];
    lab.attention(shape, &queries, [&cache, &cache], &step)
}
