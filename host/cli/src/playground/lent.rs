//! Models as the playground has them: behind the stream, counted apart, and so many questions at most.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidegate_contract::{
    Answer, CLASS_BESIDE, Made, Makes, Model, ModelError, ModelFacts, ModelTask, Piece, Prompt,
    Reply, Request, RequestId,
};

/// Tokens of all that the playground asked.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) prompt: AtomicU64,
    pub(crate) generated: AtomicU64,
}

impl Tokens {
    fn add(&self, prompt: u64, generated: u64) {
        self.prompt.fetch_add(prompt, Ordering::Relaxed);
        self.generated.fetch_add(generated, Ordering::Relaxed);
    }
}

/// Tokens of the answers, with those that they begin with.
fn generated(answer: &Answer) -> u64 {
    match &answer.made {
        Made::Choices(choices) => {
            let made: usize = choices.iter().map(|choice| choice.tokens.len()).sum();
            made as u64
        }
        _ => 0,
    }
}

/// What is asked of models for one thing that is tried.
pub(super) struct Loans {
    under_way: Mutex<BTreeMap<RequestId, Arc<dyn Model>>>,
    asked: AtomicUsize,
    /// Most questions.
    most: usize,
    /// There were to be more.
    is_over: AtomicBool,
    is_called_in: AtomicBool,
    /// When no answer is of any use.
    until: Instant,
    tokens: Arc<Tokens>,
}

impl Loans {
    pub(super) fn new(most: usize, until: Instant, tokens: Arc<Tokens>) -> Arc<Loans> {
        Arc::new(Loans {
            under_way: Mutex::default(),
            asked: AtomicUsize::new(0),
            most,
            is_over: AtomicBool::new(false),
            is_called_in: AtomicBool::new(false),
            until,
            tokens,
        })
    }

    pub(super) fn lend(self: &Arc<Loans>, model: &Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(Lent {
            model: model.clone(),
            loans: self.clone(),
        })
    }

