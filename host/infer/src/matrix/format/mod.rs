//! Formats of weights as a device has them, each described in one place.
//!
//! A [`Description`] says how rows of a format lie in buffers and come there, what kernels read of them, in which order they sum it,
//! and how tests make weights of it. Whatever packs, sends, multiplies or tests weights asks the description and knows no format by
//! name. A further one is a file here, its line in the table below, and a folder under `shaders/weights/`: tests hold a description
//! to its shaders, and the tests of products go through the table.

mod description;
mod f32;
mod halves;
mod int4;
mod int8;
mod made_up;
mod plane;
mod q4_k;
mod q6_k;
#[cfg(test)]
mod tests;

use tidegate_weights::Format;

pub(crate) use description::{Columns, Description, Dot, Elements, Texts};
pub(crate) use made_up::Field;
pub use made_up::WeightNumbers;
pub(crate) use plane::Plane;

/// Elements of a group: rows are padded to whole ones.
pub(crate) const GROUP: usize = 32;

/// Groups of a block of those formats that have something for a block.
pub(crate) const BLOCK_GROUPS: usize = 8;

/// Makes the formats from a table of names, which are those of [`Format`], and descriptions.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident => $description:path,)*) => {
        /// How a matrix lies on the device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum StorageFormat {
            $($(#[$doc])* $name,)*
        }

        impl StorageFormat {
            /// Every way.
            pub const ALL: [StorageFormat; [$(Format::$name),*].len()] = [$(StorageFormat::$name),*];

            /// The way a format is kept as it is.
            #[must_use]
            pub fn of(format: Format) -> StorageFormat {
                match format {
                    $(Format::$name => StorageFormat::$name,)*
                }
            }

            /// The format that is kept so.
            #[must_use]
            pub fn format(self) -> Format {
                match self {
                    $(StorageFormat::$name => Format::$name,)*
                }
            }

            /// All that differs from format to format.
            pub(crate) fn description(self) -> &'static Description {
                match self {
                    $(StorageFormat::$name => &$description,)*
                }
            }
        }
    };
}

formats! {
    /// 32-bit floats.
    F32 => f32::F32,
    /// 16-bit floats, two in a word.
    F16 => halves::F16,
    /// Upper halves of 32-bit floats, two in a word.
    Bf16 => halves::BF16,
    /// Eight-bit integers, four in a word; an f16 scale for each group.
    Int8 => int8::INT8,
    /// Four-bit integers in two's complement, eight in a word; an f16 scale for each group.
    Int4 => int4::INT4,
    /// GGUF's q4_K.
    Q4K => q4_k::Q4_K,
    /// GGUF's q6_K.
    Q6K => q6_k::Q6_K,
}

impl StorageFormat {
    /// Whether elements stand by themselves, so that zeros can be put between them.
    pub(crate) fn is_float(self) -> bool {
        matches!(self.description().elements, Elements::Floats { .. })
    }

    /// The kinds of numbers of a row, in the order of their bindings: values first.
    pub(crate) fn planes(self) -> &'static [Plane] {
        self.description().planes
    }

    /// Bytes of a row of `groups` groups, all kinds together.
    pub(crate) fn row_bytes(self, groups: usize) -> usize {
        self.planes().iter().map(|plane| plane.bytes(groups)).sum()
    }
}
