//! What a worker's sinks write between two cuts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::message::OwnedHeaders;
use rdkafka::producer::Producer as _;

use super::super::deliveries::{NotTaken, Producer, Sent, produce};
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

/// A message that waits for the next transaction; its bytes are in the outbox's.
struct Held {
    stub: Stub,
    /// Lengths of key and value.
    key: Option<usize>,
    value: Option<usize>,
    millis: Option<i64>,
    headers: Option<OwnedHeaders>,
    partition: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No transaction is open.
    Idle,
    /// Messages go into a transaction.
    Open,
    /// A cut is under way: messages are held.
    Busy,
}

/// What one transaction has, when it is handed over.
pub(super) struct Load {
    pub(super) producer: Arc<Producer>,
    pub(super) stubs: Vec<Stub>,
    /// Why it cannot be committed, if that is known.
    pub(super) doomed: Option<String>,
}

/// What a worker's sinks write between two cuts. Used by that worker's thread alone; the lock is never waited for.
pub(super) struct Outbox(Mutex<Inner>);

struct Inner {
    producer: Option<Arc<Producer>>,
    patience: Duration,
    phase: Phase,
    doomed: Option<String>,
    destinations: Vec<Destination>,
    stubs: Vec<Stub>,
    held: Vec<Held>,
    bytes: Vec<u8>,
    /// Bytes given since the last cut was begun, by destination.
    pending: Vec<usize>,
}

impl Outbox {
    pub(super) fn new(patience: Duration) -> Arc<Outbox> {
        Arc::new(Outbox(Mutex::new(Inner {
            producer: None,
            patience,
            phase: Phase::Idle,
            doomed: None,
            destinations: Vec::new(),
            stubs: Vec::new(),
            held: Vec::new(),
            bytes: Vec::new(),
            pending: Vec::new(),
        })))
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

    /// Bytes for this destination that are part of no cut yet.
    pub(super) fn pending(&self, to: u16) -> usize {
        self.inner()
            .pending
            .get(usize::from(to))
            .copied()
            .unwrap_or(0)
    }

    /// Takes a message into the open transaction, or holds it for the next.
    pub(super) fn give(&self, stub: Stub, message: Message<'_>) -> Result<(), NotTaken> {
        let inner = &mut *self.inner();
        if let Some(pending) = inner.pending.get_mut(usize::from(stub.to)) {
            *pending += message.bytes() + 1;
        }
        if inner.phase == Phase::Busy {
            inner.hold(stub, &message);
            return Ok(());
        }
        inner.send(stub, message)
    }

    /// Opens a transaction, if none is.
    pub(super) fn open(&self) {
        self.inner().open();
    }

    pub(super) fn is_open(&self) -> bool {
        let inner = self.inner();
        inner.phase == Phase::Open || inner.doomed.is_some()
    }

    /// Hands over what is to be committed; from now on messages are held. None while nothing is open, or connected.
    pub(super) fn hand_over(&self) -> Option<Load> {
        let inner = &mut *self.inner();
        let producer = inner.producer.take()?;
        inner.phase = Phase::Busy;
        inner.pending.fill(0);
        Some(Load {
            producer,
            stubs: std::mem::take(&mut inner.stubs),
            doomed: inner.doomed.take(),
        })
    }

    /// The cut holds, or there was none yet: what was held goes into the next transaction.
    pub(super) fn go_on(&self, producer: Arc<Producer>) {
        let inner = &mut *self.inner();
        inner.producer = Some(producer);
        inner.phase = Phase::Idle;
        let (held, bytes) = (
            std::mem::take(&mut inner.held),
            std::mem::take(&mut inner.bytes),
        );
        let mut rest = bytes.as_slice();
        let mut take = |length: Option<usize>| {
            let (taken, after) = rest.split_at(length?);
            rest = after;
            Some(taken)
        };
        for held in held {
            let message = Message {
                key: take(held.key),
                value: take(held.value),
                millis: held.millis,
                headers: held.headers,
                partition: held.partition,
            };
            if let Err(why) = inner.send(held.stub, message) {
                inner.doom(&format!("{why:?}"));
            }
        }
    }

    /// The cut does not hold, and nothing that came since.
    pub(super) fn begin_anew(&self, producer: Option<Arc<Producer>>) {
        let inner = &mut *self.inner();
        inner.producer = producer;
        inner.phase = Phase::Idle;
        inner.doomed = None;
        inner.stubs.clear();
        inner.held.clear();
        inner.bytes.clear();
        inner.pending.fill(0);
    }
}

impl Inner {
    fn hold(&mut self, stub: Stub, message: &Message<'_>) {
        self.bytes
            .extend_from_slice(message.key.unwrap_or_default());
        self.bytes
            .extend_from_slice(message.value.unwrap_or_default());
        self.held.push(Held {
            stub,
            key: message.key.map(<[u8]>::len),
            value: message.value.map(<[u8]>::len),
            millis: message.millis,
            headers: message.headers.clone(),
            partition: message.partition,
        });
    }

    fn doom(&mut self, why: &str) {
        self.doomed.get_or_insert_with(|| why.to_owned());
    }

    fn open(&mut self) {
        if self.phase != Phase::Idle {
            return;
        }
        let Some(producer) = &self.producer else {
            return self.doom("there is no connection to the brokers");
        };
        match producer.begin_transaction() {
            Ok(()) => self.phase = Phase::Open,
            Err(error) => self.doom(&error.to_string()),
        }
    }

    /// What cannot be sent because the transaction has failed is let go: it comes again once that is aborted.
    fn send(&mut self, stub: Stub, message: Message<'_>) -> Result<(), NotTaken> {
        self.open();
        let (None, Some(producer), Some(destination)) = (
            &self.doomed,
            &self.producer,
            self.destinations.get(usize::from(stub.to)),
        ) else {
            return Ok(());
        };
        let number = self.stubs.len();
        match produce(producer, &destination.topic, message, number, self.patience) {
            Ok(()) => {
                self.stubs.push(stub);
                Ok(())
            }
            Err(NotTaken::Undelivered(why)) => {
                self.doom(&why);
                Ok(())
            }
            Err(NotTaken::Failed(error)) => {
                self.doom(&error.to_string());
                Ok(())
            }
            Err(why) => Err(why),
        }
    }
}
