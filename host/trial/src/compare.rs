//! What came held against what is expected, by record and field.

use std::fmt;

use serde_json::Value;

use crate::cases::{ExpectedFailure, ExpectedOutcome, Measured, Measurement, Text};
use crate::heard::Lines;
use crate::outcome::{Came, Change, Patch, Piece, Refusal};
use crate::{show, write};

/// Something that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where: `record 2, value`. Records, pieces and lines are counted from 1.
    pub place: String,
    /// What was expected.
    pub expected: String,
    /// What came.
    pub came: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            place,
            expected,
            came,
        } = self;
        write!(f, "{place}: expected {expected}, came {came}")
    }
}

/// Differences found so far.
#[derive(Debug, Default)]
pub(crate) struct Differences(pub(crate) Vec<Difference>);

impl Differences {
    pub(crate) fn add(
        &mut self,
        place: impl Into<String>,
        expected: impl Into<String>,
        came: impl Into<String>,
    ) {
        self.0.push(Difference {
            place: place.into(),
            expected: expected.into(),
            came: came.into(),
        });
    }

    /// The outcome of a record.
    pub(crate) fn outcome(&mut self, place: &str, expected: &ExpectedOutcome, came: &Came) {
        match (expected, came) {
            (ExpectedOutcome::Pass, Came::Pass) | (ExpectedOutcome::Drop, Came::Drop) => {}
            (ExpectedOutcome::Replace(expected), Came::Replace(came)) => {
                self.patch(place, expected, came);
            }
            (ExpectedOutcome::Split(expected), Came::Split(came)) => {
                if expected.len() != came.len() {
                    let pieces = |pieces: &[Piece]| format!("{} pieces", pieces.len());
                    self.add(place, pieces(expected), pieces(came));
                }
                for (at, (expected, came)) in expected.iter().zip(came).enumerate() {
                    self.piece(&format!("{place}, piece {}", at + 1), expected, came);
                }
            }
            (ExpectedOutcome::Route(expected), Came::Route(came)) => {
                self.piece(place, expected, came);
            }
            (
                ExpectedOutcome::Retry {
                    after_ms,
                    reason,
                    then,
                },
                Came::Retry {
                    after_ms: came_after,
                    reason: came_reason,
                    then: came_then,
                },
            ) => {
                if after_ms != came_after {
                    let shown = |after: &u32| after.to_string();
                    self.add(
                        format!("{place}, after-ms"),
                        shown(after_ms),
                        shown(came_after),
                    );
                }
                self.text(&format!("{place}, reason"), reason, came_reason, "");
                let place = format!("{place} when it comes again");
                match (then, came_then) {
                    (Some(then), Some(came)) => self.outcome(&place, then, came),
                    (Some(then), None) => {
                        self.add(place, show::json(&write::expected(then)), "nothing");
                    }
                    (None, _) => {}
                }
            }
            (
                ExpectedOutcome::DeadLetter(expected) | ExpectedOutcome::Raised(expected),
                Came::DeadLetter(reason),
            ) => self.text(&format!("{place}, dead-letter"), expected, reason, ""),
            (
                ExpectedOutcome::Poison(expected) | ExpectedOutcome::Raised(expected),
                Came::Poison { reason, beneath },
            ) => self.text(&format!("{place}, poison"), expected, reason, beneath),
            (expected, came) => {
                let mut shown = show::json(&write::came(came));
                if let Came::Poison { beneath, .. } = came
                    && !beneath.is_empty()
                {
                    shown = format!(
                        "{shown} with {}",
                        show::json(&Value::from(beneath.as_str()))
                    );
                }
                self.add(place, show::json(&write::expected(expected)), shown);
            }
        }
    }

