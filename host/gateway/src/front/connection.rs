//! One connection, from its first byte to its last.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::time::Instant;

use super::refused::Refused;
use super::service::{Service, serve};
use super::wire::{Bounds, Shared, Verdict, Wire};
use crate::exchange::Duplex;

/// How long a client that was refused may go on sending, so that it reads the refusal and not a reset.
const LINGER: Duration = Duration::from_secs(2);
/// And no more than this is read for that.
const LINGER_BYTES: usize = 16 << 20;

/// Answers requests until the connection ends.
pub(super) async fn attend(
    stream: Box<dyn Duplex>,
    peer: IpAddr,
    service: Arc<Service>,
    bounds: Bounds,
    stop: watch::Receiver<bool>,
) {
    let shared = Shared::new(Wire::new(stream, bounds));
    let refused = service.refused.clone();
    answer(&shared, peer, service, bounds, stop).await;
    let takeover = shared.wire().take_takeover();
    if let Some((upgrade, takeover)) = takeover {
        // It is there as soon as hyper has let go; it never comes where the client did not ask for another protocol.
        if let Ok(connection) = upgrade.await {
            let mut spoken = takeover.speak(Box::new(TokioIo::new(connection)));
            watched(&shared, bounds, &refused, |cx| spoken.as_mut().poll(cx)).await;
        }
    } else if shared.wire().wants_linger() {
        let until = Instant::now() + LINGER;
        let mut most = LINGER_BYTES;
        let discarded = poll_fn(|cx| shared.wire().poll_discard(cx, &mut most));
        let _ = tokio::time::timeout_at(until, discarded).await;
    }
}

/// Answers by hyper until it lets go of the connection.
async fn answer(
    shared: &Shared,
    peer: IpAddr,
    service: Arc<Service>,
    bounds: Bounds,
    mut stop: watch::Receiver<bool>,
) {
    let (of_requests, refused) = (shared.clone(), service.refused.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The wire has its own clocks for heads. This one is behind them, should they ever fail.
        .header_read_timeout(bounds.idle + bounds.head_time * 2)
        .max_buf_size(bounds.head.max(8 << 10) + (16 << 10))
        .half_close(false)
        .serve_connection(
            shared.clone(),
            service_fn(move |request| serve(service.clone(), of_requests.clone(), peer, request)),
        )
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut stopping = pin!(async {
        // A sender that is gone says the same.
        let _ = stop.wait_for(|stop| *stop).await;
    });
    let mut stopped = false;
    watched(shared, bounds, &refused, |cx| {
        if !stopped && stopping.as_mut().poll(cx).is_ready() {
            stopped = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx).map(|ended| {
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "a connection ended");
            }
        })
    })
    .await;
}

/// Polls until it is done, or until the wire says that the connection is to end.
async fn watched(
    shared: &Shared,
    bounds: Bounds,
    refused: &Refused,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>,
) {
    let mut clock = pin!(tokio::time::sleep(bounds.idle));
    poll_fn(|cx| {
        if poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match shared.wire().attend(cx) {
            Verdict::Cut(reason) => {
                if let Some(reason) = reason {
                    refused.count(reason);
                }
                return Poll::Ready(());
            }
            Verdict::Again => cx.waker().wake_by_ref(),
            Verdict::Wait(None) => {}
            Verdict::Wait(Some(until)) => {
                if clock.deadline() != until {
                    clock.as_mut().reset(until);
                }
                if clock.as_mut().poll(cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
            }
        }
        Poll::Pending
    })
    .await;
}
