//! The answer of an OpenAI-compatible server, chunk by chunk.

use std::collections::VecDeque;

use hyper::Response;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use serde_json::Value;

use super::chunks::Chunk;
use super::http::Http;
use super::sse::{Event, Parser};
use super::trouble::{self, Trouble};

/// Most bytes of an event; of a whole answer where the server does not stream, so many times.
const MOST_EVENT: usize = 1 << 20;
const MOST_WHOLE: usize = 32;

/// What comes of a request.
pub(crate) struct Chunks {
    http: Http,
    body: Option<Incoming>,
    parser: Parser,
    events: VecDeque<Event>,
    /// The server does not stream: all of it is one chunk.
    whole: bool,
}

impl Chunks {
    pub(crate) fn new(http: Http, response: Response<Incoming>) -> Chunks {
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Chunks {
            whole: kind.trim_start().starts_with("application/json"),
            http,
            body: Some(response.into_body()),
            parser: Parser::new(MOST_EVENT),
            events: VecDeque::new(),
        }
    }

    /// The next; none at the end. Whether the answer is whole then, its choices say.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, Trouble> {
        if self.whole {
            let Some(body) = self.body.take() else {
                return Ok(None);
            };
            let bytes = self.http.whole(body, MOST_EVENT * MOST_WHOLE).await?;
            return chunk("", &String::from_utf8_lossy(&bytes));
        }
        loop {
            while let Some(event) = self.events.pop_front() {
                if event.data.trim() == "[DONE]" {
                    self.rest().await;
                    return Ok(None);
                }
                if let Some(chunk) = chunk(&event.name, &event.data)? {
                    return Ok(Some(chunk));
                }
            }
            let Some(body) = &mut self.body else {
                return Ok(None);
            };
            let taken = match self.http.next(body).await? {
                Some(bytes) => self.parser.take(&bytes, &mut self.events),
                None => {
                    self.body = None;
                    let last = self.parser.end();
                    last.map(|event| self.events.extend(event))
                }
            };
            taken.map_err(|error| Trouble::wrong(error.to_string()))?;
        }
    }

    /// What is left after the last event, if it has come: then the connection serves the next request.
    async fn rest(&mut self) {
        if let Some(mut body) = self.body.take() {
            let soon = std::time::Duration::from_millis(20);
            let _ = tokio::time::timeout(soon, self.http.next(&mut body)).await;
        }
    }
}

/// A chunk; none of an event that says nothing.
fn chunk(name: &str, data: &str) -> Result<Option<Chunk>, Trouble> {
    let data = data.trim();
    // Names beside `error` are those of other protocols: they tell that the server is there.
    if data.is_empty() || !matches!(name, "" | "message" | "error") {
        return Ok(None);
    }
    if name == "error" {
        let error = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
        return Err(trouble::of_event(&error));
    }
    let chunk: Chunk = serde_json::from_str(data)
        .map_err(|error| Trouble::failed(format!("its answer cannot be read: {error}")))?;
    match chunk.error {
        Some(error) if !error.is_null() => Err(trouble::of_event(&error)),
        _ => Ok(Some(chunk)),
    }
}
