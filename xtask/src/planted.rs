//! Faults that are put into a copy of the sources, one at a time: the scene that is to find each must fail, and say why.
//!
//! A fault is a patch in `tests/planted`. Before the first `diff` it says what is wrong, and in lines of their own
//! `Scene: ` the test that is to find it and `Finds: ` what that says of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::kafka::KafkaBroker;
use crate::steps::{cargo, run};

struct Fault {
    patch: PathBuf,
    scene: String,
    finds: String,
}

impl Fault {
    fn read(patch: PathBuf) -> Result<Fault> {
        let text = fs::read_to_string(&patch)?;
        let (head, _) = text
            .split_once("\ndiff ")
            .with_context(|| format!("{} has no diff", patch.display()))?;
        let line = |name: &str| {
            let found = head.lines().find_map(|line| line.strip_prefix(name));
            let found = found.with_context(|| format!("{} has no {name}", patch.display()));
            found.map(|rest| rest.trim().to_owned())
        };
        Ok(Fault {
            scene: line("Scene:")?,
            finds: line("Finds:")?,
            patch,
        })
    }
}

/// Puts in each fault, and has it found.
pub(crate) fn find_all(root: &Path, broker: &KafkaBroker) -> Result<()> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(root.join("tests/planted"))? {
        patches.push(entry?.path());
    }
    patches.sort();
    for patch in patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        println!("-- {name}");
        find(root, broker, &Fault::read(patch.clone())?)?;
    }
    Ok(())
}

fn find(root: &Path, broker: &KafkaBroker, fault: &Fault) -> Result<()> {
    let planted = root.join("target/planted");
    let (copy, built) = (planted.join("sources"), planted.join("target"));
    // What an earlier fault changed is taken back, and what did not change is not compiled again.
    mirror(root, &copy)?;
    run(Command::new("git")
        .arg("apply")
        .arg(&fault.patch)
        .current_dir(&copy)
        // Else it would take the copy for a part of the repository around it, and leave it as it is.
        .env("GIT_CEILING_DIRECTORIES", &planted))?;
    // Apart from the sound build: cargo knows a crate by its place in the workspace, and would put one where the other
    // is. What is built here needs neither wasmtime nor a device.
    run(cargo()
        .args(["build", "--release", "-p", "tidegate-tests"])
        .args(["--bin", "tidegate-with-mock"])
        .env("CARGO_TARGET_DIR", &built)
        .current_dir(&copy))?;
    let mut test = cargo();
    test.args(["test", "--release", "--workspace", "--test", "kafka", "--"])
        .args(["--exact", "--nocapture", &fault.scene])
        .envs(broker.variables())
        .env(
            "TIDEGATE_WITH_MOCK",
            built.join("release/tidegate-with-mock"),
        )
        .current_dir(root);
    let output = test.output().context("cannot start the tests")?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let of_it = said.lines().filter(|line| line.contains(&fault.finds));
    let of_it: Vec<&str> = of_it.collect();
    if output.status.success() || of_it.is_empty() {
        bail!(
            "{} is not found: {} says nothing of \"{}\":\n{said}",
            fault.patch.display(),
            fault.scene,
            fault.finds
        );
    }
    println!("found by {}: {}", fault.scene, of_it[0]);
    Ok(())
}

/// Makes `to` what `from` is, without what cargo and git keep there.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let new = to.join(&name);
        if kind.is_dir() {
            if name != "target" && name != ".git" {
                mirror(&entry.path(), &new)?;
            }
        } else if kind.is_file() && name != ".git" {
            let bytes = fs::read(entry.path())?;
            if fs::read(&new).ok().as_ref() != Some(&bytes) {
                fs::write(&new, bytes)?;
            }
        }
    }
    Ok(())
}
