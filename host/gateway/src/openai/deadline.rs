//! How long a client waits.

use std::time::Duration;

use hyper::HeaderMap;

use super::error::ApiError;

/// Milliseconds.
const OURS: &str = "x-tidegate-deadline-ms";
/// Seconds: OpenAI's own clients say when they give up.
const THEIRS: &str = "x-stainless-timeout";

/// The time that a request may take, no longer than the route gives.
pub(crate) fn deadline(headers: &HeaderMap, most: Duration) -> Result<Duration, ApiError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let mut wanted = most;
    if headers.contains_key(OURS) {
        let value = text(OURS).unwrap_or_default();
        let Some(millis) = value.parse::<u64>().ok().filter(|millis| *millis > 0) else {
            let why = format!("The header {OURS} is {value:?}, must be milliseconds, at least 1");
            return Err(ApiError::invalid(OURS, "invalid_value", why));
        };
        wanted = wanted.min(Duration::from_millis(millis));
    }
    // Theirs is a courtesy: what it may look like is theirs to say.
    if let Some(seconds) = text(THEIRS).and_then(|value| value.parse::<f64>().ok())
        && seconds > 0.0
        && let Ok(theirs) = Duration::try_from_secs_f64(seconds)
    {
        wanted = wanted.min(theirs);
    }
    Ok(wanted)
}
