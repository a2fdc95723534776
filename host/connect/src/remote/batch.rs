//! Texts that wait go together, as many as a call may have: the longer the server takes, the more of them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use tidegate_contract::ModelError;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::encoding::{Encoded, body, most_bytes, read};
use super::estimate;
use super::gate::{Gate, Permit};
use super::model::Shared;
use super::server::locked;
use super::side::Side;
use super::trouble::Trouble;

/// Texts that wait for a call, by class and then as they came.
#[derive(Debug, Default)]
pub(crate) struct Batches(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    items: BTreeMap<(u8, u64), Item>,
    next: u64,
}

/// A text, and who waits for it.
#[derive(Debug)]
struct Item {
    text: String,
    deadline: Option<Instant>,
    /// The trace that it is part of.
    traceparent: Option<String>,
    sender: oneshot::Sender<Result<Encoded, ModelError>>,
}

/// A text leaves the queue with the one who waits for it.
struct Leaves<'a>(&'a Batches, (u8, u64));

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        locked(&self.0.0).items.remove(&self.1);
    }
}

impl Batches {
    fn enter(&self, class: u8, item: Item) -> Leaves<'_> {
        let mut waiting = locked(&self.0);
        let key = (class, waiting.next);
        waiting.next += 1;
        waiting.items.insert(key, item);
        Leaves(self, key)
    }

    /// The next on this side: a text beside the stream shares no call with the stream's.
    fn take(&self, side: Side, most: usize) -> Vec<Item> {
        let mut waiting = locked(&self.0);
        let keys = waiting.items.keys().copied();
        let ours: Vec<_> = (keys
            .filter(|(class, _)| Side::of(*class) == side)
            .take(most))
        .collect();
        let taken = ours.iter().map(|key| waiting.items.remove(key));
        taken.flatten().collect()
    }
}

/// A text to be encoded.
pub(crate) struct Wanted {
    pub text: String,
    pub deadline: Option<Instant>,
    /// The trace that it is part of. A call goes on with that of its first text that has one: a request has one parent.
    pub traceparent: Option<String>,
}

/// Encodes a text, in a call with others.
pub(crate) async fn encode(
    shared: &Arc<Shared>,
    class: u8,
    wanted: Wanted,
    began: &Mutex<Option<Instant>>,
) -> Result<Encoded, ModelError> {
    let (sender, mut receiver) = oneshot::channel();
    let item = Item {
        text: wanted.text,
        deadline: wanted.deadline,
        traceparent: wanted.traceparent,
        sender,
    };
    let _leaves = shared.batches.enter(class, item);
    loop {
        let permit = tokio::select! {
            biased;
            encoded = &mut receiver => return encoded.unwrap_or(Err(ModelError::Closed)),
            permit = shared.server.gate.permit(class) => permit,
        };
        let items = shared
            .batches
            .take(Side::of(class), shared.protocol.batch());
        if items.is_empty() {
            // Another call has it.
            drop(permit);
            return receiver.await.unwrap_or(Err(ModelError::Closed));
        }
        locked(began).get_or_insert_with(Instant::now);
        // Not here: who brought the others must not end with this one.
        let turn = Turn {
            gate: shared.server.gate.clone(),
            class,
            permit: Some(permit),
        };
        tokio::spawn(call(shared.clone(), items, turn));
    }
}

/// A call's right to run, which it gives back while it waits for its next try.
struct Turn {
    gate: Arc<Gate>,
    class: u8,
    permit: Option<Permit>,
}

impl Turn {
    async fn take(&mut self) {
        if self.permit.is_none() {
            self.permit = Some(self.gate.permit(self.class).await);
        }
    }

    fn give_back(&mut self) {
        self.permit = None;
    }
}

