//! What went wrong on a device: the callbacks of wgpu write it here, the next wait reads it.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_contract::DecodeError;

use super::gpu::WaitError;

/// A failure of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Lost(String),
    OutOfMemory(String),
    Refused(String),
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Lost(reason) => DecodeError::DeviceLost { reason },
            Fault::OutOfMemory(reason) => DecodeError::OutOfMemory { reason },
            Fault::Refused(reason) => DecodeError::Device { reason },
        }
    }
}

impl From<WaitError> for DecodeError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Fault(fault) => fault.into(),
            WaitError::Deadline(limit) => DecodeError::DeadlineExceeded { limit },
        }
    }
}

impl From<wgpu::Error> for Fault {
    fn from(error: wgpu::Error) -> Self {
        match error {
            wgpu::Error::OutOfMemory { source } => Fault::OutOfMemory(source.to_string()),
            wgpu::Error::Validation { description, .. }
            | wgpu::Error::Internal { description, .. } => Fault::Refused(description),
        }
    }
}

/// The first failure of a device that nobody was told of; a loss replaces any other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<Fault>>>);

impl Faults {
    pub(crate) fn record(&self, fault: Fault) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = matches!(fault, Fault::Lost(_)) && !matches!(*first, Some(Fault::Lost(_)));
        if first.is_none() || lost {
            *first = Some(fault);
        }
    }

    /// The failure that is to be told now. A loss is told to everybody who asks; any other once, as the device goes on.
    pub(crate) fn tell(&self) -> Option<Fault> {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            Some(Fault::Lost(_)) => first.clone(),
            _ => first.take(),
        }
    }

    /// The loss of the device, if it was lost.
    pub(crate) fn loss(&self) -> Option<Fault> {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first
            .clone()
            .filter(|first| matches!(first, Fault::Lost(_)))
    }

    /// Sends everything wgpu reports about `device` here. Without this wgpu panics on an error outside a scope.
    pub(crate) fn listen(&self, device: &wgpu::Device) {
        let faults = self.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            faults.record(error.into());
        }));
        let faults = self.clone();
        device.set_device_lost_callback(move |_, message| faults.record(Fault::Lost(message)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_fault_is_reported_once_and_a_loss_for_ever() {
        let faults = Faults::default();
        faults.record(Fault::Refused("first".into()));
        faults.record(Fault::OutOfMemory("second".into()));
        assert_eq!(faults.tell(), Some(Fault::Refused("first".into())));
        assert_eq!(faults.tell(), None);
        faults.record(Fault::Refused("third".into()));
        assert_eq!(faults.loss(), None);
        faults.record(Fault::Lost("gone".into()));
        faults.record(Fault::Lost("gone again".into()));
        for _ in 0..2 {
            assert_eq!(faults.tell(), Some(Fault::Lost("gone".into())));
            assert_eq!(faults.loss(), Some(Fault::Lost("gone".into())));
        }
    }
}
