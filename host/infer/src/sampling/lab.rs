//! Draws from given logits, for the tests and benches of this crate; not for use.

use tidegate_contract::{DecodeError, Sampled, Sampling};

use super::Sampler;
use crate::device::{DEADLINE, Gpu, WaitError};
use crate::kernels::lab::Lab;
use crate::kernels::{Kernel, KernelSet};
use crate::load_error::LoadError;

/// A sampler with logits of its own.
#[derive(Debug)]
pub struct Draws {
    pub(super) gpu: Gpu,
    pub(super) sampler: Sampler,
    vocabulary: usize,
}

impl Lab {
    /// A sampler for up to `max_samples` rows of logits.
    ///
    /// # Errors
    /// The device failed.
    pub fn draws(&self, vocabulary: usize, max_samples: usize) -> Result<Draws, LoadError> {
        Draws::new(
            &self.gpu,
            self.kernels,
            self.checked,
            [vocabulary, max_samples],
        )
    }
}

impl Draws {
    /// A sampler of a shape: vocabulary and most samples.
    pub(super) fn new(
        gpu: &Gpu,
        kernels: KernelSet,
        checked: bool,
        [vocabulary, max_samples]: [usize; 2],
    ) -> Result<Draws, LoadError> {
        let bytes = max_samples * vocabulary.next_multiple_of(4) * 4;
        let logits = gpu.storage("logits", bytes as u64);
        let results = gpu.storage("sampled tokens", Sampler::result_bytes_of(max_samples));
        let shape = [vocabulary, max_samples];
        let sampler = Sampler::load(gpu, kernels, checked, shape, [&logits, &results])?;
        Ok(Draws {
            gpu: gpu.clone(),
            sampler,
            vocabulary,
        })
    }

    /// Writes the logits of the first rows, `[rows, vocabulary]`. What is in their padding must not matter.
    pub fn upload(&self, logits: &[f32]) {
        let mut padded = Vec::new();
        for row in logits.chunks_exact(self.vocabulary) {
            padded.extend_from_slice(row);
            padded.resize(padded.len().next_multiple_of(4), 1e30);
        }
        let bytes = bytemuck::cast_slice(&padded);
        self.gpu.queue.write_buffer(&self.sampler.logits, 0, bytes);
    }

    /// Draws from the first rows. Masks and penalties stay in the logits.
    ///
    /// # Errors
    /// As [`tidegate_contract::Decoder::step`].
    pub fn draw(&mut self, samplings: &[&Sampling]) -> Result<Vec<Sampled>, DecodeError> {
        let samplings: Vec<(usize, &Sampling)> = samplings.iter().copied().enumerate().collect();
        self.sampler.prepare(&samplings)?;
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.sampler.encode(&mut pass);
        }
        self.sampler.copy(&mut encoder);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        let mut sampled = Vec::new();
        self.sampler
            .read(&samplings, submission, DEADLINE, &mut sampled)
            .map_err(|error| match error {
                WaitError::Fault(fault) => DecodeError::from(fault),
                WaitError::Deadline(limit) => DecodeError::DeadlineExceeded { limit },
            })?;
        Ok(sampled)
    }

    /// The kernels of the last draw, in order.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = Kernel> {
        self.sampler.kernels_prepared()
    }
}
