//! How weights lie on a device.

use tidegate_weights::{Format, RowParts};

/// Elements of a group: rows are padded to whole ones.
pub(crate) const GROUP: usize = 32;

/// Rows of a tile: what is stored is padded to whole ones.
pub(crate) const TILE: usize = 32;

/// How a matrix lies on the device.
///
/// Kinds of numbers lie in buffers of their own: values, which every format has; two bytes of scales for each group of a
/// quantized row; and what GGUF's formats have for each block of 256 elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageFormat {
    /// 32-bit floats.
    F32,
    /// 16-bit floats, two in a word.
    F16,
    /// Upper halves of 32-bit floats, two in a word.
    Bf16,
    /// Eight-bit integers, four in a word; an f16 scale for each group.
    Int8,
    /// Four-bit integers in two's complement, eight in a word; an f16 scale for each group.
    Int4,
    /// GGUF's q4_K.
    Q4K,
    /// GGUF's q6_K.
    Q6K,
}

impl StorageFormat {
    /// Every way.
    pub const ALL: [StorageFormat; 7] = [
        StorageFormat::F32,
        StorageFormat::F16,
        StorageFormat::Bf16,
        StorageFormat::Int8,
        StorageFormat::Int4,
        StorageFormat::Q4K,
        StorageFormat::Q6K,
    ];

    /// The way a format is kept as it is.
    #[must_use]
    pub fn of(format: Format) -> StorageFormat {
        match format {
            Format::F32 => StorageFormat::F32,
            Format::F16 => StorageFormat::F16,
            Format::Bf16 => StorageFormat::Bf16,
            Format::Int8 => StorageFormat::Int8,
            Format::Int4 => StorageFormat::Int4,
            Format::Q4K => StorageFormat::Q4K,
            Format::Q6K => StorageFormat::Q6K,
        }
    }

    /// Whether elements stand by themselves, so that zeros can be put between them.
    pub(crate) fn is_float(self) -> bool {
        matches!(
            self,
            StorageFormat::F32 | StorageFormat::F16 | StorageFormat::Bf16
        )
    }

    /// Chunks of 16 bytes of the values of a group.
    pub(crate) fn chunks(self) -> usize {
        match self {
            StorageFormat::F32 => 8,
            StorageFormat::F16 | StorageFormat::Bf16 => 4,
            StorageFormat::Int8 => 2,
            StorageFormat::Int4 | StorageFormat::Q4K | StorageFormat::Q6K => 1,
        }
    }

    /// Bytes of an element of a float format, or 0.
    pub(crate) fn element(self) -> usize {
        match self {
            StorageFormat::F32 => 4,
            StorageFormat::F16 | StorageFormat::Bf16 => 2,
            _ => 0,
        }
    }

    /// Bytes of each kind of number of a group: values, scales, upper bits.
    pub(crate) fn group_bytes(self) -> [usize; 3] {
        let scales = if self.is_float() { 0 } else { 2 };
        let high = if self == StorageFormat::Q6K { 8 } else { 0 };
        [self.chunks() * 16, scales, high]
    }

    /// Bytes of what a block of 256 elements has for itself.
    pub(crate) fn block_bytes(self) -> usize {
        match self {
            StorageFormat::Q4K | StorageFormat::Q6K => 4,
            _ => 0,
        }
    }

    /// Bytes of a row of `groups` groups, all kinds together.
    pub(crate) fn row_bytes(self, groups: usize) -> usize {
        self.group_bytes().iter().sum::<usize>() * groups + self.block_bytes() * (groups / 8)
    }
}

/// The stored numbers of a row as they go to the device, not yet in its order.
#[derive(Debug, Default)]
pub(crate) struct DeviceRow {
    /// `[groups, chunks of 16 bytes]`
    pub(crate) values: Vec<u8>,
    /// `[groups]` of 2 bytes.
    pub(crate) scales: Vec<u8>,
    /// `[groups]` of 8 bytes.
    pub(crate) high: Vec<u8>,
    /// `[blocks]` of 4 bytes.
    pub(crate) supers: Vec<u8>,
}

impl DeviceRow {
    /// A row of zeros.
    pub(crate) fn clear(&mut self, stored: StorageFormat, groups: usize) {
        let [values, scales, high] = stored.group_bytes();
        for (part, bytes) in [
            (&mut self.values, values * groups),
            (&mut self.scales, scales * groups),
            (&mut self.high, high * groups),
            (&mut self.supers, stored.block_bytes() * (groups / 8)),
        ] {
            part.clear();
            part.resize(bytes, 0);
        }
    }

    /// Puts a row of floats, each `block` elements of it padded by themselves to a multiple of 4.
    pub(crate) fn put_floats(&mut self, bytes: &[u8], element: usize, block: usize) {
        let padded = block.next_multiple_of(4) * element;
        for (from, to) in bytes
            .chunks(block * element)
            .zip(self.values.chunks_mut(padded))
        {
            if let Some(to) = to.get_mut(..from.len()) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Puts a row of a quantized format.
    pub(crate) fn put_parts(&mut self, stored: StorageFormat, parts: &RowParts) {
        // Four bits around 8 become two's complement, so that one shift to the right brings the sign along.
        let flip = if stored == StorageFormat::Int4 {
            0x88
        } else {
            0
        };
        for (to, from) in self.values.iter_mut().zip(&parts.values) {
            *to = from ^ flip;
        }
        put(&mut self.scales, &parts.scales);
        put(&mut self.high, &parts.high);
        match stored {
            // d alone; the other half of its word stays 0.
            StorageFormat::Q6K => {
                for (to, from) in self
                    .supers
                    .chunks_exact_mut(4)
                    .zip(parts.supers.chunks_exact(2))
                {
                    put(to, from);
                }
            }
            _ => put(&mut self.supers, &parts.supers),
        }
    }
}

fn put(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
