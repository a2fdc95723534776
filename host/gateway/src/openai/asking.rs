//! A request as all endpoints understand it, and the records that it becomes.

use serde::Serialize;
use serde_json::Value;
use tidegate_contract::AskingRecord;

use super::route::{Endpoint, Route};
use crate::exchange::Asked;
use crate::requests::NewRecord;

/// Headers of a record that every route has.
const REQUEST_ID: &str = "request-id";
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asking {
    pub(crate) endpoint: Endpoint,
    pub(crate) model: String,
    pub(crate) user: Option<String>,
    pub(crate) metadata: Option<Value>,
    pub(crate) stream: bool,
    /// The client says by name that the last message is gone on with.
    pub(crate) told_to_continue: bool,
    /// One for each record.
    pub(crate) questions: Vec<Question>,
}

/// What one record asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Question {
    pub(crate) asking: AskingRecord,
    /// The text, of an embedding.
    pub(crate) input: Option<String>,
}

/// A record's value.
#[derive(Serialize)]
struct RecordValue<'a> {
    endpoint: &'static str,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    #[serde(flatten)]
    asking: Option<&'a AskingRecord>,
}

impl Question {
    /// How many answers are made.
    pub(crate) fn n(&self) -> u32 {
        self.asking.parameters.n.unwrap_or(1).max(1)
    }

    /// What is counted: of an embedding, its text.
    pub(crate) fn counted(&self) -> AskingRecord {
        match &self.input {
            Some(input) => AskingRecord {
                prompt: Some(input.clone()),
                ..AskingRecord::default()
            },
            None => self.asking.clone(),
        }
    }

    /// A seed, where a text is asked for and the client names none.
    pub(crate) fn seed_by(&mut self, seed: u64) {
        if self.input.is_none() {
            self.asking.parameters.seed.get_or_insert(seed);
        }
    }

    /// Whether the same answer comes each time: greedy, or with a seed.
    pub(crate) fn is_settled(&self, greedy: bool) -> bool {
        let parameters = &self.asking.parameters;
        let greedy = parameters.temperature.map_or(greedy, |heat| heat == 0.0);
        self.input.is_some() || parameters.seed.is_some() || greedy
    }
}

impl Asking {
    /// The records' values.
    pub(crate) fn values(&self) -> Result<Vec<Vec<u8>>, serde_json::Error> {
        let values = self.questions.iter().map(|question| {
            serde_json::to_vec(&RecordValue {
                endpoint: self.endpoint.name(),
                model: &self.model,
                user: self.user.as_deref(),
                metadata: self.metadata.as_ref(),
                input: question.input.as_deref(),
                asking: question.input.is_none().then_some(&question.asking),
            })
        });
        values.collect()
    }

    /// The key of its records, if they have one.
    pub(crate) fn key(&self, route: &Route, asked: &Asked) -> Option<Vec<u8>> {
        let header = route
            .key_header
            .as_ref()
            .and_then(|name| asked.headers.get(name));
        let key = match (header, &self.user) {
            (Some(header), _) => header.as_bytes(),
            (None, Some(user)) => user.as_bytes(),
            (None, None) => asked.who.name.as_bytes(),
        };
        Some(key.to_vec()).filter(|key| !key.is_empty())
    }
}

/// The headers that the records of a request have.
pub(crate) fn headers(route: &Route, asked: &Asked) -> Vec<(String, Vec<u8>)> {
    let mut headers = vec![(REQUEST_ID.to_owned(), asked.id.as_bytes().to_vec())];
    if let Some(key) = asked.headers.get(IDEMPOTENCY_KEY) {
        headers.push((IDEMPOTENCY_KEY.to_owned(), key.as_bytes().to_vec()));
    }
    for name in &route.headers {
        for value in asked.headers.get_all(name) {
            headers.push((name.as_str().to_owned(), value.as_bytes().to_vec()));
        }
    }
    headers
}

/// What of a request's head becomes part of its records, name and value one after another.
pub(crate) fn header_parts<'a>(route: &'a Route, asked: &'a Asked) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    for name in route.key_header.iter().chain(&route.headers) {
        for value in asked.headers.get_all(name) {
            parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
        }
    }
    parts
}

/// The records of a request.
pub(crate) fn records(
    asking: &Asking,
    values: Vec<Vec<u8>>,
    route: &Route,
    asked: &Asked,
) -> Vec<NewRecord> {
    let (key, headers) = (asking.key(route, asked), headers(route, asked));
    let records = values.into_iter().map(|value| NewRecord {
        key: key.clone(),
        value,
        headers: headers.clone(),
    });
    records.collect()
}
