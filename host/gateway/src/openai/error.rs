//! Errors as OpenAI's clients read them.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};
use tidegate_contract::{Blame, DoorShut, ModelError};

use crate::access::Exceeded;
use crate::exchange::{Answered, CLIENT_GONE, Content};
use crate::requests::{AFTER, Failure, Refused};

const BUSY: &str = "queue_full";

/// A request that gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status, where it is told before the first header went out.
    pub status: StatusCode,
    /// The class, in OpenAI's words.
    pub kind: &'static str,
    /// For a person.
    pub message: String,
    /// The field that is wrong.
    pub param: Option<String>,
    /// For a program.
    pub code: &'static str,
    /// Whether asking again can help; none leaves it to the client, who judges by the status.
    pub retry: Option<bool>,
    /// When.
    pub after: Option<Duration>,
    /// The method that the path takes, where another came.
    pub allow: Option<&'static str>,
}

impl ApiError {
    fn new(
        status: StatusCode,
        kind: &'static str,
        code: &'static str,
        message: String,
    ) -> ApiError {
        ApiError {
            status,
            kind,
            message,
            param: None,
            code,
            retry: None,
            after: None,
            allow: None,
        }
    }

    /// A field that is wrong.
    pub fn invalid(param: &str, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError {
            param: Some(param.to_owned()),
            ..ApiError::bad(code, message)
        }
    }

    /// A request that is wrong as a whole.
    pub fn bad(code: &'static str, message: impl Into<String>) -> ApiError {
        let kind = "invalid_request_error";
        ApiError::new(StatusCode::BAD_REQUEST, kind, code, message.into())
    }

    /// A request whose records have more bytes together than they may.
    pub(crate) fn too_large(most: usize) -> ApiError {
        let why = format!("The request becomes records of more than {most} bytes together");
        ApiError {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ..ApiError::bad("request_too_large", why)
        }
        .never()
    }

    /// A model that is not there, or not for the one who asks.
    pub fn no_model(model: &str) -> ApiError {
        ApiError {
            status: StatusCode::NOT_FOUND,
            ..ApiError::invalid(
                "model",
                "model_not_found",
                format!("The model {model:?} does not exist here or you may not ask it"),
            )
        }
    }

    /// A path or a method that is not there.
    pub(crate) fn no_path(status: StatusCode, message: String) -> ApiError {
        ApiError {
            status,
            ..ApiError::bad("unknown_url", message)
        }
    }

    fn never(self) -> ApiError {
        ApiError {
            retry: Some(false),
            ..self
        }
    }

    fn later(self, after: Duration) -> ApiError {
        ApiError {
            after: Some(after),
            ..self
        }
    }

