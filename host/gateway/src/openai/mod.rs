//! OpenAI's API: a request's body becomes records, and what comes of them its answer.
//!
//! What is wrong with a request is said before it is asked: form, field by field; models; the length of the prompt; the
//! quota. Members of a body are honoured, accepted without effect, or refused by name; those that are not known are
//! refused, too.

pub mod admission;
mod answer;
mod aside;
mod asking;
mod audited;
mod chat;
mod completions;
mod conversation;
mod cost;
mod deadline;
mod embeddings;
pub mod error;
mod fields;
mod form;
mod framing;
pub mod load;
mod logprobs;
mod messages;
mod models;
mod parameters;
mod responses;
mod resuming;
pub mod route;
mod run;
mod tools;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use tidegate_contract::AuditDoor;
use tokio::time::Instant;

use admission::Admission;
use aside::aside;
use asking::Asking;
use cost::{most_tokens, pieces};
use error::ApiError;
use form::Form;
use framing::Head;
pub(crate) use framing::late;
use load::{Served, Shed};
use route::{Endpoint, ModelEntry, Route};

use crate::access::Who;
use crate::exchange::{Answered, Asked, Gone};
use crate::idempotency::key::Digest;
use crate::idempotency::{Answers, Joining, Making, Records, header};
use crate::requests::{Patience, Requests, Spending};

/// How long a long body waits until it is read.
const READING: Duration = Duration::from_secs(10);

/// Seeds are below this: numbers of no more than six digits, which no operator takes for somebody's card or telephone.
const SEEDS: u64 = 1_000_000;

/// The records of a request have no more bytes together than so many of the longest bodies, and may always have so many:
/// what they have in common stands in each of them.
const BODIES: usize = 4;
const ALWAYS: usize = 16 << 20;

/// What the endpoints are made of.
#[derive(Clone)]
pub struct Options {
    /// Where records go.
    pub requests: Requests,
    /// The ways there.
    pub routes: Vec<Route>,
    /// Who may.
    pub admission: Arc<dyn Admission>,
    /// Longest body.
    pub max_body: usize,
    /// Seconds since the Unix epoch.
    pub clock: fn() -> u64,
    /// Answers of requests with an idempotency key; without, the key is only a header of the record.
    pub repeated: Option<Answers>,
    /// Answers that equal requests share.
    pub shared: Option<Shared>,
    /// What was done under load.
    pub shed: Shed,
    /// Where it is written who was given the answer to another's question, if it is.
    pub audit: Option<Arc<dyn AuditDoor>>,
}

/// Answers that equal requests share, where the same answer comes each time: greedy ones, and those with a seed.
#[derive(Clone)]
pub struct Shared {
    /// In the making, and kept.
    pub answers: Answers,
    /// Whether all clients share them, and not each its own.
    pub everyone: bool,
}

/// The time of this machine.
pub fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The endpoints. A copy is the same.
#[derive(Clone)]
pub struct OpenAi(Arc<Inner>);

struct Inner {
    requests: Requests,
    routes: Vec<Arc<Route>>,
    admission: Arc<dyn Admission>,
    max_body: usize,
    /// Most bytes that the records of a request have together.
    most_bytes: usize,
    clock: fn() -> u64,
    repeated: Option<Answers>,
    shared: Option<Shared>,
    shed: Shed,
    audit: Option<Arc<dyn AuditDoor>>,
}

impl OpenAi {
    /// Endpoints over these routes. What an earlier process was making is expected of the pipeline from now on: it must
    /// not have begun.
    pub fn new(options: Options) -> OpenAi {
        resuming::expect(&options);
        let under_load = options
            .routes
            .iter()
            .filter(|route| !route.steps.is_empty());
        under_load.for_each(|route| options.shed.add(route));
        OpenAi(Arc::new(Inner {
            requests: options.requests,
            routes: options.routes.into_iter().map(Arc::new).collect(),
            admission: options.admission,
            max_body: options.max_body,
            most_bytes: options.max_body.saturating_mul(BODIES).max(ALWAYS),
            clock: options.clock,
            repeated: options.repeated,
            shared: options.shared,
            shed: options.shed,
            audit: options.audit,
        }))
    }

