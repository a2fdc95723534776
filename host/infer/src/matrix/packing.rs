//! Which row of which tensor each row of a matrix is.

use tidegate_weights::Tensor;

use super::format::{GROUP, Plane, StorageFormat};
use super::layout::{Layout, TILE, Tile};
use super::{Matrix, Shard, padded};
use crate::buffer::Buffer;
use crate::kernels::{Heads, KernelSet};
use crate::load_error::LoadError;
use crate::site::Site;

/// Columns of one shard at most, so that any tiling's grid fits the 65535 workgroups of an axis.
const MOST_COLUMNS: usize = 4 * 65_504;

/// A matrix to be packed: which row of which tensor each row comes from.
///
/// Tensors are kept as they are stored. Stacked ones of unlike formats become shards of their own. Only where rows alternate
/// between unlike formats, or where heads of a quantized input must be padded, are they widened to f32: of experts those whose own gate
/// and up are unlike.
pub(crate) struct Packing<'a> {
    tensors: Vec<Tensor<'a>>,
    /// Tensor and row of it; none for a row of zeros.
    rows: Vec<Option<(usize, usize)>>,
    /// A row is cut into blocks of this many elements, each padded by itself.
    block: usize,
    /// So many tensors beside each other share vectors of four rows; 1 where each has its own.
    sharing: usize,
    /// Rows that stay together in a shard, a multiple of [`TILE`].
    unit: usize,
}

/// Consecutive rows that are stored the same way.
pub(super) struct Run {
    pub(super) stored: StorageFormat,
    pub(super) first: usize,
    pub(super) rows: usize,
}

