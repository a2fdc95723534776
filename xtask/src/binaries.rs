//! The test binaries of the workspace: built by cargo, started here, so that what waits runs beside what computes.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::steps::{cargo, run};

/// What waits for brokers nearly all the time (15 s of CPU in 250 s, two tests at once), and has no models of its own to
/// compute: its package, its name, and how many of its tests run at once.
const WAITS: (&str, &str, &str) = ("host/connect", "kafka", "6");

/// A test binary.
pub(crate) struct Binary {
    /// Of its package: tests are started there.
    directory: PathBuf,
    name: String,
    path: PathBuf,
}

/// Builds those of the workspace, in cargo's order.
pub(crate) fn build(root: &Path) -> Result<Vec<Binary>> {
    let output = cargo()
        .args(["test", "--release", "--workspace", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo test --no-run: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).context("messages of cargo")?;
    let mut binaries: Vec<Binary> = text.lines().filter_map(binary).collect();
    binaries.sort_by(|one, other| {
        let key = |binary: &Binary| (binary.directory.clone(), binary.name.clone());
        key(one).cmp(&key(other))
    });
    Ok(binaries)
}

/// What a message of cargo tells of a test binary, if it is of one.
fn binary(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let tests = message["profile"]["test"].as_bool()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    tests.then_some(Binary {
        directory: manifest.parent()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
    })
}

impl Binary {
    fn command(&self, variables: &[(&'static str, String)]) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.directory)
            .envs(variables.iter().cloned());
        command
    }
}

/// Where the test harness begins to tell what failed.
const FAILURES: &str = "failures:";
/// Most lines of what failed tests of a binary said that are told again.
const TOLD_AGAIN: usize = 120;

/// How long what a test binary printed is waited for once it has ended.
const LEFT: Duration = Duration::from_secs(10);

/// What a test binary said of its tests that failed, from what it printed.
#[derive(Default)]
struct Failures {
    begun: usize,
    lines: Vec<String>,
}

impl Failures {
    /// Those of a binary that ended so.
    fn of(mut self, status: ExitStatus) -> Failures {
        self.lines.insert(0, format!("      {status}"));
        self
    }

    fn take(&mut self, line: &str) {
        self.begun += usize::from(line.trim_end() == FAILURES);
        // Frames of a stack are above, with everything else.
        let is_frame = line
            .trim_start()
            .split_once(": ")
            .is_some_and(|(number, _)| {
                line.starts_with(' ') && number.bytes().all(|byte| byte.is_ascii_digit())
            });
        // The second time come their names alone.
        let is_told = match self.begun {
            0 => false,
            1 => self.lines.len() < TOLD_AGAIN,
            _ => true,
        };
        if is_told && !is_frame && !line.trim().is_empty() {
            self.lines.push(format!("      {}", line.trim_end()));
        }
    }
}

/// Runs a test binary, shows what it prints, and keeps what it says of its failures, if it fails.
fn run_shown(command: &mut Command) -> Result<Option<Failures>> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let (done, shown) = mpsc::channel();
    if let Some(printed) = child.stdout.take() {
        thread::Builder::new().spawn(move || done.send(show(printed)))?;
    }
    let status = child.wait()?;
    // What a test has started and left holds the pipe open: it is not waited for.
    let failures = shown.recv_timeout(LEFT).ok().transpose()?;
    let failures = failures.unwrap_or_default();
    Ok((!status.success()).then(|| failures.of(status)))
}

fn show(printed: impl Read) -> std::io::Result<Failures> {
    let (mut printed, mut line) = (BufReader::new(printed), Vec::new());
    let mut failures = Failures::default();
    while printed.read_until(b'\n', &mut line)? > 0 {
        std::io::stdout().write_all(&line)?;
        failures.take(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(failures)
}

/// Runs them all, and the tests in documents. The binaries that failed are named at the end, with what their tests said:
/// thousands of lines are above by then.
pub(crate) fn test(
    root: &Path,
    mut binaries: Vec<Binary>,
    variables: &[(&'static str, String)],
) -> Result<()> {
    let (package, name, at_once) = WAITS;
    let waits = binaries
        .iter()
        .position(|binary| binary.directory == root.join(package) && binary.name == name)
        .with_context(|| format!("no test binary {name} in {package}"))?;
    let waits = binaries.remove(waits);
    let mut command = waits.command(variables);
    command.env("RUST_TEST_THREADS", at_once);
    let beside = thread::Builder::new().spawn(move || command.output())?;
    let mut failed = Vec::new();
    for binary in &binaries {
        println!("== {}", binary.path.display());
        if let Some(failures) = run_shown(&mut binary.command(variables))? {
            failed.push((&binary.path, failures));
        }
    }
    println!("== {}", waits.path.display());
    let output: Output = beside
        .join()
        .map_err(|_| anyhow::anyhow!("what ran beside has panicked"))?
        .with_context(|| format!("cannot start {}", waits.path.display()))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let mut failures = Failures::default();
        let printed = String::from_utf8_lossy(&output.stdout);
        printed.lines().for_each(|line| failures.take(line));
        failed.push((&waits.path, failures.of(output.status)));
    }
    let documents = run(cargo()
        .args(["test", "--release", "--workspace", "--doc"])
        .args(["--no-fail-fast"])
        .current_dir(root));
    if !failed.is_empty() {
        let lines: Vec<String> = failed
            .iter()
            .map(|(path, failures)| {
                format!("    {}\n{}", path.display(), failures.lines.join("\n"))
            })
            .collect();
        bail!(
            "{} of {} test binaries failed:\n{}",
            failed.len(),
            binaries.len() + 1,
            lines.join("\n")
        );
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::Failures;

    #[test]
    fn what_failed_tests_said_is_kept_without_frames_of_the_stack() {
        let mut failures = Failures::default();
        for line in [
            "test one ... ok",
            "test two ... FAILED",
            "",
            "failures:",
            "",
            "---- two stdout ----",
            "thread 'two' panicked at tests/two.rs:8:5:",
            "line 10: wrong",
            "stack backtrace:",
            "   0: __rustc::rust_begin_unwind",
            "failures:",
            "    two",
            "test result: FAILED. 1 passed; 1 failed",
        ] {
            failures.take(line);
        }
        let lines: Vec<&str> = failures.lines.iter().map(|line| line.trim()).collect();
        assert_eq!(
            lines,
            [
                "failures:",
                "---- two stdout ----",
                "thread 'two' panicked at tests/two.rs:8:5:",
                "line 10: wrong",
                "stack backtrace:",
                "failures:",
                "two",
                "test result: FAILED. 1 passed; 1 failed",
            ]
        );
    }
}
