//! What the workgroups of a dispatch read and write: enough of it to count bytes, without a device.

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Read,
    Write,
    /// Read, changed and written.
    Update,
}

/// What the workgroups of a dispatch touch of one of its buffers.
///
/// Which axis of the grid counts what follows from the grid: rows or samples, positions, and columns along the first that is
/// fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Touch {
    /// Which of the dispatch's buffers.
    pub(crate) buffer: usize,
    pub(crate) used: Use,
    pub(crate) area: Area,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Area {
    /// So many bytes, the same for every workgroup.
    All(u64),
    /// So many bytes, of which every workgroup has its share by its place among the columns.
    Columns(u64),
    /// So many bytes for each row of a workgroup.
    Rows(u64),
    /// So many bytes for each row of a workgroup, of which it has its share by its place among the columns.
    Cells(u64),
    /// So many bytes for each key and value head and each position of a workgroup that its rows see through a window. Workgroups
    /// share the heads by their place among the columns.
    Positions {
        kv_heads: u32,
        bytes: u64,
        window: u32,
    },
    /// So many bytes for each row of a workgroup and each `each` positions that it sees; shared by columns.
    Parts { bytes: u64, each: u32, window: u32 },
}

impl Touch {
    pub(crate) fn read(buffer: usize, area: Area) -> Touch {
        Touch {
            buffer,
            used: Use::Read,
            area,
        }
    }

    pub(crate) fn write(buffer: usize, area: Area) -> Touch {
        Touch {
            buffer,
            used: Use::Write,
            area,
        }
    }

    pub(crate) fn update(buffer: usize, area: Area) -> Touch {
        Touch {
            buffer,
            used: Use::Update,
            area,
        }
    }
}
