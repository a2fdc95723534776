//! Taking a cut: everything the tasks have done since the last one becomes durable.

use std::time::Instant;

use tidegate_contract::{Cut, Partition, SourceError};
use tidegate_telemetry::events::CutCommitted;

use super::Worker;
use crate::committer::{CountedAgain, Counts, Part};
use crate::error::FlowError;
use crate::task::Task;

impl Worker {
    pub(super) fn cut_is_due(&self) -> bool {
        if self.output.is_full() {
            return true;
        }
        self.last_cut.elapsed() >= self.shared.topology.cut_interval
            && (self.output.pending() > 0
                || self.output.counts != Counts::default()
                || self.output.abandoned != CountedAgain::default()
                || self.tasks.values().any(Task::has_changes))
    }

    /// Makes everything the tasks have done since the last cut durable.
    pub(super) fn cut(&mut self) -> Result<(), FlowError> {
        self.cut_but(None).map(drop)
    }

    /// The same; that one source does not take its positions is no failure of the cut, and returned.
    pub(super) fn cut_but(
        &mut self,
        may_refuse: Option<usize>,
    ) -> Result<Option<SourceError>, FlowError> {
        self.last_cut = Instant::now();
        let mut cut = Cut::default();
        let mut positions: Vec<(Partition, u64)> = Vec::new();
        let mut again = CountedAgain::default();
        for task in self.tasks.values_mut() {
            again.add(task.counted_again());
            if let Some(position) = task.cut(&mut cut) {
                positions.push((task.partition, position));
            }
        }
        let in_flight = self.in_flight();
        let output = &mut self.output;
        let empty = cut.sources.is_empty()
            && cut.in_flight_added.is_empty()
            && cut.in_flight_done.is_empty()
            && output.counts == Counts::default()
            && output.abandoned == CountedAgain::default()
            && output.sinks.iter().all(|sink| sink.pending() == 0)
            && output.dead.pending() == 0;
        self.tell_running();
        let output = &mut self.output;
        if !empty {
            let began = Instant::now();
            let part = Part {
                worker: self.number,
                cut,
                again,
            };
            let number = self.shared.committer.commit(part, output)?;
            CutCommitted {
                cut: number,
                worker: self.number,
                records: output.finished.iter().map(|(_, records)| records).sum(),
                in_flight: in_flight as u64,
                time: began.elapsed(),
            }
            .emit(&output.meters);
        }
        let mut refused = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            let described = &self.shared.topology.sources[index];
            let of_source: Vec<(Partition, u64)> = positions
                .iter()
                .filter(|(partition, _)| usize::from(partition.source) == index)
                .copied()
                .collect();
            if !described.positions_in_log && !of_source.is_empty() {
                match source.commit(&of_source) {
                    Ok(()) => {}
                    Err(error) if may_refuse == Some(index) => {
                        refused = Some(error);
                        continue;
                    }
                    Err(error) => {
                        return Err(FlowError::Source {
                            name: described.name.clone(),
                            error,
                        });
                    }
                }
            }
            for (partition, position) in of_source {
                if let Some(task) = self.tasks.get_mut(&partition) {
                    task.committed(position);
                }
            }
        }
        let now = Instant::now();
        for (since, records) in self.output.finished.drain(..) {
            self.output
                .latency
                .record(now.duration_since(since), records);
        }
        Ok(refused)
    }
}
