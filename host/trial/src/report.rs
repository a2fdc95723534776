//! What came of all cases, for people and for programs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::Difference;
use crate::json::quoted;

/// Differences of a case that are shown.
const SHOWN: usize = 20;

/// What came of the cases of all files.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each case that was run, in the order of files and cases.
    pub cases: Vec<CaseReport>,
    /// How long it took from the beginning to the end of the first case that passed.
    pub first_passed: Option<Duration>,
    /// How long all of it took.
    pub took: Duration,
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// Its file.
    pub file: PathBuf,
    /// Its line there, counted from 1.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// What was not as expected.
    pub differences: Vec<Difference>,
    /// Whether the file says now what came.
    pub updated: bool,
}

impl CaseReport {
    /// Whether all was as expected.
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

impl Report {
    /// Cases that came out as expected.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.passed()).count()
    }

    /// Cases that were written anew.
    pub fn updated(&self) -> usize {
        self.cases.iter().filter(|case| case.updated).count()
    }

    /// Cases that did not come out as expected.
    pub fn failed(&self) -> usize {
        self.cases.len() - self.passed() - self.updated()
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let cases = self.cases.iter().map(|case| {
            let differences = case.differences.iter().map(|difference| {
                json!({"place": difference.place, "expected": difference.expected, "came": difference.came})
            });
            json!({
                "file": case.file.display().to_string(),
                "line": case.line,
                "name": case.name,
                "passed": case.passed(),
                "updated": case.updated,
                "differences": differences.collect::<Vec<_>>(),
            })
        });
        json!({
            "passed": self.passed(),
            "failed": self.failed(),
            "updated": self.updated(),
            "first-passed-ms": self.first_passed.map(milliseconds),
            "took-ms": milliseconds(self.took),
            "cases": cases.collect::<Vec<_>>(),
        })
    }
}

/// A line for each case that failed, with a line for each difference, and the numbers at the end.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self.cases.iter().filter(|case| !case.passed()) {
            let (file, line, name) = (case.file.display(), case.line, quoted(&case.name));
            let word = if case.updated { "updated" } else { "failed" };
            writeln!(f, "{word}  {file}:{line}: case {name}")?;
            for difference in case.differences.iter().take(SHOWN) {
                writeln!(f, "    {difference}")?;
            }
            let more = case.differences.len().saturating_sub(SHOWN);
            if more > 0 {
                writeln!(f, "    and {more} more")?;
            }
        }
        write!(f, "{} passed", self.passed())?;
        if self.updated() > 0 {
            write!(f, ", {} updated", self.updated())?;
        }
        write!(f, ", {} failed, {:.1?}", self.failed(), self.took)
    }
}
