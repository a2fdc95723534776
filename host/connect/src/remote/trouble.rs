//! Why a try came to nothing.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::Value;
use tidegate_contract::ModelError;

use super::breaker::Outcome;
use super::http::Beginning;
use super::secret::Secret;

/// Most characters of what a server says that are told on.
const MOST_SAID: usize = 400;
/// Longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is told to whoever asked: what a server says may be of others who asked with it, or of those who run this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// These words.
    Words(&'static str),
    /// Why: the server refuses what was asked, and that was asked alone.
    Why,
}

/// It did not answer, or not to the end.
const FAILED: &str = "it failed";

/// Why a try came to nothing, and what is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// As long as it came, and with what the server repeats of secrets: see [`said`](Trouble::said).
    pub why: String,
    /// What of it is told to whoever asked.
    pub told: Told,
    /// What the server said was cut off.
    pub is_cut: bool,
    /// Whether the same request may have an answer later.
    pub again: bool,
    /// What it says of the server.
    pub outcome: Outcome,
    /// How long the next try of this request waits at least: the server failed, and says when it may not.
    pub wait: Option<Duration>,
    /// How long the server asks to be left alone: it is well, and puts the request off.
    pub rest: Option<Duration>,
    /// What the request itself is refused with, where that has a name.
    pub refusal: Option<Box<ModelError>>,
    /// The request was refused for what it holds.
    pub request: bool,
}

impl Trouble {
    /// The server failed, and may not the next time.
    pub(crate) fn failed(why: impl Into<String>) -> Trouble {
        Trouble {
            why: why.into(),
            told: Told::Words(FAILED),
            is_cut: false,
            again: true,
            outcome: Outcome::Failed,
            wait: None,
            rest: None,
            refusal: None,
            request: false,
        }
    }

    /// The server answers, but not as it should, and would not the next time.
    pub(crate) fn wrong(why: impl Into<String>) -> Trouble {
        Trouble {
            told: Told::Words("its answer is of no use"),
            again: false,
            outcome: Outcome::Alive,
            ..Trouble::failed(why)
        }
    }

    /// The server was not reached, and may be the next time.
    pub(crate) fn unreached(why: impl Into<String>) -> Trouble {
        Trouble {
            told: Told::Words("it is not reached"),
            ..Trouble::failed(why)
        }
    }

    /// The server took too long, and may not the next time.
    pub(crate) fn late(why: impl Into<String>) -> Trouble {
        Trouble {
            told: Told::Words("it takes too long"),
            ..Trouble::failed(why)
        }
    }

    /// Nothing was tried.
    pub(crate) fn not_asked(why: impl Into<String>) -> Trouble {
        Trouble {
            outcome: Outcome::Unknown,
            ..Trouble::failed(why)
        }
    }

    /// Whether the server was asked.
    pub(crate) fn was_asked(&self) -> bool {
        self.outcome != Outcome::Unknown
    }

    /// As it may be written down: without secrets, and only then in one short line.
    pub(crate) fn said(&self, secrets: &[Secret]) -> String {
        let struck = secrets.iter().fold(self.why.clone(), |text, secret| {
            secret.struck_from(&text, self.is_cut)
        });
        shortened(&struck)
    }

    /// As the model's answer.
    pub(crate) fn into_error(self, server: &str, secrets: &[Secret]) -> ModelError {
        let why = self.said(secrets);
        let told = match self.told {
            Told::Words(words) => words.to_owned(),
            Told::Why => why.clone(),
        };
        let refusal = self.refusal.map(|refusal| *refusal);
        refusal.unwrap_or_else(|| ModelError::Remote {
            server: server.to_owned(),
            why,
            told,
            again: self.again,
            after: self.rest,
        })
    }
}

