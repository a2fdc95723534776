//! The way of weights to a device: rows are read from their file, put into the order of the device by as many threads as there are
//! cores, and uploaded by the one that loads the model.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tidegate_weights::{RowParts, Tensor};

use super::format::{Elements, StorageFormat};
use super::layout::{Layout, TILE, Tile};
use super::packing::{Packing, Run};
use super::row::DeviceRow;
use crate::buffer::Buffer;
use crate::device::{Gpu, PIECE};
use crate::load_error::LoadError;

/// Threads that pack at most: more than memory can feed are of no use.
const MOST_THREADS: usize = 8;

/// Tiles that were packed together, and where they begin.
struct Packed {
    first: usize,
    /// Those of each plane of their format.
    planes: Vec<Vec<u8>>,
}

/// What packs a run of rows.
struct Packer<'a> {
    packing: &'a Packing<'a>,
    layout: Layout,
    run: &'a Run,
    groups: usize,
    /// Tiles of a piece.
    each: usize,
    tiles: usize,
    /// Pieces that somebody has begun with.
    taken: AtomicUsize,
}

impl Packing<'_> {
    /// Packs a run of rows and uploads it: a buffer for each plane of its format. `bytes` is the size of the whole model, for the
    /// error text.
    pub(super) fn send(
        &self,
        gpu: &Gpu,
        layout: Layout,
        label: &str,
        run: &Run,
        bytes: u64,
    ) -> Result<Vec<Buffer>, LoadError> {
        let groups = self.groups();
        let tiles = run.rows.div_ceil(TILE);
        let tile = Tile::new(layout, run.stored, groups);
        let sizes: Vec<usize> = tile.planes.iter().map(Vec::len).collect();
        let packer = Packer {
            packing: self,
            layout,
            run,
            groups,
            each: (PIECE / sizes.first().map_or(1, |values| (*values).max(1))).max(1),
            tiles,
            taken: AtomicUsize::new(0),
        };
        let storage = |size: &usize| gpu.storage(label, (size * tiles) as u64);
        let buffers: Vec<_> = sizes.iter().map(storage).collect();
        let upload = |packed: &Packed| -> Result<(), LoadError> {
            for ((buffer, plane), size) in buffers.iter().zip(&packed.planes).zip(&sizes) {
                let offset = (packed.first * size) as u64;
                gpu.upload(buffer, offset, plane)
                    .map_err(|error| LoadError::from_wait(error, bytes))?;
            }
            Ok(())
        };
        packer.pack(upload)?;
        let made = |buffer| Buffer::made(label, buffer);
        Ok(buffers.into_iter().map(made).collect())
    }
}

impl Packer<'_> {
    /// Packs everything, and gives each piece to `take`, in any order, on this thread.
    fn pack(&self, take: impl Fn(&Packed) -> Result<(), LoadError>) -> Result<(), LoadError> {
        let pieces = self.tiles.div_ceil(self.each);
        let threads = thread::available_parallelism()
            .map_or(1, NonZeroUsize::get)
            .min(MOST_THREADS)
            .min(pieces);
        if threads < 2 {
            for piece in 0..pieces {
                take(&self.piece(piece)?)?;
            }
            return Ok(());
        }
        thread::scope(|scope| {
            // Those that pack wait for this one: no more is in memory than each of them has made one ahead.
            let (sender, packed) = sync_channel(threads);
            for _ in 0..threads {
                let sender = sender.clone();
                scope.spawn(move || self.work(pieces, &sender));
            }
            drop(sender);
            // The others end when nobody listens any more.
            packed.into_iter().try_for_each(|piece| take(&piece?))
        })
    }

    /// Packs pieces that nobody has begun with until there are none, or one cannot be read.
    fn work(&self, pieces: usize, sender: &SyncSender<Result<Packed, LoadError>>) {
        loop {
            let piece = self.taken.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return;
            }
            let packed = self.piece(piece);
            let failed = packed.is_err();
            if sender.send(packed).is_err() || failed {
                return;
            }
        }
    }

    /// Packs a piece.
    fn piece(&self, piece: usize) -> Result<Packed, LoadError> {
        let tiles: Range<usize> = piece * self.each..((piece + 1) * self.each).min(self.tiles);
        let stored = self.run.stored;
        let mut tile = Tile::new(self.layout, stored, self.groups);
        let mut packed = Packed {
            first: tiles.start,
            planes: tile
                .planes
                .iter()
                .map(|plane| Vec::with_capacity(plane.len() * tiles.len()))
                .collect(),
        };
        let mut numbers = DeviceRow::default();
        let mut scratch = Scratch::default();
        for index in tiles {
            for row in 0..TILE {
                let at = index * TILE + row;
                numbers.clear(stored, self.groups);
                if at < self.run.rows
                    && let Some((tensor, row)) = self.packing.row(self.run.first + at)
                {
                    let block = self.packing.block();
                    read(tensor, row, stored, block, &mut scratch, &mut numbers)?;
                }
                tile.put(row, &numbers);
            }
            for (all, plane) in packed.planes.iter_mut().zip(&tile.planes) {
                all.extend_from_slice(plane);
            }
        }
        Ok(packed)
    }
}

