//! All that differs from format to format.

use tidegate_weights::RowParts;

use super::{Field, Plane};

/// All that differs from format to format.
#[derive(Debug)]
pub(crate) struct Description {
    /// What its elements are.
    pub(crate) elements: Elements,
    /// The kinds of numbers of a row, each in a buffer of its own: values, which every format has and whose binding is 1, and up to
    /// three others, from binding 5 on.
    pub(crate) planes: &'static [Plane],
    /// Its WGSL.
    pub(crate) texts: Texts,
    /// How `matmul_columns.wgsl` reads it.
    pub(crate) columns: Columns,
    /// Products with inputs in int8, if it has them.
    pub(crate) dot: Option<Dot>,
    /// A block as files have it, for tests to make up.
    pub(crate) block: &'static [Field],
    /// How far a product may be off, as a share of the sum of its parts' magnitudes: more where what is summed is larger than that,
    /// as minima make it.
    pub(crate) tolerance: f64,
}

/// What elements are, and how a row of them comes to a device.
#[derive(Debug)]
pub(crate) enum Elements {
    /// Floats that stand by themselves, so that zeros can be put between them.
    Floats {
        /// Bytes of one.
        bytes: usize,
    },
    /// Integers in groups of [`super::GROUP`] and blocks, with what they are multiplied by.
    Integers {
        /// Makes of the stored numbers of a row what kernels read.
        prepare: fn(&mut RowParts),
    },
}

/// The WGSL of a format: its folder under `shaders/weights/`.
#[derive(Debug)]
pub(crate) struct Texts {
    /// What stands before each of the others, or nothing.
    pub(crate) before: &'static str,
    /// `weight4`: four elements, wherever they lie.
    pub(crate) decode: &'static str,
    /// What a lane of `matmul_software.wgsl` reads of a group.
    pub(crate) lanes: &'static str,
    /// What a lane of `matmul_columns.wgsl` reads of a unit.
    pub(crate) columns: &'static str,
    /// What a lane of `matmul_cooperative.wgsl` reads at once, after `decode` and a layout.
    pub(crate) pieces: &'static str,
}

/// How products for GPUs go along the width.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Units of a group, whose products are summed by turns: a lane brings a group of integers to scale as one, and neighbouring lanes
    /// read the eights of a group of floats side by side. `UNITS` in its text.
    pub(crate) units: u32,
    /// Lanes beside each other in a tile of many rows: of what takes more registers, a workgroup is better small.
    pub(crate) across: u32,
}

impl Columns {
    /// Octets of a unit: `OCTETS` in its text.
    pub(crate) fn octets(&self) -> u32 {
        super::GROUP as u32 / 8 / self.units
    }
}

/// Exact products of a group with inputs in int8.
#[derive(Debug)]
pub(crate) struct Dot {
    /// `dot_group`, for `matmul_dot.wgsl`, which reads an f16 scale for each group.
    pub(crate) text: &'static str,
    /// Whether even elements of each eight of the input stand before odd ones, as these are taken apart.
    pub(crate) spread: bool,
}
