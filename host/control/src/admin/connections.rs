//! The connections of the admin API: few with a request, some more that have not sent theirs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tracing::debug;

use super::live::Following;
use super::routes::{failed, is_probe};
use super::unread::Unread;
use super::{HEAD, UNREAD};

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Connections {
    /// A place for each request that is under way.
    requests: Arc<Semaphore>,
    most_requests: usize,
    most_silent: usize,
    /// For a whole connection.
    longest: Duration,
    silent: Mutex<Silent>,
}

/// Connections whose request has not come, by number: the first is the oldest.
#[derive(Debug, Default)]
struct Silent {
    next: u64,
    closing: BTreeMap<u64, Arc<Notify>>,
}

/// A connection that has been accepted.
pub(super) struct Connection {
    all: Arc<Connections>,
    number: u64,
    /// It is to be closed, because there are too many that are silent.
    closed: Arc<Notify>,
    /// Its request has come: it is not closed for room any more, even if it had been picked to be.
    has_come: AtomicBool,
    /// Its place once its request has come and there is room for it.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Connections {
    pub(super) fn new(most_requests: usize, most_silent: usize, longest: Duration) -> Connections {
        Connections {
            requests: Arc::new(Semaphore::new(most_requests)),
            most_requests,
            most_silent,
            longest,
            silent: Mutex::default(),
        }
    }

    fn silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection came. If there are too many that have said nothing, the oldest of them goes.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let closed = Arc::new(Notify::new());
        let mut silent = self.silent();
        let number = silent.next;
        silent.next += 1;
        silent.closing.insert(number, closed.clone());
        if silent.closing.len() > self.most_silent
            && let Some((_, oldest)) = silent.closing.pop_first()
        {
            oldest.notify_one();
        }
        drop(silent);
        Connection {
            all: self.clone(),
            number,
            closed,
            has_come: AtomicBool::new(false),
            place: Mutex::new(None),
        }
    }

    /// Returns when no request is under way.
    pub(super) async fn idle(&self) {
        let all = u32::try_from(self.most_requests).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.requests.acquire_many(all).await;
    }
}

impl Connection {
    /// Answers the one request of a connection.
    pub(super) async fn serve(
        self,
        stream: TcpStream,
        service: axum::Router,
        mut stopped: watch::Receiver<bool>,
    ) {
        let this = &self;
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .max_buf_size(64 << 10)
                .serve_connection(
                    TokioIo::new(Unread::new(stream, UNREAD)),
                    service_fn(|request| this.answer(request, service.clone())),
                )
        );
        let served = timeout(this.all.longest, async {
            tokio::select! {
                served = connection.as_mut() => return served,
                () = this.closed_for_room() => return Ok(()),
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            if !this.has_request() {
                return Ok(());
            }
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        });
        match served.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "admin connection ended early"),
            Err(_) => debug!("admin connection took too long"),
        }
    }

    /// Returns when it is closed because too many are silent, and it still is.
    async fn closed_for_room(&self) {
        self.closed.notified().await;
        if self.has_come.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }

    fn has_request(&self) -> bool {
        self.place
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Its request came: it is no longer one of those that may be closed for room.
    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        service: axum::Router,
    ) -> Result<Response, Infallible> {
        self.has_come.store(true, Ordering::Release);
        self.all.silent().closing.remove(&self.number);
        // Whoever asks whether the host is well is not kept waiting by those whom it serves.
        if is_probe(request.uri().path()) {
            return TowerToHyperService::new(service).call(request).await;
        }
        let place = self.all.requests.clone().acquire_owned();
        let Ok(Ok(place)) = timeout(HEAD, place).await else {
            return Ok(failed(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "{} requests are under way, the most there may be; try again",
                    self.all.most_requests
                ),
            ));
        };
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        let response = TowerToHyperService::new(service).call(request).await?;
        if response.extensions().get::<Following>().is_some() {
            // It goes on for long, and has a bound of its own.
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(response)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.silent().closing.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_connection_whose_request_comes_while_it_is_picked_to_be_closed_stays() {
        let all = Arc::new(Connections::new(1, 1, HEAD));
        let came = all.open();
        let silent = all.open();
        came.has_come.store(true, Ordering::Release);
        // Both are the oldest once: there is room for one that is silent.
        let third = all.open();
        let mut context = Context::from_waker(Waker::noop());
        let mut closed = |connection: &Connection| {
            matches!(
                pin!(connection.closed_for_room()).poll(&mut context),
                Poll::Ready(())
            )
        };
        assert!(!closed(&came));
        assert!(closed(&silent));
        assert!(!closed(&third));
    }
}
