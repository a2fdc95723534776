//! Fuzzing of what reads models and of what reads batches and answers: `host/weights/fuzz` and `host/record/fuzz`, by
//! libFuzzer, on the stable toolchain. Answers of the plain world are lifted by wasmtime, which is not compiled with
//! counters: a test of `host/operator` gives it changed ones for as long.
//!
//! LLVM's coverage pass is switched on by flags that stable accepts; there is no address sanitizer, and no need of one
//! where no unsafe code stands. What a run finds new is kept under `target/fuzz/corpus` for the next.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::steps::{cargo, output, run};

/// Crates and their targets.
const PACKAGES: [(&str, &[&str]); 2] = [
    (
        "host/weights/fuzz",
        &[
            "blocks",
            "config",
            "gguf",
            "gguf_parts",
            "lora",
            "packed",
            "safetensors",
        ],
    ),
    ("host/record/fuzz", &["batch", "answer"]),
];

/// Counters for every edge, with their addresses, and what is compared with what.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code";

/// Most memory of a target, MiB, and longest input, bytes.
const MEMORY: u32 = 1024;
const LONGEST: u32 = 16384;

/// What builds the targets.
pub(crate) fn builds(root: &Path) -> Result<Vec<Command>> {
    let host = host()?;
    let build = |package: &str| {
        let mut build = cargo();
        build
            .args(["build", "--release", "--manifest-path"])
            .arg(root.join(package).join("Cargo.toml"))
            // With a target named, build scripts and macros are compiled without the flags.
            .args(["--target", &host, "--target-dir"])
            .arg(directory(root))
            .env("RUSTFLAGS", FLAGS);
        build
    };
    Ok(PACKAGES.iter().map(|(package, _)| build(package)).collect())
}

fn directory(root: &Path) -> PathBuf {
    root.join("target/fuzz")
}

fn dictionary(root: &Path, package: &str, target: &str) -> PathBuf {
    root.join(package).join(format!("{target}.dict"))
}

/// Builds the targets and runs all at once for `seconds`.
pub(crate) fn fuzz(root: &Path, seconds: u32) -> Result<()> {
    let directory = directory(root);
    let binaries = directory.join(host()?).join("release");
    let mut running = Vec::new();
    for mut build in builds(root)? {
        run(&mut build)?;
    }
    for (package, targets) in PACKAGES {
        for target in targets {
            let dictionary = dictionary(root, package, target);
            // Of one that is missing libFuzzer says only that it ends.
            ensure!(
                dictionary.is_file(),
                "{target} has no dictionary: {} is not there",
                dictionary.display()
            );
            let binary = binaries.join(target);
            running.push(Run::start(
                target,
                &binary,
                &dictionary,
                &directory,
                seconds,
            )?);
        }
    }
    let lifted = lift(root, seconds);
    // All are waited for before the first failure is told.
    let ended: Vec<Result<()>> = running.into_iter().map(Run::finish).collect();
    ended.into_iter().chain([lifted]).collect()
}

/// Gives the host answers of the plain world for so long.
fn lift(root: &Path, seconds: u32) -> Result<()> {
    run(cargo()
        // Of the whole workspace, so that nothing is compiled again with other features.
        .args(["test", "--release", "--quiet", "--workspace"])
        .args(["--test", "operator", "lifting::"])
        .current_dir(root)
        .env("TIDEGATE_LIFT_SECONDS", seconds.to_string()))
}

/// A target that runs.
struct Run {
    target: &'static str,
    process: Child,
    log: PathBuf,
}

impl Run {
    fn start(
        target: &'static str,
        binary: &Path,
        dictionary: &Path,
        directory: &Path,
        seconds: u32,
    ) -> Result<Run> {
        let corpus = directory.join("corpus").join(target);
        let found = directory.join("found").join(target);
        for needed in [&corpus, &found] {
            std::fs::create_dir_all(needed)
                .with_context(|| format!("making {}", needed.display()))?;
        }
        let log = directory.join(format!("{target}.log"));
        let file = File::create(&log).with_context(|| format!("making {}", log.display()))?;
        let process = Command::new(binary)
            .arg(&corpus)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-artifact_prefix={}/", found.display()))
            .arg(format!("-dict={}", dictionary.display()))
            .args(["-timeout=10", "-print_final_stats=1", "-print_funcs=0"])
            .env("TIDEGATE_FUZZ_SEEDS", &corpus)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        Ok(Run {
            target,
            process,
            log,
        })
    }

    fn finish(mut self) -> Result<()> {
        let status = self.process.wait()?;
        let bytes =
            std::fs::read(&self.log).with_context(|| format!("reading {}", self.log.display()))?;
        let log = String::from_utf8_lossy(&bytes);
        if !status.success() {
            let input = log
                .lines()
                .find_map(|line| line.split_once("Test unit written to "));
            match input {
                Some((_, path)) => bail!(
                    "{}: {status}, by the input {path} (see {})",
                    self.target,
                    self.log.display()
                ),
                None => bail!("{}: {status} (see {})", self.target, self.log.display()),
            }
        }
        let [began, ended] = [
            log.lines().find_map(coverage),
            log.lines().rev().find_map(coverage),
        ];
        let (Some(began), Some(ended)) = (began, ended) else {
            bail!(
                "{} reports no coverage (see {})",
                self.target,
                self.log.display()
            );
        };
        ensure!(
            log.contains("inline 8-bit counters"),
            "{} was compiled without coverage counters",
            self.target
        );
        let runs = log
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let runs = runs.unwrap_or("?").trim();
        println!(
            "{:<12} {runs} inputs, edges {began} -> {ended}, nothing found",
            self.target
        );
        Ok(())
    }
}

/// The edges that a line of libFuzzer's log says were reached.
fn coverage(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" cov: ")?;
    rest.split(' ').next()?.parse().ok()
}

/// The triple that the compiler runs on.
fn host() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV")).context("rustc -vV failed")?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc -vV names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_that_is_built_is_run_with_a_dictionary() -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (package, targets) in PACKAGES {
            let manifest = std::fs::read_to_string(root.join(package).join("Cargo.toml"))?;
            let (_, binaries) = manifest.split_once("[[bin]]").context("no targets")?;
            let built: BTreeSet<_> = binaries
                .lines()
                .filter_map(|line| line.strip_prefix("name = "))
                .map(|name| name.trim_matches('"'))
                .collect();
            assert_eq!(built, targets.iter().copied().collect(), "{package}");
            for target in targets {
                let dictionary = dictionary(&root, package, target);
                assert!(dictionary.is_file(), "{}", dictionary.display());
            }
        }
        Ok(())
    }
}
