//! An open device: buffers within its limits, uploads, compiled kernels, waits with a deadline.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault::Faults;
use super::features::WORKGROUP_MEMORY;
use super::{Adapter, AdapterInfo, AdapterKind, Fault, Features, heap, ready};
use crate::kernels::{Kernel, KernelSet, Pipeline, Pipelines, Tested, Verdicts, Wrong, widths};
use crate::load_error::LoadError;

/// Longest wait for a submission, after which the model is given up. Submissions are capped far below.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Longest wait for a submission while a model is loaded: drivers compile a kernel when it is first dispatched, and a software
/// adapter that several models are loaded on takes its time for that.
pub(crate) const LOAD_DEADLINE: Duration = Duration::from_secs(300);

/// Longest wait for a device that is asked whether it was lost: what is busy so long answers those who wait for its work.
const LOSS_DEADLINE: Duration = Duration::from_secs(1);

/// Uploads that may stand in staging memory at once, bytes.
const STAGED: u64 = 32 << 20;
/// Bytes of a block of memory that buffers share; half of it where the processor sees all memory.
const MEMORY_BLOCK: u64 = 8 << 20;

/// Uploads are cut to pieces of this length, bytes.
pub(crate) const PIECE: usize = 4 << 20;

/// Storage buffers that kernels bind at most.
const MOST_STORAGE_BUFFERS: u32 = 16;

/// How a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Optional features that may be used, if the adapter has them.
    pub features: Features,
    /// Lowers what a buffer may hold, bytes.
    pub largest_binding: u64,
    /// For tests: lanes of a subgroup, least and most, instead of what the adapter says.
    #[doc(hidden)]
    pub subgroup_lanes: Option<[u32; 2]>,
    /// Lowers how many storage buffers a kernel may bind; never below the 8 that every device has.
    pub storage_buffers: u32,
}

impl Default for DeviceOptions {
    /// Everything the adapter has.
    fn default() -> Self {
        DeviceOptions {
            features: Features::ALL,
            largest_binding: u64::MAX,
            subgroup_lanes: None,
            storage_buffers: MOST_STORAGE_BUFFERS,
        }
    }
}

/// An open device and its queue, shared by the models on it. A clone is the same device.
#[derive(Clone, Debug)]
pub struct Gpu {
    open: Arc<Open>,
    /// Largest storage binding, bytes.
    pub(crate) largest_binding: u64,
}

/// What an open device consists of.
#[derive(Debug)]
pub struct Open {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    info: AdapterInfo,
    /// What it was opened on and how, where its driver compiles on the processor and keeps on disk what it has compiled.
    again: Option<(Adapter, DeviceOptions)>,
    features: Features,
    subgroup_lanes: [u32; 2],
    storage_buffers: u32,
    faults: Faults,
    staged: AtomicU64,
    /// Bytes of all buffers made so far.
    made: AtomicU64,
    pipelines: Mutex<Pipelines>,
    /// Which kernels compute the right numbers here.
    verdicts: Mutex<Verdicts>,
    /// Kernels that ran in a self-test here.
    tried: Mutex<HashSet<Kernel>>,
    /// What tests make go wrong: kernels by name, and memory.
    sabotaged: Mutex<HashMap<&'static str, Sabotage>>,
    exhausted: AtomicBool,
}

impl Deref for Gpu {
    type Target = Open;

    fn deref(&self) -> &Open {
        &self.open
    }
}

/// What a test puts in the place of a kernel.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Text that is no WGSL.
    DoesNotCompile,
    /// A kernel that writes nothing.
    DoesNothing,
    /// The kernel with something else for a part of its text.
    Edited {
        /// The part.
        from: &'static str,
        /// What stands there instead.
        to: &'static str,
    },
}

/// What came of a wait.
#[derive(Debug)]
pub(crate) enum WaitError {
    Fault(Fault),
    Deadline(Duration),
}

/// Whether everything is done that was submitted before it was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended(Arc<AtomicBool>);

