//! What products with experts read while a step runs, and weights of single experts, for the tests of this crate; not for use.

use std::ops::Range;

use tidegate_contract::StepSequence;

use super::GpuDecoder;
use crate::buffer::Buffer;
use crate::device::{DEADLINE, Gpu};
use crate::kernels::{CombinedWith, ExpertKernel, Kernel};
use crate::load_error::LoadError;
use crate::program::{Axis, Dispatch, Extent};
use crate::touch::Area;

/// Words of a tile in `groups`, and where its pairs begin (`shaders/experts/group.wgsl`).
const TILE: usize = 12;
const PAIRS: usize = 4;

/// What a product with experts read, by the buffer that told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertProduct {
    /// Its layer, among those with experts.
    pub layer: usize,
    /// The experts whose weights it binds.
    pub experts: Range<u32>,
    /// Bytes of the weights of each of them.
    pub each: u64,
    /// Pairs of a tile at most.
    pub most: usize,
    /// The expert and the pairs of a row and an expert of each tile that has a workgroup; one without pairs reads nothing.
    pub tiles: Vec<(u32, Vec<u32>)>,
}

/// Weights, or biases, of experts one after another in a buffer.
struct Stored<'a> {
    buffer: &'a Buffer,
    each: u64,
    first: u64,
    count: u64,
}

impl Stored<'_> {
    /// Where those of an expert lie; `None` if it is in another shard.
    fn of(&self, expert: u32) -> Option<Range<u64>> {
        let place = u64::from(expert).checked_sub(self.first)?;
        (place < self.count).then(|| place * self.each..(place + 1) * self.each)
    }
}

