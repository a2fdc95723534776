//! The socket, and the connections that come by it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::bodies::Bodies;
use super::connection;
use super::cors::Origins;
use super::endpoints::Endpoints;
use super::options::{FrontBounds, FrontOptions};
use super::refusal::Refusal;
use super::refused::{Reason, Refused};
use super::service::{Service, made_id};
use super::tls::{Stamp, Tls};
use super::wire::Bounds;
use crate::access::{Access, network};
use crate::exchange::Duplex;

/// How long the accepting rests when the system has no file descriptors left.
const REST: Duration = Duration::from_millis(100);

/// Connections that the system keeps until they are taken.
const BACKLOG: u32 = 1024;

/// How long a client that was turned away may take to read so, and how many may at once.
const PARTING: Duration = Duration::from_millis(500);
const TURNED_AWAY: usize = 64;

/// Why the front does not listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FrontError {
    /// The address cannot be had.
    #[error("gateway address {address}: {error}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Anyone could come.
    #[error(
        "gateway address {0}: without keys only a loopback address is allowed, such as 127.0.0.1 or [::1]"
    )]
    Open(SocketAddr),
    /// The files of TLS are of no use.
    #[error("gateway TLS: {0}")]
    Tls(String),
    /// An origin is of no use.
    #[error("gateway CORS: {0}")]
    Cors(String),
    /// A bound is of no use.
    #[error("gateway bound `{name}`: {value} is less than {least}")]
    Bound {
        /// Its name.
        name: &'static str,
        /// What it is.
        value: usize,
        /// What it is at least.
        least: usize,
    },
    /// There is no tokio runtime to run on.
    #[error("the gateway is not started on a tokio runtime")]
    Runtime,
}

/// The front's address, and all that it needs beside those who answer. Nobody else can take the address, and nobody who
/// comes is kept waiting: until it [serves](Bound::serve) they are turned away.
#[derive(Debug)]
pub struct Bound {
    socket: TcpSocket,
    address: SocketAddr,
    tls: Option<(Tls, Stamp)>,
    origins: Option<Origins>,
    access: Arc<Access>,
    bounds: FrontBounds,
}

impl Bound {
    /// Checks the options, reads the files and takes the address.
    pub fn new(options: FrontOptions) -> Result<Bound, FrontError> {
        let FrontOptions {
            address,
            tls,
            access,
            cors,
            bounds,
        } = options;
        if access.lets_anyone_in() && !address.ip().is_loopback() {
            return Err(FrontError::Open(address));
        }
        check(&bounds)?;
        let origins = cors
            .as_ref()
            .map(Origins::new)
            .transpose()
            .map_err(FrontError::Cors)?;
        let tls = tls.map(Tls::new).transpose().map_err(FrontError::Tls)?;
        let failed = |error| FrontError::Address { address, error };
        let socket = taken(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Bound {
            socket,
            address,
            tls,
            origins,
            access,
            bounds,
        })
    }

    /// Where it will listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens, and answers by `endpoints`. Called on a tokio runtime with its clock and network on.
    pub fn serve(self, endpoints: Arc<dyn Endpoints>) -> Result<Front, FrontError> {
        let Bound {
            socket,
            address,
            tls,
            origins,
            access,
            bounds,
        } = self;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(FrontError::Runtime);
        }
        let failed = |error| FrontError::Address { address, error };
        // Its connections are not to keep the address from the program that comes after this one.
        if cfg!(unix) {
            socket.set_reuseaddr(true).map_err(failed)?;
        }
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        let refused = Refused::default();
        let service = Arc::new(Service {
            endpoints,
            access,
            origins,
            bounds: bounds.clone(),
            bodies: Bodies::new(bounds.bodies),
            refused: refused.clone(),
        });
        let (tls, stamp) = match tls {
            Some((tls, stamp)) => (Some(Arc::new(tls)), Some(stamp)),
            None => (None, None),
        };
        let (stop, stopping) = watch::channel(None);
        let places = Places {
            all: Arc::new(Semaphore::new(bounds.connections)),
            peers: Arc::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
        };
        let accepting = Accepting {
            listener,
            service,
            tls,
            stamp,
            places,
            bounds,
        };
        let accepting = tokio::spawn(accepting.run(stopping));
        Ok(Front {
            address,
            refused,
            stop,
            accepting,
        })
    }
}

/// A socket on an address, which it shares with nobody; where connections of a program that ended are still on it, with
/// these.
fn taken(address: SocketAddr) -> io::Result<TcpSocket> {
    let bind = |shared| -> io::Result<TcpSocket> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(shared)?;
        socket.bind(address)?;
        Ok(socket)
    };
    match bind(false) {
        // Elsewhere it would share it with programs that listen.
        Err(error) if cfg!(unix) && error.kind() == io::ErrorKind::AddrInUse => bind(true),
        bound => bound,
    }
}

/// The front, listening. When it is dropped, it ends at once.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    refused: Refused,
    stop: watch::Sender<Option<Duration>>,
    accepting: JoinHandle<()>,
}

