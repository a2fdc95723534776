//! The list of models: a request that costs the gateway nothing but its own work.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http_body_util::BodyExt as _;
use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{Connection, Server};
use crate::figures::percentiles;
use crate::load::{PATIENCE, Period, Window};

/// Runs it, on one thread.
pub(crate) fn run(url: &str, connections: usize, period: &Period) -> anyhow::Result<Value> {
    let server = Server::new(url)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(all(&server, connections, period))
}

async fn all(server: &Server, connections: usize, period: &Period) -> anyhow::Result<Value> {
    let window = period.window()?;
    let mut running = JoinSet::new();
    for _ in 0..connections {
        running.spawn(one(Connection::new(server.clone()), window));
    }
    let (mut took, mut opened) = (Vec::new(), 0);
    while let Some(ended) = running.join_next().await {
        let (times, times_opened) = ended??;
        took.extend(times);
        opened += times_opened;
    }
    Ok(json!({
        "seconds": window.seconds(),
        "requests_per_s": took.len() as f64 / window.seconds(),
        "took_ms": percentiles(took),
        "connections": opened,
    }))
}

/// One request after another: how long those took that ended in the window.
async fn one(mut connection: Connection, window: Window) -> anyhow::Result<(Vec<Duration>, usize)> {
    let mut took = Vec::new();
    while !window.is_over() {
        let asked = Instant::now();
        let answer = connection.ask(Method::GET, "/models", Vec::new()).await?;
        let body = timeout(PATIENCE, answer.into_body().collect())
            .await
            .with_context(|| format!("no whole answer for {PATIENCE:?}"))??;
        ensure!(!body.to_bytes().is_empty(), "the list of models is empty");
        let now = Instant::now();
        if window.has(now) {
            took.push(now - asked);
        }
    }
    Ok((took, connection.opened))
}
