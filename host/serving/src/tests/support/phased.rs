//! A decoder whose steps have phases, and what happens in which of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tidegate_contract::{
    Answer, DecodeError, Decoder, DecoderShape, FedToken, ModelError, Reply, Sampled, StepSequence,
};

use super::{Control, Fake, Logits, VOCABULARY};
use crate::ModelLoader;

/// What happens, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A step is submitted: the number of its masks that are there already.
    Submit { masks: usize },
    /// The step after one that runs is submitted: the number of its tokens that are fed.
    SubmitAfter { fed: usize },
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

    /// Whatever happened so far is no part of the test.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap().clear();
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
    SubmitAfter,
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
    /// Whether it begins steps ahead.
    ahead: bool,
    /// The step that runs, and the one after it.
    running: VecDeque<Running>,
    /// What was drawn last.
    drawn: Vec<Sampled>,
}

struct Running {
    number: usize,
    step: Vec<StepSequence>,
    fed: Vec<FedToken>,
    is_drawn: bool,
}

impl Phased {
    fn begin(&mut self, step: &[StepSequence], fed: &[FedToken]) -> Running {
        let mut steps = self.steps.lock().unwrap();
        *steps += 1;
        Running {
            number: *steps,
            step: step.to_vec(),
            fed: fed.to_vec(),
            is_drawn: false,
        }
    }

    fn phase(&self, phase: Phase, step: usize) -> Result<(), DecodeError> {
        (self.hook)(phase, step).map_or(Ok(()), Err)
    }
}

/// The step without what comes only when it is drawn from.
fn at_first(step: &[StepSequence], fed: &[FedToken]) -> String {
    let mut step = step.to_vec();
    for fed in fed {
        let sequence = &mut step[fed.sequence];
        sequence.tokens = vec![0; sequence.tokens.len()];
        (sequence.samples.iter_mut()).for_each(|sampling| *sampling = Default::default());
    }
    bare(&step)
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
        // What was begun before is given up.
        self.running.clear();
        let running = self.begin(step, &[]);
        self.events.note(Event::Submit { masks: masks(step) });
        self.phase(Phase::Submit, running.number)?;
        self.running.push_back(running);
        Ok(())
    }

    fn runs_ahead(&self) -> bool {
        self.ahead
    }

    fn submit_after(&mut self, step: &[StepSequence], fed: &[FedToken]) -> Result<(), DecodeError> {
        assert_eq!(self.running.len(), 1, "a step is begun, and one alone");
        let before = &self.running[0];
        assert!(before.is_drawn, "what it draws is fed");
        let drawn = before.step.iter().map(|sequence| sequence.samples.len());
        self.shape().check_after(step, fed, drawn.sum())?;
        let running = self.begin(step, fed);
        self.events.note(Event::SubmitAfter { fed: fed.len() });
        self.phase(Phase::SubmitAfter, running.number)?;
        self.running.push_back(running);
        Ok(())
    }

    fn draw(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        self.events.note(Event::Draw { masks: masks(step) });
        let running = self.running.front_mut().expect("a step was submitted");
        assert!(!running.is_drawn, "the step before is collected");
        let [submitted, now] = [&running.step, step].map(|step| at_first(step, &running.fed));
        assert_eq!(submitted, now, "another step was submitted");
        running.step = step.to_vec();
        running.is_drawn = true;
        let number = running.number;
        self.phase(Phase::Draw, number)
    }

    fn collect(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.events.note(Event::Collect);
        let mut running = self.running.pop_front().expect("a step was submitted");
        assert_eq!(running.step, step);
        self.phase(Phase::Collect, running.number)?;
        // The device has what it has drawn, whatever the host says.
        for fed in &running.fed {
            let token = self.drawn[fed.sampling].token.unwrap_or(u32::MAX);
            running.step[fed.sequence].tokens = vec![token.min(VOCABULARY as u32 - 1)];
        }
        self.inner.step(&running.step, sampled)?;
        self.drawn.clone_from(sampled);
        Ok(())
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.inner.logits(step, logits)
    }
}

/// A way to load a fake decoder with phases, which begins steps `ahead` or does not.
pub(crate) fn phased(
    shape: DecoderShape,
    logits: Arc<Logits>,
    ahead: bool,
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
            ahead,
            running: VecDeque::new(),
            drawn: Vec::new(),
        }) as Box<dyn Decoder>)
    };
    (ModelLoader::Decoder(Box::new(load)), control)
}