    fn piece(&mut self, place: &str, expected: &Piece, came: &Piece) {
        if expected.to != came.to {
            let shown = |to: &Option<String>| match to {
                None => "the main output".to_owned(),
                Some(to) => show::json(&Value::from(to.as_str())),
            };
            self.add(format!("{place}, to"), shown(&expected.to), shown(&came.to));
        }
        self.patch(place, &expected.patch, &came.patch);
    }

    fn patch(&mut self, place: &str, expected: &Patch, came: &Patch) {
        self.field(place, "key", &expected.key, &came.key);
        self.field(place, "value", &expected.value, &came.value);
        self.changes(
            &format!("{place}, headers"),
            &expected.headers,
            &came.headers,
        );
        let attributes = format!("{place}, attributes");
        self.changes(&attributes, &expected.attributes, &came.attributes);
        if expected.event_time != came.event_time {
            let shown = |time: Option<Option<i64>>| match time {
                None => "as it was".to_owned(),
                Some(time) => write::time(time).to_string(),
            };
            self.add(
                format!("{place}, event-time"),
                shown(expected.event_time),
                shown(came.event_time),
            );
        }
    }

    /// Key or value: none for as it was.
    fn field(
        &mut self,
        place: &str,
        name: &str,
        expected: &Option<Option<Vec<u8>>>,
        came: &Option<Option<Vec<u8>>>,
    ) {
        match (expected, came) {
            (Some(expected), Some(came)) => {
                self.bytes(
                    &format!("{place}, {name}"),
                    expected.as_deref(),
                    came.as_deref(),
                );
            }
            (None, None) => {}
            (expected, came) => {
                let shown = |field: &Option<Option<Vec<u8>>>| match field {
                    None => "as it was".to_owned(),
                    Some(bytes) => show::bytes(bytes.as_deref(), None).1,
                };
                self.add(format!("{place}, {name}"), shown(expected), shown(came));
            }
        }
    }

    pub(crate) fn bytes(&mut self, place: &str, expected: Option<&[u8]>, came: Option<&[u8]>) {
        if expected == came {
            return;
        }
        let (at, expected, came) = show::bytes(expected, came);
        let place = match at {
            None => place.to_owned(),
            Some(at) => format!("{place} from byte {at} on"),
        };
        self.add(place, expected, came);
    }

    fn changes(&mut self, place: &str, expected: &[Change], came: &[Change]) {
        if expected == came {
            return;
        }
        if expected.len() != came.len() {
            let shown = |changes: &[Change]| match changes {
                [] => "as they were".to_owned(),
                changes => show::json(&write::changes(changes)),
            };
            self.add(place, shown(expected), shown(came));
            return;
        }
        for (at, (expected, came)) in expected.iter().zip(came).enumerate() {
            let place = format!("{place}, change {}", at + 1);
            match (expected, came) {
                (Change::Set(name, value), Change::Set(came_name, came_value))
                | (Change::Add(name, value), Change::Add(came_name, came_value))
                    if name == came_name =>
                {
                    let place = format!("{place} ({})", show::json(&Value::from(name.as_str())));
                    self.bytes(&place, value.as_deref(), came_value.as_deref());
                }
                (expected, came) if expected == came => {}
                (expected, came) => {
                    let shown = |change: &Change| show::json(&write::change(change));
                    self.add(place, shown(expected), shown(came));
                }
            }
        }
    }

    fn text(&mut self, place: &str, expected: &Text, came: &str, beneath: &str) {
        if !expected.matches(came, beneath) {
            let expected = show::json(&write::text(expected));
            self.add(place, expected, show::text(came, beneath));
        }
    }

