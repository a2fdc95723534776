//! What the workgroups of a dispatch read and write: enough of it to count bytes, without a device.
//!
//! How workgroups share an area follows from the axes of their grid ([`crate::program::Axis`]): rows or samples, positions, columns,
//! heads, and the elements of a head.

use crate::program::Splits;

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Read,
    Write,
    /// Read, changed and written.
    Update,
}

/// Which rows of a dispatch touch an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Which {
    All,
    /// Those that see several parts.
    InParts(Splits),
    /// The others.
    Whole(Splits),
}

/// What the workgroups of a dispatch touch of one of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Touch {
    /// Which of the dispatch's buffers, in the order in which it was given them.
    pub(crate) buffer: usize,
    pub(crate) used: Use,
    pub(crate) rows: Which,
    pub(crate) area: Area,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Area {
    /// So many bytes, the same for every workgroup.
    All(u64),
    /// So many bytes, of which every workgroup has its columns.
    Columns(u64),
    /// So many bytes for each row of a workgroup.
    Rows(u64),
    /// So many bytes for each row of a workgroup, of which it has its columns, or its heads.
    Cells(u64),
    /// The same within longer rows: `bytes` from byte `from` on of rows of `stride`.
    CellsOf { stride: u64, from: u64, bytes: u64 },
    /// So many bytes for each key and value head of a workgroup and each of its positions that one of its rows sees through a window.
    Positions {
        kv_heads: u32,
        bytes: u64,
        window: u32,
    },
    /// The same bytes at the positions of the rows themselves.
    OwnPosition { kv_heads: u32, bytes: u64 },
    /// The same, of which a workgroup has what its columns are: of `columns`, those in `own` are keys, or values, from `first` on of
    /// `all` that a position has.
    OwnCells {
        kv_heads: u32,
        bytes: u64,
        columns: u64,
        own: (u64, u64),
        first: u64,
        all: u64,
    },
    /// `each` bytes of each expert, of which a workgroup has those of its tile's expert, and of them its columns; the buffer has `count`
    /// experts from `first` on. Which experts rows go through is not known: they are taken to go through `of` of them in turn, each row
    /// through `chosen`.
    Experts {
        each: u64,
        first: u32,
        count: u32,
        chosen: u32,
        of: u32,
    },
    /// So many bytes for each pair of a row and an expert in a workgroup's tile, of which it has its columns where it writes; `share`
    /// pairs in a row have them together. Only pairs of these experts.
    Pairs {
        bytes: u64,
        share: u32,
        chosen: u32,
        of: u32,
        first: u32,
        count: u32,
    },
    /// So many bytes for each row of a workgroup and each part of the positions that it sees, of which it has its heads.
    Parts { bytes: u64, splits: Splits },
}

impl Touch {
    pub(crate) fn read(buffer: usize, area: Area) -> Touch {
        Touch::new(buffer, Use::Read, area)
    }

    pub(crate) fn write(buffer: usize, area: Area) -> Touch {
        Touch::new(buffer, Use::Write, area)
    }

    pub(crate) fn update(buffer: usize, area: Area) -> Touch {
        Touch::new(buffer, Use::Update, area)
    }

    fn new(buffer: usize, used: Use, area: Area) -> Touch {
        Touch {
            buffer,
            used,
            rows: Which::All,
            area,
        }
    }

    /// Only of these rows.
    pub(crate) fn of(self, rows: Which) -> Touch {
        Touch { rows, ..self }
    }
}
