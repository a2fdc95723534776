//! Which row of which tensor each row of a matrix is, and the way of them to the device.

use std::num::NonZero;
use std::ops::Range;

use tidegate_weights::{RowParts, Tensor};

use super::layout::{Layout, Tile};
use super::storage::{DeviceRow, GROUP, StorageFormat, TILE};
use super::{Matrix, Shard, padded};
use crate::device::{Gpu, PIECE, WaitError};
use crate::kernels::KernelSet;
use crate::load_error::LoadError;

/// Columns of one shard at most, so that any tiling's grid fits the 65535 workgroups of an axis.
const MOST_COLUMNS: usize = 4 * 65_504;

/// A matrix to be packed: which row of which tensor each row comes from.
///
/// Tensors are kept as they are stored. Stacked ones of unlike formats become shards of their own. Only where rows alternate
/// between unlike formats, or where heads of a quantized input must be padded, are they widened to f32.
pub(crate) struct Packing<'a> {
    tensors: Vec<Tensor<'a>>,
    /// Tensor and row of it; none for a row of zeros.
    rows: Vec<Option<(usize, usize)>>,
    /// A row is cut into blocks of this many elements, each padded by itself.
    block: usize,
    /// Whether a vector of four rows may come from different tensors.
    mixed: bool,
}

