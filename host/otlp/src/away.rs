//! Whether a collector is there, for people.

use tidegate_telemetry::plain;

use crate::options::Collector;
use crate::trouble::Trouble;

/// Most bytes of what a collector says that are shown.
pub(crate) const SAID: usize = 256;

/// Whether a collector takes what it is sent: said once when it does not, and once when it does again.
pub(crate) struct Away {
    what: &'static str,
    url: String,
    is_away: bool,
}

impl Away {
    pub(crate) fn new(what: &'static str, collector: &Collector) -> Away {
        Away {
            what,
            url: collector.url(),
            is_away: false,
        }
    }

    pub(crate) fn is_back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            let (what, collector) = (self.what, &self.url);
            tracing::info!(what, collector, "the collector takes what it is sent again");
        }
    }

    pub(crate) fn is_away(&mut self, trouble: &Trouble) {
        if !std::mem::replace(&mut self.is_away, true) {
            let (what, collector) = (self.what, &self.url);
            let why = &*plain(&trouble.why, SAID);
            tracing::warn!(
                what,
                collector,
                why,
                "the collector takes nothing; the stream goes on without it"
            );
        }
    }
}
