//! Listeners of one file each have a port of their own.

use std::net::SocketAddr;

use super::findings::Findings;
use super::text::Span;

/// A place where something listens, with the key that says so.
pub(crate) struct Listener {
    pub(crate) key: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) place: Span,
}

/// Finds those that could not both listen.
pub(crate) fn look(found: &Findings, listeners: &[Listener]) {
    for (at, later) in listeners.iter().enumerate() {
        let taken = listeners[..at].iter().find(|earlier| {
            covers(earlier.address, later.address) || covers(later.address, earlier.address)
        });
        if let Some(earlier) = taken {
            found.mistake(
                &later.place,
                later.key,
                format!(
                    "{} cannot listen beside {} = \"{}\"; write another port",
                    later.address, earlier.key, earlier.address
                ),
            );
        }
    }
}

/// Whether nobody else can listen at the second address while the first is taken. Port 0 is any free one.
fn covers(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() && (one.is_ipv6() || other.is_ipv4());
    one.port() != 0 && one.port() == other.port() && (one.ip() == other.ip() || everywhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_takes_its_port_from_those_that_it_covers() {
        for (one, other, taken) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            let covered = covers(one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(covered, taken, "{one} {other}");
        }
    }
}
