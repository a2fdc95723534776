//! The table of callers: requests that wait for what becomes of their records.
//!
//! An endpoint asks with a [`Waiting`]; the record goes through the [`GatewaySource`] into the pipeline, and what is
//! heard of it comes back through [`Callers`](tidegate_contract::Callers) and the [`GatewaySink`]. The table knows no
//! HTTP: it counts the pieces of each record, and says why there is no answer when the last of them has ended.
//!
//! Nothing here waits but a source that is polled. The lock of the table and that of a caller are never held together.

mod caller;
mod callers;
mod counting;
mod left;
mod line;
mod listening;
mod patience;
mod places;
mod queue;
mod sink;
mod source;
mod spending;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_contract::{Answer, CallerId, Lane, ModelError, TokenLogprob};
use tokio::sync::watch;

use caller::Caller;
use left::Left;
pub use left::{Expected, NotBegun};
pub use line::Load;
pub use listening::Lanes;
pub use patience::Patience;
use places::Places;
use queue::Queue;
pub use sink::GatewaySink;
pub use source::GatewaySource;
pub use spending::Spending;
pub use waiting::{NewRecord, Refused, Waiting};

/// How many records wait, and where answers are found.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most records that wait, by the index of their source. A record waits until a model has made the first of its answer,
    /// or it has ended.
    pub waiting: BTreeMap<u16, usize>,
    /// Most of a source that is not named there.
    pub usual: usize,
    /// The member of a record's value, or its header, that is the answer.
    pub answer: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            waiting: BTreeMap::new(),
            usual: 1024,
            answer: "answer".to_owned(),
        }
    }
}

/// The table. A copy is the same table.
#[derive(Clone)]
pub struct Requests(Arc<Inner>);

struct Inner {
    options: Options,
    callers: Mutex<HashMap<CallerId, Arc<Caller>>>,
    /// Those that went since the pipeline last asked, and the names of their keys: their records may just be read.
    gone: Mutex<Vec<(CallerId, Arc<str>)>>,
    /// Of an earlier life. Its lock is taken before that of the callers.
    left: Mutex<Left>,
    /// Told when the pipeline has begun with a source.
    begun: watch::Sender<()>,
    queues: Mutex<Queues>,
    next: AtomicU64,
}

/// Queues by source.
#[derive(Default)]
struct Queues {
    by_source: HashMap<u16, Arc<Queue>>,
    closed: bool,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("waiting", &self.waiting_callers())
            .finish_non_exhaustive()
    }
}

impl Requests {
    /// An empty table. Its records have offsets that no earlier life of the process gave.
    pub fn new(options: Options) -> Requests {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.map_or(0, |since| since.as_millis() as u64);
        Requests(Arc::new(Inner {
            options,
            callers: Mutex::default(),
            gone: Mutex::default(),
            left: Mutex::default(),
            begun: watch::Sender::new(()),
            queues: Mutex::default(),
            // A life that gives fewer than 2^20 a millisecond never comes to the next one's.
            next: AtomicU64::new(millis << 20),
        }))
    }

    /// One worker's view of the source with this index in the pipeline. The first has its partition until it is dropped.
    pub fn source(&self, index: u16) -> GatewaySource {
        GatewaySource::new(self.queue(index), index)
    }

    /// A sink that answers.
    pub fn sink(&self) -> GatewaySink {
        GatewaySink::new(self.clone())
    }

    /// No more is taken; the sources end once they are read.
    pub fn close(&self) {
        let mut queues = lock(&self.0.queues);
        queues.closed = true;
        for queue in queues.by_source.values() {
            queue.close();
        }
    }

    /// How many wait for an answer.
    pub fn waiting_callers(&self) -> usize {
        lock(&self.0.callers).len()
    }

