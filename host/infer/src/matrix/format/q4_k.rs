//! GGUF's q4_K: four bits of an element, eight elements in a word; s and m for each group, a byte each; d and dmin for each block, f16
//! each. An element is d · s · q - dmin · m.

use super::{Columns, Description, Elements, Field, Plane, Texts};
use crate::kernels::shader;

pub(crate) static Q4_K: Description = Description {
    elements: Elements::Integers { prepare: |_| {} },
    planes: &[Plane::values(1), Plane::SCALES, Plane::SUPERS],
    texts: Texts {
        before: "",
        decode: shader!("weights/q4_k/decode.wgsl"),
        lanes: shader!("weights/q4_k/lanes.wgsl"),
        columns: shader!("weights/q4_k/columns.wgsl"),
        pieces: shader!("weights/q4_k/pieces.wgsl"),
    },
    columns: Columns {
        units: 1,
        across: 8,
    },
    dot: None,
    block: &[
        Field::Scale(1.0 / 512.0),
        Field::Scale(1.0 / 64.0),
        Field::Integers(12 + 128),
    ],
    tolerance: 1e-5,
};
