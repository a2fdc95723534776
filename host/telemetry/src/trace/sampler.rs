//! Which traces are recorded.

use super::context::TraceId;
use super::ids::Digest;

/// The random part of a trace id has so many values.
const RANDOM: u64 = 1 << 56;

/// Traces that whoever sends records or requests may have recorded, a second, where nothing else is said.
const FORCED: u32 = 1000;

/// Records what a parent has recorded, up to a bound, and of traces that begin here a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Traces with a random part below it are not recorded: W3C's threshold, so that whoever samples the same part by
    /// the same rule has the same traces.
    threshold: u64,
    forced: u32,
}

impl Sampler {
    /// For this part of the traces that begin here, from 0 to 1.
    pub fn new(part: f64) -> Sampler {
        let left_out = (1.0 - part.clamp(0.0, 1.0)) * RANDOM as f64;
        Sampler {
            // Nothing is lost: the product is at most 2^56.
            threshold: left_out as u64,
            forced: FORCED,
        }
    }

    /// With so many a second, of each source and of the gateway, that are recorded because their parent was.
    #[must_use]
    pub fn forced(self, forced: u32) -> Sampler {
        Sampler { forced, ..self }
    }

    /// How many those are.
    pub(super) fn most_forced(&self) -> u32 {
        self.forced
    }

    /// Whether a trace that begins here is recorded.
    #[inline]
    pub fn takes(&self, trace: TraceId) -> bool {
        trace.randomness() >= self.threshold
    }

    /// The trace of one of a series, by its place, if it is recorded.
    #[inline]
    pub fn takes_of(&self, series: Digest, place: u64) -> Option<TraceId> {
        let randomness = series.low_at(place) & (RANDOM - 1);
        (randomness >= self.threshold).then(|| series.trace_at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Digest;

    #[test]
    fn the_part_that_is_asked_for_is_taken_and_always_the_same() {
        let traces = || (0..100_000u64).map(|number| Digest::of(&["a"]).trace_at(number));
        for (part, least, most) in [
            (0.0, 0, 0),
            (0.01, 850, 1150),
            (0.5, 49_000, 51_000),
            (1.0, 100_000, 100_000),
        ] {
            let sampler = Sampler::new(part);
            let taken = traces().filter(|trace| sampler.takes(*trace)).count();
            let series = Digest::of(&["a"]);
            let of_series = (0..100_000u64).filter_map(|number| sampler.takes_of(series, number));
            assert!(of_series.eq(traces().filter(|trace| sampler.takes(*trace))));
            assert!((least..=most).contains(&taken), "{part}: {taken}");
        }
        // A larger part has all of a smaller one.
        let (few, many) = (Sampler::new(0.01), Sampler::new(0.1));
        assert!(
            traces()
                .filter(|trace| few.takes(*trace))
                .all(|trace| many.takes(trace))
        );
    }
}
