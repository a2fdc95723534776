//! What of an answer outlives the process, as bytes: a JSON head with its length before it, and the body as it is.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::finished::{Body, Finished};
use super::key::Digest;

/// An answer that is being made: what tells it, and its record, to whoever asks again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The route, by its name.
    pub(crate) route: String,
    /// The offset of its one record.
    pub(crate) offset: u64,
    /// Most pieces that are heard, if any are.
    pub(crate) pieces: Option<usize>,
    /// How long its client waits.
    pub(crate) allowance: Duration,
    /// The answer's id, without the prefix of its endpoint.
    pub(crate) id: String,
    /// When it was asked, seconds since the Unix epoch.
    pub(crate) created: u64,
    /// Tokens of its prompt, as they were counted.
    pub(crate) prompt: u64,
    /// The model that answers in the place of the route's own, by its name.
    pub(crate) model: Option<String>,
    /// Most tokens of its answer, where load made them fewer than were asked for.
    pub(crate) most_tokens: Option<u32>,
}

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) client: Digest,
    /// What was asked.
    pub(super) body: Digest,
    pub(super) answer: StoredAnswer,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum StoredAnswer {
    Begun(Begun),
    Finished(Finished),
}

#[derive(Serialize, Deserialize)]
struct Head {
    client: [u8; 32],
    body: [u8; 32],
    what: What,
}

#[derive(Serialize, Deserialize)]
enum What {
    Begun(Begun),
    Finished {
        status: u16,
        headers: Vec<(String, String)>,
        stream: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        records: Vec<String>,
    },
}

impl Stored {
    pub(super) fn write(&self) -> Vec<u8> {
        let none = Bytes::new();
        let (what, body) = match &self.answer {
            StoredAnswer::Begun(begun) => (What::Begun(begun.clone()), &none),
            StoredAnswer::Finished(finished) => {
                let headers = finished.headers.iter().filter_map(|(name, value)| {
                    let value = value.to_str().ok()?;
                    Some((name.as_str().to_owned(), value.to_owned()))
                });
                let what = What::Finished {
                    status: finished.status.as_u16(),
                    headers: headers.collect(),
                    stream: matches!(finished.body, Body::Stream(_)),
                    records: finished.records.clone(),
                };
                (what, finished.body.bytes())
            }
        };
        let head = Head {
            client: self.client.bytes(),
            body: self.body.bytes(),
            what,
        };
        // Strings, numbers and lists of them only: this cannot fail.
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let mut bytes = Vec::with_capacity(4 + head.len() + body.len());
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(body);
        bytes
    }

    /// None of what another version wrote otherwise.
    pub(super) fn read(bytes: &[u8]) -> Option<Stored> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let answer = match head.what {
            What::Begun(begun) => StoredAnswer::Begun(begun),
            What::Finished {
                status,
                headers,
                stream,
                records,
            } => {
                let headers = headers.into_iter().map(|(name, value)| {
                    let name = HeaderName::try_from(name).ok()?;
                    Some((name, HeaderValue::try_from(value).ok()?))
                });
                let body = Bytes::copy_from_slice(body);
                StoredAnswer::Finished(Finished {
                    status: StatusCode::from_u16(status).ok()?,
                    headers: headers.collect::<Option<_>>()?,
                    body: match stream {
                        true => Body::Stream(body),
                        false => Body::Whole(body),
                    },
                    records,
                })
            }
        };
        Some(Stored {
            client: Digest::from(head.client),
            body: Digest::from(head.body),
            answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back() {
        let finished = |body| Finished {
            status: StatusCode::OK,
            headers: vec![(
                HeaderName::from_static("cache-control"),
                HeaderValue::from_static("no-cache"),
            )],
            body,
            records: vec!["chat/0/7/0".into()],
        };
        let begun = Begun {
            route: "chat".into(),
            offset: u64::MAX,
            pieces: Some(9),
            allowance: Duration::from_millis(1500),
            id: "req".into(),
            created: 7,
            prompt: 11,
            model: Some("tiny".into()),
            most_tokens: Some(10),
        };
        for answer in [
            StoredAnswer::Begun(begun),
            StoredAnswer::Finished(finished(Body::Whole(Bytes::from_static(b"{\"a\": 1}")))),
            StoredAnswer::Finished(finished(Body::Stream(Bytes::from_static(
                b"data: \xff\n\n",
            )))),
        ] {
            let stored = Stored {
                client: Digest::of([b"ann".as_slice()]),
                body: Digest::of([b"body".as_slice()]),
                answer,
            };
            let bytes = stored.write();
            assert_eq!(Stored::read(&bytes).as_ref(), Some(&stored));
            for end in 0..bytes.len().min(40) {
                assert_eq!(Stored::read(&bytes[..end]), None, "{end} bytes");
            }
        }
    }
}
