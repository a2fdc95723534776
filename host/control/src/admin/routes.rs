//! The requests of the admin API.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{
    DefaultBodyLimit, FromRequest as _, FromRequestParts, Path, Query, Request, State,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::keys::{ByKey, Keys};
use super::live::{self, Live};
use super::page;
use super::playground::{self, Places};
use super::{CONFIG_BYTES, HEAD, MAX_COMPONENT, MAX_CONFIG};
use crate::api::{DeployRefused, DeployRequest, Host, StatusReport};
use crate::metrics_token::{Unread, read_metrics_token};
use crate::token::same;

/// For the body of a request.
const BODY: Duration = Duration::from_secs(60);
/// Where metrics are.
pub(super) const METRICS: &str = "/metrics";
/// Calls of the host at once for those who may change it; more wait for a place as long as for a head.
const CALLS: usize = 32;
/// The same for all who can only look, half of them at most for one key.
const LOOKS: usize = 8;
/// Longest label, characters.
const LABEL: usize = 200;

pub(super) struct Shared {
    pub(super) host: Arc<dyn Host>,
    pub(super) live: Live,
    pub(super) playground: Places,
    /// Whether whoever asks can change nothing.
    read_only: bool,
    /// One component is taken at a time: each may be large.
    uploads: Semaphore,
    /// For calls that may block.
    calls: Arc<Semaphore>,
    most_calls: usize,
    /// Of those, the ones of each key of another server.
    keys: Keys,
}

/// Who asks something of the host that may block: all who know the token are one, and each key of another server is one.
pub(super) struct Asking {
    shared: Arc<Shared>,
    by_key: Option<ByKey>,
}

impl From<Arc<Shared>> for Asking {
    fn from(shared: Arc<Shared>) -> Asking {
        Asking {
            shared,
            by_key: None,
        }
    }
}

impl FromRequestParts<Arc<Shared>> for Asking {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<Shared>,
    ) -> Result<Asking, Self::Rejection> {
        Ok(Asking {
            shared: Arc::clone(shared),
            by_key: parts.extensions.get().cloned(),
        })
    }
}

/// A status, and what whoever asks for it may do.
#[derive(Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    report: StatusReport,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
}

impl Shared {
    pub(super) fn new(host: Arc<dyn Host>, read_only: bool) -> Shared {
        let most_calls = if read_only { LOOKS } else { CALLS };
        Shared {
            host,
            live: Live::new(),
            playground: Places::new(),
            read_only,
            uploads: Semaphore::new(1),
            calls: Arc::new(Semaphore::new(most_calls)),
            most_calls,
            keys: Keys::of(most_calls),
        }
    }

    /// How the host stands. May block.
    pub(super) fn shown(&self) -> Shown {
        Shown {
            report: self.host.status(),
            read_only: self.read_only,
        }
    }
}

/// Who may ask.
struct Door {
    /// `Bearer ` and the token.
    authorization: Vec<u8>,
    /// The file with the token of those who scrape metrics, if they have one.
    metrics_token: Option<PathBuf>,
    /// What a `Host` header may say.
    names: Vec<String>,
}

pub(super) fn router(
    address: SocketAddr,
    token: &str,
    metrics_token: Option<PathBuf>,
    host: Arc<dyn Host>,
) -> Router {
    let port = address.port();
    let shared = Arc::new(Shared::new(host, false));
    let door = Arc::new(Door {
        authorization: format!("Bearer {token}").into_bytes(),
        metrics_token,
        names: vec![
            address.to_string(),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
            format!("localhost:{port}"),
        ],
    });
    Router::new()
        .route("/healthz/live", get(super::health::live))
        .route("/healthz/ready", get(super::health::ready))
        .route("/v1/health", get(super::health::report))
        .route("/v1/status", get(status))
        .route("/v1/slots/{slot}", post(deploy))
        .route("/v1/models", get(super::models::list))
        .route(
            "/v1/models/{model}",
            post(super::models::load).delete(super::models::unload),
        )
        .route("/v1/dead-letters", get(super::letters::list))
        .route("/v1/dead-letters/send", post(super::letters::send))
        .route("/v1/dead-letters/{*id}", get(super::letters::one))
        .route("/v1/live", get(live::follow))
        .route("/v1/playground/model", post(playground::model))
        .route("/v1/playground/record", post(playground::record))
        .route("/v1/slots/{slot}/logs", get(super::logs::slot))
        .route(METRICS, get(metrics))
        .merge(page::router())
        .fallback(async |request: Request| {
            let (method, path) = (request.method(), request.uri().path());
            failed(
                StatusCode::NOT_FOUND,
                format!(
                    "there is no {method} {path}; GET /healthz/live, GET /healthz/ready, GET /v1/health, GET /v1/status, GET /v1/models, GET /v1/dead-letters, \
                     GET /v1/dead-letters/ID, GET /v1/live, GET /v1/slots/SLOT/logs, GET /metrics, POST /v1/dead-letters/send, POST /v1/playground/model, \
                     POST /v1/playground/record, POST /v1/slots/SLOT, POST /v1/models/MODEL, DELETE /v1/models/MODEL"
                ),
            )
        })
        .method_not_allowed_fallback(async |request: Request| {
            let (method, path) = (request.method(), request.uri().path());
            failed(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("{path} does not take {method}"),
            )
        })
        .layer(DefaultBodyLimit::max(MAX_COMPONENT + MAX_CONFIG))
        .layer(from_fn_with_state(door, admit))
        .with_state(shared)
}

