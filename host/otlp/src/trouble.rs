//! Why a collector has not taken something, and how long it is left alone.

use std::time::Duration;

/// Why a collector has not taken something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// Whether it may take it when it is asked again.
    pub(crate) passes: bool,
    /// How long it wants to be left alone, if it says so.
    pub(crate) after: Option<Duration>,
}

impl Trouble {
    pub(crate) fn passing(why: impl Into<String>) -> Trouble {
        Trouble {
            why: why.into(),
            passes: true,
            after: None,
        }
    }

    pub(crate) fn lasting(why: impl Into<String>) -> Trouble {
        Trouble {
            why: why.into(),
            passes: false,
            after: None,
        }
    }
}

/// An error with what is behind it: hyper says that, not what.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

/// The shortest and the longest wait between two tries.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Longest wait that a collector may ask for.
const LONGEST_AFTER: Duration = Duration::from_secs(30);

/// How long a collector is left alone after so many tries, counted from 1.
pub(crate) fn wait(tries: u32, trouble: &Trouble) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(10));
    let own = doubled.min(LONGEST_WAIT);
    trouble
        .after
        .map_or(own, |after| after.clamp(own, LONGEST_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_left_alone_the_longer_the_more_often_it_failed_and_never_forever() {
        let away = Trouble::passing("away");
        let waits: Vec<_> = (1..8).map(|tries| wait(tries, &away).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
        let asks = |seconds| Trouble {
            after: Some(Duration::from_secs(seconds)),
            ..away.clone()
        };
        assert_eq!(wait(1, &asks(7)), Duration::from_secs(7));
        assert_eq!(wait(1, &asks(0)), FIRST_WAIT);
        assert_eq!(wait(1, &asks(86_400)), LONGEST_AFTER);
    }
}
