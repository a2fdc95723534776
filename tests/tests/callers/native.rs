//! Operators and models that a test decides about.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_contract::{
    Answer, Choice, Finish, Handling, KeptRevision, Lane, Made, Model, ModelError, ModelFacts,
    Operator, OperatorError, OperatorVersion, Piece, Processed, Request, RequestId, Slot, Timings,
    TokenHandler,
};
use tidegate_record::{Batch, Fields, OutcomesBuilder, PatchBuilder, RecordView};

/// What an operator says of a record.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    Pass,
    Replace(String),
    Drop,
    Split(Vec<u16>),
    Route(u16),
    Retry,
    /// In ten minutes.
    Later,
    Dead,
}

type Decide = dyn Fn(&RecordView<'_>) -> Says + Send + Sync;
type Makes = dyn Fn() -> Result<Box<dyn TokenHandler>, OperatorError> + Send + Sync;

/// A slot of a native operator with one named output, `side`.
pub(crate) struct Native {
    decide: Arc<Decide>,
    pub(crate) handlers: Option<Box<Makes>>,
    pub(crate) generation: Arc<AtomicU64>,
    /// Whether it starts an instance.
    pub(crate) starts: Arc<AtomicBool>,
    pub(crate) version: Arc<Mutex<Arc<OperatorVersion>>>,
}

impl Native {
    pub(crate) fn new(decide: impl Fn(&RecordView<'_>) -> Says + Send + Sync + 'static) -> Native {
        Native {
            decide: Arc::new(decide),
            handlers: None,
            generation: Arc::new(AtomicU64::new(1)),
            starts: Arc::new(AtomicBool::new(true)),
            version: Arc::new(Mutex::new(Arc::new(OperatorVersion {
                name: "native".into(),
                version: "1.0.0".into(),
                digest: "sha256:0".into(),
                reads: Fields::ALL,
                outputs: vec!["side".into()],
                revision: KeptRevision::default(),
            }))),
        }
    }

    /// Passes everything, and handles tokens.
    pub(crate) fn with_handlers(
        makes: impl Fn() -> Result<Box<dyn TokenHandler>, OperatorError> + Send + Sync + 'static,
    ) -> Native {
        Native {
            handlers: Some(Box::new(makes)),
            ..Native::new(|_| Says::Pass)
        }
    }
}

struct Instance(Arc<Decide>, Arc<OperatorVersion>);

impl Operator for Instance {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        let mut outcomes = OutcomesBuilder::default();
        let nothing = PatchBuilder::default();
        for record in batch.view().records() {
            match (self.0)(&record) {
                Says::Pass => outcomes.pass(),
                Says::Replace(text) => {
                    let mut patch = PatchBuilder::default();
                    patch.set_value(Some(text.into_bytes()));
                    outcomes.replace(&patch);
                }
                Says::Drop => outcomes.drop_record(),
                Says::Split(outputs) => {
                    outcomes.split(outputs.iter().map(|output| (*output, &nothing)));
                }
                Says::Route(output) => outcomes.route(output, &nothing),
                Says::Retry => outcomes.retry(1, "not yet"),
                Says::Later => outcomes.retry(600_000, "not now"),
                Says::Dead => outcomes.dead_letter("it is bad"),
            }
        }
        Ok(vec![Processed::Answer {
            first: 0,
            count: batch.len(),
            outcomes: outcomes.finish(),
            effects: None,
        }])
    }

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.1
    }
}

impl Slot for Native {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
        if !self.starts.load(Ordering::SeqCst) {
            return Err(OperatorError::Engine("not today".into()));
        }
        let instance = Instance(self.decide.clone(), self.version());
        Ok((self.generation(), Box::new(instance)))
    }
    fn handles_tokens(&self) -> bool {
        self.handlers.is_some()
    }
    fn tokens(&self) -> Result<Handling, OperatorError> {
        let makes = self.handlers.as_ref().expect("it has handlers");
        Ok(Handling {
            generation: self.generation(),
            version: self.version(),
            handler: makes()?,
        })
    }
    fn version(&self) -> Arc<OperatorVersion> {
        self.version.lock().unwrap().clone()
    }
}