/// Whether somebody asks with this path only how the host is.
pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz/live" | "/healthz/ready" | "/v1/health")
}

pub(super) fn failed(status: StatusCode, error: impl Into<String>) -> Response {
    (status, Json(json!({ "error": error.into() }))).into_response()
}

/// Lets a request in if it means this server and knows the token.
async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let host = one(request.headers(), header::HOST);
    let meant = host.as_ref().is_some_and(|host| {
        door.names
            .iter()
            .any(|name| host.as_bytes().eq_ignore_ascii_case(name.as_bytes()))
    });
    if !meant {
        return failed(
            StatusCode::FORBIDDEN,
            format!("the Host header must be {}", door.names[0]),
        );
    }
    if page::is_page(request.uri().path()) {
        return next.run(request).await;
    }
    let given = one(request.headers(), header::AUTHORIZATION);
    let known = match given {
        Some(given) if same(given.as_bytes(), &door.authorization) => true,
        Some(given) if request.uri().path() == METRICS => match door.metrics_token.clone() {
            Some(token) => may_scrape(token, given.as_bytes().to_vec()).await,
            None => false,
        },
        _ => false,
    };
    if !known && !super::health::OPEN.contains(&request.uri().path()) {
        let mut response = failed(
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong; it is in admin.json of the state directory",
        );
        response.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            header::HeaderValue::from_static("Bearer"),
        );
        return response;
    }
    next.run(request).await
}

/// The value of a header that is there once.
pub(super) fn one(headers: &HeaderMap, name: header::HeaderName) -> Option<header::HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().cloned().filter(|_| values.next().is_none())
}

/// What is wrong with the file of this process's metrics token, as it was said last.
static UNREAD: Unread = Unread::new();

/// Whether this is the token of those who scrape metrics, as its file has it now. A file that cannot be read lets nobody
/// in.
pub(super) async fn may_scrape(path: PathBuf, given: Vec<u8>) -> bool {
    let compared = tokio::task::spawn_blocking(move || {
        let read = read_metrics_token(&path);
        if let Some(why) = UNREAD.news(read.as_ref().err()) {
            tracing::warn!("nobody can scrape metrics: {why}");
        }
        read.is_ok_and(|token| same(&given, format!("Bearer {token}").as_bytes()))
    });
    compared.await.unwrap_or(false)
}

/// Runs a call that may block on a thread that may. Its place is its own until it ends: whoever asked may be gone long
/// before.
pub(super) async fn call<T: Send + 'static>(
    asking: impl Into<Asking>,
    call: impl FnOnce(&dyn Host) -> T + Send + 'static,
) -> Result<T, Response> {
    blocking(asking.into(), move |shared| call(&*shared.host)).await
}

async fn blocking<T: Send + 'static>(
    asking: Asking,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, Response> {
    let Asking { shared, by_key } = asking;
    let by = Instant::now() + HEAD;
    let full = |most: usize, whose: &str| {
        let why = format!("{most} requests are under way{whose}, the most there may be; try again");
        failed(StatusCode::SERVICE_UNAVAILABLE, why)
    };
    // The key's own first: one that waits for it keeps nobody else from the places of all.
    let of_key = match &by_key {
        Some(key) => match timeout_at(by, shared.keys.places(key).acquire_owned()).await {
            Ok(Ok(place)) => Some(place),
            _ => return Err(full(shared.keys.of_one(), " with this key")),
        },
        None => None,
    };
    let place = timeout_at(by, shared.calls.clone().acquire_owned()).await;
    let Ok(Ok(place)) = place else {
        return Err(full(shared.most_calls, ""));
    };
    let working = tokio::task::spawn_blocking(move || {
        let _places = (place, of_key);
        work(&shared)
    });
    working.await.map_err(|_| {
        failed(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the host failed at this; see its log",
        )
    })
}

