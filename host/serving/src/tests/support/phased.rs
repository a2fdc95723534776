//! A decoder whose steps have phases, and what happens in which of them.

use std::sync::{Arc, Mutex};

use tidegate_contract::{
    Answer, DecodeError, Decoder, DecoderShape, ModelError, Reply, Sampled, StepSequence,
};

use super::{Control, Fake, Logits};
use crate::ModelLoader;

/// What happens, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A step is submitted: the number of its masks that are there already.
    Submit { masks: usize },
    /// Its tokens are to be drawn: the number of its masks.
    Draw { masks: usize },
    /// It is waited for.
    Collect,
    /// A reply hears of a token.
    Token(u32),
    /// A reply hears of its end.
    Done(bool),
}

/// The events of a test.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub(crate) fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// How many of these there were.
    pub(crate) fn count(&self, of: fn(&Event) -> bool) -> usize {
        self.all().iter().filter(|event| of(event)).count()
    }

    /// A reply that notes what it hears.
    pub(crate) fn reply(&self) -> Box<dyn Reply> {
        Box::new(Hears(self.clone()))
    }
}

struct Hears(Events);

impl Reply for Hears {
    fn token(&mut self, index: u32, _: u32, _: &str) {
        self.0.note(Event::Token(index));
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        self.0.note(Event::Done(result.is_ok()));
    }
}

/// A phase of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Submit,
    Draw,
    Collect,
}

/// Is told of each phase of each step, counted from 1 over all loads, and may have it fail.
pub(crate) type Hook = dyn Fn(Phase, usize) -> Option<DecodeError> + Send + Sync;

struct Phased {
    inner: Box<dyn Decoder>,
    events: Events,
    hook: Arc<Hook>,
    steps: Arc<Mutex<usize>>,
    /// The step that runs.
    running: Option<Vec<StepSequence>>,
}

impl Phased {
    fn phase(&self, phase: Phase) -> Result<(), DecodeError> {
        let step = *self.steps.lock().unwrap();
        (self.hook)(phase, step).map_or(Ok(()), Err)
    }
}

fn masks(step: &[StepSequence]) -> usize {
    let samples = step.iter().flat_map(|sequence| &sequence.samples);
    samples
        .filter(|sampling| sampling.allowed.is_some())
        .count()
}

/// The step without its masks.
fn bare(step: &[StepSequence]) -> String {
    let mut step = step.to_vec();
    let samples = step.iter_mut().flat_map(|sequence| &mut sequence.samples);
    samples.for_each(|sampling| sampling.allowed = None);
    format!("{step:?}")
}

impl Decoder for Phased {
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

    fn submit(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        *self.steps.lock().unwrap() += 1;
        self.events.note(Event::Submit { masks: masks(step) });
        self.phase(Phase::Submit)?;
        self.running = Some(step.to_vec());
        Ok(())
    }

    fn draw(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        self.events.note(Event::Draw { masks: masks(step) });
        let running = self.running.as_deref().expect("a step was submitted");
        assert_eq!(bare(running), bare(step), "another step was submitted");
        self.running = Some(step.to_vec());
        self.phase(Phase::Draw)
    }

    fn collect(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.events.note(Event::Collect);
        let running = self.running.take().expect("a step was submitted");
        assert_eq!(format!("{running:?}"), format!("{step:?}"));
        self.phase(Phase::Collect)?;
        self.inner.step(step, sampled)
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.inner.logits(step, logits)
    }
}

/// A way to load a fake decoder with phases.
pub(crate) fn phased(
    shape: DecoderShape,
    logits: Arc<Logits>,
    events: &Events,
    hook: Arc<Hook>,
) -> (ModelLoader, Control) {
    let (load, control) = Fake::loader(shape, logits);
    let ModelLoader::Decoder(mut load) = load else {
        unreachable!("a decoder")
    };
    let (events, steps) = (events.clone(), Arc::default());
    let load = move || {
        Ok(Box::new(Phased {
            inner: load()?,
            events: events.clone(),
            hook: Arc::clone(&hook),
            steps: Arc::clone(&steps),
            running: None,
        }) as Box<dyn Decoder>)
    };
    (ModelLoader::Decoder(Box::new(load)), control)
}
