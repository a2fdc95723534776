//! The decoder on a device.

use std::time::Duration;

use tracing::{debug, info};

use super::parts::Parts;
use super::plan::Plan;
use super::program::{Program, step_words};
use super::{
    DecodeError, Decoder, DecoderOptions, DecoderShape, KernelFamily, LoadError, MemoryReport,
    StepRow, check_rows,
};
use crate::config::ModelConfig;
use crate::device::{Adapter, DEADLINE, Gpu, WaitError};
use crate::kernels::Pipelines;
use crate::weights::Weights;

/// A Llama-family model on a device.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Gpu,
    shape: DecoderShape,
    memory: MemoryReport,
    family: KernelFamily,
    program: Program,
    /// `shaders/step.wgsl`.
    step: wgpu::Buffer,
    /// `[max_rows, vocabulary padded to 4]` f32.
    logits: wgpu::Buffer,
    readback: wgpu::Buffer,
    words: Vec<u32>,
    dispatches: u32,
    /// Longest wait for a step.
    deadline: Duration,
    /// The failure after which this decoder is of no more use.
    failed: Option<DecodeError>,
}

impl GpuDecoder {
    /// Opens the adapter, uploads the weights and runs one step of each tiling, so that no request waits for a compiler.
    ///
    /// # Errors
    /// The weights do not fit the configuration, the model does not fit the adapter, or the device failed.
    pub fn load(
        adapter: &Adapter,
        config: &ModelConfig,
        weights: Weights,
        options: DecoderOptions,
    ) -> Result<GpuDecoder, LoadError> {
        weights.check(config)?;
        let plan = Plan::new(config, &weights, &options)?;
        let family = match options.kernels {
            Some(family) => family,
            None => family_from_environment()?.unwrap_or_else(|| adapter.kernel_family()),
        };
        let gpu = Gpu::open(adapter).map_err(|reason| LoadError::Open {
            adapter: adapter.info().to_string(),
            reason,
        })?;
        let mut pipelines = Pipelines::new(&gpu, family, options.checked_shaders);
        let parts = Parts {
            gpu: &gpu,
            config,
            weights: &weights,
            plan: &plan,
            options: &options,
        };
        let [step, logits, readback] = parts.ends()?;
        let program = parts.program(&mut pipelines, &step, &logits)?;
        gpu.flush()
            .map_err(|error| LoadError::from_wait(error, plan.memory.total()))?;
        info!(
            adapter = %adapter.info(),
            kernels = family.name(),
            weights_bytes = plan.memory.weights,
            kv_cache_bytes = plan.memory.kv_cache,
            activations_bytes = plan.memory.activations,
            "model loaded"
        );
        let mut decoder = GpuDecoder {
            gpu,
            shape: options.shape(config),
            memory: plan.memory,
            family,
            program,
            step,
            logits,
            readback,
            words: Vec::new(),
            dispatches: 0,
            deadline: DEADLINE,
            failed: None,
        };
        decoder.warm_up()?;
        Ok(decoder)
    }

    /// What it takes on the device.
    #[must_use]
    pub fn memory(&self) -> MemoryReport {
        self.memory
    }

    /// The kernels it runs.
    #[must_use]
    pub fn kernels(&self) -> KernelFamily {
        self.family
    }

    /// Drivers compile at the first dispatch: runs every kernel once, on slot 0, which no sequence has written yet.
    fn warm_up(&mut self) -> Result<(), LoadError> {
        let started = std::time::Instant::now();
        let most = self.shape.max_rows.min(self.shape.context).min(9) as u32;
        let mut logits = Vec::new();
        for rows in [1, 4, most] {
            let row = |position| StepRow {
                slot: 0,
                token: 0,
                position,
                wants_logits: true,
            };
            let rows: Vec<StepRow> = (0..rows.min(most)).map(row).collect();
            self.step(&rows, &mut logits).map_err(|error| match error {
                DecodeError::DeviceLost { reason } => LoadError::DeviceLost { reason },
                DecodeError::OutOfMemory { reason } => LoadError::OutOfMemory {
                    bytes: self.memory.total(),
                    reason,
                },
                DecodeError::DeadlineExceeded { limit } => LoadError::DeadlineExceeded { limit },
                other => LoadError::Device {
                    reason: other.to_string(),
                },
            })?;
        }
        debug!(
            seconds = started.elapsed().as_secs_f64(),
            "kernels compiled"
        );
        Ok(())
    }

    fn run(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), WaitError> {
        let extent = step_words(rows, &mut self.words);
        self.gpu
            .queue
            .write_buffer(&self.step, 0, bytemuck::cast_slice(&self.words));
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.dispatches = self.program.encode(&mut pass, extent);
        }
        let vocabulary = self.shape.vocabulary;
        let stride = vocabulary.next_multiple_of(4);
        let bytes = (extent.logit_rows as usize * stride * 4) as u64;
        if bytes == 0 {
            let submission = self.gpu.queue.submit([encoder.finish()]);
            return self.gpu.wait(Some(submission), self.deadline);
        }
        encoder.copy_buffer_to_buffer(&self.logits, 0, &self.readback, 0, bytes);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.gpu
            .read(&self.readback, bytes, submission, self.deadline, |bytes| {
                for row in bytes.chunks_exact(stride * 4) {
                    logits.extend(
                        row.as_chunks()
                            .0
                            .iter()
                            .take(vocabulary)
                            .map(|b| f32::from_le_bytes(*b)),
                    );
                }
            })
    }
}

impl Decoder for GpuDecoder {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn step(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        check_rows(rows, &self.shape)?;
        logits.clear();
        let result = self.run(rows, logits).map_err(|error| match error {
            WaitError::Fault(fault) => DecodeError::from(fault),
            WaitError::Deadline(limit) => DecodeError::DeadlineExceeded { limit },
        });
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn dispatches_last_step(&self) -> u32 {
        self.dispatches
    }
}

fn family_from_environment() -> Result<Option<KernelFamily>, LoadError> {
    match std::env::var("TIDEGATE_KERNELS") {
        Err(_) => Ok(None),
        Ok(value) => match value.as_str() {
            "" => Ok(None),
            "portable" => Ok(Some(KernelFamily::Portable)),
            "software" => Ok(Some(KernelFamily::Software)),
            _ => Err(LoadError::Kernels { value }),
        },
    }
}

#[cfg(test)]
mod tests;
