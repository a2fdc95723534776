//! A request for an answer, from its first try to its last.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Uri;
use tokio::time::{sleep, timeout};

use super::assembly::{Assembly, Stopped};
use super::breaker::Outcome;
use super::chunks::Chunk;
use super::events::Chunks;
use super::reply::GuardedReply;
use super::request::Asked;
use super::server::{Server, locked};
use super::trouble::Trouble;

/// How long the count of tokens may come after the end of the last choice.
const AFTER_THE_END: Duration = Duration::from_secs(2);

/// Asks until there is an answer, or there will be none. Once something was shown, nothing is tried again.
pub(crate) async fn answer(
    server: &Server,
    uri: &Uri,
    asked: &Asked,
    deadline: Option<Instant>,
    jitter: u64,
    assembly: &Mutex<Assembly>,
    reply: &mut GuardedReply,
) -> Result<(), Stopped> {
    let body = Bytes::copy_from_slice(asked.body.as_bytes());
    let mut tried = 0;
    loop {
        tried += 1;
        locked(assembly).begin();
        let trouble = match once(server, uri, body.clone(), asked, assembly, reply).await {
            Ok(()) => return Ok(()),
            Err(Stopped::Gone) => return Err(Stopped::Gone),
            Err(Stopped::Trouble(trouble)) => trouble,
        };
        if locked(assembly).shown() {
            return Err(trouble.into());
        }
        match server.again(&trouble, tried, deadline, jitter.rotate_left(tried * 7)) {
            Some(wait) => sleep(wait).await,
            None => return Err(trouble.into()),
        }
    }
}

async fn once(
    server: &Server,
    uri: &Uri,
    body: Bytes,
    asked: &Asked,
    assembly: &Mutex<Assembly>,
    reply: &mut GuardedReply,
) -> Result<(), Stopped> {
    let begin = || server.tried(begin(server, uri, body.clone(), asked));
    let ((first, mut chunks), mut admission) = server.hedged(begin).await?;
    let limit = server.timeouts.whole;
    let follow = follow(first, &mut chunks, assembly, reply);
    let followed = match timeout(limit, follow).await {
        Ok(followed) => followed,
        Err(_) => Err(Trouble::failed(format!("its answer has no end after {limit:?}")).into()),
    };
    admission.told(match &followed {
        Ok(()) => Outcome::Alive,
        Err(Stopped::Trouble(trouble)) => trouble.outcome,
        Err(Stopped::Gone) => Outcome::Unknown,
    });
    followed
}

/// Up to the first chunk that says something.
async fn begin(
    server: &Server,
    uri: &Uri,
    body: Bytes,
    asked: &Asked,
) -> Result<(Chunk, Chunks), Trouble> {
    let response = server.ask(uri, body, asked.prompt_tokens).await?;
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
    let mut finished = take(first, reply)?;
    while !finished {
        match chunks.next().await? {
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
