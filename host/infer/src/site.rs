//! Where a program is made: on a device, or on paper for one that is not at hand.

use crate::buffer::Buffer;
use crate::device::{Features, Gpu, WaitError};

/// What programs depend on of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Optional features.
    pub(crate) features: Features,
    /// Lanes of a subgroup, least and most.
    pub(crate) subgroup_lanes: [u32; 2],
    /// Largest storage binding, bytes.
    pub(crate) largest_binding: u64,
    /// Storage buffers that a kernel can bind.
    pub(crate) storage_buffers: u32,
}

/// Where the buffers and dispatches of a program come to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site<'a> {
    /// An open device.
    Device(&'a Gpu),
    /// Nowhere: buffers have sizes and no contents.
    Paper(Traits),
}

impl Site<'_> {
    /// What programs depend on here.
    pub(crate) fn traits(self) -> Traits {
        match self {
            Site::Device(gpu) => Traits {
                features: gpu.features(),
                subgroup_lanes: gpu.subgroup_lanes(),
                largest_binding: gpu.largest_binding,
                storage_buffers: gpu.storage_buffers(),
            },
            Site::Paper(traits) => traits,
        }
    }

    /// A zeroed storage buffer.
    pub(crate) fn storage(self, what: &str, bytes: u64) -> Buffer {
        match self {
            Site::Device(gpu) => Buffer::made(what, gpu.storage(what, bytes)),
            Site::Paper(_) => Buffer::planned(what, bytes),
        }
    }

    /// A uniform buffer of these words.
    pub(crate) fn uniform(self, what: &str, words: &[u32]) -> Buffer {
        match self {
            Site::Device(gpu) => Buffer::made(what, gpu.uniform(what, words)),
            Site::Paper(_) => Buffer::planned(what, (words.len() * 4) as u64),
        }
    }

    /// A storage buffer of these bytes.
    pub(crate) fn filled(self, what: &str, bytes: &[u8]) -> Result<Buffer, WaitError> {
        let length = bytes.len() as u64;
        Ok(match self {
            Site::Device(gpu) => {
                let buffer = gpu.storage(what, length);
                gpu.upload(&buffer, 0, bytes)?;
                Buffer::made(what, buffer)
            }
            Site::Paper(_) => Buffer::planned(what, length),
        })
    }
}
