//! How fast a model runs on a device: what `tidegate model bench` prints.
//!
//! Rates are medians of steps of the decoder, sampling included. KV blocks are not filled first: the time of a step does not
//! depend on what stands in them. On a slow device fewer steps are taken, and the report says how many.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_contract::{BLOCK, DecodeError, Decoder, Sampling, StepSequence};
use tidegate_weights::{Checkpoint, DecoderTensor};

use crate::device::{Adapter, DeviceOptions, Gpu, measure_copy_bandwidth};
use crate::kernels::{KernelVariant, KvPrecision};
use crate::load_error::LoadError;
use crate::{DecoderOptions, GpuDecoder, KernelTime, MemoryReport};

/// Environment variables that say where drivers keep compiled shaders: Mesa's two, and NVIDIA's. Point them at an empty directory
/// before a process starts, and it starts cold.
pub const SHADER_CACHES: [&str; 3] = [
    "MESA_SHADER_CACHE_DIR",
    "XDG_CACHE_HOME",
    "__GL_SHADER_DISK_CACHE_PATH",
];

/// Tokens of the prompt whose first token is waited for.
pub const PROMPT: usize = 16;

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchOptions {
    /// Sequences that decode together.
    pub batches: Vec<usize>,
    /// Positions of each sequence; those beyond the model's context are left out.
    pub contexts: Vec<usize>,
    /// Tokens of a prompt in one step.
    pub chunk: usize,
    /// About how long each rate may be measured.
    pub patience: Duration,
    /// As in [`DecoderOptions`].
    pub kernels: Option<KernelVariant>,
    /// As in [`DecoderOptions`].
    pub reproducible: bool,
    /// As in [`DecoderOptions`].
    pub kv: KvPrecision,
}

impl Default for BenchOptions {
    /// Batches of 1, 8 and 32 at 128 and 2,048 positions, chunks of 64, some 4 s each.
    fn default() -> Self {
        BenchOptions {
            batches: vec![1, 8, 32],
            contexts: vec![128, 2048],
            chunk: 64,
            patience: Duration::from_secs(4),
            kernels: None,
            reproducible: false,
            kv: KvPrecision::F16,
        }
    }
}

/// How long a model takes to be of use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ready {
    /// Seconds from nothing to an open device.
    pub open_s: f64,
    /// Seconds from there until every weight is uploaded and every kernel compiled.
    pub load_s: f64,
    /// Seconds from there to the first token after a prompt of [`PROMPT`] tokens.
    pub first_token_s: f64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// The adapter, in words.
    pub adapter: String,
    /// The kernels for products.
    pub kernels: &'static str,
    /// Bytes of the weights on the device.
    pub weights_bytes: u64,
    /// Bytes of keys and values.
    pub kv_cache_bytes: u64,
    /// Whether there was no room for blocks of their own for all sequences, so that they shared all but the last.
    pub shared_blocks: bool,
    /// Seconds to load in this process.
    pub load_s: f64,
    /// Seconds from ready to the first token after a prompt of [`PROMPT`] tokens.
    pub first_token_s: f64,
    /// Bytes per second the device copies at most, both ways counted.
    pub copy_bandwidth_bytes_per_s: f64,
    /// Tokens of prompts per second at the first context.
    pub prefill_tokens_per_s: f64,
    /// Tokens per second of all sequences together, by batch, at the first context.
    pub decode_tokens_per_s: BTreeMap<usize, f64>,
    /// Share of the copy bandwidth that decoding one sequence at the first context reads weights, keys and values with.
    pub bandwidth_share: f64,
    /// By context.
    pub contexts: Vec<ContextReport>,
}

