//! A connection that is kept, and opened again when the server has closed it.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::load::PATIENCE;

/// Bytes of an answer that was not wanted, that are shown.
const SHOWN: usize = 500;

/// Where a server is, up to and with `/v1`.
#[derive(Clone)]
pub(crate) struct Server {
    /// Host and port.
    authority: String,
    /// Without a slash at its end.
    path: String,
}

impl Server {
    /// Reads `http://HOST:PORT/v1`.
    pub(crate) fn new(url: &str) -> anyhow::Result<Server> {
        let wrong = || format!("{url:?} is not a URL such as http://127.0.0.1:8080/v1");
        let uri: Uri = url.parse().with_context(wrong)?;
        if uri.scheme_str() != Some("http") || uri.port().is_none() {
            bail!(wrong());
        }
        Ok(Server {
            authority: uri.authority().with_context(wrong)?.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// A connection.
pub(crate) struct Connection {
    server: Server,
    open: Option<SendRequest<Full<Bytes>>>,
    /// How often it was opened.
    pub(crate) opened: usize,
}

impl Connection {
    /// To a server; opened when it is first used.
    pub(crate) fn new(server: Server) -> Connection {
        Connection {
            server,
            open: None,
            opened: 0,
        }
    }

    /// Sends a request and gives its answer when the head is there. Another status than 200 is an error, with what the
    /// server says.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<Response<Incoming>> {
        let body = Bytes::from(body);
        let kept = self.open.is_some();
        let answer = match self.send(&method, path, body.clone()).await? {
            // The server closed a kept connection just then: as every client does, on another.
            Err(error) if kept && error.is_incomplete_message() => {
                self.open = None;
                self.send(&method, path, body).await??
            }
            answer => answer?,
        };
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let status = answer.status();
        let body = timeout(PATIENCE, answer.into_body().collect()).await??;
        let said = body.to_bytes();
        let said = String::from_utf8_lossy(&said[..said.len().min(SHOWN)]).into_owned();
        bail!("{path} answered {status}: {said}")
    }

    async fn send(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<hyper::Result<Response<Incoming>>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server.path))
            .header("host", &self.server.authority)
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        let sender = self.ready().await?;
        let answer = timeout(PATIENCE, sender.send_request(request)).await;
        answer.with_context(|| format!("no answer for {PATIENCE:?}"))
    }

    async fn ready(&mut self) -> anyhow::Result<&mut SendRequest<Full<Bytes>>> {
        let mut usable = None;
        if let Some(mut sender) = self.open.take()
            && sender.ready().await.is_ok()
        {
            usable = Some(sender);
        }
        let sender = match usable {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        Ok(self.open.insert(sender))
    }

    async fn connect(&mut self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let address = &self.server.authority;
        let stream = timeout(PATIENCE, TcpStream::connect(address))
            .await?
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends when the sender is dropped or the server closes; what went wrong the sender tells.
        tokio::spawn(connection);
        self.opened += 1;
        Ok(sender)
    }
}