impl<'a> Packing<'a> {
    /// A matrix as it is.
    pub(crate) fn plain(tensor: Tensor<'a>) -> Packing<'a> {
        Packing::stacked(vec![tensor])
    }

    /// Several tensors one after another.
    pub(crate) fn stacked(tensors: Vec<Tensor<'a>>) -> Packing<'a> {
        let block = tensors.first().map_or(1, Tensor::width);
        let rows = |(index, tensor): (usize, &Tensor<'_>)| {
            (0..tensor.rows())
                .map(move |row| Some((index, row)))
                .collect::<Vec<_>>()
        };
        let rows = tensors.iter().enumerate().flat_map(rows).collect();
        let uneven = |tensor: &Tensor<'_>| tensor.rows() % 4 != 0;
        let sharing = match tensors.iter().rev().skip(1).any(uneven) {
            true => tensors.len(),
            false => 1,
        };
        Packing {
            tensors,
            rows,
            block,
            sharing,
            unit: TILE,
        }
    }

    /// The matrices of experts one after another, each padded to whole tiles: of each expert one tensor, or two whose rows come in
    /// turn.
    pub(super) fn experts(of_each: Vec<Vec<Tensor<'a>>>) -> Packing<'a> {
        let mut rows = Vec::new();
        let (mut unit, mut before) = (TILE, 0);
        for tensors in &of_each {
            let (first, turns) = (before, tensors.len().max(1));
            let count = tensors.first().map_or(0, Tensor::rows);
            rows.extend(
                (0..turns * padded(count))
                    .map(|i| (i / turns < count).then_some((first + i % turns, i / turns))),
            );
            unit = (turns * padded(count)).next_multiple_of(TILE);
            rows.resize(rows.len().next_multiple_of(TILE), None);
            before += tensors.len();
        }
        let sharing = of_each.first().map_or(1, |tensors| tensors.len().max(1));
        let tensors: Vec<Tensor<'a>> = of_each.into_iter().flatten().collect();
        Packing {
            block: tensors.first().map_or(1, Tensor::width),
            tensors,
            rows,
            sharing,
            unit,
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
        let as_they_are = vec![0; tensors.len()];
        Packing::turned_heads(tensors, head_dim, &as_they_are)
    }

    /// The same with the rows of heads in the order of [`Heads::in_pairs`], where so many pairs of each tensor's turn.
    pub(crate) fn turned_heads(
        tensors: Vec<Tensor<'a>>,
        head_dim: usize,
        pairs: &[usize],
    ) -> Packing<'a> {
        let mut rows = Vec::new();
        for ((index, tensor), pairs) in tensors.iter().enumerate().zip(pairs) {
            for head in 0..tensor.rows() / head_dim {
                let order = Heads::in_pairs(head_dim, *pairs);
                rows.extend(order.map(|i| Some((index, head * head_dim + i))));
                rows.resize(rows.len().next_multiple_of(4), None);
            }
        }
        Packing {
            rows,
            sharing: 1,
            ..Packing::stacked(tensors)
        }
    }

    /// The rows of two tensors in turn, padded together.
    pub(crate) fn alternating(a: Tensor<'a>, b: Tensor<'a>) -> Packing<'a> {
        let (count, block) = (a.rows(), a.width());
        let rows = (0..2 * padded(count))
            .map(|i| (i / 2 < count).then_some((i % 2, i / 2)))
            .collect();
        Packing {
            tensors: vec![a, b],
            rows,
            block,
            sharing: 2,
            unit: TILE,
        }
    }

    /// Elements of a row of the tensors.
    fn source_width(&self) -> usize {
        self.tensors.first().map_or(0, Tensor::width)
    }

    /// Elements of an input row.
    pub(crate) fn width(&self) -> usize {
        padded(self.source_width() / self.block * padded(self.block))
    }

    /// Groups of a stored row.
    pub(super) fn groups(&self) -> usize {
        self.width().div_ceil(GROUP)
    }

    /// Elements that are padded by themselves.
    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// The tensor that a row comes from, and which of its rows; none for a row of zeros.
    pub(super) fn row(&self, index: usize) -> Option<(&Tensor<'a>, usize)> {
        let (tensor, row) = (*self.rows.get(index)?)?;
        Some((self.tensors.get(tensor)?, row))
    }

    /// Columns of an output row.
    pub(crate) fn columns(&self) -> usize {
        padded(self.rows.len())
    }

    /// Which tensor a row comes from, and which of its rows; none for a row of zeros.
    pub(crate) fn place(&self, index: usize) -> Option<(usize, usize)> {
        *self.rows.get(index)?
    }

    /// How the rows of each tensor are kept.
    fn stored(&self) -> impl Iterator<Item = StorageFormat> {
        self.tensors.chunks(self.sharing).flat_map(|sharing| {
            let stored = |tensor: &Tensor<'_>| self.stored_beside(tensor, sharing);
            sharing.iter().map(stored)
        })
    }

    /// How the rows of a tensor are kept that share vectors of four with those of others, or with its own alone.
    fn stored_beside(&self, tensor: &Tensor<'_>, sharing: &[Tensor<'_>]) -> StorageFormat {
        let own = StorageFormat::of(tensor.format());
        let of = |other: &Tensor<'_>| StorageFormat::of(other.format());
        let alike = sharing.iter().all(|other| of(other) == own);
        let whole = self.block == padded(self.block) || self.block == self.source_width();
        if alike && (own.is_float() || (whole && self.source_width().is_multiple_of(GROUP))) {
            own
        } else {
            StorageFormat::F32
        }
    }

    /// Rows that are stored the same way, each run a multiple of 4 rows.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let kinds: Vec<StorageFormat> = self.stored().collect();
        for (index, row) in self.rows.iter().enumerate() {
            let stored = row.and_then(|(tensor, _)| kinds.get(tensor).copied());
            match (runs.last_mut(), stored) {
                // What a run is stored as may change only where a vector of four output columns begins.
                (Some(run), Some(stored)) if run.stored != stored && index % 4 == 0 => {
                    runs.push(Run {
                        stored,
                        first: index,
                        rows: 1,
                    });
                }
                (Some(run), _) => run.rows += 1,
                (None, stored) => runs.push(Run {
                    stored: stored.unwrap_or(StorageFormat::F32),
                    first: index,
                    rows: 1,
                }),
            }
        }
        runs
    }

    /// The tensors that are widened to f32, and how many bytes more each takes for it than as it is handed on.
    pub(crate) fn widened(&self) -> impl Iterator<Item = (&Tensor<'a>, u64)> {
        let groups = self.groups();
        let tensors = self.tensors.iter().zip(self.stored());
        tensors.filter_map(move |(tensor, stored)| {
            let own = StorageFormat::of(tensor.format());
            let bytes = |stored: StorageFormat| (tensor.rows() * stored.row_bytes(groups)) as u64;
            (own != stored).then(|| (tensor, bytes(stored).saturating_sub(bytes(own))))
        })
    }

