//! Where the time of a step goes.

use std::time::{Duration, Instant};

use tidegate_contract::{DecodeError, Decoder, StepSequence};

use super::GpuDecoder;
use super::passes::Piece;
use crate::device::WaitError;
use crate::program::Extent;

/// What the dispatches of one kernel took together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// The kernel.
    pub kernel: &'static str,
    /// Time on the device.
    pub time: Duration,
    /// Dispatches.
    pub dispatches: u32,
}

/// Bytes of a timestamp.
const TIMESTAMP: u64 = 8;

/// Dispatches whose timestamps fit into one query set: two for each, 4096 in all, as WebGPU says.
const MOST: usize = 2048;

impl GpuDecoder {
    /// Runs the first pass of a step with a timestamp before and after each dispatch, and adds them up by kernel, the
    /// longest first. Without the device's timestamps each dispatch is submitted and waited for by itself.
    ///
    /// # Errors
    /// As [`Decoder::step`].
    pub fn profile(&mut self, step: &[StepSequence]) -> Result<Vec<KernelTime>, DecodeError> {
        let Some(pass) = self.passes(step).into_iter().next() else {
            return Ok(Vec::new());
        };
        let (extent, times) = self.dispatch_times(step, &pass)?;
        let mut by_kernel: Vec<KernelTime> = Vec::new();
        for (index, time) in times {
            let Some(kernel) = self.program.kernel(index, extent) else {
                continue;
            };
            let kernel = kernel.name();
            match by_kernel.iter_mut().find(|known| known.kernel == kernel) {
                Some(known) => {
                    known.time += time;
                    known.dispatches += 1;
                }
                None => by_kernel.push(KernelTime {
                    kernel,
                    time,
                    dispatches: 1,
                }),
            }
        }
        by_kernel.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
        Ok(by_kernel)
    }

    /// Milliseconds of each dispatch that runs, by its index in the plan, for each pass of a step.
    ///
    /// # Errors
    /// As [`Decoder::step`].
    pub(crate) fn times(
        &mut self,
        step: &[StepSequence],
    ) -> Result<Vec<Vec<(usize, f64)>>, DecodeError> {
        let mut all = Vec::new();
        for pass in self.passes(step) {
            let times = self.dispatch_times(step, &pass)?.1;
            let milliseconds = |(index, time): (usize, Duration)| (index, time.as_secs_f64() * 1e3);
            all.push(times.into_iter().map(milliseconds).collect());
        }
        Ok(all)
    }

    /// What a pass of a step comes to, and the time of each dispatch that runs.
    fn dispatch_times(
        &mut self,
        step: &[StepSequence],
        pass: &[Piece],
    ) -> Result<(Extent, Vec<(usize, Duration)>), DecodeError> {
        self.shape().check(step)?;
        let extent = self.words.fill(step, pass, &mut Vec::new());
        self.upload_words();
        let times = if self.gpu.features().timestamps {
            self.timestamps(extent)
        } else {
            self.waits(extent)
        };
        Ok((extent, times?))
    }

    /// The time of each dispatch that runs.
    fn timestamps(&self, extent: Extent) -> Result<Vec<(usize, Duration)>, WaitError> {
        let running: Vec<usize> = (0..self.program.len())
            .filter(|index| self.program.kernel(*index, extent).is_some())
            .collect();
        let period = f64::from(self.gpu.queue.get_timestamp_period());
        let mut times = Vec::with_capacity(running.len());
        for some in running.chunks(MOST) {
            let queries = self.gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("times"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * some.len() as u32,
            });
            let bytes = 2 * some.len() as u64 * TIMESTAMP;
            let resolved = self.gpu.query_buffer("times", bytes);
            let readback = self.gpu.readback("times for the host", bytes);
            let mut encoder = self
                .gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for (at, &index) in some.iter().enumerate() {
                let at = 2 * at as u32;
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &queries,
                    beginning_of_pass_write_index: Some(at),
                    end_of_pass_write_index: Some(at + 1),
                };
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(writes),
                });
                self.program.encode(&mut pass, index..index + 1, extent);
            }
            encoder.resolve_query_set(&queries, 0..2 * some.len() as u32, &resolved, 0);
            encoder.copy_buffer_to_buffer(&resolved, 0, &readback, 0, bytes);
            let submission = self.gpu.queue.submit([encoder.finish()]);
            let mut read = Vec::new();
            self.gpu
                .read(&readback, bytes, submission, self.deadline, |bytes| {
                    read.extend(bytes.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)));
                })?;
            for (&index, pair) in some.iter().zip(read.chunks_exact(2)) {
                let ticks = pair[1].saturating_sub(pair[0]) as f64;
                times.push((index, Duration::from_secs_f64(ticks * period / 1e9)));
            }
        }
        Ok(times)
    }

    /// The same, by the host's clock: with the way to the device and back in every number.
    fn waits(&self, extent: Extent) -> Result<Vec<(usize, Duration)>, WaitError> {
        let mut times = Vec::new();
        for index in 0..self.program.len() {
            if self.program.kernel(index, extent).is_none() {
                continue;
            }
            let mut encoder = self
                .gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.program.encode(&mut pass, index..index + 1, extent);
            }
            let started = Instant::now();
            let submission = self.gpu.queue.submit([encoder.finish()]);
            self.gpu.wait(Some(submission), self.deadline)?;
            times.push((index, started.elapsed()));
        }
        Ok(times)
    }
}
