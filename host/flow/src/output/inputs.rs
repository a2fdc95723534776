//! Which inputs the records of a worker are read from.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_contract::Partition;
use tidegate_record::{RecordId, RecordView};

use crate::begin;
use crate::topology::Source;
use crate::traced::ReadingRun;

/// By partition, what tells its records from those of another input that have the same names.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Whose inputs are read once.
    run: Option<ReadingRun>,
    by_partition: HashMap<Partition, Input>,
}

#[derive(Debug)]
struct Input {
    identity: Arc<str>,
    /// It is another in each run, and which one is noted with each record.
    once: bool,
}

impl Inputs {
    /// Those of this run.
    pub(super) fn new(run: Option<ReadingRun>) -> Inputs {
        let by_partition = HashMap::new();
        Inputs { run, by_partition }
    }

    /// From now on this partition of a source is read, of this input.
    pub(crate) fn reads(&mut self, partition: Partition, source: &Source, identity: &str) {
        // Who asked is told, and nothing of it is sent again.
        if source.called || identity.is_empty() {
            self.by_partition.remove(&partition);
            return;
        }
        let input = Input {
            identity: identity.into(),
            once: source.is_read_once(),
        };
        self.by_partition.insert(partition, input);
    }

    /// What this record was read from, if that is known: by an earlier run, if it waited since.
    pub(super) fn of(&self, record: &RecordView<'_>) -> Option<Arc<str>> {
        self.read_in(record.id(), ReadingRun::of(record))
    }

    /// What this run reads there, if that is known.
    pub(super) fn now(&self, id: RecordId) -> Option<Arc<str>> {
        self.read_in(id, self.run)
    }

    /// What was read there, whichever run it was; none where each run has another.
    pub(super) fn always(&self, id: RecordId) -> Option<Arc<str>> {
        self.read_in(id, None)
    }

    fn read_in(&self, id: RecordId, run: Option<ReadingRun>) -> Option<Arc<str>> {
        let partition = Partition {
            source: id.source,
            number: id.partition,
        };
        let input = self.by_partition.get(&partition)?;
        match input.once {
            true => Some(begin::identity(&input.identity, &run?.to_string()).into()),
            false => Some(input.identity.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Positions;

    fn source(positions: Positions, called: bool) -> Source {
        Source {
            name: "in".into(),
            targets: Vec::new(),
            fixed: false,
            positions,
            called,
            beside: false,
            identities: Vec::new(),
            apart: String::new(),
        }
    }

    #[test]
    fn what_is_read_once_is_another_input_in_each_run_and_a_topic_is_the_same() {
        let id = RecordId {
            source: 3,
            partition: 2,
            ..RecordId::default()
        };
        let partition = Partition {
            source: 3,
            number: 2,
        };
        let of = |positions, called, identity| {
            let mut inputs = Inputs::new(ReadingRun::begins());
            inputs.reads(partition, &source(positions, called), identity);
            let always = inputs.always(id);
            inputs
                .now(id)
                .map(|now| (now.to_string(), always.is_some()))
        };
        let topic = || of(Positions::Cuts, false, "kafka topic t (id 7)");
        assert_eq!(topic(), Some(("kafka topic t (id 7)".to_owned(), true)));
        let stdin = || of(Positions::Nobody, false, "standard input").unwrap();
        assert!(
            stdin().0.starts_with("standard input (id "),
            "{}",
            stdin().0
        );
        assert_ne!(stdin(), stdin());
        assert!(!stdin().1, "which run it was is known of a record alone");
        assert_eq!(of(Positions::Nobody, true, "requests"), None);
        assert_eq!(of(Positions::Cuts, false, ""), None);
    }
}
