//! The connections to a server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use tower_service::Service;

use super::options::{RemoteError, Roots};
use super::secret::Secret;
use super::trouble::Trouble;

/// How long a connection is kept that nobody uses: less than servers keep it.
const IDLE: Duration = Duration::from_secs(15);
/// Most bytes of the head of an answer.
const MOST_HEAD: usize = 64 << 10;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Asks servers, over connections that are kept for the next request.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Timed<HttpsConnector<HttpConnector>>, Full<Bytes>>,
    headers: HeaderMap,
}

/// The beginning of what a server says.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    pub bytes: Vec<u8>,
    /// There was more.
    pub is_cut: bool,
}

impl Http {
    pub(crate) fn new(
        https: bool,
        roots: &Roots,
        connect: Duration,
        kept: usize,
    ) -> Result<Http, RemoteError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(https, roots)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(kept)
            .http1_max_buf_size(MOST_HEAD)
            .build(Timed {
                connector,
                limit: connect,
            });
        Ok(Http {
            client,
            headers: HeaderMap::new(),
        })
    }

    /// Headers of every request.
    pub(crate) fn with_headers(
        mut self,
        key: Option<&Secret>,
        headers: &[(String, Secret)],
    ) -> Result<Http, RemoteError> {
        let wrong = |name, value: &str, limit| RemoteError::Option {
            name,
            value: value.to_owned(),
            limit,
        };
        let agent = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
        self.headers
            .insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.text().trim()))
                .map_err(|_| wrong("key", "***", "printable ASCII"))?;
            value.set_sensitive(true);
            self.headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in headers {
            let header = HeaderName::try_from(name.as_str())
                .map_err(|_| wrong("headers", name, "names of headers"))?;
            if ["host", "content-length", "transfer-encoding", "connection"]
                .contains(&header.as_str())
            {
                return Err(wrong("headers", name, "none that belong to the connection"));
            }
            let mut value = HeaderValue::try_from(value.text())
                .map_err(|_| wrong("headers", name, "of printable values"))?;
            value.set_sensitive(true);
            self.headers.insert(header, value);
        }
        Ok(self)
    }

    /// Sends JSON; the head of the answer.
    pub(crate) async fn post(
        &self,
        uri: &Uri,
        body: Bytes,
        traceparent: Option<&str>,
    ) -> Result<Response<Incoming>, Trouble> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("text/event-stream, application/json"),
        );
        let traceparent = traceparent.and_then(|value| HeaderValue::from_str(value).ok());
        if let Some(value) = traceparent {
            headers.insert(HeaderName::from_static("traceparent"), value);
        }
        self.send(request).await
    }

    /// Asks for what is there; the head of the answer.
    pub(crate) async fn get(&self, uri: &Uri) -> Result<Response<Incoming>, Trouble> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = uri.clone();
        self.send(request).await
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Trouble> {
        request.headers_mut().extend(self.headers.clone());
        let sent = self.client.request(request).await;
        sent.map_err(|error| Trouble::unreached(with_causes(&error)))
    }

    /// The next bytes of an answer; none at its end. Whoever waits for it says for how long.
    pub(crate) async fn next(&self, body: &mut Incoming) -> Result<Option<Bytes>, Trouble> {
        loop {
            match body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    // Trailers say nothing.
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    let why = format!("its answer was cut: {}", with_causes(&error));
                    return Err(Trouble::failed(why));
                }
            }
        }
    }

    /// A whole answer, so many bytes at most.
    pub(crate) async fn whole(&self, mut body: Incoming, limit: usize) -> Result<Vec<u8>, Trouble> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next(&mut body).await? {
            if whole.len() + bytes.len() > limit {
                return Err(Trouble::wrong(format!(
                    "its answer is longer than {limit} bytes"
                )));
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// The beginning of what comes with an error: what else is wrong with it is of no interest.
    pub(crate) async fn beginning(&self, mut body: Incoming, limit: usize) -> Beginning {
        let mut beginning = Beginning::default();
        while let Ok(Some(bytes)) = self.next(&mut body).await {
            let left = limit - beginning.bytes.len();
            let taken = bytes.len().min(left);
            beginning.bytes.extend_from_slice(&bytes[..taken]);
            beginning.is_cut = bytes.len() > left;
            if beginning.is_cut {
                break;
            }
        }
        beginning
    }
}

/// TLS with these roots; without https nobody has to be trusted.
fn tls(https: bool, roots: &Roots) -> Result<ClientConfig, RemoteError> {
    let unreadable = |place: String, why: String| RemoteError::Roots { place, why };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unreadable("the TLS library".into(), error.to_string()))?;
    if !https {
        let nobody = RootCertStore::empty();
        return Ok(builder.with_root_certificates(nobody).with_no_client_auth());
    }
    let builder = match roots {
        Roots::System => builder
            .with_native_roots()
            .map_err(|error| unreadable("the system".into(), error.to_string()))?,
        Roots::File(path) => {
            let place = path.display().to_string();
            let wrong = |why: String| unreadable(place.clone(), why);
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(error.to_string()))?;
            let mut store = RootCertStore::empty();
            let (added, _) = store.add_parsable_certificates(certificates);
            if added == 0 {
                return Err(wrong("it holds no certificate".into()));
            }
            builder.with_root_certificates(store)
        }
    };
    Ok(builder.with_no_client_auth())
}

/// An error with what is behind it: hyper says that, not what.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

/// A connector with a bound on its time, TLS included.
#[derive(Clone)]
struct Timed<C> {
    connector: C,
    limit: Duration,
}

impl<C> Service<Uri> for Timed<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.connector.call(uri);
        let limit = self.limit;
        Box::pin(async move {
            match timeout(limit, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(format!("no connection in {limit:?}").into()),
            }
        })
    }
}
