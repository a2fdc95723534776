//! Encoders on a device: BERT and its kin, for embeddings and for scores of labels, of texts or of their tokens.
//!
//! The rows of all texts of a call lie one after another, without padding; a row sees the rows of its own text. GELU by the
//! error function is within 2e-7 of the true one (Abramowitz and Stegun 7.1.26 and the rounding of f32).

mod loading;
mod options;
mod pass;

use std::time::{Duration, Instant};

use tidegate_contract::{DecodeError, Encoder, EncoderOutput, EncoderText, check_texts};
use tidegate_weights::{Checkpoint, EncoderConfig, EncoderHead};
use tracing::{debug, info};

use loading::{DevicePassBuffers, EncoderLoading};
pub use options::EncoderOptions;
use options::EncoderSizes;
use pass::passes;
pub(crate) use pass::{PassSizes, PassWords};

use crate::decoder::MemoryReport;
use crate::device::{DEADLINE, Gpu, LOAD_DEADLINE, SpeedEstimate, WaitError};
use crate::held::tell_reencoded;
use crate::kernels::{
    Kernel, KernelSet, KernelVariant, asked_for, choose_kernels, products_by_name,
};
use crate::load_error::LoadError;
use crate::matrix::{Arrived, most_quantized};
use crate::program::{Program, each_fits, submissions};

/// A model that turns whole texts into vectors, on a device.
#[derive(Debug)]
pub struct GpuEncoder {
    gpu: Gpu,
    output: EncoderOutput,
    width: usize,
    vocabulary: usize,
    sizes: EncoderSizes,
    memory: MemoryReport,
    kernels: KernelSet,
    program: Program,
    pass_buffers: DevicePassBuffers,
    words: PassWords,
    speed: SpeedEstimate,
    /// Longest wait for a submission.
    deadline: Duration,
    /// The failure after which this encoder is of no more use.
    failed: Option<DecodeError>,
}

impl GpuEncoder {
    /// Uploads the weights of a model to a device and encodes a few texts, so that no request waits for a compiler.
    ///
    /// # Errors
    /// The model is no encoder or not whole, an option is out of range, the model does not fit the adapter, the kernels asked
    /// for do not run there, or the device failed. The device stays of use to others unless it was lost.
    pub fn load(
        gpu: &Gpu,
        checkpoint: &Checkpoint,
        options: &EncoderOptions,
    ) -> Result<GpuEncoder, LoadError> {
        GpuEncoder::load_told(gpu, checkpoint, options, &|_, _| {})
    }

    /// The same. `told` is how many bytes of the weights are on the device, and how many there will be.
    ///
    /// # Errors
    /// As [`GpuEncoder::load`].
    pub fn load_told(
        gpu: &Gpu,
        checkpoint: &Checkpoint,
        options: &EncoderOptions,
        told: &dyn Fn(u64, u64),
    ) -> Result<GpuEncoder, LoadError> {
        let config = encoder_config(checkpoint)?;
        let sizes = EncoderSizes::new(config, options)?;
        let tested = loading::tested(checkpoint, config)?;
        let kernels = choose_kernels(gpu, options.kernels, options.reproducible, &|_| {
            Ok(tested.clone())
        })?;
        let mut memory = sizes.report(loading::weight_bytes(checkpoint, config, &sizes)?);
        let loading = EncoderLoading {
            gpu,
            checkpoint,
            config,
            sizes: &sizes,
            kernels,
            checked: options.checked_shaders,
            total: memory.total(),
            arrived: Arrived::new(memory.weights, told),
        };
        let (loaded, fault) = gpu.scoped(|| loading.load());
        if let Some(fault) = fault {
            return Err(LoadError::from_fault(fault, memory.total()));
        }
        let (pass_buffers, program, scratch) = loaded?;
        memory.activations += scratch;
        gpu.flush()
            .map_err(|error| LoadError::from_wait(error, memory.total()))?;
        info!(
            adapter = %gpu.adapter(),
            kernels = products_by_name(kernels, &tested),
            weights_bytes = memory.weights,
            activations_bytes = memory.activations,
            dispatches = program.len(),
            "encoder loaded"
        );
        tell_reencoded(checkpoint)?;
        loading::widened(checkpoint, config)?.tell();
        let (output, width) = match &config.head {
            EncoderHead::Embedding(_) => (EncoderOutput::Embedding, config.hidden),
            EncoderHead::Classification(labels) => (EncoderOutput::Scores, labels.len()),
            EncoderHead::TokenClassification(labels) => (EncoderOutput::TokenScores, labels.len()),
            EncoderHead::Relevance(scale) => (EncoderOutput::Relevance(*scale), 1),
        };
        let mut encoder = GpuEncoder {
            gpu: gpu.clone(),
            output,
            width,
            vocabulary: config.vocabulary,
            sizes,
            memory,
            kernels,
            program,
            pass_buffers,
            words: PassWords::default(),
            speed: SpeedEstimate::new(gpu.is_software()),
            deadline: LOAD_DEADLINE,
            failed: None,
        };
        encoder.warm_up()?;
        Ok(encoder)
    }

