//! The admin API's requests about dead letters.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};
use serde::Serialize;

use super::bodies;
use super::routes::{Asking, Shared, call, failed};
use crate::letters::{LetterQuery, LettersRefused, MAX_LETTERS, MAX_SENT, SendLetters};

/// Longest text of a filter or cursor, bytes.
const TEXT: usize = 4096;
/// Longest body, bytes: so many ids, each of which is a name, numbers and a place.
const LONGEST: usize = 1 << 20;

pub(super) async fn list(asking: Asking, Query(asked): Query<Vec<(String, String)>>) -> Response {
    match understood(asked) {
        Ok(query) => answered(call(asking, move |host| host.dead_letters(&query)).await),
        Err(why) => failed(StatusCode::BAD_REQUEST, why),
    }
}

pub(super) async fn one(asking: Asking, Path(id): Path<String>) -> Response {
    answered(call(asking, move |host| host.dead_letter(&id)).await)
}

pub(super) async fn send(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let body = match bodies::read(request, LONGEST).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let letters: SendLetters = match serde_json::from_slice(&body) {
        Ok(letters) => letters,
        Err(error) => {
            return failed(
                StatusCode::BAD_REQUEST,
                format!("the body is not {{\"ids\": [\"tickets/0/17@5120\"]}}: {error}"),
            );
        }
    };
    let asked = letters.ids.len();
    if asked == 0 || asked > MAX_SENT {
        return failed(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!(
                "{asked} letters are not between 1 and {MAX_SENT}, which one request may send again"
            ),
        );
    }
    answered(call(shared, move |host| host.send_dead_letters(&letters)).await)
}

fn understood(asked: Vec<(String, String)>) -> Result<LetterQuery, String> {
    let mut query = LetterQuery::default();
    for (name, value) in asked {
        if value.len() > TEXT {
            return Err(format!(
                "{name} has {} bytes, more than {TEXT}",
                value.len()
            ));
        }
        match name.as_str() {
            "limit" => {
                query.limit = match value.parse() {
                    Ok(limit) if (1..=MAX_LETTERS).contains(&limit) => limit,
                    _ => return Err(format!("limit={value:?} is not from 1 to {MAX_LETTERS}")),
                };
            }
            // An empty field of a form asks for nothing.
            "before" | "stage" | "source" | "text" if value.is_empty() => {}
            "before" => query.before = Some(value),
            "stage" => query.stage = Some(value),
            "source" => query.source = Some(value),
            "text" => query.text = Some(value),
            _ => {
                return Err(format!(
                    "{name:?} is not known; dead letters take limit, before, stage, source and text"
                ));
            }
        }
    }
    Ok(query)
}

fn answered<T: Serialize>(answer: Result<Result<T, LettersRefused>, Response>) -> Response {
    match answer {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(refused)) => {
            let status = match refused {
                LettersRefused::Unknown { .. } => StatusCode::NOT_FOUND,
                LettersRefused::Cursor { .. } => StatusCode::BAD_REQUEST,
                LettersRefused::Unavailable(_) => StatusCode::CONFLICT,
                LettersRefused::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            failed(status, refused.to_string())
        }
        Err(response) => response,
    }
}
