//! `tidegate new`, `tidegate sdk` and `tidegate build`: an operator's project.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use tidegate_operator::{Grants, UnknownGrant};
use tidegate_project::{
    BuildError, BuildOptions, Built, Language, Name, NewProject, Project, ProjectError,
};
use tidegate_telemetry::plain;

use super::interrupt::end_on_signal;
use super::{print, print_json};
use crate::exit::{Failure, tell};

/// Make an operator's project in a language of your choice: it asks nothing and needs no network.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate new redact-pii --lang python\n  \
    tidegate new keep-filled --lang js operators/keep-filled\n\n\
    The SDK, the contract and the schemas for editors come with it, in tidegate/.")]
pub(crate) struct New {
    /// The operator's name, a verb: redact-pii.
    name: String,
    /// rust, c, javascript (js), typescript (ts), python (py) or go.
    #[arg(long = "lang", short, value_name = "LANGUAGE", value_parser = language)]
    language: Language,
    /// Where it is written: a new directory, or one that has nothing but .git. Default: one of the operator's name.
    directory: Option<PathBuf>,
}

/// Build an operator's component with the toolchain of its language.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate build\n  \
    tidegate build --install operators/redact-pii\n\n\
    operator.toml says what it is made of. The component is NAME.wasm beside it. The same sources make the same one; with\n\
    Python and JavaScript on this machine alone, as long as its cache keeps it.\n\
    What is missing is named with the command that installs it; --install runs that, into ~/.cache/tidegate/toolchains\n\
    where the language can.")]
pub(crate) struct Build {
    /// The project.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Install the toolchain if it is missing.
    #[arg(long)]
    install: bool,
    /// Make it again even if a component of the same sources is kept, and keep the new one.
    #[arg(long)]
    fresh: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Write the SDK of a project anew, as this program has it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate sdk\n  \
    tidegate sdk operators/redact-pii\n\n\
    It is the directory tidegate/ of the project; only files that differ are written.")]
pub(crate) struct Sdk {
    /// The project.
    #[arg(default_value = ".")]
    directory: PathBuf,
}

/// Writes a new project.
pub(crate) fn new(arguments: &New) -> Result<(), Failure> {
    let name = Name::new(&arguments.name).map_err(Failure::usage)?;
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => PathBuf::from(name.as_str()),
    };
    let wanted = NewProject {
        name,
        language: arguments.language,
        directory,
    };
    let project = wanted.create().map_err(of_project)?;
    Beginning::of(&project).note();
    print(&format!(
        "made {}: an operator in {}, with its SDK in tidegate/\n\n  \
         cd {}\n  tidegate build\n  tidegate test\n  \
         tidegate dev --pipeline ../pipeline.toml --slot STAGE\n\nREADME.md there says more.\n",
        project.name(),
        project.language().title(),
        project.directory().display(),
    ))
}

/// When a project was made, as a file in `build/` says until the first of its tests has passed.
pub(super) struct Beginning(PathBuf);

impl Beginning {
    pub(super) fn of(project: &Project) -> Beginning {
        Beginning(project.build_directory().join("made"))
    }

    /// Notes it. Where that cannot be done, nothing is told later.
    fn note(&self) {
        let made = self.0.parent().map(fs::create_dir_all);
        if let Some(Ok(())) = made {
            let _ = fs::write(&self.0, "the time of this file is that of `tidegate new`\n");
        }
    }

    /// How long after it the first test passed, and how long it is now; none where an earlier one had passed, or it is not known.
    pub(super) fn ended(&self, passed: SystemTime) -> Option<First> {
        let made = fs::metadata(&self.0)
            .and_then(|found| found.modified())
            .ok()?;
        fs::remove_file(&self.0).ok()?;
        Some(First {
            passed: passed.duration_since(made).ok()?,
            ended: SystemTime::now().duration_since(made).ok()?,
        })
    }
}

/// A project's first run of tests in which one passed, in time since `tidegate new`.
#[derive(Clone, Copy)]
pub(super) struct First {
    /// When one passed.
    pub(super) passed: Duration,
    /// When all had run.
    pub(super) ended: Duration,
}

