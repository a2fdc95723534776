//! The whole decoder, 125M parameters in int8: decode at 1, 8 and 32 sequences around position 128, and a chunk of 64 tokens of a
//! prompt. `tidegate model bench` measures more of it; this is for comparing one change with the next.

use criterion::{Criterion, Throughput};
use tidegate_contract::{BLOCK, Decoder, Sampling, StepSequence};
use tidegate_infer::{DecoderOptions, DeviceOptions, Gpu, GpuDecoder};
use tidegate_weights::{Checkpoint, Format, ModelConfig};

const POSITION: u32 = 127;
const CHUNK: usize = 64;
const MOST: usize = 32;

pub(crate) fn benches(criterion: &mut Criterion) {
    match load() {
        Ok(mut decoder) => measure(criterion, &mut decoder),
        Err(error) => eprintln!("{error}"),
    }
}

fn load() -> Result<GpuDecoder, Box<dyn std::error::Error>> {
    let config = ModelConfig::preset("125M").ok_or("there is no preset of 125M")?;
    let checkpoint = Checkpoint::random(config, Format::Int8, 1);
    let gpu = Gpu::open(&crate::adapter(), DeviceOptions::default())?;
    let options = DecoderOptions {
        context: 256,
        blocks: MOST * 256 / BLOCK,
        max_rows: CHUNK,
        max_samples: MOST,
        ..DecoderOptions::default()
    };
    Ok(GpuDecoder::load(&gpu, &checkpoint, &options)?)
}

fn sequence(index: usize, position: u32, tokens: usize) -> StepSequence {
    let blocks = (position as usize + tokens).div_ceil(BLOCK);
    StepSequence {
        lora: 0,
        position,
        tokens: vec![0; tokens],
        blocks: (index * blocks..(index + 1) * blocks)
            .map(|block| block as u32)
            .collect(),
        samples: vec![Sampling::default()],
    }
}

fn measure(criterion: &mut Criterion, decoder: &mut GpuDecoder) {
    for batch in [1, 8, MOST] {
        let step: Vec<_> = (0..batch)
            .map(|index| sequence(index, POSITION, 1))
            .collect();
        bench(criterion, decoder, ("125M/decode", batch), &step, batch);
    }
    bench(
        criterion,
        decoder,
        ("125M/prefill", CHUNK),
        &[sequence(0, 0, CHUNK)],
        CHUNK,
    );
}

fn bench(
    criterion: &mut Criterion,
    decoder: &mut GpuDecoder,
    (name, of): (&str, usize),
    step: &[StepSequence],
    tokens: usize,
) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(tokens as u64));
    let mut sampled = Vec::new();
    group.bench_function(of.to_string(), |bencher| {
        bencher.iter(|| {
            if let Err(error) = decoder.step(step, &mut sampled) {
                eprintln!("{name}: {error}");
            }
        });
    });
    group.finish();
}
