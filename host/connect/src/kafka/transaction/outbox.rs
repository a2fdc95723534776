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
    /// Most bytes of any message, as far as the producer says.
    message: AtomicUsize,
    /// Most bytes of a record with headers of the host; a larger one goes without them.
    with_host_headers: AtomicUsize,
    needs_key: AtomicBool,
}

impl Learnt {
    pub(super) fn new(largest: usize) -> Arc<Learnt> {
        Arc::new(Learnt {
            largest: AtomicUsize::new(largest),
            message: AtomicUsize::new(usize::MAX),
            with_host_headers: AtomicUsize::new(usize::MAX),
            needs_key: AtomicBool::new(false),
        })
    }

    pub(super) fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    /// The most that the producer takes.
    pub(super) fn message(&self) -> usize {
        self.message.load(Ordering::Relaxed)
    }

    pub(super) fn producer_takes(&self, largest: usize) {
        self.message.store(largest, Ordering::Relaxed);
        self.at_most(largest);
    }

    pub(super) fn at_most(&self, largest: usize) {
        self.largest.fetch_min(largest, Ordering::Relaxed);
    }

    pub(super) fn with_host_headers(&self) -> usize {
        self.with_host_headers.load(Ordering::Relaxed)
    }

    /// A record of so many bytes was refused with headers of the host, and taken without.
    pub(super) fn no_host_headers_at(&self, bytes: usize) {
        let most = bytes.saturating_sub(1);
        self.with_host_headers.fetch_min(most, Ordering::Relaxed);
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

/// What a message says, but for its bytes, which are in its chunk.
#[derive(Debug)]
struct Form {
    /// Lengths of key and value.
    key: Option<u32>,
    value: Option<u32>,
    millis: Option<i64>,
    headers: Option<OwnedHeaders>,
    partition: Option<i32>,
}

impl Form {
    fn bytes(&self) -> usize {
        let length = |part: Option<u32>| part.unwrap_or(0) as usize;
        length(self.key) + length(self.value)
    }

    /// The message; its bytes begin here.
    fn message<'a>(&self, mut rest: &'a [u8]) -> Message<'a> {
        let mut take = |length: Option<u32>| {
            let (taken, after) = rest.split_at_checked(length? as usize)?;
            rest = after;
            Some(taken)
        };
        Message {
            key: take(self.key),
            value: take(self.value),
            millis: self.millis,
            headers: self.headers.clone(),
            partition: self.partition,
        }
    }
}

/// So many bytes close a chunk.
const CHUNK: usize = 64 << 10;

/// Messages that follow one another. In pieces, so that nothing is moved while more are added, and what was sent is let
/// go of while the rest still is.
#[derive(Debug, Default)]
struct Chunk {
    /// Number of its first message in the load.
    first: usize,
    stubs: Vec<Stub>,
    /// Nothing once they are sent: librdkafka has its own copy.
    forms: Vec<Form>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn after(&self) -> usize {
        self.first + self.stubs.len()
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.forms.len() * size_of::<Form>() >= CHUNK
    }

    fn close(&mut self) {
        self.stubs.shrink_to_fit();
        self.forms.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    fn add(&mut self, stub: Stub, message: Message<'_>) {
        let mut part = |bytes: Option<&[u8]>| {
            self.bytes.extend_from_slice(bytes.unwrap_or_default());
            // What is longer is refused before it comes here.
            bytes.map(|bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX))
        };
        let (key, value) = (part(message.key), part(message.value));
        self.forms.push(Form {
            key,
            value,
            millis: message.millis,
            headers: message.headers,
            partition: message.partition,
        });
        self.stubs.push(stub);
    }

    /// Number, destination and message of each that is not sent.
    fn messages(&self) -> impl Iterator<Item = (usize, u16, Message<'_>)> {
        let mut at = 0;
        let forms = self.forms.iter().zip(&self.stubs).enumerate();
        forms.map(move |(number, (form, stub))| {
            let message = form.message(self.bytes.get(at..).unwrap_or_default());
            at += form.bytes();
            (self.first + number, stub.to, message)
        })
    }
}

/// The messages of one transaction, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct Load {
    chunks: Vec<Chunk>,
}