/// A call for these texts, while anybody waits for one of them.
async fn call(shared: Arc<Shared>, items: Vec<Item>, mut turn: Turn) {
    let side = Side::of(turn.class);
    let mut senders = Vec::with_capacity(items.len());
    let mut texts = Vec::with_capacity(items.len());
    let mut deadline = None;
    let mut traces = Vec::with_capacity(items.len());
    for item in items {
        // The latest; none if one of them has time without end.
        deadline = match (texts.is_empty(), deadline, item.deadline) {
            (true, _, first) => first,
            (false, Some(latest), Some(this)) => Some(this.max(latest)),
            (false, ..) => None,
        };
        texts.push(item.text);
        traces.push(item.traceparent);
        senders.push(Some(item.sender));
    }
    let encoded = {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let trace = traces.iter().flatten().next();
        let of = Texts {
            texts: &texts,
            deadline,
            traceparent: trace.map(String::as_str),
        };
        let work = encode_all(&shared, &mut turn, &of);
        while_waited_for(&mut senders, work).await
    };
    match encoded {
        None => {}
        Some(Ok(rows)) => {
            turn.give_back();
            for (sender, row) in senders.iter_mut().zip(rows) {
                tell(sender, Ok(row));
            }
        }
        // One of them is at fault, and the others are not to suffer for it.
        Some(Err(trouble)) if trouble.request && texts.len() > 1 => {
            for ((sender, text), trace) in senders.iter_mut().zip(&texts).zip(&traces) {
                let of = Texts {
                    texts: &[text.as_str()],
                    deadline,
                    traceparent: trace.as_deref(),
                };
                let one = std::slice::from_mut(sender);
                let work = encode_all(&shared, &mut turn, &of);
                let encoded = while_waited_for(one, work).await;
                if let Some(encoded) = encoded {
                    let row = encoded.map(|mut rows| rows.remove(0));
                    tell(
                        sender,
                        row.map_err(|trouble| shared.server.error(side, trouble)),
                    );
                }
            }
        }
        Some(Err(trouble)) => {
            turn.give_back();
            for sender in &mut senders {
                tell(sender, Err(shared.server.error(side, trouble.clone())));
            }
        }
    }
}

type Sender = Option<oneshot::Sender<Result<Encoded, ModelError>>>;

/// Who has gone is not told.
fn tell(sender: &mut Sender, result: Result<Encoded, ModelError>) {
    if let Some(sender) = sender.take() {
        let _ = sender.send(result);
    }
}

/// What comes of it; none when everybody has gone.
async fn while_waited_for<T>(senders: &mut [Sender], work: impl Future<Output = T>) -> Option<T> {
    let gone = poll_fn(|context| {
        let mut all = true;
        for sender in senders.iter_mut().flatten() {
            all &= sender.poll_closed(context).is_ready();
        }
        match all {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    tokio::select! {
        biased;
        () = gone => None,
        done = work => Some(done),
    }
}

/// Texts of one call.
struct Texts<'a> {
    texts: &'a [&'a str],
    deadline: Option<Instant>,
    traceparent: Option<&'a str>,
}

/// Asks until there is an answer, or there will be none. A row for each text.
async fn encode_all(
    shared: &Shared,
    turn: &mut Turn,
    of: &Texts<'_>,
) -> Result<Vec<Encoded>, Trouble> {
    let (texts, deadline, side) = (of.texts, of.deadline, Side::of(turn.class));
    let server = &shared.server;
    let body = Bytes::from(body(&shared.protocol.kind, texts));
    let tokens = texts.iter().map(|text| estimate::tokens(text)).max();
    let once = || async {
        let asked = async {
            let uri = &shared.protocol.encode;
            let response = server
                .ask(uri, body.clone(), tokens.unwrap_or(0), of.traceparent)
                .await?;
            let most = most_bytes(texts.len());
            let answer = server.http.whole(response.into_body(), most).await?;
            read(&shared.protocol.kind, texts, &answer).map_err(Trouble::wrong)
        };
        let (rows, _) = server.tried(side, asked).await?;
        Ok(rows)
    };
    let mut tried = 0;
    loop {
        tried += 1;
        turn.take().await;
        let trouble = match server.hedged(side, once).await {
            Ok(rows) => return Ok(rows),
            Err(trouble) => trouble,
        };
        let jitter = body.len() as u64 * u64::from(tried);
        match server.again(side, &trouble, tried, deadline, jitter) {
            Some(wait) => {
                turn.give_back();
                sleep(wait).await;
            }
            None => return Err(trouble),
        }
    }
}
