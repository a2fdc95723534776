//! An open device: buffers within its limits, uploads, waits with a deadline.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::fault::Faults;
use super::{Adapter, Fault, ready};

/// Longest wait for the device, after which the decoder is given up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Uploads that may stand in staging memory at once, bytes.
const STAGED: u64 = 64 << 20;

/// Uploads are cut to pieces of this length, bytes.
pub(crate) const PIECE: usize = 4 << 20;

/// An open device and its queue.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    /// Largest storage binding, bytes.
    pub(crate) largest_binding: u64,
    faults: Faults,
    staged: std::cell::Cell<u64>,
}

/// What came of a wait.
#[derive(Debug)]
pub(crate) enum WaitError {
    Fault(Fault),
    Deadline(Duration),
}

impl Gpu {
    /// Opens an adapter with no optional feature, and its own limits on buffer sizes.
    pub(crate) fn open(adapter: &Adapter) -> Result<Gpu, String> {
        let available = adapter.inner().limits();
        let limits = wgpu::Limits {
            max_storage_buffer_binding_size: available.max_storage_buffer_binding_size,
            max_buffer_size: available.max_buffer_size,
            ..wgpu::Limits::default()
        };
        let description = wgpu::DeviceDescriptor {
            label: Some("tidegate"),
            required_limits: limits,
            ..Default::default()
        };
        let (device, queue) = ready(adapter.inner().request_device(&description))
            .ok_or_else(|| "the driver did not answer".to_owned())?
            .map_err(|error| error.to_string())?;
        let faults = Faults::default();
        faults.listen(&device);
        let largest_binding = available
            .max_storage_buffer_binding_size
            .min(available.max_buffer_size);
        Ok(Gpu {
            device,
            queue,
            largest_binding,
            faults,
            staged: std::cell::Cell::new(0),
        })
    }

    /// A zeroed storage buffer of at least `bytes`, which the host can write and read back from.
    pub(crate) fn storage(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        use wgpu::BufferUsages as Usage;
        self.buffer(
            label,
            bytes,
            Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC,
        )
    }

    /// A buffer to read back through.
    pub(crate) fn readback(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        self.buffer(
            label,
            bytes,
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        )
    }

    /// A uniform buffer with these contents.
    pub(crate) fn uniform(&self, label: &str, contents: &[u32]) -> wgpu::Buffer {
        let bytes: &[u8] = bytemuck::cast_slice(contents);
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(label, bytes.len() as u64, usage);
        self.queue.write_buffer(&buffer, 0, bytes);
        buffer
    }

    fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = bytes.max(16).next_multiple_of(16);
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// Writes to a buffer; waits now and then, so that staging memory stays bounded.
    pub(crate) fn upload(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), WaitError> {
        self.queue.write_buffer(buffer, offset, bytes);
        self.staged.set(self.staged.get() + bytes.len() as u64);
        if self.staged.get() > STAGED {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Submits every upload and waits for it.
    pub(crate) fn flush(&self) -> Result<(), WaitError> {
        self.staged.set(0);
        let submission = self.queue.submit(std::iter::empty());
        self.wait(Some(submission), DEADLINE)
    }

    /// Waits for a submission, sleeping, at most `deadline`; any failure of the device so far is the answer.
    pub(crate) fn wait(
        &self,
        submission: Option<wgpu::SubmissionIndex>,
        deadline: Duration,
    ) -> Result<(), WaitError> {
        if let Some(fault) = self.faults.first() {
            return Err(WaitError::Fault(fault));
        }
        let wait = wgpu::PollType::Wait {
            submission_index: submission,
            timeout: Some(deadline),
        };
        // wgpu 30 panics in `poll` where the driver reports a loss: that too is a failure of the device, not of ours.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(wait)));
        if let Some(fault) = self.faults.first() {
            return Err(WaitError::Fault(fault));
        }
        match polled {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(wgpu::PollError::Timeout)) => Err(WaitError::Deadline(deadline)),
            // A submission that was refused for any other reason has left a fault: only a loss is told by its index alone.
            Ok(Err(error)) => Err(WaitError::Fault(Fault::Lost(error.to_string()))),
            Err(_) => Err(WaitError::Fault(Fault::Lost(
                "the driver failed while it was waited for".to_owned(),
            ))),
        }
    }

    /// Reads the first `bytes` of a buffer that was copied to by `submission`.
    pub(crate) fn read(
        &self,
        readback: &wgpu::Buffer,
        bytes: u64,
        submission: wgpu::SubmissionIndex,
        deadline: Duration,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), WaitError> {
        let (tell, told) = std::sync::mpsc::channel();
        readback.map_async(wgpu::MapMode::Read, 0..bytes, move |mapped| {
            // The receiver is gone only if the wait failed, and then nobody asks.
            let _ = tell.send(mapped);
        });
        self.wait(Some(submission), deadline)?;
        let refused = |what: String| WaitError::Fault(Fault::Refused(what));
        match told.try_recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(refused(error.to_string())),
            Err(_) => return Err(WaitError::Deadline(deadline)),
        }
        {
            let view = readback
                .get_mapped_range(0..bytes)
                .map_err(|error| refused(error.to_string()))?;
            take(&view);
        }
        readback.unmap();
        Ok(())
    }
}
