//! GGUF's q6_K: the low four bits of an element, eight elements in a word; the upper two, sixteen in a word; a signed byte of scale for
//! each half of a group; d, f16, for each block. An element is d · scale · (q - 32).

use tidegate_weights::RowParts;

use super::{Columns, Description, Elements, Field, Plane, Texts};
use crate::kernels::shader;

pub(crate) static Q6_K: Description = Description {
    elements: Elements::Integers { prepare },
    planes: &[Plane::values(1), Plane::SCALES, Plane::SUPERS, Plane::HIGH],
    texts: Texts {
        before: "",
        decode: shader!("weights/q6_k/decode.wgsl"),
        lanes: shader!("weights/q6_k/lanes.wgsl"),
        columns: shader!("weights/q6_k/columns.wgsl"),
        pieces: shader!("weights/q6_k/pieces.wgsl"),
    },
    columns: Columns {
        units: 1,
        across: 8,
    },
    dot: None,
    block: &[
        Field::Integers(128 + 64 + 16),
        // Subnormal in f16, as most models have it: a driver may not flush it to zero.
        Field::Scale(1.0 / 32768.0),
    ],
    tolerance: 1e-5,
};

/// d gets a word, whose other half stays 0.
fn prepare(parts: &mut RowParts) {
    let words = parts.supers.as_chunks().0.iter();
    parts.supers = words.flat_map(|[low, high]| [*low, *high, 0, 0]).collect();
}
