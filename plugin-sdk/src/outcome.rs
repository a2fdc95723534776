//! What an operator says of a record.

use std::fmt;
use std::time::Duration;

use tidegate_record::{Change, PatchBuilder};

/// Changes to a record; what is not mentioned stays as it was.
#[derive(Clone, Debug, Default)]
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

    /// Removes a private attribute.
    pub fn remove_attribute(mut self, name: &str) -> Changes {
        self.patch.attribute(Change::Remove { name });
        self
    }

    /// Replaces the event time, microseconds since the Unix epoch.
    pub fn event_time(mut self, time: i64) -> Changes {
        self.patch.set_event_time(Some(time));
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
#[derive(Clone, Debug, Default)]
pub struct Piece {
    pub(crate) output: Option<&'static str>,
    pub(crate) changes: Changes,
}

impl Piece {
    /// A piece that goes to a named output.
    pub fn to(output: &'static str, changes: Changes) -> Piece {
        Piece {
            output: Some(output),
            changes,
        }
    }
}

impl From<Changes> for Piece {
    /// A piece that goes to the main output.
    fn from(changes: Changes) -> Piece {
        Piece {
            output: None,
            changes,
        }
    }
}

/// What becomes of a record.
#[derive(Clone, Debug)]
#[must_use]
pub enum Outcome {
    /// It goes on as it is.
    Pass,
    /// It ends here.
    Drop,
    /// It goes on changed.
    Replace(Changes),
    /// It becomes several records, or none.
    Split(Vec<Piece>),
    /// It goes to a named output, changed or not.
    Route(&'static str, Changes),
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
}

impl Outcome {
    /// The record goes on, with the changes that follow: `Outcome::replace().value("new")`.
    pub fn replace() -> Outcome {
        Outcome::Replace(Changes::new())
    }

    /// The record goes to a named output; changes may follow.
    pub fn route(output: &'static str) -> Outcome {
        Outcome::Route(output, Changes::new())
    }

    /// The record becomes these: [`Changes`] for the main output, [`Piece::to`] for a named one.
    pub fn split(pieces: impl IntoIterator<Item = impl Into<Piece>>) -> Outcome {
        Outcome::Split(pieces.into_iter().map(Into::into).collect())
    }

    /// The record comes again after a while.
    pub fn retry(after: Duration, reason: impl Into<String>) -> Outcome {
        Outcome::Retry {
            after,
            reason: reason.into(),
        }
    }

    /// The record goes to the dead letters.
    pub fn dead_letter(reason: impl Into<String>) -> Outcome {
        Outcome::DeadLetter {
            reason: reason.into(),
        }
    }

    /// Applies more changes to a record that goes on. `Pass` becomes `Replace`; where no single record goes on
    /// (drop, split, retry, dead letter) nothing happens.
    pub fn with(self, change: impl FnOnce(Changes) -> Changes) -> Outcome {
        match self {
            Outcome::Pass => Outcome::Replace(change(Changes::new())),
            Outcome::Replace(changes) => Outcome::Replace(change(changes)),
            Outcome::Route(output, changes) => Outcome::Route(output, change(changes)),
            other => other,
        }
    }

    /// Replaces the key; see [`Outcome::with`].
    pub fn key(self, key: impl Into<Vec<u8>>) -> Outcome {
        self.with(|changes| changes.key(key))
    }

    /// Replaces the value; see [`Outcome::with`].
    pub fn value(self, value: impl Into<Vec<u8>>) -> Outcome {
        self.with(|changes| changes.value(value))
    }

    /// Replaces every header of this name by one; see [`Outcome::with`].
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Outcome {
        self.with(|changes| changes.header(name, value))
    }

    /// Removes every header of this name; see [`Outcome::with`].
    pub fn remove_header(self, name: &str) -> Outcome {
        self.with(|changes| changes.remove_header(name))
    }

    /// Sets a private attribute; see [`Outcome::with`].
    pub fn attribute(self, name: &str, value: impl AsRef<[u8]>) -> Outcome {
        self.with(|changes| changes.attribute(name, value))
    }

    /// Removes a private attribute; see [`Outcome::with`].
    pub fn remove_attribute(self, name: &str) -> Outcome {
        self.with(|changes| changes.remove_attribute(name))
    }

    /// Replaces the event time, microseconds since the Unix epoch; see [`Outcome::with`].
    pub fn event_time(self, time: i64) -> Outcome {
        self.with(|changes| changes.event_time(time))
    }
}

impl From<Changes> for Outcome {
    fn from(changes: Changes) -> Outcome {
        Outcome::Replace(changes)
    }
}

/// What an operator function may return.
pub trait IntoOutcome {
    /// The outcome it stands for.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    #[inline]
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for Changes {
    fn into_outcome(self) -> Outcome {
        Outcome::Replace(self)
    }
}

impl IntoOutcome for bool {
    /// `true` passes, `false` drops.
    #[inline]
    fn into_outcome(self) -> Outcome {
        if self { Outcome::Pass } else { Outcome::Drop }
    }
}

impl<T: IntoOutcome, E: fmt::Display> IntoOutcome for Result<T, E> {
    /// An error is the reason of a dead letter.
    #[inline]
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(outcome) => outcome.into_outcome(),
            Err(error) => Outcome::dead_letter(error.to_string()),
        }
    }
}
