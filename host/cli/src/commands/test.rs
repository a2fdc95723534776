//! `tidegate test`: a project's own tests in its language's runner, then its cases in the sandbox.

use std::fs;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use tidegate_operator::{Engine, EngineOptions};
use tidegate_project::{BuildOptions, Project, run_aloud};
use tidegate_trial::{CaseFile, CasesError, Options, Report, Trial, TrialError};

use super::interrupt::end_on_signal;
use super::project::{Beginning, First, failed, grants, of_project, shown, warn_of_another_sdk};
use super::{print, print_json};
use crate::exit::{Failure, tell};
use crate::wire;

/// Run an operator's tests: those in its own language, and its cases in the sandbox.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate test\n  \
    tidegate test --case 'an e-mail address is replaced' operators/redact-pii\n  \
    tidegate test --update\n\n\
    The component is built first. Without any case or other test it fails. Cases are files of records and outcomes, cases/*.json; they are\n\
    run with the limits, the retries and the search for bad records that pipelines have. Each batch is also given\n\
    record by record: answers must not depend on it.")]
pub(crate) struct Arguments {
    /// The project.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Run only the case of this name, and nothing else.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Write what came into the files of cases, where it differs.
    #[arg(long)]
    update: bool,
    /// Leave out the tests in the language's own runner.
    #[arg(long)]
    no_native: bool,
    /// Install the toolchain if it is missing.
    #[arg(long)]
    install: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs a project's tests; one that fails is a failure.
pub(crate) fn test(arguments: &Arguments) -> Result<(), Failure> {
    let (began, began_at) = (Instant::now(), SystemTime::now());
    let project = Project::open(&arguments.directory).map_err(of_project)?;
    end_on_signal()?;
    let options = BuildOptions {
        install: arguments.install,
        aloud: true,
        ..BuildOptions::here()
    };
    warn_of_another_sdk(&project);
    // What is wrong in them is told before a long build.
    cases(&project)?;
    build(&project, &options)?;
    let native = match !arguments.no_native && arguments.case.is_none() {
        true => native_tests(&project, &options)?,
        false => None,
    };
    let mut first = (native == Some(true)).then(|| began.elapsed());
    let mut report = Report::default();
    // They may have been saved meanwhile.
    let files = cases(&project)?;
    if !files.is_empty() || arguments.case.is_some() {
        let mut trial = compiled(&project, arguments)?;
        let compiled = began.elapsed();
        report = trial.run(&files).map_err(of_trial)?;
        if let Some(schema) = trial.config_schema() {
            keep_schema(&project, &schema)?;
        }
        first = first.or(report.first_passed.map(|first| compiled + first));
    }
    let first = first.and_then(|first| Beginning::of(&project).ended(began_at + first));
    if arguments.json {
        print_json(&format!("{:#}", in_json(&project, native, &report, first)))?;
    } else {
        print(&text(&project, native, &report, first))?;
    }
    let mut wrong = Vec::new();
    if native.is_none() && report.cases.is_empty() {
        return Err(
            anyhow!("nothing was tested: there are no cases, and no other test was run").into(),
        );
    }
    if native == Some(false) {
        wrong.push(format!(
            "the project's own tests in {}",
            project.language().title()
        ));
    }
    if report.failed() > 0 {
        wrong.push(format!(
            "{} of {} cases",
            report.failed(),
            report.cases.len()
        ));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(anyhow!("failed: {}", wrong.join(", and ")).into()),
    }
}

/// The file that editors hold a project's configurations against.
const SCHEMA: &str = "config.schema.json";

/// Writes the schema anew that the operator says, where the project keeps it and has another.
fn keep_schema(project: &Project, said: &str) -> Result<(), Failure> {
    let path = project.directory().join(SCHEMA);
    let Ok(kept) = fs::read(&path) else {
        return Ok(());
    };
    let said: Value = serde_json::from_str(said)?;
    if serde_json::from_slice::<Value>(&kept).is_ok_and(|kept| kept == said) {
        return Ok(());
    }
    let shown = path.display();
    fs::write(&path, format!("{said:#}\n"))
        .map_err(|error| anyhow!("cannot write {shown}: {error}"))?;
    tell(format_args!(
        "{shown} is written anew: the operator's configuration has changed\n"
    ));
    Ok(())
}

/// The project's cases, as they are saved now.
fn cases(project: &Project) -> Result<Vec<CaseFile>, Failure> {
    let paths = project.cases().map_err(of_project)?;
    let files = paths
        .iter()
        .map(|path| CaseFile::open(path).map_err(of_cases));
    files.collect()
}

/// Builds the component: what the toolchain made before of the same sources, it does not make again.
fn build(project: &Project, options: &BuildOptions) -> Result<(), Failure> {
    let built = project.build(options).map_err(failed)?;
    if !built.said.is_empty() {
        tell(format_args!("{}\n", built.said));
    }
    tell(format_args!("{}\n", shown(&built)));
    Ok(())
}

/// Runs the tests of the language's own runner, whose words go to standard error; none where the project has no such
/// tests.
fn native_tests(project: &Project, options: &BuildOptions) -> Result<Option<bool>, Failure> {
    let mut tests = project.native_tests(options).map_err(failed)?;
    if tests.commands.is_empty() {
        let title = project.language().title();
        tell(format_args!(
            "the project has no tests of its own in {title}\n"
        ));
        return Ok(None);
    }
    for command in &mut tests.commands {
        if !run_aloud(command).map_err(failed)? {
            return Ok(Some(false));
        }
    }
    Ok(Some(true))
}

/// The project's component, ready to be tried.
fn compiled(project: &Project, arguments: &Arguments) -> Result<Trial, Failure> {
    let engine = Engine::new(EngineOptions {
        instances: 8,
        ..wire::Compiled::Project(project.directory().to_owned()).options()?
    })?;
    let options = Options {
        grants: grants(project).map_err(Failure::usage)?,
        only: arguments.case.clone(),
        update: arguments.update,
        ..Options::default()
    };
    let path = project.output();
    let bytes = crate::component::read(&path)?;
    Trial::new(&engine, &bytes, &path.display().to_string(), &options).map_err(of_trial)
}

fn of_trial(error: TrialError) -> Failure {
    match error {
        TrialError::Cases(error) => of_cases(error),
        TrialError::NoCase { .. } => Failure::usage(error),
        other => other.into(),
    }
}

/// What is wrong in a file of cases is the person's to mend.
fn of_cases(error: CasesError) -> Failure {
    match error {
        CasesError::Read { .. } => error.into(),
        other => Failure::usage(other),
    }
}

fn text(project: &Project, native: Option<bool>, report: &Report, first: Option<First>) -> String {
    let mut text = String::new();
    if let Some(passed) = native {
        let word = if passed { "passed" } else { "failed" };
        let title = project.language().title();
        text += &format!("{word}  the project's own tests in {title}\n");
    }
    match report.cases.is_empty() {
        true => text += "no cases\n",
        false => text += &format!("{report}\n"),
    }
    if let Some(first) = first {
        text += &format!(
            "the first test passed {:.1} s after the project was made, and all had run after {:.1} s\n",
            first.passed.as_secs_f64(),
            first.ended.as_secs_f64()
        );
    }
    text
}

fn in_json(
    project: &Project,
    native: Option<bool>,
    report: &Report,
    first: Option<First>,
) -> Value {
    json!({
        "project": project.name().as_str(),
        "language": project.language().word(),
        "native": native,
        "cases": report.to_json(),
        "first-passed-after-new-ms": first.map(|first| first.passed.as_secs_f64() * 1e3),
    })
}
