//! A request as all endpoints understand it, and the records that it becomes.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tidegate_contract::AskingRecord;

use super::error::ApiError;
use super::route::{Endpoint, Route, Settled};
use crate::exchange::Asked;
use crate::requests::NewRecord;
use crate::traced::{Trace, is_of_trace};

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
    /// The text, of an embedding; the query, of a ranking.
    pub(crate) input: Option<String>,
    /// The documents of a ranking that is asked for whole.
    pub(crate) documents: Vec<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    documents: &'a [String],
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

    /// Whether the same answer comes each time.
    pub(crate) fn is_settled(&self, settled: Settled) -> bool {
        let parameters = &self.asking.parameters;
        let usually = settled == Settled::Usually;
        let greedy = parameters.temperature.map_or(usually, |heat| heat == 0.0);
        let asked = self.input.is_some() || parameters.seed.is_some() || greedy;
        settled != Settled::Never && asked
    }
}

impl Asking {
    /// The records' values, of so many bytes together at most: what they have in common stands in each of them.
    pub(crate) fn values(&self, most: usize) -> Result<Vec<Vec<u8>>, ApiError> {
        let mut values = Vec::with_capacity(self.questions.len());
        let mut left = most;
        for question in &self.questions {
            let input = question.input.as_deref();
            let ranks = !question.documents.is_empty();
            let value = RecordValue {
                endpoint: self.endpoint.name(),
                model: &self.model,
                user: self.user.as_deref(),
                metadata: self.metadata.as_ref(),
                input: input.filter(|_| !ranks),
                query: input.filter(|_| ranks),
                documents: &question.documents,
                asking: question.input.is_none().then_some(&question.asking),
            };
            let value = serde_json::to_vec(&value).map_err(|error| {
                let why = format!("The request cannot be written: {error}");
                ApiError::bad("invalid_json", why)
            })?;
            left = left
                .checked_sub(value.len())
                .ok_or_else(|| ApiError::too_large(most))?;
            values.push(value);
        }
        Ok(values)
    }

    /// The key of its records, if they have one.
    pub(crate) fn key<'a>(&'a self, route: &Route, asked: &'a Asked) -> Option<&'a [u8]> {
        let header = route
            .key_header
            .as_ref()
            .and_then(|name| asked.headers.get(name));
        let key = match (header, &self.user) {
            (Some(header), _) => header.as_bytes(),
            (None, Some(user)) => user.as_bytes(),
            (None, None) => asked.who.name.as_bytes(),
        };
        Some(key).filter(|key| !key.is_empty())
    }
}

/// The headers that the records of a request have.
pub(crate) fn headers(route: &Route, asked: &Asked) -> Vec<(String, Vec<u8>)> {
    let mut headers = vec![(REQUEST_ID.to_owned(), asked.id.as_bytes().to_vec())];
    if let Some(key) = asked.headers.get(IDEMPOTENCY_KEY) {
        headers.push((IDEMPOTENCY_KEY.to_owned(), key.as_bytes().to_vec()));
    }
    let trace = asked.trace.as_ref();
    let own = trace.into_iter().flat_map(Trace::headers);
    headers.extend(own.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())));
    for name in &route.headers {
        if trace.is_some() && is_of_trace(name.as_str()) {
            continue;
        }
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
    let key = asking.key(route, asked).map(Arc::<[u8]>::from);
    let headers = Arc::<[_]>::from(headers(route, asked));
    let records = values.into_iter().map(|value| NewRecord {
        key: key.clone(),
        value,
        headers: headers.clone(),
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_record_repeats_makes_no_more_of_a_request_than_so_many_bytes() {
        let question = Question {
            input: Some("a".to_owned()),
            ..Question::default()
        };
        let asking = Asking {
            endpoint: Endpoint::Embeddings,
            model: "small".to_owned(),
            user: Some("u".repeat(1 << 20)),
            metadata: None,
            stream: false,
            told_to_continue: false,
            questions: vec![question; 2048],
        };
        // All of them would be 2 GiB.
        let refused = asking.values(4 << 20).unwrap_err();
        assert_eq!(
            (refused.status.as_u16(), refused.code),
            (413, "request_too_large")
        );
        let few = Asking {
            questions: asking.questions[..3].to_vec(),
            ..asking
        };
        assert_eq!(few.values(4 << 20).map(|values| values.len()), Ok(3));
    }
}
