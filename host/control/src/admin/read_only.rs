//! The page, and what it asks, without anything that changes the host: for another server, which knows who may look.
//!
//! Nothing that changes something is hidden here: it is not there. What is there is bounded apart from the admin API, so
//! that whoever looks by the other server holds up nobody who looks by this one.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;

use super::keys::ByKey;
use super::routes::{Shared, failed, status};
use super::{letters, live, logs, page};
use crate::api::Host;

/// For the head of an answer: dead letters of a topic are asked of brokers.
const ANSWER: Duration = Duration::from_secs(60);

/// The page for those who can change nothing.
pub struct ReadOnlyPage {
    router: Router,
    shared: Arc<Shared>,
}

impl ReadOnlyPage {
    /// Of this host.
    pub fn new(host: Arc<dyn Host>) -> ReadOnlyPage {
        let shared = Arc::new(Shared::new(host, true));
        let router = Router::new()
            .route("/v1/status", get(status))
            .route("/v1/live", get(live::follow))
            .route("/v1/dead-letters", get(letters::list))
            .route("/v1/dead-letters/{*id}", get(letters::one))
            .route("/v1/slots/{slot}/logs", get(logs::slot))
            .merge(page::router())
            .fallback(async |request: Request| {
                let (method, path) = (request.method(), request.uri().path());
                failed(
                    StatusCode::NOT_FOUND,
                    format!("there is no {method} {path} for those who can only look"),
                )
            })
            .method_not_allowed_fallback(async |request: Request| {
                let (method, path) = (request.method(), request.uri().path());
                failed(
                    StatusCode::METHOD_NOT_ALLOWED,
                    format!("{path} does not take {method} from those who can only look"),
                )
            });
        ReadOnlyPage {
            router: router.with_state(shared.clone()),
            shared,
        }
    }

    /// Whether a path is one of the page's files, which hold nothing of the host.
    pub fn is_file(path: &str) -> bool {
        page::is_page(path)
    }

    /// Answers a request without a body for a path that begins with `/`, on a tokio runtime. It comes by the key of this
    /// name: no one of them keeps the others from looking.
    pub fn answer(
        &self,
        key: &str,
        method: Method,
        path: &str,
        query: Option<&str>,
    ) -> impl Future<Output = Response> + Send + use<> {
        let target = match query {
            None => path.to_owned(),
            Some(query) => format!("{path}?{query}"),
        };
        let router = self.router.clone();
        let by_key = ByKey(key.into());
        async move {
            let Ok(uri) = target.parse::<Uri>() else {
                return failed(StatusCode::BAD_REQUEST, "this is no address");
            };
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method;
            *request.uri_mut() = uri;
            request.extensions_mut().insert(by_key);
            let answer = TowerToHyperService::new(router).call(request);
            match timeout(ANSWER, answer).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => failed(
                    StatusCode::GATEWAY_TIMEOUT,
                    format!("there is no answer after {} s", ANSWER.as_secs()),
                ),
            }
        }
    }

    /// Lets go of all who look, and takes no more of them.
    pub fn close(&self) {
        self.shared.live.close();
    }
}