/// Whether Mesa keeps what it has compiled, as far as its switch says: a container or a service may have none of it.
fn keeps_compiled() -> bool {
    let switch = |name| std::env::var(name).unwrap_or_default().to_lowercase();
    ["MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE"]
        .map(switch)
        .iter()
        .all(|value| !["1", "true", "yes", "y"].contains(&value.as_str()))
}

impl Gpu {
    /// Opens an adapter, with its own limits on buffer sizes.
    ///
    /// # Errors
    /// [`LoadError::Open`]: the driver refused.
    pub fn open(adapter: &Adapter, options: DeviceOptions) -> Result<Gpu, LoadError> {
        Gpu::request(adapter, options).map_err(|reason| LoadError::Open {
            adapter: adapter.info().to_string(),
            reason,
        })
    }

    fn request(adapter: &Adapter, options: DeviceOptions) -> Result<Gpu, String> {
        if adapter.info().kind == AdapterKind::Software {
            heap::give_back_large_blocks();
        }
        let available = adapter.inner().limits();
        let defaults = wgpu::Limits::default();
        let storage_buffers = available
            .max_storage_buffers_per_shader_stage
            .min(options.storage_buffers)
            .clamp(
                defaults.max_storage_buffers_per_shader_stage,
                MOST_STORAGE_BUFFERS,
            );
        let limits = wgpu::Limits {
            max_storage_buffers_per_shader_stage: storage_buffers,
            max_storage_buffer_binding_size: available.max_storage_buffer_binding_size,
            max_buffer_size: available.max_buffer_size,
            max_compute_workgroup_storage_size: available
                .max_compute_workgroup_storage_size
                .min(WORKGROUP_MEMORY)
                .max(defaults.max_compute_workgroup_storage_size),
            ..defaults
        };
        let masked = Features::ALL.without(options.features);
        let features = Features::of(adapter).without(masked);
        let experimental_features = if features.cooperative {
            // SAFETY: the feature is asked for knowingly: its kernels are chosen only after they computed the right numbers on
            // this very adapter, and no other experimental feature is turned on.
            #[allow(unsafe_code)]
            unsafe {
                wgpu::ExperimentalFeatures::enabled()
            }
        } else {
            wgpu::ExperimentalFeatures::disabled()
        };
        let description = wgpu::DeviceDescriptor {
            label: Some("tidegate"),
            required_features: features.to_wgpu(),
            required_limits: limits,
            experimental_features,
            // A matrix lives as long as its model, so what is left of a block that it shares is lost: blocks are the smallest
            // there are, and a matrix that is larger has memory of its own. Blocks that grow would be shared by matrices and
            // what was staged for them, and would be neither full nor given back.
            memory_hints: wgpu::MemoryHints::Manual {
                suballocated_device_memory_block_size: MEMORY_BLOCK..MEMORY_BLOCK,
            },
            ..Default::default()
        };
        let (device, queue) = ready(adapter.inner().request_device(&description))
            .ok_or_else(|| "the driver did not answer".to_owned())?
            .map_err(|error| error.to_string())?;
        let faults = Faults::default();
        faults.listen(&device);
        let largest_binding = adapter.info().largest_binding.min(options.largest_binding);
        let open = Arc::new(Open {
            device,
            queue,
            info: adapter.info().clone(),
            again: (adapter.info().is_llvmpipe() && keeps_compiled())
                .then(|| (adapter.clone(), options)),
            features,
            subgroup_lanes: options
                .subgroup_lanes
                .unwrap_or(adapter.info().subgroup_lanes),
            storage_buffers,
            faults,
            staged: AtomicU64::new(0),
            made: AtomicU64::new(0),
            pipelines: Mutex::default(),
            verdicts: Mutex::default(),
            tried: Mutex::default(),
            sabotaged: Mutex::default(),
            exhausted: AtomicBool::new(false),
        });
        Ok(Gpu {
            open,
            largest_binding,
        })
    }

    /// Whether [`Gpu::beside`] opens others, which find in a cache what this one has compiled, and the other way round.
    pub(crate) fn has_others_beside(&self) -> bool {
        self.again.is_some()
    }

