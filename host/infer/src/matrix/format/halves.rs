//! Floats of 16 bits, two in a word: f16, and bf16, which is the upper half of a 32-bit float. They differ in how a pair is widened.

use super::{Columns, Description, Elements, Field, Plane, Texts};
use crate::kernels::shader;

pub(crate) static F16: Description = halves(
    shader!("weights/halves/halves_f16.wgsl"),
    &[Field::Element(|x| {
        half::f16::from_f32(x).to_le_bytes().into()
    })],
);

pub(crate) static BF16: Description = halves(
    shader!("weights/halves/halves_bf16.wgsl"),
    &[Field::Element(|x| {
        half::bf16::from_f32(x).to_le_bytes().into()
    })],
);

const PLANES: &[Plane] = &[Plane::values(4)];

const fn halves(widen: &'static str, block: &'static [Field]) -> Description {
    Description {
        elements: Elements::Floats { bytes: 2 },
        planes: PLANES,
        texts: Texts {
            before: widen,
            decode: shader!("weights/halves/decode.wgsl"),
            lanes: shader!("weights/halves/lanes.wgsl"),
            columns: shader!("weights/halves/columns.wgsl"),
            pieces: shader!("weights/halves/pieces.wgsl"),
        },
        columns: Columns {
            units: 4,
            across: 16,
        },
        dot: None,
        block,
        tolerance: 1e-6,
    }
}
