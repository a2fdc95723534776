//! Weights on the device: rows padded with zeros to whole vectors of 4, several tensors in one matrix where one kernel
//! reads them together, split by rows where a matrix is larger than the adapter can bind.

use super::LoadError;
use super::plan::{common_precision, padded};
use crate::device::{Gpu, PIECE};
use crate::weights::{Precision, Tensor};

/// Columns of one shard at most, so that any tiling's grid fits the 65535 workgroups of an axis.
const MOST_COLUMNS: usize = 4 * 65_532;

/// A matrix on the device, `[columns, width]`: each of its rows makes one column of an output.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) precision: Precision,
    /// Rows, a multiple of 4.
    pub(crate) columns: usize,
    /// Elements of a row, a multiple of 4.
    pub(crate) width: usize,
    pub(crate) shards: Vec<Shard>,
}

/// Consecutive rows of a matrix.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) first: usize,
    pub(crate) columns: usize,
}

/// A matrix to be packed: which row of which tensor each row comes from.
pub(crate) struct Packing<'a> {
    tensors: Vec<Tensor<'a>>,
    /// Tensor and row of it; none for a row of zeros.
    rows: Vec<Option<(usize, usize)>>,
    /// A row is cut into blocks of this many elements, each padded by itself.
    block: usize,
}

impl<'a> Packing<'a> {
    /// A matrix as it is.
    pub(crate) fn plain(tensor: Tensor<'a>) -> Packing<'a> {
        let (rows, block) = (tensor.shape[0], tensor.shape[1]);
        Packing {
            tensors: vec![tensor],
            rows: (0..rows).map(|row| Some((0, row))).collect(),
            block,
        }
    }

    /// A matrix whose input is heads of `head_dim` elements, each padded.
    pub(crate) fn by_heads(tensor: Tensor<'a>, head_dim: usize) -> Packing<'a> {
        Packing {
            block: head_dim,
            ..Packing::plain(tensor)
        }
    }

    /// Several tensors one after another, the rows of each in heads of `head_dim`, each head padded.
    pub(crate) fn heads(tensors: Vec<Tensor<'a>>, head_dim: usize) -> Packing<'a> {
        let mut rows = Vec::new();
        for (index, tensor) in tensors.iter().enumerate() {
            for head in 0..tensor.shape[0] / head_dim {
                let row = |i| (i < head_dim).then_some((index, head * head_dim + i));
                rows.extend((0..padded(head_dim)).map(row));
            }
        }
        let block = tensors.first().map_or(1, |tensor| tensor.shape[1]);
        Packing {
            tensors,
            rows,
            block,
        }
    }

    /// The rows of two tensors in turn, padded together.
    pub(crate) fn alternating(a: Tensor<'a>, b: Tensor<'a>) -> Packing<'a> {
        let (count, block) = (a.shape[0], a.shape[1]);
        let rows = (0..2 * padded(count))
            .map(|i| (i / 2 < count).then_some((i % 2, i / 2)))
            .collect();
        Packing {
            tensors: vec![a, b],
            rows,
            block,
        }
    }

    /// Packs and uploads. `bytes` is the size of the whole model, for the error text.
    pub(crate) fn upload(
        mut self,
        gpu: &Gpu,
        label: &str,
        bytes: u64,
    ) -> Result<Matrix, LoadError> {
        self.rows.resize(padded(self.rows.len()), None);
        let precision = common_precision(self.tensors.iter().map(|tensor| tensor.precision));
        let source_width = self.tensors.first().map_or(0, |tensor| tensor.shape[1]);
        let width = source_width / self.block * padded(self.block);
        let row_bytes = width * precision.bytes();
        let fit = (gpu.largest_binding as usize / row_bytes).min(MOST_COLUMNS) / 4 * 4;
        if fit == 0 {
            return Err(LoadError::BufferTooLarge {
                what: "four rows of a weight matrix",
                bytes: 4 * row_bytes as u64,
                limit: gpu.largest_binding,
                remedy: "choose another adapter",
            });
        }
        let mut shards = Vec::new();
        let mut values = Vec::new();
        for (index, rows) in self.rows.chunks(fit).enumerate() {
            let buffer = gpu.storage(label, (rows.len() * row_bytes) as u64);
            let mut piece = Vec::with_capacity(PIECE + row_bytes);
            let mut offset = 0;
            for (at, row) in rows.iter().enumerate() {
                match *row {
                    None => piece.resize(piece.len() + row_bytes, 0),
                    Some((tensor, row)) => {
                        self.tensors[tensor]
                            .read(row * source_width..(row + 1) * source_width, &mut values)?;
                        pack_row(&values, self.block, precision, &mut piece);
                    }
                }
                if piece.len() >= PIECE || at + 1 == rows.len() {
                    gpu.upload(&buffer, offset, &piece)
                        .map_err(|error| LoadError::from_wait(error, bytes))?;
                    offset += piece.len() as u64;
                    piece.clear();
                }
            }
            shards.push(Shard {
                buffer,
                first: index * fit,
                columns: rows.len(),
            });
        }
        Ok(Matrix {
            precision,
            columns: self.rows.len(),
            width,
            shards,
        })
    }
}

/// Appends one row, each block padded with zeros. Narrowing is exact: values of that precision are what was read.
fn pack_row(values: &[f32], block: usize, precision: Precision, out: &mut Vec<u8>) {
    for values in values.chunks(block) {
        let zeros = (padded(block) - block) * precision.bytes();
        match precision {
            Precision::F32 => out.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Precision::F16 => out.extend(
                values
                    .iter()
                    .flat_map(|v| half::f16::from_f32(*v).to_le_bytes()),
            ),
            Precision::Bf16 => out.extend(
                values
                    .iter()
                    .flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()),
            ),
        }
        out.resize(out.len() + zeros, 0);
    }
}

/// A vector in f32, padded with zeros: `[padded(width)]`.
pub(crate) fn upload_vector(
    gpu: &Gpu,
    label: &str,
    tensor: &Tensor<'_>,
    bytes: u64,
) -> Result<wgpu::Buffer, LoadError> {
    let mut values = tensor.to_f32()?;
    values.resize(padded(values.len()), 0.0);
    let buffer = gpu.storage(label, (values.len() * 4) as u64);
    gpu.upload(&buffer, 0, bytemuck::cast_slice(&values))
        .map_err(|error| LoadError::from_wait(error, bytes))?;
    Ok(buffer)
}