#[derive(Default)]
struct Scratch {
    parts: RowParts,
    wide: Vec<f32>,
}

/// The numbers of one row, each `block` elements of it padded by themselves.
fn read(
    tensor: &Tensor<'_>,
    row: usize,
    stored: StorageFormat,
    block: usize,
    scratch: &mut Scratch,
    out: &mut DeviceRow,
) -> Result<(), LoadError> {
    if stored.format() == tensor.format() {
        let parts = &mut scratch.parts;
        tensor.row_parts(row, parts)?;
        match stored.description().elements {
            Elements::Floats { bytes } => out.put_floats(&parts.values, bytes, block),
            Elements::Integers { prepare } => {
                prepare(parts);
                out.put_parts(stored, parts);
            }
        }
    } else {
        tensor.read_row(row, &mut scratch.wide)?;
        out.put_floats(bytemuck::cast_slice(&scratch.wide), 4, block);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use tidegate_weights::Format;

    use super::*;

    const ROWS: usize = 300;
    const WIDTH: usize = 64;

    /// Packs rows of f16, a tile at a time, and gives what `take` was given, by where it begins; `wrong` is a row that no number is
    /// in.
    fn packed(
        wrong: Option<usize>,
        take: impl Fn(&Packed) -> Result<(), LoadError>,
    ) -> Result<BTreeMap<usize, Vec<Vec<u8>>>, LoadError> {
        let mut bytes: Vec<u8> = (0..ROWS * WIDTH)
            .flat_map(|index| half::f16::from_f32((index % 997) as f32).to_le_bytes())
            .collect();
        if let Some(row) = wrong {
            let nan = half::f16::NAN.to_le_bytes();
            bytes[row * WIDTH * 2..][..2].copy_from_slice(&nan);
        }
        let tensor = Tensor::in_memory("rows", Format::F16, ROWS, WIDTH, &bytes).unwrap();
        let packing = Packing::plain(tensor);
        let run = Run {
            stored: StorageFormat::F16,
            first: 0,
            rows: ROWS,
        };
        let packer = Packer {
            packing: &packing,
            layout: Layout::Tiles,
            run: &run,
            groups: packing.groups(),
            each: 1,
            tiles: ROWS.div_ceil(TILE),
            taken: AtomicUsize::new(0),
        };
        let pieces = RefCell::new(BTreeMap::new());
        packer.pack(|packed| {
            let before = pieces
                .borrow_mut()
                .insert(packed.first, packed.planes.clone());
            assert!(before.is_none(), "{} twice", packed.first);
            take(packed)
        })?;
        for (first, planes) in pieces.borrow().iter() {
            assert_eq!(packer.piece(*first)?.planes, *planes);
        }
        Ok(pieces.into_inner())
    }

    #[test]
    fn every_piece_is_packed_once_whoever_packs_it() {
        let pieces = packed(None, |_| Ok(())).unwrap();
        let firsts: Vec<usize> = pieces.keys().copied().collect();
        assert_eq!(firsts, (0..ROWS.div_ceil(TILE)).collect::<Vec<_>>());
        let bytes: usize = pieces.values().map(|planes| planes[0].len()).sum();
        assert_eq!(bytes, ROWS.next_multiple_of(TILE) * WIDTH * 2);
    }

    #[test]
    fn whoever_packs_ends_with_a_device_or_a_row_that_fails() {
        let full = || LoadError::Device {
            reason: "full".to_owned(),
        };
        let error = packed(None, |packed| match packed.first {
            2 => Err(full()),
            _ => Ok(()),
        });
        assert!(error.unwrap_err().to_string().contains("full"));
        let error = packed(Some(200), |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("rows"), "{error}");
    }
}
