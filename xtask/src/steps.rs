//! Running commands, and telling how long each step took.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Steps that were done, with their times.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Does a step.
    pub(crate) fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("== {name}");
        let began = Instant::now();
        let result = work().with_context(|| format!("step \"{name}\" failed"));
        self.done.push((name.to_owned(), began.elapsed()));
        result
    }

    /// Prints what each step took.
    pub(crate) fn report(&self) {
        println!("== what each step took");
        for (name, time) in &self.done {
            println!("{:>8.1} s  {name}", time.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, time)| *time).sum();
        println!("{:>8.1} s  in all", total.as_secs_f64());
    }
}

/// Commands that run one after the other beside something else, with what is left of the processors.
pub(crate) struct Aside {
    done: JoinHandle<Result<()>>,
}

impl Aside {
    /// How much later they begin: what they run beside has locked what it needs by then.
    const LATER: Duration = Duration::from_secs(20);

    /// Begins.
    pub(crate) fn begin(commands: Vec<Command>) -> Result<Aside> {
        let work = move || {
            std::thread::sleep(Aside::LATER);
            commands.iter().try_for_each(run_aside)
        };
        let done = std::thread::Builder::new().spawn(work)?;
        Ok(Aside { done })
    }

    /// Waits for them. The first that fails is told, with what it said.
    pub(crate) fn finish(self) -> Result<()> {
        self.done
            .join()
            .unwrap_or_else(|_| bail!("what ran beside the tests has panicked"))
    }
}

/// Runs a command at a low priority; what it says is only shown if it fails.
fn run_aside(command: &Command) -> Result<()> {
    let line = line(command);
    let mut low = Command::new("nice");
    low.args(["-n", "19"])
        .arg(command.get_program())
        .args(command.get_args());
    low.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    if let Some(directory) = command.get_current_dir() {
        low.current_dir(directory);
    }
    let output = low
        .output()
        .with_context(|| format!("cannot start: nice -n 19 {line}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{said}\n{line}: {}", output.status);
    }
    Ok(())
}

/// Runs a command and fails with its line if it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start: {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Runs a command and gives its output if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