/// A model that keeps what it is asked, for the test to answer.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) requests: Mutex<Vec<Request>>,
    pub(crate) cancelled: Mutex<Vec<RequestId>>,
    pub(crate) ended: Mutex<Vec<RequestId>>,
    /// Most requests that it takes before one has ended; all where none is told.
    pub(crate) most: Option<usize>,
    /// It was given up, and takes none.
    pub(crate) closed: AtomicBool,
    /// Another one has its place.
    pub(crate) replaced: AtomicBool,
    /// Tokens that it has more than bytes.
    pub(crate) more_tokens: usize,
    /// Answers at once, if the test says how.
    pub(crate) script: Option<Box<Script>>,
}

type Script = dyn Fn(&mut Request) -> Result<Answer, ModelError> + Send + Sync;

impl Held {
    pub(crate) fn new() -> Arc<Held> {
        Arc::default()
    }

    pub(crate) fn answering(
        script: impl Fn(&mut Request) -> Result<Answer, ModelError> + Send + Sync + 'static,
    ) -> Arc<Held> {
        Arc::new(Held {
            script: Some(Box::new(script)),
            ..Held::default()
        })
    }

    /// The next request, once it is there.
    pub(crate) fn next(&self) -> Request {
        let there = || !self.requests.lock().unwrap().is_empty();
        tidegate_tests::until("the model is asked", crate::setting::PATIENCE, there);
        self.requests.lock().unwrap().remove(0)
    }

    pub(crate) fn is_asked(&self) -> bool {
        !self.requests.lock().unwrap().is_empty()
    }

    pub(crate) fn has_cancelled(&self, id: RequestId) -> bool {
        self.cancelled.lock().unwrap().contains(&id)
    }

    pub(crate) fn has_ended(&self, id: RequestId) -> bool {
        self.ended.lock().unwrap().contains(&id)
    }
}

impl Model for Held {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        if self.closed.load(Ordering::SeqCst) {
            return Err((request, ModelError::Closed));
        }
        match &self.script {
            Some(script) => {
                let answer = script(&mut request);
                request.reply.done(answer);
            }
            None => {
                let mut requests = self.requests.lock().unwrap();
                if let Some(limit) = self.most.filter(|most| requests.len() >= *most) {
                    return Err((request, ModelError::Full { limit }));
                }
                requests.push(request);
            }
        }
        Ok(())
    }
    fn cancel(&self, id: RequestId) {
        self.cancelled.lock().unwrap().push(id);
    }
    fn end(&self, id: RequestId) {
        self.ended.lock().unwrap().push(id);
    }
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        Ok(text.len() + self.more_tokens)
    }
    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        Ok(&text[..tokens.min(text.len())])
    }
    fn facts(&self) -> ModelFacts {
        ModelFacts {
            name: "native".into(),
            digest: match self.replaced.load(Ordering::SeqCst) {
                false => "sha256:0".into(),
                true => "sha256:1".into(),
            },
            adapter: "none".into(),
            context: 1000,
            sequences: 8,
        }
    }
}

/// An answer with one choice.
pub(crate) fn answer(text: &str) -> Answer {
    choices(vec![choice(text)])
}

pub(crate) fn choices(choices: Vec<Choice>) -> Answer {
    Answer {
        made: Made::Choices(choices),
        prompt_tokens: 3,
        adapter: String::new(),
        timings: Timings::default(),
    }
}

pub(crate) fn choice(text: &str) -> Choice {
    Choice {
        text: text.into(),
        reasoning: String::new(),
        reasoning_tokens: 0,
        calls: Vec::new(),
        tokens: text.bytes().map(u32::from).collect(),
        finish: Finish::End,
        logprobs: Vec::new(),
    }
}

/// A part of the first choice's text.
pub(crate) fn piece(index: u32, text: &str) -> Piece<'_> {
    Piece {
        choice: 0,
        index,
        lane: Lane::Content,
        text,
        begins: None,
        logprobs: &[],
    }
}
