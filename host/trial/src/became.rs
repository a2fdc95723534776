//! What became of records, held against what became of them before: by another operator.

use tidegate_record::Outcome;

use crate::cases::{ExpectedOutcome, Text};
use crate::compare::{Difference, Differences};
use crate::outcome::Came;

/// What became of a record, with all of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Became(Came);

impl Became {
    /// What an operator with these outputs answered.
    pub fn of(outcome: &Outcome<'_>, outputs: &[String]) -> Became {
        Became(Came::of(outcome, outputs))
    }

    /// The host makes it a dead letter, for this reason.
    pub fn failed(reason: &str) -> Became {
        Became(Came::Poison {
            reason: reason.to_owned(),
            beneath: String::new(),
        })
    }

    /// How what became of it now is otherwise, by field: nothing where it is not. `place` names the record.
    pub fn differences(&self, now: &Became, place: &str) -> Vec<Difference> {
        let mut found = Differences::default();
        if self != now {
            found.outcome(place, &as_expected(&self.0), &now.0);
        }
        found.0
    }
}

/// An outcome that is expected again.
pub(crate) fn as_expected(came: &Came) -> ExpectedOutcome {
    match came.clone() {
        Came::Pass => ExpectedOutcome::Pass,
        Came::Drop => ExpectedOutcome::Drop,
        Came::Replace(patch) => ExpectedOutcome::Replace(patch),
        Came::Split(pieces) => ExpectedOutcome::Split(pieces),
        Came::Route(piece) => ExpectedOutcome::Route(piece),
        Came::Retry {
            after_ms, reason, ..
        } => ExpectedOutcome::Retry {
            after_ms,
            reason: Text::Whole(reason),
            then: None,
        },
        Came::DeadLetter(reason) => ExpectedOutcome::DeadLetter(Text::Whole(reason)),
        Came::Poison { reason, .. } => ExpectedOutcome::Poison(Text::Whole(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Patch;

    fn replaced(value: &str) -> Became {
        Became(Came::Replace(Patch {
            value: Some(Some(value.as_bytes().to_vec())),
            ..Patch::default()
        }))
    }

    #[test]
    fn a_difference_is_found_wherever_it_is_and_shown_with_what_is_around_it() {
        let long = "x".repeat(10_000);
        let (before, now) = (replaced(&format!("{long}A")), replaced(&format!("{long}B")));
        assert_eq!(before.differences(&before, "record 1"), []);
        let found = before.differences(&now, "record 1");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "record 1, value from byte 10000 on");
        assert!(found[0].expected.contains("xA\"") && found[0].came.contains("xB\""));
        let found = before.differences(&Became::failed("trap: unreachable"), "record 2");
        assert!(found[0].came.contains("trap: unreachable"), "{found:?}");
        let found = Became::failed("one").differences(&Became::failed("another"), "record 3");
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
