//! `tidegate dev`: with every save the operator is built, held against its cases and swapped into a running pipeline.
//!
//! What does not compile, or does not pass, is told, and what runs goes on.

mod samples;
mod sources;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_component::digest;
use tidegate_control::{DeployRequest, StatusReport};
use tidegate_operator::{Engine, EngineOptions};
use tidegate_project::{BuildError, BuildOptions, Built, Project};
use tidegate_telemetry::plain;
use tidegate_trial::{CaseFile, Options, Trial};

use self::samples::{changed, config};
use self::sources::Sources;
use super::host::{HostArguments, client};
use super::print;
use super::project::{grants, of_project, size};
use super::signals::Signals;
use crate::exit::{Failure, tell, with_causes};
use crate::wire;

/// Between two looks at the sources.
const LOOK: Duration = Duration::from_millis(40);
/// Sources are left alone for so long before they are built: an editor may write several.
const SETTLED: Duration = Duration::from_millis(25);
/// After so long of changes it is told what changes.
const RESTLESS: Duration = Duration::from_secs(10);
/// Most components that are kept, to show how the next one differs from what runs.
const KEPT: usize = 4;
/// Hexadecimal digits of a digest that are shown.
const DIGITS: usize = 12;
/// Most bytes of a path that are shown.
const PATH_BYTES: usize = 256;

/// Build an operator with every save, hold it against its cases and swap it into a running pipeline.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    tidegate dev --pipeline pipeline.toml --slot redact operators/redact-pii\n\n\
    A line says what each save came to and how long it took; what samples.jsonl comes to otherwise is shown.\n\
    What does not compile or does not pass is told, and what runs goes on. Ctrl-C ends it.")]
pub(crate) struct Arguments {
    /// The slot: the name of the stage.
    #[arg(long)]
    slot: String,
    /// The project.
    #[arg(default_value = ".")]
    directory: PathBuf,
    #[command(flatten)]
    host: HostArguments,
}

/// Watches a project until a signal ends it.
pub(crate) fn dev(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments {
        slot,
        directory,
        host,
    } = arguments;
    let project = Project::open(directory).map_err(of_project)?;
    running(&client(host)?.status()?, slot)?;
    let mut dev = Dev {
        directory,
        slot,
        host,
        engine: Engine::new(EngineOptions {
            instances: 8,
            ..wire::Compiled::Project(project.directory().to_owned()).options()?
        })?,
        known: Known::of(&project),
    };
    let stop = on_signal()?;
    print(&format!(
        "watching {} for slot {slot}; Ctrl-C ends it\n",
        directory.display()
    ))?;
    let mut built = None;
    loop {
        let seen = Sources::of(&project)?;
        if built.as_ref() != Some(&seen) {
            let Some(settled) = settle(&project, seen, &stop)? else {
                break;
            };
            match dev.turn() {
                Ok(said) => print(&said)?,
                Err(why) => tell(format_args!("{why}\nnot swapped: what runs goes on\n")),
            }
            built = Some(settled);
        }
        if ended(&stop, LOOK) {
            break;
        }
    }
    print(&format!("\nslot {slot} goes on with what it runs\n"))
}

/// The last components of the project by their digests, the newest at the end.
struct Known(VecDeque<(String, Vec<u8>)>);

impl Known {
    /// What builds have left.
    fn of(project: &Project) -> Known {
        let mut known = Known(VecDeque::new());
        for path in [project.output(), project.quick_output()] {
            if let Ok(component) = fs::read(path) {
                known.keep(digest(&component), component);
            }
        }
        known
    }

    fn keep(&mut self, digest: String, component: Vec<u8>) {
        self.0.retain(|(other, _)| *other != digest);
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((digest, component));
    }

    fn component(&self, digest: &str) -> Option<&Vec<u8>> {
        let found = self.0.iter().find(|(known, _)| known == digest);
        found.map(|(_, component)| component)
    }
}

struct Dev<'a> {
    directory: &'a Path,
    slot: &'a str,
    host: &'a HostArguments,
    engine: Engine,
    known: Known,
}

