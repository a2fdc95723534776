//! A model that computes nothing: its answers are known beforehand and take the time of real ones.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::{
    Answer, Choice, Finish, Lane, Made, Model, ModelError, ModelFacts, ModelTask, Piece, Prompt,
    Request, RequestId, Timings,
};
use tidegate_tests::mock::{self, Call};

/// Takes so many requests at once; one thread hands out their tokens when they are due.
pub(crate) struct Mock {
    calls: Mutex<File>,
    limit: usize,
    running: Arc<AtomicUsize>,
    requests: Mutex<Sender<Running>>,
    seed: u64,
    drifts: bool,
    holds: bool,
}

/// A request, and when its next token is due.
struct Running {
    due: Instant,
    request: Request,
    /// Between two tokens.
    pace: Duration,
    tokens: [u32; mock::TOKENS],
    made: usize,
    /// Tokens whose text was told as pieces.
    told: usize,
    /// It stops in the middle.
    is_held: bool,
}

impl Running {
    /// Tells the text up to this token, that of tokens which were there already too.
    fn tell_up_to(&mut self, made: usize) {
        while self.told < made {
            let word = mock::text(&self.tokens[self.told..=self.told]);
            let text = match self.told {
                0 => word,
                _ => format!(" {word}"),
            };
            self.request.reply.piece(&Piece {
                choice: 0,
                index: self.told as u32,
                lane: Lane::Content,
                text: &text,
                begins: None,
                logprobs: &[],
            });
            self.told += 1;
        }
    }
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    /// The one that is due first is the greatest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.due.cmp(&self.due)
    }
}

impl Mock {
    /// Logs its calls to a file, behind those of earlier lives.
    pub(crate) fn new(calls: &Path, seed: u64, limit: usize) -> std::io::Result<Mock> {
        let calls = File::options().create(true).append(true).open(calls)?;
        let (requests, taken) = channel();
        let running = Arc::new(AtomicUsize::new(0));
        let counted = running.clone();
        std::thread::Builder::new()
            .name("mock".into())
            .spawn(move || answer_all(&taken, &counted))?;
        Ok(Mock {
            calls: Mutex::new(calls),
            limit,
            running,
            requests: Mutex::new(requests),
            seed,
            drifts: std::env::var_os(mock::DRIFTS).is_some(),
            holds: std::env::var_os(mock::HOLDS).is_some(),
        })
    }
}

/// Waits for the next token, or for ever.
fn go_on(mut running: Running, waiting: &mut BinaryHeap<Running>, held: &mut Vec<Running>) {
    if running.is_held && running.made >= mock::TOKENS / 2 {
        running.tell_up_to(running.made);
        held.push(running);
    } else {
        waiting.push(running);
    }
}

fn answer_all(taken: &Receiver<Running>, running: &AtomicUsize) {
    let mut waiting = BinaryHeap::new();
    let mut held = Vec::new();
    loop {
        let wait = waiting
            .peek()
            .map_or(Duration::from_secs(1), |next: &Running| {
                next.due.saturating_duration_since(Instant::now())
            });
        match taken.recv_timeout(wait) {
            Ok(request) => go_on(request, &mut waiting, &mut held),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while waiting
            .peek()
            .is_some_and(|next| next.due <= Instant::now())
        {
            let Some(mut next) = waiting.pop() else { break };
            if let Some(token) = next.tokens.get(next.made) {
                let token = *token;
                let text = mock::text(&[token]);
                next.tell_up_to(next.made + 1);
                next.request.reply.token(next.made as u32, token, &text);
                next.made += 1;
                next.due += next.pace;
                go_on(next, &mut waiting, &mut held);
            } else {
                running.fetch_sub(1, Ordering::SeqCst);
                next.request.reply.done(Ok(answer(&next.tokens)));
            }
        }
    }
}

fn answer(tokens: &[u32]) -> Answer {
    Answer {
        made: Made::Choices(vec![Choice {
            text: mock::text(tokens),
            tokens: tokens.to_vec(),
            finish: Finish::End,
            reasoning: String::new(),
            reasoning_tokens: 0,
            calls: Vec::new(),
            logprobs: Vec::new(),
        }]),
        prompt_tokens: 1,
        adapter: String::new(),
        timings: Timings::default(),
    }
}

impl Model for Mock {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        let ModelTask::Generate {
            prompt,
            forced_prefix,
            ..
        } = &request.task
        else {
            let error = ModelError::WrongTask {
                model: "mock".into(),
                task: "embed",
            };
            return Err((request, error));
        };
        let prompt = match prompt {
            Prompt::Chat(chat) => (chat.messages.last()).map_or("", |last| last.content.as_str()),
            Prompt::Raw(text) => text.as_str(),
        };
        let (limit, forced) = (self.limit, forced_prefix.clone());
        let room = |running: usize| (running < limit).then_some(running + 1);
        let taken = self
            .running
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, room);
        if taken.is_err() {
            return Err((request, ModelError::Full { limit }));
        }
        let mut tokens = mock::tokens(prompt);
        if self.drifts {
            for (index, token) in tokens.iter_mut().enumerate() {
                let own = *token ^ std::process::id();
                *token = forced.get(index).copied().unwrap_or(own);
            }
        }
        let is_held = self.holds && mock::is_held(prompt);
        let pace = mock::takes(self.seed, prompt) / mock::TOKENS as u32;
        let call = Call {
            prompt: prompt.to_owned(),
            attempt: request.attempt,
            forced: forced.clone(),
        };
        // One write, so that a kill leaves the line whole or not at all.
        let logged = self
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(call.line().as_bytes());
        if let Err(error) = logged {
            self.running.fetch_sub(1, Ordering::SeqCst);
            return Err((request, ModelError::Device(error.to_string())));
        }
        // Tokens of another answer are gone on from too: a test finds them in the log.
        let running = Running {
            due: Instant::now() + pace,
            request,
            pace,
            tokens,
            made: forced.len(),
            told: 0,
            is_held,
        };
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send(running).map_err(|back| {
            self.running.fetch_sub(1, Ordering::SeqCst);
            (back.0.request, ModelError::Closed)
        })
    }

    fn cancel(&self, _: RequestId) {}

    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        Ok(text.len())
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        Ok(&text[..text.floor_char_boundary(tokens)])
    }

    fn facts(&self) -> ModelFacts {
        ModelFacts {
            name: "mock".into(),
            digest: format!("sha256:{}", "0".repeat(64)),
            adapter: "none".into(),
            context: 1000,
            sequences: self.limit as u32,
        }
    }
}
