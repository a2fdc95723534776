//! What a worker's sinks write, and a cut brings, for the next transaction.
//!
//! It is kept here until the cut is handed over: so a transaction lasts as long as sending and committing it takes, and
//! neither a slow operator nor a long time between two cuts can outlast its timeout.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::message::OwnedHeaders;

use super::super::deliveries::Sent;
use super::super::target::Message;

/// A topic that transactions go to.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) topic: String,
    /// Name of the sink; none of a changelog.
    pub(super) sink: Option<String>,
    pub(super) learnt: Arc<Learnt>,
}

/// What refusals have told of a topic, for all that is written to it later.
#[derive(Debug)]
pub(super) struct Learnt {
    /// Most bytes of a dead letter, or of a piece of an entry.
    largest: AtomicUsize,
    needs_key: AtomicBool,
}

impl Learnt {
    pub(super) fn new(largest: usize) -> Arc<Learnt> {
        Arc::new(Learnt {
            largest: AtomicUsize::new(largest),
            needs_key: AtomicBool::new(false),
        })
    }

    pub(super) fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    pub(super) fn at_most(&self, largest: usize) {
        self.largest.fetch_min(largest, Ordering::Relaxed);
    }

    pub(super) fn needs_key(&self) -> bool {
        self.needs_key.load(Ordering::Relaxed)
    }

    pub(super) fn takes_only_keys(&self) {
        self.needs_key.store(true, Ordering::Relaxed);
    }
}

/// What a message of a transaction stands for.
#[derive(Debug)]
pub(super) struct Stub {
    /// Index of its destination.
    pub(super) to: u16,
    /// None of a changelog's message.
    pub(super) sent: Option<Sent>,
}

/// A message; its bytes are in its load's.
#[derive(Debug)]
struct Given {
    stub: Stub,
    /// Lengths of key and value.
    key: Option<u32>,
    value: Option<u32>,
    millis: Option<i64>,
    headers: Option<OwnedHeaders>,
    partition: Option<i32>,
}

/// The messages of one transaction, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct Load {
    given: Vec<Given>,
    bytes: Vec<u8>,
}

impl Load {
    fn add(&mut self, stub: Stub, message: Message<'_>) {
        let mut part = |bytes: Option<&[u8]>| {
            self.bytes.extend_from_slice(bytes.unwrap_or_default());
            // What is longer is refused before it comes here.
            bytes.map(|bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX))
        };
        let (key, value) = (part(message.key), part(message.value));
        self.given.push(Given {
            stub,
            key,
            value,
            millis: message.millis,
            headers: message.headers,
            partition: message.partition,
        });
    }

    /// librdkafka has its own copy of what the messages say.
    pub(super) fn is_sent(&mut self) {
        self.bytes = Vec::new();
    }

    /// What a message stands for.
    pub(super) fn stub(&self, number: usize) -> Option<&Stub> {
        self.given.get(number).map(|given| &given.stub)
    }

    /// The messages, with the destination of each.
    pub(super) fn messages(&self) -> impl Iterator<Item = (u16, Message<'_>)> {
        let mut rest = self.bytes.as_slice();
        self.given.iter().map(move |given| {
            let mut take = |length: Option<u32>| {
                let (taken, after) = rest.split_at((length? as usize).min(rest.len()));
                rest = after;
                Some(taken)
            };
            let message = Message {
                key: take(given.key),
                value: take(given.value),
                millis: given.millis,
                headers: given.headers.clone(),
                partition: given.partition,
            };
            (given.stub.to, message)
        })
    }
}

/// What waits for the next transaction. Used by the worker's thread alone; the lock is never waited for.
pub(super) struct Outbox(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    destinations: Vec<Destination>,
    load: Load,
    /// Bytes that wait, by destination.
    pending: Vec<usize>,
}

impl Outbox {
    pub(super) fn new() -> Arc<Outbox> {
        Arc::new(Outbox(Mutex::default()))
    }

    /// A panic elsewhere dooms nothing: what is half given is part of no cut.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A further topic; its index.
    pub(super) fn add(&self, destination: Destination) -> u16 {
        let mut inner = self.inner();
        inner.destinations.push(destination);
        inner.pending.push(0);
        (inner.destinations.len() - 1) as u16
    }

    pub(super) fn destinations(&self) -> Vec<Destination> {
        self.inner().destinations.clone()
    }

    /// Bytes for this destination that wait.
    pub(super) fn pending(&self, to: u16) -> usize {
        let inner = self.inner();
        let pending = inner.pending.get(usize::from(to));
        pending.copied().unwrap_or(0)
    }

    /// Takes a message for the next transaction.
    pub(super) fn give(&self, stub: Stub, message: Message<'_>) {
        let inner = &mut *self.inner();
        if let Some(pending) = inner.pending.get_mut(usize::from(stub.to)) {
            *pending += message.bytes() + 1;
        }
        inner.load.add(stub, message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inner().load.given.is_empty()
    }

    /// Hands over what is to be committed; what is given from now on is the next transaction's.
    pub(super) fn take(&self) -> Load {
        let inner = &mut *self.inner();
        inner.pending.fill(0);
        std::mem::take(&mut inner.load)
    }
}
