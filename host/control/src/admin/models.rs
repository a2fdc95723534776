//! The admin API's requests about models.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};
use serde::Deserialize;

use super::bodies;
use super::routes::{Shared, call, failed};
use crate::models::{ModelRefused, ModelReport};

/// Longest body, bytes: a path.
const LONGEST: usize = 16 << 10;

/// What a model is loaded from.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadRequest {
    path: Option<PathBuf>,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    match call(shared, |host| host.models()).await {
        Ok(models) => Json(models).into_response(),
        Err(response) => response,
    }
}

pub(super) async fn load(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let body = match bodies::read(request, LONGEST).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let load = match understood(&body) {
        Ok(load) => load,
        Err(why) => return failed(StatusCode::BAD_REQUEST, why),
    };
    let loaded = call(shared, move |host| {
        host.load_model(&name, load.path.as_deref())
    });
    answered(loaded.await)
}

pub(super) async fn unload(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Response {
    answered(call(shared, move |host| host.unload_model(&name)).await)
}

/// An empty body says nothing: the model is loaded from where the pipeline file says.
fn understood(body: &Bytes) -> Result<LoadRequest, String> {
    if body.is_empty() {
        return Ok(LoadRequest::default());
    }
    let load: LoadRequest = serde_json::from_slice(body).map_err(|error| {
        format!("the body is not {{\"path\": \"/models/new\"}}, or empty: {error}")
    })?;
    match &load.path {
        Some(path) if !path.is_absolute() => {
            Err(format!("{:?} is not an absolute path", path.display()))
        }
        _ => Ok(load),
    }
}

fn answered(answer: Result<Result<ModelReport, ModelRefused>, Response>) -> Response {
    match answer {
        Ok(Ok(report)) => Json(report).into_response(),
        Ok(Err(refused)) => {
            let status = match refused {
                ModelRefused::Unknown { .. } => StatusCode::NOT_FOUND,
                ModelRefused::UnderWay { .. } => StatusCode::CONFLICT,
                ModelRefused::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
                ModelRefused::Starting | ModelRefused::Ending => StatusCode::SERVICE_UNAVAILABLE,
            };
            failed(status, refused.to_string())
        }
        Err(response) => response,
    }
}