    /// What an encoder would take on a device at most, without loading it.
    ///
    /// # Errors
    /// As [`GpuEncoder::load`], for everything that can be known before a device is opened.
    pub fn estimate(
        checkpoint: &Checkpoint,
        options: &EncoderOptions,
    ) -> Result<MemoryReport, LoadError> {
        let config = encoder_config(checkpoint)?;
        let sizes = EncoderSizes::new(config, options)?;
        let mut report = sizes.report(loading::weight_bytes(checkpoint, config, &sizes)?);
        if asked_for(options.kernels)? == Some(KernelVariant::Dot) {
            report.activations +=
                most_quantized(sizes.rows, [sizes.hidden, sizes.query, sizes.intermediate]);
        }
        Ok(report)
    }

    /// What it takes on the device, by part.
    #[must_use]
    pub fn memory_report(&self) -> MemoryReport {
        self.memory
    }

    /// The kernels it runs.
    #[must_use]
    pub fn kernels(&self) -> KernelSet {
        self.kernels
    }

    /// Every kernel that some pass may run.
    #[doc(hidden)]
    #[must_use]
    pub fn kernels_in_use(&self) -> Vec<Kernel> {
        self.program.kernels().collect()
    }

    /// Drivers compile at the first dispatch: runs every kernel once. Then one row and several run again, so that the first call
    /// is cut by a speed that was measured.
    fn warm_up(&mut self) -> Result<(), LoadError> {
        let started = Instant::now();
        let mut vectors = Vec::new();
        let (compiled, measured) = ([1, 4, 9], [1, 9]);
        for (index, rows) in compiled.into_iter().chain(measured).enumerate() {
            if index == compiled.len() {
                // What the passes up to here took was compiling.
                self.speed = SpeedEstimate::new(self.gpu.is_software());
            }
            let text = vec![0; rows.min(self.sizes.context)];
            self.encode(&[EncoderText::single(&text)], &mut vectors)
                .map_err(|error| LoadError::from_decode(error, self.memory.total()))?;
        }
        self.deadline = DEADLINE;
        let seconds = started.elapsed().as_secs_f64();
        debug!(seconds, "kernels compiled");
        Ok(())
    }

