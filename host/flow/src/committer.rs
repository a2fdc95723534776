//! The one place where cuts are taken: flush of the sinks and entry in the commit log, under one lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{CommitLog, Cut, OperatorVersion, Recovered, SlotVersion};

use crate::entry;
use crate::error::FlowError;
use crate::output::Output;
use crate::running::{Running, Runs};
use crate::topology::{Source, Topology};

/// What became of records. Absolute since the state directory was made, or since the last cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read, those that could not be decoded included.
    pub input: u64,
    /// Written to sinks.
    pub output: u64,
    /// Dropped by operators, or sent to an output that nobody takes.
    pub dropped: u64,
    /// Dead letters.
    pub dead: u64,
    /// Records more than came in, by splits and by several targets.
    pub split: u64,
    /// Sent to an operator or a model once more.
    pub retried: u64,
    /// Tokens of finished answers.
    pub tokens: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Requests that ended.
    pub requests: u64,
    /// Requests that ended without an answer.
    pub failed: u64,
}

impl Counts {
    fn fields(&mut self) -> [(&'static str, &mut u64); 10] {
        [
            ("in", &mut self.input),
            ("out", &mut self.output),
            ("dropped", &mut self.dropped),
            ("dead", &mut self.dead),
            ("split", &mut self.split),
            ("retried", &mut self.retried),
            ("tokens", &mut self.tokens),
            ("prompt_tokens", &mut self.prompt_tokens),
            ("requests", &mut self.requests),
            ("failed", &mut self.failed),
        ]
    }

    pub(crate) fn add(&mut self, mut other: Counts) {
        for ((_, sum), (_, more)) in self.fields().into_iter().zip(other.fields()) {
            *sum += *more;
        }
    }

    /// Records that are counted as read and have no end yet.
    pub fn in_flight(&self) -> u64 {
        (self.input + self.split).saturating_sub(self.output + self.dropped + self.dead)
    }

    /// The counts that a run begins with after this cut. What was in flight from sources whose waiting records are not
    /// part of the cut is read, and counted, again.
    pub fn begin(recovered: &Recovered, sources: &[Source]) -> Result<Counts, FlowError> {
        let mut counts = Counts::from_log(&recovered.counters);
        let volatile = |source: &&Source| !source.durable_in_flight;
        let volatile: Vec<&str> = (sources.iter().filter(volatile))
            .map(|source| source.name.as_str())
            .collect();
        if !volatile.is_empty() {
            let mut kept = 0;
            for entry in entry::decode_all(&recovered.in_flight).map_err(FlowError::State)? {
                if !volatile.contains(&entry.source.as_str()) {
                    kept += entry.waits.len() as u64;
                }
            }
            let gone = counts.in_flight().saturating_sub(kept);
            let known = recovered.counters.iter().find(|(name, _)| name == VOLATILE);
            // Logs from before that was part of them: as if none of it came of a split.
            let read = known.map_or(counts.input, |(_, read)| *read).min(gone);
            let read = read.min(counts.input);
            counts.forget(CountedAgain {
                read,
                split: gone - read,
            });
        }
        Ok(counts)
    }

    /// Takes out what is read, and counted, again.
    fn forget(&mut self, again: CountedAgain) {
        self.input = self.input.saturating_sub(again.read);
        self.split = self.split.saturating_sub(again.split);
    }

    fn to_log(mut self) -> Vec<(String, u64)> {
        self.fields()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), *value))
            .collect()
    }

    /// The counts at the last cut of an earlier run.
    pub fn from_log(log: &[(String, u64)]) -> Counts {
        let mut counts = Counts::default();
        for (name, field) in counts.fields() {
            if let Some((_, value)) = log.iter().find(|(logged, _)| logged == name) {
                *field = *value;
            }
        }
        counts
    }
}

/// What is in flight and will be read, and counted, again: pieces of one record are read as that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedAgain {
    /// Records of the source.
    pub read: u64,
    /// Records more than those that came of them, by splits and by several targets.
    pub split: u64,
}

impl CountedAgain {
    pub(crate) fn add(&mut self, other: CountedAgain) {
        self.read += other.read;
        self.split += other.split;
    }
}

/// Name in the log of how many records of sources were in flight whose waiting records are not part of the cut.
const VOLATILE: &str = "volatile_in_flight";

/// What a worker brings to a cut beside its output.
pub(crate) struct Part {
    /// Number of the worker.
    pub worker: usize,
    pub cut: Cut,
    /// What its tasks would count again if the process ended after this cut.
    pub again: CountedAgain,
}

/// Takes the cuts of all workers, one after the other.
pub(crate) struct Committer {
    topology: Arc<Topology>,
    log: Arc<dyn CommitLog>,
    inner: Mutex<Inner>,
}

struct Inner {
    total: Counts,
    /// Components of the slots in the last cut.
    slots: Vec<SlotVersion>,
    running: Running,
    /// Records of sources in flight at each worker's last cut that would be read again.
    volatile: Vec<u64>,
    /// A commit failed, or is under way: what the sinks hold then belongs to no cut, and nothing more is written.
    failed: bool,
    /// The log says that the run is over.
    ended: bool,
}