    /// How its rows are stored on the device, in any order and more than once.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = StorageFormat> {
        self.runs().into_iter().map(|run| run.stored)
    }

    /// Bytes it will take on the device.
    pub(crate) fn bytes(&self) -> u64 {
        let groups = self.groups();
        let run = |run: Run| run.rows.next_multiple_of(TILE) * run.stored.row_bytes(groups);
        self.runs().into_iter().map(|of| run(of) as u64).sum()
    }

    /// Packs and uploads for `kernels`. `bytes` is the size of the whole model, for the error text.
    pub(crate) fn upload(
        self,
        site: Site<'_>,
        kernels: KernelSet,
        label: &str,
        bytes: u64,
    ) -> Result<Matrix, LoadError> {
        let groups = self.groups();
        let mut shards = Vec::new();
        let limit = site.traits().largest_binding;
        for run in self.runs() {
            let plane = |plane: &Plane| plane.bytes(groups);
            let largest = run.stored.planes().iter().map(plane).max().unwrap_or(0);
            let unit = self.unit;
            let fit = (limit as usize / largest.max(1)).min(MOST_COLUMNS) / unit * unit;
            if fit == 0 {
                return Err(LoadError::BufferTooLarge {
                    what: match unit {
                        TILE => "32 rows of a weight matrix",
                        _ => "the matrix of an expert",
                    },
                    bytes: (unit * largest) as u64,
                    limit,
                    remedy: "choose another adapter",
                });
            }
            for first in (0..run.rows).step_by(fit) {
                let rows = fit.min(run.rows - first);
                let shard = Run {
                    stored: run.stored,
                    first: run.first + first,
                    rows,
                };
                let layout = Layout::of(kernels);
                shards.push(self.shard(site, layout, label, &shard, bytes)?);
            }
        }
        Ok(Matrix {
            columns: padded(self.rows.len()),
            width: self.width(),
            groups,
            shards,
        })
    }

    fn shard(
        &self,
        site: Site<'_>,
        layout: Layout,
        label: &str,
        run: &Run,
        bytes: u64,
    ) -> Result<Shard, LoadError> {
        let stored = run.stored;
        let nothing = || LoadError::Device {
            reason: format!("{label} has no elements"),
        };
        if self.groups() == 0 {
            return Err(nothing());
        }
        let buffers = match site {
            Site::Device(gpu) => self.send(gpu, layout, label, run, bytes)?,
            Site::Paper(_) => {
                let tile = Tile::new(layout, stored, self.groups());
                let tiles = run.rows.div_ceil(TILE);
                let bytes = tile.planes.iter().map(|plane| (plane.len() * tiles) as u64);
                bytes.map(|bytes| Buffer::planned(label, bytes)).collect()
            }
        };
        let mut buffers = buffers.into_iter();
        let values = buffers.next().ok_or_else(nothing)?;
        Ok(Shard {
            stored,
            layout,
            values,
            more: buffers.collect(),
            first: run.first,
            columns: padded(run.rows),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_weights::Format;

    /// Gate and up of three experts, of which one up is in another format; and the same where that is alone in its expert.
    #[test]
    fn one_unlike_tensor_widens_what_shares_its_vectors_and_nothing_else() {
        let (rows, width) = (6, 64);
        let bytes = vec![0; rows * width * 4];
        let tensor = |name: &str, format: Format| {
            let bytes = &bytes[..rows * format.row_bytes(width)];
            Tensor::in_memory(name, format, rows, width, bytes).unwrap()
        };
        let names = |packing: &Packing<'_>| -> Vec<(String, u64)> {
            let widened = packing.widened();
            widened
                .map(|(tensor, more)| (tensor.name().to_owned(), more))
                .collect()
        };
        let kinds = |packing: &Packing<'_>| packing.kinds().collect::<Vec<_>>();
        let (int8, f32) = (StorageFormat::Int8, StorageFormat::F32);
        let expert = |number: usize, up: Format| {
            let gate = tensor(&format!("gate {number}"), Format::Int8);
            vec![gate, tensor(&format!("up {number}"), up)]
        };
        let experts = [Format::Int8, Format::F32, Format::Int8];
        let packing = Packing::experts(
            experts
                .into_iter()
                .enumerate()
                .map(|(i, of)| expert(i, of))
                .collect(),
        );
        assert_eq!(kinds(&packing), [int8, f32, int8]);
        // 6 rows of 64 numbers: 4 bytes each for one, and two scales of 2 bytes.
        let more = 6 * 64 * 4 - 6 * (64 + 2 * 2);
        assert_eq!(names(&packing), [("gate 1".to_owned(), more)]);
        // Each expert's rows are padded to whole tiles.
        let tiles = (2 * TILE * int8.row_bytes(2) + TILE * f32.row_bytes(2)) as u64;
        assert_eq!(packing.bytes(), tiles);

        let down =
            [Format::Int8, Format::F16, Format::Int8].map(|format| vec![tensor("down", format)]);
        let packing = Packing::experts(down.into());
        assert_eq!(kinds(&packing), [int8, StorageFormat::F16, int8]);
        assert_eq!(names(&packing), []);

        // Six rows end within a vector of four, so all that are stacked share one.
        let stacked = [Format::Int8, Format::F16].map(|format| tensor("part", format));
        let packing = Packing::stacked(stacked.into());
        assert_eq!(kinds(&packing), [f32]);
        assert_eq!(names(&packing).len(), 2);
    }
}
