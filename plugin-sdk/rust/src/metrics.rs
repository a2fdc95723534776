//! What an operator measures. A metric is declared as a constant, named in `#[operator(metrics = [...])]`, and measured
//! while a record is processed: it counts if the outcome of that record does, so records that come again count once.
//! What the host would refuse is not sent: the value of a label is cut at 256 bytes, at a character border, and a value
//! that is not finite is ignored. A record with more than 256 measurements fails, in the
//! [`Harness`](crate::testing::Harness) too.
//!
//! ```
//! use tidegate_sdk::metrics::Counter;
//! use tidegate_sdk::prelude::*;
//!
//! const WORDS: Counter = Counter::new("words", "Words seen, by language").labels(&["language"]);
//!
//! #[operator(name = "count-words", metrics = [WORDS])]
//! fn count_words(record: &Record) -> Result<Outcome, FieldError> {
//!     WORDS.add_for(&["en"], record.text()?.split_whitespace().count() as u64);
//!     Ok(Outcome::Pass)
//! }
//!
//! let mut operator = Harness::<CountWords>::start("{}").unwrap();
//! operator.run_one(TestRecord::of("two words"));
//! assert_eq!(operator.counter("words", &["en"]), 2);
//! ```

use std::cell::RefCell;

use tidegate_record::MAX_LABEL;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum of amounts.
    Counter,
    /// The last value.
    Gauge,
    /// How often values fell between bounds.
    Histogram,
}

/// What the host is told about a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declaration {
    /// Its name: `[a-z][a-z0-9_]*`, at most 64 bytes. It is shown as `tidegate_operator_NAME`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// One line for people, at most 512 bytes.
    pub help: &'static str,
    /// Names of its labels, at most 8.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram, ascending, at most 32; none for the usual ones.
    pub bounds: &'static [f64],
}

macro_rules! metric {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(Declaration);

        impl $name {
            /// Declares it: its name (`[a-z][a-z0-9_]*`) and one line for people.
            pub const fn new(name: &'static str, help: &'static str) -> $name {
                $name(Declaration {
                    name,
                    kind: $kind,
                    help,
                    labels: &[],
                    bounds: &[],
                })
            }

            /// Names its labels, at most 8.
            pub const fn labels(mut self, labels: &'static [&'static str]) -> $name {
                self.0.labels = labels;
                self
            }

            /// What the host is told about it.
            pub const fn declaration(&self) -> Declaration {
                self.0
            }
        }
    };
}

metric!(
    /// A sum of amounts.
    Counter,
    Kind::Counter
);
metric!(
    /// The last of some values.
    Gauge,
    Kind::Gauge
);
metric!(
    /// How often values fell between bounds.
    Histogram,
    Kind::Histogram
);

impl Counter {
    /// Adds an amount, of a counter without labels.
    pub fn add(&self, amount: u64) {
        measure(&self.0, &[], amount);
    }

    /// Adds an amount under these values of its labels, in their order.
    pub fn add_for(&self, labels: &[&str], amount: u64) {
        measure(&self.0, labels, amount);
    }
}

impl Gauge {
    /// Sets the value, of a gauge without labels. One that is not finite is ignored.
    pub fn set(&self, value: f64) {
        measure_value(&self.0, &[], value);
    }

    /// Sets the value under these values of its labels, in their order. One that is not finite is ignored.
    pub fn set_for(&self, labels: &[&str], value: f64) {
        measure_value(&self.0, labels, value);
    }
}

impl Histogram {
    /// Upper bounds, ascending, at most 32. Without, they are those usual for seconds: 0.005 to 10.
    pub const fn bounds(mut self, bounds: &'static [f64]) -> Histogram {
        self.0.bounds = bounds;
        self
    }

    /// Adds a value, of a histogram without labels. One that is not finite is ignored.
    pub fn observe(&self, value: f64) {
        measure_value(&self.0, &[], value);
    }

    /// Adds a value under these values of its labels, in their order. One that is not finite is ignored.
    pub fn observe_for(&self, labels: &[&str], value: f64) {
        measure_value(&self.0, labels, value);
    }
}

/// A measurement that waits for the outcome of its record.
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) bits: u64,
    pub(crate) labels: Vec<String>,
}

/// As much of a label's value as the host takes.
pub(crate) fn cut(label: &str) -> &str {
    &label[..label.floor_char_boundary(MAX_LABEL)]
}

thread_local! {
    static MEASURED: RefCell<Vec<Measurement>> = const { RefCell::new(Vec::new()) };
}

/// Measures a value, unless it is not finite: the host would refuse the whole answer.
fn measure_value(declaration: &Declaration, labels: &[&str], value: f64) {
    if value.is_finite() {
        measure(declaration, labels, value.to_bits());
    }
}

fn measure(declaration: &Declaration, labels: &[&str], bits: u64) {
    let labels = labels.iter().map(|label| cut(label).to_owned()).collect();
    MEASURED.with_borrow_mut(|measured| {
        measured.push(Measurement {
            name: declaration.name,
            bits,
            labels,
        });
    });
}

/// Whether anything has been measured since it was last asked.
#[inline]
pub(crate) fn is_any() -> bool {
    MEASURED.with_borrow(|measured| !measured.is_empty())
}

/// Takes what has been measured since it was last asked.
#[inline]
pub(crate) fn take() -> Vec<Measurement> {
    MEASURED.take()
}
