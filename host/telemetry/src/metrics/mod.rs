//! Metrics: what is measured, described once, and what it amounts to now.
//!
//! A [`Family`] stands once, in [`table`](self::table); whoever measures hands its samples to an [`Exposition`], and one
//! writer makes Prometheus's text of it. The same collection can be walked ([`Exposition::families`]), so that whoever
//! exports it otherwise says the same. Every sample carries the moment from which it counts.

mod family;
mod gauge;
mod histogram;
pub mod table;
mod text;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::SystemTime;

use crate::meters::Counter;
use crate::trace::nanoseconds;

pub use self::family::{Family, Kind, Label, Since, Unit};
pub use self::gauge::{Gauge, Stretch, StretchPart};
pub use self::histogram::{
    CUT_SECONDS, Histogram, REQUEST_SECONDS, STAGE_SECONDS, Spread, TOKEN_SECONDS,
};

/// What is measured, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    /// When the process began, nanoseconds since 1970; 0 if that is not known.
    process: u64,
    families: Vec<Measured>,
    places: HashMap<Cow<'static, str>, usize>,
}

/// What became of the points of metrics that were made for a collector.
#[derive(Debug, Default)]
pub struct PointCounts {
    /// Those that it has taken.
    pub exported: Counter,
    /// Those that it has refused or not taken in time.
    pub failed: Counter,
}

/// A family with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its whole name, as Prometheus has it.
    pub name: Cow<'static, str>,
    /// What its samples are.
    pub kind: Kind,
    /// What they are measured in.
    pub unit: Unit,
    /// One line for people.
    pub help: Cow<'static, str>,
    /// In the order in which they were handed in.
    pub samples: Vec<Sample>,
}

/// What a family amounts to for one set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Names and values of its labels.
    pub labels: Vec<(Cow<'static, str>, String)>,
    /// What it amounts to.
    pub value: Value,
    /// The moment from which it counts: it was zero then. Nanoseconds since 1970; 0 for what says what is now.
    pub since: u64,
}

/// What a sample amounts to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number of things.
    Whole(u64),
    /// Any number.
    Real(f64),
    /// How measured values are spread.
    Spread(Spread),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Whole(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Whole(number as u64)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Value {
        Value::Whole(u64::from(is))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Real(number)
    }
}

impl From<std::time::Duration> for Value {
    fn from(time: std::time::Duration) -> Value {
        Value::Real(time.as_secs_f64())
    }
}

impl From<Spread> for Value {
    fn from(spread: Spread) -> Value {
        Value::Spread(spread)
    }
}

impl Exposition {
    /// Nothing yet, of a process that began then.
    pub fn of_process(began: SystemTime) -> Exposition {
        Exposition {
            process: nanoseconds(began),
            ..Exposition::default()
        }
    }

    /// Adds a sample of what is now, or counts from the beginning of the process; `labels` are the values of the family's
    /// labels, in its order.
    pub fn add(&mut self, family: &'static Family, labels: &[&str], value: impl Into<Value>) {
        let since = match family.since {
            Since::Now => 0,
            Since::Process | Since::Load | Since::Revision | Since::State => self.process,
        };
        self.push(family, labels, value.into(), since);
    }

    /// Adds a sample of what counts from another moment.
    pub fn add_since(
        &mut self,
        family: &'static Family,
        labels: &[&str],
        value: impl Into<Value>,
        since: SystemTime,
    ) {
        self.push(family, labels, value.into(), nanoseconds(since));
    }

    fn push(&mut self, family: &'static Family, labels: &[&str], value: Value, since: u64) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let names = family.labels.iter().map(|label| Cow::Borrowed(label.name));
        let labels = names.zip(labels.iter().map(|&value| value.to_owned()));
        let labels = labels.collect();
        let sample = Sample {
            labels,
            value,
            since,
        };
        self.declare(family).samples.push(sample);
    }

    /// Has the family stand there, also if nothing has a sample of it.
    pub fn declare(&mut self, family: &'static Family) -> &mut Measured {
        self.family(Measured {
            name: family.name.into(),
            kind: family.kind,
            unit: family.unit,
            help: family.help.into(),
            samples: Vec::new(),
        })
    }

    /// The family of this name, as whoever named it first described it. This is for families that others name, operators:
    /// who takes their names in sees to it that each means one thing.
    pub fn family(&mut self, described: Measured) -> &mut Measured {
        let next = self.families.len();
        let place = *self.places.entry(described.name.clone()).or_insert(next);
        if place == next {
            self.families.push(described);
        }
        &mut self.families[place]
    }

    /// All families, in the order in which they were handed in.
    pub fn families(&self) -> &[Measured] {
        &self.families
    }

    /// In the text format of Prometheus, 0.0.4: each family once, with its samples together.
    pub fn text(&self) -> String {
        text::write(&self.families)
    }
}