    /// A failure of the whole batch, or a configuration that is refused.
    pub(crate) fn failure(&mut self, place: &str, expected: &ExpectedFailure, came: &Refusal) {
        if let Some(class) = expected.class
            && came.class != Some(class)
        {
            let found = came.class.map_or("none", |class| class.name());
            self.add(
                format!("{place}, class"),
                class.name(),
                format!("{found}: {}", show::text(&came.message, &came.beneath)),
            );
        }
        if expected.code.is_some() && expected.code != came.code {
            let shown = |code: &Option<String>| match code {
                None => "none".to_owned(),
                Some(code) => show::json(&Value::from(code.as_str())),
            };
            self.add(
                format!("{place}, code"),
                shown(&expected.code),
                shown(&came.code),
            );
        }
        if let Some(message) = &expected.message {
            self.text(
                &format!("{place}, message"),
                message,
                &came.message,
                &came.beneath,
            );
        }
    }

    /// Every line, in order.
    pub(crate) fn log(&mut self, expected: &[(tidegate_operator::Level, Text)], came: &Lines) {
        let all = came.kept.len() + came.more;
        for at in 0..expected.len().max(came.kept.len()) {
            let same = match (expected.get(at), came.kept.get(at)) {
                (Some((level, text)), Some((came_level, line))) => {
                    level == came_level && text.matches(line, "")
                }
                _ => false,
            };
            if !same {
                let nothing = || "nothing".to_owned();
                let expected = expected.get(at).map_or_else(nothing, |(level, text)| {
                    show::json(&write::line(*level, write::text(text)))
                });
                let came = came.kept.get(at).map_or_else(nothing, |(level, line)| {
                    show::json(&write::line(*level, line.as_str()))
                });
                let place = format!("log, line {} of {all}", at + 1);
                return self.add(place, expected, came);
            }
        }
        if came.more > 0 {
            let lines = |number: usize| format!("{number} lines");
            self.add("log", lines(expected.len()), lines(all));
        }
    }

    /// Everything that is measured, in any order.
    pub(crate) fn metrics(&mut self, expected: &[Measurement], came: &[Measurement]) {
        let same = |one: &Measurement, other: &Measurement| {
            one.name == other.name && one.labels == other.labels
        };
        let shown = |found: Option<&Measurement>| match found {
            None => "nothing".to_owned(),
            Some(measurement) => show::json(&write::measured(measurement.value)),
        };
        for one in expected {
            let other = came.iter().find(|other| same(one, other));
            if !close(Some(one.value), other.map(|other| other.value)) {
                self.add(series(one), shown(Some(one)), shown(other));
            }
        }
        for other in came {
            let unexpected = !expected.iter().any(|one| same(one, other));
            if unexpected && !close(None, Some(other.value)) {
                self.add(series(other), shown(None), shown(Some(other)));
            }
        }
    }
}

impl Text {
    fn matches(&self, text: &str, beneath: &str) -> bool {
        match self {
            Text::Whole(whole) => whole == text,
            Text::Contains(parts) => parts
                .iter()
                .all(|part| text.contains(part) || beneath.contains(part)),
        }
    }
}

/// As it is shown in Prometheus's format.
fn series(measurement: &Measurement) -> String {
    let labels = measurement.labels.iter();
    let labels = labels.map(|(name, value)| format!("{name}={}", Value::from(value.as_str())));
    let labels = labels.collect::<Vec<_>>().join(",");
    let name = &measurement.name;
    let shown = match labels.is_empty() {
        true => format!("metric {name}"),
        false => format!("metric {name}{{{labels}}}"),
    };
    tidegate_telemetry::plain(&shown, 400).into_owned()
}

/// Whether two measurements are the same but for how their sums were rounded. A number that stayed at zero is as if it
/// had not been measured.
fn close(one: Option<Measured>, other: Option<Measured>) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    match (one, other) {
        (Some(Measured::Number(a)), Some(Measured::Number(b))) => near(a, b),
        (
            Some(Measured::Spread { count, sum }),
            Some(Measured::Spread {
                count: other_count,
                sum: other_sum,
            }),
        ) => count == other_count && near(sum, other_sum),
        (None, Some(Measured::Number(number))) | (Some(Measured::Number(number)), None) => {
            number == 0.0
        }
        (None, None) => true,
        _ => false,
    }
}
