//! Numbers of one kind, which have a buffer of their own.

use tidegate_weights::RowParts;

use super::{BLOCK_GROUPS, GROUP};

/// Numbers of one kind of a matrix.
#[derive(Debug)]
pub(crate) struct Plane {
    /// Bytes of a piece, which stays together wherever it lies.
    pub(crate) piece: usize,
    /// Pieces that follow each other.
    pub(crate) pieces: usize,
    /// Groups that so many pieces are of.
    groups: usize,
    /// Whether in a tile pieces follow each other for the four rows of a lane; those of others do for the lanes.
    pub(crate) by_rows: bool,
    /// Those numbers of a row, once they are what kernels read.
    of: fn(&RowParts) -> &[u8],
}

impl Plane {
    /// Values: so many chunks of 16 bytes for each group.
    pub(crate) const fn values(chunks: usize) -> Plane {
        Plane {
            piece: 16,
            pieces: chunks,
            groups: 1,
            by_rows: false,
            of: |parts| &parts.values,
        }
    }

    /// Scales: two bytes for each group.
    pub(crate) const SCALES: Plane = Plane {
        piece: 2,
        pieces: 1,
        groups: 1,
        by_rows: true,
        of: |parts| &parts.scales,
    };

    /// What a block has for itself: four bytes.
    pub(crate) const SUPERS: Plane = Plane {
        piece: 4,
        pieces: 1,
        groups: BLOCK_GROUPS,
        by_rows: true,
        of: |parts| &parts.supers,
    };

    /// The upper two bits of each element: eight bytes for each group.
    pub(crate) const HIGH: Plane = Plane {
        piece: GROUP / 4,
        pieces: 1,
        groups: 1,
        by_rows: false,
        of: |parts| &parts.high,
    };

    /// Bytes of a row of so many groups.
    pub(crate) fn bytes(&self, groups: usize) -> usize {
        self.piece * self.pieces * (groups / self.groups)
    }

    /// Those numbers of a row, once they are what kernels read.
    pub(crate) fn of<'a>(&self, parts: &'a RowParts) -> &'a [u8] {
        (self.of)(parts)
    }
}
