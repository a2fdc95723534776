//! The connection to a collector.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::options::{Collector, OtlpError};
use crate::trouble::{Trouble, with_causes};

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);
/// Most bytes of the head of an answer, and of its body.
const MOST_HEAD: usize = 16 << 10;
const MOST_BODY: usize = 64 << 10;

/// Posts messages to one collector.
pub(crate) struct Post {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    collector: Collector,
}

impl Post {
    pub(crate) fn new(collector: Collector) -> Result<Post, OtlpError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(collector.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(collector.uri.scheme_str() == Some("https"))?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .http1_max_buf_size(MOST_HEAD)
            .build(connector);
        Ok(Post { client, collector })
    }

    /// Sends a message. What the collector says, once it has taken it.
    pub(crate) async fn send(&self, message: Bytes) -> Result<Bytes, Trouble> {
        match timeout(self.collector.timeout, self.exchange(message)).await {
            Ok(result) => result,
            Err(_) => {
                let limit = self.collector.timeout;
                Err(Trouble::passing(format!("no answer within {limit:?}")))
            }
        }
    }

    async fn exchange(&self, message: Bytes) -> Result<Bytes, Trouble> {
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.collector.uri.clone();
        let headers = request.headers_mut();
        headers.extend(self.collector.headers.clone());
        let agent = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        let response = self.client.request(request).await;
        let response = response.map_err(|error| Trouble::passing(with_causes(&error)))?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        let body = Limited::new(response.into_body(), MOST_BODY);
        let body = body.collect().await;
        if status.is_success() {
            // It has taken the message, whatever else it wanted to say.
            return Ok(body.map_or_else(|_| Bytes::new(), |body| body.to_bytes()));
        }
        let passes = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        Err(Trouble {
            why: format!("it answers {status}"),
            passes,
            after: after.map(Duration::from_secs),
        })
    }
}

/// TLS with the system's roots; without https nobody has to be trusted.
fn tls(https: bool) -> Result<ClientConfig, OtlpError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OtlpError::Tls(error.to_string()))?;
    let builder = match https {
        true => builder
            .with_native_roots()
            .map_err(|error| OtlpError::Tls(error.to_string()))?,
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}
