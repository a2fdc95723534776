//! Buffers of a program: on a device, or only planned.

use std::sync::Arc;

use crate::device::Open;
use crate::load_error::LoadError;

/// A buffer that dispatches bind. A clone is the same buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    what: String,
    bytes: u64,
    made: Option<wgpu::Buffer>,
}

/// Two are equal if they are the same.
impl PartialEq for Buffer {
    fn eq(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Buffer {
    /// One that nobody has made: of a program that is not to run.
    pub(crate) fn planned(what: &str, bytes: u64) -> Buffer {
        Buffer(Arc::new(Inner {
            what: what.to_owned(),
            bytes: Open::rounded(bytes),
            made: None,
        }))
    }

    /// One on a device.
    pub(crate) fn made(what: &str, buffer: wgpu::Buffer) -> Buffer {
        Buffer(Arc::new(Inner {
            what: what.to_owned(),
            bytes: buffer.size(),
            made: Some(buffer),
        }))
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.0.bytes
    }

    /// What tells it from others.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The buffer on the device.
    ///
    /// # Errors
    /// It was only planned.
    pub(crate) fn on_device(&self) -> Result<&wgpu::Buffer, LoadError> {
        self.0.made.as_ref().ok_or_else(|| LoadError::Device {
            reason: format!("the buffer of {} was planned and never made", self.0.what),
        })
    }
}
