//! What a device can move at most: the yardstick for kernels that wait for memory.

use std::time::{Duration, Instant};

use super::gpu::DEADLINE;
use super::{Gpu, WaitError};
use crate::load_error::LoadError;

/// Bytes of the buffers that are copied: beyond every cache, within every limit.
const BYTES: u64 = 96 << 20;

/// Submissions after the first, which is not counted.
const SUBMISSIONS: u32 = 5;

/// How long a submission has to take at least, so that what it takes to submit and to wait for it does not count, and copies in
/// one at most.
const LONG_ENOUGH: Duration = Duration::from_millis(20);
const MOST_COPIES: u32 = 1024;

/// Bytes per second that the device reads and writes while it copies a buffer of 96 MiB to another, both ways counted:
/// the best of five submissions, of as many copies as take 20 ms.
///
/// # Errors
/// The device failed, or has no room for two such buffers.
pub fn measure_copy_bandwidth(gpu: &Gpu) -> Result<f64, LoadError> {
    let fail = |error: WaitError| LoadError::from_wait(error, 2 * BYTES);
    let (buffers, fault) =
        gpu.scoped(|| [gpu.storage("copied", BYTES), gpu.storage("copy", BYTES)]);
    if let Some(fault) = fault {
        return Err(LoadError::from_fault(fault, 2 * BYTES));
    }
    let copy = |copies: u32| -> Result<Duration, LoadError> {
        let mut encoder = gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for _ in 0..copies {
            encoder.copy_buffer_to_buffer(&buffers[0], 0, &buffers[1], 0, BYTES);
        }
        let commands = encoder.finish();
        let started = Instant::now();
        let submission = gpu.queue.submit([commands]);
        gpu.wait(Some(submission), DEADLINE).map_err(fail)?;
        Ok(started.elapsed())
    };
    copy(1)?;
    let mut copies = 1;
    while copies < MOST_COPIES && copy(copies)? < LONG_ENOUGH {
        copies *= 2;
    }
    let mut best = Duration::MAX;
    for _ in 0..SUBMISSIONS {
        best = best.min(copy(copies)?);
    }
    Ok(2.0 * BYTES as f64 * f64::from(copies) / best.as_secs_f64())
}
