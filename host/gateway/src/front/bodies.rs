//! Bytes of bodies that are held: so many of all clients together, and so many of each, so that no one of them keeps the
//! others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::{Who, network};

/// One client has this part of all.
const PART: usize = 4;
/// A body counts in whole pieces of this: a short one has what is kept of it beside its bytes.
const PIECE: usize = 1 << 10;

/// Whose a body is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// By the name of its key, or the subject of its token.
    Named(Arc<str>),
    /// By its address, where nobody has a name.
    At(IpAddr),
}

impl Client {
    pub(super) fn of(who: &Who, peer: IpAddr) -> Client {
        match who.name.is_empty() {
            true => Client::At(network(peer)),
            false => Client::Named(who.name.clone()),
        }
    }
}

/// All bodies. A copy is the same.
#[derive(Clone)]
pub(super) struct Bodies {
    most: usize,
    held: Arc<Mutex<Bytes>>,
}

#[derive(Default)]
struct Bytes {
    all: usize,
    /// Of those that have any.
    clients: HashMap<Client, usize>,
}

/// Which bound is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    All,
    Client,
}

/// What one body has, until it is dropped.
pub(super) struct Held {
    bodies: Bodies,
    client: Client,
    /// Most of its client.
    most: usize,
    bytes: usize,
}

impl Bodies {
    /// So many bytes in all.
    pub(super) fn new(most: usize) -> Bodies {
        Bodies {
            most: in_pieces(most),
            held: Arc::default(),
        }
    }

    /// A body of a client, which has nothing yet. One of the greatest length always has room beside no other.
    pub(super) fn of(&self, client: Client, longest: u64) -> Held {
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        Held {
            bodies: self.clone(),
            client,
            most: (self.most / PART).max(in_pieces(longest)),
            bytes: 0,
        }
    }

    fn held(&self) -> MutexGuard<'_, Bytes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The body has so many bytes by now, which are not fewer than before.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let bytes = in_pieces(bytes);
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let mut held = self.bodies.held();
        let of_client = held.clients.get(&self.client).copied().unwrap_or_default();
        if of_client + more > self.most {
            return Err(Full::Client);
        }
        if held.all + more > self.bodies.most {
            return Err(Full::All);
        }
        held.all += more;
        held.clients.insert(self.client.clone(), of_client + more);
        drop(held);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.bodies.held();
        held.all -= self.bytes;
        if let Some(of_client) = held.clients.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                held.clients.remove(&self.client);
            }
        }
    }
}

fn in_pieces(bytes: usize) -> usize {
    bytes.div_ceil(PIECE).saturating_mul(PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Client {
        Client::Named(name.into())
    }

    #[test]
    fn one_client_has_a_quarter_or_one_body_of_the_greatest_length() {
        let bodies = Bodies::new(1 << 20);
        let mut first = bodies.of(named("ann"), 1000);
        assert_eq!(first.grow(256 << 10), Ok(()));
        let mut second = bodies.of(named("ann"), 1000);
        assert_eq!(second.grow(1), Err(Full::Client));
        // Whoever may send one that is longer has room for it, and for no other beside it.
        let mut long = bodies.of(named("bob"), 600 << 10);
        assert_eq!(long.grow(600 << 10), Ok(()));
        assert_eq!(
            bodies.of(named("bob"), 600 << 10).grow(1),
            Err(Full::Client)
        );
        drop(first);
        assert_eq!(second.grow(1), Ok(()));
    }

    #[test]
    fn what_all_have_together_has_a_bound_and_is_given_back() {
        let bodies = Bodies::new(4 << 10);
        let held: Vec<Held> = (0..4)
            .map(|number| {
                let mut held = bodies.of(named(&number.to_string()), 1 << 10);
                held.grow(1).unwrap();
                // Within what it has.
                held.grow(1 << 10).unwrap();
                held
            })
            .collect();
        let mut late = bodies.of(named("late"), 1 << 10);
        assert_eq!(late.grow(1), Err(Full::All));
        drop(held);
        assert_eq!(late.grow(1), Ok(()));
        drop(late);
        let left = bodies.held();
        assert_eq!((left.all, left.clients.len()), (0, 0));
    }

    #[test]
    fn a_client_without_a_name_is_known_by_its_address() {
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let nobody = Who::anyone();
        assert_eq!(Client::of(&nobody, one), Client::of(&nobody, one));
        assert_ne!(Client::of(&nobody, one), Client::of(&nobody, other));
        let mut ann = Who::anyone();
        ann.name = "ann".into();
        assert_eq!(Client::of(&ann, one), Client::of(&ann, other));
    }
}
