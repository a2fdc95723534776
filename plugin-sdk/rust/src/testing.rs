//! Runs an operator natively, in `cargo test`, through the same encoding as in WebAssembly.
//!
//! Records are copied into a packed batch with the fields the operator reads, and no others, as the host does; its
//! answer is decoded and applied as the host does. What an operator forgets to declare is missing here too.

mod cases;
mod lane;
mod record;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tidegate_record::{
    Batch, BatchBuilder, Emission, Excerpt, Layout, MAX_SAMPLES, Outcome, OutcomesView, RecordView,
    Sample,
};

pub use cases::CaseReport;
pub use lane::{OpenLane, TestLane};
pub use record::TestRecord;

use crate::host::imports::TOLD;
use crate::metrics::{Declaration, cut};
use crate::{Described, Failure, Level, Runner, Timestamp};

/// An operator under test. One at a time on a thread: log lines are kept per thread.
pub struct Harness<T> {
    runner: Runner<T>,
    clock: Timestamp,
    seed: [u8; 16],
    /// What was measured: amounts, or the bits of values, by metric and labels.
    measured: BTreeMap<(String, Vec<String>), Vec<u64>>,
}

// Not derived: an operator need not be `Debug` for its harness to be unwrapped.
impl<T: Described> fmt::Debug for Harness<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("operator", &T::DESCRIPTION.name)
            .field("clock", &self.clock)
            .finish()
    }
}

impl<T: Described> Harness<T> {
    /// Configures the operator, with JSON text or a `serde_json::json!` value. The failure is what the user would see.
    pub fn start(config: impl ToString) -> Result<Harness<T>, Failure> {
        TOLD.with_borrow_mut(|told| *told = Default::default());
        Ok(Harness {
            runner: Runner::start(&config.to_string())?,
            clock: Timestamp::from_secs(1_700_000_000),
            seed: *b"a seed for tests",
            measured: BTreeMap::new(),
        })
    }

    /// Sets the clock that the next batches carry.
    pub fn set_clock(&mut self, clock: Timestamp) {
        self.clock = clock;
    }

    /// Sets what the records of the next batches draw random numbers from.
    pub fn set_seed(&mut self, seed: [u8; 16]) {
        self.seed = seed;
    }

    /// Names of the outputs that the operator has under its configuration, beside the main one.
    pub fn outputs(&self) -> &[String] {
        self.runner.outputs()
    }

    /// Runs one batch and says what became of each record.
    ///
    /// # Panics
    /// If the operator fails the batch, or answers with something the host would refuse.
    pub fn run(&mut self, records: &[TestRecord]) -> Vec<Answer> {
        match self.try_run(records) {
            Ok(answers) => answers,
            Err(error) => panic!("the operator failed the batch: {error}"),
        }
    }

    /// Runs a batch of one record.
    ///
    /// # Panics
    /// As [`Harness::run`].
    pub fn run_one(&mut self, record: TestRecord) -> Answer {
        let mut answers = self.run(&[record]);
        match answers.pop() {
            Some(answer) => answer,
            None => panic!("no answer"),
        }
    }

    /// Runs one batch; a failure is what fails the whole call.
    pub fn try_run(&mut self, records: &[TestRecord]) -> Result<Vec<Answer>, Failure> {
        self.try_with(records, Answer::of)
    }

    /// Runs one batch, and makes something of the outcome of each record, which is given with the names of the outputs.
    fn try_with<R>(
        &mut self,
        records: &[TestRecord],
        make: fn(&RecordView<'_>, Outcome<'_>, &[String]) -> Result<R, String>,
    ) -> Result<Vec<R>, Failure> {
        let refused = |why| Failure::permanent("refused", why);
        let full = batch(records, self.clock).map_err(refused)?;
        let reads = T::DESCRIPTION.reads;
        let excerpt = Excerpt::new(full.view(), reads, Layout::Version2, self.seed);
        let mut arena = vec![0; excerpt.len()];
        excerpt.write(&mut arena);
        let answer = self.runner.process(&arena)?;
        let outputs = self.runner.outputs();
        let outcomes = OutcomesView::parse(&answer, records.len(), outputs.len() as u16)
            .map_err(|error| refused(error.to_string()))?;
        let comes_again = |outcome| matches!(outcome, Outcome::Retry { .. });
        let again: Vec<bool> = outcomes.iter().map(comes_again).collect();
        let made: Vec<R> = full
            .view()
            .records()
            .zip(outcomes.iter())
            .map(|(record, outcome)| make(&record, outcome, outputs))
            .collect::<Result<_, String>>()
            .map_err(refused)?;
        let mut measured = vec![0; records.len()];
        for sample in outcomes.samples() {
            let found = &mut measured[sample.record as usize];
            *found += 1;
            if *found > MAX_SAMPLES {
                let record = sample.record;
                return Err(refused(format!(
                    "record {record} of the batch has more than {MAX_SAMPLES} measurements"
                )));
            }
            check(&sample, T::DESCRIPTION.metrics).map_err(refused)?;
        }
        for sample in outcomes.samples() {
            // What belongs to a record that comes again does not count.
            if !again[sample.record as usize] {
                self.measure(&sample);
            }
        }
        Ok(made)
    }

