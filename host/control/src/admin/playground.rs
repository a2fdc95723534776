//! The admin API's requests of the playground: few at a time, each for as long as somebody waits for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use hyper::body::Frame;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::bodies;
use super::routes::{Shared, failed};
use super::shape::{self, Kind, Member};
use crate::api::Host;
use crate::playground::{
    ANSWER_TOKENS, Hearer, MAX_ANSWER, MAX_PROMPT, MAX_TRIED, MAX_TRIED_HEAD, ModelAnswer,
    ModelQuestion, PlaygroundRefused, TRIED_SECONDS, TryRecord,
};

/// Questions to models that are under way at once.
const QUESTIONS: usize = 2;
/// Longest bodies, bytes: texts in which every byte is escaped, and what stands around them.
const LONGEST_QUESTION: usize = 12 * MAX_PROMPT + (64 << 10);
const LONGEST_RECORD: usize = 6 * (MAX_TRIED + 2 * MAX_TRIED_HEAD) + (64 << 10);
/// Parts of an answer that wait for whoever reads it: all there can be, so that nobody who makes one waits.
const PARTS: usize = MAX_ANSWER as usize + 16;

/// What is asked, and what is tried: an example, and the members that there can be.
const QUESTION: (&str, &[Member]) = (
    "{\"model\": \"support\", \"prompt\": \"...\"}",
    &[
        Member::needed("model", Kind::Text),
        Member::needed("prompt", Kind::Text),
        Member::optional("system", Kind::Text),
        Member::optional("raw", Kind::TrueOrFalse),
        Member::optional("max_tokens", whole(ANSWER_TOKENS)),
        Member::optional("temperature", Kind::Number),
        Member::optional("seed", Kind::Whole(0, u64::MAX)),
    ],
);
const RECORD: (&str, &[Member]) = (
    "{\"source\": \"tickets\", \"value\": \"...\"}",
    &[
        Member::needed("source", Kind::Text),
        Member::optional("key", Kind::Text),
        Member::needed("value", Kind::Text),
        Member::optional("headers", Kind::Pairs),
        Member::optional("ask", Kind::TrueOrFalse),
        Member::optional("seconds", whole(TRIED_SECONDS)),
    ],
);

/// A whole number within these limits.
const fn whole((least, most): (u32, u32)) -> Kind {
    Kind::Whole(least as u64, most as u64)
}

/// What may be under way at once.
pub(super) struct Places {
    questions: Arc<Semaphore>,
    /// One record is tried at a time: each has instances and threads of its own.
    records: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new() -> Places {
        Places {
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            records: Arc::new(Semaphore::new(1)),
        }
    }
}

/// What is told of an answer.
enum Part {
    Begun,
    Text(String, u32),
    End(Box<Result<ModelAnswer, PlaygroundRefused>>),
}

/// Whoever reads an answer over HTTP.
struct Reader(mpsc::Sender<Part>);

impl Hearer for Reader {
    fn begins(&self) {
        // There is room for every part, unless nobody is there.
        let _ = self.0.try_send(Part::Begun);
    }

    fn hears(&self, text: &str, tokens: u32) {
        let _ = self.0.try_send(Part::Text(text.to_owned(), tokens));
    }

    fn is_there(&self) -> bool {
        !self.0.is_closed()
    }
}

/// Whoever waits for what comes of a record.
struct Waiter(oneshot::Sender<Response>);

impl Hearer for Waiter {
    fn begins(&self) {}

    fn hears(&self, _text: &str, _tokens: u32) {}

    fn is_there(&self) -> bool {
        !self.0.is_closed()
    }
}