/// What a status with its headers and the beginning of its body means. `prompt` is the estimate of the prompt's tokens,
/// `context` what the server has room for as far as it is known here.
pub(crate) fn of_status<B>(
    response: &Response<B>,
    body: &Beginning,
    prompt: usize,
    context: u32,
) -> Trouble {
    let status = response.status();
    let said = Said::of(&body.bytes);
    let words = match status {
        StatusCode::UNAUTHORIZED => "the key is not accepted",
        StatusCode::FORBIDDEN => "the key may not ask this model",
        StatusCode::NOT_FOUND => "no such model, or no such address",
        _ if status.is_redirection() => "it points elsewhere, which is not followed",
        _ => status.canonical_reason().unwrap_or("an unknown status"),
    };
    let mut why = format!("{} {words}", status.as_u16());
    if !said.message.is_empty() {
        why = format!("{why}: {}", said.message);
    }
    let overruled = header(response.headers(), "x-should-retry");
    let usual = matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error();
    let again = match overruled {
        Some("true") => true,
        Some("false") => false,
        _ => usual,
    };
    let asked = wait(response.headers());
    // One that says when it will have time is well. With any other status the request may be at fault, and says so each
    // time: it has its attempts.
    let is_busy = matches!(status.as_u16(), 429 | 503) && asked.is_some();
    let failed = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
    let request = matches!(status.as_u16(), 400 | 413 | 422);
    let trouble = Trouble {
        why,
        told: match status.as_u16() {
            _ if request => Told::Why,
            401 | 403 => Told::Words("it does not take requests of this host"),
            404 => Told::Words("it does not have the model"),
            429 => Told::Words("it has no time for more requests"),
            _ if is_busy => Told::Words("it has no time for more requests"),
            _ => Told::Words(FAILED),
        },
        is_cut: body.is_cut,
        again,
        outcome: if failed && !is_busy {
            Outcome::Failed
        } else {
            Outcome::Alive
        },
        wait: asked.filter(|_| again && !is_busy),
        rest: asked.filter(|_| again && is_busy),
        refusal: None,
        request,
    };
    if trouble.request && said.is_length {
        let limit = said.limit.unwrap_or(context as usize);
        return Trouble {
            refusal: Some(Box::new(ModelError::PromptTooLong {
                // The estimate may be below the limit; the server's own count was not.
                tokens: said.tokens.unwrap_or(prompt.max(limit + 1)),
                limit,
            })),
            ..trouble
        };
    }
    trouble
}

/// What an error event in a stream means.
pub(crate) fn of_event(error: &Value) -> Trouble {
    let said = Said::of_value(error);
    let why = if said.message.is_empty() {
        "its answer broke off with an error".to_owned()
    } else {
        format!("its answer broke off: {}", said.message)
    };
    Trouble::failed(why)
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a str> {
    let value = headers.get(HeaderName::from_static(name))?;
    value.to_str().ok().map(str::trim)
}

/// How long the server asks for: milliseconds before seconds, as clients read them. A date is not read, and none at all is
/// no wait.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |text: &str| {
        let number = text.parse::<f64>().ok()?;
        (number.is_finite() && number > 0.0).then_some(number)
    };
    let ms = header(headers, "retry-after-ms").and_then(number);
    let seconds = ms.map(|ms| ms / 1000.0).or_else(|| {
        let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
        number(value.trim())
    })?;
    Some(Duration::from_secs_f64(
        seconds.min(LONGEST_WAIT.as_secs_f64()),
    ))
}

/// What a server says in an error.
#[derive(Debug, Default)]
struct Said {
    message: String,
    is_length: bool,
    tokens: Option<usize>,
    limit: Option<usize>,
}

