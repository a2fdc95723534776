//! Cases of operators that handle tokens: a text is given in its pieces, and once more cut otherwise, since in sum the same
//! must go on.

use std::time::Instant;

use serde_json::Value;
use tidegate_contract::{AnswerEnd, AnswerLane, OperatorError, Slot as _, TokenHandler};
use tidegate_operator::ComponentSlot;

use crate::cases::{ExpectedThrough, TokensCase, word};
use crate::compare::Differences;
use crate::heard::{Heard, Lines};
use crate::outcome::Refusal;
use crate::show;

/// What went on of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Through {
    /// Of each piece, as far as the answer went.
    pub(crate) each: Vec<String>,
    pub(crate) end: Option<AnswerEnd>,
}

impl Through {
    pub(crate) fn sum(&self) -> String {
        self.each.concat()
    }
}

/// What came of a case.
#[derive(Debug)]
pub(crate) struct Handled {
    /// Of the pieces as the case has them.
    pub(crate) came: Through,
    /// Of the same text cut otherwise: how, and what went on or how it failed.
    pub(crate) again: Vec<(&'static str, Result<Through, String>)>,
    /// What was logged of the pieces as the case has them.
    pub(crate) lines: Lines,
}

impl Handled {
    /// Whether in sum the same went on however the text was cut.
    pub(crate) fn is_the_same_however_cut(&self) -> bool {
        let (sum, end) = (self.came.sum(), self.came.end);
        self.again.iter().all(|(_, other)| {
            let other = other.as_ref();
            other.is_ok_and(|other| other.end == end && other.sum() == sum)
        })
    }
}

/// Why a text was not handled.
#[derive(Debug)]
pub(crate) enum Unhandled {
    /// In the operator's words.
    Failed(Refusal),
    Broken(String),
    /// The time was over before.
    Late,
}

impl From<OperatorError> for Unhandled {
    fn from(error: OperatorError) -> Unhandled {
        match error {
            OperatorError::Failed { why, .. } | OperatorError::Poison { why, .. }
                if Refusal::said(&why).class.is_some() =>
            {
                Unhandled::Failed(Refusal::said(&why))
            }
            other => Unhandled::Broken(other.to_string()),
        }
    }
}

/// Runs a case.
pub(crate) fn handle(
    slot: &ComponentSlot,
    heard: &Heard,
    case: &TokensCase,
    until: Instant,
) -> Result<Handled, Unhandled> {
    // The lines of an instance begin with those of its start.
    heard.take();
    let mut handler = slot.tokens()?.handler;
    let mut given = |pieces: &[&str]| {
        let came = give(&mut *handler, case, pieces, until);
        handler.close(LANE);
        came
    };
    let pieces: Vec<&str> = case.pieces.iter().map(String::as_str).collect();
    let came = given(&pieces)?;
    let lines = heard.take();
    let whole = case.pieces.concat();
    let characters: Vec<&str> = match whole.as_str() {
        "" => vec![""],
        // What is before the first and behind the last is empty.
        whole => whole.split("").filter(|one| !one.is_empty()).collect(),
    };
    let mut again = Vec::new();
    for (cut, pieces) in [
        ("in one piece", vec![whole.as_str()]),
        ("character by character", characters),
        // As every lane of a pipeline ends: it is known late that nothing more comes.
        ("with its end apart", vec![whole.as_str(), ""]),
    ] {
        again.push(match given(&pieces) {
            Ok(through) => (cut, Ok(through)),
            Err(Unhandled::Failed(refusal)) => (cut, Err(refusal.message)),
            Err(other) => return Err(other),
        });
    }
    Ok(Handled { came, again, lines })
}

/// The one lane that is open.
const LANE: u64 = 1;

fn give(
    handler: &mut dyn TokenHandler,
    case: &TokensCase,
    pieces: &[&str],
    until: Instant,
) -> Result<Through, Unhandled> {
    handler.open(
        LANE,
        &AnswerLane {
            record: &case.record,
            model: &case.model,
            choice: case.choice,
            lane: case.lane,
            attributes: &case.attributes,
        },
    )?;
    let mut through = Through::default();
    for (at, piece) in pieces.iter().enumerate() {
        if Instant::now() >= until {
            return Err(Unhandled::Late);
        }
        let came = handler.step(LANE, piece, at + 1 == pieces.len())?;
        through.each.push(came.text);
        through.end = came.end;
        if came.end.is_some() {
            break;
        }
    }
    Ok(through)
}

/// What differs.
pub(crate) fn compare(found: &mut Differences, case: &TokensCase, handled: &Handled) {
    let Handled { came, again, .. } = handled;
    match &case.through {
        None => found.add(
            "tokens",
            "that it has through, or the case failure",
            show::json(&Value::from(came.each.clone())),
        ),
        Some(ExpectedThrough::Sum(expected)) => text(found, "through", expected, &came.sum()),
        Some(ExpectedThrough::Each(expected)) => {
            for (at, (expected, came)) in expected.iter().zip(&came.each).enumerate() {
                text(found, &format!("through[{}]", at + 1), expected, came);
            }
            if expected.len() != came.each.len() {
                let pieces = |count: usize| format!("{count} pieces");
                found.add("through", pieces(expected.len()), pieces(came.each.len()));
            }
        }
    }
    end(found, "end", case.end, came.end);
    for (cut, other) in again {
        let place = format!("the same text {cut}");
        match other {
            Ok(other) => {
                text(found, &place, &came.sum(), &other.sum());
                end(found, &format!("{place}, end"), came.end, other.end);
            }
            Err(why) => found.add(place, "no failure", why.as_str()),
        }
    }
}

fn text(found: &mut Differences, place: &str, expected: &str, came: &str) {
    found.bytes(place, Some(expected.as_bytes()), Some(came.as_bytes()));
}

fn end(found: &mut Differences, place: &str, expected: Option<AnswerEnd>, came: Option<AnswerEnd>) {
    let shown = |end: Option<AnswerEnd>| end.map_or("none", word);
    if expected != came {
        found.add(place, shown(expected), shown(came));
    }
}
