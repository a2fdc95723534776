//! `GET /v1/live`: how the host stands, once a second, as server-sent events.
//!
//! The first event is `state`, a whole status; each `change` behind it says what differs. They are made once for all who
//! look, and not at all when nobody does. Who reads too slowly is let go of, and comes again; so does everybody after the last
//! event, `again`, which comes before the connection has lasted as long as it may.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};
use tracing::warn;

use super::CONNECTION;
use super::changes::changes;
use super::keys::{ByKey, Keys};
use super::routes::{Shared, failed};

/// Most who look at once.
const VIEWERS: usize = 16;
/// Events that wait for one who looks.
const EVENTS: usize = 8;
const EVERY: Duration = Duration::from_secs(1);
/// One who looks is told to come again so long before its connection would be ended.
const BEFORE: Duration = Duration::from_secs(30);

/// On a response that goes on for as long as somebody looks: it takes up none of the places of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following;

/// Those who look.
pub(super) struct Live {
    places: Arc<Semaphore>,
    keys: Keys,
    looking: Mutex<Looking>,
}

#[derive(Default)]
struct Looking {
    /// The status that all of them have; none before the first.
    latest: Option<Value>,
    viewers: Vec<mpsc::Sender<Bytes>>,
    /// Whether somebody looks after them.
    is_fed: bool,
    /// Whether nobody looks any more.
    is_closed: bool,
}

impl Live {
    pub(super) fn new() -> Live {
        Live {
            places: Arc::new(Semaphore::new(VIEWERS)),
            keys: Keys::of(VIEWERS),
            looking: Mutex::default(),
        }
    }

    /// Lets go of all who look; they may come again.
    fn begin_anew(&self) {
        let mut looking = self.lock();
        *looking = Looking {
            is_closed: looking.is_closed,
            ..Looking::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, Looking> {
        // Each change is whole before anything can panic.
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of all who look, and takes no more.
    pub(super) fn close(&self) {
        *self.lock() = Looking {
            is_closed: true,
            ..Looking::default()
        };
    }

    /// The host stands so now: tells all who look, and says whether anybody still does.
    fn tell(&self, report: Value) -> bool {
        let mut looking = self.lock();
        let event = match &looking.latest {
            None => Some(event("state", &report)),
            Some(latest) => changes(latest, &report).map(|change| event("change", &change)),
        };
        if let Some(event) = event {
            looking
                .viewers
                .retain(|viewer| viewer.try_send(event.clone()).is_ok());
            looking.latest = Some(report);
        } else {
            looking.viewers.retain(|viewer| !viewer.is_closed());
        }
        looking.is_fed = !looking.viewers.is_empty();
        if !looking.is_fed {
            looking.latest = None;
        }
        looking.is_fed
    }
}

fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

pub(super) async fn follow(
    State(shared): State<Arc<Shared>>,
    by_key: Option<Extension<ByKey>>,
) -> Response {
    let live = &shared.live;
    let of_key = by_key.map(|Extension(key)| live.keys.place(&key));
    let of_key = match of_key {
        Some(None) => {
            return failed(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "{} look already with this key, the most there may be; try again",
                    live.keys.of_one()
                ),
            );
        }
        of_key => of_key.flatten(),
    };
    let Ok(place) = live.places.clone().try_acquire_owned() else {
        return failed(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{VIEWERS} look already, the most there may be; try again"),
        );
    };
    let (sender, events) = mpsc::channel(EVENTS);
    let must_feed = {
        let mut looking = live.lock();
        if looking.is_closed {
            return failed(
                StatusCode::SERVICE_UNAVAILABLE,
                "the host is ending; try again when it is there",
            );
        }
        if let Some(latest) = &looking.latest {
            // It is empty: there is room.
            let _ = sender.try_send(event("state", latest));
        }
        looking.viewers.push(sender);
        !std::mem::replace(&mut looking.is_fed, true)
    };
    if must_feed {
        tokio::spawn(feed(shared.clone()));
    }
    let events = Events {
        events,
        again: Box::pin(sleep(CONNECTION.saturating_sub(BEFORE))),
        ended: false,
        _place: place,
        _of_key: of_key,
    };
    // A proxy before it passes each event on when it comes.
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    let mut response = (headers, Body::new(events)).into_response();
    response.extensions_mut().insert(Following);
    response
}

/// Looks after those who look, until nobody does.
async fn feed(shared: Arc<Shared>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let from = shared.clone();
        let report = tokio::task::spawn_blocking(move || serde_json::to_value(from.shown())).await;
        let goes_on = match report {
            Ok(Ok(report)) => shared.live.tell(report),
            // A panic, which is in the log. Those who look come again.
            failure => {
                warn!(?failure, "the host does not say how it stands");
                shared.live.begin_anew();
                false
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// What one who looks is sent.
struct Events {
    events: mpsc::Receiver<Bytes>,
    /// When the last event is due.
    again: Pin<Box<Sleep>>,
    ended: bool,
    _place: OwnedSemaphorePermit,
    _of_key: Option<OwnedSemaphorePermit>,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.again.as_mut().poll(context).is_ready() {
            self.ended = true;
            let last = event("again", &Value::Null);
            return Poll::Ready(Some(Ok(Frame::data(last))));
        }
        let event = self.events.poll_recv(context);
        event.map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
