//! Documents that are to be ranked, encoded on a thread of the engine's own.
//!
//! A request has up to [`MOST_DOCUMENTS`](tidegate_contract::MOST_DOCUMENTS) of them, and who asks has other records to look
//! after. Requests take turns, a piece of each; what waits here has a place in its model's queue, so there is never more of it
//! than that has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use tidegate_contract::{ModelError, RequestId};
use tidegate_text::EncodedPair;

use crate::engine::Shared;
use crate::model::Loaded;
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
            query: Query::Text(query),
            pairs: Vec::with_capacity(documents.len()),
            documents: documents.into(),
        }
    }

    /// Encodes a piece of it; all of it is there with the last.
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

    fn submit(self, work: Result<Work, ModelError>) {
        self.request.submit(&self.replicas, work);
    }
}

/// Runs until the engine is closed; what is left then ends with [`ModelError::Closed`].
pub(crate) fn run(shared: &Shared, asked: &Receiver<Asked>) {
    let mut waiting: VecDeque<Box<Ranking>> = VecDeque::new();
    while !shared.is_closed() {
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
            Ok(Asked::Rank(ranking)) => {
                waiting.push_back(ranking);
                continue;
            }
            Ok(Asked::Cancel(id, permit, engines)) => {
                drop(permit);
                let place = waiting.iter().position(|of| of.request.id == id);
                match place.and_then(|place| waiting.remove(place)) {
                    Some(ranking) => {
                        ranking.submit(Err(ModelError::Cancelled));
                        shared.encoded_one();
                    }
                    // It was sent on before this was asked, but maybe after the engines were.
                    None => engines.iter().for_each(|engine| {
                        engine.cancel(id);
                    }),
                }
                continue;
            }
            Ok(Asked::Wake) => continue,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
        if sleeps.is_some() {
            continue;
        }
        let Some(mut ranking) = waiting.pop_front() else {
            continue;
        };
        shared.encodes_piece();
        let turn = match ranking.request.is_late(shared.now()) {
            true => Err(ModelError::Expired { made: 0 }),
            false => ranking.turn(),
        };
        match turn.transpose() {
            None => waiting.push_back(ranking),
            Some(work) => {
                ranking.submit(work);
                shared.encoded_one();
            }
        }
    }
}
