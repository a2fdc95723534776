//! Runs files of cases over a component, and says what differs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_contract::OperatorError;
use tidegate_control::admin::MAX_COMPONENT;
use tidegate_operator::{Component, Engine, EngineOptions, Given, Grants, Limits};

use crate::became::as_expected;
use crate::cases::{Case, CaseFile, CasesError, Expected, ExpectedOutcome, Text};
use crate::compare::Differences;
use crate::outcome::{Came, Class, Refusal};
use crate::report::{CaseReport, Report};
use crate::run::{End, Ran, Runner};
use crate::update::{self, Differs};
use crate::{show, tokens, write};

/// How cases are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the operator may import. Default everything.
    pub grants: Grants,
    /// What it may use where a case does not say otherwise. Default a pipeline's.
    pub limits: Limits,
    /// Only the case of this name.
    pub only: Option<String>,
    /// Whether files are made to say what came, where that differs.
    pub update: bool,
    /// How long a case may take. Default ten minutes.
    pub case_time: Duration,
    /// Where compiled components are kept, for [`run_cases`]; none to compile every time. It must be private to this user.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            grants: Grants::ALL,
            limits: Limits::default(),
            only: None,
            update: false,
            case_time: Duration::from_secs(600),
            cache: None,
        }
    }
}

/// Why cases were not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The component's file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Component {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The component's file is longer than one that may be deployed.
    #[error("{} has {bytes} bytes, limit {MAX_COMPONENT}", .path.display())]
    TooLarge {
        /// Where it is.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// It is no operator, or the host cannot run it.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// A file of cases is wrong.
    #[error(transparent)]
    Cases(#[from] CasesError),
    /// No case has the name that was asked for.
    #[error("no case has the name {name:?}")]
    NoCase {
        /// The name.
        name: String,
    },
    /// A file of cases was saved while its cases were run: it is left as it is.
    #[error("{} is not written anew: it was saved meanwhile; run it again", .path.display())]
    Saved {
        /// Where it is.
        path: PathBuf,
    },
    /// A file of cases cannot be written anew.
    #[error("cannot write {}: {error}", .path.display())]
    Update {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Runs the cases of a file, or of all `*.json` of a directory, over the component in a file.
pub fn run_cases(component: &Path, path: &Path, options: &Options) -> Result<Report, TrialError> {
    let files = CaseFile::open_all(path)?;
    let failed = |error| TrialError::Component {
        path: component.to_owned(),
        error,
    };
    let bytes = std::fs::metadata(component).map_err(failed)?.len();
    if bytes > MAX_COMPONENT as u64 {
        return Err(TrialError::TooLarge {
            path: component.to_owned(),
            bytes,
        });
    }
    let bytes = std::fs::read(component).map_err(failed)?;
    let engine = Engine::new(EngineOptions {
        cache_dir: options.cache.clone(),
        instances: 8,
        ..EngineOptions::default()
    })?;
    Trial::new(&engine, &bytes, &component.display().to_string(), options)?.run(&files)
}

/// A component, compiled once, that cases are run over.
pub struct Trial {
    runner: Runner,
    options: Options,
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let options = &self.options;
        f.debug_struct("Trial")
            .field("options", options)
            .finish_non_exhaustive()
    }
}

impl Trial {
    /// Compiles a component. `label` names it in errors: usually its path.
    pub fn new<'a>(
        engine: &Engine,
        component: impl Into<Given<'a>>,
        label: &str,
        options: &Options,
    ) -> Result<Trial, TrialError> {
        let component = engine.compile(component, label)?;
        Ok(Trial::of(component, options))
    }

    /// With a component that is compiled already.
    pub fn of(component: Component, options: &Options) -> Trial {
        let (grants, limits) = (options.grants, options.limits.clone());
        Trial {
            runner: Runner::new(component, grants, limits, options.case_time),
            options: options.clone(),
        }
    }

    /// JSON Schema of the operator's configuration, as text; none before a case has started it.
    pub fn config_schema(&self) -> Option<String> {
        self.runner.config_schema()
    }

    /// Runs the cases of these files in order.
    pub fn run(&mut self, files: &[CaseFile]) -> Result<Report, TrialError> {
        let began = Instant::now();
        let mut report = Report::default();
        for file in files {
            let mut edits = Vec::new();
            let only = self.options.only.clone();
            let asked = |case: &&Case| only.as_ref().is_none_or(|only| *only == case.name);
            for case in file.cases.iter().filter(asked) {
                let ran = self.runner.run(case);
                let (differences, differs) = compare(case, &ran);
                let mut updated = false;
                if self.options.update
                    && let Some(differs) = differs
                    && !differences.0.is_empty()
                    && let Some(more) = update::edits(file, case, &ran, &differs)
                {
                    edits.extend(more);
                    updated = true;
                }
                if differences.0.is_empty() {
                    report.first_passed.get_or_insert_with(|| began.elapsed());
                }
                report.cases.push(CaseReport {
                    file: file.path.clone(),
                    line: case.line,
                    name: case.name.clone(),
                    differences: differences.0,
                    updated,
                });
            }
            if !edits.is_empty() {
                replace(file, &update::apply(&file.text, edits))?;
            }
        }
        if let (Some(name), true) = (&self.options.only, report.cases.is_empty()) {
            return Err(TrialError::NoCase { name: name.clone() });
        }
        report.took = began.elapsed();
        Ok(report)
    }
}

/// Writes a file anew so that it is whole at any time; one that is other by now is left to who saved it.
fn replace(file: &CaseFile, text: &str) -> Result<(), TrialError> {
    let failed = |error| TrialError::Update {
        path: file.path.clone(),
        error,
    };
    // What a link names is written, and not in the link's place.
    let path = file.path.canonicalize().map_err(failed)?;
    let permissions = std::fs::metadata(&path).map_err(failed)?.permissions();
    let mut new =
        tempfile::NamedTempFile::new_in(path.parent().unwrap_or(&path)).map_err(failed)?;
    new.write_all(text.as_bytes()).map_err(failed)?;
    new.as_file().set_permissions(permissions).map_err(failed)?;
    if std::fs::read(&path).map_err(failed)? != file.text.as_bytes() {
        return Err(TrialError::Saved {
            path: file.path.clone(),
        });
    }
    new.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// What differs; and what of it can be written into the file, where that is all.
fn compare(case: &Case, ran: &Ran) -> (Differences, Option<Differs>) {
    let mut found = Differences::default();
    let mut differs = Differs::default();
    let mut writable = true;
    match (&case.expected, &ran.end) {
        (_, End::Late(time)) => {
            found.add("the batch", "an answer", format!("none within {time:?}"))
        }
        (_, End::Broken(why)) => found.add("the batch", "an answer", why.as_str()),
        (Expected::Refused(expected), End::Refused(came)) => {
            found.failure("refused", expected, came);
        }
        (Expected::Failure(expected), End::Failed(came)) => {
            found.failure("failure", expected, came);
        }
        // The host has them come again in smaller batches, until one fails by itself.
        (Expected::Failure(expected), End::Answered { came, .. })
            if came.iter().any(|came| said(came).is_some()) =>
        {
            let first = came.iter().find_map(said).unwrap_or_default();
            found.failure("failure", expected, &first);
        }
        (Expected::Outcomes(expected), End::Answered { came, alone }) => {
            for (at, (expected, came)) in expected.iter().zip(came).enumerate() {
                let before = found.0.len();
                found.outcome(&format!("record {}", at + 1), expected, came);
                if found.0.len() > before {
                    differs.records.push(at);
                }
            }
            writable = one_by_one(&mut found, came, alone.as_deref());
        }
        (Expected::Nothing, End::Answered { came, alone }) => {
            let came_to = write::spaced(&came.iter().map(write::came).collect());
            found.add(
                "outcomes",
                "that the case has them, or failure, or refused",
                tidegate_telemetry::plain(&came_to, 400),
            );
            writable = one_by_one(&mut found, came, alone.as_deref());
        }
        (Expected::Nothing, End::Handled(handled)) => {
            if let Some(text) = &case.tokens {
                tokens::compare(&mut found, text, handled);
            }
            // Golden is what every cut comes to.
            writable = handled.is_the_same_however_cut();
            differs.through = !found.0.is_empty();
        }
        (expected, end) => {
            let given = if case.tokens.is_some() {
                "text"
            } else {
                "batch"
            };
            let came = match end {
                End::Refused(came) => format!("a start that is refused: {}", shown(came)),
                End::Failed(came) => format!("a {given} that fails: {}", shown(came)),
                End::Handled(handled) => {
                    format!("the text {}", show::text(&handled.came.sum(), ""))
                }
                _ => "outcomes".to_owned(),
            };
            let expected = match expected {
                Expected::Refused(expected) => {
                    format!(
                        "a start that is refused: {}",
                        show::json(&write::failure(expected))
                    )
                }
                Expected::Failure(expected) => {
                    format!(
                        "a {given} that fails: {}",
                        show::json(&write::failure(expected))
                    )
                }
                _ if case.tokens.is_some() => "a text that goes on".to_owned(),
                _ => "outcomes".to_owned(),
            };
            found.add("the case", expected, came);
        }
    }
    if !matches!(ran.end, End::Refused(_) | End::Late(_) | End::Broken(_)) {
        let before = found.0.len();
        if let Some(expected) = &case.log {
            found.log(expected, &ran.lines);
        }
        differs.log = found.0.len() > before;
        let before = found.0.len();
        if let Some(expected) = &case.metrics {
            found.metrics(expected, &ran.metrics);
        }
        differs.metrics = found.0.len() > before;
    }
    (found, Some(differs).filter(|_| writable))
}

fn shown(refusal: &Refusal) -> String {
    let said = show::json(&write::refusal(refusal));
    match refusal.beneath.is_empty() {
        true => said,
        false => format!("{said} and beneath it {}", show::text(&refusal.beneath, "")),
    }
}

/// A failure for good that the host has made a dead letter of.
fn said(came: &Came) -> Option<Refusal> {
    let Came::Poison { reason, beneath } = came else {
        return None;
    };
    let mut refusal = Refusal::said(reason);
    refusal.beneath.clone_from(beneath);
    Some(refusal).filter(|refusal| refusal.class == Some(Class::Permanent))
}

/// Holds the answers to single records against those of their batch; whether they are the same.
fn one_by_one(found: &mut Differences, came: &[Came], alone: Option<&[Came]>) -> bool {
    let before = found.0.len();
    for (at, (came, alone)) in came.iter().zip(alone.unwrap_or_default()).enumerate() {
        let place = format!(
            "record {} given by itself, which its batch must not matter to",
            at + 1
        );
        let expected = match came {
            // Another call of another instance: its words may differ.
            Came::Poison { .. } => ExpectedOutcome::Poison(Text::Contains(Vec::new())),
            came => as_expected(came),
        };
        found.outcome(&place, &expected, alone);
    }
    found.0.len() == before
}
