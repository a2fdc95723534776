//! The compiling process: it takes its order, gives up what it does not need, and only then reads what it compiles.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::{CompileLimits, functions};
use crate::panics::caught;

/// How much a child gives way to others: beside a machine that is fully busy it still has a tenth of a core, so that a
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
    /// The same with functions that are known, which stand in front of the component with their length. Behind the
    /// machine code stand a report and its length.
    CompileKnowing,
}

impl Job {
    const NAMES: [(&str, Job); 3] = [
        ("encode", Job::Encode),
        ("compile", Job::Compile),
        ("compile-knowing", Job::CompileKnowing),
    ];

    /// Does it in this process. Of the limits it knows those of what it keeps in memory for others.
    pub(crate) fn run(
        self,
        (wasm, guarded): (&wasmtime::Engine, bool),
        limits: CompileLimits,
        input: &mut impl Read,
    ) -> Result<Vec<u8>, String> {
        let read = |from: &mut dyn Read| {
            let mut bytes = Vec::new();
            from.take(INPUT)
                .read_to_end(&mut bytes)
                .map_err(|error| format!("the component cannot be read: {error}"))?;
            Ok::<_, String>(bytes)
        };
        let said = |error: wasmtime::Error| format!("{error:#}");
        match self {
            Job::Encode => {
                tidegate_component::encode(&read(input)?).map_err(|error| error.to_string())
            }
            Job::Compile => wasm.precompile_component(&read(input)?).map_err(said),
            Job::CompileKnowing => {
                let most = functions::most(limits);
                let known = known(input, most)?;
                let (mut made, report) =
                    functions::compile(guarded, known, &read(input)?, most).map_err(said)?;
                made.extend_from_slice(&report);
                made.extend_from_slice(&(report.len() as u64).to_le_bytes());
                Ok(made)
            }
        }
    }
}

/// The functions in front of a component.
fn known(input: &mut impl Read, most: usize) -> Result<Vec<u8>, String> {
    let unread = |error: std::io::Error| format!("known functions cannot be read: {error}");
    let mut length = [0; 8];
    input.read_exact(&mut length).map_err(unread)?;
    let length = u64::from_le_bytes(length);
    if length > most as u64 {
        return Err(format!("known functions have {length} bytes, limit {most}"));
    }
    let mut known = vec![0; length as usize];
    input.read_exact(&mut known).map_err(unread)?;
    Ok(known)
}

/// What a child is told on its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) job: Job,
    /// Whether memories are guarded by address space.
    pub(crate) guarded: bool,
    /// Whether it has a low priority.
    pub(crate) gives_way: bool,
    pub(crate) limits: CompileLimits,
}

impl Order {
    pub(crate) fn arguments(&self) -> [String; 5] {
        let named = Job::NAMES.iter().find(|(_, job)| *job == self.job);
        [
            named.map_or("", |(name, _)| name).to_owned(),
            if self.guarded { "guarded" } else { "checked" }.to_owned(),
            if self.gives_way {
                "gives-way"
            } else {
                "hurries"
            }
            .to_owned(),
            self.limits.memory.to_string(),
            self.limits.time.as_millis().to_string(),
        ]
    }

    fn read(arguments: &[String]) -> Option<Order> {
        let [job, memories, priority, memory, time] = arguments else {
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
            gives_way: match priority.as_str() {
                "gives-way" => true,
                "hurries" => false,
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
    confine(order)?;
    let wasm = crate::engine::wasm(order.guarded).map_err(|error| format!("{error:#}"))?;
    let input = &mut std::io::stdin().lock();
    let engine = (&wasm, order.guarded);
    let made = order.job.run(engine, order.limits, input)?;
    std::io::stdout()
        .lock()
        .write_all(&made)
        .map_err(|error| format!("what was compiled cannot be written: {error}"))
}

/// Lowers the priority, where it is to, sets the limits and gives up writing files. It comes before the first byte of the component.
#[cfg(unix)]
fn confine(order: &Order) -> Result<(), String> {
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
    if order.gives_way {
        nice(NICE).map_err(|error| format!("no lower priority: {error}"))?;
    }
    // Linux counts what may be written, and not what is only reserved.
    bound(Resource::Data, order.limits.memory, "memory")?;
    bound(
        Resource::Cpu,
        order.limits.time.as_secs().max(1),
        "CPU time",
    )?;
    bound(Resource::Fsize, 0, "files")?;
    bound(Resource::Core, 0, "core dumps")
}

#[cfg(not(unix))]
fn confine(_order: &Order) -> Result<(), String> {
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
                gives_way: job == Job::Encode,
                limits: CompileLimits {
                    memory: 123_456_789,
                    time: Duration::from_millis(1500),
                },
            };
            assert_eq!(Order::read(&order.arguments()), Some(order));
        }
        assert_eq!(Order::read(&[]), None);
        assert_eq!(
            Order::read(&["compile", "guarded", "hurries", "much", "1"].map(str::to_owned)),
            None
        );
    }
}