/// What was measured at one context.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextReport {
    /// Positions of each sequence.
    pub context: usize,
    /// Tokens per second of the last chunk of a prompt that is so long.
    pub prefill_tokens_per_s: f64,
    /// Chunks that this is the median of.
    pub prefill_steps: usize,
    /// Tokens per second of all sequences together, by batch.
    pub decode_tokens_per_s: BTreeMap<usize, f64>,
    /// Steps that each is the median of.
    pub decode_steps: BTreeMap<usize, usize>,
    /// Milliseconds of each of the submissions that a chunk is cut into, on average.
    pub prefill_submission_ms: f64,
    /// Milliseconds of each of the submissions that a decode step is cut into, on average, by batch.
    pub decode_submission_ms: BTreeMap<usize, f64>,
    /// Share of the copy bandwidth that decoding reads weights, keys and values with, by batch.
    pub bandwidth_share: BTreeMap<usize, f64>,
    /// Device time of one chunk by kernel.
    pub prefill_kernels: Vec<KernelReport>,
    /// Device time of one decode step by batch and kernel.
    pub decode_kernels: BTreeMap<usize, Vec<KernelReport>>,
}

/// Device time of one kernel in a step, by timestamps where the device has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelReport {
    /// The kernel.
    pub kernel: &'static str,
    /// Milliseconds.
    pub ms: f64,
    /// Dispatches.
    pub dispatches: u32,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The model could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A step failed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The model makes no tokens.
    #[error("the model is no decoder")]
    NoDecoder,
    /// There is nothing to measure.
    #[error(
        "nothing to measure: contexts {contexts:?} within the model's {limit}, batches {batches:?}"
    )]
    Nothing {
        /// Contexts that were asked for.
        contexts: Vec<usize>,
        /// Batches that were asked for.
        batches: Vec<usize>,
        /// Positions the model was made for.
        limit: usize,
    },
}

/// Opens an adapter, loads a model and draws one token: how long each takes. Whether shaders are compiled anew is up to the driver's
/// cache: see [`SHADER_CACHES`].
///
/// # Errors
/// The model could not be loaded, or a step failed.
pub fn measure_ready(
    adapter: &Adapter,
    checkpoint: &Checkpoint,
    options: &BenchOptions,
) -> Result<Ready, BenchError> {
    let started = Instant::now();
    let gpu = Gpu::open(adapter, DeviceOptions::default())?;
    let open_s = started.elapsed().as_secs_f64();
    let limit = checkpoint.decoder().map_or(0, |config| config.context);
    let context = 1024.min(limit);
    let options = DecoderOptions {
        context,
        blocks: 2 * context.div_ceil(BLOCK),
        max_rows: options.chunk,
        max_samples: options.chunk.min(32),
        kv: options.kv,
        kernels: options.kernels,
        reproducible: options.reproducible,
        ..DecoderOptions::default()
    };
    let started = Instant::now();
    let mut decoder = GpuDecoder::load(&gpu, checkpoint, &options)?;
    let load_s = started.elapsed().as_secs_f64();
    Ok(Ready {
        open_s,
        load_s,
        first_token_s: first_token(&mut decoder)?,
    })
}

/// Measures a model on a device.
///
/// # Errors
/// The model could not be loaded, no context fits it, or a step failed.
pub fn bench(
    gpu: &Gpu,
    checkpoint: &Checkpoint,
    options: &BenchOptions,
) -> Result<BenchReport, BenchError> {
    let copy_bandwidth_bytes_per_s = measure_copy_bandwidth(gpu)?;
    let workload = Workload::new(gpu, checkpoint, options)?;
    let started = Instant::now();
    let mut decoder = GpuDecoder::load(gpu, checkpoint, &workload.options)?;
    let load_s = started.elapsed().as_secs_f64();
    let first_token_s = first_token(&mut decoder)?;
    let mut contexts = Vec::with_capacity(workload.contexts.len());
    for &context in &workload.contexts {
        contexts.push(workload.measure(
            &mut decoder,
            context,
            copy_bandwidth_bytes_per_s,
            options.patience,
        )?);
    }
    let memory = decoder.memory_report();
    let first = contexts.first();
    Ok(BenchReport {
        adapter: gpu.adapter().to_string(),
        kernels: decoder.kernels().matmul.name(),
        weights_bytes: memory.weights,
        kv_cache_bytes: memory.kv_cache,
        shared_blocks: workload.shared,
        load_s,
        first_token_s,
        copy_bandwidth_bytes_per_s,
        prefill_tokens_per_s: first.map_or(0.0, |first| first.prefill_tokens_per_s),
        decode_tokens_per_s: first
            .map_or_else(BTreeMap::new, |first| first.decode_tokens_per_s.clone()),
        bandwidth_share: first
            .and_then(|first| first.bandwidth_share.first_key_value())
            .map_or(0.0, |(_, share)| *share),
        contexts,
    })
}