    /// Whether a path is one of these endpoints'.
    pub fn serves(path: &str) -> bool {
        path == "/v1/models" || path.starts_with("/v1/models/") || Endpoint::of(path).is_some()
    }

    /// Longest body of a request.
    pub fn max_body(&self) -> usize {
        self.0.max_body
    }

    /// Whether an idempotency key is heeded.
    pub fn repeats(&self) -> bool {
        self.0.repeated.is_some()
    }

    /// Answers a request.
    pub async fn answer(&self, asked: Asked) -> Answered {
        let answered = self.try_answer(asked).await;
        answered.unwrap_or_else(|error| error.answered())
    }

    async fn try_answer(&self, asked: Asked) -> Result<Answered, ApiError> {
        if asked.path == "/v1/models" || asked.path.starts_with("/v1/models/") {
            only(&asked, "GET")?;
            return self.models(&asked);
        }
        let Some(endpoint) = Endpoint::of(&asked.path) else {
            let message = format!("There is no {} {}", asked.method, asked.path);
            return Err(ApiError::no_path(StatusCode::NOT_FOUND, message));
        };
        only(&asked, "POST")?;
        self.ask(endpoint, asked).await
    }

    fn models(&self, asked: &Asked) -> Result<Answered, ApiError> {
        let mut entries: Vec<&ModelEntry> = Vec::new();
        for entry in self.0.routes.iter().flat_map(|route| &route.models) {
            let known = entries.iter().any(|other| other.name == entry.name);
            if !known && self.0.admission.may(&asked.who, &entry.name) {
                entries.push(entry);
            }
        }
        let Some(name) = asked.path.strip_prefix("/v1/models/") else {
            return Ok(models::list(&entries));
        };
        let found = entries.iter().find(|entry| entry.name == name);
        found
            .map(|entry| models::one(entry))
            .ok_or_else(|| ApiError::no_model(name))
    }

    /// The route of a model, if this one may ask it so.
    fn route(&self, who: &Who, endpoint: Endpoint, model: &str) -> Result<Arc<Route>, ApiError> {
        let found = self.0.routes.iter().find(|route| {
            route.endpoints.contains(&endpoint)
                && route.models.iter().any(|entry| entry.name == model)
        });
        found
            .filter(|_| self.0.admission.may(who, model))
            .cloned()
            .ok_or_else(|| ApiError::no_model(model))
    }

    async fn ask(&self, endpoint: Endpoint, mut asked: Asked) -> Result<Answered, ApiError> {
        let body = asked.body.clone();
        let read = move || form::read(endpoint, &body);
        let (mut asking, form) = aside(&asked.body, Instant::now() + READING, read).await??;
        let route = self.route(&asked.who, endpoint, &asking.model)?;
        if let Some(trace) = &asked.trace {
            trace.asks(
                endpoint.operation(),
                &asking.model,
                &asked.id,
                asking.stream,
            );
        }
        form.check(&route)?;
        if endpoint == Endpoint::Rerank {
            match route.ranks_whole {
                true => embeddings::in_one(&mut asking)?,
                false => embeddings::have_vectors(&asking)?,
            }
        }
        if route.has_form {
            messages::begins_anew(&mut asking)?;
        }
        let time = deadline::deadline(&asked.headers, route.deadline)?;
        let until = Instant::now() + time;
        let key = header::key(&asked.headers).map_err(|bad| {
            let why = format!("The header {} {bad}", header::NAME);
            ApiError::invalid(header::NAME, "invalid_idempotency_key", why)
        })?;
        let mut question = Ready {
            openai: self.clone(),
            gone: Some(asked.gone.clone()),
            patience: Patience::until(until),
            time,
            served: Served::default(),
            asking: Arc::new(asking),
            form,
            route,
            making: None,
            made_of: None,
        };
        let (Some(key), Some(repeated)) = (key, &self.0.repeated) else {
            return Ok(question.answer(asked).await);
        };
        let who = asked.who.name.clone();
        let scope = Digest::of([who.as_bytes(), endpoint.name().as_bytes(), key.as_bytes()]);
        let headers = asking::header_parts(&question.route, &asked);
        let body = Digest::of([&asked.body[..]].into_iter().chain(headers));
        // Asked anew, also by another process, it is the same answer.
        let questions = &mut Arc::make_mut(&mut question.asking).questions;
        for (index, question) in (0u64..).zip(questions) {
            let seed = Digest::of([&scope.bytes()[..], &index.to_le_bytes()]);
            question.seed_by(seed.number() % SEEDS);
        }
        let joining = Joining {
            client: Digest::of([who.as_bytes()]),
            key: scope,
            body,
            until,
        };
        let under_way = asked.under_way.take();
        let given = self.given(&asked, "idempotency-key");
        let joined = repeated.join(joining, under_way, given, move |making| async move {
            question.made_by(making);
            question.answer(asked).await
        });
        match joined {
            Ok(answered) => Ok(answered.await),
            Err(other) => Err(ApiError {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                ..ApiError::invalid(
                    header::NAME,
                    "idempotency_key_reused",
                    format!("The header {}: {other}", header::NAME),
                )
            }),
        }
    }
}