    /// The deadline has passed.
    pub(crate) fn deadline() -> ApiError {
        let message = "The deadline passed before there was an answer";
        ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "timeout_error",
            "deadline_exceeded",
            message.to_owned(),
        )
        .never()
    }

    /// The same where it was waited for a server that has failed and is left alone.
    pub(crate) fn silent() -> ApiError {
        let message =
            "The deadline passed before there was an answer: the model's server is not answering";
        ApiError {
            message: message.to_owned(),
            ..ApiError::deadline()
        }
    }

    /// What has no line in the audit is not given.
    pub(crate) fn unaudited(why: &DoorShut) -> ApiError {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "audit_behind",
            format!("The audit takes no line: {why}"),
        )
    }

    /// Nobody is there to read it.
    pub(crate) fn gone() -> ApiError {
        let status = StatusCode::from_u16(CLIENT_GONE).unwrap_or(StatusCode::BAD_REQUEST);
        ApiError::new(
            status,
            "invalid_request_error",
            "client_gone",
            "The client has gone".to_owned(),
        )
    }

    /// The quota is used up.
    pub(crate) fn exceeded(exceeded: &Exceeded) -> ApiError {
        let error = ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_error",
            "rate_limit_exceeded",
            exceeded.to_string(),
        );
        match exceeded.after {
            Some(after) => error.later(after),
            None => error.never(),
        }
    }

    /// Too much is worked on.
    pub(crate) fn no_turn() -> ApiError {
        unavailable("Too many long requests are being read at the moment".to_owned())
    }

    /// A queue that is full, or a pipeline that ends.
    pub(crate) fn refused(refused: &Refused) -> ApiError {
        match refused {
            Refused::Full { limit, after } => ApiError::busy(*limit, *after),
            Refused::Closed => unavailable("The pipeline takes no more requests".to_owned()),
        }
    }

    /// So many wait already; after this time there will be a place.
    pub(crate) fn busy(waiting: usize, after: Duration) -> ApiError {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_error",
            BUSY,
            format!("{waiting} requests wait already"),
        )
        .later(after)
    }

    /// Whether it is that.
    pub(crate) fn is_busy(&self) -> bool {
        self.code == BUSY
    }

    /// Why a record has no answer. `prompt` is the field that the prompt stands in.
    pub(crate) fn failed(failure: &Failure, prompt: &str) -> ApiError {
        match failure {
            Failure::Dropped { stage } => {
                denied("dropped", format!("The stage {stage} dropped the request"))
            }
            Failure::NotAnswered => denied(
                "not_answered",
                "The request went elsewhere, and nothing answers it".to_owned(),
            ),
            Failure::NoAnswer { member } => server(
                "no_answer",
                format!("The request came back without the member {member:?}"),
            ),
            Failure::Dead {
                error: Some(error), ..
            } => ApiError::model(error, prompt),
            Failure::Dead { stage, reason, .. } => server(
                "operator_failed",
                format!("The stage {stage} could not do it: {reason}"),
            ),
            Failure::Contradicted => server(
                "answer_changed",
                "The answer does not go on as it began".to_owned(),
            ),
            Failure::Ended => unavailable("The pipeline has ended".to_owned()),
        }
    }

    /// Why a model has no answer: the kind of answer is that of the blame, which also says what is a dead letter.
    pub(crate) fn model(error: &ModelError, prompt: &str) -> ApiError {
        match error.blame() {
            Blame::Asker => ApiError::refused_by_model(error, prompt),
            Blame::Time => ApiError {
                message: sentence(error),
                ..ApiError::deadline()
            },
            Blame::Moment => match error {
                ModelError::Full { limit } => ApiError::busy(*limit, AFTER),
                other => unavailable(sentence(other)),
            },
            Blame::Elsewhere => ApiError::remote(error),
            // What a driver says is for those who run the host.
            Blame::Host => unavailable("The device of the model failed".to_owned()),
        }
    }

    /// What the model never answers.
    fn refused_by_model(error: &ModelError, prompt: &str) -> ApiError {
        let text = sentence(error);
        match error {
            ModelError::PromptTooLong { tokens, limit } => ApiError::invalid(
                prompt,
                "context_length_exceeded",
                format!("The prompt has {tokens} tokens, the most is {limit}"),
            ),
            ModelError::Prompt(_) => ApiError::invalid(prompt, "invalid_prompt", text),
            ModelError::Parameter { name, .. } => {
                ApiError::invalid(parameter(name), "invalid_value", text)
            }
            ModelError::WrongTask { .. } => ApiError::invalid("model", "model_not_supported", text),
            ModelError::Unknown(model) => ApiError::no_model(model),
            _ => ApiError::invalid(prompt, "invalid_value", text),
        }
    }

    /// Another server has no answer. Where it is, and what it says to this host, is nobody's business outside.
    fn remote(error: &ModelError) -> ApiError {
        let ModelError::Remote {
            told, again, after, ..
        } = error
        else {
            return unavailable(sentence(error));
        };
        let text = format!("The server of the model has no answer: {told}");
        let status = match after {
            Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            None => StatusCode::BAD_GATEWAY,
        };
        let error = ApiError::new(status, "server_error", "remote_failed", text);
        match (again, after) {
            (true, Some(after)) => error.later(*after),
            (true, None) => error,
            (false, _) => error.never(),
        }
    }

    /// The body.
    pub fn body(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }})
    }

    /// The answer that says it.
    pub fn answered(&self) -> Answered {
        let mut headers = Vec::new();
        if let Some(allow) = self.allow {
            headers.push((ALLOW, HeaderValue::from_static(allow)));
        }
        if let Some(retry) = self.retry {
            let value = HeaderValue::from_static(if retry { "true" } else { "false" });
            headers.push((HeaderName::from_static("x-should-retry"), value));
        }
        if let Some(after) = self.after {
            // Less than a second reads as none, and has one client ask in a loop.
            let seconds = after.as_millis().div_ceil(1000).max(1);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                headers.push((RETRY_AFTER, value));
            }
        }
        Answered {
            status: self.status,
            headers,
            content: Content::Whole {
                media_type: "application/json",
                bytes: Bytes::from(self.body().to_string()),
            },
        }
    }
}

fn sentence(error: &ModelError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text,
    }
}

/// A model's parameter by the name that clients know it by.
fn parameter(name: &'static str) -> &'static str {
    match name {
        "structure" => "response_format",
        "logprobs" => "top_logprobs",
        other => other,
    }
}

fn denied(code: &'static str, message: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "permission_error", code, message).never()
}

fn server(code: &'static str, message: String) -> ApiError {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    ApiError::new(status, "server_error", code, message).never()
}

fn unavailable(message: String) -> ApiError {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "server_error", "unavailable", message).later(AFTER)
}
