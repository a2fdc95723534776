//! A request for an answer, from its first try to its last.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Uri;
use tokio::time::{sleep, timeout, timeout_at};

use super::assembly::{Assembly, Stopped};
use super::chunks::Chunk;
use super::events::Chunks;
use super::reply::GuardedReply;
use super::request::Asked;
use super::server::{Server, locked};
use super::side::Side;
use super::trouble::Trouble;

/// How long the count of tokens may come after the end of the last choice.
const AFTER_THE_END: Duration = Duration::from_secs(2);

/// What is asked, and how soon.
pub(crate) struct Question<'a> {
    pub uri: &'a Uri,
    pub asked: &'a Asked,
    pub class: u8,
    pub deadline: Option<Instant>,
    pub jitter: u64,
    /// What whoever is asked goes on with.
    pub traceparent: Option<&'a str>,
}

/// Asks until there is an answer, or there will be none. Once something was shown, nothing is tried again. While it waits
/// for its next try it takes nobody's place.
pub(crate) async fn answer(
    server: &Server,
    question: &Question<'_>,
    started: &Mutex<Option<Instant>>,
    assembly: &Mutex<Assembly>,
    reply: &mut GuardedReply,
) -> Result<(), Stopped> {
    let body = Bytes::copy_from_slice(question.asked.body.as_bytes());
    let mut tried = 0;
    loop {
        tried += 1;
        locked(assembly).begin();
        let permit = server.gate.permit(question.class).await;
        locked(started).get_or_insert_with(Instant::now);
        let trouble = match once(server, question, &body, assembly, reply).await {
            Ok(()) => return Ok(()),
            Err(Stopped::Gone) => return Err(Stopped::Gone),
            Err(Stopped::Trouble(trouble)) => trouble,
        };
        drop(permit);
        if locked(assembly).shown() {
            return Err(trouble.into());
        }
        let jitter = question.jitter.rotate_left(tried * 7);
        match server.again(
            Side::of(question.class),
            &trouble,
            tried,
            question.deadline,
            jitter,
        ) {
            Some(wait) => sleep(wait).await,
            None => return Err(trouble.into()),
        }
    }
}

async fn once(
    server: &Server,
    question: &Question<'_>,
    body: &Bytes,
    assembly: &Mutex<Assembly>,
    reply: &mut GuardedReply,
) -> Result<(), Stopped> {
    let limit = server.timeouts.whole;
    let end = tokio::time::Instant::now() + limit;
    let side = Side::of(question.class);
    let begin = || server.tried(side, begin(server, question, body.clone()));
    let ((first, mut chunks), mut admission) = server.hedged(side, begin).await?;
    let follow = follow(server, first, &mut chunks, assembly, reply);
    let mut followed = match timeout_at(end, follow).await {
        Ok(followed) => followed,
        Err(_) => Err(Trouble::late(format!("its answer has no end after {limit:?}")).into()),
    };
    if let Err(Stopped::Trouble(trouble)) = &mut followed {
        admission.failed(trouble);
    }
    followed
}

/// Up to the first chunk that says something.
async fn begin(
    server: &Server,
    question: &Question<'_>,
    body: Bytes,
) -> Result<(Chunk, Chunks), Trouble> {
    let prompt_tokens = question.asked.prompt_tokens;
    let response = server
        .ask(question.uri, body, prompt_tokens, question.traceparent)
        .await?;
    let mut chunks = Chunks::new(server.http.clone(), response);
    while let Some(chunk) = chunks.next().await? {
        if chunk.says_something() {
            return Ok((chunk, chunks));
        }
    }
    Err(Trouble::failed("its answer ended before it began"))
}

/// From there to the end.
async fn follow(
    server: &Server,
    first: Chunk,
    chunks: &mut Chunks,
    assembly: &Mutex<Assembly>,
    reply: &mut GuardedReply,
) -> Result<(), Stopped> {
    let take = |chunk, reply: &mut GuardedReply| {
        let mut assembly = locked(assembly);
        assembly.take(chunk, reply)?;
        Ok::<_, Stopped>(assembly.finished())
    };
    let between = server.timeouts.between;
    let mut finished = take(first, reply)?;
    while !finished {
        // Comments keep a connection open, and are no part of an answer.
        let next = timeout(between, chunks.next()).await;
        let next =
            next.unwrap_or_else(|_| Err(Trouble::late(format!("nothing came for {between:?}"))));
        match next? {
            Some(chunk) => finished = take(chunk, reply)?,
            None => {
                return Err(Trouble::failed("its answer ended without a finish_reason").into());
            }
        }
    }
    // Only the count of tokens is still to come, and without it the answer is whole.
    let rest = async {
        while let Ok(Some(chunk)) = chunks.next().await {
            take(chunk, reply)?;
        }
        Ok(())
    };
    timeout(AFTER_THE_END, rest).await.unwrap_or(Ok(()))
}
