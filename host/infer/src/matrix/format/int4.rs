//! Four-bit integers in two's complement, eight in a word, with an f16 scale for each group.

use tidegate_weights::RowParts;

use super::{Columns, Description, Dot, Elements, Field, Plane, Texts};
use crate::kernels::shader;

pub(crate) static INT4: Description = Description {
    elements: Elements::Integers { prepare },
    planes: &[Plane::values(1), Plane::SCALES],
    texts: Texts {
        before: "",
        decode: shader!("weights/int4/decode.wgsl"),
        lanes: shader!("weights/int4/lanes.wgsl"),
        columns: shader!("weights/int4/columns.wgsl"),
        pieces: shader!("weights/int4/pieces.wgsl"),
    },
    columns: Columns {
        units: 1,
        across: 8,
    },
    dot: Some(Dot {
        text: shader!("weights/int4/dot.wgsl"),
        spread: true,
    }),
    block: &[Field::Scale(1.0 / 8.0), Field::Integers(16)],
    tolerance: 1e-6,
};

/// Four bits around 8 become two's complement, so that one shift to the right brings the sign along.
fn prepare(parts: &mut RowParts) {
    for pair in &mut parts.values {
        *pair ^= 0x88;
    }
}
