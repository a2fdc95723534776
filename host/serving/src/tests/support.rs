//! A tokenizer of bytes, a decoder that a test can hold, and a reply that collects.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde_json::json;
use tidegate_contract::{
    Answer, Finish, Message, Model, ModelError, ModelFacts, Parameters, Reply, Request, RequestId,
    Role,
};
use tidegate_text::Tokenizer;

use crate::decoder::{DecodeError, Decoder, DecoderShape, StepRow, check_rows};
use crate::serving::{Engine, EngineOptions, sampler};

/// Longest wait of a test; none comes near it.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
pub(super) const EOS: u32 = 1;
/// Special tokens before the 256 bytes.
const SPECIAL: [&str; 4] = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>"];
pub(super) const VOCABULARY: usize = 256 + SPECIAL.len();

pub(super) fn byte(byte: u8) -> u32 {
    u32::from(byte) + SPECIAL.len() as u32
}

pub(super) fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(byte).collect()
}

/// A token is a byte; a prompt is `<|bos|><|user|>content<|assistant|>`, three tokens more than its bytes.
pub(super) fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let make = || {
        let mut vocabulary = serde_json::Map::new();
        for (id, name) in SPECIAL.iter().enumerate() {
            vocabulary.insert((*name).into(), json!(id));
        }
        let mut next = 256;
        for value in 0..=255u8 {
            let plain = matches!(value, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
            let code = if plain { u32::from(value) } else { next };
            next += u32::from(!plain);
            vocabulary.insert(
                char::from_u32(code).unwrap().to_string(),
                json!(byte(value)),
            );
        }
        let special = |id: usize| {
            json!({"id": id, "content": SPECIAL[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        };
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
            "added_tokens": (0..SPECIAL.len()).map(special).collect::<Vec<_>>(),
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
        });
        let config = json!({"bos_token": "<|bos|>", "eos_token": "<|eos|>",
            "chat_template": "{% if messages[0].content != 'nothing' %}{{ bos_token }}{% for m in messages %}\
                <|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>{% endif %}"});
        let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
        Arc::new(
            Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None).unwrap(),
        )
    };
    Arc::clone(TOKENIZER.get_or_init(make))
}

pub(super) fn prompt(content: &str) -> Vec<u32> {
    let mut tokens = vec![0, 2];
    tokens.extend(bytes(content));
    tokens.push(3);
    tokens
}

/// Fills `[vocabulary]` logits from a slot's whole history.
pub(super) type Logits = dyn Fn(&[u32], &mut [f32]) + Send + Sync;

