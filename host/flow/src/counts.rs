//! What became of records.

use tidegate_contract::Recovered;

/// What became of records: of a task, or of all tasks that a process knows.
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
            *sum = sum.saturating_add(*more);
        }
    }

    /// These less others, none below nothing.
    pub fn less(mut self, mut other: Counts) -> Counts {
        for ((_, sum), (_, less)) in self.fields().into_iter().zip(other.fields()) {
            *sum = sum.saturating_sub(*less);
        }
        self
    }

    /// Records that are counted as read and have no end yet.
    pub fn in_flight(&self) -> u64 {
        (self.input + self.split).saturating_sub(self.output + self.dropped + self.dead)
    }

    /// So many records were counted as written, and are dead letters.
    pub(crate) fn refused_late(mut self, records: u64) -> Counts {
        self.output = self.output.saturating_sub(records);
        self.dead += records;
        self
    }

    /// These without what is in flight: it is somebody else's.
    pub(crate) fn without_in_flight(mut self) -> Counts {
        let read = self.in_flight().min(self.input);
        self.input -= read;
        self.split = self.split.saturating_sub(self.in_flight());
        self
    }

    /// What of these, which the last cut of a task has, is left to whoever has the task next: `waits`, what waits in it, if
    /// `now` it has counted no more than they have. What came after the cut is in nobody's counts.
    pub(crate) fn left(self, now: Counts, waits: Counts) -> Counts {
        match self == now {
            true => waits,
            false => self.less(self.without_in_flight()),
        }
    }

    /// As a cut has them.
    pub(crate) fn to_log(mut self) -> Vec<(String, u64)> {
        self.fields()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), *value))
            .collect()
    }

    /// Those of all tasks that a log knows.
    pub fn recovered(recovered: &Recovered) -> Counts {
        let mut total = Counts::from_log(&recovered.counters);
        for task in recovered.tasks.values() {
            total.add(Counts::from_log(&task.counters));
        }
        total
    }

    /// As a cut has them; what it does not have is nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_others_is_of_the_last_cut_and_not_of_what_came_after_it() {
        let committed = Counts {
            input: 100,
            output: 70,
            split: 10,
            ..Counts::default()
        };
        assert_eq!(committed.in_flight(), 40);
        let waits = Counts {
            input: 35,
            split: 5,
            ..Counts::default()
        };
        assert_eq!(committed.left(committed, waits), waits);
        let rest = committed.less(waits);
        assert_eq!((rest.in_flight(), rest.output), (0, 70));
        // 50 more were read, and what had waited is done.
        let now = Counts {
            input: 150,
            output: 110,
            ..committed
        };
        let fenced = Counts {
            input: 50,
            ..Counts::default()
        };
        let left = committed.left(now, fenced);
        let rest = committed.less(left);
        assert_eq!((left.input, rest.in_flight(), rest.output), (40, 0, 70));
    }
}
