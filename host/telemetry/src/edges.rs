//! What went from whom to whom: a counter for each way between two parts of a pipeline.

use crate::meters::Counter;

/// Who sends records on, by index in the pipeline file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// A source.
    Source(usize),
    /// A stage, by whichever output.
    Stage(usize),
}

/// Who takes records, by index in the pipeline file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taker {
    /// A stage.
    Stage(usize),
    /// A sink.
    Sink(usize),
}

/// The ways of a pipeline. They are known before it runs, so counting needs no lock.
#[derive(Debug, Default)]
pub struct Edges {
    /// In the order of their ends, each once.
    sorted: Vec<((Sender, Taker), Counter)>,
}

impl Edges {
    /// Ways that stand at zero; one that is named twice is one.
    pub fn new(ways: impl IntoIterator<Item = (Sender, Taker)>) -> Self {
        let mut ways: Vec<_> = ways.into_iter().collect();
        ways.sort_unstable();
        ways.dedup();
        let zero = |way| (way, Counter::default());
        Self {
            sorted: ways.into_iter().map(zero).collect(),
        }
    }

    /// Records went this way. One that is not known is not counted.
    pub fn add(&self, from: Sender, to: Taker, records: u64) {
        if let Some(counter) = self.counter(from, to) {
            counter.add(records);
        }
    }

    /// How many went this way since the start.
    pub fn get(&self, from: Sender, to: Taker) -> u64 {
        self.counter(from, to).map_or(0, Counter::get)
    }

    fn counter(&self, from: Sender, to: Taker) -> Option<&Counter> {
        let at = self.sorted.binary_search_by_key(&(from, to), |way| way.0);
        self.sorted.get(at.ok()?).map(|way| &way.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_counts_for_itself() {
        let (source, stage) = (Sender::Source(0), Sender::Stage(0));
        let edges = Edges::new([
            (stage, Taker::Sink(0)),
            (source, Taker::Stage(0)),
            (stage, Taker::Sink(0)),
        ]);
        edges.add(source, Taker::Stage(0), 3);
        edges.add(stage, Taker::Sink(0), 2);
        edges.add(stage, Taker::Sink(1), 7);
        assert_eq!(edges.get(source, Taker::Stage(0)), 3);
        assert_eq!(edges.get(stage, Taker::Sink(0)), 2);
        assert_eq!(edges.get(stage, Taker::Sink(1)), 0);
    }
}