pub(super) async fn model(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Ok(place) = shared.playground.questions.clone().try_acquire_owned() else {
        return failed(
            StatusCode::CONFLICT,
            format!("{QUESTIONS} questions are under way, the most there may be; try again"),
        );
    };
    let question: ModelQuestion = match read(request, LONGEST_QUESTION, QUESTION).await {
        Ok(question) => question,
        Err(response) => return response,
    };
    if let Some(fault) = question.fault() {
        return failed(StatusCode::UNPROCESSABLE_ENTITY, fault);
    }
    let (sender, mut parts) = mpsc::channel(PARTS);
    let host = shared.host.clone();
    // It goes on until the host has ended what was asked, also if whoever asked has gone: so long it has its place.
    tokio::task::spawn_blocking(move || {
        let reader = Reader(sender);
        let answer = host.ask_model(&question, &reader);
        // Whoever has the end may ask anew.
        drop(place);
        let _ = reader.0.try_send(Part::End(Box::new(answer)));
    });
    match parts.recv().await {
        Some(Part::End(answer)) if answer.is_err() => match *answer {
            Err(refused) => refusal(&refused),
            Ok(_) => lost(),
        },
        Some(first) => {
            let kind = HeaderValue::from_static("text/event-stream");
            let parts = Parts {
                first: Some(first),
                parts,
            };
            ([(header::CONTENT_TYPE, kind)], Body::new(parts)).into_response()
        }
        None => lost(),
    }
}

pub(super) async fn record(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Ok(place) = shared.playground.records.clone().try_acquire_owned() else {
        return failed(
            StatusCode::CONFLICT,
            "another record is being tried; try again when that has ended",
        );
    };
    let record: TryRecord = match read(request, LONGEST_RECORD, RECORD).await {
        Ok(record) => record,
        Err(response) => return response,
    };
    if let Some(fault) = record.fault() {
        return failed(StatusCode::UNPROCESSABLE_ENTITY, fault);
    }
    let (sender, answer) = oneshot::channel();
    let host = shared.host.clone();
    tokio::task::spawn_blocking(move || {
        let waiter = Waiter(sender);
        let response = tried(&*host, &record, &waiter);
        // Whoever has the answer may ask anew.
        drop(place);
        let _ = waiter.0.send(response);
    });
    answer.await.unwrap_or_else(|_| lost())
}

fn tried(host: &dyn Host, record: &TryRecord, waiter: &Waiter) -> Response {
    match host.try_record(record, waiter) {
        Ok(tried) => Json(tried).into_response(),
        Err(refused) => refusal(&refused),
    }
}

async fn read<T: DeserializeOwned>(
    request: Request,
    longest: usize,
    (example, members): (&str, &[Member]),
) -> Result<T, Response> {
    let body = bodies::read(request, longest).await?;
    let taken = match shape::is_object(&body) {
        true => serde_json::from_slice(&body).map_err(Some),
        false => Err(None),
    };
    taken.map_err(|error| {
        let why = shape::fault(&body, error.as_ref(), members);
        failed(
            StatusCode::BAD_REQUEST,
            format!("the body is not {example}: {why}"),
        )
    })
}

fn refusal(refused: &PlaygroundRefused) -> Response {
    let status = match refused {
        PlaygroundRefused::Unknown { .. } => StatusCode::NOT_FOUND,
        PlaygroundRefused::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
        PlaygroundRefused::Busy(_) | PlaygroundRefused::NotRunning => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    failed(status, refused.to_string())
}

fn lost() -> Response {
    failed(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the host failed at this; see its log",
    )
}

/// An answer as server-sent events. Dropped when whoever reads it goes.
struct Parts {
    first: Option<Part>,
    parts: mpsc::Receiver<Part>,
}

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let part = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.parts.poll_recv(context),
        };
        part.map(|part| part.map(|part| Ok(Frame::data(event(&part)))))
    }
}

fn event(part: &Part) -> Bytes {
    let (name, data) = match part {
        Part::Begun => ("begun", json!({})),
        Part::Text(text, tokens) => ("text", json!({ "text": text, "tokens": tokens })),
        Part::End(answer) => match answer.as_ref() {
            Ok(answer) => ("end", json!(answer)),
            Err(refused) => ("end", json!({ "failed": refused.to_string() })),
        },
    };
    format!("event: {name}\ndata: {data}\n\n").into()
}