    /// For a request of so many records of a source, of which at most so many are under way at once. Its places are taken
    /// before anything is queued. One who finds a place and needs more waits for them; meanwhile nobody else is taken.
    ///
    /// # Errors
    /// Every place is taken, or the pipeline ends.
    pub async fn wait(
        &self,
        source: u16,
        records: usize,
        at_once: usize,
        spending: Arc<Spending>,
    ) -> Result<Waiting, Refused> {
        let queue = self.queue(source);
        let places = queue.places(records.min(at_once)).await?;
        let places = Places::new(places, records);
        let requests = self.clone();
        Ok(Waiting::new(
            requests,
            source,
            queue,
            Some(places),
            spending,
        ))
    }

    /// For a record of a source that is in the pipeline already, with a prompt of so many tokens. Whoever has asked with
    /// it has gone, and pays nothing until it asks again.
    fn wait_left(&self, source: u16, prompt: u64) -> Waiting {
        let spending = Spending::new(&[prompt], |_| {});
        let queue = self.queue(source);
        let places = queue.place().map(|held| Places::new(held, 1));
        Waiting::new(self.clone(), source, queue, places, spending)
    }

    fn queue(&self, index: u16) -> Arc<Queue> {
        let mut queues = lock(&self.0.queues);
        let closed = queues.closed;
        let queue = queues.by_source.entry(index).or_insert_with(|| {
            let options = &self.0.options;
            let most = options.waiting.get(&index).copied();
            let queue = Queue::new(most.unwrap_or(options.usual));
            // A source that comes late ends, too.
            if closed {
                queue.close();
            }
            Arc::new(queue)
        });
        queue.clone()
    }

    fn next_offset(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    fn caller(&self, id: CallerId) -> Option<Arc<Caller>> {
        lock(&self.0.callers).get(&id).cloned()
    }

    fn forget(&self, id: CallerId) -> bool {
        self.queue(id.source).line.leave(id.offset, Instant::now());
        lock(&self.0.callers).remove(&id).is_some()
    }

    /// How much waits in the source with this index.
    pub fn load(&self, source: u16) -> Load {
        self.queue(source).line.load(Instant::now())
    }

    /// When one who is sent away from this source may come again.
    pub fn turn(&self, source: u16) -> Duration {
        self.queue(source).line.turn(Instant::now())
    }
}

/// What is heard of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The model of this name has begun to answer.
    Begun(String),
    /// A part of its answer.
    Piece(OwnedPiece),
    /// Its answer; nothing follows.
    Answered(Box<Reply>),
    /// It has none; nothing follows.
    Failed(Failure),
}

/// A part of an answer, as [`tidegate_contract::Piece`].
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedPiece {
    /// Which of the answers.
    pub choice: u32,
    /// Index of the last token of it.
    pub index: u32,
    /// Which text of it.
    pub lane: Lane,
    /// The text that it goes on with.
    pub text: String,
    /// The call that begins: id and name.
    pub begins: Option<(String, String)>,
    /// Of the tokens that it is made of, where asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// What came of a record that was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// What the pipeline says.
    pub written: Written,
    /// What the model said, if one was asked.
    pub answer: Option<Arc<Answer>>,
    /// What was already heard in pieces.
    pub shown: Lanes,
}

/// The answer of a record as the sink finds it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The answer.
    pub answer: serde_json::Value,
    /// All answers, where more than one text was asked for: each an object with `text`.
    pub choices: Option<Vec<serde_json::Value>>,
}

/// Why a record has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// An operator dropped it.
    Dropped {
        /// Which.
        stage: String,
    },
    /// It went elsewhere, or nowhere.
    NotAnswered,
    /// It came back, and brought no answer.
    NoAnswer {
        /// The member that it lacks.
        member: String,
    },
    /// It is a dead letter.
    Dead {
        /// Where.
        stage: String,
        /// Why.
        reason: String,
        /// Why, where a model has no answer.
        error: Option<Box<ModelError>>,
    },
    /// What was heard of the answer is not its beginning.
    Contradicted,
    /// The pipeline has ended.
    Ended,
}

/// The time after which one who was refused may ask again.
pub const AFTER: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