    /// Another device of the same adapter, which may bind as much.
    ///
    /// # Errors
    /// The driver refused, or there is none beside this one.
    pub(crate) fn beside(&self) -> Result<Gpu, LoadError> {
        let opened = match &self.again {
            Some((adapter, options)) => Gpu::request(adapter, *options),
            None => Err("there is no second device beside it".to_owned()),
        };
        let gpu = opened.map_err(|reason| LoadError::Open {
            adapter: self.info.to_string(),
            reason,
        })?;
        Ok(gpu.narrowed(self.largest_binding))
    }

    /// The same device for one who may bind no more than so many bytes.
    #[doc(hidden)]
    #[must_use]
    pub fn narrowed(&self, largest_binding: u64) -> Gpu {
        Gpu {
            open: self.open.clone(),
            largest_binding: self.largest_binding.min(largest_binding),
        }
    }

    /// A kernel, compiled when first asked for.
    pub(crate) fn pipeline(&self, kernel: Kernel, checked: bool) -> Result<Pipeline, LoadError> {
        let mut pipelines = self
            .pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pipelines.get(self, kernel, checked)
    }

    /// What is known of a set of kernels here, by tests of all that this one may bind.
    pub(crate) fn verdict(&self, set: KernelSet, tested: Tested) -> Option<Option<Wrong>> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(&(set, tested, widths(self, tested))).cloned()
    }

    pub(crate) fn keep_verdict(&self, set: KernelSet, tested: Tested, verdict: Option<Wrong>) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.insert((set, tested, widths(self, tested)), verdict);
    }

    pub(crate) fn note_tried(&self, kernel: Kernel) {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.insert(kernel);
    }

    /// Whether a kernel ran in a self-test here.
    #[doc(hidden)]
    #[must_use]
    pub fn was_tried(&self, kernel: Kernel) -> bool {
        let tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.contains(&kernel)
    }

    /// Puts something else in the place of a kernel that is asked for from now on.
    #[doc(hidden)]
    pub fn sabotage(&self, kernel: &'static str, sabotage: Sabotage) {
        self.sabotaged().insert(kernel, sabotage);
        self.forget(kernel);
    }

    /// Takes back all of that, and memory that is to run out.
    #[doc(hidden)]
    pub fn repair(&self) {
        self.exhausted.store(false, Ordering::Release);
        let sabotaged: Vec<_> = self.sabotaged().drain().collect();
        for (kernel, _) in sabotaged {
            self.forget(kernel);
        }
    }

    fn sabotaged(&self) -> MutexGuard<'_, HashMap<&'static str, Sabotage>> {
        self.sabotaged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was compiled of a kernel, and what is known of all.
    fn forget(&self, kernel: &str) {
        let mut pipelines = self
            .pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pipelines.forget(kernel);
        self.forget_tests();
    }

    /// Forgets which kernels were tested and what came of it: the next model tests what it runs anew.
    #[doc(hidden)]
    pub fn forget_tests(&self) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.clear();
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.clear();
    }

    /// Makes the next allocation or step fail as if memory had run out.
    #[doc(hidden)]
    pub fn exhaust(&self) {
        self.exhausted.store(true, Ordering::Release);
    }

    /// Loses the device, as a driver does that was reset.
    #[doc(hidden)]
    pub fn lose(&self) {
        self.device.destroy();
    }
}

impl Open {
    /// The adapter it was opened on.
    #[must_use]
    pub fn adapter(&self) -> &AdapterInfo {
        &self.info
    }

    /// The optional features it was opened with.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Storage buffers that a kernel can bind.
    pub(crate) fn storage_buffers(&self) -> u32 {
        self.storage_buffers
    }

    /// Lanes of a subgroup, least and most.
    pub(crate) fn subgroup_lanes(&self) -> [u32; 2] {
        self.subgroup_lanes
    }