impl Dev<'_> {
    /// Builds, tries and swaps; says in a line what happened, and how outputs differ. What went wrong is said as it is.
    fn turn(&mut self) -> Result<String, String> {
        let began = Instant::now();
        let project = Project::open(self.directory).map_err(|error| error.to_string())?;
        let built = self.build(&project)?;
        let component = fs::read(&built.path)
            .map_err(|error| format!("cannot read {}: {error}", built.path.display()))?;
        let mut said = format!("{}: built in {}", project.name(), seconds(built.time),);
        let cases = self.try_cases(&project, &built, &component)?;
        said += &format!(" ({}), {cases}", size(built.size));
        if !built.said.is_empty() {
            said = format!("{}\n{said}", built.said);
        }
        // Somebody else may have deployed, or gone back.
        let before = self.running()?;
        if built.digest == before {
            self.known.keep(built.digest, component);
            return Ok(said + "; it runs already\n");
        }
        said += &self.swap(&project, &component)?;
        said += &format!(
            ", {} in all: {}\n",
            seconds(began.elapsed()),
            short(&built.digest)
        );
        said += &self.differences(&project, &before, &component);
        self.known.keep(built.digest, component);
        Ok(said)
    }

    /// The digest of what the slot runs now.
    fn running(&self) -> Result<String, String> {
        let status = client(self.host).map_err(said)?.status();
        let status = status.map_err(|error| error.to_string())?;
        running(&status, self.slot).map_err(said)
    }

    fn build(&self, project: &Project) -> Result<Built, String> {
        let options = BuildOptions {
            quick: true,
            ..BuildOptions::here()
        };
        project.build(&options).map_err(|error| match error {
            // The toolchain has said it all.
            BuildError::Failed { said, .. } if !said.is_empty() => said,
            other => other.to_string(),
        })
    }

    /// Holds a component against the project's cases.
    fn try_cases(
        &self,
        project: &Project,
        built: &Built,
        component: &[u8],
    ) -> Result<String, String> {
        let began = Instant::now();
        let mut files = Vec::new();
        for path in project.cases().map_err(|error| error.to_string())? {
            files.extend(CaseFile::open_all(&path).map_err(|error| error.to_string())?);
        }
        let options = Options {
            grants: grants(project).map_err(|error| error.to_string())?,
            ..Options::default()
        };
        let label = built.path.display().to_string();
        let report = Trial::new(&self.engine, component, &label, &options)
            .and_then(|mut trial| trial.run(&files))
            .map_err(|error| error.to_string())?;
        match report.failed() {
            0 => Ok(format!(
                "{} cases passed in {}",
                report.passed(),
                seconds(began.elapsed())
            )),
            _ => Err(report.to_string()),
        }
    }

    fn swap(&self, project: &Project, component: &[u8]) -> Result<String, String> {
        let deployment = DeployRequest {
            component: Some(component.to_vec()),
            config: None,
            label: format!("{}.wasm", project.name()),
        };
        let began = Instant::now();
        let client = client(self.host).map_err(said)?;
        client
            .deploy(self.slot, &deployment)
            .map_err(|error| error.to_string())?;
        Ok(format!(", swapped in {}", seconds(began.elapsed())))
    }

    /// How the records of the project's samples come out otherwise than with what ran before.
    fn differences(&self, project: &Project, before: &str, now: &[u8]) -> String {
        let file = project.directory().join("samples.jsonl");
        if !file.is_file() {
            return String::new();
        }
        let Some(before) = self.known.component(before) else {
            let before = short(before);
            return format!(
                "  samples.jsonl: not compared, since what ran before is not at hand: {before}\n"
            );
        };
        let grants = match grants(project) {
            Ok(grants) => grants,
            Err(why) => return format!("  samples.jsonl: not compared: {why}\n"),
        };
        let config = self
            .host
            .pipeline
            .as_deref()
            .map(|file| config(file, self.slot));
        let config = config.unwrap_or_else(|| "{}".to_owned());
        changed(&self.engine, (before, now), &file, &config, grants)
            .unwrap_or_else(|why| format!("  samples.jsonl: not compared: {}\n", said(why)))
    }
}

/// The digest of what a slot runs.
fn running(status: &StatusReport, slot: &str) -> Result<String, Failure> {
    let found = status.slots.iter().find(|report| report.slot == slot);
    found.map(|report| report.digest.clone()).ok_or_else(|| {
        let slots: Vec<&str> = status
            .slots
            .iter()
            .map(|report| report.slot.as_str())
            .collect();
        let slots = slots.join(", ");
        Failure::usage(format_args!("there is no slot {slot:?}; slots: {slots}"))
    })
}

/// Waits until nothing changes any more; none if a signal came.
fn settle(
    project: &Project,
    mut seen: Sources,
    stop: &Receiver<()>,
) -> Result<Option<Sources>, Failure> {
    let mut restless = Some(Instant::now() + RESTLESS);
    loop {
        if ended(stop, SETTLED) {
            return Ok(None);
        }
        let now = Sources::of(project)?;
        if now == seen {
            return Ok(Some(now));
        }
        if let Some(file) = now.first_other(&seen)
            && restless.is_some_and(|until| Instant::now() > until)
        {
            restless = None;
            tell(format_args!(
                "{} keeps changing: built once nothing in the project does\n",
                plain(&file.to_string_lossy(), PATH_BYTES)
            ));
        }
        seen = now;
    }
}

fn ended(stop: &Receiver<()>, wait: Duration) -> bool {
    stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout)
}

/// Hears of the first SIGINT or SIGTERM; the second ends the process.
fn on_signal() -> Result<Receiver<()>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (heard, stop) = channel();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let Some(mut signals) = Signals::listen() else {
                    return;
                };
                signals.next().await;
                let _ = heard.send(());
                // A build that is under way.
                tidegate_project::end_all();
                signals.next().await;
                std::process::exit(1);
            });
        })?;
    Ok(stop)
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Run(error) => with_causes(&error),
        Failure::Usage(text) => text,
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// `sha256:67a9111b98fa`.
fn short(digest: &str) -> &str {
    let end = digest.find(':').map_or(0, |colon| colon + 1) + DIGITS;
    digest.get(..end).unwrap_or(digest)
}