    /// Whether more was to be asked than may be.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Nothing that is under way is of any use now.
    pub(super) fn call_in(&self) {
        self.is_called_in.store(true, Ordering::SeqCst);
        let under_way = std::mem::take(&mut *self.lock());
        for (id, model) in under_way {
            model.cancel(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Arc<dyn Model>>> {
        // Each change is whole before anything can panic.
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lent {
    model: Arc<dyn Model>,
    loans: Arc<Loans>,
}

/// A reply that is counted.
struct Counted {
    reply: Box<dyn Reply>,
    id: RequestId,
    loans: Arc<Loans>,
    /// Whether who asked has any use for pieces.
    wants_pieces: bool,
    /// Tokens of the prompt, as far as the model can say.
    prompt: u64,
    /// Tokens that each answer begins with: they were counted when they were made.
    begins_with: u64,
    /// Tokens of each answer by now, with those that it begins with.
    made: BTreeMap<u32, u64>,
}

impl Counted {
    fn has_made(&mut self, choice: u32, index: u32) {
        let made = self.made.entry(choice).or_default();
        *made = (*made).max(u64::from(index) + 1);
    }

    /// Tokens of the prompt and of the answers. One that was left before its first token counts for nothing: nobody says
    /// how much of its prompt was read.
    fn tokens(&self, result: &Result<Answer, ModelError>) -> (u64, u64) {
        match result {
            Ok(answer) => {
                let choices = match &answer.made {
                    Made::Choices(choices) => choices.len() as u64,
                    _ => 0,
                };
                let before = self.begins_with * choices;
                let generated = generated(answer).saturating_sub(before);
                (u64::from(answer.prompt_tokens), generated)
            }
            Err(_) if self.made.is_empty() => (0, 0),
            Err(_) => {
                let made = self.made.values();
                let made = made.map(|made| made.saturating_sub(self.begins_with));
                (self.prompt, made.sum())
            }
        }
    }
}

impl Reply for Counted {
    fn token(&mut self, index: u32, token: u32, text: &str) {
        self.has_made(0, index);
        self.reply.token(index, token, text);
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        self.has_made(piece.choice, piece.index);
        if self.wants_pieces {
            self.reply.piece(piece);
        }
    }

    /// They tell how many tokens there are of other answers than the first, and of another server's.
    fn wants_pieces(&self) -> bool {
        true
    }

    fn traceparent(&self) -> Option<String> {
        self.reply.traceparent()
    }

    fn choice_ended(&mut self, choice: u32) {
        if self.wants_pieces {
            self.reply.choice_ended(choice);
        }
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        self.loans.lock().remove(&self.id);
        let (prompt, generated) = self.tokens(&result);
        self.loans.tokens.add(prompt, generated);
        self.reply.done(result);
    }
}

impl Model for Lent {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        let (id, loans) = (request.id, &self.loans);
        if loans.asked.fetch_add(1, Ordering::Relaxed) >= loans.most {
            loans.is_over.store(true, Ordering::Relaxed);
            return Err((request, ModelError::Full { limit: loans.most }));
        }
        request.class = CLASS_BESIDE;
        let until = request.deadline.unwrap_or(loans.until);
        request.deadline = Some(until.min(loans.until));
        let (prompt, begins_with) = match &request.task {
            ModelTask::Generate {
                prompt,
                forced_prefix,
                ..
            } => {
                // What it cannot say of this prompt it answers to whoever asked.
                let prompt = self.model.prompt_tokens(prompt).unwrap_or_default();
                (prompt as u64, forced_prefix.len() as u64)
            }
            // It is whole or nothing.
            ModelTask::Encode { .. } | ModelTask::Recognize { .. } | ModelTask::Rank { .. } => {
                (0, 0)
            }
        };
        request.reply = Box::new(Counted {
            wants_pieces: request.reply.wants_pieces(),
            reply: request.reply,
            id,
            loans: loans.clone(),
            prompt,
            begins_with,
            made: BTreeMap::new(),
        });
        loans.lock().insert(id, self.model.clone());
        // It may end before this returns, and is taken out then.
        self.model.submit(request).inspect_err(|_| {
            // It was no question, and comes again.
            loans.asked.fetch_sub(1, Ordering::Relaxed);
            loans.lock().remove(&id);
        })?;
        // Called in before the model had it, it was no question yet.
        if loans.is_called_in.load(Ordering::SeqCst) {
            self.model.cancel(id);
        }
        Ok(())
    }

    fn cancel(&self, id: RequestId) {
        self.model.cancel(id);
    }

    fn end(&self, id: RequestId) {
        self.model.end(id);
    }

    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        self.model.count_tokens(text)
    }

    fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        self.model.prompt_tokens(prompt)
    }

    fn makes(&self) -> Makes {
        self.model.makes()
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        self.model.truncate(text, tokens)
    }

    fn token_text(&self, token: u32) -> Option<String> {
        self.model.token_text(token)
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.model.token_id(text)
    }

    fn facts(&self) -> ModelFacts {
        self.model.facts()
    }

    fn is_remote(&self) -> bool {
        self.model.is_remote()
    }

    fn loads(&self) -> u64 {
        self.model.loads()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tidegate_contract::{Choice, Finish, Lane, Parameters, Timings};

    use super::*;

    /// A model that keeps what it is asked.
    #[derive(Default)]
    pub(in crate::playground) struct Keeper {
        asked: Mutex<Vec<Request>>,
        cancelled: Mutex<Vec<RequestId>>,
        pub(in crate::playground) digest: Mutex<String>,
    }

    impl Model for Keeper {
        fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
            if request.attempt == 9 {
                return Err((request, ModelError::Full { limit: 0 }));
            }
            self.asked.lock().unwrap().push(request);
            Ok(())
        }

        fn cancel(&self, id: RequestId) {
            self.cancelled.lock().unwrap().push(id);
        }

        fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
            Ok(text.len())
        }

        fn truncate<'a>(&self, text: &'a str, _tokens: usize) -> Result<&'a str, ModelError> {
            Ok(text)
        }