/// Seconds to the first token after a prompt.
fn first_token(decoder: &mut GpuDecoder) -> Result<f64, DecodeError> {
    let rows = PROMPT
        .min(decoder.shape().max_rows)
        .min(decoder.shape().context);
    let sequence = StepSequence {
        lora: 0,
        position: 0,
        tokens: vec![0; rows],
        blocks: (0..rows.div_ceil(BLOCK) as u32).collect(),
        samples: vec![Sampling::default()],
    };
    let (started, mut sampled) = (Instant::now(), Vec::new());
    decoder.step(&[sequence], &mut sampled)?;
    Ok(started.elapsed().as_secs_f64())
}

/// What is loaded and measured.
struct Workload {
    options: DecoderOptions,
    contexts: Vec<usize>,
    batches: Vec<usize>,
    /// Tokens of a prompt in one step.
    chunk: usize,
    /// Whether sequences share all blocks but their last.
    shared: bool,
    /// Bytes of weights that a step reads, however many rows it has.
    weights: u64,
    /// Bytes of keys and values of one position in all layers.
    position: u64,
}

impl Workload {
    fn new(
        gpu: &Gpu,
        checkpoint: &Checkpoint,
        asked: &BenchOptions,
    ) -> Result<Workload, BenchError> {
        let Some(config) = checkpoint.decoder() else {
            return Err(BenchError::NoDecoder);
        };
        let limit = config.context;
        let fits = |context: &usize| (1..=limit).contains(context);
        let contexts: Vec<usize> = asked.contexts.iter().copied().filter(fits).collect();
        let batches: Vec<usize> = asked
            .batches
            .iter()
            .copied()
            .filter(|batch| *batch > 0)
            .collect();
        let (Some(&longest), Some(&most)) = (contexts.iter().max(), batches.iter().max()) else {
            return Err(BenchError::Nothing {
                contexts: asked.contexts.clone(),
                batches: asked.batches.clone(),
                limit,
            });
        };
        let position = (config.kv_heads * asked.kv.head_bytes(config.head_dim)) as u64;
        let own = most * longest.div_ceil(BLOCK);
        let shared = (own * BLOCK) as u64 * position > gpu.largest_binding;
        let chunk = asked.chunk.max(1);
        let options = DecoderOptions {
            context: longest,
            blocks: if shared {
                longest.div_ceil(BLOCK) + most
            } else {
                own
            },
            max_rows: chunk.max(most),
            max_samples: most,
            kv: asked.kv,
            kernels: asked.kernels,
            reproducible: asked.reproducible,
            ..DecoderOptions::default()
        };
        // Of a table that is no head only a row for each token is read.
        let table = checkpoint
            .tensor(DecoderTensor::Embedding)
            .map_err(LoadError::from)?;
        let table = if config.tied { 0 } else { table.bytes() };
        let weights = MemoryReport::estimate(checkpoint, &options)?.weights;
        Ok(Workload {
            weights: weights.saturating_sub(table),
            position: 2 * position * config.layers.len() as u64,
            options,
            contexts,
            batches,
            chunk,
            shared,
        })
    }

