//! The records of one request, and what is heard of them.

use std::sync::Arc;

use tidegate_contract::{CallerId, Terms};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::caller::{Asks, Caller};
use super::queue::Queued;
use super::{Failure, Heard, Patience, Requests, lock};

/// A record to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl NewRecord {
    pub(super) fn size(&self) -> usize {
        let headers = self.headers.iter();
        self.value.len()
            + self.key.as_ref().map_or(0, Vec::len)
            + headers
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>()
    }
}

/// Why a record is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many wait.
    #[error("{limit} requests wait already")]
    Full {
        /// How many do.
        limit: usize,
        /// The record, to be asked with again.
        record: NewRecord,
    },
    /// The pipeline ends.
    #[error("the pipeline takes no more requests")]
    Closed,
}

/// The records of one request. Dropped, they are of no more use: those that are not answered end where they are.
pub struct Waiting {
    requests: Requests,
    to: UnboundedSender<(usize, Heard)>,
    heard: UnboundedReceiver<(usize, Heard)>,
    /// Those that are not answered, by their number in the request.
    open: Vec<(usize, CallerId)>,
    patience: Option<Patience>,
}

impl Waiting {
    pub(super) fn new(requests: Requests) -> Waiting {
        let (to, heard) = unbounded_channel();
        Waiting {
            requests,
            to,
            heard,
            open: Vec::new(),
            patience: None,
        }
    }

    /// The same, where others may join and wait longer: that is the deadline, whatever the terms of a record say.
    pub fn patient(mut self, patience: Patience) -> Waiting {
        self.patience = Some(patience);
        self
    }

    /// Asks with one more record, `tag` being its number in the request, through this source. Pieces are heard where a
    /// most of them is given.
    pub fn ask(
        &mut self,
        source: u16,
        tag: usize,
        record: NewRecord,
        terms: Terms,
        pieces: Option<usize>,
    ) -> Result<(), Refused> {
        let id = CallerId {
            source,
            partition: 0,
            offset: self.requests.next_offset(),
        };
        let asks = Asks {
            terms,
            patience: self.patience.clone(),
            pieces,
            tag,
            left: 1,
        };
        let caller = Caller::new(id, asks, self.to.clone());
        let queue = self.requests.queue(source);
        // Known before it can be read.
        lock(&self.requests.0.callers).insert(id, Arc::new(caller));
        if let Err((queued, later)) = queue.push(Queued { id, record }) {
            self.requests.forget(id);
            return Err(if later {
                Refused::Full {
                    limit: queue.most(),
                    record: queued.record,
                }
            } else {
                Refused::Closed
            });
        }
        self.open.push((tag, id));
        Ok(())
    }

    /// Waits for a record that is in the pipeline already, in so many pieces. It is the first of the request.
    pub(super) fn take_on(
        &mut self,
        id: CallerId,
        terms: Terms,
        pieces: Option<usize>,
        left: usize,
    ) -> Arc<Caller> {
        let asks = Asks {
            terms,
            patience: self.patience.clone(),
            pieces,
            tag: 0,
            left,
        };
        let caller = Arc::new(Caller::new(id, asks, self.to.clone()));
        lock(&self.requests.0.callers).insert(id, caller.clone());
        self.open.push((0, id));
        caller
    }

    /// The records that have not been answered.
    pub fn callers(&self) -> impl Iterator<Item = CallerId> + '_ {
        self.open.iter().map(|(_, id)| *id)
    }

    /// How many have not been answered.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// What is heard next, and of which record. Waits for ever if nothing is open.
    pub async fn hear(&mut self) -> (usize, Heard) {
        // A sender is kept here, so that there is always one.
        let (tag, heard) = match self.heard.recv().await {
            Some(heard) => heard,
            None => (0, Heard::Failed(Failure::Ended)),
        };
        self.note(tag, &heard);
        (tag, heard)
    }

    /// What was heard already.
    pub fn heard(&mut self) -> Option<(usize, Heard)> {
        let (tag, heard) = self.heard.try_recv().ok()?;
        self.note(tag, &heard);
        Some((tag, heard))
    }

    fn note(&mut self, tag: usize, heard: &Heard) {
        match heard {
            Heard::Piece(_) => {}
            Heard::Answered(_) => self.open.retain(|(open, _)| *open != tag),
            // One that contradicts itself goes on in the pipeline: it is ended there when this is dropped.
            Heard::Failed(Failure::Contradicted) => {}
            Heard::Failed(_) => self.open.retain(|(open, _)| *open != tag),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (_, id) in self.open.drain(..) {
            let queue = self.requests.queue(id.source);
            // One that was not read is known to nobody.
            let read = queue.remove(id).is_none();
            if self.requests.forget(id) && read {
                lock(&self.requests.0.gone).push(id);
            }
        }
    }
}