/// Logits that are a hash of the history.
pub(super) fn hashed(history: &[u32], logits: &mut [f32]) {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for token in history {
        hash = (hash ^ u64::from(*token))
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }
    for (id, logit) in logits.iter_mut().enumerate() {
        let mut z = hash.wrapping_add((id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *logit = (z >> 40) as f32 / (1 << 20) as f32;
    }
}

/// Logits that write these tokens after a prompt of `prompt` tokens, then the end of sequence.
pub(super) fn scripted(prompt: usize, script: Vec<u32>) -> Arc<Logits> {
    Arc::new(move |history: &[u32], logits: &mut [f32]| {
        logits.fill(0.0);
        let next = script.get(history.len() - prompt).copied().unwrap_or(EOS);
        logits[next as usize] = 1.0;
    })
}

/// What a held step is told to do.
pub(super) enum Then {
    Run,
    Fail(DecodeError),
    Panic,
}

/// The test's end of a [`FakeDecoder`].
pub(super) struct Control {
    pub(super) hold: Arc<AtomicBool>,
    entered: Receiver<Vec<StepRow>>,
    then: Sender<Then>,
    /// Rules of the decoder port that the engine broke.
    pub(super) broken: Arc<Mutex<Vec<String>>>,
}

impl Control {
    /// Waits for the engine to begin a step, which then waits for [`Control::then`].
    pub(super) fn entered(&self) -> Vec<StepRow> {
        self.entered
            .recv_timeout(LIMIT)
            .expect("the engine begins a step")
    }

    pub(super) fn then(&self, then: Then) {
        self.then.send(then).unwrap();
    }

    /// Lets the next step begin and run; its rows.
    pub(super) fn step(&self) -> Vec<StepRow> {
        let rows = self.entered();
        self.then(Then::Run);
        rows
    }

    /// From now on steps run by themselves.
    pub(super) fn run_free(&self) {
        self.hold.store(false, Ordering::SeqCst);
        self.then(Then::Run);
    }
}

pub(super) struct FakeDecoder {
    shape: DecoderShape,
    histories: Vec<Vec<u32>>,
    logits: Arc<Logits>,
    hold: Arc<AtomicBool>,
    entered: Sender<Vec<StepRow>>,
    then: Receiver<Then>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl FakeDecoder {
    pub(super) fn new(
        shape: DecoderShape,
        logits: Arc<Logits>,
        held: bool,
    ) -> (FakeDecoder, Control) {
        let (entered, entered_receiver) = unbounded();
        let (then, then_receiver) = unbounded();
        let hold = Arc::new(AtomicBool::new(held));
        let broken = Arc::new(Mutex::new(Vec::new()));
        let control = Control {
            hold: Arc::clone(&hold),
            entered: entered_receiver,
            then,
            broken: Arc::clone(&broken),
        };
        let histories = vec![Vec::new(); shape.slots];
        (
            FakeDecoder {
                shape,
                histories,
                logits,
                hold,
                entered,
                then: then_receiver,
                broken,
            },
            control,
        )
    }

    fn broke(&self, rule: String) {
        self.broken.lock().unwrap().push(rule);
    }
}

impl Decoder for FakeDecoder {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn step(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        if self.hold.load(Ordering::SeqCst) {
            let _ = self.entered.send(rows.to_vec());
            match self.then.recv_timeout(LIMIT) {
                Ok(Then::Fail(error)) => return Err(error),
                Ok(Then::Panic) => panic!("the fake decoder was told to panic"),
                Ok(Then::Run) | Err(_) => {}
            }
        }
        if rows.is_empty() {
            self.broke("a step without rows".into());
        }
        if let Err(error) = check_rows(rows, &self.shape) {
            self.broke(error.to_string());
            return Err(error);
        }
        logits.clear();
        for row in rows {
            let position = row.position as usize;
            let history = &mut self.histories[row.slot as usize];
            if position == 0 {
                history.clear();
            }
            if history.len() != position {
                let rule = format!(
                    "slot {} has {} positions, row is at {position}",
                    row.slot,
                    history.len()
                );
                self.broke(rule);
                continue;
            }
            history.push(row.token);
            if row.wants_logits {
                let start = logits.len();
                logits.resize(start + self.shape.vocabulary, 0.0);
                (self.logits)(&self.histories[row.slot as usize], &mut logits[start..]);
            }
        }
        Ok(())
    }

    fn dispatches_last_step(&self) -> u32 {
        0
    }
}

pub(super) fn shape(slots: usize, max_rows: usize, context: usize) -> DecoderShape {
    DecoderShape {
        vocabulary: VOCABULARY,
        context,
        slots,
        max_rows,
    }
}

pub(super) fn facts() -> ModelFacts {
    ModelFacts {
        name: "fake".into(),
        digest: String::new(),
        adapter: "none".into(),
        context: 0,
        sequences: 0,
    }
}

/// An engine whose steps run by themselves.
pub(super) fn free(shape: DecoderShape, options: EngineOptions) -> (Engine, Control) {
    start(shape, Arc::new(hashed), false, options)
}

/// An engine whose steps wait for the test.
pub(super) fn held(shape: DecoderShape, options: EngineOptions) -> (Engine, Control) {
    start(shape, Arc::new(hashed), true, options)
}

pub(super) fn start(
    shape: DecoderShape,
    logits: Arc<Logits>,
    held: bool,
    options: EngineOptions,
) -> (Engine, Control) {
    let (decoder, control) = FakeDecoder::new(shape, logits, held);
    (
        Engine::start(Box::new(decoder), tokenizer(), facts(), options),
        control,
    )
}

/// A token as it was handed on: index, id, text.
pub(super) type Token = (u32, u32, String);

/// A request that was submitted.
pub(super) struct Pending {
    pub(super) id: RequestId,
    tokens: Arc<Mutex<Vec<Token>>>,
    done: Receiver<Result<Answer, ModelError>>,
}

impl Pending {
    /// Waits for the end; the tokens handed on, and the result.
    pub(super) fn wait(&self) -> (Vec<Token>, Result<Answer, ModelError>) {
        let result = self.done.recv_timeout(LIMIT).expect("the request ends");
        assert!(
            self.done.recv_timeout(Duration::ZERO).is_err(),
            "done was called twice"
        );
        (self.tokens.lock().unwrap().clone(), result)
    }

    pub(super) fn answer(&self) -> Answer {
        self.wait().1.expect("the request has an answer")
    }

    pub(super) fn error(&self) -> ModelError {
        self.wait().1.expect_err("the request has no answer")
    }

    pub(super) fn tokens(&self) -> Vec<Token> {
        self.tokens.lock().unwrap().clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.done.is_empty()
    }
}

struct Collector {
    tokens: Arc<Mutex<Vec<Token>>>,
    done: Sender<Result<Answer, ModelError>>,
}

impl Reply for Collector {
    fn token(&mut self, index: u32, token: u32, text: &str) {
        self.tokens
            .lock()
            .unwrap()
            .push((index, token, text.to_owned()));
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let _ = self.done.send(result);
    }
}

/// A request under construction.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) content: String,
    pub(super) prefix: Vec<u32>,
    pub(super) parameters: Parameters,
    pub(super) seed: u64,
    pub(super) class: u8,
    pub(super) deadline: Option<Instant>,
}

/// Greedy, of this content, at most so many tokens.
pub(super) fn ask(content: &str, max_tokens: u32) -> Ask {
    Ask {
        content: content.into(),
        prefix: Vec::new(),
        parameters: Parameters {
            max_tokens,
            temperature: 0.0,
            top_p: 1.0,
            stop: Vec::new(),
        },
        seed: 0,
        class: 0,
        deadline: None,
    }
}

impl Ask {
    pub(super) fn request(&self) -> (Request, Pending) {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let (done, receiver) = bounded(2);
        let reply = Collector {
            tokens: Arc::clone(&tokens),
            done,
        };
        let request = self.request_to(NUMBERS.fetch_add(1, Ordering::Relaxed), Box::new(reply));
        let id = request.id;
        (
            request,
            Pending {
                id,
                tokens,
                done: receiver,
            },
        )
    }

    pub(super) fn request_to(&self, id: u64, reply: Box<dyn Reply>) -> Request {
        Request {
            id: RequestId(id),
            attempt: 1,
            seed: self.seed,
            messages: vec![Message {
                role: Role::User,
                content: self.content.clone(),
            }],
            forced_prefix: self.prefix.clone(),
            parameters: self.parameters.clone(),
            class: self.class,
            deadline: self.deadline,
            reply,
        }
    }

    pub(super) fn of(&self, engine: &Engine) -> Pending {
        let (request, pending) = self.request();
        assert!(
            engine.submit(request).is_ok(),
            "the engine takes the request"
        );
        pending
    }

    /// The answer's tokens and end, worked out without an engine.
    pub(super) fn alone(&self, context: usize) -> (Vec<u32>, Finish) {
        let mut history = prompt(&self.content);
        let prompt = history.len();
        let mut logits = vec![0.0; VOCABULARY];
        loop {
            let made = history.len() - prompt;
            if made >= self.parameters.max_tokens as usize || history.len() >= context {
                return (history.split_off(prompt), Finish::Length);
            }
            hashed(&history, &mut logits);
            let Parameters {
                temperature, top_p, ..
            } = self.parameters;
            match sampler::sample(&logits, temperature, top_p, self.seed, made as u32).unwrap() {
                EOS => return (history.split_off(prompt), Finish::End),
                token => history.push(token),
            }
        }
    }
}

/// A small generator for the tests' own choices.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A request with random content, length and sampling.
    pub(super) fn ask(&mut self, longest: u64, max_tokens: u64) -> Ask {
        let content: String = (0..1 + self.below(longest))
            .map(|_| char::from(b'a' + self.below(26) as u8))
            .collect();
        let mut ask = ask(&content, 1 + self.below(max_tokens) as u32);
        ask.seed = self.below(1 << 30);
        if self.below(3) > 0 {
            ask.parameters.temperature = 0.5 + self.below(20) as f32 / 10.0;
            ask.parameters.top_p = [1.0, 0.9, 0.5][self.below(3) as usize];
        }
        ask
    }
}
