//! Eight-bit integers, four in a word, with an f16 scale for each group.

use super::{Columns, Description, Dot, Elements, Field, Plane, Texts};
use crate::kernels::shader;

pub(crate) static INT8: Description = Description {
    elements: Elements::Integers { prepare: |_| {} },
    planes: &[Plane::values(2), Plane::SCALES],
    texts: Texts {
        before: "",
        decode: shader!("weights/int8/decode.wgsl"),
        lanes: shader!("weights/int8/lanes.wgsl"),
        columns: shader!("weights/int8/columns.wgsl"),
        pieces: shader!("weights/int8/pieces.wgsl"),
    },
    columns: Columns {
        units: 1,
        across: 8,
    },
    dot: Some(Dot {
        text: shader!("weights/int8/dot.wgsl"),
        spread: false,
    }),
    block: &[Field::Scale(1.0 / 64.0), Field::Integers(32)],
    tolerance: 1e-6,
};