    /// The blocks of a sequence.
    fn blocks(&self, sequence: usize, context: usize) -> Vec<u32> {
        let count = context.div_ceil(BLOCK);
        let first = if self.shared { 0 } else { sequence * count };
        let mut blocks: Vec<u32> = (first..first + count).map(|block| block as u32).collect();
        if self.shared
            && let Some(last) = blocks.last_mut()
        {
            *last = (self.options.context.div_ceil(BLOCK) + sequence) as u32;
        }
        blocks
    }

    /// One token of each of `batch` sequences, the last that the context has room for.
    fn decode(&self, batch: usize, context: usize) -> Vec<StepSequence> {
        let sequence = |index| StepSequence {
            lora: 0,
            position: context as u32 - 1,
            tokens: vec![0],
            blocks: self.blocks(index, context),
            samples: vec![Sampling::default()],
        };
        (0..batch).map(sequence).collect()
    }

    /// The last chunk of a prompt.
    fn prefill(&self, context: usize) -> Vec<StepSequence> {
        let rows = self.chunk.min(context);
        // One sequence has its blocks to itself: those of the first, and at the end its own.
        let blocks = (0..context.div_ceil(BLOCK) as u32).collect();
        vec![StepSequence {
            lora: 0,
            position: (context - rows) as u32,
            tokens: vec![0; rows],
            blocks,
            samples: vec![Sampling::default()],
        }]
    }

    fn measure(
        &self,
        decoder: &mut GpuDecoder,
        context: usize,
        bandwidth: f64,
        patience: Duration,
    ) -> Result<ContextReport, BenchError> {
        let prompt = self.prefill(context);
        let (seconds, prefill_steps) = median(decoder, &prompt, patience)?;
        let submission_ms = |decoder: &GpuDecoder, seconds: f64| {
            seconds * 1e3 / f64::from(decoder.submissions_last_step().max(1))
        };
        let mut report = ContextReport {
            context,
            prefill_tokens_per_s: self.chunk.min(context) as f64 / seconds,
            prefill_steps,
            decode_tokens_per_s: BTreeMap::new(),
            decode_steps: BTreeMap::new(),
            prefill_submission_ms: submission_ms(decoder, seconds),
            decode_submission_ms: BTreeMap::new(),
            bandwidth_share: BTreeMap::new(),
            prefill_kernels: kernels(decoder, &prompt)?,
            decode_kernels: BTreeMap::new(),
        };
        for &batch in &self.batches {
            let step = self.decode(batch, context);
            let (seconds, steps) = median(decoder, &step, patience)?;
            let read = self.weights + (batch * context) as u64 * self.position;
            report
                .decode_tokens_per_s
                .insert(batch, batch as f64 / seconds);
            report.decode_steps.insert(batch, steps);
            report
                .decode_submission_ms
                .insert(batch, submission_ms(decoder, seconds));
            report
                .bandwidth_share
                .insert(batch, read as f64 / seconds / bandwidth);
            report
                .decode_kernels
                .insert(batch, kernels(decoder, &step)?);
        }
        Ok(report)
    }
}

/// Median seconds of a step after one that is not counted, and the steps: some 50, fewer where they take long, at least 3.
fn median(
    decoder: &mut GpuDecoder,
    step: &[StepSequence],
    patience: Duration,
) -> Result<(f64, usize), DecodeError> {
    const LEAST: usize = 3;
    const MOST: usize = 50;
    let mut sampled = Vec::new();
    decoder.step(step, &mut sampled)?;
    let started = Instant::now();
    let mut times = Vec::with_capacity(MOST);
    while times.len() < LEAST || (times.len() < MOST && started.elapsed() < patience) {
        let begun = Instant::now();
        decoder.step(step, &mut sampled)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
    Ok((median, times.len()))
}

fn kernels(
    decoder: &mut GpuDecoder,
    step: &[StepSequence],
) -> Result<Vec<KernelReport>, DecodeError> {
    let times = decoder.profile(step)?;
    let report = |time: KernelTime| KernelReport {
        kernel: time.kernel,
        ms: time.time.as_secs_f64() * 1e3,
        dispatches: time.dispatches,
    };
    Ok(times.into_iter().map(report).collect())
}
