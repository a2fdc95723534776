//! Where the time of a step goes.

use std::time::{Duration, Instant};

use tidegate_contract::{DecodeError, StepSequence};

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
    /// Runs the passes of a step with a timestamp before and after each dispatch, and adds them up by kernel, the longest first. They
    /// run in the submissions that the step runs in. Without the device's timestamps each dispatch is submitted and waited for by
    /// itself.
    ///
    /// # Errors
    /// As [`Decoder::step`](tidegate_contract::Decoder::step).
    pub fn profile(&mut self, step: &[StepSequence]) -> Result<Vec<KernelTime>, DecodeError> {
        let mut by_kernel: Vec<KernelTime> = Vec::new();
        self.begin_times(step)?;
        for pass in self.passes(step) {
            let (extent, times) = self.dispatch_times(step, &pass)?;
            for (index, time) in times {
                if let Some(kernel) = self.program.kernel(index, extent) {
                    add(&mut by_kernel, kernel.name(), time);
                }
            }
        }
        by_kernel.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
        Ok(by_kernel)
    }

    /// Milliseconds of each dispatch that runs, by its index in the plan, for each of these passes of a step.
    ///
    /// # Errors
    /// As [`Decoder::step`](tidegate_contract::Decoder::step).
    pub(crate) fn times(
        &mut self,
        step: &[StepSequence],
        passes: &[Vec<Piece>],
    ) -> Result<Vec<Vec<(usize, f64)>>, DecodeError> {
        self.begin_times(step)?;
        let mut all = Vec::new();
        for pass in passes {
            let times = self.dispatch_times(step, pass)?.1;
            let milliseconds = |(index, time): (usize, Duration)| (index, time.as_secs_f64() * 1e3);
            all.push(times.into_iter().map(milliseconds).collect());
        }
        Ok(all)
    }

    /// Checks a step whose times are asked for.
    fn begin_times(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        self.check(step)?;
        (self.submissions, self.dispatches) = (0, 0);
        Ok(())
    }

    /// What a pass of a step comes to, and the time of each dispatch that runs.
    fn dispatch_times(
        &mut self,
        step: &[StepSequence],
        pass: &[Piece],
    ) -> Result<(Extent, Vec<(usize, Duration)>), DecodeError> {
        let extent = self.words.fill(step, pass, &mut Vec::new());
        self.told(|decoder| {
            decoder.upload_words();
            let times = if decoder.gpu.features().timestamps {
                decoder.timestamps(extent)?
            } else {
                decoder.waits(extent)?
            };
            Ok((extent, times))
        })
    }

    /// The dispatches that run in each submission of the pass that was filled in.
    fn running(&self, extent: Extent) -> Vec<Vec<usize>> {
        let runs = |index: &usize| self.program.kernel(*index, extent).is_some();
        let (ranges, _) = self.submissions_of(extent);
        let ranges = ranges.into_iter();
        ranges.map(|range| range.filter(runs).collect()).collect()
    }

    /// The time of each dispatch that runs.
    fn timestamps(&mut self, extent: Extent) -> Result<Vec<(usize, Duration)>, WaitError> {
        let mut times = Vec::new();
        for submission in self.running(extent) {
            for some in submission.chunks(MOST) {
                times.extend(self.timestamps_of(some, extent)?);
                self.submissions += 1;
                self.dispatches += some.len() as u32;
            }
        }
        Ok(times)
    }

    /// The same of these, in one submission.
    fn timestamps_of(
        &self,
        dispatches: &[usize],
        extent: Extent,
    ) -> Result<Vec<(usize, Duration)>, WaitError> {
        let count = 2 * dispatches.len() as u32;
        let queries = self.gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("times"),
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let bytes = u64::from(count) * TIMESTAMP;
        let resolved = self.gpu.query_buffer("times", bytes);
        let readback = self.gpu.readback("times for the host", bytes);
        let mut encoder = self.encoder();
        for (at, &index) in dispatches.iter().enumerate() {
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
        encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
        encoder.copy_buffer_to_buffer(&resolved, 0, &readback, 0, bytes);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        let mut read: Vec<u64> = Vec::new();
        self.gpu
            .read(&readback, bytes, submission, self.deadline, |bytes| {
                read.extend(bytes.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)));
            })?;
        let period = f64::from(self.gpu.queue.get_timestamp_period());
        let time = |pair: &[u64]| {
            let ticks = pair[1].saturating_sub(pair[0]) as f64;
            Duration::from_secs_f64(ticks * period / 1e9)
        };
        let times = read.chunks_exact(2).map(time);
        Ok(dispatches.iter().copied().zip(times).collect())
    }

    /// The same, by the host's clock: with the way to the device and back in every number.
    fn waits(&mut self, extent: Extent) -> Result<Vec<(usize, Duration)>, WaitError> {
        let mut times = Vec::new();
        for index in self.running(extent).into_iter().flatten() {
            let mut encoder = self.encoder();
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.program.encode(&mut pass, index..index + 1, extent);
            }
            let started = Instant::now();
            let submission = self.gpu.queue.submit([encoder.finish()]);
            self.gpu.wait(Some(submission), self.deadline)?;
            times.push((index, started.elapsed()));
            self.submissions += 1;
            self.dispatches += 1;
        }
        Ok(times)
    }
}

/// Adds a dispatch to the others of its kernel.
fn add(by_kernel: &mut Vec<KernelTime>, kernel: &'static str, time: Duration) {
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