impl Said {
    fn of(body: &[u8]) -> Said {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Said::of_value(&value),
            Err(_) => Said {
                message: String::from_utf8_lossy(body).into_owned(),
                ..Said::default()
            },
        }
    }

    /// OpenAI's shape, the same without its frame, KServe's text, and `detail` or `message` of other frameworks.
    fn of_value(value: &Value) -> Said {
        let error = match value.get("error") {
            Some(error) if !error.is_null() => error,
            _ => value,
        };
        let text = |name: &str| error.get(name).and_then(Value::as_str);
        let message = error
            .as_str()
            .or_else(|| text("message"))
            .or_else(|| text("detail"))
            .unwrap_or_default();
        let number = |name: &str| error.get(name)?.as_u64()?.try_into().ok();
        let is_length = [text("code"), text("type")].into_iter().flatten().any(|code| {
            code == "context_length_exceeded" || code == "exceed_context_size_error"
        })
            // Servers that have no code of their own say it in OpenAI's words.
            || message.contains("maximum context length");
        let mut message = message.to_owned();
        if let Some(param) = text("param").filter(|param| !param.is_empty()) {
            message = format!("{message} ({param})");
        }
        Said {
            message,
            is_length,
            tokens: number("n_prompt_tokens"),
            limit: number("n_ctx"),
        }
    }
}

