//! A listener for those who watch from elsewhere: probes, and whoever scrapes metrics. Nothing else is reachable there.
//!
//! It may listen beyond loopback, without TLS. Whether the host is well is told to anybody, metrics to who has their token
//! if there is one. No body is read, one request is answered a connection, and each has a limit of size and of time.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tracing::info;

use super::connections::Connections;
use super::health::said;
use super::routes::{METRICS, exposed, failed, may_scrape, one};
use super::{AdminError, accept};
use crate::api::Host;

/// Requests at once; more wait for a place as long as for a head.
const REQUESTS: usize = 8;
/// Connections at once whose request has not come; one more closes the oldest of them.
const SILENT: usize = 64;
/// For a whole connection.
const CONNECTION: Duration = Duration::from_secs(30);

/// A listener for those who watch. It stops when it is dropped.
#[derive(Debug)]
pub struct WatchServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

struct Watched {
    host: Arc<dyn Host>,
    metrics_token: Option<PathBuf>,
}

impl WatchServer {
    /// Listens. Metrics need the token in `metrics_token`, if that is there.
    pub fn start(
        address: SocketAddr,
        metrics_token: Option<&Path>,
        host: Arc<dyn Host>,
    ) -> Result<WatchServer, AdminError> {
        let listen = |why| AdminError::Watch { address, why };
        let listener = StdListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let real = listener.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tidegate-watched")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| AdminError::System(error.to_string()))?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener).map_err(listen)?
        };
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Connections::new(REQUESTS, SILENT, CONNECTION));
        let service = router(Arc::new(Watched {
            host,
            metrics_token: metrics_token.map(Path::to_owned),
        }));
        runtime.spawn(accept(listener, service, connections, stopped));
        info!(address = %real, "metrics and health are told to whoever asks there");
        Ok(WatchServer {
            address: real,
            stop,
            runtime: Some(runtime),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WatchServer {
    fn drop(&mut self) {
        // Nobody listens any more only if the accepting task has ended already.
        let _ = self.stop.send(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
    }
}

fn router(watched: Arc<Watched>) -> Router {
    Router::new()
        .route("/healthz/live", get(live))
        .route("/healthz/ready", get(ready))
        .route(METRICS, get(metrics))
        .fallback(async || {
            failed(
                StatusCode::NOT_FOUND,
                "there is GET /metrics, GET /healthz/live and GET /healthz/ready",
            )
        })
        .with_state(watched)
}

async fn live(State(watched): State<Arc<Watched>>) -> Response {
    said(watched.host.health().live)
}

async fn ready(State(watched): State<Arc<Watched>>) -> Response {
    said(watched.host.health().ready)
}

async fn metrics(State(watched): State<Arc<Watched>>, request: Request) -> Response {
    if let Some(token) = &watched.metrics_token {
        let given = one(request.headers(), header::AUTHORIZATION);
        let known = match given {
            Some(given) => may_scrape(token.clone(), given.as_bytes().to_vec()).await,
            None => false,
        };
        if !known {
            let bearer = [(header::WWW_AUTHENTICATE, "Bearer")];
            let why = failed(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
            return (bearer, why).into_response();
        }
    }
    let host = watched.host.clone();
    match tokio::task::spawn_blocking(move || host.metrics()).await {
        Ok(text) => exposed(text),
        Err(_) => failed(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the host failed at this; see its log",
        ),
    }
}
