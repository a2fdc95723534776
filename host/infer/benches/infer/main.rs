//! Tokens per second of whole decoders with random weights, and where the time of a step goes.
//!
//! `TIDEGATE_ADAPTER` and `TIDEGATE_KERNELS` choose where and with what; by default the first adapter and its best kernels.
//! `TIDEGATE_BENCH_MODEL` (125M, 1B, 8B), `TIDEGATE_BENCH_FORMAT` (f32, f16, int8, int4) and `TIDEGATE_BENCH_CONTEXT` choose the
//! model and the position it decodes at. The values of weights do not matter to speed.

use std::time::Instant;

use tidegate_contract::{BLOCK, Decoder, Sampled, Sampling, StepSequence};
use tidegate_infer::{
    Adapter, DecoderOptions, DeviceOptions, Gpu, GpuDecoder, measure_copy_bandwidth,
};
use tidegate_weights::{Checkpoint, Format, ModelConfig};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Rows of a chunk of a prompt.
const CHUNK: usize = 64;

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn run() -> Outcome<()> {
    let selector = std::env::var("TIDEGATE_ADAPTER").ok();
    let adapter = Adapter::choose(selector.as_deref())?;
    let gpu = Gpu::open(&adapter, DeviceOptions::default())?;
    let name = setting("TIDEGATE_BENCH_MODEL", "125M");
    let config = ModelConfig::preset(&name).ok_or_else(|| format!("no model {name}"))?;
    let format = match setting("TIDEGATE_BENCH_FORMAT", "int8").as_str() {
        "f32" => Format::F32,
        "f16" => Format::F16,
        "int8" => Format::Int8,
        "int4" => Format::Int4,
        other => return Err(format!("no format {other}").into()),
    };
    let position: usize = setting("TIDEGATE_BENCH_CONTEXT", "128").parse()?;
    let context = position + 64;
    let options = DecoderOptions {
        context,
        blocks: 32 * context.div_ceil(BLOCK),
        ..DecoderOptions::default()
    };
    let checkpoint = Checkpoint::random(config, format, 1);
    let started = Instant::now();
    let mut decoder = GpuDecoder::load(&gpu, &checkpoint, &options)?;
    println!(
        "{name} {format:?} on {}, {} kernels, position {position}: loaded in {:.1} s",
        adapter.info(),
        decoder.kernels().matmul,
        started.elapsed().as_secs_f64()
    );
    println!("copy bandwidth {:.1} GB/s", measure_copy_bandwidth(&gpu)? / 1e9);
    let per_sequence = context.div_ceil(BLOCK) as u32;
    for batch in [1, 8, 32] {
        let step = decode(batch, position, per_sequence);
        report(&mut decoder, &format!("decode {batch}"), &step, batch as usize)?;
    }
    let prompt = StepSequence {
        position: 0,
        tokens: vec![1; CHUNK],
        blocks: (0..per_sequence).collect(),
        samples: vec![Sampling::default()],
    };
    report(&mut decoder, "prefill", &[prompt], CHUNK)
}

/// A token of each of `batch` sequences.
fn decode(batch: u32, position: usize, per_sequence: u32) -> Vec<StepSequence> {
    let sequence = |index: u32| StepSequence {
        position: position as u32,
        tokens: vec![1],
        blocks: (index * per_sequence..(index + 1) * per_sequence).collect(),
        samples: vec![Sampling::default()],
    };
    (0..batch).map(sequence).collect()
}

/// The median of seven steps, and its kernels.
fn report(decoder: &mut GpuDecoder, what: &str, step: &[StepSequence], tokens: usize) -> Outcome<()> {
    let mut sampled: Vec<Sampled> = Vec::new();
    decoder.step(step, &mut sampled)?;
    let mut seconds = Vec::new();
    for _ in 0..7 {
        let started = Instant::now();
        decoder.step(step, &mut sampled)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!(
        "{what}: {:.1} tokens/s, {:.2} ms a step, {} dispatches in {} submissions",
        tokens as f64 / seconds[3],
        seconds[3] * 1e3,
        decoder.dispatches_last_step(),
        decoder.submissions_last_step()
    );
    for kernel in decoder.profile(step)? {
        println!(
            "    {:<18} {:>9.3} ms  {:>4} dispatches",
            kernel.kernel,
            kernel.time.as_secs_f64() * 1e3,
            kernel.dispatches
        );
    }
    Ok(())
}