/// A request whose form is right.
struct Ready {
    openai: OpenAi,
    asking: Arc<Asking>,
    form: Form,
    route: Arc<Route>,
    /// How long those who read the answer wait.
    patience: Patience,
    /// How long the one who asks does.
    time: Duration,
    /// What load makes of it.
    served: Served,
    /// None where others may read the answer.
    gone: Option<Gone>,
    /// Of an answer that several may read.
    making: Option<Making>,
    /// Where it is noted which records that is made of.
    made_of: Option<Records>,
}

impl Ready {
    /// Who asks is one reader of several.
    fn made_by(&mut self, making: Making) {
        self.gone = None;
        self.patience = making.patience().clone();
        self.made_of = Some(making.records().clone());
        self.making = Some(making);
    }

    async fn answer(self, asked: Asked) -> Answered {
        let answered = self.try_answer(asked).await;
        answered.unwrap_or_else(|error| error.answered())
    }

    async fn try_answer(mut self, asked: Asked) -> Result<Answered, ApiError> {
        let inner = self.openai.0.clone();
        let settled = |question: &asking::Question| question.is_settled(self.route.settled);
        let settled = self.asking.questions.iter().all(settled);
        // A repeated request is shared with its repetitions, and with nobody else: it has an end of its own.
        let shared = inner.shared.as_ref();
        let shared = shared.filter(|_| settled && self.making.is_none());
        // What makes an answer is what is there before it is asked for.
        let present = shared.map_or_else(String::new, |_| (self.route.present)());
        let shared = shared.map(|shared| (shared, present.as_str()));
        if let Some(resumed) = self.resume(&asked).await? {
            let trace = asked.trace.clone();
            drop(asked);
            return Ok(run::run(self.goes_on(resumed, trace)).await);
        }
        let prompts = match self.is_there(&asked, shared).await? {
            // What is there costs nothing, whatever the load.
            true => self.count(&asked, &[]).await?,
            false => self.shed(&asked).await?,
        };
        let values = self.values(&asked).await?;
        match shared {
            None => Ok(self.go(asked, &prompts, values)?.await),
            Some((shared, present)) => {
                let key = self.shared_key(&asked, &values, (shared, present));
                let joining = Joining {
                    client: Digest::of([asked.who.name.as_bytes()]),
                    key,
                    body: key,
                    until: self.patience.deadline(),
                };
                let route = self.route.clone();
                let present = present.to_owned();
                let given = self.openai.given(&asked, "cache");
                // Each who reads it is under way for itself.
                let joined = shared
                    .answers
                    .join(joining, None, given, move |making| async move {
                        making.keep_if(move || (route.present)() == present);
                        self.made_by(making);
                        match self.go(asked, &prompts, values) {
                            Ok(answered) => answered.await,
                            Err(error) => error.answered(),
                        }
                    });
                match joined {
                    Ok(answered) => Ok(answered.await),
                    // The body is the key: there is no other.
                    Err(other) => Err(ApiError::bad("invalid_json", other.to_string())),
                }
            }
        }
    }