        fn facts(&self) -> ModelFacts {
            ModelFacts {
                name: "keeper".into(),
                digest: self.digest.lock().unwrap().clone(),
                adapter: String::new(),
                context: 8,
                sequences: 1,
            }
        }
    }

    struct Told(mpsc::Sender<bool>);

    impl Reply for Told {
        fn token(&mut self, _index: u32, _token: u32, _text: &str) {}

        fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
            self.0.send(result.is_ok()).unwrap();
        }
    }

    fn request(id: u64, attempt: u32, to: &mpsc::Sender<bool>) -> Request {
        Request {
            id: RequestId(id),
            attempt,
            seed: 0,
            task: ModelTask::Encode {
                text: String::new(),
            },
            class: 0,
            deadline: None,
            reply: Box::new(Told(to.clone())),
        }
    }

    #[test]
    fn what_is_asked_goes_behind_the_stream_ends_in_time_and_is_counted_and_bounded() {
        let keeper = Arc::new(Keeper::default());
        let tokens: Arc<Tokens> = Arc::default();
        let until = Instant::now() + Duration::from_secs(60);
        let loans = Loans::new(2, until, tokens.clone());
        let model = loans.lend(&(keeper.clone() as Arc<dyn Model>));
        let (to, told) = mpsc::channel();
        // One that the model had no room for is no question.
        assert!(model.submit(request(1, 9, &to)).is_err());
        assert!(model.submit(request(1, 1, &to)).is_ok());
        assert!(model.submit(request(2, 1, &to)).is_ok());
        assert!(!loans.is_over());
        let third = model.submit(request(3, 1, &to)).err().unwrap().1;
        assert_eq!(third, ModelError::Full { limit: 2 });
        assert!(loans.is_over());

        let asked = std::mem::take(&mut *keeper.asked.lock().unwrap());
        for request in &asked {
            assert_eq!(
                (request.class, request.deadline),
                (CLASS_BESIDE, Some(until))
            );
        }
        let first = asked.into_iter().next().unwrap();
        first.reply.done(Ok(Answer {
            made: Made::Choices(vec![Choice {
                text: "x".into(),
                reasoning: String::new(),
                reasoning_tokens: 0,
                calls: Vec::new(),
                tokens: vec![1, 2, 3],
                finish: Finish::End,
                logprobs: Vec::new(),
            }]),
            prompt_tokens: 5,
            adapter: String::new(),
            timings: Timings::default(),
        }));
        assert_eq!(told.recv(), Ok(true));
        assert_eq!(tokens.prompt.load(Ordering::Relaxed), 5);
        assert_eq!(tokens.generated.load(Ordering::Relaxed), 3);
        loans.call_in();
        assert_eq!(*keeper.cancelled.lock().unwrap(), [RequestId(2)]);
        // What the model made of one that was left is counted too, but not what it began with.
        let asked = ModelTask::Generate {
            prompt: Prompt::Raw("hello".into()),
            forced_prefix: vec![1, 2],
            parameters: Parameters::default(),
        };
        for made in [0, 4] {
            let loans = Loans::new(1, until, tokens.clone());
            let model = loans.lend(&(keeper.clone() as Arc<dyn Model>));
            let mut request = request(4, 1, &to);
            request.task = asked.clone();
            assert!(model.submit(request).is_ok());
            loans.call_in();
            let mut left = keeper.asked.lock().unwrap().pop().unwrap();
            assert!(left.reply.wants_pieces());
            for index in 2..2 + made {
                left.reply.token(index, 7, "");
                left.reply.piece(&Piece {
                    choice: 1,
                    index: index / 2 + 1,
                    lane: Lane::Content,
                    text: "",
                    begins: None,
                    logprobs: &[],
                });
            }
            left.reply.done(Err(ModelError::Cancelled));
            assert_eq!(told.recv(), Ok(false));
        }
        assert_eq!(tokens.prompt.load(Ordering::Relaxed), 5 + 5);
        assert_eq!(tokens.generated.load(Ordering::Relaxed), 3 + 4 + 2);
        // One that was on its way then is of no use either.
        let loans = Loans::new(1, until, tokens);
        let model = loans.lend(&(keeper.clone() as Arc<dyn Model>));
        loans.call_in();
        assert!(model.submit(request(3, 1, &to)).is_ok());
        assert_eq!(keeper.cancelled.lock().unwrap().last(), Some(&RequestId(3)));
    }
}
