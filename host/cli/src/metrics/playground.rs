//! The playground.

use tidegate_telemetry::metrics::{Exposition, table};

/// What it has done, by kind and how that ended, and tokens by kind.
pub(crate) struct PlaygroundNow {
    pub(crate) ended: [(&'static str, [(&'static str, u64); 3]); 2],
    pub(crate) tokens: [(&'static str, u64); 2],
}

/// Hands in what the playground counts.
pub(crate) fn playground(exposition: &mut Exposition, now: &PlaygroundNow) {
    for (kind, ends) in now.ended {
        for (outcome, number) in ends {
            exposition.add(&table::PLAYGROUND_ENDED, &[kind, outcome], number);
        }
    }
    for (kind, number) in now.tokens {
        exposition.add(&table::PLAYGROUND_TOKENS, &[kind], number);
    }
}
