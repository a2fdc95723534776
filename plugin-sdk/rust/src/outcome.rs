//! What an operator says of a record.

use std::fmt;
use std::time::Duration;

use tidegate_record::{Change, PatchBuilder};

use crate::{Failure, NoOutput, Timestamp};

/// Changes to a record; what is not mentioned stays as it was.
#[derive(Clone, Debug, Default)]
#[must_use = "changes are made by an outcome: `Outcome::replace(changes)`"]
pub struct Changes {
    patch: PatchBuilder,
}

impl Changes {
    /// No change yet.
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Replaces the key.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Changes {
        self.patch.set_key(Some(key.into()));
        self
    }

    /// Makes the key null.
    pub fn null_key(mut self) -> Changes {
        self.patch.set_key(None);
        self
    }

    /// Replaces the value.
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Changes {
        self.patch.set_value(Some(value.into()));
        self
    }

    /// Makes the value null: a tombstone.
    pub fn null_value(mut self) -> Changes {
        self.patch.set_value(None);
        self
    }

    /// Replaces every header of this name by one.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Changes {
        let value = Some(value.as_ref());
        self.patch.header(Change::Set { name, value });
        self
    }

    /// Appends a header; others of the name stay.
    pub fn add_header(mut self, name: &str, value: impl AsRef<[u8]>) -> Changes {
        let value = Some(value.as_ref());
        self.patch.header(Change::Add { name, value });
        self
    }

    /// Replaces every header of this name by one that is null.
    pub fn null_header(mut self, name: &str) -> Changes {
        self.patch.header(Change::Set { name, value: None });
        self
    }

    /// Appends a header that is null; others of the name stay.
    pub fn add_null_header(mut self, name: &str) -> Changes {
        self.patch.header(Change::Add { name, value: None });
        self
    }

    /// Removes every header of this name.
    pub fn remove_header(mut self, name: &str) -> Changes {
        self.patch.header(Change::Remove { name });
        self
    }

    /// Sets a private attribute: seen by later operators, never by a sink.
    pub fn attribute(mut self, name: &str, value: impl AsRef<[u8]>) -> Changes {
        let value = Some(value.as_ref());
        self.patch.attribute(Change::Set { name, value });
        self
    }

    /// Appends a private attribute; others of the name stay.
    pub fn add_attribute(mut self, name: &str, value: impl AsRef<[u8]>) -> Changes {
        let value = Some(value.as_ref());
        self.patch.attribute(Change::Add { name, value });
        self
    }

    /// Replaces every private attribute of this name by one that is null.
    pub fn null_attribute(mut self, name: &str) -> Changes {
        self.patch.attribute(Change::Set { name, value: None });
        self
    }

    /// Appends a private attribute that is null; others of the name stay.
    pub fn add_null_attribute(mut self, name: &str) -> Changes {
        self.patch.attribute(Change::Add { name, value: None });
        self
    }

    /// Removes a private attribute.
    pub fn remove_attribute(mut self, name: &str) -> Changes {
        self.patch.attribute(Change::Remove { name });
        self
    }

    /// Replaces the event time.
    pub fn event_time(mut self, time: Timestamp) -> Changes {
        self.patch.set_event_time(Some(time.as_micros()));
        self
    }

    /// Takes the event time away.
    pub fn no_event_time(mut self) -> Changes {
        self.patch.set_event_time(None);
        self
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.patch.is_empty()
    }

    pub(crate) fn patch(&self) -> &PatchBuilder {
        &self.patch
    }
}

/// One record of a split: where it goes and how it differs from the record it came from.
#[derive(Clone, Debug)]
#[must_use]
pub struct Piece<O = NoOutput> {
    pub(crate) output: Option<O>,
    pub(crate) changes: Changes,
}

impl<O> Piece<O> {
    /// A piece that goes to a named output.
    pub fn to(output: O, changes: Changes) -> Piece<O> {
        Piece {
            output: Some(output),
            changes,
        }
    }
}

impl<O> From<Changes> for Piece<O> {
    /// A piece that goes to the main output.
    fn from(changes: Changes) -> Piece<O> {
        Piece {
            output: None,
            changes,
        }
    }
}

/// What becomes of a record. `O` are the operator's named outputs.
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome<O = NoOutput> {
    /// It goes on as it is.
    Pass,
    /// It ends here.
    Drop,
    /// It goes on changed.
    Replace(Changes),
    /// It becomes several records, or none.
    Split(Vec<Piece<O>>),
    /// It goes to a named output, changed or not.
    Route(O, Changes),
    /// It comes again to the same operator after a while.
    Retry {
        /// How long to wait; whole milliseconds, at most 49 days.
        after: Duration,
        /// Why.
        reason: String,
    },
    /// It goes to the dead letters.
    DeadLetter {
        /// Why.
        reason: String,
    },
    /// The whole call fails: no outcome of its batch counts, and no measurement. The failure's class says what becomes of
    /// the batch; the instance stays.
    Fail(Failure),
}

impl<O> Outcome<O> {
    /// The record goes on with these changes: `Outcome::replace(Changes::new().value("new"))`.
    pub fn replace(changes: Changes) -> Outcome<O> {
        Outcome::Replace(changes)
    }

    /// The record goes to a named output, as it is.
    pub fn route(output: O) -> Outcome<O> {
        Outcome::Route(output, Changes::new())
    }

    /// The record goes to a named output with these changes.
    pub fn route_changed(output: O, changes: Changes) -> Outcome<O> {
        Outcome::Route(output, changes)
    }

    /// The record becomes these: [`Changes`] for the main output, [`Piece::to`] for a named one.
    pub fn split(pieces: impl IntoIterator<Item = impl Into<Piece<O>>>) -> Outcome<O> {
        Outcome::Split(pieces.into_iter().map(Into::into).collect())
    }

    /// The record comes again after a while.
    pub fn retry(after: Duration, reason: impl Into<String>) -> Outcome<O> {
        Outcome::Retry {
            after,
            reason: reason.into(),
        }
    }

    /// The record goes to the dead letters.
    pub fn dead_letter(reason: impl Into<String>) -> Outcome<O> {
        Outcome::DeadLetter {
            reason: reason.into(),
        }
    }
}

impl<O> From<Changes> for Outcome<O> {
    fn from(changes: Changes) -> Outcome<O> {
        Outcome::Replace(changes)
    }
}

/// What an operator function may return.
pub trait IntoOutcome {
    /// The named outputs it can go to.
    type Output: crate::Output;

    /// The outcome it stands for.
    fn into_outcome(self) -> Outcome<Self::Output>;
}

impl<O: crate::Output> IntoOutcome for Outcome<O> {
    type Output = O;

    #[inline]
    fn into_outcome(self) -> Outcome<O> {
        self
    }
}

impl IntoOutcome for Changes {
    type Output = NoOutput;

    fn into_outcome(self) -> Outcome {
        Outcome::Replace(self)
    }
}

impl IntoOutcome for bool {
    type Output = NoOutput;

    /// `true` passes, `false` drops.
    #[inline]
    fn into_outcome(self) -> Outcome {
        if self { Outcome::Pass } else { Outcome::Drop }
    }
}

impl<T: IntoOutcome, E: fmt::Display> IntoOutcome for Result<T, E> {
    type Output = T::Output;

    /// An error is the reason of a dead letter.
    #[inline]
    fn into_outcome(self) -> Outcome<T::Output> {
        match self {
            Ok(outcome) => outcome.into_outcome(),
            Err(error) => Outcome::dead_letter(error.to_string()),
        }
    }
}