/// Writes the SDK of a project anew.
pub(crate) fn sdk(arguments: &Sdk) -> Result<(), Failure> {
    let project = Project::open(&arguments.directory).map_err(of_project)?;
    let refreshed = project.write_sdk().map_err(of_project)?;
    let count = |paths: &[PathBuf], what: &str| match paths.len() {
        1 => format!("1 file {what}"),
        more => format!("{more} files {what}"),
    };
    print(&format!(
        "{}: SDK {}, {}, {}\n",
        project.sdk().display(),
        project.sdk_version().unwrap_or_default(),
        count(&refreshed.written, "written"),
        count(&refreshed.removed, "removed"),
    ))?;
    // What is not of the SDK may have been somebody's own.
    for path in &refreshed.removed {
        let path = path.to_string_lossy();
        print(&format!("  removed {}\n", plain(&path, 256)))?;
    }
    Ok(())
}

/// Builds a project's component.
pub(crate) fn build(arguments: &Build) -> Result<(), Failure> {
    let project = Project::open(&arguments.directory).map_err(of_project)?;
    end_on_signal()?;
    let options = BuildOptions {
        install: arguments.install,
        fresh: arguments.fresh,
        aloud: true,
        ..BuildOptions::here()
    };
    warn_of_another_sdk(&project);
    let built = project.build(&options).map_err(failed)?;
    if !built.said.is_empty() {
        tell(format_args!("{}\n", built.said));
    }
    if arguments.json {
        return print_json(&serde_json::to_string_pretty(&in_json(&built))?);
    }
    print(&format!("{}\n", shown(&built)))
}

/// `built redact.wasm: 18.4 MB, imports log, 6.1 s`.
pub(super) fn shown(built: &Built) -> String {
    let file = built.path.file_name().unwrap_or_default();
    format!(
        "built {}: {}, imports {}, {:.1} s",
        file.to_string_lossy(),
        size(built.size),
        imported(built),
        built.time.as_secs_f64()
    )
}

/// What a pipeline has to grant, and WASI, which is there without a grant and empty.
fn imported(built: &Built) -> String {
    let mut words: Vec<&str> = built.grants.iter().map(|grant| grant.word()).collect();
    if built
        .imports
        .iter()
        .any(|import| import.starts_with("wasi:"))
    {
        words.push("WASI");
    }
    match words.as_slice() {
        [] => "nothing".to_owned(),
        words => words.join(", "),
    }
}

/// `18.4 MB`.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn in_json(built: &Built) -> serde_json::Value {
    let grants: Vec<&str> = built.grants.iter().map(|grant| grant.word()).collect();
    json!({
        "path": built.path.display().to_string(),
        "size": built.size,
        "grants": grants,
        "imports": built.imports,
        "seconds": built.time.as_secs_f64(),
        "digest": built.digest,
        "toolchain": built.toolchain,
        "said": built.said,
    })
}

/// A project keeps the SDK that it was made with until somebody asks for another.
pub(super) fn warn_of_another_sdk(project: &Project) {
    let own = env!("CARGO_PKG_VERSION");
    if let Some(other) = project.sdk_version().filter(|version| version != own) {
        let shown = project.directory().display();
        let other = plain(&other, 64);
        tell(format_args!(
            "the SDK of {shown} is of tidegate {other}, this is {own}: `tidegate sdk {shown}` writes this one's\n"
        ));
    }
}

/// What the manifest grants, as the host has it.
pub(super) fn grants(project: &Project) -> Result<Grants, UnknownGrant> {
    Grants::from_names(project.grants().iter().map(|grant| grant.word()))
}

/// What is the person's to mend in the project ends with the exit code of wrong usage.
pub(super) fn of_project(error: ProjectError) -> Failure {
    match error {
        ProjectError::Wrong(mistakes) => Failure::Usage(mistakes.to_string()),
        ProjectError::NoManifest { .. }
        | ProjectError::Long { .. }
        | ProjectError::NoCases { .. }
        | ProjectError::NotEmpty { .. }
        | ProjectError::NotOurs { .. } => Failure::usage(error),
        other => other.into(),
    }
}

/// What a toolchain says of the sources is shown as it says it.
pub(super) fn failed(error: BuildError) -> Failure {
    match error {
        BuildError::Project(error) => of_project(error),
        BuildError::Failed {
            program,
            status,
            said,
        } => {
            if !said.is_empty() {
                tell(format_args!("{said}\n"));
            }
            anyhow!("not built: {program} ended with {status}").into()
        }
        other => other.into(),
    }
}

/// A language on the command line.
fn language(word: &str) -> Result<Language, String> {
    Language::from_word(word).ok_or_else(|| {
        let words = Language::ALL.map(Language::word).join(", ");
        format!("there is none of this name; write one of {words} (or js, ts, py)")
    })
}
