//! The stored numbers of a row on their way to a device.

use tidegate_weights::RowParts;

use super::format::StorageFormat;

/// The numbers of a row as kernels read them, not yet in the order of the device: those of each plane of its format.
#[derive(Debug, Default)]
pub(crate) struct DeviceRow {
    pub(crate) planes: Vec<Vec<u8>>,
}

impl DeviceRow {
    /// A row of zeros.
    pub(crate) fn clear(&mut self, stored: StorageFormat, groups: usize) {
        self.planes.resize_with(stored.planes().len(), Vec::new);
        for (numbers, plane) in self.planes.iter_mut().zip(stored.planes()) {
            numbers.clear();
            numbers.resize(plane.bytes(groups), 0);
        }
    }

    /// Puts a row of floats of `element` bytes, each `block` of them padded by themselves to a multiple of 4.
    pub(crate) fn put_floats(&mut self, bytes: &[u8], element: usize, block: usize) {
        let padded = block.next_multiple_of(4) * element;
        let values = self.planes.iter_mut().take(1);
        let places = values.flat_map(|values| values.chunks_mut(padded));
        for (from, to) in bytes.chunks(block * element).zip(places) {
            if let Some(to) = to.get_mut(..from.len()) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Puts a row of integers, which are what kernels read.
    pub(crate) fn put_parts(&mut self, stored: StorageFormat, parts: &RowParts) {
        for (numbers, plane) in self.planes.iter_mut().zip(stored.planes()) {
            for (to, from) in numbers.iter_mut().zip(plane.of(parts)) {
                *to = *from;
            }
        }
    }
}
