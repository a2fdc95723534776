//! A request on its way: asks with its records, and makes an answer of what is heard of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use tidegate_contract::{CallerId, Terms};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::answer::{Final, Usage, conclude};
use super::error::ApiError;
use super::framing::Framing;
use super::load::{Served, Shed};
use super::route::Route;
use crate::exchange::{Answered, Content, Gone, Part};
use crate::idempotency::{Begun, Making, Records};
use crate::requests::{Heard, NewRecord, OwnedPiece, Patience, Requests, Spending, Waiting};
use crate::traced::Trace;

/// How long a client hears nothing: both common ones give up after some minutes.
const SILENCE: Duration = Duration::from_secs(15);
const COMMENT: &[u8] = b": the answer is being made\n\n";
/// The header that names a model that answers in another's place.
const MODEL: &str = "x-tidegate-model";
/// Most records of one request that are in the pipeline at once.
const AT_ONCE: usize = 64;

/// A request that may be asked.
pub(crate) struct Job {
    pub(crate) requests: Requests,
    pub(crate) route: Arc<Route>,
    /// The model that was asked for, as the client knows it.
    pub(crate) model: String,
    pub(crate) served: Served,
    pub(crate) shed: Shed,
    /// Its one record, where an earlier process has asked with it.
    pub(crate) resumed: Option<Waiting>,
    /// None of one that is resumed.
    pub(crate) records: Vec<NewRecord>,
    pub(crate) class: u8,
    /// How long those who read the answer wait.
    pub(crate) patience: Patience,
    /// None where it ends with its readers.
    pub(crate) gone: Option<Gone>,
    pub(crate) framing: Box<dyn Framing>,
    pub(crate) stream: bool,
    /// Most pieces of one record, where they are shown.
    pub(crate) pieces: Option<usize>,
    pub(crate) spending: Arc<Spending>,
    /// The field that the prompt stands in.
    pub(crate) prompt: &'static str,
    /// Who is told of which record an answer is made, if it is one.
    pub(crate) begun: Option<(Making, Begun)>,
    /// Where it is noted which records it is made of, where others may read the answer.
    pub(crate) made_of: Option<Records>,
    /// The trace of whoever asked first.
    pub(crate) trace: Option<Trace>,
}

/// Asks, and answers with what the first header can say.
pub(crate) async fn run(job: Job) -> Answered {
    let (shed, route, step) = (job.shed.clone(), job.route.clone(), job.served.step);
    let answered = match Running::begin(job).await {
        Err(error) => {
            if error.is_busy() {
                shed.count(&route, None);
            }
            Err(error)
        }
        Ok(running) => {
            if step.is_some() {
                shed.count(&route, step);
            }
            match running.stream {
                true => running.stream().await,
                false => running.whole().await,
            }
        }
    };
    answered.unwrap_or_else(|error| error.answered())
}

async fn gone(gone: &mut Option<Gone>) {
    match gone {
        Some(gone) => gone.wait().await,
        None => std::future::pending().await,
    }
}

/// What is heard.
enum Event {
    Piece(usize, OwnedPiece),
    /// Pieces that were not heard before the record was answered.
    Rest(usize, Vec<OwnedPiece>),
}

struct Running {
    waiting: Waiting,
    route: Arc<Route>,
    model: String,
    served: Served,
    /// The route's other model that answers.
    by: Option<usize>,
    /// Whether a model has.
    has_begun: bool,
    left: VecDeque<(usize, NewRecord)>,
    answers: Vec<Option<Final>>,
    class: u8,
    patience: Patience,
    gone: Option<Gone>,
    framing: Box<dyn Framing>,
    stream: bool,
    pieces: Option<usize>,
    spending: Arc<Spending>,
    prompt: &'static str,
    made_of: Option<Records>,
    trace: Option<Trace>,
}

