//! The records of one request, and what is heard of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{CallerId, Terms};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::caller::{Asks, Caller, Ways};
use super::places::Places;
use super::queue::{Queue, Queued};
use super::spending::Spending;
use super::{Failure, Heard, Patience, Requests, lock};

/// A record to be made. Those of one request share what is the same for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// Its key.
    pub key: Option<Arc<[u8]>>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers.
    pub headers: Arc<[(String, Vec<u8>)]>,
}

impl NewRecord {
    pub(super) fn size(&self) -> usize {
        let headers = self.headers.iter();
        self.value.len()
            + self.key.as_ref().map_or(0, |key| key.len())
            + headers
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>()
    }
}

/// Why a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many wait.
    #[error("{limit} requests wait already")]
    Full {
        /// How many do.
        limit: usize,
        /// When there will be a place.
        after: Duration,
    },
    /// The pipeline ends.
    #[error("the pipeline takes no more requests")]
    Closed,
}

/// The records of one request. Dropped, they are of no more use: those that are not answered end where they are.
pub struct Waiting {
    requests: Requests,
    source: u16,
    queue: Arc<Queue>,
    /// None where more was left in the pipeline than there are places.
    places: Option<Arc<Places>>,
    spending: Arc<Spending>,
    to: UnboundedSender<(usize, Heard)>,
    heard: UnboundedReceiver<(usize, Heard)>,
    /// Those that are not answered, by their number in the request.
    open: Vec<(usize, CallerId)>,
    patience: Option<Patience>,
}

impl Waiting {
    pub(super) fn new(
        requests: Requests,
        source: u16,
        queue: Arc<Queue>,
        places: Option<Arc<Places>>,
        spending: Arc<Spending>,
    ) -> Waiting {
        let (to, heard) = unbounded_channel();
        Waiting {
            requests,
            source,
            queue,
            places,
            spending,
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

    /// Asks with one more record, `tag` being its number in the request. Pieces are heard where a most of them is given.
    /// Returns which record of the pipeline it is.
    ///
    /// # Errors
    /// The pipeline ends.
    pub fn ask(
        &mut self,
        tag: usize,
        record: NewRecord,
        terms: Terms,
        pieces: Option<usize>,
    ) -> Result<CallerId, Refused> {
        let id = CallerId {
            source: self.source,
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
        let ways = Ways {
            to: self.to.clone(),
            place: self.places.as_ref().map(|places| places.wait()),
            spending: self.spending.clone(),
        };
        let caller = Caller::new(id, asks, ways);
        // Known before it can be read.
        lock(&self.requests.0.callers).insert(id, Arc::new(caller));
        self.queue.line.enter(id.offset, Instant::now());
        if let Err(refused) = self.queue.push(Queued { id, record }) {
            self.requests.forget(id);
            return Err(refused);
        }
        self.open.push((tag, id));
        Ok(id)
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
        let ways = Ways {
            to: self.to.clone(),
            place: self.places.as_ref().map(|places| places.wait()),
            spending: self.spending.clone(),
        };
        let caller = Arc::new(Caller::new(id, asks, ways));
        lock(&self.requests.0.callers).insert(id, caller.clone());
        self.queue.line.enter(id.offset, Instant::now());
        self.open.push((0, id));
        caller
    }

    /// The records that have not been answered.
    pub fn callers(&self) -> impl Iterator<Item = CallerId> + '_ {
        self.open.iter().map(|(_, id)| *id)
    }

    /// Whether one more may be asked with, beside those that have not been answered.
    pub fn has_room(&self) -> bool {
        let places = self.places.as_ref();
        places.is_some_and(|places| self.open.len() < places.most())
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

    /// What a record that was left costs, which this pays from now on.
    pub fn paid_by(&self, settle: impl FnOnce(u64) + Send + 'static) -> Arc<Spending> {
        self.spending.paid_by(settle);
        self.spending.clone()
    }

    /// What was heard already.
    pub fn heard(&mut self) -> Option<(usize, Heard)> {
        let (tag, heard) = self.heard.try_recv().ok()?;
        self.note(tag, &heard);
        Some((tag, heard))
    }

    /// The request is over. What it has used is settled now if nothing more can be made, else once nothing can.
    pub fn settle(&self) {
        if self.open.is_empty() {
            self.spending.settle();
        }
    }

    fn note(&mut self, tag: usize, heard: &Heard) {
        match heard {
            Heard::Begun(_) | Heard::Piece(_) => {}
            Heard::Answered(_) => self.open.retain(|(open, _)| *open != tag),
            // One that contradicts itself goes on in the pipeline: it is ended there when this is dropped.
            Heard::Failed(Failure::Contradicted) => {}
            Heard::Failed(_) => self.open.retain(|(open, _)| *open != tag),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.settle();
        if let Some(places) = &self.places {
            places.end();
        }
        for (_, id) in self.open.drain(..) {
            // One that was not read is known to nobody.
            let read = self.queue.remove(id).is_none();
            // Under one lock, so that its name is always known.
            let mut gone = lock(&self.requests.0.gone);
            if self.requests.forget(id) && read {
                gone.push((id, self.spending.name()));
            }
        }
    }
}