impl Front {
    /// Takes the address and listens at once, see [`Bound`].
    pub fn bind(options: FrontOptions, endpoints: Arc<dyn Endpoints>) -> Result<Front, FrontError> {
        Bound::new(options)?.serve(endpoints)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has refused.
    pub fn refused(&self) -> Refused {
        self.refused.clone()
    }

    /// Takes no more connections and requests, gives the answers that are being made so long, and ends.
    pub async fn stop(mut self, within: Duration) {
        self.stop.send_replace(Some(within));
        // The task ends by itself within that time; it may be a little late, but never waits without a limit.
        let _ = tokio::time::timeout(within + Duration::from_secs(1), &mut self.accepting).await;
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns when the front is to stop, with the time that answers have.
async fn stopped(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let within = stop.wait_for(Option::is_some).await;
    within.ok().and_then(|within| *within).unwrap_or_default()
}

fn check(bounds: &FrontBounds) -> Result<(), FrontError> {
    let of = [
        ("connections", bounds.connections, 1),
        ("connections_of_a_peer", bounds.connections_of_a_peer, 1),
        ("head", bounds.head, 1 << 10),
        ("bodies", bounds.bodies, 1 << 20),
    ];
    match of.into_iter().find(|(_, value, least)| value < least) {
        Some((name, value, least)) => Err(FrontError::Bound { name, value, least }),
        None => Ok(()),
    }
}

/// Places for connections.
struct Places {
    all: Arc<Semaphore>,
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// For those who get none, until they have read so.
    turned_away: Arc<Semaphore>,
}

/// A place that a connection has; free again when it is dropped.
struct Place {
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    peer: IpAddr,
    _all: OwnedSemaphorePermit,
}

impl Places {
    fn take(&self, peer: IpAddr, of_a_peer: usize) -> Option<Place> {
        let all = self.all.clone().try_acquire_owned().ok()?;
        let peer = network(peer);
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(peer).or_default();
        if *count >= of_a_peer {
            return None;
        }
        *count += 1;
        Some(Place {
            peers: self.peers.clone(),
            peer,
            _all: all,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

/// The task that takes connections.
struct Accepting {
    listener: TcpListener,
    service: Arc<Service>,
    tls: Option<Arc<Tls>>,
    stamp: Option<Stamp>,
    places: Places,
    bounds: FrontBounds,
}

impl Accepting {
    async fn run(mut self, mut stop: watch::Receiver<Option<Duration>>) {
        let (tell, told) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut looking = tokio::time::interval(self.bounds.watch.max(Duration::from_millis(10)));
        let within = loop {
            tokio::select! {
                within = stopped(&mut stop) => break within,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.take(stream, peer.ip(), &told, &mut connections),
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(REST).await;
                    }
                },
                _ = looking.tick() => self.look(),
                Some(_) = connections.join_next() => {}
            }
        };
        drop(self.listener);
        tell.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(within, all).await;
        connections.shutdown().await;
    }

    /// Looks at files that may have changed.
    fn look(&mut self) {
        if let (Some(tls), Some(stamp)) = (&self.tls, &mut self.stamp) {
            tls.look(stamp);
        }
        self.service.access.look();
    }

    fn take(
        &self,
        mut stream: TcpStream,
        peer: IpAddr,
        told: &watch::Receiver<bool>,
        connections: &mut JoinSet<()>,
    ) {
        let peer = peer.to_canonical();
        // Pieces of an answer are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let Some(place) = self.places.take(peer, self.bounds.connections_of_a_peer) else {
            self.service.refused.count(Reason::TooManyConnections);
            // A new socket takes a few hundred bytes without waiting. With TLS there is nobody to say it to yet.
            if self.tls.is_none() {
                let answer = Refusal::busy(
                    Reason::TooManyConnections,
                    "there are too many connections at the moment",
                )
                .raw(&made_id());
                let _ = stream.try_write(&answer);
                // So many may read it in peace; the rest may see a reset.
                if let Ok(turned_away) = self.places.turned_away.clone().try_acquire_owned() {
                    connections.spawn(async move {
                        let _turned_away = turned_away;
                        let mut bytes = [0; 1024];
                        let _ = tokio::time::timeout(PARTING, async {
                            let _ = stream.shutdown().await;
                            while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
                        })
                        .await;
                    });
                }
            }
            return;
        };
        let bounds = Bounds {
            head: self.bounds.head,
            head_time: self.bounds.head_time,
            idle: self.bounds.idle,
            write: self.bounds.write_time,
        };
        let service = self.service.clone();
        let told = told.clone();
        let tls = self
            .tls
            .as_ref()
            .map(|tls| TlsAcceptor::from(tls.current()));
        connections.spawn(async move {
            let _place = place;
            let stream: Box<dyn Duplex> = match tls {
                None => Box::new(stream),
                Some(tls) => match tokio::time::timeout(bounds.head_time, tls.accept(stream)).await
                {
                    Ok(Ok(stream)) => Box::new(stream),
                    Ok(Err(_)) | Err(_) => return service.refused.count(Reason::TlsFailed),
                },
            };
            connection::attend(stream, peer, service, bounds, told).await;
        });
    }
}