impl Running {
    /// Takes the places of all its records before any of them is asked with.
    async fn begin(mut job: Job) -> Result<Running, ApiError> {
        let waiting = match job.resumed.take() {
            Some(resumed) => resumed,
            None => {
                let (records, spending) = (job.records.len(), job.spending.clone());
                let waiting = job
                    .requests
                    .wait(job.route.source, records, AT_ONCE, spending);
                let waiting = tokio::select! {
                    biased;
                    () = gone(&mut job.gone) => return Err(ApiError::gone()),
                    waiting = waiting => waiting.map_err(|refused| ApiError::refused(&refused))?,
                    () = job.patience.is_over() => return Err(ApiError::deadline()),
                };
                waiting.patient(job.patience.clone())
            }
        };
        let mut running = Running {
            waiting,
            route: job.route,
            model: job.model,
            served: job.served,
            by: None,
            has_begun: false,
            answers: (0..job.records.len().max(1)).map(|_| None).collect(),
            left: job.records.into_iter().enumerate().collect(),
            class: job.class,
            patience: job.patience,
            gone: job.gone,
            framing: job.framing,
            stream: job.stream,
            pieces: job.pieces,
            spending: job.spending,
            prompt: job.prompt,
            made_of: job.made_of,
            trace: job.trace,
        };
        if let Some(resumed) = running.waiting.callers().next() {
            running.is_made_of(resumed);
        }
        // Of several records some may be done when the others are not: those are asked anew together.
        let begun = job.begun.filter(|_| running.answers.len() == 1);
        if let Some((making, _)) = &begun {
            making.begins();
        }
        running.answers(job.served.model);
        running.ask()?;
        if let (Some((making, begun)), Some(caller)) = (begun, running.waiting.callers().next()) {
            let offset = caller.offset;
            making.begun(Begun { offset, ..begun });
        }
        Ok(running)
    }

    /// This one of the route's other models answers, or its own.
    fn answers(&mut self, by: Option<usize>) {
        self.by = by;
        let other = by.and_then(|by| self.route.others.get(by));
        let head = self.framing.head();
        (head.model, head.token_text) = match other {
            Some(other) => (other.name.clone(), other.token_text.clone()),
            None => (self.model.clone(), self.route.token_text.clone()),
        };
    }

    /// The deadline has passed. Who waited for a server that has failed is told so.
    fn late(&self) -> ApiError {
        let other = self.by.and_then(|by| self.route.others.get(by));
        let is_silent = match other {
            Some(other) => &other.is_silent,
            None => &self.route.is_silent,
        };
        match is_silent {
            Some(is_silent) if !self.has_begun && is_silent() => ApiError::silent(),
            _ => ApiError::deadline(),
        }
    }

    /// A model has begun: what it is called by the client, if it is one that answers.
    fn begun(&mut self, model: &str) {
        let other = self
            .route
            .others
            .iter()
            .position(|other| other.name == model);
        if (other.is_some() || self.route.own.iter().any(|own| own == model)) && other != self.by {
            self.answers(other);
        }
    }