    /// The values of its records.
    async fn values(&self, asked: &Asked) -> Result<Vec<Vec<u8>>, ApiError> {
        let (asking, most) = (self.asking.clone(), self.openai.0.most_bytes);
        let writing = move || asking.values(most);
        aside(&asked.body, self.patience.deadline(), writing).await?
    }

    /// What must be equal for an answer to be shared: what makes it, the records, which name the model under load, the
    /// form, and who asks.
    fn shared_key(
        &self,
        asked: &Asked,
        values: &[Vec<u8>],
        (shared, present): (&Shared, &str),
    ) -> Digest {
        let mut parts: Vec<Vec<u8>> = vec![
            present.as_bytes().to_vec(),
            // A limit that load has set is told, the same limit of the client is not.
            format!("{:?}", self.served.most_tokens).into_bytes(),
            self.route.name.clone().into_bytes(),
            self.asking.endpoint.name().into(),
            format!("{} {:?}", self.asking.stream, self.form).into_bytes(),
        ];
        if !shared.everyone {
            parts.push(asked.who.name.as_bytes().to_vec());
            parts.extend(self.asking.key(&self.route, asked).map(<[u8]>::to_vec));
        }
        let headers = asking::header_parts(&self.route, asked);
        parts.extend(headers.into_iter().map(<[u8]>::to_vec));
        parts.extend_from_slice(values);
        Digest::of(parts.iter().map(Vec::as_slice))
    }

    /// Reserves, and asks.
    fn go(
        mut self,
        asked: Asked,
        prompts: &[u64],
        values: Vec<Vec<u8>>,
    ) -> Result<impl Future<Output = Answered> + Send + use<>, ApiError> {
        let (inner, asking, route) = (&self.openai.0, &self.asking, &self.route);
        let tokens = prompts.iter().sum::<u64>() + most_tokens(route, asking);
        let reserved = inner
            .admission
            .reserve(&asked.who, tokens)
            .map_err(|exceeded| ApiError::exceeded(&exceeded))?;
        let created = (inner.clock)();
        let records = asking::records(asking, values, route, &asked);
        let begun = self.begun(&asked.id, created, prompts);
        let begun = self.making.take().map(|making| (making, begun));
        let spending = Spending::new(prompts, |used| reserved.settle(used));
        spending.is_of(&asked.who.name);
        Ok(run::run(run::Job {
            records,
            begun,
            trace: asked.trace,
            ..self.job(asked.id, created, spending)
        }))
    }

    /// A request with this id, which asks with nothing.
    fn job(self, id: String, created: u64, spending: Arc<Spending>) -> run::Job {
        let (inner, asking, route) = (&self.openai.0, &self.asking, &self.route);
        let head = Head {
            id,
            created,
            model: asking.model.clone(),
            token_text: route.token_text.clone(),
        };
        run::Job {
            requests: inner.requests.clone(),
            model: asking.model.clone(),
            served: self.served,
            shed: inner.shed.clone(),
            resumed: None,
            made_of: self.made_of,
            records: Vec::new(),
            class: route.class,
            patience: self.patience,
            gone: self.gone,
            framing: self.form.framing(head, asking),
            stream: asking.stream,
            pieces: pieces(route, asking),
            spending,
            prompt: asking.endpoint.prompt(),
            begun: None,
            trace: None,
            route: self.route.clone(),
        }
    }
}

fn only(asked: &Asked, method: &'static str) -> Result<(), ApiError> {
    if asked.method.as_str() == method {
        return Ok(());
    }
    let message = format!("{} takes {method}, not {}", asked.path, asked.method);
    Err(ApiError {
        allow: Some(method),
        ..ApiError::no_path(StatusCode::METHOD_NOT_ALLOWED, message)
    })
}
