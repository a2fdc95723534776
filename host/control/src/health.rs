//! What the admin API says of a host's health.

use serde::{Deserialize, Serialize};

/// Whether a host is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthReport {
    /// Whether its own threads go on: if not, only a restart helps.
    pub live: bool,
    /// Whether it does its work now. What it waits for may be elsewhere.
    pub ready: bool,
    /// Why it is not live, or not ready, each in a sentence.
    pub reasons: Vec<String>,
}

impl HealthReport {
    /// Of a host with nothing in its way.
    pub fn well() -> HealthReport {
        HealthReport {
            live: true,
            ready: true,
            reasons: Vec::new(),
        }
    }
}
