//! Identifiers that follow from what they are of.
//!
//! A record's trace and its spans are known by where the record came from. So whoever looks at it again, after a crash or
//! in another process, goes on with the same trace, and nothing is kept for that.

use super::context::{SpanId, TraceId};

/// Adds numbers up to an identifier: two lanes of SplitMix64's finalizer, which spreads every bit over all. It keeps no
/// secret, and needs none.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64, u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03)
    }
}

#[inline]
fn spread(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Digest {
    /// That of these texts; where one ends is part of it.
    pub fn of(texts: &[&str]) -> Digest {
        texts
            .iter()
            .fold(Digest::default(), |digest, text| digest.with_text(text))
    }

    /// With one text more.
    #[must_use]
    pub fn with_text(self, text: &str) -> Digest {
        let words = text.as_bytes().chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        words.fold(self.with(text.len() as u64), Digest::with)
    }

    /// With one number more.
    #[must_use]
    #[inline]
    pub fn with(self, number: u64) -> Digest {
        let first = spread(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ number);
        let second = spread(self.1.wrapping_add(0x8cb9_2ba7_2f3d_8dd7) ^ number.rotate_left(32));
        Digest(first, second.wrapping_add(first))
    }

    /// The trace of one of a series, by its place.
    pub fn trace_at(self, place: u64) -> TraceId {
        let low = self.low_at(place);
        TraceId::of(u128::from(spread(self.0 ^ low)) << 64 | u128::from(low))
    }

    /// The lower half of that trace, by which a sampler takes it or does not. It is asked for each record, the other half
    /// only of those that are recorded.
    #[inline]
    pub(crate) fn low_at(self, place: u64) -> u64 {
        spread(self.1 ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A span of what it is of.
    #[inline]
    pub fn span(self) -> SpanId {
        SpanId::of(self.0 ^ self.1.rotate_left(17))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_differs_anywhere_has_another_identifier_and_what_is_the_same_has_the_same() {
        let of = |source: &str, partition: u64, offset: u64| {
            Digest::of(&["tickets", source])
                .with(partition)
                .with(offset)
        };
        assert_eq!(of("a", 1, 2).trace_at(0), of("a", 1, 2).trace_at(0));
        let series = of("a", 1, 2);
        let at: HashSet<_> = (0..100_000).map(|place| series.trace_at(place)).collect();
        assert_eq!(at.len(), 100_000);
        let mut traces = HashSet::new();
        let mut spans = HashSet::new();
        for source in ["a", "b", "ab"] {
            for partition in 0..50 {
                for offset in 0..500 {
                    traces.insert(of(source, partition, offset).trace_at(0));
                    spans.insert(of(source, partition, offset).span());
                }
            }
        }
        assert_eq!((traces.len(), spans.len()), (75_000, 75_000));
        assert_ne!(
            Digest::of(&["ab", "c"]).trace_at(0),
            Digest::of(&["a", "bc"]).trace_at(0)
        );
    }
}
