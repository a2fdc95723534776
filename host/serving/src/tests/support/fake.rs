//! A decoder whose logits are worked out from what stands in its blocks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tidegate_contract::{BLOCK, DecodeError, Decoder, DecoderShape, Sampled, StepSequence};
use tidegate_reference::sampling::draw;

use super::{EOS, LIMIT};
use crate::ModelLoader;

/// Fills `[vocabulary]` logits from all tokens up to a position.
pub(crate) type Logits = dyn Fn(&[u32], &mut [f32]) + Send + Sync;

fn fill(mut hash: u64, logits: &mut [f32]) {
    for (id, logit) in logits.iter_mut().enumerate() {
        hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = hash.wrapping_add(id as u64);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *logit = (z >> 40) as f32 / (1 << 20) as f32;
    }
}

fn hash(tokens: &[u32]) -> u64 {
    tokens.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, token| {
        (hash ^ u64::from(*token))
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23)
    })
}

/// What a token writes that goes through a low-rank adapter: of each another.
pub(crate) fn through(lora: u32, token: u32) -> u32 {
    token + lora * 1_000_000
}

/// Logits that are a hash of everything before.
pub(crate) fn hashed(history: &[u32], logits: &mut [f32]) {
    fill(hash(history), logits);
}

/// Logits that mostly depend on the last token, so that texts repeat themselves, and a little on everything before.
pub(crate) fn local(history: &[u32], logits: &mut [f32]) {
    let mut far = vec![0.0; logits.len()];
    fill(hash(history), &mut far);
    fill(u64::from(history[history.len() - 1] % 7), logits);
    logits
        .iter_mut()
        .zip(far)
        .for_each(|(near, far)| *near += far * 0.02);
    logits[EOS as usize] = 0.0;
}

/// Logits that write these tokens after a prompt of `prompt` tokens, then the end of sequence.
pub(crate) fn scripted(prompt: usize, script: Vec<u32>) -> Arc<Logits> {
    Arc::new(move |history: &[u32], logits: &mut [f32]| {
        logits.fill(0.0);
        let made = history.len().saturating_sub(prompt);
        let next = script.get(made).copied().unwrap_or(EOS);
        logits[next as usize] = 1.0;
    })
}

/// What a held step is told to do.
pub(crate) enum Then {
    Run,
    Fail(DecodeError),
    Panic,
}

type Refuses = dyn Fn(&[StepSequence]) -> Option<DecodeError> + Send;

struct Inner {
    hold: AtomicBool,
    entered: Sender<Vec<StepSequence>>,
    then: Receiver<Then>,
    broken: Mutex<Vec<String>>,
    refuses: Mutex<Option<Box<Refuses>>>,
    loads: AtomicU64,
    failed_loads: AtomicU64,
    steps: AtomicU64,
    failing_loads: AtomicU64,
}

/// The test's end of a [`Fake`]; it outlives a reload.
pub(crate) struct Control {
    inner: Arc<Inner>,
    entered: Receiver<Vec<StepSequence>>,
    then: Sender<Then>,
}

impl Control {
    /// From now on steps wait for the test.
    pub(crate) fn hold(&self) {
        self.inner.hold.store(true, Ordering::SeqCst);
    }

    /// Waits for the engine to begin a step, which then waits for [`Control::then`].
    pub(crate) fn entered(&self) -> Vec<StepSequence> {
        self.entered
            .recv_timeout(LIMIT)
            .expect("the engine begins a step")
    }

    pub(crate) fn then(&self, then: Then) {
        self.then.send(then).unwrap();
    }

    /// Lets the next step begin and run.
    pub(crate) fn step(&self) -> Vec<StepSequence> {
        let step = self.entered();
        self.then(Then::Run);
        step
    }

    /// From now on steps run by themselves.
    pub(crate) fn run_free(&self) {
        self.inner.hold.store(false, Ordering::SeqCst);
        self.then(Then::Run);
    }

    /// Tells the step that waits what to do; those after it run by themselves. Nothing is left behind that a step would take
    /// for its own when steps wait again.
    pub(crate) fn run_free_after(&self, then: Then) {
        self.inner.hold.store(false, Ordering::SeqCst);
        self.then(then);
    }

    /// From now on steps fail for which this has an error.
    pub(crate) fn refuse(
        &self,
        refuses: impl Fn(&[StepSequence]) -> Option<DecodeError> + Send + 'static,
    ) {
        *self.inner.refuses.lock().unwrap() = Some(Box::new(refuses));
    }

    /// The next loads fail.
    pub(crate) fn fail_loads(&self, count: u64) {
        self.inner.failing_loads.store(count, Ordering::SeqCst);
    }

    pub(crate) fn loads(&self) -> u64 {
        self.inner.loads.load(Ordering::SeqCst)
    }

    pub(crate) fn failed_loads(&self) -> u64 {
        self.inner.failed_loads.load(Ordering::SeqCst)
    }

