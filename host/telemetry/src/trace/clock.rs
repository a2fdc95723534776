//! Instants as times.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What instants are told from.
static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The system's time at that instant, nanoseconds since the Unix epoch; 0 if not known yet.
static TIME_AT_BASE: AtomicU64 = AtomicU64::new(0);
/// From which instant on the system's clock is looked at again, nanoseconds after that instant.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);
/// It is looked at so often, nanoseconds: reading it costs as much as the rest of a span's times.
const LOOKS: u64 = 100_000_000;
/// The system's clock is set anew if it is so far from where it was, nanoseconds.
const SET_ANEW: u64 = 1_000_000_000;

/// An instant as nanoseconds since the Unix epoch: the same whenever it is told, unless the system's clock is set meanwhile,
/// so that what is within a span stays within.
pub fn at(instant: Instant) -> u64 {
    let base = *BASE;
    let whole = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let later = instant.checked_duration_since(base).map(whole);
    if later.unwrap_or(0) >= NEXT_LOOK.load(Ordering::Relaxed) {
        look(whole(base.elapsed()));
    }
    let time_at_base = TIME_AT_BASE.load(Ordering::Relaxed);
    match later {
        Some(later) => time_at_base.saturating_add(later),
        None => time_at_base.saturating_sub(whole(base.duration_since(instant))),
    }
}

/// Looks whether the system's clock was set, so long after the base.
#[cold]
fn look(elapsed: u64) {
    let now = nanoseconds(SystemTime::now()).saturating_sub(elapsed);
    if TIME_AT_BASE.load(Ordering::Relaxed).abs_diff(now) > SET_ANEW {
        TIME_AT_BASE.store(now, Ordering::Relaxed);
    }
    NEXT_LOOK.store(elapsed.saturating_add(LOOKS), Ordering::Relaxed);
}

/// A time as nanoseconds since the Unix epoch.
pub fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_same_time_whenever_it_is_told() {
        let instant = Instant::now();
        let told = at(instant);
        assert!((0..100).all(|_| at(instant) == told));
        let system = nanoseconds(SystemTime::now());
        assert!(system.abs_diff(at(Instant::now())) < 2 * SET_ANEW);
        let earlier = instant.checked_sub(Duration::from_millis(5)).unwrap();
        assert_eq!(at(earlier) + 5_000_000, told);
    }
}
