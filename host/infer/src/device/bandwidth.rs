//! What a device can move at most: the yardstick for kernels that wait for memory.

use std::time::Instant;

use super::gpu::DEADLINE;
use super::{Gpu, WaitError};
use crate::load_error::LoadError;

/// Bytes of the buffers that are copied: beyond every cache, within every limit.
const BYTES: u64 = 96 << 20;

/// Copies after the first, which is not counted.
const COPIES: u32 = 5;

/// Bytes per second that the device reads and writes while it copies a buffer of 96 MiB to another, both ways counted:
/// the best of five copies.
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
    let mut best = f64::INFINITY;
    for copy in 0..=COPIES {
        let mut encoder = gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&buffers[0], 0, &buffers[1], 0, BYTES);
        let commands = encoder.finish();
        let started = Instant::now();
        let submission = gpu.queue.submit([commands]);
        gpu.wait(Some(submission), DEADLINE).map_err(fail)?;
        if copy > 0 {
            best = best.min(started.elapsed().as_secs_f64());
        }
    }
    Ok(2.0 * BYTES as f64 / best)
}
