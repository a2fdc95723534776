//! A request as the endpoints see it, and their answer: what the front and the endpoints meet by.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
pub use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::access::{UnderWay, Who};
pub use crate::traced::Trace;

/// The status of an answer that nobody is there to read, as nginx has it: for counts, no client sees it.
pub(crate) const CLIENT_GONE: u16 = 499;

/// A request whose head and body are within all limits, of someone who may be here.
#[derive(Debug)]
pub struct Asked {
    /// Its id, also in the answer's `x-request-id`.
    pub id: String,
    /// Its method.
    pub method: Method,
    /// The path, without query; no `%00`, no dot segments.
    pub path: String,
    /// What follows the `?`.
    pub query: Option<String>,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, whole.
    pub body: Bytes,
    /// Who asks.
    pub who: Who,
    /// Its place among those of its key, for what goes on when the one who asks has gone. None of requests that nobody
    /// counts.
    pub under_way: Option<UnderWay>,
    /// Whether the one who asks is still there.
    pub gone: Gone,
    /// Its trace, once it is known whose path it has.
    pub trace: Option<Trace>,
}

/// Tells when a client has gone, also before the first byte of the answer, and with a second request behind the first.
#[derive(Clone, Debug)]
pub struct Gone(watch::Receiver<bool>);

impl Gone {
    /// With what tells it. A sender that is dropped says that the client has gone.
    pub fn new() -> (watch::Sender<bool>, Gone) {
        let (sender, receiver) = watch::channel(false);
        (sender, Gone(receiver))
    }

    /// Returns once the client has gone.
    pub async fn wait(&mut self) {
        // An error means that the connection has ended without a word.
        let _ = self.0.wait_for(|gone| *gone).await;
    }

    /// Whether it has.
    pub fn has(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answered {
    /// Its status.
    pub status: StatusCode,
    /// Its headers beside those that every answer has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Its body.
    pub content: Content,
}

impl Answered {
    /// What another server made.
    pub fn passed_on<B>(response: Response<B>) -> Answered
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Send + 'static,
    {
        let (head, body) = response.into_parts();
        let headers = head.headers.iter();
        let body = body.map_err(|error| Box::new(error) as BodyError);
        Answered {
            status: head.status,
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            content: Content::Streamed(Streamed(Box::pin(body))),
        }
    }
}

/// Why a body has no end.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is asked for, piece by piece.
pub struct Streamed(pub(crate) Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>);

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streamed")
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    /// All of it.
    Whole {
        /// `application/json`, say.
        media_type: &'static str,
        /// The bytes.
        bytes: Bytes,
    },
    /// Server-sent events, as they come. The number of parts is bounded by those who send.
    Events(mpsc::UnboundedReceiver<Part>),
    /// As its client reads it; its type is among the headers.
    Streamed(Streamed),
    /// No body: the connection goes over to another protocol. The status is 101, and the headers are those that the
    /// protocol wants. From here on the client is seen by the connection alone; [`Gone`] says that it has gone.
    Upgraded(Takeover),
}

impl Content {
    /// Whether it is not known before its end how long it is.
    pub(crate) fn has_no_length(&self) -> bool {
        match self {
            Content::Whole { .. } | Content::Upgraded(_) => false,
            Content::Events(_) => true,
            Content::Streamed(body) => body.0.size_hint().exact().is_none(),
        }
    }
}

/// A connection, with TLS or without.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Speaks another protocol on a connection, which ends with it. A write that makes no progress still ends the
/// connection, and so does the end of the front; what else has a deadline is the protocol's to know.
pub struct Takeover(Box<dyn FnOnce(Box<dyn Duplex>) -> Spoken + Send>);

type Spoken = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Takeover {
    /// By what is done with the connection.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        speak: impl FnOnce(Box<dyn Duplex>) -> F + Send + 'static,
    ) -> Takeover {
        Takeover(Box::new(move |connection| Box::pin(speak(connection))))
    }

    /// Keeps something until the connection has ended.
    pub(crate) fn holding<T: Send + 'static>(self, held: T) -> Takeover {
        Takeover::new(|connection| async move {
            let _held = held;
            self.speak(connection).await;
        })
    }

    /// Does it. Ends when the connection does.
    pub fn speak(self, connection: Box<dyn Duplex>) -> Spoken {
        (self.0)(connection)
    }
}

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Takeover")
    }
}

/// A part of a body that is sent as it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes to be sent at once.
    Bytes(Bytes),
    /// The last bytes: the end of the body goes out with them.
    Last(Bytes),
    /// The body is broken: these bytes, and then the connection ends without the end of the body. A sender that is
    /// dropped without [`Part::Last`] means the same, without bytes.
    Broken(Bytes),
}
