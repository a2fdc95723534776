//! Why a decoder could not be loaded.

use std::path::PathBuf;
use std::time::Duration;

use crate::device::{Fault, WaitError};
use tidegate_contract::DecodeError;
use tidegate_weights::{CheckpointError, TensorError};

/// Why a decoder could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The model is not whole: a tensor is missing, or has another shape.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A tensor cannot be read, or is not finite.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A tensor of a low-rank adapter cannot be read, or is not finite.
    #[error("adapter {path}: {source}")]
    Lora {
        /// The adapter.
        path: PathBuf,
        /// What is wrong.
        source: TensorError,
    },
    /// The model is of the other kind.
    #[error("{architecture} is no {wanted}")]
    Kind {
        /// What the model is.
        architecture: String,
        /// What is loaded.
        wanted: &'static str,
    },
    /// An option is out of range.
    #[error("{what} is {value}, must be between {least} and {most}")]
    Option {
        /// The option.
        what: &'static str,
        /// Its value.
        value: usize,
        /// Least it can be.
        least: usize,
        /// Most it can be.
        most: usize,
    },
    /// `TIDEGATE_KERNELS` names no kernels.
    #[error(
        "TIDEGATE_KERNELS is `{value}`, supported: auto, portable, software, subgroup, f16, cooperative, dot"
    )]
    Kernels {
        /// Its value.
        value: String,
    },
    /// The kernels that were asked for cannot run here.
    #[error("{variant} kernels cannot run on {adapter}: {reason}")]
    Variant {
        /// The kernels.
        variant: &'static str,
        /// The adapter.
        adapter: String,
        /// What it lacks.
        reason: String,
    },
    /// Kernels computed wrong numbers in their self-test, and no others are left to try.
    #[error(transparent)]
    WrongNumbers(Box<WrongNumbers>),
    /// A kernel does not compile on the device's driver.
    #[error("kernel {kernel} does not compile on this device: {reason}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// What the driver said.
        reason: String,
    },
    /// A buffer that cannot be split is larger than the adapter can bind.
    #[error(
        "{what} of {bytes} bytes exceed the adapter's largest binding of {limit} bytes; {remedy}"
    )]
    BufferTooLarge {
        /// What the buffer holds.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The adapter's limit.
        limit: u64,
        /// What to change.
        remedy: &'static str,
    },
    /// The adapter could not be opened.
    #[error("cannot open adapter {adapter}: {reason}")]
    Open {
        /// The adapter.
        adapter: String,
        /// What the driver said.
        reason: String,
    },
    /// The device has not enough memory for the model.
    #[error("device out of memory while loading {bytes} bytes: {reason}")]
    OutOfMemory {
        /// Bytes of weights, cache and activations together.
        bytes: u64,
        /// What the driver said.
        reason: String,
    },
    /// The device was lost.
    #[error("device lost while loading: {reason}")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// The device did not finish in time.
    #[error("device did not finish loading within {limit:?}")]
    DeadlineExceeded {
        /// The limit that ran out.
        limit: Duration,
    },
    /// The device refused something: a bug of this crate or of the driver.
    #[error("device refused a kernel or buffer: {reason}")]
    Device {
        /// What wgpu said.
        reason: String,
    },
}

/// Kernels that computed wrong numbers in their self-test.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{variant} kernels compute wrong numbers on {adapter}: {kernel}, {case}: {found}, must be {expected}"
)]
pub struct WrongNumbers {
    /// The kernels that were asked for, or the last that were tried.
    pub variant: &'static str,
    /// The adapter.
    pub adapter: String,
    /// The kernels that ran, by name.
    pub kernel: String,
    /// Which numbers of which case.
    pub case: String,
    /// What the host computed, and how far from it they may be.
    pub expected: String,
    /// What the device computed.
    pub found: String,
}

impl LoadError {
    /// Whether each of these, by what it is, is between 1 and what it can be at most.
    pub(crate) fn check_within<const N: usize>(
        options: [(&'static str, usize, usize); N],
    ) -> Result<(), LoadError> {
        let outside = |(_, value, most): &(&'static str, usize, usize)| *value == 0 || value > most;
        match options.into_iter().find(outside) {
            None => Ok(()),
            Some((what, value, most)) => Err(LoadError::Option {
                what,
                value,
                least: 1,
                most,
            }),
        }
    }

    /// What a failed wait means while `bytes` are being loaded.
    pub(crate) fn from_wait(error: WaitError, bytes: u64) -> LoadError {
        match error {
            WaitError::Deadline(limit) => LoadError::DeadlineExceeded { limit },
            WaitError::Fault(fault) => LoadError::from_fault(fault, bytes),
        }
    }

    /// What a failed first step means while `bytes` are being loaded.
    pub(crate) fn from_decode(error: DecodeError, bytes: u64) -> LoadError {
        match error {
            DecodeError::DeviceLost { reason } => LoadError::DeviceLost { reason },
            DecodeError::OutOfMemory { reason } => LoadError::OutOfMemory { bytes, reason },
            DecodeError::DeadlineExceeded { limit } => LoadError::DeadlineExceeded { limit },
            DecodeError::Kernel { kernel, reason } => LoadError::Kernel { kernel, reason },
            other => LoadError::Device {
                reason: other.to_string(),
            },
        }
    }

    /// What a failure of the device means while `bytes` are being loaded.
    pub(crate) fn from_fault(fault: Fault, bytes: u64) -> LoadError {
        match fault {
            Fault::Lost(reason) => LoadError::DeviceLost { reason },
            Fault::OutOfMemory(reason) => LoadError::OutOfMemory { bytes, reason },
            Fault::Refused(reason) => LoadError::Device { reason },
        }
    }
}
