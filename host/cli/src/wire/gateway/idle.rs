//! A source that another worker reads: this one never gives anything.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{Partition, Source, SourceError, SourceEvent};

/// Requests and ingest logs are one partition each, which one worker has.
pub(in crate::wire) struct Idle {
    assigned: bool,
}

impl Idle {
    pub(in crate::wire) fn new() -> Idle {
        Idle { assigned: false }
    }
}

impl Source for Idle {
    fn poll(&mut self, _: usize, _: usize, wait: Duration) -> Result<SourceEvent, SourceError> {
        if !self.assigned {
            self.assigned = true;
            return Ok(SourceEvent::Assigned(Vec::new()));
        }
        std::thread::sleep(wait);
        Ok(SourceEvent::Idle)
    }

    /// There is never anything to wake for.
    fn wakes(&mut self, _: Arc<dyn Fn() + Send + Sync>) -> bool {
        true
    }

    fn pause(&mut self, _: Partition) -> Result<(), SourceError> {
        Ok(())
    }

    fn resume(&mut self, _: Partition) -> Result<(), SourceError> {
        Ok(())
    }
}
