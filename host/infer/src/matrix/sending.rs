//! The way of weights to a device: rows are read from their file, put into the order of the device by as many threads as there are
//! cores, and uploaded by the one that loads the model.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tidegate_weights::{RowParts, Tensor};

use super::layout::{Layout, Tile};
use super::packing::{Packing, Run};
use super::storage::{DeviceRow, StorageFormat, TILE};
use crate::buffer::Buffer;
use crate::device::{Gpu, PIECE};
use crate::load_error::LoadError;

/// Threads that pack at most: more than memory can feed are of no use.
const MOST_THREADS: usize = 8;

/// Tiles that were packed together, and where they begin.
struct Packed {
    first: usize,
    /// Values, scales, upper bits, and what blocks have for themselves.
    parts: [Vec<u8>; 4],
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
    /// Packs a run of rows and uploads it: values, scales, upper bits, and what blocks have for themselves. `bytes` is the size of
    /// the whole model, for the error text.
    pub(super) fn send(
        &self,
        gpu: &Gpu,
        layout: Layout,
        label: &str,
        run: &Run,
        bytes: u64,
    ) -> Result<[Option<Buffer>; 4], LoadError> {
        let groups = self.groups();
        let tiles = run.rows.div_ceil(TILE);
        let sizes = Tile::new(layout, run.stored, groups)
            .parts
            .map(|part| part.len());
        let packer = Packer {
            packing: self,
            layout,
            run,
            groups,
            each: (PIECE / sizes[0].max(1)).max(1),
            tiles,
            taken: AtomicUsize::new(0),
        };
        let buffers =
            sizes.map(|size| (size > 0).then(|| gpu.storage(label, (size * tiles) as u64)));
        let upload = |packed: &Packed| -> Result<(), LoadError> {
            for ((buffer, part), size) in buffers.iter().zip(&packed.parts).zip(sizes) {
                let Some(buffer) = buffer else { continue };
                let offset = (packed.first * size) as u64;
                gpu.upload(buffer, offset, part)
                    .map_err(|error| LoadError::from_wait(error, bytes))?;
            }
            Ok(())
        };
        packer.pack(upload)?;
        Ok(buffers.map(|buffer| buffer.map(|buffer| Buffer::made(label, buffer))))
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
            parts: tile
                .parts
                .each_ref()
                .map(|part| Vec::with_capacity(part.len() * tiles.len())),
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
            for (all, part) in packed.parts.iter_mut().zip(&tile.parts) {
                all.extend_from_slice(part);
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
    if stored == StorageFormat::of(tensor.format()) {
        tensor.row_parts(row, &mut scratch.parts)?;
        if stored.is_float() {
            out.put_floats(&scratch.parts.values, stored.element(), block);
        } else {
            out.put_parts(stored, &scratch.parts);
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
    ) -> Result<BTreeMap<usize, [Vec<u8>; 4]>, LoadError> {
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
                .insert(packed.first, packed.parts.clone());
            assert!(before.is_none(), "{} twice", packed.first);
            take(packed)
        })?;
        for (first, parts) in pieces.borrow().iter() {
            assert_eq!(packer.piece(*first)?.parts, *parts);
        }
        Ok(pieces.into_inner())
    }

    #[test]
    fn every_piece_is_packed_once_whoever_packs_it() {
        let pieces = packed(None, |_| Ok(())).unwrap();
        let firsts: Vec<usize> = pieces.keys().copied().collect();
        assert_eq!(firsts, (0..ROWS.div_ceil(TILE)).collect::<Vec<_>>());
        let bytes: usize = pieces.values().map(|parts| parts[0].len()).sum();
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
