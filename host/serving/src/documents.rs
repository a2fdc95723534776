//! Documents that are to be ranked, encoded on a thread of the engine's own.
//!
//! A request has up to [`MOST_DOCUMENTS`](tidegate_contract::MOST_DOCUMENTS) of them, and who asks has other records to look
//! after. A piece at a time is encoded, of whom it is the turn then: by class as it has aged, and of a class whoever has had the fewest pieces;
//! one that has waited so long that only those before it go first goes before all others. What waits here has a place in its
//! model's queue, so there is never more of it than that has.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use tidegate_contract::{ModelError, RequestId};
use tidegate_text::EncodedPair;

use crate::engine::Shared;
use crate::model::Loaded;
use crate::order::{Moment, QueueKey, Rank, Slack};
use crate::replicas::Replicas;
use crate::request::{Permit, Placed, Work};

/// Bytes of documents that are encoded before it is the turn of another request; one document is in any case.
const AT_ONCE: usize = 64 << 10;
/// How long an idle thread sleeps at most.
const IDLE: Duration = Duration::from_secs(1);
/// How long one sleeps that may not go on.
const HELD: Duration = Duration::from_millis(1);

/// What the thread is asked.
pub(crate) enum Asked {
    Rank(Box<Ranking>),
    /// Whoever asked has gone. A request that is not here any more is in one of these engines.
    Cancel(RequestId, Permit, Vec<Arc<Shared>>),
    /// Something has changed that the thread looks at by itself.
    Wake,
}

/// A request whose documents are being encoded.
pub(crate) struct Ranking {
    /// Held until its documents are encoded, so that what it is encoded for stays.
    replicas: Arc<Replicas>,
    loaded: Arc<Loaded>,
    request: Placed,
    /// Counted in the order in which they came here.
    number: u64,
    /// How many of its pieces are encoded.
    pieces: u32,
    query: Query,
    documents: VecDeque<String>,
    pairs: Vec<EncodedPair>,
}

enum Query {
    Text(String),
    Tokens(Vec<u32>),
}

impl Ranking {
    pub(crate) fn new(
        (replicas, loaded): (Arc<Replicas>, Arc<Loaded>),
        request: Placed,
        query: String,
        documents: Vec<String>,
    ) -> Ranking {
        Ranking {
            replicas,
            loaded,
            request,
            number: 0,
            pieces: 0,
            query: Query::Text(query),
            pairs: Vec::with_capacity(documents.len()),
            documents: documents.into(),
        }
    }

    /// When its turn is; the smaller goes first.
    fn place(&self, now: Moment) -> Place {
        let key = QueueKey {
            class: self.request.class,
            deadline: self.request.deadline,
            arrived: self.request.submitted,
            number: self.number,
        };
        match key.rank(now, self.loaded.aging, Duration::ZERO) {
            Rank::Overdue { number } => Place::Overdue(number),
            Rank::OnTime {
                class,
                slack,
                number,
            } => Place::OnTime(class, self.pieces, slack, number),
            Rank::Beside { slack, number } => Place::Beside(self.pieces, slack, number),
        }
    }

    /// Encodes a piece of it, all of it is there with the last. A panic ends this one, and not the thread.
    fn guarded_turn(&mut self) -> Result<Option<Work>, ModelError> {
        self.pieces = self.pieces.saturating_add(1);
        catch_unwind(AssertUnwindSafe(|| self.turn())).unwrap_or_else(|_| {
            Err(ModelError::Prompt(
                "its documents could not be encoded: the tokenizer panicked".to_owned(),
            ))
        })
    }

    fn turn(&mut self) -> Result<Option<Work>, ModelError> {
        let query = match &self.query {
            Query::Tokens(tokens) => tokens,
            Query::Text(text) => {
                let tokens = self.loaded.query(text, self.documents.len())?;
                self.query = Query::Tokens(tokens);
                return Ok(None);
            }
        };
        let mut bytes = 0;
        while let Some(document) = self.documents.pop_front() {
            self.pairs.push(self.loaded.pair(query, &document)?);
            bytes += document.len();
            if bytes >= AT_ONCE && !self.documents.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(Work::Encode {
            texts: std::mem::take(&mut self.pairs),
            recognizing: None,
        }))
    }

    /// Sends it on, or says why it ends here; and then that it is here no more.
    fn submit(self, shared: &Shared, work: Result<Work, ModelError>) {
        let _here = Here(shared);
        self.request.submit(&self.replicas, work);
    }
}

/// A place in the order of turns: the smaller goes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// By arrival.
    Overdue(u64),
    /// By class, pieces, slack and arrival.
    OnTime(u64, u32, Slack, u64),
    /// Beside the stream: by pieces, slack and arrival.
    Beside(u32, Slack, u64),
}

/// A request that is counted among those whose documents are encoded, until this goes, however it does.
struct Here<'a>(&'a Shared);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.encoded_one();
    }
}

/// Runs until the engine is closed; what is left then ends with [`ModelError::Closed`].
pub(crate) fn run(shared: &Shared, asked: &Receiver<Asked>) {
    let mut waiting: Vec<Ranking> = Vec::new();
    let mut came = 0;
    while !shared.is_closed() {
        end_late(shared, &mut waiting);
        let sleeps = match waiting.is_empty() {
            true => Some(IDLE),
            false => (!shared.may_encode()).then_some(HELD),
        };
        let next = match sleeps {
            Some(time) => asked.recv_timeout(time).map_err(|error| match error {
                RecvTimeoutError::Timeout => TryRecvError::Empty,
                RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
            }),
            None => asked.try_recv(),
        };
        match next {
            Ok(Asked::Rank(mut ranking)) => {
                ranking.number = came;
                came += 1;
                waiting.push(*ranking);
                continue;
            }
            Ok(Asked::Cancel(id, permit, engines)) => {
                drop(permit);
                match waiting.iter().position(|of| of.request.id == id) {
                    Some(place) => waiting
                        .swap_remove(place)
                        .submit(shared, Err(ModelError::Cancelled)),
                    // It was sent on before this was asked, but maybe after the engines were.
                    None => engines.iter().for_each(|engine| {
                        if !engine.cancel(id) {
                            tracing::warn!(
                                request = id.0,
                                "a cancellation is dropped: too many are waiting"
                            );
                        }
                    }),
                }
                continue;
            }
            Ok(Asked::Wake) => continue,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
        if sleeps.is_none() {
            encode_piece(shared, &mut waiting);
        }
    }
}

/// Ends those whose deadline has passed.
fn end_late(shared: &Shared, waiting: &mut Vec<Ranking>) {
    let now = shared.now();
    for ranking in waiting.extract_if(.., |of| of.request.is_late(now)) {
        ranking.submit(shared, Err(ModelError::Expired { made: 0 }));
    }
}

/// Encodes a piece of whom it is the turn.
fn encode_piece(shared: &Shared, waiting: &mut Vec<Ranking>) {
    let now = shared.now();
    let places = waiting.iter().enumerate();
    let Some((next, _)) = places.min_by_key(|(_, of)| of.place(now)) else {
        return;
    };
    shared.encodes_piece();
    shared.encodes_since(Some(now));
    let turn = waiting[next].guarded_turn();
    shared.encodes_since(None);
    if let Some(work) = turn.transpose() {
        waiting.swap_remove(next).submit(shared, work);
    }
}
