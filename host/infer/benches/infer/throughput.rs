//! The whole decoder: decode at 1, 8 and 32 sequences around position 128, and prefill in chunks of 64. The 125M model is
//! measured once with 8 sequences, as a software adapter takes its time over it.

use criterion::{Criterion, Throughput};
use tidegate_infer::{Decoder, DecoderOptions, GpuDecoder, ModelConfig, StepRow, Weights};

use crate::models::{DEMO, SMALL, Shape};

const CONTEXT: usize = 256;
const POSITION: u32 = 128;
const CHUNK: u32 = 64;

pub(crate) fn benches(criterion: &mut Criterion) {
    for (shape, batches) in [(DEMO, &[1u32, 8, 32][..]), (SMALL, &[8])] {
        match load(shape) {
            Ok(mut decoder) => measure(criterion, shape, &mut decoder, batches),
            Err(error) => eprintln!("{}: {error}", shape.name),
        }
    }
}

fn load(shape: Shape) -> Result<GpuDecoder, Box<dyn std::error::Error>> {
    let directory = shape.write()?;
    let config = ModelConfig::from_dir(directory.path())?;
    let weights = Weights::open(directory.path())?;
    let options = DecoderOptions {
        slots: 32,
        context: CONTEXT,
        max_rows: 64,
        ..DecoderOptions::default()
    };
    Ok(GpuDecoder::load(
        &crate::adapter(),
        &config,
        weights,
        options,
    )?)
}

fn measure(criterion: &mut Criterion, shape: Shape, decoder: &mut GpuDecoder, batches: &[u32]) {
    let mut logits = Vec::new();
    for &batch in batches {
        let mut group = criterion.benchmark_group(format!("{}/decode", shape.name));
        group.throughput(Throughput::Elements(u64::from(batch)));
        let rows: Vec<StepRow> = (0..batch)
            .map(|slot| StepRow {
                slot,
                token: slot,
                position: POSITION,
                wants_logits: true,
            })
            .collect();
        group.bench_function(batch.to_string(), |bencher| {
            bencher.iter(|| {
                if let Err(error) = decoder.step(&rows, &mut logits) {
                    eprintln!("decode: {error}");
                }
            });
        });
        group.finish();
    }
    let mut group = criterion.benchmark_group(format!("{}/prefill", shape.name));
    group.throughput(Throughput::Elements(u64::from(CHUNK)));
    let row = |position| StepRow {
        slot: 0,
        token: position,
        position,
        wants_logits: position + 1 == CHUNK,
    };
    let rows: Vec<StepRow> = (0..CHUNK).map(row).collect();
    group.bench_function(CHUNK.to_string(), |bencher| {
        bencher.iter(|| {
            if let Err(error) = decoder.step(&rows, &mut logits) {
                eprintln!("prefill: {error}");
            }
        });
    });
    group.finish();
}
