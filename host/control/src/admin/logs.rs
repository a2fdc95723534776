//! The admin API's requests about what operators say.

use std::collections::HashMap;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};

use super::routes::{Asking, call, failed};

pub(super) async fn slot(
    asking: Asking,
    Path(slot): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if let Some(other) = query.keys().find(|name| *name != "after") {
        return failed(
            StatusCode::BAD_REQUEST,
            format!("{other:?} is not known; a log takes after"),
        );
    }
    let Ok(after) = query.get("after").map_or(Ok(0), |after| after.parse()) else {
        return failed(StatusCode::BAD_REQUEST, "after is the number of a line");
    };
    let name = slot.clone();
    match call(asking, move |host| host.log(&name, after)).await {
        Ok(Some(log)) => Json(log).into_response(),
        Ok(None) => failed(StatusCode::NOT_FOUND, format!("there is no slot {slot:?}")),
        Err(response) => response,
    }
}
