//! Requests and what becomes of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use tidegate_contract::{
    Answer, Choice, Lane, Made, Message, Model, ModelError, ModelTask, Parameters, Piece, Prompt,
    Reply, Request, RequestId, Role, TokenLogprob,
};
use tidegate_grammar::Matcher;
use tidegate_text::{Detokenizer, LaneParser};

use super::{LIMIT, VOCABULARY, prompt, tokenizer};
use crate::ModelHandle;
use crate::order::Moment;
use crate::reply::GuardedReply;
use crate::request::{Places, Submission, Work};
use crate::thoughts::{Thinking, Thoughts};

/// A token as it was handed on: index, id, text.
pub(crate) type Token = (u32, u32, String);

/// A piece as it was handed on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) choice: u32,
    pub(crate) index: u32,
    pub(crate) lane: Lane,
    pub(crate) text: String,
    pub(crate) begins: Option<(String, String)>,
    pub(crate) logprobs: Vec<TokenLogprob>,
}

/// A request that was submitted.
pub(crate) struct Pending {
    pub(crate) id: RequestId,
    tokens: Arc<Mutex<Vec<Token>>>,
    pieces: Arc<Mutex<Vec<Told>>>,
    order: Arc<Mutex<Vec<char>>>,
    done: Receiver<Result<Answer, ModelError>>,
}

impl Pending {
    /// Waits for the end; the tokens handed on, and the result.
    pub(crate) fn wait(&self) -> (Vec<Token>, Result<Answer, ModelError>) {
        let result = self.done.recv_timeout(LIMIT).expect("the request ends");
        assert!(
            self.done.recv_timeout(Duration::ZERO).is_err(),
            "done was called twice"
        );
        (self.tokens(), result)
    }

    pub(crate) fn answer(&self) -> Answer {
        self.wait().1.expect("the request has an answer")
    }

    pub(crate) fn choices(&self) -> Vec<Choice> {
        match self.answer().made {
            Made::Choices(choices) => choices,
            made => panic!("not choices but {made:?}"),
        }
    }

    /// The only answer.
    pub(crate) fn choice(&self) -> Choice {
        let mut choices = self.choices();
        assert_eq!(choices.len(), 1);
        choices.remove(0)
    }

    pub(crate) fn error(&self) -> ModelError {
        self.wait().1.expect_err("the request has no answer")
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.tokens.lock().unwrap().clone()
    }

    pub(crate) fn pieces(&self) -> Vec<Told> {
        self.pieces.lock().unwrap().clone()
    }

    /// `p` for each piece and `t` for each token, in the order in which they came.
    pub(crate) fn order(&self) -> Vec<char> {
        self.order.lock().unwrap().clone()
    }

    pub(crate) fn has_ended(&self) -> bool {
        !self.done.is_empty()
    }
}

struct Collector {
    tokens: Arc<Mutex<Vec<Token>>>,
    pieces: Arc<Mutex<Vec<Told>>>,
    order: Arc<Mutex<Vec<char>>>,
    done: Sender<Result<Answer, ModelError>>,
}

impl Reply for Collector {
    fn token(&mut self, index: u32, token: u32, text: &str) {
        self.order.lock().unwrap().push('t');
        self.tokens
            .lock()
            .unwrap()
            .push((index, token, text.to_owned()));
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        self.order.lock().unwrap().push('p');
        let owned = |(id, name): (&str, &str)| (id.to_owned(), name.to_owned());
        self.pieces.lock().unwrap().push(Told {
            choice: piece.choice,
            index: piece.index,
            lane: piece.lane,
            text: piece.text.to_owned(),
            begins: piece.begins.map(owned),
            logprobs: piece.logprobs.to_vec(),
        });
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let _ = self.done.send(result);
    }
}

/// A request under construction.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) content: String,
    pub(crate) prefix: Vec<u32>,
    pub(crate) parameters: Parameters,
    pub(crate) seed: u64,
    pub(crate) class: u8,
    pub(crate) deadline: Option<Instant>,
    /// Whether it may think, and whether its prompt has opened the thoughts; as the scheduler alone gets it.
    pub(crate) thinks: Option<bool>,
}

/// Greedy, of this content, at most so many tokens.
pub(crate) fn ask(content: &str, max_tokens: u32) -> Ask {
    Ask {
        content: content.into(),
        prefix: Vec::new(),
        parameters: Parameters {
            max_tokens,
            ..Parameters::default()
        },
        seed: 0,
        class: 0,
        deadline: None,
        thinks: None,
    }
}

impl Ask {
    pub(crate) fn task(&self) -> ModelTask {
        ModelTask::Generate {
            prompt: Prompt::Chat(vec![Message::new(Role::User, self.content.clone())].into()),
            forced_prefix: self.prefix.clone(),
            parameters: self.parameters.clone(),
        }
    }

    pub(crate) fn request(&self) -> (Request, Pending) {
        Ask::request_of(self.task(), self)
    }

