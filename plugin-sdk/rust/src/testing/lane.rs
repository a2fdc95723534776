//! Lanes of answers for tests of what handles tokens.

use crate::testing::Harness;
use crate::tokens::BoxedStep;
use crate::{Described, Ending, Failure, Fields, Lane, LaneKind, Through, Tokens};

/// A lane that a test opens.
#[derive(Clone, Debug)]
pub struct TestLane {
    /// The record that the answer is for, as it stands in logs.
    pub identity: String,
    /// The model's name.
    pub model: String,
    /// Which of the answers that were asked for.
    pub choice: u32,
    /// Which text of it.
    pub kind: LaneKind,
    /// Private attributes of the record.
    pub attributes: Vec<(String, Vec<u8>)>,
}

impl TestLane {
    /// A lane of this kind, of the first choice.
    pub fn of(kind: LaneKind) -> TestLane {
        TestLane {
            identity: "source 0 partition 0 offset 0".to_owned(),
            model: "model".to_owned(),
            choice: 0,
            kind,
            attributes: Vec::new(),
        }
    }

    /// What is said.
    pub fn content() -> TestLane {
        TestLane::of(LaneKind::Content)
    }

    /// The arguments of the first call.
    pub fn arguments() -> TestLane {
        TestLane::of(LaneKind::Arguments(0))
    }

    /// The operator is told what it reads, as by the host.
    fn lane(&self, reads: Fields) -> Lane<'_> {
        Lane {
            identity: &self.identity,
            model: &self.model,
            choice: self.choice,
            kind: self.kind,
            attributes: match reads.contains(Fields::ATTRIBUTES) {
                true => &self.attributes,
                false => &[],
            },
        }
    }

    /// With a private attribute more.
    pub fn with_attribute(mut self, name: &str, value: impl AsRef<[u8]>) -> TestLane {
        self.attributes
            .push((name.to_owned(), value.as_ref().to_vec()));
        self
    }
}

/// A lane under test.
pub struct OpenLane<'a, T: Tokens> {
    operator: &'a T,
    answer: T::Answer,
}

impl<T: Tokens> std::fmt::Debug for OpenLane<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenLane({})", T::DESCRIPTION.name)
    }
}

impl<T: Tokens> OpenLane<'_, T> {
    /// Gives the next text of the lane.
    pub fn step(&mut self, text: &str, last: bool) -> Through {
        self.operator.step(&mut self.answer, text, last)
    }

    /// Gives all of the text in these pieces, as far as the answer goes: what was let through in sum, and how it ended.
    pub fn run<'t>(
        mut self,
        pieces: impl IntoIterator<Item = &'t str>,
    ) -> (String, Option<Ending>) {
        let mut sum = String::new();
        let mut pieces = pieces.into_iter().peekable();
        loop {
            let piece = pieces.next().unwrap_or_default();
            let last = pieces.peek().is_none();
            let Through { text, end } = self.step(piece, last);
            sum.push_str(&text);
            if last || end.is_some() {
                return (sum, end);
            }
        }
    }
}

impl<T: Tokens> Harness<T> {
    /// Opens a lane. The operator is told what it reads, as by the host.
    pub fn open(&self, lane: &TestLane) -> Result<OpenLane<'_, T>, Failure> {
        let operator = self.runner.operator();
        let answer = operator.open(&lane.lane(T::DESCRIPTION.reads))?;
        Ok(OpenLane { operator, answer })
    }
}

impl<T: Described> Harness<T> {
    /// A lane of an operator of which it is not known whether it handles tokens; none if it does not.
    pub(crate) fn open_lane(&self, lane: &TestLane) -> Option<Result<BoxedStep<'_>, Failure>> {
        let lane = lane.lane(T::DESCRIPTION.reads);
        self.runner.operator().open_lane(&lane)
    }
}