    /// Says which model answers, where it is not the one that was asked for.
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let other = self.by.and_then(|by| self.route.others.get(by));
        let name = other.and_then(|other| HeaderValue::from_str(&other.name).ok());
        name.map(|name| (HeaderName::from_static(MODEL), name))
            .into_iter()
            .collect()
    }

    /// Asks with as many records as may be under way at once.
    fn ask(&mut self) -> Result<(), ApiError> {
        while self.waiting.has_room() {
            let Some((tag, record)) = self.left.pop_front() else {
                break;
            };
            // The patience of those who wait says the deadline.
            let terms = Terms {
                deadline: None,
                class: self.class,
            };
            let asked = self.waiting.ask(tag, record, terms, self.pieces);
            let record = asked.map_err(|refused| ApiError::refused(&refused))?;
            self.is_made_of(record);
        }
        Ok(())
    }

    fn is_made_of(&self, record: CallerId) {
        if let Some(made_of) = &self.made_of {
            let CallerId {
                partition, offset, ..
            } = record;
            made_of.note(format!("{}/{partition}/{offset}/0", self.route.name));
        }
    }

    fn is_done(&self) -> bool {
        self.left.is_empty() && self.answers.iter().all(Option::is_some)
    }

    /// What is heard next, within this time if one is given; none if nothing is.
    async fn next(&mut self, within: Option<Duration>) -> Result<Option<Event>, ApiError> {
        let until = within.map(|within| Instant::now() + within);
        loop {
            let silent = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let heard = tokio::select! {
                biased;
                () = gone(&mut self.gone) => return Err(ApiError::gone()),
                heard = self.waiting.hear() => heard,
                () = self.patience.is_over() => return Err(self.late()),
                () = silent => return Ok(None),
            };
            if let Some(event) = self.take(heard)? {
                return Ok(Some(event));
            }
        }
    }

    /// What it means for the client; none where it means nothing.
    fn take(&mut self, (tag, heard): (usize, Heard)) -> Result<Option<Event>, ApiError> {
        match heard {
            Heard::Begun(model) => {
                self.has_begun = true;
                self.begun(&model);
                Ok(None)
            }
            Heard::Piece(piece) => Ok(Some(Event::Piece(tag, piece))),
            Heard::Failed(failure) => Err(ApiError::failed(&failure, self.prompt)),
            Heard::Answered(reply) => {
                let (mut answer, rest) =
                    conclude(*reply).map_err(|failure| ApiError::failed(&failure, self.prompt))?;
                if let Some(most) = self.served.most_tokens {
                    answer.limited_to(most);
                }
                if let Some(place) = self.answers.get_mut(tag) {
                    *place = Some(answer);
                }
                self.ask()?;
                Ok(Some(Event::Rest(tag, rest)))
            }
        }
    }

    fn finals(&mut self) -> (Vec<Final>, Usage) {
        let answers: Vec<_> = self.answers.drain(..).flatten().collect();
        let usage = Usage::of(&answers);
        // Before the end is read: whoever asks next counts on it.
        self.spending.settle_at(usage.prompt + usage.answer);
        if let Some(trace) = &self.trace {
            let choices = answers.iter().flat_map(|answer| &answer.choices);
            let ends = choices.map(|choice| choice.finish);
            trace.answered(ends, usage.prompt, usage.answer);
        }
        (answers, usage)
    }

    async fn whole(mut self) -> Result<Answered, ApiError> {
        while !self.is_done() {
            self.next(None).await?;
        }
        let (answers, usage) = self.finals();
        let body = self.framing.whole(&answers, usage)?;
        Ok(Answered {
            status: StatusCode::OK,
            headers: self.headers(),
            content: Content::Whole {
                media_type: "application/json",
                bytes: Bytes::from(body.to_string()),
            },
        })
    }

    /// The first header goes out with the first piece, so that an error before it has a status; or after a while
    /// without one, so that the client goes on waiting.
    async fn stream(mut self) -> Result<Answered, ApiError> {
        let first = self.next(Some(SILENCE)).await?;
        let (to, parts) = unbounded_channel();
        let mut out = Vec::new();
        self.framing.begin(&mut out);
        match first {
            None => out.extend_from_slice(COMMENT),
            Some(event) => self.write(event, &mut out),
        }
        let mut headers = self.headers();
        headers.push((CACHE_CONTROL, HeaderValue::from_static("no-cache")));
        tokio::spawn(self.go_on(to, out));
        Ok(Answered {
            status: StatusCode::OK,
            headers,
            content: Content::Events(parts),
        })
    }

    fn write(&mut self, event: Event, out: &mut Vec<u8>) {
        match event {
            Event::Piece(tag, piece) => self.framing.piece(tag, &piece, out),
            Event::Rest(tag, pieces) => {
                for piece in &pieces {
                    self.framing.piece(tag, piece, out);
                }
            }
        }
    }

    async fn go_on(mut self, to: UnboundedSender<Part>, mut out: Vec<u8>) {
        let broken = loop {
            // Whatever is there goes out together.
            let heard = loop {
                match self.waiting.heard().map(|heard| self.take(heard)) {
                    None => break Ok(()),
                    Some(Ok(Some(event))) => self.write(event, &mut out),
                    Some(Ok(None)) => {}
                    Some(Err(error)) => break Err(error),
                }
            };
            if let Err(error) = heard {
                break error;
            }
            if self.is_done() {
                let (answers, usage) = self.finals();
                self.framing.end(&answers, usage, &mut out);
                let _ = to.send(Part::Last(out.into()));
                return;
            }
            if !out.is_empty()
                && to
                    .send(Part::Bytes(std::mem::take(&mut out).into()))
                    .is_err()
            {
                return;
            }
            let heard = tokio::select! {
                () = to.closed() => return,
                heard = self.next(Some(SILENCE)) => heard,
            };
            match heard {
                Ok(Some(event)) => self.write(event, &mut out),
                Ok(None) => out.extend_from_slice(COMMENT),
                Err(error) => break error,
            }
        };
        if let Some(trace) = &self.trace {
            trace.broke();
        }
        self.framing.broken(&broken, &mut out);
        self.waiting.settle();
        let _ = to.send(Part::Broken(out.into()));
    }
}
