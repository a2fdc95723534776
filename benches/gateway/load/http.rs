//! The load over HTTP: streaming chat completions, each stream on a connection of its own that it keeps.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use http_body_util::BodyExt as _;
use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{Connection, Server};
use crate::events::{Event, Lines};
use crate::figures::{Seen, of_answers};
use crate::load::{Load, PATIENCE};

/// Runs it, on one thread.
pub(crate) fn run(url: &str, name: &str, load: &Load) -> anyhow::Result<Value> {
    let server = Server::new(url)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(streams(&server, name, load))
}

async fn streams(server: &Server, name: &str, load: &Load) -> anyhow::Result<Value> {
    let window = load.period.window()?;
    let (mut answers, mut opened) = (Vec::new(), 0);
    let mut running = JoinSet::new();
    let mut number = load.first;
    for _ in 0..load.streams {
        let connection = Connection::new(server.clone());
        running.spawn(answer(connection, body(name, load, number)));
        number += 1;
    }
    while let Some(ended) = running.join_next().await {
        let (connection, seen) = ended??;
        answers.push(seen);
        if window.is_over() {
            opened += connection.opened;
        } else {
            running.spawn(answer(connection, body(name, load, number)));
            number += 1;
        }
    }
    let mut found = of_answers(&answers, &window);
    found["connections"] = json!(opened);
    Ok(found)
}

fn body(name: &str, load: &Load, number: u64) -> Vec<u8> {
    let body = json!({
        "model": name,
        "messages": [{"role": "user", "content": load.prompt(number)}],
        "max_tokens": load.max_tokens,
        "temperature": 0,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body.to_string().into_bytes()
}

/// One answer, to its end.
async fn answer(mut connection: Connection, body: Vec<u8>) -> anyhow::Result<(Connection, Seen)> {
    let mut seen = Seen::asked_now();
    let answer = connection.ask(Method::POST, "/chat/completions", body);
    let mut stream = answer.await?.into_body();
    let (mut lines, mut events) = (Lines::default(), Vec::new());
    let (mut counted, mut whole) = (false, false);
    while let Some(frame) = timeout(PATIENCE, stream.frame())
        .await
        .with_context(|| format!("nothing came for {PATIENCE:?}"))?
    {
        let frame = frame.context("the stream broke")?;
        let now = Instant::now();
        let Some(bytes) = frame.data_ref() else {
            continue;
        };
        lines.take(bytes, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Piece => seen.pieces.push(now),
                Event::Tokens(tokens) => (seen.tokens, counted) = (tokens, true),
                Event::Done => whole = true,
            }
        }
    }
    ensure!(whole, "the stream ended without [DONE]");
    ensure!(counted, "the stream did not say how many tokens it has");
    Ok((connection, seen))
}