    /// The loss of the device, if there was one. Asks the driver, so that one that nobody has met is seen too. Any other fault
    /// is left to those who are to be told, and a device that is busy was not lost.
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        if self.faults.loss().is_none() {
            // A poll alone does not come as far as a driver that nothing was asked of.
            let submission = self.queue.submit(std::iter::empty());
            // What is found is kept.
            let _ = self.poll(Some(submission), LOSS_DEADLINE);
        }
        match self.faults.loss() {
            Some(Fault::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Whether it is the CPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.info.kind == AdapterKind::Software
    }

    /// Bytes of all buffers made so far, those included that are gone.
    #[doc(hidden)]
    #[must_use]
    pub fn bytes_made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn sabotage_of(&self, kernel: &str) -> Option<Sabotage> {
        let sabotaged = self
            .sabotaged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sabotaged.get(kernel).copied()
    }

    /// Does something on this thread and says what the device had against it. What is caught here harms nothing else on
    /// the device.
    pub(crate) fn scoped<T>(&self, work: impl FnOnce() -> T) -> (T, Option<Fault>) {
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let result = work();
        let errors = [
            ready(memory.pop()),
            ready(validation.pop()),
            ready(internal.pop()),
        ];
        let fault = errors
            .into_iter()
            .flatten()
            .flatten()
            .next()
            .map(Fault::from);
        // Whatever else a lost device says of the work, that is why.
        let fault = fault.map(|fault| self.faults.loss().unwrap_or(fault));
        if self.exhausted.swap(false, Ordering::AcqRel) {
            return (result, Some(Fault::OutOfMemory("injected".to_owned())));
        }
        (result, fault)
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

    /// A buffer that timestamps are written to.
    pub(crate) fn query_buffer(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        self.buffer(
            label,
            bytes,
            wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
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

    /// Bytes that a buffer for so many takes: a whole number of vectors, at least one.
    pub(crate) fn rounded(bytes: u64) -> u64 {
        bytes.max(16).next_multiple_of(16)
    }

    fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = Open::rounded(bytes);
        self.made.fetch_add(size, Ordering::Relaxed);
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
        let length = bytes.len() as u64;
        if self.staged.fetch_add(length, Ordering::Relaxed) + length > STAGED {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Submits every upload of a model that is loaded and waits for it.
    pub(crate) fn flush(&self) -> Result<(), WaitError> {
        self.staged.store(0, Ordering::Relaxed);
        let submission = self.queue.submit(std::iter::empty());
        self.wait(Some(submission), LOAD_DEADLINE)
    }

    /// Waits for all but the last of a pass's submissions, `deadline` for each: a device that gets on is not given up,
    /// however long the pass takes. Gives the last.
    pub(crate) fn wait_for_all_but_one(
        &self,
        mut submissions: Vec<wgpu::SubmissionIndex>,
        deadline: Duration,
    ) -> Result<Option<wgpu::SubmissionIndex>, WaitError> {
        let last = submissions.pop();
        for submission in submissions {
            self.wait(Some(submission), deadline)?;
        }
        Ok(last)
    }

    /// Waits for a submission, sleeping, at most `deadline`; any failure of the device so far is the answer.
    pub(crate) fn wait(
        &self,
        submission: Option<wgpu::SubmissionIndex>,
        deadline: Duration,
    ) -> Result<(), WaitError> {
        if let Some(fault) = self.faults.tell() {
            return Err(WaitError::Fault(fault));
        }
        let polled = self.poll(submission, deadline);
        match self.faults.tell() {
            Some(fault) => Err(WaitError::Fault(fault)),
            None => polled,
        }
    }

    /// Whether nothing of what was submitted is still to be done, as far as is known without waiting.
    pub(crate) fn is_idle(&self) -> bool {
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(wgpu::PollType::Poll)));
        matches!(polled, Ok(Ok(status)) if status.is_queue_empty())
    }

    /// Is told when everything is done that was submitted so far.
    pub(crate) fn end_of_all(&self) -> Ended {
        let ended = Ended::default();
        let told = ended.clone();
        (self.queue).on_submitted_work_done(move || told.0.store(true, Ordering::Release));
        ended
    }

    /// Whether it has come to that, as far as is known without waiting.
    ///
    /// A submission's own index is not asked for: wgpu 30 panics where another thread finds its end between a look at the fence
    /// and one at the queue, as one does that loads another model.
    pub(crate) fn has_ended(&self, all: &Ended) -> bool {
        if !all.0.load(Ordering::Acquire) {
            let _ = catch_unwind(AssertUnwindSafe(|| self.device.poll(wgpu::PollType::Poll)));
        }
        all.0.load(Ordering::Acquire)
    }

    /// Waits for a submission without being told of any failure but a loss.
    fn poll(
        &self,
        submission: Option<wgpu::SubmissionIndex>,
        deadline: Duration,
    ) -> Result<(), WaitError> {
        let wait = wgpu::PollType::Wait {
            submission_index: submission,
            timeout: Some(deadline),
        };
        // wgpu 30 panics in `poll` where the driver reports a loss: that too is a failure of the device, not of ours.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(wait))) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(wgpu::PollError::Timeout)) => Err(WaitError::Deadline(deadline)),
            // A submission that was refused for any other reason has left a fault: only a loss is told by its index alone.
            Ok(Err(error)) => Err(self.lost(error.to_string())),
            Err(_) => Err(self.lost("the driver failed while it was waited for".to_owned())),
        }
    }

    /// Keeps a loss, so that everything on the device hears of it.
    fn lost(&self, reason: String) -> WaitError {
        let fault = Fault::Lost(reason);
        self.faults.record(fault.clone());
        WaitError::Fault(fault)
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
        let (tell, mapped) = std::sync::mpsc::channel();
        readback.map_async(wgpu::MapMode::Read, 0..bytes, move |mapped| {
            // The receiver is gone only if the wait failed, and then nobody asks.
            let _ = tell.send(mapped);
        });
        if let Err(error) = self.wait(Some(submission), deadline) {
            // The buffer is wanted again, unless the device is gone.
            readback.unmap();
            return Err(error);
        }
        let refused = |what: String| WaitError::Fault(Fault::Refused(what));
        // The wait of another thread may be the one that tells; then it is a moment away.
        match mapped.recv_timeout(deadline) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kernels::{KernelVariant, StorageFormat, Store};

    #[test]
    fn a_fault_that_is_no_loss_harms_one_read_and_not_the_next() {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        let (buffer, readback) = (gpu.storage("words", 16), gpu.readback("words", 16));
        gpu.upload(&buffer, 0, &[7; 16]).unwrap();
        let read = || {
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&buffer, 0, &readback, 0, 16);
            let submission = gpu.queue.submit([encoder.finish()]);
            let mut found = Vec::new();
            let take = |bytes: &[u8]| found.extend_from_slice(bytes);
            gpu.read(&readback, 16, submission, DEADLINE, take)?;
            Ok::<_, WaitError>(found)
        };
        assert_eq!(read().unwrap(), [7; 16]);
        gpu.faults
            .record(Fault::Refused("something else".to_owned()));
        let error = read().unwrap_err();
        let WaitError::Fault(Fault::Refused(what)) = error else {
            panic!("{error:?}");
        };
        assert_eq!(what, "something else");
        assert_eq!(read().unwrap(), [7; 16]);
    }

    /// Whoever asks for a loss takes no fault away from those who are to be told, not for a moment.
    #[test]
    fn who_asks_for_a_loss_leaves_other_faults_where_they_are() {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    assert_eq!(gpu.loss(), None);
                }
            });
            let fault = Fault::Refused("something".to_owned());
            let kept = (0..20_000).all(|_| {
                gpu.faults.record(fault.clone());
                std::thread::yield_now();
                gpu.faults.tell().as_ref() == Some(&fault)
            });
            over.store(true, Ordering::Release);
            assert!(kept, "a fault was not there");
        });
    }

    /// What was tested without the wide rows is no verdict for a device that can have them.
    #[test]
    fn a_verdict_is_of_the_widths_that_were_tested() {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        let set = KernelSet::of(KernelVariant::Portable, false, false);
        let tested = Tested::Products(StorageFormat::F32, Store::Plain);
        gpu.narrowed(1 << 18).keep_verdict(set, tested, None);
        assert_eq!(gpu.verdict(set, tested), None);
        assert_eq!(gpu.narrowed(1 << 18).verdict(set, tested), Some(None));
    }
}
