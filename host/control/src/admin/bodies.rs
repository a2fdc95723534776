//! The short bodies of requests.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::timeout;

use super::routes::failed;

/// For the body of a request.
const BODY: Duration = Duration::from_secs(10);

/// The body of a request, of so many bytes at most.
pub(super) async fn read(request: Request, longest: usize) -> Result<Bytes, Response> {
    match timeout(BODY, to_bytes(request.into_body(), longest)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(failed(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body exceeds {} KiB", longest >> 10),
        )),
        Err(_) => Err(failed(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not come within {} s", BODY.as_secs()),
        )),
    }
}
