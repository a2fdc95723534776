//! Weights that are made up for tests: at start-up on a device, and in this crate.

use half::f16;

use super::StorageFormat;

/// What follows each other in a block of a format, as files have it.
#[derive(Debug)]
pub(crate) enum Field {
    /// An element by itself, as bytes.
    Element(MadeUp),
    /// An f16 that integers are multiplied by. This takes them to about 1, whatever their bits.
    Scale(f32),
    /// So many bytes of integers.
    Integers(usize),
}

/// The bytes of an element that is nearest to a float.
pub(crate) type MadeUp = fn(f32) -> Vec<u8>;

/// Where weights that are made up get their numbers from.
pub trait WeightNumbers {
    /// An element, in -1..1.
    fn element(&mut self) -> f32;

    /// A scale no larger than `largest`, which takes integers to about 1.
    fn scale(&mut self, largest: f32) -> f32;

    /// A byte of integers.
    fn integers(&mut self) -> u8;
}

impl StorageFormat {
    /// So many blocks of weights of numbers about 1, as files have them; not for use.
    #[must_use]
    pub fn made_up(self, numbers: &mut impl WeightNumbers, blocks: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(blocks * self.format().block_bytes());
        for _ in 0..blocks {
            for field in self.description().block {
                match field {
                    Field::Element(of) => bytes.extend(of(numbers.element())),
                    Field::Scale(largest) => {
                        let scale = f16::from_f32(numbers.scale(*largest));
                        bytes.extend(scale.to_le_bytes());
                    }
                    Field::Integers(count) => {
                        bytes.extend((0..*count).map(|_| numbers.integers()));
                    }
                }
            }
        }
        bytes
    }
}
