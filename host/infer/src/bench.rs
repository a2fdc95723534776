//! How fast a model runs on a device: what `tidegate model bench` prints.
//!
//! Rates are medians of steps of the decoder, sampling included. KV blocks are not filled first: the time of a step does not
//! depend on what stands in them. On a slow device fewer steps are taken, and the report says how many. Decode steps are begun as
//! serving begins them: where the decoder runs ahead and a step is short, each before the one before it has ended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_contract::{BLOCK, DecodeError, Decoder, FedToken, Sampled, Sampling, StepSequence};
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

/// The longest step that is begun ahead, as serving has it.
const LONGEST_AHEAD: Duration = Duration::from_millis(20);

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

impl BenchOptions {
    /// What is loaded to measure a model: once to be ready, in a process of its own, and then for the rates, on a device that binds so
    /// many bytes at once. Never both at a time.
    ///
    /// # Errors
    /// The model is no decoder, or no context fits it.
    pub fn loads(
        &self,
        checkpoint: &Checkpoint,
        largest_binding: u64,
    ) -> Result<[DecoderOptions; 2], BenchError> {
        let workload = Workload::new(largest_binding, checkpoint, self)?;
        Ok([self.to_be_ready(checkpoint), workload.options])
    }

    /// What the time to be ready is measured with.
    fn to_be_ready(&self, checkpoint: &Checkpoint) -> DecoderOptions {
        let limit = checkpoint.decoder().map_or(0, |config| config.context);
        let context = 1024.min(limit);
        DecoderOptions {
            context,
            blocks: 2 * context.div_ceil(BLOCK),
            max_rows: self.chunk,
            max_samples: self.chunk.min(32),
            kv: self.kv,
            kernels: self.kernels,
            reproducible: self.reproducible,
            ..DecoderOptions::default()
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
    /// The kernels for products that ran, by name.
    pub kernels: String,
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
    /// Whether those were begun before the ones before them had ended, by batch.
    pub decode_ahead: BTreeMap<usize, bool>,
    /// Milliseconds of each of the submissions that a chunk is cut into, on average.
    pub prefill_submission_ms: f64,
    /// Milliseconds of each of the submissions that a decode step is cut into, on average, by batch.
    pub decode_submission_ms: BTreeMap<usize, f64>,
    /// Share of the copy bandwidth that decoding reads weights, keys and values with, by batch.
    pub bandwidth_share: BTreeMap<usize, f64>,
    /// Device time of one chunk by kernel, in all passes that it runs in; none where it could not be taken.
    pub prefill_kernels: Option<Vec<KernelReport>>,
    /// The same of one decode step by batch, of those that it could be taken of.
    pub decode_kernels: BTreeMap<usize, Vec<KernelReport>>,
    /// Why times by kernel are missing, where some are.
    pub kernels_missing: Option<String>,
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
    let options = options.to_be_ready(checkpoint);
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
    let workload = Workload::new(gpu.largest_binding, checkpoint, options)?;
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
    // Last, so that a device that fails at these has been measured.
    for context in &mut contexts {
        workload.add_kernels(context, |step| kernels(&mut decoder, step));
    }
    let memory = decoder.memory_report();
    let first = contexts.first();
    Ok(BenchReport {
        adapter: gpu.adapter().to_string(),
        kernels: decoder.products().to_owned(),
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
    /// On a device that binds so many bytes at once.
    fn new(
        largest_binding: u64,
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
        let shared = (own * BLOCK) as u64 * position > largest_binding;
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
        let (seconds, prefill_steps) = median(decoder, &prompt, patience, false)?;
        let submission_ms = |decoder: &GpuDecoder, seconds: f64| {
            seconds * 1e3 / f64::from(decoder.submissions_last_step().max(1))
        };
        let mut report = ContextReport {
            context,
            prefill_tokens_per_s: self.chunk.min(context) as f64 / seconds,
            prefill_steps,
            decode_tokens_per_s: BTreeMap::new(),
            decode_steps: BTreeMap::new(),
            decode_ahead: BTreeMap::new(),
            prefill_submission_ms: submission_ms(decoder, seconds),
            decode_submission_ms: BTreeMap::new(),
            bandwidth_share: BTreeMap::new(),
            prefill_kernels: None,
            decode_kernels: BTreeMap::new(),
            kernels_missing: None,
        };
        for &batch in &self.batches {
            let step = self.decode(batch, context);
            let started = Instant::now();
            decoder.step(&step, &mut Vec::new())?;
            let ahead = decoder.runs_ahead() && started.elapsed() <= LONGEST_AHEAD;
            let (seconds, steps) = median(decoder, &step, patience, ahead)?;
            let read = self.weights + (batch * context) as u64 * self.position;
            report
                .decode_tokens_per_s
                .insert(batch, batch as f64 / seconds);
            report.decode_steps.insert(batch, steps);
            report.decode_ahead.insert(batch, ahead);
            report
                .decode_submission_ms
                .insert(batch, submission_ms(decoder, seconds));
            report
                .bandwidth_share
                .insert(batch, read as f64 / seconds / bandwidth);
        }
        Ok(report)
    }

    /// Adds times by kernel to what was measured at a context, by what takes those of a step. What fails here takes nothing away.
    fn add_kernels(
        &self,
        report: &mut ContextReport,
        mut kernels: impl FnMut(&[StepSequence]) -> Result<Vec<KernelReport>, DecodeError>,
    ) {
        let mut add = || -> Result<(), DecodeError> {
            report.prefill_kernels = Some(kernels(&self.prefill(report.context))?);
            for &batch in &self.batches {
                let times = kernels(&self.decode(batch, report.context))?;
                report.decode_kernels.insert(batch, times);
            }
            Ok(())
        };
        let failed = add().err();
        report.kernels_missing = failed.map(|error| error.to_string());
    }
}

/// Median seconds of a step after one that is not counted, and the steps: some 50, fewer where they take long, at least 3. If it is
/// begun `ahead`, each sequence has one row, whose token the step before draws, and a step counts from the end of that one.
fn median(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
    patience: Duration,
    ahead: bool,
) -> Result<(f64, usize), DecodeError> {
    const LEAST: usize = 3;
    const MOST: usize = 50;
    let mut sampled = Vec::new();
    let mut run = Steps::begin(decoder, step, ahead)?;
    run.next(&mut sampled)?;
    let started = Instant::now();
    let mut times = Vec::with_capacity(MOST);
    while times.len() < LEAST || (times.len() < MOST && started.elapsed() < patience) {
        let begun = Instant::now();
        run.next(&mut sampled)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    run.end(&mut sampled)?;
    times.sort_by(f64::total_cmp);
    let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
    Ok((median, times.len()))
}

/// The same step over and over.
struct Steps<'a> {
    decoder: &'a mut dyn Decoder,
    /// The step, of those that are begun ahead the one that is to be collected next.
    step: Vec<StepSequence>,
    ahead: bool,
}

impl<'a> Steps<'a> {
    fn begin(
        decoder: &'a mut dyn Decoder,
        step: &[StepSequence],
        ahead: bool,
    ) -> Result<Steps<'a>, DecodeError> {
        if ahead {
            decoder.submit(step)?;
            decoder.draw(step)?;
        }
        Ok(Steps {
            decoder,
            step: step.to_vec(),
            ahead,
        })
    }

    /// Waits for a step. The one after it runs by then, if it is begun ahead.
    fn next(&mut self, sampled: &mut Vec<Sampled>) -> Result<(), DecodeError> {
        if !self.ahead {
            return self.decoder.step(&self.step, sampled);
        }
        let fed: Vec<FedToken> = (0..self.step.len())
            .map(|sequence| FedToken {
                sequence,
                sampling: sequence,
            })
            .collect();
        self.decoder.submit_after(&self.step, &fed)?;
        self.decoder.collect(&self.step, sampled)?;
        for (sequence, drawn) in self.step.iter_mut().zip(sampled.iter()) {
            // Where no logit is a number, any token will do.
            sequence.tokens = vec![drawn.token.unwrap_or(0)];
        }
        self.decoder.draw(&self.step)
    }

    /// Waits for what is left.
    fn end(self, sampled: &mut Vec<Sampled>) -> Result<(), DecodeError> {
        match self.ahead {
            true => self.decoder.collect(&self.step, sampled),
            false => Ok(()),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_contract::DecoderShape;
    use tidegate_weights::{Format, ModelConfig};

    /// Notes what it is asked for; draws the number of the step and of the sequence.
    struct Notes {
        shape: DecoderShape,
        calls: Vec<String>,
        collected: u32,
    }

    impl Notes {
        fn note(&mut self, call: &str, step: &[StepSequence]) -> Result<(), DecodeError> {
            let tokens: Vec<u32> = step.iter().map(|of| of.tokens[0]).collect();
            self.calls.push(format!("{call} {tokens:?}"));
            Ok(())
        }
    }

    impl Decoder for Notes {
        fn shape(&self) -> &DecoderShape {
            &self.shape
        }

        fn memory(&self) -> u64 {
            0
        }

        fn step(&mut self, step: &[StepSequence], _: &mut Vec<Sampled>) -> Result<(), DecodeError> {
            self.note("step", step)
        }

        fn submit(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
            self.note("submit", step)
        }

        fn submit_after(
            &mut self,
            step: &[StepSequence],
            fed: &[FedToken],
        ) -> Result<(), DecodeError> {
            let own = |sequence| FedToken {
                sequence,
                sampling: sequence,
            };
            assert_eq!(fed, [own(0), own(1)]);
            self.note("submit after", step)
        }

        fn draw(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
            self.note("draw", step)
        }

        fn collect(
            &mut self,
            step: &[StepSequence],
            sampled: &mut Vec<Sampled>,
        ) -> Result<(), DecodeError> {
            self.collected += 1;
            let token = |sequence| Sampled {
                token: Some(10 * self.collected + sequence),
                ..Sampled::default()
            };
            *sampled = [0, 1].map(token).to_vec();
            self.note("collect", step)
        }

        fn logits(&mut self, _: &[StepSequence], _: &mut Vec<f32>) -> Result<(), DecodeError> {
            Ok(())
        }
    }

    #[test]
    fn a_profile_that_fails_takes_no_rate_away_and_says_why() {
        let options = BenchOptions {
            contexts: vec![32],
            ..BenchOptions::default()
        };
        let config = ModelConfig::preset("125M").unwrap();
        let checkpoint = Checkpoint::random(config, Format::Int8, 1);
        let workload = Workload::new(u64::MAX, &checkpoint, &options).unwrap();
        let rates = BTreeMap::from([(1, 10.0), (8, 40.0), (32, 60.0)]);
        let measured = ContextReport {
            context: 32,
            prefill_tokens_per_s: 100.0,
            prefill_steps: 3,
            decode_tokens_per_s: rates,
            decode_steps: BTreeMap::new(),
            decode_ahead: BTreeMap::new(),
            prefill_submission_ms: 1.0,
            decode_submission_ms: BTreeMap::new(),
            bandwidth_share: BTreeMap::new(),
            prefill_kernels: None,
            decode_kernels: BTreeMap::new(),
            kernels_missing: None,
        };
        let kernel = KernelReport {
            kernel: "matmul",
            ms: 1.0,
            dispatches: 1,
        };
        let lost = || DecodeError::DeviceLost {
            reason: "unplugged".to_owned(),
        };
        let mut whole = measured.clone();
        workload.add_kernels(&mut whole, |_| Ok(vec![kernel.clone()]));
        assert_eq!(whole.prefill_kernels, Some(vec![kernel.clone()]));
        assert_eq!(whole.decode_kernels.len(), 3);
        assert_eq!(whole.kernels_missing, None);
        // After the chunk and one sequence.
        let mut left = 2;
        let mut some = measured.clone();
        workload.add_kernels(&mut some, |_| {
            left -= 1;
            if left < 0 {
                Err(lost())
            } else {
                Ok(vec![kernel.clone()])
            }
        });
        assert_eq!(some.prefill_kernels, whole.prefill_kernels);
        assert_eq!(some.decode_kernels.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(some.decode_tokens_per_s, measured.decode_tokens_per_s);
        let why = some.kernels_missing.unwrap();
        assert!(why.contains("unplugged"), "{why}");
    }

    #[test]
    fn steps_are_begun_before_the_ones_before_them_have_ended_if_they_are_begun_ahead() {
        let sequence = |block: u32| StepSequence {
            lora: 0,
            position: 0,
            tokens: vec![0],
            blocks: vec![block],
            samples: vec![Sampling::default()],
        };
        let step = [sequence(0), sequence(1)];
        let calls = |ahead| {
            let mut decoder = Notes {
                shape: DecoderShape {
                    loras: 0,
                    vocabulary: 100,
                    context: 16,
                    blocks: 2,
                    max_rows: 2,
                    max_samples: 2,
                },
                calls: Vec::new(),
                collected: 0,
            };
            let (_, steps) = median(&mut decoder, &step, Duration::ZERO, ahead).unwrap();
            assert_eq!(steps, 3);
            decoder.calls
        };
        assert_eq!(calls(false), ["step [0, 0]"; 4]);
        let mut expected = vec!["submit [0, 0]".to_owned(), "draw [0, 0]".to_owned()];
        let mut tokens = [0, 0];
        for number in 1..=4 {
            expected.push(format!("submit after {tokens:?}"));
            expected.push(format!("collect {tokens:?}"));
            tokens = [10 * number, 10 * number + 1];
            expected.push(format!("draw {tokens:?}"));
        }
        expected.push(format!("collect {tokens:?}"));
        assert_eq!(calls(true), expected);
    }
}
