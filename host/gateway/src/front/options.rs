//! What the front is given.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::cors::Origins;
use super::listening::FrontError;
use super::tls;
use crate::access::Access;

/// How the front listens, whom it lets in, and what it bears.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    /// Where it listens. Without any keys only a loopback address is allowed.
    pub address: SocketAddr,
    /// TLS; plain without.
    pub tls: Option<TlsFiles>,
    /// Who may ask.
    pub access: Arc<Access>,
    /// Pages of other origins that may ask.
    pub cors: Option<Cors>,
    /// What it bears.
    pub bounds: FrontBounds,
}

impl FrontOptions {
    /// On an address, without TLS and CORS, with the usual bounds.
    pub fn new(address: SocketAddr, access: Arc<Access>) -> FrontOptions {
        FrontOptions {
            address,
            tls: None,
            access,
            cors: None,
            bounds: FrontBounds::default(),
        }
    }
}

/// Files of TLS, in PEM. They are read again when they change.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// What keeps them from being of use.
    pub fn check(&self) -> Result<(), FrontError> {
        tls::load(self).map(drop).map_err(FrontError::Tls)
    }
}

/// Pages that may ask from a browser.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// Their origins (`https://chat.example`), or `*` for all.
    pub origins: Vec<String>,
    /// Whether browsers may send cookies and client certificates. Not with `*`.
    pub credentials: bool,
}

impl Cors {
    /// What keeps an origin from being of use.
    pub fn check(&self) -> Result<(), FrontError> {
        Origins::new(self).map(drop).map_err(FrontError::Cors)
    }
}

/// What the front bears.
#[derive(Clone, Debug)]
pub struct FrontBounds {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once of one peer address.
    pub connections_of_a_peer: usize,
    /// Bytes of a head; more is refused with 431. The same bounds what a client sends ahead of an answer.
    pub head: usize,
    /// From a head's first byte to its last; also for a TLS handshake.
    pub head_time: Duration,
    /// From a body's first byte to its last.
    pub body_time: Duration,
    /// In each such time of a body at least [`FrontBounds::body_progress`] bytes come.
    pub body_step: Duration,
    /// Bytes in a step.
    pub body_progress: u64,
    /// Bytes of bodies that are held at once, of all clients together. One has a quarter of them, or one body of the
    /// greatest length.
    pub bodies: usize,
    /// A write that makes no progress for so long ends the connection.
    pub write_time: Duration,
    /// A connection that asks nothing for so long is closed.
    pub idle: Duration,
    /// An event stream sends a comment when it has sent nothing for so long.
    pub comment: Duration,
    /// How long the files of TLS and of keys are not looked at.
    pub watch: Duration,
}

impl Default for FrontBounds {
    fn default() -> FrontBounds {
        FrontBounds {
            connections: 1024,
            connections_of_a_peer: 256,
            head: 32 << 10,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(120),
            body_step: Duration::from_secs(10),
            body_progress: 1 << 10,
            bodies: 256 << 20,
            write_time: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            comment: Duration::from_secs(15),
            watch: Duration::from_secs(1),
        }
    }
}
