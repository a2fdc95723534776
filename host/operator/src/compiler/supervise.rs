//! The parent's side of a compilation: it feeds the child, watches the clock, and says why it ended.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_telemetry::{WorkKind, plain};

use super::{ChildCompiler, Order, Refused, Task, memory_limit, time_limit};
use crate::failure::TEXT_BYTES;
use crate::limits::size;
use crate::shared::lock;

/// How often a child is looked at, at most.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes of a child's words that are read.
const WORDS: u64 = 64 << 10;

/// One compilation at a time: others wait for it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<bool>,
    free: Condvar,
}

/// Whose turn it is.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for a turn; none if it has not come by then.
    pub(crate) fn take(&self, until: Instant) -> Option<Turn<'_>> {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self
            .free
            .wait_timeout_while(lock(&self.taken), left, |taken| *taken);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *taken {
            return None;
        }
        *taken = true;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.taken) = false;
        self.0.free.notify_one();
    }
}

/// Compiles in a child; ends it when the time is over.
pub(crate) fn run(
    compiler: &ChildCompiler,
    order: &Order,
    until: Instant,
    task: &Task<'_>,
) -> Result<Vec<u8>, Refused> {
    let began = Instant::now();
    let mut child = start(compiler, order, task).map_err(|error| {
        Refused::Unable(format!(
            "no compiler: {} cannot be started: {error}",
            compiler.program.display()
        ))
    })?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let most = order.limits.memory;
    std::thread::scope(|scope| {
        // A child that ends early does not read on; what it says then is why.
        scope.spawn(move || input.map(|mut input| order.job.write(task, &mut input)));
        let made = scope.spawn(move || read(output, most));
        let said = scope.spawn(move || read(errors, WORDS));
        let ended = wait(&mut child, began, until, task);
        let made = made.join().unwrap_or_default();
        let said = said.join().unwrap_or_default();
        match ended {
            Ok(Ended { status, .. }) if status.success() => Ok(made),
            Ok(ended) => Err(why(order, &ended, &String::from_utf8_lossy(&said))),
            Err(refused) => Err(refused),
        }
    })
}

fn start(compiler: &ChildCompiler, order: &Order, task: &Task<'_>) -> std::io::Result<Child> {
    let mut command = Command::new(&compiler.program);
    command
        .args(&compiler.arguments)
        .args(order.arguments())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Keys and tokens of the host are none of its business.
    #[cfg(unix)]
    {
        command.env_clear();
        for kept in ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = if task.beside {
        (cores - 1).max(1)
    } else {
        cores
    };
    command.env("RAYON_NUM_THREADS", threads.to_string());
    command.spawn()
}

/// What comes, up to so many bytes; the rest is left in the pipe, and who writes it waits for its end.
fn read(from: Option<impl Read>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What was read until a pipe broke is what there is.
        let _ = from.take(most).read_to_end(&mut bytes);
    }
    bytes
}

struct Ended {
    status: ExitStatus,
    after: Duration,
    /// Most memory that was seen.
    memory: u64,
}