    /// Rows of a pass at most, so that every dispatch over these texts stays within the cap of a submission, as far as texts are
    /// not cut.
    fn pass_rows(&mut self, texts: &[EncoderText<'_>]) -> usize {
        let all: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let mut rows = self.sizes.rows.min(all).max(1);
        loop {
            let fits = passes(texts, rows, self.sizes.quads)
                .into_iter()
                .all(|pass| {
                    let texts = texts.get(pass).unwrap_or_default();
                    let extent = self.words.fill(texts, self.sizes.of_pass());
                    let loads = self.program.loads(extent, &self.words.row_contexts);
                    each_fits(&loads, extent.rows, &self.speed)
                });
            if rows == 1 || fits {
                return rows;
            }
            rows = rows.div_ceil(2);
        }
    }

    fn run_pass(
        &mut self,
        texts: &[EncoderText<'_>],
        vectors: &mut Vec<f32>,
    ) -> Result<(), WaitError> {
        let started = Instant::now();
        let extent = self.words.fill(texts, self.sizes.of_pass());
        let queue = &self.gpu.queue;
        queue.write_buffer(
            &self.pass_buffers.step,
            0,
            bytemuck::cast_slice(&self.words.step),
        );
        queue.write_buffer(
            &self.pass_buffers.tiles,
            0,
            bytemuck::cast_slice(&self.words.tiles),
        );
        queue.write_buffer(
            &self.pass_buffers.texts,
            0,
            bytemuck::cast_slice(&self.words.texts),
        );
        let stride = self.width.next_multiple_of(4) * 4;
        let rows = match self.output {
            EncoderOutput::TokenScores => extent.rows as usize,
            _ => texts.len(),
        };
        let bytes = (rows * stride) as u64;
        let loads = self.program.loads(extent, &self.words.row_contexts);
        let ranges = submissions(&loads, extent.rows, &self.speed);
        let last = ranges.len().saturating_sub(1);
        let mut submitted = Vec::with_capacity(ranges.len());
        for (index, range) in ranges.into_iter().enumerate() {
            let mut encoder = self
                .gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.program.encode(&mut pass, range, extent);
            }
            if index == last {
                let pass_buffers = &self.pass_buffers;
                encoder.copy_buffer_to_buffer(
                    &pass_buffers.vectors,
                    0,
                    &pass_buffers.readback,
                    0,
                    bytes,
                );
            }
            submitted.push(self.gpu.queue.submit([encoder.finish()]));
        }
        let Some(submission) = self.gpu.wait_for_all_but_one(submitted, self.deadline)? else {
            return Ok(());
        };
        let (width, unit) = (self.width, self.output == EncoderOutput::Embedding);
        let take = |bytes: &[u8]| {
            for row in bytes.chunks_exact(stride) {
                let row = row.as_chunks().0.iter().take(width);
                let row: Vec<f32> = row.map(|b| f32::from_le_bytes(*b)).collect();
                let length = if unit { length(&row) } else { 1.0 };
                vectors.extend(row.iter().map(|x| (f64::from(*x) / length) as f32));
            }
        };
        self.gpu.read(
            &self.pass_buffers.readback,
            bytes,
            submission,
            self.deadline,
            take,
        )?;
        let load = loads.into_iter().sum();
        self.speed.learn(extent.rows, load, started.elapsed());
        Ok(())
    }
}

/// Length of a vector, at least that by which `torch.nn.functional.normalize` divides.
fn length(vector: &[f32]) -> f64 {
    let squares = vector.iter().map(|x| f64::from(*x).powi(2));
    squares.sum::<f64>().sqrt().max(1e-12)
}

/// What of a checkpoint is an encoder.
fn encoder_config(checkpoint: &Checkpoint) -> Result<&EncoderConfig, LoadError> {
    checkpoint.encoder().ok_or_else(|| LoadError::Kind {
        architecture: checkpoint
            .decoder()
            .map_or_else(String::new, |config| config.architecture.clone()),
        wanted: "encoder",
    })
}

impl Encoder for GpuEncoder {
    fn output(&self) -> EncoderOutput {
        self.output
    }

    fn width(&self) -> usize {
        self.width
    }

    fn context(&self) -> usize {
        self.sizes.context
    }

    fn types(&self) -> usize {
        self.sizes.types
    }

    fn max_rows(&self) -> usize {
        self.sizes.rows
    }

    fn memory(&self) -> u64 {
        self.memory.total()
    }

    fn encode(
        &mut self,
        texts: &[EncoderText<'_>],
        vectors: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let sizes = &self.sizes;
        let (types, context) = (sizes.types, sizes.context);
        check_texts(texts, self.vocabulary, types, context, sizes.rows)?;
        vectors.clear();
        for pass in passes(texts, self.pass_rows(texts), self.sizes.quads) {
            let gpu = self.gpu.clone();
            let texts = texts.get(pass).unwrap_or_default();
            let (result, fault) = gpu.scoped(|| self.run_pass(texts, vectors));
            let result = match fault {
                Some(fault) => Err(WaitError::Fault(fault)),
                None => result,
            };
            let result = result.map_err(|error| match error {
                WaitError::Fault(fault) => DecodeError::from(fault),
                WaitError::Deadline(limit) => DecodeError::DeadlineExceeded { limit },
            });
            if let Err(error) = &result
                && error.is_fatal()
            {
                self.failed = Some(error.clone());
            }
            result?;
        }
        Ok(())
    }
}
