//! The order of rows and groups in the buffers of a matrix: `layout_rows.wgsl` and `layout_tiles.wgsl` under
//! `shaders/weights/`.

use super::format::StorageFormat;
use super::row::DeviceRow;
use crate::kernels::{KernelSet, KernelVariant};

/// Rows of a tile: what is stored is padded to whole ones.
pub(crate) const TILE: usize = 32;

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
            KernelVariant::F16 | KernelVariant::Dot => Layout::Rows,
            _ => Layout::Tiles,
        }
    }
}

/// The numbers of one tile in the order of the device.
#[derive(Debug)]
pub(crate) struct Tile {
    layout: Layout,
    stored: StorageFormat,
    /// Those of each plane of its format.
    pub(crate) planes: Vec<Vec<u8>>,
}

impl Tile {
    pub(crate) fn new(layout: Layout, stored: StorageFormat, groups: usize) -> Tile {
        let planes = stored.planes().iter();
        Tile {
            layout,
            stored,
            planes: planes
                .map(|plane| vec![0; plane.bytes(groups) * TILE])
                .collect(),
        }
    }

    /// Puts row `row` of the tile in its place.
    pub(crate) fn put(&mut self, row: usize, numbers: &DeviceRow) {
        let (lane, own) = (row / LANE_ROWS, row % LANE_ROWS);
        let rows = self.planes.iter_mut().zip(&numbers.planes);
        for (plane, (to, source)) in self.stored.planes().iter().zip(rows) {
            let (bytes, pieces) = (plane.piece, plane.pieces);
            for (index, piece) in source.chunks_exact(bytes).enumerate() {
                let (span, of_span) = (index / pieces, index % pieces);
                let at = match self.layout {
                    Layout::Rows => row * (source.len() / bytes) + index,
                    Layout::Tiles if plane.by_rows => (span * TILE + row) * pieces + of_span,
                    Layout::Tiles => {
                        ((span * LANE_ROWS + own) * pieces + of_span) * (TILE / LANE_ROWS) + lane
                    }
                };
                if let Some(to) = to.get_mut(at * bytes..(at + 1) * bytes) {
                    to.copy_from_slice(piece);
                }
            }
        }
    }
}
