//! Which inputs the records of a worker are read from.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_contract::Partition;
use tidegate_record::RecordId;

use crate::begin;
use crate::topology::{Positions, Source};

/// By partition, what tells its records from those of another input that have the same names.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    by_partition: HashMap<Partition, Arc<str>>,
}

impl Inputs {
    /// From now on this partition of a source is read, of this input.
    pub(crate) fn reads(&mut self, partition: Partition, source: &Source, identity: &str) {
        let input = match source.positions {
            // Who asked is told, and nothing of it is sent again.
            _ if source.called || identity.is_empty() => None,
            Positions::Nobody => read_once(identity),
            Positions::Cuts | Positions::CutsAndSource => Some(identity.to_owned()),
        };
        match input {
            Some(input) => self.by_partition.insert(partition, input.into()),
            None => self.by_partition.remove(&partition),
        };
    }

    /// What this record was read from, if that is known.
    pub(super) fn of(&self, id: RecordId) -> Option<Arc<str>> {
        let partition = Partition {
            source: id.source,
            number: id.partition,
        };
        self.by_partition.get(&partition).cloned()
    }
}

/// What cannot be read again is another input each time, though its offsets are the same.
fn read_once(identity: &str) -> Option<String> {
    let mut run = [0; 8];
    getrandom::fill(&mut run).ok()?;
    let run = u64::from_be_bytes(run);
    Some(begin::identity(identity, &format!("{run:016x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut inputs = Inputs::default();
            inputs.reads(partition, &source(positions, called), identity);
            inputs.of(id).map(|input| input.to_string())
        };
        let topic = || of(Positions::Cuts, false, "kafka topic t (id 7)");
        assert_eq!(topic().as_deref(), Some("kafka topic t (id 7)"));
        let stdin = || of(Positions::Nobody, false, "standard input").unwrap();
        assert!(stdin().starts_with("standard input (id "), "{}", stdin());
        assert_ne!(stdin(), stdin());
        assert_eq!(of(Positions::Nobody, true, "requests"), None);
        assert_eq!(of(Positions::Cuts, false, ""), None);
    }
}