    pub(crate) fn steps(&self) -> u64 {
        self.inner.steps.load(Ordering::SeqCst)
    }

    /// Rules of the decoder port that were broken: none.
    pub(crate) fn is_sound(&self) {
        assert_eq!(*self.inner.broken.lock().unwrap(), Vec::<String>::new());
    }
}

pub(crate) struct Fake {
    shape: DecoderShape,
    logits: Arc<Logits>,
    inner: Arc<Inner>,
    /// `[blocks, BLOCK]`: token and position, as written last.
    written: Vec<Option<(u32, u32)>>,
}

impl Fake {
    /// A way to load it, any number of times.
    pub(crate) fn loader(shape: DecoderShape, logits: Arc<Logits>) -> (ModelLoader, Control) {
        let (entered, entered_receiver) = unbounded();
        let (then, then_receiver) = unbounded();
        let inner = Arc::new(Inner {
            hold: AtomicBool::new(false),
            entered,
            then: then_receiver,
            broken: Mutex::default(),
            refuses: Mutex::default(),
            loads: AtomicU64::new(0),
            failed_loads: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            failing_loads: AtomicU64::new(0),
        });
        let control = Control {
            inner: Arc::clone(&inner),
            entered: entered_receiver,
            then,
        };
        let load = move || {
            let less = |left: u64| left.checked_sub(1);
            let failing = &inner.failing_loads;
            if failing
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_ok()
            {
                inner.failed_loads.fetch_add(1, Ordering::SeqCst);
                return Err("the driver restarts".to_owned());
            }
            inner.loads.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Fake {
                written: vec![None; shape.blocks * BLOCK],
                shape: shape.clone(),
                logits: Arc::clone(&logits),
                inner: Arc::clone(&inner),
            }) as Box<dyn Decoder>)
        };
        (ModelLoader::Decoder(Box::new(load)), control)
    }

    /// A decoder without an engine.
    pub(crate) fn alone(shape: DecoderShape, logits: Arc<Logits>) -> (Box<dyn Decoder>, Control) {
        let (load, control) = Fake::loader(shape, logits);
        let ModelLoader::Decoder(mut load) = load else {
            unreachable!("a decoder")
        };
        (load().unwrap(), control)
    }

    fn broke(&self, rule: String) {
        self.inner.broken.lock().unwrap().push(rule);
    }

    /// Writes the step, and gives the logits of each row that something is drawn from.
    fn write(&mut self, step: &[StepSequence]) -> Result<Vec<Vec<f32>>, DecodeError> {
        if step.is_empty() {
            self.broke("a step without sequences".into());
        }
        if let Err(error) = self.shape.check(step) {
            self.broke(error.to_string());
            return Err(error);
        }
        let place = |sequence: &StepSequence, position: usize| {
            sequence.blocks[position / BLOCK] as usize * BLOCK + position % BLOCK
        };
        // All is written before anything is read: a block that two sequences write to shows.
        for sequence in step {
            for (row, token) in sequence.tokens.iter().enumerate() {
                let position = sequence.position as usize + row;
                let written = through(sequence.lora, *token);
                self.written[place(sequence, position)] = Some((written, position as u32));
            }
        }
        let mut all = Vec::new();
        for sequence in step {
            let end = sequence.position as usize + sequence.tokens.len();
            let mut history = Vec::with_capacity(end);
            for position in 0..end {
                match self.written[place(sequence, position)] {
                    Some((token, at)) if at as usize == position => history.push(token),
                    other => {
                        self.broke(format!("position {position} reads {other:?}"));
                        history.push(0);
                    }
                }
            }
            for sample in 0..sequence.samples.len() {
                let length = end - sequence.samples.len() + sample + 1;
                let mut logits = vec![0.0; self.shape.vocabulary];
                (self.logits)(&history[..length], &mut logits);
                all.push(logits);
            }
        }
        Ok(all)
    }
}

impl Decoder for Fake {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn memory(&self) -> u64 {
        100
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        if self.inner.hold.load(Ordering::SeqCst) {
            let _ = self.inner.entered.send(step.to_vec());
            match self.inner.then.recv_timeout(LIMIT) {
                Ok(Then::Fail(error)) => return Err(error),
                Ok(Then::Panic) => panic!("the fake decoder was told to panic"),
                Ok(Then::Run) | Err(_) => {}
            }
        }
        self.inner.steps.fetch_add(1, Ordering::SeqCst);
        let refused = {
            let refuses = self.inner.refuses.lock().unwrap();
            refuses.as_ref().and_then(|refuses| refuses(step))
        };
        if let Some(error) = refused {
            return Err(error);
        }
        let logits = self.write(step)?;
        let samplings = step.iter().flat_map(|sequence| &sequence.samples);
        sampled.clear();
        sampled.extend(
            logits
                .iter()
                .zip(samplings)
                .map(|(logits, sampling)| draw(logits, sampling)),
        );
        Ok(())
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        *logits = self.write(step)?.concat();
        Ok(())
    }
}
