//! Endpoints that do what a test wants.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ALLOW, CONNECTION, HeaderValue, UPGRADE};
use hyper::{Method, StatusCode};
use tidegate_gateway::access::{Access, Scope, UnderWay};
use tidegate_gateway::exchange::{Answered, Asked, Content, Part, Takeover};
use tidegate_gateway::front::{Endpoints, Front, FrontBounds, FrontOptions, Limits};
use tokio::sync::mpsc;

/// Most bytes of a body.
pub(crate) const BODY: u64 = 100_000;

/// `/echo` says what it was asked and takes no DELETE, `/keep` keeps its body, `/events` sends what the test sends, `/wait` answers never,
/// `/over` speaks another protocol, `/work` has work that goes on. The last four last; `/fed` is for those who may ingest.
#[derive(Default)]
pub(crate) struct Served {
    /// Parts of the next `/events`.
    pub(crate) events: Mutex<Option<mpsc::UnboundedReceiver<Part>>>,
    /// Told when `/wait` begins (true), and when its future is dropped or its client has gone (false).
    pub(crate) waits: Mutex<Option<mpsc::UnboundedSender<bool>>>,
    /// Bodies of `/keep`.
    pub(crate) kept: Mutex<Vec<Bytes>>,
    /// What goes on of `/work`.
    pub(crate) works: Mutex<Vec<UnderWay>>,
    /// Paths that came.
    pub(crate) seen: Mutex<Vec<String>>,
    /// Paths whose streams broke.
    pub(crate) broken: Mutex<Vec<String>>,
}

impl Endpoints for Served {
    fn answer(&self, asked: Asked) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        self.seen.lock().unwrap().push(asked.path.clone());
        let events = (asked.path == "/events")
            .then(|| self.events.lock().unwrap().take().expect("no events"));
        let waits = self.waits.lock().unwrap().clone();
        if asked.path == "/keep" {
            self.kept.lock().unwrap().push(asked.body.clone());
        }
        if asked.path == "/work" {
            self.works.lock().unwrap().extend(asked.under_way.clone());
        }
        Box::pin(async move {
            match asked.path.as_str() {
                "/events" => Answered {
                    status: StatusCode::OK,
                    headers: vec![],
                    content: Content::Events(events.unwrap()),
                },
                "/wait" => {
                    let waits = waits.unwrap();
                    waits.send(true).unwrap();
                    let _told = Told(waits);
                    let mut gone = asked.gone;
                    gone.wait().await;
                    whole(StatusCode::OK, String::new())
                }
                "/over" => {
                    let takeover = Takeover::new(|connection| async move {
                        let (mut read, mut write) = tokio::io::split(connection);
                        let _ = tokio::io::copy(&mut read, &mut write).await;
                    });
                    let headers = vec![
                        (CONNECTION, HeaderValue::from_static("upgrade")),
                        (UPGRADE, HeaderValue::from_static("mirror")),
                    ];
                    let content = Content::Upgraded(takeover);
                    Answered {
                        status: StatusCode::SWITCHING_PROTOCOLS,
                        headers,
                        content,
                    }
                }
                "/echo" if asked.method == Method::DELETE => {
                    let mut answer = whole(StatusCode::METHOD_NOT_ALLOWED, "{}".to_owned());
                    answer
                        .headers
                        .push((ALLOW, HeaderValue::from_static("GET, POST")));
                    answer
                }
                "/echo" | "/open" | "/keep" | "/fed" | "/work" => {
                    let said = serde_json::json!({
                        "id": asked.id,
                        "method": asked.method.as_str(),
                        "query": asked.query,
                        "length": asked.body.len(),
                        "who": &*asked.who.name,
                    });
                    whole(StatusCode::OK, said.to_string())
                }
                _ => whole(StatusCode::NOT_FOUND, "{}".to_owned()),
            }
        })
    }

    fn broke(&self, path: &str) {
        self.broken.lock().unwrap().push(path.to_owned());
    }

    fn limits(&self, method: &Method, path: &str) -> Limits {
        Limits {
            body: match *method {
                Method::POST if path == "/nothing" => None,
                Method::POST => Some(BODY),
                Method::DELETE => None,
                _ => Some(0),
            },
            open: path == "/open",
            scope: (path == "/fed").then_some(Scope::Ingest),
            lasts: ["/events", "/wait", "/over", "/work"].contains(&path),
            repeats: path == "/work",
        }
    }
}

struct Told(mpsc::UnboundedSender<bool>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(false);
    }
}

fn whole(status: StatusCode, bytes: String) -> Answered {
    let content = Content::Whole {
        media_type: "application/json",
        bytes: bytes.into(),
    };
    Answered {
        status,
        headers: vec![],
        content,
    }
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub(crate) fn options() -> FrontOptions {
    FrontOptions::new(loopback(), Arc::new(Access::anyone()))
}

/// A front with such options.
pub(crate) fn start(options: FrontOptions) -> (Front, Arc<Served>) {
    let served = Arc::new(Served::default());
    (Front::bind(options, served.clone()).unwrap(), served)
}

/// A front with other bounds.
pub(crate) fn bounded(change: impl FnOnce(&mut FrontBounds)) -> (Front, Arc<Served>) {
    let mut options = options();
    change(&mut options.bounds);
    start(options)
}

pub(crate) const SHORT: Duration = Duration::from_millis(150);
