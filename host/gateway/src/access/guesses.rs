//! Addresses that try keys.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Failures are counted over so long.
const WINDOW: Duration = Duration::from_secs(60);

/// So many addresses are remembered; more push out those whose window began first.
const ADDRESSES: usize = 8192;

/// Failures of each address.
#[derive(Debug)]
pub(super) struct Guesses {
    limit: u32,
    windows: Mutex<HashMap<IpAddr, (Duration, u32)>>,
}

impl Guesses {
    pub(super) fn new(limit: u32) -> Guesses {
        Guesses {
            limit,
            windows: Mutex::default(),
        }
    }

    /// How long the address is sent away, if it is.
    pub(super) fn banned(&self, peer: IpAddr, now: Duration) -> Option<Duration> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, failures) = *windows.get(&network(peer))?;
        let until = began + WINDOW;
        (self.limit > 0 && failures >= self.limit && now < until).then(|| until - now)
    }

    /// Counts a failure.
    pub(super) fn failed(&self, peer: IpAddr, now: Duration) {
        let peer = network(peer);
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= ADDRESSES && !windows.contains_key(&peer) {
            windows.retain(|_, (began, _)| *began + WINDOW > now);
            let first = windows
                .iter()
                .min_by_key(|(_, (began, _))| *began)
                .map(|(address, _)| *address);
            if let Some(first) = first.filter(|_| windows.len() >= ADDRESSES) {
                windows.remove(&first);
            }
        }
        let (began, failures) = windows.entry(peer).or_insert((now, 0));
        if *began + WINDOW <= now {
            (*began, *failures) = (now, 0);
        }
        *failures = failures.saturating_add(1);
    }
}

/// Whoever has one address of IPv6 has all of its network.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(peer) => IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() & !u128::from(u64::MAX))),
    }
}