pub(super) async fn status(asking: Asking) -> Response {
    match blocking(asking, Shared::shown).await {
        Ok(shown) => Json(shown).into_response(),
        Err(response) => response,
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match call(shared, |host| host.metrics()).await {
        Ok(text) => exposed(text),
        Err(response) => response,
    }
}

/// Metrics, as Prometheus reads them.
pub(super) fn exposed(text: Option<String>) -> Response {
    match text {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => failed(StatusCode::NOT_FOUND, "this host has no metrics"),
    }
}

async fn deploy(
    State(shared): State<Arc<Shared>>,
    Path(slot): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    let known = |name: &String| name == "label" || name == CONFIG_BYTES;
    if let Some(other) = query.keys().find(|name| !known(name)) {
        return failed(
            StatusCode::BAD_REQUEST,
            format!("{other:?} is not known; a deployment takes label and {CONFIG_BYTES}"),
        );
    }
    let config = match query.get(CONFIG_BYTES).map(|bytes| bytes.parse::<usize>()) {
        None => None,
        Some(Ok(bytes)) if bytes <= MAX_CONFIG => Some(bytes),
        Some(_) => {
            return failed(
                StatusCode::BAD_REQUEST,
                format!("{CONFIG_BYTES} is a number of bytes, at most {MAX_CONFIG}"),
            );
        }
    };
    let label = query.get("label").cloned().unwrap_or_default();
    if label.chars().count() > LABEL || label.chars().any(char::is_control) {
        return failed(
            StatusCode::BAD_REQUEST,
            format!("a label is one line of at most {LABEL} characters"),
        );
    }
    let Ok(_place) = shared.uploads.try_acquire() else {
        return failed(
            StatusCode::CONFLICT,
            "another deployment is under way; try again when it has ended",
        );
    };
    let too_large = || {
        failed(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the component exceeds {} MiB", MAX_COMPONENT >> 20),
        )
    };
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let most = MAX_COMPONENT + config.unwrap_or(0);
    if announced.is_some_and(|bytes| bytes > most as u64) {
        return too_large();
    }
    let body = match timeout(BODY, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) if body.is_empty() => {
            return failed(
                StatusCode::UNPROCESSABLE_ENTITY,
                "the component is empty: send its bytes as the body",
            );
        }
        Ok(Ok(body)) if body.len() > most => return too_large(),
        Ok(Ok(body)) => body,
        Ok(Err(refused)) if refused.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return too_large();
        }
        Ok(Err(refused)) => return failed(refused.status(), refused.body_text()),
        Err(_) => {
            return failed(
                StatusCode::REQUEST_TIMEOUT,
                format!("the component did not come within {} s", BODY.as_secs()),
            );
        }
    };
    let deployment = match deployment(body, config, label) {
        Ok(deployment) => deployment,
        Err(why) => return failed(StatusCode::UNPROCESSABLE_ENTITY, why),
    };
    let deployed = call(shared.clone(), move |host| host.deploy(&slot, deployment));
    match deployed.await {
        Ok(Ok(report)) => Json(report).into_response(),
        Ok(Err(refused)) => {
            let status = match refused {
                DeployRefused::UnknownSlot { .. } => StatusCode::NOT_FOUND,
                DeployRefused::UnderWay { .. } => StatusCode::CONFLICT,
                DeployRefused::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
                DeployRefused::Starting | DeployRefused::Ending => StatusCode::SERVICE_UNAVAILABLE,
            };
            failed(status, refused.to_string())
        }
        Err(response) => response,
    }
}

/// The body of a deployment: the configuration, of so many bytes, then the component; either may be missing.
fn deployment(body: Bytes, config: Option<usize>, label: String) -> Result<DeployRequest, String> {
    let (config, component) = match config {
        None => (None, &body[..]),
        Some(bytes) => {
            let (config, component) = body.split_at_checked(bytes).ok_or_else(|| {
                format!(
                    "the body has {} bytes, and {CONFIG_BYTES} is {bytes}",
                    body.len()
                )
            })?;
            (Some(object(config)?), component)
        }
    };
    Ok(DeployRequest {
        component: (!component.is_empty()).then(|| component.to_vec()),
        config,
        label,
    })
}

/// A configuration, written as the host writes that of a pipeline file, so that the same one is the same text.
fn object(config: &[u8]) -> Result<String, String> {
    let config: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(config)
        .map_err(|error| format!("the configuration is not a JSON object: {error}"))?;
    Ok(serde_json::Value::Object(config).to_string())
}
