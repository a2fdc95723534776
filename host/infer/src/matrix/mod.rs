//! Weights on the device: kept in the format they are stored in, several tensors in one matrix where one kernel reads them
//! together, split by rows where a matrix is larger than the adapter can bind, in the order its kernels read best.

mod arrived;
mod dispatch;
mod experts;
mod format;
mod lab;
mod layout;
mod lora;
mod packing;
mod parts;
mod row;
mod sending;

use tidegate_weights::Tensor;

pub(crate) use arrived::Arrived;
pub(crate) use dispatch::{
    BeforeNorm, HeadsOutput, Input, Output, Quantized, most_quantized, squares_of,
};
pub(crate) use experts::{ExpertInput, ExpertMatrix, ExpertPacking};
pub(crate) use format::Description;
pub use format::{StorageFormat, WeightNumbers};
pub use layout::Layout;
pub(crate) use lora::{LoraMatrix, LoraOutput, LoraPacking, LoraRows};
pub(crate) use packing::Packing;
pub(crate) use parts::MOST_PARTS;

use crate::buffer::Buffer;
use crate::load_error::LoadError;
use crate::site::Site;

/// Elements to the next multiple of 4.
pub(crate) fn padded(elements: usize) -> usize {
    elements.next_multiple_of(4)
}

/// A matrix on the device, `[columns, width]`: each of its rows makes one column of an output.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// Rows, a multiple of 4; what is stored of them is padded with zeros to whole tiles.
    pub(crate) columns: usize,
    /// Elements of an input row, a multiple of 4; what is stored is padded with zeros to whole groups.
    pub(crate) width: usize,
    /// Groups of 32 elements of a stored row.
    groups: usize,
    shards: Vec<Shard>,
}

/// Consecutive rows of a matrix, stored one way.
#[derive(Debug)]
struct Shard {
    stored: StorageFormat,
    layout: Layout,
    values: Buffer,
    /// The other planes of its format.
    more: Vec<Buffer>,
    first: usize,
    /// A multiple of 4.
    columns: usize,
}

impl Matrix {
    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        let shard = |shard: &Shard| {
            let more: u64 = shard.more.iter().map(Buffer::size).sum();
            shard.values.size() + more
        };
        self.shards.iter().map(shard).sum()
    }
}

/// A vector in f32 with `offset` added to each element, padded with zeros: `[padded(width)]`. `bytes` is the size of the whole
/// model, for the error text.
pub(crate) fn upload_vector(
    site: Site<'_>,
    tensor: &Tensor<'_>,
    offset: f32,
    bytes: u64,
) -> Result<Buffer, LoadError> {
    let mut values = Vec::new();
    tensor.read_row(0, &mut values)?;
    for value in &mut values {
        *value += offset;
    }
    values.resize(padded(values.len()), 0.0);
    site.filled(tensor.name(), bytemuck::cast_slice(&values))
        .map_err(|error| LoadError::from_wait(error, bytes))
}
