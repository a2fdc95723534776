//! Which pages of which sites may read outputs in a browser.

use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderName, HeaderValue, ORIGIN, VARY};
use hyper::{HeaderMap, StatusCode};

use crate::ingest::Refusal;

/// Refuses a page of a site that is not among these. Who sends no origin is no page. Returns what the browser is told.
pub(super) fn check(
    headers: &HeaderMap,
    allowed: &[String],
) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    let mut told = vec![(VARY, HeaderValue::from_static("Origin"))];
    for origin in headers.get_all(ORIGIN) {
        let known = allowed
            .iter()
            .any(|allowed| allowed == "*" || allowed.as_bytes() == origin.as_bytes());
        if !known {
            let message = format!("origin {origin:?} may not read outputs");
            let refusal = Refusal::new(StatusCode::FORBIDDEN, "origin_not_allowed", message);
            return Err(refusal.of("Origin"));
        }
        told.push((ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()));
    }
    Ok(told)
}
