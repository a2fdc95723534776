//! What becomes of records, as values that own what they hold.

use tidegate_record as record;
use tidegate_record::{Emission, Outcome};

/// Headers or attributes: name and value, none for null.
pub(crate) type Pairs = Vec<(String, Option<Vec<u8>>)>;

/// What changes of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The new key, if it changes; none inside means null.
    pub(crate) key: Option<Option<Vec<u8>>>,
    /// The new value, if it changes; none inside means null.
    pub(crate) value: Option<Option<Vec<u8>>>,
    pub(crate) headers: Vec<Change>,
    pub(crate) attributes: Vec<Change>,
    /// The new event time, if it changes; none inside means that it has none.
    pub(crate) event_time: Option<Option<i64>>,
}

impl Patch {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Patch::default()
    }
}

impl From<&record::Patch<'_>> for Patch {
    fn from(patch: &record::Patch<'_>) -> Patch {
        let owned = |bytes: Option<Option<&[u8]>>| bytes.map(|bytes| bytes.map(<[u8]>::to_vec));
        Patch {
            key: owned(patch.key()),
            value: owned(patch.value()),
            headers: patch.headers().map(Change::from).collect(),
            attributes: patch.attributes().map(Change::from).collect(),
            event_time: patch.event_time(),
        }
    }
}

/// A change of headers or attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// One pair in place of all of the name.
    Set(String, Option<Vec<u8>>),
    /// One pair more.
    Add(String, Option<Vec<u8>>),
    /// None of the name.
    Remove(String),
}

impl From<record::Change<'_>> for Change {
    fn from(change: record::Change<'_>) -> Change {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        match change {
            record::Change::Set { name, value } => Change::Set(name.to_owned(), owned(value)),
            record::Change::Add { name, value } => Change::Add(name.to_owned(), owned(value)),
            record::Change::Remove { name } => Change::Remove(name.to_owned()),
        }
    }
}

/// A record of a split, or one that is routed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// A named output; none for the main one.
    pub(crate) to: Option<String>,
    pub(crate) patch: Patch,
}

impl Piece {
    fn of(emission: &Emission<'_>, outputs: &[String]) -> Piece {
        let named = usize::from(emission.output).checked_sub(1);
        Piece {
            to: named.and_then(|index| outputs.get(index).cloned()),
            patch: Patch::from(&emission.patch),
        }
    }
}

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Pass,
    Drop,
    Replace(Patch),
    Split(Vec<Piece>),
    Route(Piece),
    Retry {
        after_ms: u32,
        reason: String,
        /// What became of it when it came again, where that was tried.
        then: Option<Box<Came>>,
    },
    DeadLetter(String),
    /// The host makes it a dead letter.
    Poison {
        reason: String,
        /// What stands beneath it: a backtrace, the operator's last lines.
        beneath: String,
    },
}

impl Came {
    /// What an operator with these outputs answered. What means the same is the same: a replace or a route to the main
    /// output without changes is a pass, a split without pieces a drop.
    pub(crate) fn of(outcome: &Outcome<'_>, outputs: &[String]) -> Came {
        let replace = |patch: Patch| match patch.is_empty() {
            true => Came::Pass,
            false => Came::Replace(patch),
        };
        match outcome {
            Outcome::Pass => Came::Pass,
            Outcome::Drop => Came::Drop,
            Outcome::Replace(patch) => replace(Patch::from(patch)),
            Outcome::Split(pieces) if pieces.is_empty() => Came::Drop,
            Outcome::Split(pieces) => {
                let pieces = pieces.iter().map(|piece| Piece::of(piece, outputs));
                Came::Split(pieces.collect())
            }
            Outcome::Route(piece) => match Piece::of(piece, outputs) {
                Piece { to: None, patch } => replace(patch),
                piece => Came::Route(piece),
            },
            Outcome::Retry { delay_ms, reason } => Came::Retry {
                after_ms: *delay_ms,
                reason: (*reason).to_owned(),
                then: None,
            },
            Outcome::DeadLetter { reason } => Came::DeadLetter((*reason).to_owned()),
        }
    }

    /// Whether the record comes again to this operator.
    pub(crate) fn comes_again(&self) -> bool {
        matches!(self, Came::Retry { .. })
    }
}

/// Whether something failed for good, in an operator's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Transient,
    Permanent,
    BadConfiguration,
}

impl Class {
    const ALL: [Class; 3] = [Class::Transient, Class::Permanent, Class::BadConfiguration];

    /// Its name in the WIT.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Transient => "transient",
            Class::Permanent => "permanent",
            Class::BadConfiguration => "bad-configuration",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// How a batch failed, or a configuration was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// None where it was not said in words, but trapped, or was late.
    pub(crate) class: Option<Class>,
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    /// What stands beneath it: a backtrace, the operator's last lines.
    pub(crate) beneath: String,
}

impl Refusal {
    /// What the host says of a failure: `operator error CODE (CLASS): MESSAGE` is in the operator's words, whose class is
    /// left out where it is permanent.
    pub(crate) fn said(text: &str) -> Refusal {
        let (first, beneath) = text.split_once('\n').unwrap_or((text, ""));
        let words = first
            .strip_prefix("operator error ")
            .and_then(|words| words.split_once(": "));
        let Some((head, message)) = words else {
            return Refusal {
                message: first.to_owned(),
                beneath: beneath.to_owned(),
                ..Refusal::default()
            };
        };
        let (code, class) = match head.split_once(" (") {
            Some((code, "transient)")) => (code, Class::Transient),
            Some((code, _)) => (code, Class::BadConfiguration),
            None => (head, Class::Permanent),
        };
        Refusal {
            class: Some(class),
            code: Some(code.to_owned()),
            message: message.to_owned(),
            beneath: beneath.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_says_of_a_failure_is_taken_apart() {
        let refusal = |class, code: Option<&str>, message: &str, beneath: &str| Refusal {
            class,
            code: code.map(str::to_owned),
            message: message.to_owned(),
            beneath: beneath.to_owned(),
        };
        for (text, expected) in [
            (
                "operator error not-now (transient): busy: later",
                refusal(Some(Class::Transient), Some("not-now"), "busy: later", ""),
            ),
            (
                "operator error refused (bad configuration): no\nstandard error:\na line",
                refusal(
                    Some(Class::BadConfiguration),
                    Some("refused"),
                    "no",
                    "standard error:\na line",
                ),
            ),
            (
                "operator error broken: (for good): it is",
                refusal(
                    Some(Class::Permanent),
                    Some("broken"),
                    "(for good): it is",
                    "",
                ),
            ),
            (
                "trap: unreachable",
                refusal(None, None, "trap: unreachable", ""),
            ),
        ] {
            assert_eq!(Refusal::said(text), expected);
        }
    }
}
