//! Work on long bodies, off the threads that all connections share.

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::error::ApiError;
use crate::requests::Refused;

/// Shorter bodies are worked on where they are read: more would hold up others.
const SHORT: usize = 16 * 1024;

/// Long bodies that are worked on at once, by all clients together.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Works on a body, which counts among those that are held until the work is done: also where whoever sent it has gone
/// meanwhile. Waits for its turn until then.
pub(super) async fn aside<T: Send + 'static>(
    body: &Bytes,
    until: Instant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if body.len() < SHORT {
        return Ok(work());
    }
    let turn = timeout_at(until, TURNS.acquire()).await;
    let turn = turn.map_err(|_| ApiError::no_turn())?;
    let body = body.clone();
    let worked = tokio::task::spawn_blocking(move || {
        let _held = (turn, body);
        work()
    });
    // It panicked, or the program ends.
    worked
        .await
        .map_err(|_| ApiError::refused(&Refused::Closed))
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn long_bodies_are_worked_on_elsewhere_and_short_ones_here() {
        let here = thread::current().id();
        let until = Instant::now() + Duration::from_secs(60);
        for (length, elsewhere) in [(SHORT - 1, false), (SHORT, true)] {
            let body = Bytes::from(vec![b' '; length]);
            let worked = aside(&body, until, || thread::current().id()).await;
            assert_eq!(worked.unwrap() != here, elsewhere, "{length}");
        }
    }
}
