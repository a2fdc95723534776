//! 32-bit floats.

use super::{Columns, Description, Elements, Field, Plane, Texts};
use crate::kernels::shader;

pub(crate) static F32: Description = Description {
    elements: Elements::Floats { bytes: 4 },
    planes: &[Plane::values(8)],
    texts: Texts {
        before: "",
        decode: shader!("weights/f32/decode.wgsl"),
        lanes: shader!("weights/f32/lanes.wgsl"),
        columns: shader!("weights/f32/columns.wgsl"),
        pieces: shader!("weights/f32/pieces.wgsl"),
    },
    columns: Columns {
        units: 4,
        across: 16,
    },
    dot: None,
    block: &[Field::Element(|x| x.to_le_bytes().into())],
    tolerance: 1e-6,
};