    pub(crate) fn request_of(task: ModelTask, like: &Ask) -> (Request, Pending) {
        let (pending, reply) = collector();
        let mut request = like.request_to(pending.id.0, reply);
        request.task = task;
        (request, pending)
    }

    pub(crate) fn request_to(&self, id: u64, reply: Box<dyn Reply>) -> Request {
        Request {
            id: RequestId(id),
            attempt: 1,
            seed: self.seed,
            task: self.task(),
            class: self.class,
            deadline: self.deadline,
            reply,
        }
    }

    pub(crate) fn of(&self, model: &ModelHandle) -> Pending {
        let (request, pending) = self.request();
        assert!(
            model.submit(request).is_ok(),
            "the engine takes the request"
        );
        pending
    }

    /// As the scheduler gets it.
    pub(crate) fn submission(
        &self,
        now: Moment,
        deadline: Option<Moment>,
    ) -> (Submission, Pending) {
        let (pending, reply) = collector();
        let submission = Submission {
            lora: 0,
            burden: Default::default(),
            id: pending.id,
            class: self.class,
            deadline,
            submitted: now,
            reply: GuardedReply::new(reply),
            permit: Places::new(1).take(0).unwrap(),
            work: Ok(Work::Generate {
                prompt: prompt(&self.content),
                detokenizer: Box::new(match self.thinks.and(self.matcher()) {
                    Some(_) => Detokenizer::verbatim(tokenizer()),
                    None => Detokenizer::new(tokenizer()),
                }),
                prefix: self.prefix.clone(),
                seed: self.seed,
                thinking: self.thinking(),
                matcher: self.matcher().map(Box::new),
                parameters: self.parameters.clone(),
                lanes: self.thinks.map(|inside| {
                    let form = tokenizer().answer_form().clone();
                    Box::new(LaneParser::new(&form, inside, Vec::new(), true))
                }),
            }),
        };
        (submission, pending)
    }

    fn thinking(&self) -> Option<Box<Thinking>> {
        static THOUGHTS: OnceLock<Arc<Thoughts>> = OnceLock::new();
        let thoughts = THOUGHTS.get_or_init(|| {
            let thoughts = Thoughts::new(
                &tokenizer(),
                tokenizer().answer_form(),
                VOCABULARY,
                &[super::EOS],
            );
            Arc::new(thoughts.unwrap())
        });
        let (most, has_form) = (
            self.parameters.reasoning_tokens,
            self.parameters.structure.is_some(),
        );
        let thinking = Thinking::new(Arc::clone(thoughts), self.thinks?, most, has_form);
        Some(Box::new(thinking))
    }

    /// A matcher for its structure.
    pub(crate) fn matcher(&self) -> Option<Matcher> {
        let structure = self.parameters.structure.as_ref()?;
        let compiler = crate::constraint::compiler(&tokenizer(), VOCABULARY, &[super::EOS]);
        Some(compiler.unwrap().matcher(structure).unwrap())
    }
}

fn collector() -> (Pending, Box<dyn Reply>) {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let order = Arc::new(Mutex::new(Vec::new()));
    let (done, receiver) = bounded(2);
    let reply = Box::new(Collector {
        tokens: Arc::clone(&tokens),
        pieces: Arc::clone(&pieces),
        order: Arc::clone(&order),
        done,
    });
    let pending = Pending {
        id: RequestId(NUMBERS.fetch_add(1, Ordering::Relaxed)),
        tokens,
        pieces,
        order,
        done: receiver,
    };
    (pending, reply)
}

/// A small generator for the tests' own choices.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A request with random content, length, and sampling of every kind.
    pub(crate) fn ask(&mut self, longest: u64, max_tokens: u64) -> Ask {
        let mut content = String::new();
        if self.below(2) == 0 {
            // A beginning that others have too.
            content.push_str(&"the same beginning ".repeat(2)[..longest as usize / 2]);
        }
        for _ in 0..1 + self.below(longest / 2) {
            content.push(char::from(b'a' + self.below(26) as u8));
        }
        let mut ask = ask(&content, 1 + self.below(max_tokens) as u32);
        ask.seed = self.below(1 << 30);
        let p = &mut ask.parameters;
        if self.below(3) > 0 {
            p.temperature = 0.5 + self.below(20) as f32 / 10.0;
            p.top_p = self.one(&[1.0, 0.9, 0.5]);
            p.top_k = self.one(&[0, 0, 3]);
            p.min_p = self.one(&[0.0, 0.1]);
        }
        if self.below(3) == 0 {
            p.repetition_penalty = 1.3;
            p.frequency_penalty = self.one(&[0.0, 0.7]);
            p.presence_penalty = self.one(&[0.0, -0.5]);
        }
        if self.below(4) == 0 {
            p.logit_bias = vec![(9, 3.0), (100, -2.0)];
        }
        p.n = self.one(&[1, 1, 1, 3]);
        p.logprobs = self.one(&[None, None, Some(2)]);
        ask
    }
}
