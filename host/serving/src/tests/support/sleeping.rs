//! A decoder whose device works by itself for a while for each step: what it is given is done one after another, and whoever
//! collects sleeps until it is.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_contract::{DecodeError, Decoder, DecoderShape, FedToken, Sampled, StepSequence};

use super::{Control, Fake, Logits};
use crate::ModelLoader;

/// What the device has had to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceTime {
    /// From its first work until the last ended.
    pub(crate) all: Duration,
    /// When it had nothing to do in between.
    pub(crate) idle: Duration,
    /// How often.
    pub(crate) idle_gaps: usize,
}

#[derive(Debug, Default)]
struct Device {
    time: DeviceTime,
    /// When its first work began, and when all that it has will be done.
    busy: Option<(Instant, Instant)>,
}

impl Device {
    /// Gives it work for so long; when that will be done.
    fn give(&mut self, work: Duration) -> Instant {
        let now = Instant::now();
        let (first, until) = self.busy.unwrap_or((now, now));
        let gap = now.saturating_duration_since(until);
        if !gap.is_zero() && self.busy.is_some() {
            self.time.idle += gap;
            self.time.idle_gaps += 1;
        }
        let until = until.max(now) + work;
        self.busy = Some((first, until));
        self.time.all = until - first;
        until
    }
}

/// What a test sees of the device.
pub(crate) struct DeviceClock(Arc<Mutex<Device>>);

impl DeviceClock {
    pub(crate) fn get(&self) -> DeviceTime {
        self.0.lock().unwrap().time
    }

    /// Begins anew.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap() = Device::default();
    }
}

struct Sleeping {
    inner: Box<dyn Decoder>,
    device: Arc<Mutex<Device>>,
    ahead: bool,
    /// What a step takes on the device, and what it takes the host to encode one.
    forward: Duration,
    host: Duration,
    /// When the step that is collected next will be done.
    ends: Option<Instant>,
}

impl Sleeping {
    fn encode(&self) {
        std::thread::sleep(self.host);
        self.device.lock().unwrap().give(self.forward);
    }
}

impl Decoder for Sleeping {
    fn shape(&self) -> &DecoderShape {
        self.inner.shape()
    }

    fn memory(&self) -> u64 {
        self.inner.memory()
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.inner.step(step, sampled)
    }

    fn submit(&mut self, _: &[StepSequence]) -> Result<(), DecodeError> {
        self.encode();
        Ok(())
    }

    fn runs_ahead(&self) -> bool {
        self.ahead
    }

    fn submit_after(&mut self, _: &[StepSequence], _: &[FedToken]) -> Result<(), DecodeError> {
        self.encode();
        Ok(())
    }

    fn draw(&mut self, _: &[StepSequence]) -> Result<(), DecodeError> {
        self.ends = Some(self.device.lock().unwrap().give(Duration::ZERO));
        Ok(())
    }

    fn collect(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        if let Some(ends) = self.ends.take() {
            std::thread::sleep(ends.saturating_duration_since(Instant::now()));
        }
        self.inner.step(step, sampled)
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.inner.logits(step, logits)
    }
}

/// A way to load it: what a step takes on the device, and what it takes the host to encode one.
pub(crate) fn sleeping(
    shape: DecoderShape,
    logits: Arc<Logits>,
    ahead: bool,
    [forward, host]: [Duration; 2],
) -> (ModelLoader, DeviceClock, Control) {
    let (load, control) = Fake::loader(shape, logits);
    let ModelLoader::Decoder(mut load) = load else {
        unreachable!("a decoder")
    };
    let device = Arc::<Mutex<Device>>::default();
    let clock = DeviceClock(Arc::clone(&device));
    let load = move || {
        Ok(Box::new(Sleeping {
            inner: load()?,
            device: Arc::clone(&device),
            ahead,
            forward,
            host,
            ends: None,
        }) as Box<dyn Decoder>)
    };
    (ModelLoader::Decoder(Box::new(load)), clock, control)
}
