//! Cases in files, one format for operators in every language: records in; outcomes, log lines and metrics out.
//! `plugin-sdk/conformance/README.md` says what may stand in them.

mod bytes;
mod compare;
mod found;
mod read;
mod tokens;

use std::any::Any;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Harness, TestRecord};
use crate::host::imports::TOLD;
use crate::{Described, Failure, Level};
use read::{Case, Expected};

/// Longest file of cases, in bytes.
const LONGEST: u64 = 64 << 20;

/// What became of the cases of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseReport {
    /// Cases that were run.
    pub run: usize,
    /// Cases that only the sandbox can run.
    pub left_out: usize,
    /// What differs: `case "NAME", record 2, value: expected "a", found "b"`.
    pub differences: Vec<String>,
}

impl<T: Described> Harness<T> {
    /// Runs the cases of a file, or of all `.json` files right in a directory. What only the sandbox can run is left out.
    ///
    /// # Panics
    /// If a case differs, with all of what differs; if a file cannot be read or is none of cases; if there is no case.
    pub fn run_cases(path: impl AsRef<Path>) {
        let path = path.as_ref();
        let mut all = String::new();
        let mut run = 0;
        for file in files(path) {
            let shown = file.display();
            match Harness::<T>::try_cases(&file) {
                Ok(report) => {
                    run += report.run;
                    for difference in report.differences {
                        // Writing to a string cannot fail.
                        let _ = write!(all, "\n{shown}: {difference}");
                    }
                }
                Err(why) => panic!("{shown}: {why}"),
            }
        }
        assert!(all.is_empty(), "cases differ:{all}");
        assert!(run > 0, "{}: no case was run", path.display());
    }

    /// Runs the cases of one file and says what differs. An error says where the file is none of cases.
    pub fn try_cases(file: &Path) -> Result<CaseReport, String> {
        let length = std::fs::metadata(file).map_err(|error| error.to_string())?;
        if length.len() > LONGEST {
            return Err(format!("{} bytes, limit {LONGEST}", length.len()));
        }
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        let mut report = CaseReport::default();
        for case in read::cases(&text)? {
            if case.sandbox {
                report.left_out += 1;
                continue;
            }
            report.run += 1;
            for difference in differences::<T>(&case) {
                let difference = format!("case \"{}\"{difference}", case.name);
                report.differences.push(difference);
            }
        }
        Ok(report)
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    files
}

/// What differs from a case.
fn differences<T: Described>(case: &Case) -> Vec<String> {
    let mut run = Run::<T> {
        case,
        harness: None,
        outcomes: Vec::new(),
        lines: Vec::new(),
        measured: found::Measured::default(),
    };
    let ended = run.start().and_then(|()| run.process(&case.records));
    let wrong = match (&case.tokens, ended) {
        (Some(tokens), Ok(())) => tokens::differences(&mut run, case, tokens),
        (_, ended) => differences_of(&case.expected, &run.outcomes, ended),
    };
    let log = case.log.as_ref().map(|log| compare::log(log, &run.lines));
    let metrics = case.metrics.as_ref();
    let metrics = metrics.map(|metrics| compare::metrics(metrics, &run.measured.values::<T>()));
    let beside = log.into_iter().chain(metrics).flatten();
    wrong.into_iter().chain(beside).collect()
}

/// What differs of the outcomes, or of how it ended without them.
fn differences_of(
    expected: &Expected,
    outcomes: &[Value],
    ended: Result<(), Ended>,
) -> Vec<String> {
    match (expected, ended) {
        (Expected::Outcomes(expected), Ok(())) => compare::outcomes(expected, outcomes),
        (Expected::Outcomes(_), Err(Ended::Refused(why))) => {
            vec![format!(": it does not start: {}", compare::shown(&why))]
        }
        (Expected::Outcomes(_), Err(Ended::Failed(why))) => {
            vec![format!(": it fails the batch: {}", compare::shown(&why))]
        }
        (Expected::Failure(expected), Err(Ended::Failed(found)))
        | (Expected::Refused(expected), Err(Ended::Refused(found))) => {
            compare::failure(expected, &found)
        }
        (Expected::Failure(_), Err(Ended::Refused(why))) => {
            vec![format!(": it does not start: {}", compare::shown(&why))]
        }
        (Expected::Failure(_), _) => vec![": expected that it fails the batch, it answers".into()],
        (Expected::Refused(_), _) => vec![": expected that it does not start, it does".into()],
    }
}

/// How a case ended without outcomes: class, code and message, of those that there are.
enum Ended {
    /// It does not start.
    Refused(Value),
    /// It fails the whole batch.
    Failed(Value),
}

/// A case that is being run.
struct Run<'a, T> {
    case: &'a Case,
    /// None after a panic, until the next call needs another.
    harness: Option<Harness<T>>,
    outcomes: Vec<Value>,
    lines: Vec<(Level, String)>,
    measured: found::Measured,
}

impl<T: Described> Run<'_, T> {
    fn start(&mut self) -> Result<(), Ended> {
        let started = catch_unwind(|| Harness::<T>::start(&self.case.config));
        self.take_lines();
        match started {
            Ok(Ok(mut harness)) => {
                harness.set_clock(self.case.clock);
                harness.set_seed(self.case.seed);
                self.harness = Some(harness);
                Ok(())
            }
            Ok(Err(failure)) => Err(Ended::Refused(said(&failure))),
            Err(panic) => Err(Ended::Refused(json!({"message": panicked(&*panic)}))),
        }
    }

    /// Answers for these records. As in the host, those of a call that panics come again in halves, each to a fresh
    /// operator, until one panics by itself.
    fn process(&mut self, records: &[TestRecord]) -> Result<(), Ended> {
        if records.is_empty() {
            return Ok(());
        }
        if self.harness.is_none() {
            self.start()?;
        }
        let Some(mut harness) = self.harness.take() else {
            return Ok(());
        };
        let called = catch_unwind(AssertUnwindSafe(|| {
            let answered = harness.try_with(records, found::outcome);
            (answered, harness)
        }));
        self.take_lines();
        match called {
            Ok((Ok(outcomes), mut harness)) => {
                self.outcomes.extend(outcomes);
                self.measured.add(std::mem::take(&mut harness.measured));
                self.harness = Some(harness);
                Ok(())
            }
            Ok((Err(failure), _)) => Err(Ended::Failed(said(&failure))),
            Err(panic) if records.len() == 1 => {
                self.outcomes.push(json!({"raised": panicked(&*panic)}));
                Ok(())
            }
            Err(_) => {
                let (first, second) = records.split_at(records.len() / 2);
                self.process(first)?;
                self.process(second)
            }
        }
    }

    fn take_lines(&mut self) {
        TOLD.with_borrow_mut(|told| self.lines.append(&mut told.lines));
    }
}

fn said(failure: &Failure) -> Value {
    let class = match failure.class {
        crate::FailureClass::Transient => "transient",
        crate::FailureClass::Permanent => "permanent",
        crate::FailureClass::BadConfiguration => "bad-configuration",
    };
    let members = [
        ("class", class),
        ("code", &failure.code),
        ("message", &failure.message),
    ];
    let members = members.map(|(name, text)| (name.to_owned(), Value::from(text)));
    Value::Object(Map::from_iter(members))
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", message.unwrap_or("no message"))
}
