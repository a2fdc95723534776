//! Requests as a source of the pipeline: one partition, which nobody keeps positions of.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_contract::{Assigned, Partition, Rejected, Source, SourceError, SourceEvent};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};

use super::queue::{Came, Queue, Queued, Wake};

/// One worker's view of the requests.
pub struct GatewaySource {
    queue: Arc<Queue>,
    partition: Partition,
    /// Whether the partition is read here; none before the first poll.
    ours: Option<bool>,
    paused: bool,
    ended: bool,
    /// How its worker is woken; the queue has it once the partition is read here.
    wake: Option<Wake>,
}

impl GatewaySource {
    pub(super) fn new(queue: Arc<Queue>, source: u16) -> GatewaySource {
        GatewaySource {
            queue,
            partition: Partition { source, number: 0 },
            ours: None,
            paused: false,
            ended: false,
            wake: None,
        }
    }

    fn batch(&self, queued: &[Queued]) -> SourceEvent {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_micros() as i64);
        let mut batch = BatchBuilder::default();
        let mut rejected = Vec::new();
        let mut next = 0;
        for Queued { id, record } in queued {
            next = next.max(id.offset + 1);
            let headers: Vec<_> = record
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), Some(value.as_slice())))
                .collect();
            let pushed = batch.push(&NewRecord {
                id: RecordId {
                    source: id.source,
                    partition: id.partition,
                    offset: id.offset,
                    ..RecordId::default()
                },
                event_time: Some(now),
                key: record.key.as_deref(),
                value: Some(&record.value),
                headers: &headers,
                attributes: &[],
            });
            if let Err(error) = pushed {
                rejected.push(Rejected {
                    offset: id.offset,
                    reason: error.to_string(),
                    key: record.key.as_deref().map(<[u8]>::to_vec),
                    preview: record.value.iter().take(1 << 16).copied().collect(),
                    length: record.value.len() as u64,
                    headers: None,
                    event_time: Some(now),
                    private: 0,
                });
            }
        }
        SourceEvent::Records {
            partition: self.partition,
            batch: batch.finish(now),
            rejected,
            next,
        }
    }
}

impl Source for GatewaySource {
    fn wakes(&mut self, wake: Arc<dyn Fn() + Send + Sync>) -> bool {
        self.wake = Some(wake);
        true
    }

    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        let Some(ours) = self.ours else {
            let ours = self.queue.claim();
            self.ours = Some(ours);
            if let (true, Some(wake)) = (ours, self.wake.take()) {
                self.queue.wakes(wake);
            }
            let partition = Assigned {
                partition: self.partition,
                kept: None,
            };
            let assigned = if ours { vec![partition] } else { Vec::new() };
            return Ok(SourceEvent::Assigned(assigned));
        };
        if !ours || self.ended {
            // Another worker reads it, or it was read: there is nothing to wait for but the time.
            std::thread::sleep(wait);
            return Ok(SourceEvent::Idle);
        }
        Ok(match self.queue.take(records, bytes, !self.paused, wait) {
            Came::Records(queued) => self.batch(&queued),
            Came::Closed => {
                self.ended = true;
                SourceEvent::End(self.partition)
            }
            Came::Nothing => SourceEvent::Idle,
        })
    }

    /// Nobody keeps positions of it.
    fn seek(&mut self, _: Partition, _: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn pause(&mut self, _: Partition) -> Result<(), SourceError> {
        self.paused = true;
        Ok(())
    }

    fn resume(&mut self, _: Partition) -> Result<(), SourceError> {
        self.paused = false;
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.give_up();
        Ok(())
    }
}

impl GatewaySource {
    /// Whoever comes next may read it.
    fn give_up(&mut self) {
        if self.ours.take() == Some(true) {
            self.queue.taken.store(false, Ordering::Release);
        }
    }
}

impl Drop for GatewaySource {
    fn drop(&mut self) {
        self.give_up();
    }
}
