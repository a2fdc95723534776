//! Draws from logits at two sizes of vocabulary: a round trip to the device, logits being there.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use tidegate_contract::Sampling;
use tidegate_infer::kernels::lab::Lab;
use tidegate_infer::{DeviceOptions, KernelVariant};

use crate::adapter;

fn kinds() -> [(&'static str, Sampling); 5] {
    let warm = Sampling {
        temperature: 1.0,
        ..Sampling::default()
    };
    [
        ("greedy", Sampling::default()),
        ("temperature", warm.clone()),
        (
            "top-k 40",
            Sampling {
                top_k: 40,
                ..warm.clone()
            },
        ),
        (
            "top-k 40, top-p 0.9",
            Sampling {
                top_k: 40,
                top_p: 0.9,
                ..warm
            },
        ),
        (
            "greedy, 5 logprobs",
            Sampling {
                logprobs: Some(5),
                ..Sampling::default()
            },
        ),
    ]
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let adapter = adapter();
    let variant = if adapter.info().kind == tidegate_infer::AdapterKind::Software {
        KernelVariant::Software
    } else {
        KernelVariant::Portable
    };
    let lab = match Lab::open(&adapter, variant, false, DeviceOptions::default()) {
        Ok(lab) => lab,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let mut group = criterion.benchmark_group("draw");
    for vocabulary in [32_000, 128_256] {
        let Ok(mut draws) = lab.draws(vocabulary, 32) else {
            continue;
        };
        // Sums of four uniform numbers, spread as logits are: SplitMix64 (Steele, Lea, Flood 2014).
        let mut state = 1u64;
        let mut unit = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
        };
        let logits: Vec<f32> = (0..32 * vocabulary)
            .map(|_| ((0..4).map(|_| unit()).sum::<f32>() - 2.0) * 5.0)
            .collect();
        draws.upload(&logits);
        for rows in [1, 8, 32] {
            for (name, sampling) in kinds() {
                let samplings = vec![&sampling; rows];
                let id = BenchmarkId::new(name, format!("{vocabulary} x {rows}"));
                group.bench_function(id, |bench| {
                    bench.iter(|| black_box(draws.draw(&samplings)));
                });
            }
        }
    }
    group.finish();
}