impl Committer {
    /// `known` are the components that the log names.
    pub(crate) fn new(
        topology: Arc<Topology>,
        log: Arc<dyn CommitLog>,
        total: Counts,
        known: Vec<SlotVersion>,
    ) -> Committer {
        Committer {
            log,
            inner: Mutex::new(Inner {
                total,
                slots: known,
                running: Running::new(&topology),
                volatile: Vec::new(),
                failed: false,
                ended: false,
            }),
            topology,
        }
    }

    /// A worker's tasks run these versions, by stage.
    pub(crate) fn set_running(&self, worker: usize, runs: Vec<Runs>) {
        self.lock().running.set(worker, runs);
    }

    /// The components that the log names, by slot.
    pub(crate) fn slots(&self) -> Vec<SlotVersion> {
        self.lock().slots.clone()
    }

    /// A deployment to a stage is done: the log says so before whoever asked for it is told.
    pub(crate) fn deployed(&self, stage: usize, version: &OperatorVersion) -> Result<(), String> {
        let mut inner = self.lock();
        if inner.ended {
            return Err("the run has ended".to_owned());
        }
        if inner.failed {
            return Err(FlowError::AfterFailure.to_string());
        }
        inner.running.deployed(&self.topology, stage, version);
        let slots = inner.running.name(&self.topology);
        if slots != inner.slots {
            inner.failed = true;
            let cut = Cut {
                slots: slots.clone(),
                ..Cut::default()
            };
            self.log.commit(&cut).map_err(|error| error.to_string())?;
            inner.failed = false;
            inner.slots = slots;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a worker's output and its cut durable. The lock spans both: the length of a file that two workers write
    /// must not count bytes whose cut does not hold.
    pub(crate) fn commit(&self, part: Part, output: &mut Output) -> Result<u64, FlowError> {
        let Part {
            worker,
            mut cut,
            again,
        } = part;
        let mut inner = self.lock();
        // Also set when a sink panicked: its bytes may be in a file that another worker's cut would count.
        if inner.failed {
            return Err(FlowError::AfterFailure);
        }
        inner.failed = true;
        output.flush(&mut cut)?;
        let mut sum = inner.total;
        sum.add(std::mem::take(&mut output.counts));
        sum.forget(std::mem::take(&mut output.abandoned));
        if inner.volatile.len() <= worker {
            inner.volatile.resize(worker + 1, 0);
        }
        inner.volatile[worker] = again.read;
        cut.counters = sum.to_log();
        let volatile = inner.volatile.iter().sum();
        cut.counters.push((VOLATILE.to_owned(), volatile));
        let slots = inner.running.name(&self.topology);
        if slots != inner.slots {
            cut.slots.clone_from(&slots);
        }
        let number = self.log.commit(&cut)?;
        inner.total = sum;
        inner.slots = slots;
        inner.failed = false;
        Ok(number)
    }

    /// Says that the run is over, and all it wrote is in a cut.
    pub(crate) fn end(&self) -> Result<(), FlowError> {
        let mut inner = self.lock();
        if inner.failed {
            return Err(FlowError::AfterFailure);
        }
        inner.ended = true;
        let cut = Cut {
            ended: true,
            ..Cut::default()
        };
        self.log.commit(&cut)?;
        Ok(())
    }

    /// What the cuts so far add up to.
    pub(crate) fn total(&self) -> Counts {
        self.lock().total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_is_counted_once_and_what_goes_on_stays_counted() {
        let read = Counts {
            input: 20,
            output: 9,
            dropped: 2,
            dead: 1,
            split: 4,
            ..Counts::default()
        };
        // Twelve of 24 ended, and eight of the others, five records of a source and three pieces more, are read again.
        let mut counts = read;
        counts.forget(CountedAgain { read: 5, split: 3 });
        assert_eq!((counts.input, counts.split, counts.in_flight()), (15, 1, 4));
    }

    fn topic() -> Source {
        Source {
            name: "topic".into(),
            targets: Vec::new(),
            positions_in_log: false,
            durable_in_flight: false,
            identities: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_begins_counts_what_is_read_again_once_whether_it_was_split_or_not() {
        // Of 101 records 100 are out, and one was split into a thousand pieces that wait.
        let log = |more: Option<u64>| Recovered {
            counters: [("in", 101), ("out", 100), ("split", 999)]
                .into_iter()
                .chain(more.map(|read| (VOLATILE, read)))
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            ..Recovered::default()
        };
        let counts = Counts::begin(&log(Some(1)), &[topic()]).unwrap();
        assert_eq!(
            (counts.input, counts.split, counts.in_flight()),
            (100, 0, 0)
        );
        // Of a log that does not say so the counts are balanced at least.
        let counts = Counts::begin(&log(None), &[topic()]).unwrap();
        assert_eq!(counts.in_flight(), 0);
        assert_eq!(Counts::begin(&log(Some(1)), &[]).unwrap().in_flight(), 1000);
    }

    #[test]
    fn what_is_abandoned_leaves_the_counts_balanced_also_where_most_of_it_came_of_splits() {
        let mut counts = Counts {
            input: 2,
            output: 1,
            split: 9,
            ..Counts::default()
        };
        counts.forget(CountedAgain { read: 1, split: 9 });
        assert_eq!((counts.input, counts.split, counts.in_flight()), (1, 0, 0));
    }
}