fn wait(
    child: &mut Child,
    began: Instant,
    until: Instant,
    task: &Task<'_>,
) -> Result<Ended, Refused> {
    let mut nap = Duration::from_millis(1);
    let mut most = 0;
    let subject = format!("{} ({})", task.label, size(task.bytes.len()));
    let work = task.works.begin(WorkKind::Compile, &subject);
    loop {
        let elapsed = began.elapsed();
        let memory = memory_of(child.id());
        most = most.max(memory.unwrap_or_default());
        work.done(most);
        match child.try_wait() {
            Ok(Some(status)) => {
                return Ok(Ended {
                    status,
                    after: elapsed,
                    memory: most,
                });
            }
            Ok(None) if Instant::now() < until => {}
            other => {
                // It may have ended by itself since.
                let _ = child.kill();
                let _ = child.wait();
                return Err(match other {
                    Err(error) => Refused::Unable(format!("its compiler is lost: {error}")),
                    Ok(_) => Refused::Limit(format!(
                        "it was not compiled within the {elapsed:.0?} that there were for it: the machine has too little time to spare"
                    )),
                });
            }
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(LOOK);
    }
}

/// Most memory that a process has had so far, in bytes (`proc_pid_status(5)`).
fn memory_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

/// Why a child ended without an artifact.
fn why(order: &Order, ended: &Ended, said: &str) -> Refused {
    let limits = order.limits;
    let took = match ended.memory {
        0 => format!("{:.1?}", ended.after),
        memory => format!("{:.1?} and {}", ended.after, size(memory as usize)),
    };
    // The words of Rust's allocator when it has to give up, and of the system where memory is asked for otherwise.
    let of_memory = [
        "memory allocation of ",
        "Cannot allocate memory",
        "os error 12",
    ];
    if of_memory.iter().any(|words| said.contains(words)) {
        return Refused::Limit(format!(
            "compiling it takes more memory than it may, {}; it was given up after {took}",
            memory_limit(limits)
        ));
    }
    match (ended.status.code(), signal(ended.status)) {
        (Some(1), _) => Refused::Said(plain(said, TEXT_BYTES).into_owned()),
        (_, Some(signal)) if signal == OUT_OF_TIME => Refused::Limit(format!(
            "compiling it takes more CPU time than it may, {}; it was given up after {took}",
            time_limit(limits)
        )),
        (_, Some(KILLED)) => Refused::Limit(format!(
            "its compiler was killed after {took}, as the system does when memory runs out"
        )),
        _ => Refused::Said(format!(
            "its compiler ended with {} after {took}: {}",
            ended.status,
            plain(said, TEXT_BYTES)
        )),
    }
}

const KILLED: i32 = 9;

#[cfg(unix)]
const OUT_OF_TIME: i32 = rustix::process::Signal::XCPU.as_raw();
#[cfg(not(unix))]
const OUT_OF_TIME: i32 = i32::MAX;

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use tidegate_telemetry::Works;

    use super::*;
    use crate::compiler::{CompileLimits, Job};

    /// A compiler that does what this script says.
    fn compiled(script: &str, time: Duration) -> Result<Vec<u8>, Refused> {
        listed(script, time, &Works::default())
    }

    fn listed(script: &str, time: Duration, works: &Works) -> Result<Vec<u8>, Refused> {
        let compiler = ChildCompiler {
            program: "/bin/sh".into(),
            arguments: ["-c", script].map(Into::into).into(),
        };
        let order = Order {
            job: Job::Compile,
            guarded: true,
            gives_way: true,
            limits: CompileLimits {
                memory: 64 << 20,
                time: Duration::from_secs(2),
            },
        };
        let task = Task {
            bytes: &[7; 1 << 20],
            known: b"",
            label: "op.wasm",
            beside: false,
            gives_way: true,
            until: None,
            works,
        };
        run(&compiler, &order, Instant::now() + time, &task)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_child_writes_is_what_was_compiled() {
        assert_eq!(compiled("cat", LONG), Ok(vec![7; 1 << 20]));
        assert_eq!(compiled("printf made", LONG), Ok(b"made".to_vec()));
    }

    #[test]
    fn what_a_child_compiles_is_listed_until_it_ends_however_it_does() {
        let place = tempfile::tempdir().unwrap();
        let go = place.path().join("go");
        for (end, succeeds) in [("cat", true), ("exit 1", false), ("kill -KILL $$", false)] {
            let script = format!("until [ -e {} ]; do sleep 0.01; done; {end}", go.display());
            let works = Works::default();
            std::thread::scope(|scope| {
                let made = scope.spawn(|| listed(&script, LONG, &works));
                let listed = loop {
                    if let [one] = &works.under_way()[..] {
                        break one.clone();
                    }
                    assert!(!made.is_finished(), "it was never listed");
                    std::thread::yield_now();
                };
                assert_eq!(listed.kind, WorkKind::Compile);
                assert_eq!(listed.subject, "op.wasm (1 MiB)");
                std::fs::write(&go, "").unwrap();
                assert_eq!(made.join().unwrap().is_ok(), succeeds);
            });
            assert_eq!(works.under_way(), []);
            std::fs::remove_file(&go).unwrap();
        }
    }

    #[test]
    fn a_child_that_refuses_says_why_on_one_line() {
        assert_eq!(
            compiled("printf 'no \\033[2J good\\nline' >&2; exit 1", LONG),
            Err(Refused::Said("no \\u{1b}[2J good\\nline".into()))
        );
    }

    #[test]
    fn a_child_that_never_ends_is_ended() {
        let refused = compiled("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        let Refused::Limit(why) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("it was not compiled within"), "{why}");
    }

    #[test]
    fn a_child_that_floods_its_parent_is_not_read_beyond_its_limits() {
        let flood = "while :; do printf '%01000000d' 0; done";
        assert!(compiled(flood, Duration::from_millis(300)).is_err());
        let flood = "while :; do printf '%01000000d' 0 >&2; done";
        assert!(compiled(flood, Duration::from_millis(300)).is_err());
    }

    #[test]
    fn limits_that_a_child_passes_are_named_with_what_it_took() {
        for (script, limit) in [
            (
                "echo 'memory allocation of 8388608 bytes failed' >&2; kill -ABRT $$",
                "limit operators.compile-memory = \"64MiB\"; it was given up after ",
            ),
            (
                "kill -XCPU $$",
                "limit operators.compile-time = \"2s\"; it was given up after ",
            ),
            ("kill -KILL $$", "as the system does when memory runs out"),
        ] {
            match compiled(script, LONG) {
                Err(Refused::Limit(why)) => assert!(why.contains(limit), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_child_that_crashes_costs_what_it_compiles_and_nothing_else() {
        match compiled("kill -SEGV $$", LONG) {
            Err(Refused::Said(why)) => assert!(why.contains("signal"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let compiler = ChildCompiler {
            program: "/nowhere/compiler".into(),
            arguments: Vec::new(),
        };
        let order = Order {
            job: Job::Compile,
            guarded: true,
            gives_way: true,
            limits: CompileLimits::default(),
        };
        let task = Task {
            bytes: b"",
            known: b"",
            label: "op.wasm",
            beside: false,
            gives_way: true,
            until: None,
            works: &Works::default(),
        };
        let refused = run(&compiler, &order, Instant::now() + LONG, &task).unwrap_err();
        let Refused::Unable(why) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("/nowhere/compiler cannot be started"), "{why}");
    }

    #[test]
    fn one_compilation_has_its_turn_at_a_time() {
        let turns = Turns::default();
        let first = turns.take(Instant::now() + LONG).unwrap();
        assert!(
            turns
                .take(Instant::now() + Duration::from_millis(10))
                .is_none()
        );
        drop(first);
        assert!(turns.take(Instant::now() + LONG).is_some());
    }
}
