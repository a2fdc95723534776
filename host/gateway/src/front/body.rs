//! The body of an answer, as hyper asks for it.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};

use super::endpoints::Endpoints;
use super::timing::Timing;
use super::wire::Shared;
use crate::access::UnderWay;
use crate::exchange::{Part, Streamed};

/// An event stream says this while it has nothing to say.
const ALIVE: &[u8] = b": alive\n\n";

/// An answer that is made or sent. When it is over, the wire goes on to the next request, and those who ask whether the
/// client is there hear that it has gone.
pub(super) struct InFlight {
    pub(super) wire: Shared,
    pub(super) _there: watch::Sender<bool>,
    /// Its place among those of its key, until it is over.
    pub(super) under_way: Option<UnderWay>,
    /// How long it takes, if somebody wants to know.
    pub(super) timing: Option<Timing>,
}

impl InFlight {
    fn begins(&mut self) {
        if let Some(timing) = &mut self.timing {
            timing.begins();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.wire.wire().answered();
    }
}

/// A body, and what ends with it.
pub(super) struct Sent {
    kind: Kind,
    in_flight: InFlight,
}

enum Kind {
    /// Bytes that are sent at once; none when they have been.
    Whole(Option<Bytes>),
    Events(Events),
    Streamed {
        body: Streamed,
        breaks: Breaks,
        broken: bool,
    },
}

struct Events {
    parts: mpsc::UnboundedReceiver<Part>,
    breaks: Breaks,
    state: State,
    every: Duration,
    quiet: Pin<Box<Sleep>>,
}

/// Who is told when a stream breaks, and of which path.
pub(super) struct Breaks {
    pub(super) endpoints: Arc<dyn Endpoints>,
    pub(super) path: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    /// The last bytes were handed over.
    Ended,
    /// So were those of a broken body. The wire ends the connection.
    Broken,
}

impl Sent {
    pub(super) fn whole(bytes: Bytes, mut in_flight: InFlight) -> Sent {
        // It goes out with the head; one that is empty, or that answers HEAD, is never asked for.
        in_flight.begins();
        Sent {
            kind: Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            in_flight,
        }
    }

    pub(super) fn events(
        parts: mpsc::UnboundedReceiver<Part>,
        breaks: Breaks,
        every: Duration,
        in_flight: InFlight,
    ) -> Sent {
        let quiet = Box::pin(tokio::time::sleep(every));
        Sent {
            kind: Kind::Events(Events {
                parts,
                breaks,
                state: State::Going,
                every,
                quiet,
            }),
            in_flight,
        }
    }

    pub(super) fn streamed(body: Streamed, breaks: Breaks, in_flight: InFlight) -> Sent {
        let broken = false;
        Sent {
            kind: Kind::Streamed {
                body,
                breaks,
                broken,
            },
            in_flight,
        }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let sent = &mut *self;
        let events = match &mut sent.kind {
            Kind::Whole(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Kind::Events(events) => events,
            Kind::Streamed { broken: true, .. } => return Poll::Pending,
            Kind::Streamed {
                body,
                breaks,
                broken,
            } => {
                let frame = std::task::ready!(body.0.as_mut().poll_frame(cx));
                sent.in_flight.begins();
                return match frame.transpose() {
                    Ok(frame) => Poll::Ready(frame.map(Ok)),
                    Err(error) => {
                        tracing::warn!(path = breaks.path, %error, "an answer has broken");
                        *broken = true;
                        breaks.endpoints.broke(&breaks.path);
                        sent.in_flight.wire.wire().break_off();
                        Poll::Pending
                    }
                };
            }
        };
        match events.state {
            State::Going => {}
            State::Ended => return Poll::Ready(None),
            State::Broken => return Poll::Pending,
        }
        let bytes = match events.parts.poll_recv(cx) {
            Poll::Ready(Some(Part::Bytes(bytes))) if bytes.is_empty() => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Some(Part::Bytes(bytes))) => {
                sent.in_flight.begins();
                bytes
            }
            Poll::Ready(Some(Part::Last(bytes))) => {
                sent.in_flight.begins();
                events.state = State::Ended;
                bytes
            }
            Poll::Ready(broken) => {
                events.state = State::Broken;
                events.breaks.endpoints.broke(&events.breaks.path);
                sent.in_flight.wire.wire().break_off();
                match broken {
                    Some(Part::Broken(bytes)) if !bytes.is_empty() => bytes,
                    _ => return Poll::Pending,
                }
            }
            Poll::Pending => {
                std::task::ready!(events.quiet.as_mut().poll(cx));
                Bytes::from_static(ALIVE)
            }
        };
        events.quiet.as_mut().reset(Instant::now() + events.every);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Events(events) => events.state == State::Ended,
            Kind::Streamed { body, .. } => body.0.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Events(_) => SizeHint::default(),
            Kind::Streamed { body, .. } => body.0.size_hint(),
        }
    }
}
