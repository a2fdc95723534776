//! The compiling process: it takes its order, gives up what it does not need, and only then reads what it compiles.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::CompileLimits;
use crate::panics::caught;

/// How much the child gives way to others: beside a machine that is fully busy it still has a tenth of a core, so that a
/// deployment comes to its end.
#[cfg(unix)]
const NICE: i32 = 10;
/// Bytes of a component that are read: the host takes fewer.
const INPUT: u64 = 1 << 30;

/// What is made of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A component of a core module.
    Encode,
    /// Machine code of a component.
    Compile,
}

impl Job {
    const NAMES: [(&str, Job); 2] = [("encode", Job::Encode), ("compile", Job::Compile)];

    /// Does it in this process.
    pub(crate) fn run(self, wasm: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Job::Encode => tidegate_component::encode(bytes).map_err(|error| error.to_string()),
            Job::Compile => wasm
                .precompile_component(bytes)
                .map_err(|error| format!("{error:#}")),
        }
    }
}

/// What a child is told on its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) job: Job,
    /// Whether memories are guarded by address space.
    pub(crate) guarded: bool,
    pub(crate) limits: CompileLimits,
}

impl Order {
    pub(crate) fn arguments(&self) -> [String; 4] {
        let named = Job::NAMES.iter().find(|(_, job)| *job == self.job);
        [
            named.map_or("", |(name, _)| name).to_owned(),
            if self.guarded { "guarded" } else { "checked" }.to_owned(),
            self.limits.memory.to_string(),
            self.limits.time.as_millis().to_string(),
        ]
    }

    fn read(arguments: &[String]) -> Option<Order> {
        let [job, memories, memory, time] = arguments else {
            return None;
        };
        let (_, job) = Job::NAMES.into_iter().find(|(name, _)| name == job)?;
        Some(Order {
            job,
            guarded: match memories.as_str() {
                "guarded" => true,
                "checked" => false,
                _ => return None,
            },
            limits: CompileLimits {
                memory: memory.parse().ok()?,
                time: Duration::from_millis(time.parse().ok()?),
            },
        })
    }
}

/// What a [`super::ChildCompiler`] does: reads a component from standard input, compiles it within its limits, and writes
/// the artifact to standard output, or why there is none to standard error.
pub fn compile_for_parent(arguments: &[String]) -> ExitCode {
    let Some(order) = Order::read(arguments) else {
        eprintln!("this is how the host starts its compiler; there is nothing in it for others");
        return ExitCode::from(2);
    };
    match caught(|| work(&order)).and_then(|done| done) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A parent that has gone reads nothing.
            let _ = std::io::stderr().write_all(why.as_bytes());
            ExitCode::from(1)
        }
    }
}

fn work(order: &Order) -> Result<(), String> {
    confine(order.limits)?;
    let wasm = crate::engine::wasm(order.guarded).map_err(|error| format!("{error:#}"))?;
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(INPUT)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the component cannot be read: {error}"))?;
    let made = order.job.run(&wasm, &bytes)?;
    std::io::stdout()
        .lock()
        .write_all(&made)
        .map_err(|error| format!("what was compiled cannot be written: {error}"))
}

/// Lowers the priority, sets the limits and gives up writing files. It comes before the first byte of the component.
#[cfg(unix)]
fn confine(limits: CompileLimits) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
    let bound = |resource, value: u64, what: &str| {
        // A limit of the process that is stricter stays. The signal of the lower one says which limit it was.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let both = Rlimit {
            current: Some(value.min(most)),
            maximum: Some(value.saturating_add(1).min(most)),
        };
        setrlimit(resource, both).map_err(|error| format!("no limit on {what}: {error}"))
    };
    // It ends with its parent: nobody would take what it makes.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("it would outlive its parent: {error}"))?;
    nice(NICE).map_err(|error| format!("no lower priority: {error}"))?;
    // Linux counts what may be written, and not what is only reserved.
    bound(Resource::Data, limits.memory, "memory")?;
    bound(Resource::Cpu, limits.time.as_secs().max(1), "CPU time")?;
    bound(Resource::Fsize, 0, "files")?;
    bound(Resource::Core, 0, "core dumps")
}

#[cfg(not(unix))]
fn confine(_limits: CompileLimits) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_given() {
        for (_, job) in Job::NAMES {
            let order = Order {
                job,
                guarded: job == Job::Compile,
                limits: CompileLimits {
                    memory: 123_456_789,
                    time: Duration::from_millis(1500),
                },
            };
            assert_eq!(Order::read(&order.arguments()), Some(order));
        }
        assert_eq!(Order::read(&[]), None);
        assert_eq!(
            Order::read(&["compile", "guarded", "much", "1"].map(str::to_owned)),
            None
        );
    }
}
