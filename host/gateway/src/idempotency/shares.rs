//! What is kept, and whose: within one bound, no client's answers push out those of one who has fewer bytes of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::time::Instant;

use super::key::Digest;

/// Its place among all that are kept: when it is forgotten, and its number.
pub(super) type Place = (Instant, u64);

/// One that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) key: Digest,
    pub(super) client: Digest,
    pub(super) bytes: usize,
}

/// All that are kept, oldest first.
#[derive(Debug, Default)]
pub(super) struct Shares {
    by_time: BTreeMap<Place, Kept>,
    clients: HashMap<Digest, Share>,
    /// Clients by their bytes.
    by_bytes: BTreeSet<(usize, Digest)>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    places: BTreeSet<Place>,
}

impl Shares {
    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, place: Place, kept: Kept) {
        self.remove(place);
        self.change(kept.client, |share| {
            share.bytes += kept.bytes;
            share.places.insert(place);
        });
        self.bytes += kept.bytes;
        self.by_time.insert(place, kept);
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Kept> {
        let kept = self.by_time.remove(&place)?;
        self.change(kept.client, |share| {
            share.bytes -= kept.bytes;
            share.places.remove(&place);
        });
        self.bytes -= kept.bytes;
        Some(kept)
    }

    /// Takes out the oldest, if its time has come.
    pub(super) fn take_old(&mut self, now: Instant) -> Option<Kept> {
        let (place, _) = self.by_time.first_key_value()?;
        let place = *place;
        if place.0 > now {
            return None;
        }
        self.remove(place)
    }

    /// Takes out the oldest of the client that has the most bytes.
    pub(super) fn take_of_largest(&mut self) -> Option<Kept> {
        let (_, client) = self.by_bytes.last()?;
        let place = *self.clients.get(client)?.places.first()?;
        self.remove(place)
    }

    fn change(&mut self, client: Digest, change: impl FnOnce(&mut Share)) {
        let share = self.clients.entry(client).or_default();
        self.by_bytes.remove(&(share.bytes, client));
        change(share);
        if share.places.is_empty() {
            self.clients.remove(&client);
        } else {
            self.by_bytes.insert((share.bytes, client));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_oldest_of_whoever_has_most_goes_first() {
        let now = Instant::now();
        let digest = |text: &str| Digest::of([text.as_bytes()]);
        let mut shares = Shares::default();
        let mut number = 0;
        let mut add = |shares: &mut Shares, client: &str, bytes| {
            number += 1;
            let kept = Kept {
                key: digest(&number.to_string()),
                client: digest(client),
                bytes,
            };
            shares.add((now + Duration::from_secs(number), number), kept);
        };
        add(&mut shares, "ann", 10);
        for _ in 0..5 {
            add(&mut shares, "bob", 10);
        }
        assert_eq!(shares.bytes(), 60);
        for expected in ["2", "3", "4", "5"] {
            let taken = shares.take_of_largest().unwrap();
            assert_eq!(taken.key, digest(expected));
        }
        assert_eq!(shares.bytes(), 20);
        assert_eq!(shares.take_old(now), None);
        let later = now + Duration::from_secs(1);
        assert_eq!(shares.take_old(later).unwrap().key, digest("1"));
        assert_eq!(shares.take_old(later), None);
        assert_eq!(shares.take_of_largest().unwrap().key, digest("6"));
        assert_eq!((shares.take_of_largest(), shares.bytes()), (None, 0));
        assert!(shares.clients.is_empty() && shares.by_bytes.is_empty());
    }
}