    /// The lines logged since the operator was started.
    pub fn log_lines(&self) -> Vec<(Level, String)> {
        TOLD.with_borrow(|told| told.lines.clone())
    }

    /// The sum of a counter since the operator was started, under these values of its labels.
    pub fn counter(&self, name: &str, labels: &[&str]) -> u64 {
        let measured = self.measured(name, labels);
        measured
            .iter()
            .fold(0, |sum: u64, amount| sum.saturating_add(*amount))
    }

    /// What a gauge or a histogram was given since the operator was started, under these values of its labels, in order.
    pub fn values(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        let measured = self.measured(name, labels);
        measured.iter().map(|bits| f64::from_bits(*bits)).collect()
    }

    fn measured(&self, name: &str, labels: &[&str]) -> &[u64] {
        let labels = labels.iter().map(|label| cut(label).to_owned()).collect();
        let measured = self.measured.get(&(name.to_owned(), labels));
        measured.map_or(&[], Vec::as_slice)
    }

    fn measure(&mut self, sample: &Sample<'_>) {
        let metric = &T::DESCRIPTION.metrics[usize::from(sample.metric)];
        let labels = sample.labels().map(str::to_owned).collect();
        self.measured
            .entry((metric.name.to_owned(), labels))
            .or_default()
            .push(sample.bits);
    }
}

/// What became of a record, with the record as the next stage would see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes on as it was.
    Pass(TestRecord),
    /// It ended.
    Drop,
    /// It goes on changed.
    Replace(TestRecord),
    /// It became these; the name is that of the output, none for the main one.
    Split(Vec<(Option<String>, TestRecord)>),
    /// It goes to a named output.
    Route(String, TestRecord),
    /// It comes again.
    Retry {
        /// After this time.
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

impl Answer {
    /// What an outcome makes of a record, by the code the host uses.
    #[doc(hidden)]
    pub fn of(
        record: &RecordView<'_>,
        outcome: Outcome<'_>,
        outputs: &[String],
    ) -> Result<Answer, String> {
        let output = |emission: &Emission<'_>| {
            let index = usize::from(emission.output).checked_sub(1)?;
            outputs.get(index).cloned()
        };
        let changed =
            |emission: &Emission<'_>, emit| TestRecord::patched(record, &emission.patch, emit);
        let emit = record.id().emit;
        Ok(match outcome {
            Outcome::Pass => Answer::Pass(TestRecord::from(*record)),
            Outcome::Drop => Answer::Drop,
            Outcome::Replace(patch) => Answer::Replace(TestRecord::patched(record, &patch, emit)?),
            Outcome::Split(pieces) => {
                let mut split = Vec::with_capacity(pieces.len());
                for (index, piece) in pieces.iter().enumerate() {
                    let emit = tidegate_record::child_emit(emit, index as u32);
                    split.push((output(piece), changed(piece, emit)?));
                }
                Answer::Split(split)
            }
            Outcome::Route(emission) => Answer::Route(
                output(&emission).unwrap_or_else(|| "main".to_owned()),
                changed(&emission, emit)?,
            ),
            Outcome::Retry { delay_ms, reason } => Answer::Retry {
                after: Duration::from_millis(delay_ms.into()),
                reason: reason.to_owned(),
            },
            Outcome::DeadLetter { reason } => Answer::DeadLetter {
                reason: reason.to_owned(),
            },
        })
    }

    /// The one record that goes on: passed, replaced or routed.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn record(&self) -> &TestRecord {
        match self {
            Answer::Pass(record) | Answer::Replace(record) | Answer::Route(_, record) => record,
            other => panic!("no single record goes on: {other:?}"),
        }
    }

    /// Whether it goes on as it was.
    pub fn is_pass(&self) -> bool {
        matches!(self, Answer::Pass(_))
    }

    /// Whether it ended.
    pub fn is_drop(&self) -> bool {
        matches!(self, Answer::Drop)
    }

    /// The named output it goes to.
    pub fn output(&self) -> Option<&str> {
        match self {
            Answer::Route(output, _) => Some(output),
            _ => None,
        }
    }

    /// Why it is a dead letter, or comes again.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Answer::DeadLetter { reason } | Answer::Retry { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// Holds a measurement against its metric, as the host does; labels and values are right as they are measured.
fn check(sample: &Sample<'_>, metrics: &[Declaration]) -> Result<(), String> {
    let metric = &metrics[usize::from(sample.metric)];
    let (found, declared) = (sample.labels().len(), metric.labels.len());
    match found == declared {
        true => Ok(()),
        false => Err(format!(
            "metric {} is measured with {found} labels, it has {declared}",
            metric.name
        )),
    }
}

fn batch(records: &[TestRecord], clock: Timestamp) -> Result<Batch, String> {
    let mut builder = BatchBuilder::default();
    for record in records {
        record
            .push(&mut builder)
            .map_err(|error| error.to_string())?;
    }
    Ok(builder.finish(clock.as_micros()))
}
