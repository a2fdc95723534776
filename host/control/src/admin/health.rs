//! The admin API's requests about health: with the token why, without it only whether.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};
use serde_json::json;

use super::routes::Shared;

/// What may be asked without the token.
pub(super) const OPEN: [&str; 2] = ["/healthz/live", "/healthz/ready"];

pub(super) async fn live(State(shared): State<Arc<Shared>>) -> Response {
    said(shared.host.health().live)
}

pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    said(shared.host.health().ready)
}

pub(super) async fn report(State(shared): State<Arc<Shared>>) -> Response {
    Json(shared.host.health()).into_response()
}

pub(super) fn said(well: bool) -> Response {
    let (status, word) = match well {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    (status, Json(json!({ "status": word }))).into_response()
}
