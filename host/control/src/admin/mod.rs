//! The admin API: HTTP/1 on loopback.
//!
//! Whoever asks must know the token in the state directory's `admin.json`, which its owner alone may read, and must
//! have meant this server: a `Host` header of another name is refused, so that no web page reaches it by DNS.
//! One request a connection; everything that is read has a limit and a deadline, and whoever does not read what it has asked for is
//! let go of. Probes are answered however many requests are under way. A connection that has not said what it
//! wants holds up nobody: when there are too many of them, the oldest is closed.

mod bodies;
mod changes;
mod connections;
mod health;
mod keys;
mod letters;
mod live;
mod logs;
mod models;
mod page;
mod playground;
mod read_only;
mod routes;
mod shape;
#[cfg(test)]
mod tests;
mod unread;
mod watched;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use self::connections::Connections;
pub use self::read_only::ReadOnlyPage;
pub use self::watched::WatchServer;

use crate::api::Host;
use crate::token::{AdminFile, new_token};

/// Largest component that may be deployed or named by a pipeline file, bytes.
pub const MAX_COMPONENT: usize = 64 << 20;
/// Largest configuration that may be deployed, bytes.
pub const MAX_CONFIG: usize = 256 << 10;
/// How a deployment says how many bytes of its body, from the first, are a configuration.
pub(crate) const CONFIG_BYTES: &str = "config-bytes";
/// Requests at once; more wait for a place as long as for a head.
const REQUESTS: usize = 32;
/// Connections at once whose request has not come; one more closes the oldest of them.
const SILENT: usize = 256;
/// For a client to read some of what waits for it.
const UNREAD: Duration = Duration::from_secs(20);
/// For the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// For a whole connection: a deployment compiles and waits for every task; a model is read, hashed and loaded, and the
/// engine takes up to ten minutes for the last of these.
pub(crate) const CONNECTION: Duration = Duration::from_secs(900);
/// For the requests under way when the server stops.
const STOP: Duration = Duration::from_secs(5);

/// A running admin API. It stops when it is dropped.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    file: AdminFile,
    state: PathBuf,
    stop: watch::Sender<bool>,
    connections: Arc<Connections>,
    runtime: Option<Runtime>,
}

/// An admin API that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The address is not this machine's own.
    #[error("the admin API listens on loopback only, and {address} is not a loopback address")]
    NotLoopback {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The address cannot be had.
    #[error("the admin API cannot listen on {address}: {why}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's words.
        why: io::Error,
    },
    /// The address for probes and metrics cannot be had.
    #[error("nobody can ask for metrics and health on {address}: {why}")]
    Watch {
        /// The address asked for.
        address: SocketAddr,
        /// The system's words.
        why: io::Error,
    },
    /// The file with the token cannot be written.
    #[error("cannot write {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: io::Error,
    },
    /// The system gives no random bytes or no threads.
    #[error("the admin API cannot start: {0}")]
    System(String),
}

impl AdminServer {
    /// Listens, and leaves `admin.json` in the state directory. The token in `metrics_token` is good for metrics alone.
    pub fn start(
        address: SocketAddr,
        state: &Path,
        metrics_token: Option<&Path>,
        host: Arc<dyn Host>,
    ) -> Result<Self, AdminError> {
        if !address.ip().is_loopback() {
            return Err(AdminError::NotLoopback { address });
        }
        let listen = |why| AdminError::Listen { address, why };
        let listener = StdListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let real = listener.local_addr().map_err(listen)?;
        let system = |error: &dyn std::fmt::Display| AdminError::System(error.to_string());
        let token = new_token().map_err(|error| system(&error))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tidegate-admin")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| system(&error))?;
        let file = AdminFile {
            address: real,
            token,
            pid: std::process::id(),
        };
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener).map_err(listen)?
        };
        let (stop, stopped) = watch::channel(false);
        let connections = Arc::new(Connections::new(REQUESTS, SILENT, CONNECTION));
        let service = routes::router(real, &file.token, metrics_token.map(Path::to_owned), host);
        runtime.spawn(accept(listener, service, connections.clone(), stopped));
        file.write(state).map_err(|why| AdminError::File {
            path: AdminFile::path(state),
            why,
        })?;
        info!(address = %real, "admin API listens");
        Ok(Self {
            address: real,
            file,
            state: state.to_owned(),
            stop,
            connections,
            runtime: Some(runtime),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client must show.
    pub fn token(&self) -> &str {
        &self.file.token
    }

    /// Takes no more requests, waits a little for those under way, and takes `admin.json` away.
    pub fn stop(mut self) {
        self.end();
    }

    /// Takes `admin.json` away, and goes on answering those who know it: for a process that ends at once.
    pub fn withdraw(&self) {
        self.file.remove(&self.state);
    }

    fn end(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        self.file.remove(&self.state);
        // Nobody listens any more only if the accepting task has ended already.
        let _ = self.stop.send(true);
        let connections = self.connections.clone();
        runtime.block_on(async {
            if timeout(STOP, connections.idle()).await.is_err() {
                warn!("the admin API ends with requests under way");
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(100));
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(
    listener: TcpListener,
    service: axum::Router,
    connections: Arc<Connections>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let place = connections.open();
                tokio::spawn(place.serve(stream, service.clone(), stopped.clone()));
            }
            Err(error) => {
                // Out of file descriptors, for example: trying again at once would spin.
                warn!(%error, "the admin API cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
