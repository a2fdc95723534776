//! A source that another worker reads: this one never gives anything.

use std::time::Duration;

use tidegate_contract::{Partition, Source, SourceError, SourceEvent};

/// Requests and ingest logs are one partition, which the first worker has.
pub(super) struct Idle {
    assigned: bool,
}

impl Idle {
    pub(super) fn new() -> Idle {
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

    fn pause(&mut self, _: Partition) -> Result<(), SourceError> {
        Ok(())
    }

    fn resume(&mut self, _: Partition) -> Result<(), SourceError> {
        Ok(())
    }
}