impl GpuDecoder {
    /// Runs a step in one pass, and says of each product with experts what it read. Neither draws nor gives logits.
    ///
    /// # Errors
    /// The device failed.
    pub fn experts_read(&mut self, step: &[StepSequence]) -> Result<Vec<ExpertProduct>, LoadError> {
        let extent = self.words.fill_whole(step);
        self.upload_words();
        let mut read = Vec::new();
        let mut layers = 0;
        for (index, dispatch) in self.program.dispatches().iter().enumerate() {
            let descriptor = wgpu::CommandEncoderDescriptor::default();
            let mut encoder = self.gpu.device.create_command_encoder(&descriptor);
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.program.encode(&mut pass, index..index + 1, extent);
            }
            self.gpu.queue.submit([encoder.finish()]);
            match dispatch.chosen(extent).map(|choice| choice.kernel) {
                Some(Kernel::Experts(ExpertKernel::Group { .. })) => layers += 1,
                Some(Kernel::Matmul(kernel)) if kernel.routed => {
                    let rows = kernel.tiling.extent()[1];
                    let product = self.product(dispatch, extent, rows as usize)?;
                    read.push(ExpertProduct {
                        layer: layers - 1,
                        ..product
                    });
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// What a product that has just run was told to read. Nothing writes that before the next layer with experts.
    fn product(
        &self,
        dispatch: &Dispatch,
        extent: Extent,
        most: usize,
    ) -> Result<ExpertProduct, LoadError> {
        let missing = || wrong("a product with experts has no tiles");
        let choice = dispatch.chosen(extent).ok_or_else(missing)?;
        let tiles = choice.grid.iter().find_map(|axis| match axis {
            Axis::Groups { .. } => Some(axis.workgroups(extent) as usize),
            _ => None,
        });
        let tiles = tiles.ok_or_else(missing)?;
        let groups = dispatch.buffers.last().ok_or_else(missing)?;
        let bytes = read(&self.gpu, groups, 0..(tiles * TILE * 4) as u64)?;
        let words: Vec<u32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect();
        let tiles = words.chunks_exact(TILE).map(|tile| {
            let pairs = (tile[1] as usize).min(TILE - PAIRS);
            (tile[0], tile[PAIRS..][..pairs].to_vec())
        });
        let weights = weights(dispatch);
        let of = weights.first().ok_or_else(missing)?;
        Ok(ExpertProduct {
            layer: 0,
            experts: of.first as u32..(of.first + of.count) as u32,
            each: weights.iter().map(|of| of.each).sum(),
            most,
            tiles: tiles.collect(),
        })
    }

    /// The weights and biases of an expert of a layer among those with experts, as they lie on the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn expert_weights(&self, layer: usize, expert: u32) -> Result<Vec<Vec<u8>>, LoadError> {
        let stored = self.stored(layer);
        let own = stored.iter().filter_map(|of| Some((of, of.of(expert)?)));
        own.map(|(of, range)| read(&self.gpu, of.buffer, range))
            .collect()
    }

    /// Puts others in their place.
    ///
    /// # Errors
    /// The device failed, or there are not as many.
    pub fn set_expert_weights(
        &self,
        layer: usize,
        expert: u32,
        weights: &[Vec<u8>],
    ) -> Result<(), LoadError> {
        let stored = self.stored(layer);
        let own = stored.iter().filter_map(|of| Some((of, of.of(expert)?)));
        let own: Vec<_> = own.collect();
        let sizes = own.iter().map(|(_, range)| range.end - range.start);
        if !sizes.eq(weights.iter().map(|bytes| bytes.len() as u64)) {
            return Err(wrong("weights of an expert have other sizes"));
        }
        for ((of, range), bytes) in own.into_iter().zip(weights) {
            let buffer = of.buffer.on_device()?;
            self.gpu
                .upload(buffer, range.start, bytes)
                .map_err(|error| LoadError::from_wait(error, 0))?;
        }
        Ok(())
    }

    /// What experts have in a layer among those with experts.
    fn stored(&self, layer: usize) -> Vec<Stored<'_>> {
        let mut stored = Vec::new();
        let (mut layers, mut experts) = (0, 0);
        for dispatch in self.program.dispatches() {
            let kernel = dispatch.kernels.first().map(|choice| choice.kernel);
            if matches!(kernel, Some(Kernel::Experts(ExpertKernel::Group { .. }))) {
                (layers, experts) = (layers + 1, 0);
            }
            if layers != layer + 1 {
                continue;
            }
            match kernel {
                Some(Kernel::Matmul(kernel)) if kernel.routed => {
                    let weights = weights(dispatch);
                    experts = weights
                        .iter()
                        .map(|of| of.first + of.count)
                        .max()
                        .unwrap_or(0);
                    stored.extend(weights);
                }
                Some(Kernel::Experts(
                    ExpertKernel::Activate
                    | ExpertKernel::Combine {
                        with: CombinedWith::Biases,
                        ..
                    },
                )) => stored.extend(dispatch.buffers.last().map(|buffer| Stored {
                    buffer,
                    each: buffer.size() / experts.max(1),
                    first: 0,
                    count: experts,
                })),
                _ => {}
            }
        }
        stored
    }
}

/// The weights of experts that a product binds. How many bytes they have is said by the buffers themselves.
fn weights(dispatch: &Dispatch) -> Vec<Stored<'_>> {
    let touches = dispatch.touches.iter();
    let weights = touches.filter_map(|touch| match touch.area {
        Area::Experts { first, count, .. } => {
            let buffer = dispatch.buffers.get(touch.buffer)?;
            Some(Stored {
                buffer,
                each: buffer.size() / u64::from(count.max(1)),
                first: u64::from(first),
                count: u64::from(count),
            })
        }
        _ => None,
    });
    weights.collect()
}

/// Reads a part of a buffer back.
fn read(gpu: &Gpu, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>, LoadError> {
    let bytes = range.end - range.start;
    let readback = gpu.readback("experts for the host", bytes);
    let descriptor = wgpu::CommandEncoderDescriptor::default();
    let mut encoder = gpu.device.create_command_encoder(&descriptor);
    encoder.copy_buffer_to_buffer(buffer.on_device()?, range.start, &readback, 0, bytes);
    let submission = gpu.queue.submit([encoder.finish()]);
    let mut read = Vec::new();
    let take = |bytes: &[u8]| read.extend_from_slice(bytes);
    gpu.read(&readback, bytes, submission, DEADLINE, take)
        .map_err(|error| LoadError::from_wait(error, 0))?;
    Ok(read)
}

fn wrong(what: &str) -> LoadError {
    LoadError::Device {
        reason: what.to_owned(),
    }
}
