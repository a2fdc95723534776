//! Who turns a component into machine code: a child process within limits, or this one.
//!
//! What is compiled was written by somebody else, and compilers have no bound of their own: a megabyte can take
//! gigabytes and minutes, and a mistake in one is a mistake in the process that runs it. So the host gives the bytes to a
//! child of low priority, but where a start waits for it, takes what it wrote, and ends it when it goes beyond its limits.

mod child;
mod functions;
mod supervise;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use child::compile_for_parent;
pub(crate) use child::{Job, Order};
pub(crate) use functions::{Learning, most, renewed};
pub(crate) use supervise::Turns;

use tidegate_telemetry::Works;

use crate::limits::size;
use crate::panics::caught;

/// Who compiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Compiler {
    /// This process: nothing bounds what that takes. For tests and benches.
    #[default]
    Here,
    /// A child process.
    Child(ChildCompiler),
}

/// A program that calls [`compile_for_parent`] with what it is given after `arguments`. It must have the same engine as
/// this one: usually it is the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildCompiler {
    /// The program.
    pub program: PathBuf,
    /// What comes before its order on the command line.
    pub arguments: Vec<OsString>,
}

/// However busy a machine is, a compilation ends after so long, or after ten times the CPU time that it may take.
const LATEST: Duration = Duration::from_secs(600);

/// What compiling one component may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Bytes of memory. Default 1 GiB.
    pub memory: u64,
    /// CPU time of all its threads together, whatever else the machine does. Default 2 minutes.
    pub time: Duration,
}

impl Default for CompileLimits {
    fn default() -> CompileLimits {
        CompileLimits {
            memory: 1 << 30,
            time: Duration::from_secs(120),
        }
    }
}

/// Why nothing was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The component is wrong, in the compiler's words.
    Said(String),
    /// It takes more than it may.
    Limit(String),
    /// There is no compiler.
    Unable(String),
}

/// A component that is to be compiled, and who waits for it.
pub(crate) struct Task<'a> {
    pub(crate) bytes: &'a [u8],
    /// Functions that are known, where new ones are reported ([`Job::CompileKnowing`]).
    pub(crate) known: &'a [u8],
    pub(crate) label: &'a str,
    /// Whether it runs beside a stream, which then keeps a core for itself.
    pub(crate) beside: bool,
    /// Whether it has a low priority.
    pub(crate) gives_way: bool,
    /// When nobody waits for it any more.
    pub(crate) until: Option<Instant>,
    pub(crate) works: &'a Works,
}

impl Job {
    /// Writes the task as the compiler of this job reads it.
    fn write(self, task: &Task<'_>, to: &mut impl Write) -> std::io::Result<()> {
        if self == Job::CompileKnowing {
            to.write_all(&(task.known.len() as u64).to_le_bytes())?;
            to.write_all(task.known)?;
        }
        to.write_all(task.bytes)
    }
}

/// The artifact and the report of [`Job::CompileKnowing`]; none where it left something else.
pub(crate) fn parts(mut made: Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (rest, length) = made.split_last_chunk::<8>()?;
    let report: usize = u64::from_le_bytes(*length).try_into().ok()?;
    let artifact = rest.len().checked_sub(report)?;
    let mut behind = made.split_off(artifact);
    behind.truncate(report);
    Some((made, behind))
}

impl Compiler {
    /// The artifact of a component, for an engine with these settings.
    pub(crate) fn run(
        &self,
        job: Job,
        (wasm, guarded): (&wasmtime::Engine, bool),
        limits: CompileLimits,
        turns: &Turns,
        task: &Task<'_>,
    ) -> Result<Vec<u8>, Refused> {
        match self {
            Compiler::Here => caught(|| {
                let mut input = Vec::new();
                job.write(task, &mut input)
                    .map_err(|error| error.to_string())?;
                job.run((wasm, guarded), limits, &mut input.as_slice())
            })
            .and_then(|made| made)
            .map_err(Refused::Said),
            Compiler::Child(child) => {
                let order = Order {
                    job,
                    guarded,
                    gives_way: task.gives_way,
                    limits,
                };
                let began = Instant::now();
                // However little of the machine it is given, it has an end.
                let latest = began + limits.time.saturating_mul(10).max(LATEST);
                let until = task.until.map_or(latest, |until| until.min(latest));
                let _turn = turns.take(until).ok_or_else(|| {
                    Refused::Limit(format!(
                        "it was not compiled within {:.0?}: others were compiled before it",
                        began.elapsed()
                    ))
                })?;
                supervise::run(child, &order, until, task)
            }
        }
    }
}

/// What it may take, as an error says it.
fn memory_limit(limits: CompileLimits) -> String {
    let bytes = usize::try_from(limits.memory).unwrap_or(usize::MAX);
    format!(
        "limit operators.compile-memory = \"{}\"",
        size(bytes).replace(' ', "")
    )
}

fn time_limit(limits: CompileLimits) -> String {
    format!("limit operators.compile-time = \"{:?}\"", limits.time)
}
