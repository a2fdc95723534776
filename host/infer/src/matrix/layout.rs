//! The order of rows and groups in the buffers of a matrix: `layout_rows.wgsl` and `layout_tiles.wgsl` under
//! `shaders/weights/`.

use super::storage::{DeviceRow, StorageFormat, TILE};
use crate::kernels::{KernelSet, KernelVariant};

/// Rows of a tile that one lane has.
const LANE_ROWS: usize = 4;

/// The order of rows and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row after row.
    Rows,
    /// Tiles of 32 rows, group by group, so that 8 lanes read 128 bytes that follow each other.
    Tiles,
}

impl Layout {
    /// The order in which a set of kernels reads rows.
    #[must_use]
    pub fn of(kernels: KernelSet) -> Layout {
        match kernels.matmul {
            KernelVariant::Software | KernelVariant::Portable | KernelVariant::Subgroup => {
                Layout::Tiles
            }
            _ => Layout::Rows,
        }
    }
}

/// The numbers of one tile in the order of the device.
#[derive(Debug)]
pub(crate) struct Tile {
    layout: Layout,
    stored: StorageFormat,
    /// Values, scales, upper bits, and what blocks have for themselves.
    pub(crate) parts: [Vec<u8>; 4],
}

impl Tile {
    pub(crate) fn new(layout: Layout, stored: StorageFormat, groups: usize) -> Tile {
        let [values, scales, high] = stored.group_bytes();
        let blocks = stored.block_bytes() * (groups / 8);
        let bytes = [values * groups, scales * groups, high * groups, blocks];
        Tile {
            layout,
            stored,
            parts: bytes.map(|bytes| vec![0; bytes * TILE]),
        }
    }

    /// Puts row `row` of the tile in its place.
    pub(crate) fn put(&mut self, row: usize, numbers: &DeviceRow) {
        let chunks = self.stored.chunks();
        let sources = [
            (&numbers.values, 16, chunks),
            (&numbers.scales, 2, 1),
            (&numbers.high, 8, 1),
            (&numbers.supers, 4, 1),
        ];
        for (kind, (source, bytes, chunks)) in sources.into_iter().enumerate() {
            let to = &mut self.parts[kind];
            // Scales, and what blocks have for themselves, follow each other for the four rows of a lane; chunks of one row
            // for the lanes.
            let neighbours = matches!(kind, 1 | 3);
            for (index, piece) in source.chunks_exact(bytes).enumerate() {
                let (group, chunk) = (index / chunks, index % chunks);
                let (lane, own) = (row / LANE_ROWS, row % LANE_ROWS);
                let at = match self.layout {
                    Layout::Rows => row * (source.len() / bytes) + index,
                    Layout::Tiles if neighbours => group * TILE + row,
                    Layout::Tiles => {
                        ((group * LANE_ROWS + own) * chunks + chunk) * (TILE / LANE_ROWS) + lane
                    }
                };
                if let Some(to) = to.get_mut(at * bytes..(at + 1) * bytes) {
                    to.copy_from_slice(piece);
                }
            }
        }
    }
}
