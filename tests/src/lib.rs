//! What the tests of whole pipelines have in common: where things are, and the binary as a user runs it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod adapter;
pub mod collector;
pub mod mock;
mod package;
pub mod script_reader;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub use package::{MINILM, Package};

/// The top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ has a parent")
        .to_path_buf()
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |path| root().join(path))
}

/// The binary under test. Built by `cargo xtask test`, or by `cargo build --release`.
pub fn tidegate() -> PathBuf {
    let path = target().join("release/tidegate");
    assert!(
        path.exists(),
        "{} is missing: run cargo build --release",
        path.display()
    );
    path
}

/// A shipped operator or a test guest, built by `cargo xtask operators`.
pub fn operator(name: &str) -> PathBuf {
    let path = target().join("operators").join(format!("{name}.wasm"));
    assert!(
        path.exists(),
        "{} is missing: run cargo xtask operators",
        path.display()
    );
    path
}

/// Whether the long versions of tests run too.
pub fn full() -> bool {
    std::env::var_os("TIDEGATE_TEST_FULL").is_some()
}

/// A directory with a pipeline, removed at the end.
pub struct Workspace {
    directory: tempfile::TempDir,
}

impl Workspace {
    /// A directory with this pipeline file. `{target}` in it becomes the place of the operators.
    pub fn new(pipeline: &str) -> Workspace {
        let workspace = Workspace {
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        workspace.pipeline(pipeline);
        workspace
    }

    /// Writes the pipeline file anew.
    pub fn pipeline(&self, text: &str) {
        let operators = target().join("operators");
        self.write(
            "pipeline.toml",
            text.replace("{operators}", &operators.display().to_string()),
        );
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("a writable temporary directory");
    }

    /// Reads a file; empty if there is none.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_default()
    }

    /// The lines of a file as JSON. What is being written, and has no end of its line yet, is none.
    pub fn json_lines(&self, name: &str) -> Vec<serde_json::Value> {
        let mut bytes = self.read(name);
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(whole.map_or(0, |end| end + 1));
        let text = String::from_utf8(bytes).expect("output is UTF-8");
        text.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}: {e}: {line}"))
            })
            .collect()
    }

    /// A file as JSON.
    pub fn json(&self, name: &str) -> serde_json::Value {
        let bytes = self.read(name);
        serde_json::from_slice(&bytes)
            .unwrap_or_else(|e| panic!("{name}: {e}: {}", String::from_utf8_lossy(&bytes)))
    }

    /// `tidegate ARGUMENTS` in the directory.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tidegate());
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs `tidegate ARGUMENTS` to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .output()
            .expect("tidegate can be started")
    }

    /// Runs the pipeline to its end and expects success.
    pub fn run_pipeline(&self) -> Output {
        let output = self.run(&["run", "--quiet", "pipeline.toml"]);
        assert!(
            output.status.success(),
            "tidegate run: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// Starts `tidegate ARGUMENTS`.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let log = std::fs::File::create(self.path("stderr.log")).expect("a log file");
        let child = self
            .command(arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("tidegate can be started");
        Running { child }
    }
}

/// A running tidegate; killed when dropped.
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts a command.
    pub fn spawn(mut command: Command) -> Running {
        let child = command.spawn();
        Running {
            child: child.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}")),
        }
    }

    /// One that was started, to whose ends somebody listens.
    pub fn of(child: Child) -> Running {
        Running { child }
    }

    /// Kills it as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end.
    pub fn wait(&mut self, patience: Duration) -> std::process::ExitStatus {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                Instant::now() < until,
                "tidegate has not ended within {patience:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to end, as a machine does that shuts down, and waits until it has.
    pub fn terminate(&mut self, patience: Duration) -> std::process::ExitStatus {
        self.signal("TERM");
        self.wait(patience)
    }

    /// Whether it hears SIGTERM by now, in place of being ended by it as every program is at first. Where the system does
    /// not tell, or it has ended, it is taken to.
    pub fn hears_term(&self) -> bool {
        const TERM: u32 = 15;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let Ok(status) = status else { return true };
        if status.contains("State:\tZ") {
            return true;
        }
        let mut lines = status.lines();
        let caught = lines.find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_none_or(|mask| (mask >> (TERM - 1)) & 1 == 1)
    }

    /// Sends it a signal: `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let (signal, id) = (format!("-{name}"), self.id().to_string());
        let told = Command::new("kill").args([signal, id]).status();
        assert!(told.is_ok_and(|told| told.success()), "it cannot be told");
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Dead letters without what is another in every run: the time at which each died, and the path of its input.
pub fn comparable_letters(letters: &str) -> String {
    ["\"at\":\"", "\"input\":\""]
        .iter()
        .fold(letters.to_owned(), |letters, member| {
            without_member(&letters, member)
        })
}

fn without_member(letters: &str, member: &str) -> String {
    let mut parts = letters.split(member);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, after) = part
            .split_once("\",")
            .expect("a text without quotes, and a member after it");
        rest.push_str(after);
    }
    rest
}

/// Waits until something holds; panics with `what` if it never does.
pub fn until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A port of this machine that nobody has. It is below those that the system gives to whoever connects, or asks for any, so
/// that it is nobody else's by chance when it is taken in the end.
pub fn free_port() -> u16 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos() as u64;
    let mut random = Random(now ^ (u64::from(std::process::id()) << 40));
    loop {
        let port = 20_000 + random.below(12_000) as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A small deterministic random generator (SplitMix64), so that tests need no crate and repeat exactly.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }
}
