//! A model over a scripted server, and a reply that keeps what it is told. Nothing waits without a limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tidegate_connect::remote::{OpenAi, RemoteKind, RemoteModel, RemoteOptions, RetryBudget};
use tidegate_contract::{
    Answer, Choice, Lane, Made, Message, Model, ModelError, ModelTask, Parameters, Piece, Prompt,
    Reply, Request, RequestId, Role,
};

pub(crate) use crate::server::{Asked, LIMIT, Server, finish, said, usage};

impl Server {
    /// Options for a chat model there, that tries quickly.
    pub(crate) fn options(&self) -> RemoteOptions {
        let kind = RemoteKind::OpenAi(OpenAi::new(&self.url, "there"));
        RemoteOptions {
            backoff: Duration::from_millis(1),
            budget: RetryBudget {
                share: 1.0,
                least: 100.0,
            },
            ..RemoteOptions::new("here", kind, 4096)
        }
    }

    pub(crate) fn model(&self) -> RemoteModel {
        RemoteModel::open(self.options()).unwrap()
    }
}

/// A piece as it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) choice: u32,
    pub(crate) lane: Lane,
    pub(crate) text: String,
    pub(crate) begins: Option<(String, String)>,
}

/// What a reply was told.
pub(crate) enum Told {
    Piece(Shown),
    /// A choice has ended before the others.
    Ended(u32),
    Done(Result<Answer, ModelError>),
}

pub(crate) struct Keeps(pub(crate) Sender<Told>);

impl Reply for Keeps {
    fn token(&mut self, _: u32, _: u32, _: &str) {
        panic!("a remote model has no tokens");
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        let begins = piece
            .begins
            .map(|(id, name)| (id.to_owned(), name.to_owned()));
        let _ = self.0.send(Told::Piece(Shown {
            choice: piece.choice,
            lane: piece.lane,
            text: piece.text.to_owned(),
            begins,
        }));
    }

    fn choice_ended(&mut self, choice: u32) {
        let _ = self.0.send(Told::Ended(choice));
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let _ = self.0.send(Told::Done(result));
    }
}

/// A request that runs.
pub(crate) struct Running {
    pub(crate) id: RequestId,
    told: Receiver<Told>,
}

impl Running {
    /// What it is told next.
    pub(crate) fn told(&self) -> Told {
        self.told.recv_timeout(LIMIT).unwrap()
    }

    /// The next piece.
    pub(crate) fn piece(&self) -> Shown {
        loop {
            match self.told() {
                Told::Piece(piece) => return piece,
                Told::Ended(_) => {}
                Told::Done(result) => panic!("it ended: {result:?}"),
            }
        }
    }

    /// The end, and the pieces before; nothing comes after it.
    pub(crate) fn all(self) -> (Vec<Shown>, Result<Answer, ModelError>) {
        let mut pieces = Vec::new();
        loop {
            match self.told() {
                Told::Piece(piece) => pieces.push(piece),
                Told::Ended(_) => {}
                Told::Done(result) => {
                    assert!(self.told.recv_timeout(LIMIT).is_err(), "told twice");
                    return (pieces, result);
                }
            }
        }
    }

    pub(crate) fn result(self) -> Result<Answer, ModelError> {
        self.all().1
    }
}

pub(crate) fn generate(prompt: Prompt, parameters: Parameters) -> ModelTask {
    ModelTask::Generate {
        prompt,
        forced_prefix: Vec::new(),
        parameters,
    }
}

pub(crate) fn hello() -> ModelTask {
    let prompt = Prompt::Chat(vec![Message::new(Role::User, "hello")].into());
    generate(prompt, Parameters::default())
}

static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn request(task: ModelTask, deadline: Option<Instant>) -> (Request, Running) {
    let (sender, told) = channel();
    let id = RequestId(NEXT.fetch_add(1, Ordering::SeqCst));
    let request = Request {
        id,
        attempt: 1,
        seed: 5,
        task,
        class: 0,
        deadline,
        reply: Box::new(Keeps(sender)),
    };
    (request, Running { id, told })
}

/// Submits a request.
pub(crate) fn ask(model: &RemoteModel, task: ModelTask) -> Running {
    let (request, running) = request(task, None);
    model.submit(request).map_err(|(_, error)| error).unwrap();
    running
}

pub(crate) fn choices(result: Result<Answer, ModelError>) -> Vec<Choice> {
    match result.unwrap().made {
        Made::Choices(choices) => choices,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text(result: Result<Answer, ModelError>) -> String {
    choices(result).swap_remove(0).text
}

/// Why a remote model has no answer, and whether it may have one later.
pub(crate) fn remote(result: Result<Answer, ModelError>) -> (String, bool) {
    match result {
        Err(ModelError::Remote { why, again, .. }) => (why, again),
        other => panic!("{other:?}"),
    }
}