/// Consecutive rows that are stored the same way.
struct Run {
    stored: StorageFormat,
    first: usize,
    rows: usize,
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
        let mixed = tensors
            .iter()
            .rev()
            .skip(1)
            .any(|tensor| tensor.rows() % 4 != 0);
        Packing {
            tensors,
            rows,
            block,
            mixed,
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
            for head in 0..tensor.rows() / head_dim {
                let row = |i| (i < head_dim).then_some((index, head * head_dim + i));
                rows.extend((0..padded(head_dim)).map(row));
            }
        }
        Packing {
            rows,
            mixed: false,
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
            mixed: true,
        }
    }

    /// Elements of a row of the tensors.
    fn source_width(&self) -> usize {
        self.tensors.first().map_or(0, Tensor::width)
    }

    /// Elements of an input row.
    fn width(&self) -> usize {
        padded(self.source_width() / self.block * padded(self.block))
    }

    fn groups(&self) -> usize {
        self.width().div_ceil(GROUP)
    }

    /// How the rows of a tensor are kept.
    fn stored(&self, tensor: &Tensor<'_>) -> StorageFormat {
        let own = StorageFormat::of(tensor.format());
        let alike = !self.mixed
            || self
                .tensors
                .iter()
                .all(|other| StorageFormat::of(other.format()) == own);
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
        for (index, row) in self.rows.iter().enumerate() {
            let stored = row.and_then(|(tensor, _)| Some(self.stored(self.tensors.get(tensor)?)));
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
        gpu: &Gpu,
        kernels: KernelSet,
        label: &str,
        bytes: u64,
    ) -> Result<Matrix, LoadError> {
        let groups = self.groups();
        let mut shards = Vec::new();
        for run in self.runs() {
            let largest = run.stored.group_bytes()[0] * groups;
            let fit =
                (gpu.largest_binding as usize / largest.max(1)).min(MOST_COLUMNS) / TILE * TILE;
            if fit == 0 {
                return Err(LoadError::BufferTooLarge {
                    what: "32 rows of a weight matrix",
                    bytes: (TILE * largest) as u64,
                    limit: gpu.largest_binding,
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
                let layout = Layout::of(kernels, run.stored);
                shards.push(self.shard(gpu, layout, label, &shard, bytes)?);
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
        gpu: &Gpu,
        layout: Layout,
        label: &str,
        run: &Run,
        bytes: u64,
    ) -> Result<Shard, LoadError> {
        let stored = run.stored;
        let tile = Tile::new(layout, stored, self.groups());
        let tiles = run.rows.div_ceil(TILE);
        let mut streams: Vec<Option<Stream>> = tile
            .parts
            .iter()
            .map(|part| Stream::new(gpu, label, part.len() * tiles))
            .collect();
        let failed = |error| LoadError::from_wait(error, bytes);
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        // So many are in memory at a time.
        let share = (PIECE / tile.parts.iter().map(Vec::len).sum::<usize>().max(1)).max(1);
        for first in (0..tiles).step_by(share * threads) {
            let end = tiles.min(first + share * threads);
            for parts in self.tiles(layout, run, first..end, threads)? {
                for (stream, part) in streams.iter_mut().zip(&parts) {
                    if let Some(stream) = stream {
                        stream.push(gpu, part).map_err(failed)?;
                    }
                }
            }
        }
        let mut buffers = Vec::with_capacity(streams.len());
        for stream in streams {
            buffers.push(match stream {
                None => None,
                Some(stream) => Some(stream.finish(gpu).map_err(failed)?),
            });
        }
        let mut buffers = buffers.into_iter();
        let mut next = || buffers.next().flatten();
        let (values, scales, high, supers) = (next(), next(), next(), next());
        let values = values.ok_or_else(|| LoadError::Device {
            reason: format!("{label} has no elements"),
        })?;
        Ok(Shard {
            stored,
            layout,
            values,
            scales,
            high,
            supers,
            first: run.first,
            columns: padded(run.rows),
        })
    }

    /// Packs tiles of a run by so many threads. What they give, one after another, is what one would give.
    fn tiles(
        &self,
        layout: Layout,
        run: &Run,
        tiles: Range<usize>,
        threads: usize,
    ) -> Result<Vec<[Vec<u8>; 4]>, LoadError> {
        let share = tiles.len().div_ceil(threads.max(1)).max(1);
        let end = tiles.end;
        let mut shares = tiles.step_by(share).map(|from| from..end.min(from + share));
        let Some(own) = shares.next() else {
            return Ok(Vec::new());
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = shares
                .map(|share| scope.spawn(move || self.tiles_alone(layout, run, share)))
                .collect();
            let mut packed = vec![self.tiles_alone(layout, run, own)?];
            for other in others {
                match other.join() {
                    Ok(parts) => packed.push(parts?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(packed)
        })
    }

    /// Packs tiles of a run, one after another.
    fn tiles_alone(
        &self,
        layout: Layout,
        run: &Run,
        tiles: Range<usize>,
    ) -> Result<[Vec<u8>; 4], LoadError> {
        let stored = run.stored;
        let mut tile = Tile::new(layout, stored, self.groups());
        let mut packed = tile
            .parts
            .each_ref()
            .map(|part| Vec::with_capacity(part.len() * tiles.len()));
        let mut numbers = DeviceRow::default();
        let mut scratch = Scratch::default();
        for index in tiles {
            for row in 0..TILE {
                let at = index * TILE + row;
                let source = (at < run.rows)
                    .then(|| self.rows.get(run.first + at))
                    .flatten();
                numbers.clear(stored, tile.groups());
                if let Some(Some((tensor, row))) = source
                    && let Some(tensor) = self.tensors.get(*tensor)
                {
                    self.read(tensor, *row, stored, &mut scratch, &mut numbers)?;
                }
                tile.put(row, &numbers);
            }
            for (packed, part) in packed.iter_mut().zip(&tile.parts) {
                packed.extend_from_slice(part);
            }
        }
        Ok(packed)
    }

    /// The numbers of one row.
    fn read(
        &self,
        tensor: &Tensor<'_>,
        row: usize,
        stored: StorageFormat,
        scratch: &mut Scratch,
        out: &mut DeviceRow,
    ) -> Result<(), LoadError> {
        if stored == StorageFormat::of(tensor.format()) {
            tensor.row_parts(row, &mut scratch.parts)?;
            if stored.is_float() {
                out.put_floats(&scratch.parts.values, stored.element(), self.block);
            } else {
                out.put_parts(stored, &scratch.parts);
            }
        } else {
            tensor.read_row(row, &mut scratch.wide)?;
            out.put_floats(bytemuck::cast_slice(&scratch.wide), 4, self.block);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Scratch {
    parts: RowParts,
    wide: Vec<f32>,
}

/// A buffer that is written from its beginning, piece by piece.
struct Stream {
    buffer: wgpu::Buffer,
    offset: u64,
    piece: Vec<u8>,
}

impl Stream {
    /// None for no bytes.
    fn new(gpu: &Gpu, label: &str, bytes: usize) -> Option<Self> {
        (bytes > 0).then(|| Stream {
            buffer: gpu.storage(label, bytes as u64),
            offset: 0,
            piece: Vec::with_capacity(bytes.min(PIECE)),
        })
    }

    fn push(&mut self, gpu: &Gpu, bytes: &[u8]) -> Result<(), WaitError> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.send(gpu)?;
        }
        Ok(())
    }

    fn send(&mut self, gpu: &Gpu) -> Result<(), WaitError> {
        gpu.upload(&self.buffer, self.offset, &self.piece)?;
        self.offset += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    fn finish(mut self, gpu: &Gpu) -> Result<wgpu::Buffer, WaitError> {
        if !self.piece.is_empty() {
            self.send(gpu)?;
        }
        Ok(self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_weights::Format;

    use super::*;

    const FORMATS: [Format; 7] = [
        Format::F32,
        Format::F16,
        Format::Bf16,
        Format::Int8,
        Format::Int4,
        Format::Q4K,
        Format::Q6K,
    ];

    /// Stored rows of which no two are alike, every number in them finite.
    fn bytes(format: Format, rows: usize, width: usize) -> Vec<u8> {
        let byte = |at: u32| ((at.wrapping_mul(2_654_435_761) >> 16) % 60) as u8;
        (0..(rows * format.row_bytes(width)) as u32)
            .map(byte)
            .collect()
    }

    fn tensor(format: Format, rows: usize, width: usize, bytes: &[u8]) -> Tensor<'_> {
        Tensor::in_memory("a tensor", format, rows, width, bytes).unwrap()
    }

    /// What so many threads make of all runs, `wave` tiles of each thread at a time.
    fn packed(
        packing: &Packing<'_>,
        layout: Layout,
        threads: usize,
        wave: usize,
    ) -> Result<Vec<[Vec<u8>; 4]>, LoadError> {
        let mut all = Vec::new();
        for run in packing.runs() {
            let tiles = run.rows.div_ceil(TILE);
            let mut of_run: [Vec<u8>; 4] = Default::default();
            for first in (0..tiles).step_by(wave * threads) {
                let end = tiles.min(first + wave * threads);
                for parts in packing.tiles(layout, &run, first..end, threads)? {
                    for (all, part) in of_run.iter_mut().zip(parts) {
                        all.extend(part);
                    }
                }
            }
            all.push(of_run);
        }
        Ok(all)
    }

    fn same_by_any_number_of_threads(packing: &Packing<'_>, what: &str) {
        for layout in [Layout::Rows, Layout::Tiles] {
            let alone = packed(packing, layout, 1, usize::MAX / 8).unwrap();
            let size: usize = alone.iter().flatten().map(Vec::len).sum();
            assert_eq!(size as u64, packing.bytes(), "{what}");
            for (threads, wave) in [(2, 1000), (3, 1), (7, 2), (64, 1)] {
                let found = packed(packing, layout, threads, wave).unwrap();
                assert!(found == alone, "{what}, {layout:?}, {threads} threads");
            }
        }
    }

    #[test]
    fn threads_pack_the_bytes_that_one_packs() {
        for format in FORMATS {
            for rows in [1, 31, 33, 300] {
                let widths = if StorageFormat::of(format).is_float() {
                    [42, 256]
                } else {
                    [256, 512]
                };
                for width in widths {
                    let (a, b) = (bytes(format, rows, width), bytes(Format::F16, rows, width));
                    let a = || tensor(format, rows, width, &a);
                    let b = || tensor(Format::F16, rows, width, &b);
                    let what = format!("{format:?}, {rows} rows of {width}");
                    same_by_any_number_of_threads(&Packing::plain(a()), &what);
                    same_by_any_number_of_threads(&Packing::stacked(vec![a(), b()]), &what);
                    same_by_any_number_of_threads(&Packing::alternating(a(), b()), &what);
                    same_by_any_number_of_threads(&Packing::heads(vec![a(), b()], 3), &what);
                    let head = width / 2;
                    same_by_any_number_of_threads(&Packing::by_heads(a(), head), &what);
                }
            }
        }
    }

    #[test]
    fn a_number_that_is_none_is_refused_by_whoever_comes_upon_it() {
        let mut rows = bytes(Format::F32, 200, 64);
        let end = rows.len();
        rows[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        let packing = Packing::plain(tensor(Format::F32, 200, 64, &rows));
        let error = |threads| {
            let failed = packed(&packing, Layout::Tiles, threads, 100).unwrap_err();
            failed.to_string()
        };
        assert!(error(1).contains("a tensor"), "{}", error(1));
        assert_eq!(error(4), error(1));
    }
}
