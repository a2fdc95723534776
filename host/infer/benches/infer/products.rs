//! One product of 4096 columns and a width of 768 by itself, in every format: 1 row (one sequence decodes), 8, and 64 (a chunk of a
//! prompt). A measured iteration is one submission of 8 dispatches, divided by 8.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use tidegate_infer::kernels::StorageFormat;
use tidegate_infer::kernels::lab::{Experiment, Lab};
use tidegate_infer::{AdapterKind, DeviceOptions, KernelVariant, LoadError};
use tidegate_weights::{Format, Tensor};

const DISPATCHES: usize = 8;
const COLUMNS: usize = 4096;
const WIDTH: usize = 768;

pub(crate) fn benches(criterion: &mut Criterion) {
    let adapter = crate::adapter();
    let named = std::env::var("TIDEGATE_KERNELS").ok();
    let variant = named.as_deref().and_then(KernelVariant::named);
    let variant = variant.unwrap_or(match adapter.info().kind {
        AdapterKind::Software => KernelVariant::Software,
        _ => KernelVariant::Portable,
    });
    let lab = match Lab::open(&adapter, variant, false, DeviceOptions::default()) {
        Ok(lab) => lab,
        Err(error) => return eprintln!("{error}"),
    };
    for format in StorageFormat::ALL.map(StorageFormat::format) {
        for rows in [1, 8, 64] {
            match product(&lab, format, rows) {
                Ok(experiment) => measure(criterion, &lab, format, rows, &experiment),
                Err(error) => eprintln!("{}: {error}", format.name()),
            }
        }
    }
}

fn product(lab: &Lab, format: Format, rows: usize) -> Result<Experiment, LoadError> {
    // 0x38 in every byte: half a one in f16 and bf16, and no denormal number in any format.
    let bytes = vec![0x38; COLUMNS * format.row_bytes(WIDTH)];
    let weights: Vec<Tensor<'_>> = Tensor::in_memory("weights", format, COLUMNS, WIDTH, &bytes)
        .into_iter()
        .collect();
    lab.matmul(weights, &vec![0.25; rows * WIDTH], None)
}

fn measure(
    criterion: &mut Criterion,
    lab: &Lab,
    format: Format,
    rows: usize,
    experiment: &Experiment,
) {
    let mut group = criterion.benchmark_group(format!("product/{}", format.name()));
    group.throughput(Throughput::Elements((rows * COLUMNS * WIDTH) as u64));
    group.bench_function(BenchmarkId::from_parameter(rows), |bencher| {
        bencher.iter_custom(|times| {
            let started = Instant::now();
            for _ in 0..times {
                if let Err(error) = lab.run(experiment, DISPATCHES) {
                    eprintln!("{}: {error}", format.name());
                    return Duration::MAX;
                }
            }
            started.elapsed() / DISPATCHES as u32
        });
    });
    group.finish();
}
