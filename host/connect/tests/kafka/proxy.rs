//! A wire to the broker that can lose the commit of a transaction, or the answer to it, or what is written after one, and
//! that can be cut.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;

use crate::broker::brokers;

/// Number of the request that writes records.
const PRODUCE: i16 = 0;
/// Number of the request that ends a transaction.
const END_TXN: i16 = 26;
/// Number of the request that asks where partitions begin and end.
const LIST_OFFSETS: i16 = 2;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Loses {
    Nothing,
    /// The request never comes to the broker.
    Request,
    /// It does, and its answer is lost.
    Answer,
    /// Nothing, until a transaction is ended; then what is written.
    WritesAfterEnd,
    /// What is written never comes to the broker.
    Writes,
    /// There is no connection, and none can be made.
    Everything,
}

/// In place of the broker: what it says of its own address is rewritten, so that all goes through here.
pub(crate) struct Proxy {
    port: u16,
    loses: Arc<AtomicU8>,
    lost: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) fn open() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            loses: Arc::new(AtomicU8::new(Loses::Nothing as u8)),
            lost: Arc::new(AtomicUsize::new(0)),
            asked: Arc::new(AtomicUsize::new(0)),
        };
        let asked = proxy.asked.clone();
        let (port, loses, lost) = (proxy.port, proxy.loses.clone(), proxy.lost.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if loses.load(Ordering::Acquire) == Loses::Everything as u8 {
                    continue;
                }
                let Ok(broker) = TcpStream::connect(brokers()) else {
                    continue;
                };
                let (to_broker, to_client) = (broker.try_clone(), client.try_clone());
                let (Ok(to_broker), Ok(to_client)) = (to_broker, to_client) else {
                    continue;
                };
                let (loses, cut, lost) = (loses.clone(), loses.clone(), lost.clone());
                // The correlation ids of commits whose answers are to be lost, and of none other.
                let silent = Arc::new(std::sync::Mutex::new(Vec::new()));
                let answers = silent.clone();
                let (everything, asked) = (loses.clone(), asked.clone());
                thread::spawn(move || {
                    frames(client, to_broker, &everything, |frame| {
                        let is_end = frame[..2] == END_TXN.to_be_bytes();
                        if frame[..2] == LIST_OFFSETS.to_be_bytes() {
                            asked.fetch_add(1, Ordering::AcqRel);
                        }
                        let is_write = frame[..2] == PRODUCE.to_be_bytes();
                        match loses.load(Ordering::Acquire) {
                            1 if is_end => {
                                lost.fetch_add(1, Ordering::AcqRel);
                                false
                            }
                            2 if is_end => {
                                silent.lock().unwrap().push(frame[4..8].to_vec());
                                lost.fetch_add(1, Ordering::AcqRel);
                                true
                            }
                            3 if is_end => {
                                loses.store(Loses::Writes as u8, Ordering::Release);
                                true
                            }
                            4 if is_write => {
                                lost.fetch_add(1, Ordering::AcqRel);
                                false
                            }
                            _ => true,
                        }
                    });
                });
                thread::spawn(move || {
                    frames(broker, to_client, &cut, |frame| {
                        rewrite(frame, port);
                        !answers.lock().unwrap().contains(&frame[..4].to_vec())
                    });
                });
            }
        });
        proxy
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// From now on.
    pub(crate) fn lose(&self, loses: Loses) {
        self.loses.store(loses as u8, Ordering::Release);
    }

    /// How often it was asked where partitions begin and end.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }

    /// How many requests or answers were lost.
    pub(crate) fn lost(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }
}

/// Passes on what comes in frames of a length and so many bytes, if `pass` says so, until everything is lost.
fn frames(
    mut from: TcpStream,
    mut to: TcpStream,
    loses: &AtomicU8,
    mut pass: impl FnMut(&mut [u8]) -> bool,
) {
    let mut copy = || -> std::io::Result<()> {
        loop {
            let mut length = [0; 4];
            from.read_exact(&mut length)?;
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            from.read_exact(&mut frame)?;
            if loses.load(Ordering::Acquire) == Loses::Everything as u8 {
                return Ok(());
            }
            if pass(&mut frame) {
                to.write_all(&length)?;
                to.write_all(&frame)?;
            }
        }
    };
    // One side has gone.
    let _ = copy();
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Puts this port in place of the broker's, wherever an answer names the broker.
fn rewrite(frame: &mut [u8], port: u16) {
    let address = brokers();
    let (host, of_broker) = address.rsplit_once(':').unwrap();
    let of_broker: u32 = of_broker.parse().unwrap();
    let name = [host.as_bytes(), &of_broker.to_be_bytes()].concat();
    let mut at = 0;
    while let Some(found) = find(&frame[at..], &name) {
        let port_at = at + found + host.len();
        frame[port_at..port_at + 4].copy_from_slice(&u32::from(port).to_be_bytes());
        at = port_at + 4;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