impl Load {
    fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    fn add(&mut self, stub: Stub, message: Message<'_>) {
        let open = self.chunks.last_mut().filter(|chunk| !chunk.is_full());
        if let Some(chunk) = open {
            return chunk.add(stub, message);
        }
        let mut first = 0;
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.close();
            first = chunk.after();
        }
        let mut chunk = Chunk {
            first,
            ..Chunk::default()
        };
        chunk.add(stub, message);
        self.chunks.push(chunk);
    }

    fn chunk(&self, number: usize) -> Option<&Chunk> {
        let at = self.chunks.partition_point(|chunk| chunk.after() <= number);
        self.chunks.get(at)
    }

    /// What a message stands for.
    pub(super) fn stub(&self, number: usize) -> Option<&Stub> {
        let chunk = self.chunk(number)?;
        chunk.stubs.get(number.checked_sub(chunk.first)?)
    }

    /// A message that was not sent.
    pub(super) fn message(&self, number: usize) -> Option<Message<'_>> {
        let mut messages = self.chunk(number)?.messages();
        let found = messages.find(|(at, _, _)| *at == number);
        found.map(|(_, _, message)| message)
    }

    /// Gives the messages away in their order: number, destination, message. What was taken is let go of, but for what
    /// it stands for.
    pub(super) fn send<E>(
        &mut self,
        mut take: impl FnMut(usize, u16, Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for chunk in &mut self.chunks {
            for (number, to, message) in chunk.messages() {
                take(number, to, message)?;
            }
            (chunk.forms, chunk.bytes) = (Vec::new(), Vec::new());
        }
        Ok(())
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
        self.inner().load.is_empty()
    }

    /// Hands over what is to be committed; what is given from now on is the next transaction's.
    pub(super) fn take(&self) -> Load {
        let inner = &mut *self.inner();
        inner.pending.fill(0);
        std::mem::take(&mut inner.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> Message<'_> {
        Message {
            key: None,
            value: Some(bytes),
            millis: None,
            headers: None,
            partition: Some(i32::from(bytes[0])),
        }
    }

    /// Larger and smaller than a chunk, with a key and without a value.
    fn load() -> (Load, Vec<Vec<u8>>) {
        let mut load = Load::default();
        let sizes = [1, CHUNK + 1, 7, 1000, CHUNK / 2, CHUNK / 2, 3, 5];
        let values: Vec<Vec<u8>> = sizes.iter().zip(1..).map(|(s, b)| vec![b; *s]).collect();
        for (value, to) in values.iter().zip(0..) {
            load.add(Stub { to, sent: None }, message(value));
        }
        (load, values)
    }

    #[test]
    fn messages_are_sent_as_they_were_given() {
        let (mut load, values) = load();
        assert!(load.chunks.len() > 2, "chunks are closed");
        let mut seen = Vec::new();
        let sent = load.send(|number, to, message| {
            assert_eq!((number, number), (usize::from(to), seen.len()));
            assert_eq!(message.partition, Some(i32::from(values[number][0])));
            assert_eq!(message.key, None);
            seen.push(message.value.unwrap().to_vec());
            Ok::<(), ()>(())
        });
        assert_eq!((sent, &seen), (Ok(()), &values));
        let held: usize = load.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        assert_eq!(held, 0, "bytes are let go of");
        for number in 0..values.len() {
            assert_eq!(usize::from(load.stub(number).unwrap().to), number);
        }
        assert!(load.stub(values.len()).is_none());
    }

    #[test]
    fn a_message_that_is_not_taken_is_still_there() {
        for refused in 0..8 {
            let (mut load, values) = load();
            let sent = load.send(|number, _, _| match number == refused {
                true => Err(number),
                false => Ok(()),
            });
            assert_eq!(sent, Err(refused));
            let message = load.message(refused).unwrap();
            assert_eq!(message.value, Some(values[refused].as_slice()));
        }
    }

    #[test]
    fn what_has_no_key_or_no_value_is_told_from_what_is_empty() {
        let mut load = Load::default();
        let parts: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"x")];
        for key in parts {
            for value in parts {
                let message = Message {
                    key,
                    value,
                    millis: Some(3),
                    headers: None,
                    partition: None,
                };
                load.add(Stub { to: 0, sent: None }, message);
            }
        }
        let expected = parts
            .iter()
            .flat_map(|key| parts.iter().map(move |value| (*key, *value)));
        for (number, expected) in expected.enumerate() {
            let message = load.message(number).unwrap();
            assert_eq!((message.key, message.value), expected);
        }
    }
}
