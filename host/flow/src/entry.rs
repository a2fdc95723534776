//! What waits in a stage, record by record.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidegate_contract::Answer;
use tidegate_record::{Batch, RecordId, RecordView};

use crate::asked::{Asked, Wants};
use crate::showing::Showing;
use crate::versions::Versions;

/// Digest of a model that was replaced while a record was given to it: no model has it, so its tokens are of no use.
pub(crate) const UNKNOWN_MODEL: &str = "unknown";

/// Whenever an answer has so many tokens more, the next cut takes them: losing them would be a pity.
const TOKENS_WORTH_KEEPING: usize = 16;

/// A record that waits in a stage.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The record, in a batch of its own.
    pub record: Batch,
    /// Which record it is.
    pub id: EntryId,
    /// The name of the key that it was asked with, if one was.
    pub caller: Option<Arc<str>>,
    /// Which records it must not overtake.
    pub lane: Lane,
    /// The lane of its key, whatever the order of the stage: of those with one key only so many are with a model.
    pub key: Lane,
    /// When it was read.
    pub arrived: Instant,
    /// Attempts of the model or the operator that have ended. One that is under way is none: a crash, or a model that
    /// is unloaded, takes nothing away from a record.
    pub attempt: u32,
    /// What it waits for.
    pub state: State,
    /// The rendered user message, once rendered; empty in an operator stage, and where the record itself says what is
    /// asked.
    pub prompt: String,
    /// How the record itself wants its answer made, once that is known.
    pub wants: Option<Arc<Wants>>,
    /// What the model is to be asked, where it had no room when it was.
    pub asked: Option<Box<Asked>>,
    /// Tokens of the answer so far, written by the engine.
    pub tokens: Tokens,
    /// The operators that it went through on its way here.
    pub versions: Versions,
    /// Who made the answer, as far as it is made.
    pub by: By,
    /// Digest of the model that made the tokens so far; empty in an operator stage.
    pub model: Arc<str>,
    /// What the cuts so far have of it.
    pub kept: KeptParts,
    /// The answer as it is made, where somebody sees it or its tokens have handlers.
    pub showing: Option<Box<Showing>>,
    /// The last attempt as feeds of tokens know it; 0 where there was none.
    pub fed: u64,
    /// The deadline of its caller that the model was given, where that is the one that counts.
    pub until: Option<Instant>,
    /// When a model was last asked for it, in this process.
    pub submitted: Option<Instant>,
    /// When a server that is well put it off for the first time.
    pub put_off: Option<Instant>,
}

/// Who made an answer, beside the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct By {
    /// The operators that handled its tokens; as long as it is made, those that handle them are in [`Entry::showing`].
    pub handlers: Versions,
    /// The adapter that the model ran on.
    pub adapter: Arc<str>,
}

/// A record in a stage: its offset, its emit, and 0, or more where the same one waits there more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub offset: u64,
    pub emit: u64,
    pub copy: u32,
}

impl EntryId {
    /// That of the first copy of a record.
    pub(crate) fn of(id: RecordId) -> EntryId {
        EntryId {
            offset: id.offset,
            emit: id.emit,
            copy: 0,
        }
    }
}

/// Which parts of an entry the cuts so far have; what is in one that is under way counts as there, since all is read
/// again if that comes to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptParts {
    pub record: bool,
    pub prompt: bool,
    pub progress: bool,
}

/// Tokens so far, shared with the engine that makes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Arc<Mutex<SoFar>>);

#[derive(Debug, Default)]
struct SoFar {
    list: Vec<u32>,
    /// The entry's number in its stage, and where the stage hears of entries that have grown: after a cut that came to
    /// nothing, another stage and number than those with which the engine was asked.
    grown: Option<(u64, Grown)>,
}

/// Numbers of entries whose answers have grown since the last cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grown(Arc<Mutex<Vec<u64>>>);

impl Grown {
    /// They are told once.
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_empty(&self) -> bool {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.is_empty()
    }
}

impl Tokens {
    pub(crate) fn new(list: Vec<u32>) -> Tokens {
        let grown = None;
        Tokens(Arc::new(Mutex::new(SoFar { list, grown })))
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this stage hears of them, under this number.
    pub(crate) fn tell(&self, number: u64, grown: &Grown) {
        self.lock().grown = Some((number, grown.clone()));
    }

    pub(crate) fn push(&self, token: u32) {
        let mut so_far = self.lock();
        so_far.list.push(token);
        if so_far.list.len().is_multiple_of(TOKENS_WORTH_KEEPING)
            && let Some((number, grown)) = &so_far.grown
        {
            let mut grown = grown.0.lock().unwrap_or_else(PoisonError::into_inner);
            grown.push(*number);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().list.len()
    }

    pub(crate) fn to_vec(&self) -> Vec<u32> {
        self.lock().list.clone()
    }
}

/// Records of one lane keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// All records whose key has this hash.
    Key(u64),
    /// All records of the partition.
    Partition,
    /// A record of its own, by entry number.
    Own(u64),
}

/// What an entry waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// Its turn.
    Queued,
    /// The model's answer to this request.
    Submitted(u64),
    /// Those before it in its lane.
    Answered(Box<Answer>),
    /// The time of its retry.
    Delayed(Instant),
}

impl Entry {
    /// The record.
    pub(crate) fn view(&self) -> Option<RecordView<'_>> {
        self.record.view().get(0)
    }

    /// The model of this digest is asked from now on. Another than before does not go on with the tokens so far, it
    /// begins anew; an answer that is there already stays that of the model that made it.
    pub(crate) fn goes_to(&mut self, digest: &str) {
        if *self.model != *digest && !matches!(self.state, State::Answered(_)) {
            self.tokens = Tokens::default();
            self.model = digest.into();
            // What fits depends on the model.
            self.asked = None;
        }
    }
}
