//! The test binaries of the workspace: built by cargo, started here, so that what waits runs beside what computes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

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
        .stderr(std::process::Stdio::inherit())
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

/// Runs them all, and the tests in documents. The binaries that failed are named at the end.
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
        if run(&mut binary.command(variables)).is_err() {
            failed.push(&binary.path);
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
        failed.push(&waits.path);
    }
    let documents = run(cargo()
        .args(["test", "--release", "--workspace", "--doc"])
        .args(["--no-fail-fast"])
        .current_dir(root));
    if !failed.is_empty() {
        let lines: Vec<String> = failed
            .iter()
            .map(|path| format!("    {}", path.display()))
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
