//! Identifiers that follow from nothing. Clients see those of their own requests, and nobody is to know those of others by
//! them: each is of the system's generator.

use std::cell::RefCell;

use super::context::{SpanId, TraceId};

/// Bytes of a trace's identifier and of a span's.
const BYTES: usize = 24;
/// So many are drawn at a time by each thread: the system is asked once for all of them.
const DRAWN: usize = 128 * BYTES;

struct Drawn {
    bytes: [u8; DRAWN],
    left: usize,
}

thread_local! {
    static OF_THREAD: RefCell<Drawn> = const {
        RefCell::new(Drawn {
            bytes: [0; DRAWN],
            left: 0,
        })
    };
}

/// A trace, and a span of it or of another. None where the system gives no randomness.
pub(super) fn drawn() -> Option<(TraceId, SpanId)> {
    OF_THREAD.with_borrow_mut(|drawn| {
        if drawn.left < BYTES {
            getrandom::fill(&mut drawn.bytes).ok()?;
            drawn.left = DRAWN;
        }
        let next = drawn.bytes[..drawn.left].last_chunk::<BYTES>()?;
        let (trace, span) = next.split_first_chunk::<16>()?;
        let span = span.first_chunk()?;
        let ids = (
            TraceId::of(u128::from_be_bytes(*trace)),
            SpanId::of(u64::from_be_bytes(*span)),
        );
        drawn.left -= BYTES;
        Some(ids)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_is_another_in_every_thread() {
        let of_thread = || (0..1000).map(|_| drawn().unwrap()).collect::<Vec<_>>();
        let all = std::thread::scope(|scope| {
            let threads = [0; 4].map(|_| scope.spawn(of_thread));
            threads.map(|thread| thread.join().unwrap())
        });
        let all = all.concat();
        let traces: HashSet<_> = all.iter().map(|(trace, _)| *trace).collect();
        let spans: HashSet<_> = all.iter().map(|(_, span)| *span).collect();
        assert_eq!((traces.len(), spans.len()), (4000, 4000));
        // Of the bits that a sampler looks at, half are set.
        let ones = traces.iter().map(|trace| trace.randomness().count_ones());
        let ones: u32 = ones.sum();
        assert!((4000 * 26..4000 * 30).contains(&ones), "{ones}");
    }
}