/// The beginning of it, in one line.
fn shortened(text: &str) -> String {
    let line = text.trim().chars().map(|c| match c {
        c if c.is_control() => ' ',
        c => c,
    });
    let mut short: String = line.clone().take(MOST_SAID).collect();
    if text.trim().chars().nth(MOST_SAID).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Trouble {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let body = Beginning {
            bytes: body.as_bytes().to_vec(),
            is_cut: false,
        };
        of_status(&response.body(()).unwrap(), &body, 7, 100)
    }

    /// What a status is told as, in a line.
    fn line(status: u16, body: &str) -> String {
        told(status, &[], body).said(&[])
    }

    #[test]
    fn statuses_say_whether_it_is_tried_again_and_whether_the_server_is_well() {
        for (status, again, outcome) in [
            (400, false, Outcome::Alive),
            (401, false, Outcome::Alive),
            (403, false, Outcome::Alive),
            (404, false, Outcome::Alive),
            (408, true, Outcome::Failed),
            (409, true, Outcome::Alive),
            (422, false, Outcome::Alive),
            (429, true, Outcome::Alive),
            (500, true, Outcome::Failed),
            (503, true, Outcome::Failed),
            (302, false, Outcome::Alive),
        ] {
            let trouble = told(status, &[], "");
            assert_eq!(
                (trouble.again, trouble.outcome),
                (again, outcome),
                "{status}"
            );
        }
        assert!(!told(500, &[("x-should-retry", "false")], "").again);
        assert!(told(400, &[("x-should-retry", "true")], "").again);
    }

    #[test]
    fn the_wait_is_what_the_server_says_up_to_a_bound() {
        let wait = |headers: &[_]| told(429, headers, "").rest;
        assert_eq!(wait(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        let both = [("retry-after", "2"), ("retry-after-ms", "20")];
        assert_eq!(wait(&both), Some(Duration::from_millis(20)));
        assert_eq!(wait(&[("retry-after", "86400")]), Some(LONGEST_WAIT));
        for other in ["0", "-1", "NaN", "inf", "Wed, 21 Oct 2015 07:28:00 GMT", ""] {
            assert_eq!(wait(&[("retry-after", other)]), None, "{other}");
        }
    }

    #[test]
    fn every_shape_of_error_has_its_message_in_one_line() {
        let openai = r#"{"error":{"message":"no such\nvoice","type":"invalid_request_error","param":"voice","code":null}}"#;
        assert_eq!(line(400, openai), "400 Bad Request: no such voice (voice)");
        let flat = r#"{"object":"error","message":"bad","code":40303}"#;
        assert_eq!(line(422, flat), "422 Unprocessable Entity: bad");
        assert_eq!(
            line(500, r#"{"error":"oh"}"#),
            "500 Internal Server Error: oh"
        );
        assert_eq!(
            line(404, r#"{"detail":"Not Found"}"#),
            "404 no such model, or no such address: Not Found"
        );
        assert_eq!(line(502, "<html>\r\nbad"), "502 Bad Gateway: <html>  bad");
        let long = line(400, &"x".repeat(100_000));
        assert!(long.chars().count() < 500);
    }

    #[test]
    fn a_secret_is_struck_out_before_a_text_is_shortened() {
        let secret = "sk-0123456789";
        for before in 0..MOST_SAID + 20 {
            let body = format!("{}{secret} and more", "x".repeat(before));
            let said = told(401, &[], &body).said(&[Secret::new(secret)]);
            assert!(!said.contains("sk"), "{said}");
        }
    }

    #[test]
    fn a_server_that_says_when_it_has_time_is_no_sick_one() {
        let busy = told(503, &[("retry-after", "3")], "");
        assert_eq!((busy.again, busy.outcome), (true, Outcome::Alive));
        let error = busy.into_error("http://there", &[]);
        let ModelError::Remote { after, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_failure_stays_one_and_an_attempt_whatever_it_says_of_the_next() {
        let again = [("retry-after", "3"), ("x-should-retry", "true")];
        for (status, outcome) in [
            (500, Outcome::Failed),
            (502, Outcome::Failed),
            (400, Outcome::Alive),
            (409, Outcome::Alive),
        ] {
            let failed = told(status, &again, "");
            assert_eq!((failed.again, failed.outcome), (true, outcome), "{status}");
            assert_eq!(failed.wait, Some(Duration::from_secs(3)));
            let error = failed.into_error("http://there", &[]);
            let ModelError::Remote { after, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(after, None, "{status}");
        }
        // What is not tried again puts nothing off.
        for status in [429, 503] {
            let never = told(
                status,
                &[("retry-after", "3"), ("x-should-retry", "false")],
                "",
            );
            assert_eq!((never.wait, never.rest), (None, None));
        }
    }

    #[test]
    fn a_prompt_that_is_too_long_is_told_as_such() {
        let openai = r#"{"error":{"message":"This model's maximum context length is 8 tokens","code":"context_length_exceeded"}}"#;
        let refusal = told(400, &[], openai).refusal.map(|refusal| *refusal);
        assert_eq!(
            refusal,
            Some(ModelError::PromptTooLong {
                tokens: 101,
                limit: 100
            })
        );
        let llama = r#"{"error":{"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":12,"n_ctx":8}}"#;
        let refusal = told(400, &[], llama).refusal.map(|refusal| *refusal);
        assert_eq!(
            refusal,
            Some(ModelError::PromptTooLong {
                tokens: 12,
                limit: 8
            })
        );
    }

    #[test]
    fn what_a_server_says_is_told_on_only_where_it_refuses_what_was_asked() {
        let said = r#"{"error":{"message":"org-42 sent 'somebody's text'"}}"#;
        for (status, headers, words) in [
            (401, &[][..], "it does not take requests of this host"),
            (404, &[], "it does not have the model"),
            (429, &[], "it has no time for more requests"),
            (
                503,
                &[("retry-after", "3")],
                "it has no time for more requests",
            ),
            (503, &[], "it failed"),
            (500, &[], "it failed"),
            (302, &[], "it failed"),
        ] {
            assert_eq!(outside(told(status, headers, said)), words, "{status}");
        }
        let event = serde_json::from_str(said).unwrap();
        assert_eq!(outside(of_event(&event)), "it failed");
        let unreached = Trouble::unreached("the certificate is for gpu-7.internal");
        assert_eq!(outside(unreached), "it is not reached");
        for status in [400, 413, 422] {
            let text = outside(told(status, &[], r#"{"error":"no such voice"}"#));
            assert!(text.ends_with(": no such voice"), "{text}");
        }
    }

    /// What whoever asked is told.
    fn outside(trouble: Trouble) -> String {
        match trouble.into_error("http://there", &[]) {
            ModelError::Remote { told, .. } => told,
            other => panic!("{other:?}"),
        }
    }
}
