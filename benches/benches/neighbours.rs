//! The latency of a stream beside an operator that is out of control: records that are appended to two files, one read
//! by the worker that also runs that operator, the other by another worker.
//!
//! It runs the binary as a user does, once for each way to be out of control (`tests/guests/hostile`). First nothing is
//! beside the stream, then 10,000,000 records are given to the operator, more than it ever ends with. Each time a record
//! is appended to both files every 10 ms, then 5,000 to both at once. A latency is from when a record is due in its file
//! to when it is read from the pipeline's standard output. Arguments name some of the ways; without, it is all. `TMPDIR`
//! says on which disk all of it lies.
//! Needs `cargo build --release --workspace --bins` and `cargo xtask operators`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tidegate_benches::operator_of;

/// What the operator does with its records, and its deadline.
const WAYS: [Way; 6] = [
    Way::new("loop", "bad", 200),
    Way::new("loop", "bad", 1000),
    Way::new("grow", "bad", 200),
    Way::new("trap", "bad", 200),
    // Some milliseconds for each record: never a dead letter, and never fast.
    Way::new("slow", "bad", 200),
    // Every second record comes again until it may no more.
    Way::new("count", "good", 200),
];
/// Records for the operator that is out of control.
const WILD: usize = 10_000_000;
/// Records at once.
const BURST: usize = 5_000;
/// From one record to the next.
const STEP: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(300);

/// Where the record goes whose latency is measured.
const FILES: [&str; 2] = ["same", "other"];
/// What happens meanwhile.
const PHASES: usize = 5;
const START: usize = 0;
const ALONE: usize = 1;
const BURST_ALONE: usize = 2;
const BESIDE: usize = 3;
const BURST_BESIDE: usize = 4;

/// How long a task begins calls in one go: 100 ms for a batch, and batches for 100 ms. What is left of the last batch, what
/// is due again and what the source brings are a go each.
const GO: Duration = Duration::from_millis(200);
/// What begins last in a go: a call, and once more one on a fresh instance for a record that failed alone.
const CALLS: u32 = 2;
/// Goes of a task from one look at the source beside it to the cut after the next: what was left, what was due, and
/// twice what its source brought.
const GOES: u32 = 4;

struct Way {
    mode: &'static str,
    record: &'static str,
    deadline: Duration,
}

impl Way {
    const fn new(mode: &'static str, record: &'static str, deadline: u64) -> Way {
        Way {
            mode,
            record,
            deadline: Duration::from_millis(deadline),
        }
    }

    /// How long a record beside it waits at most, starts of instances left out.
    fn bound(&self) -> Duration {
        (GO + self.deadline * CALLS) * GOES
    }

    fn pipeline(&self, operators: &Path) -> String {
        format!(
            r#"
[pipeline]
name = "bench"
workers = 2
cut-interval = "2ms"
state = "state"
[source.wild]
type = "file"
paths = ["wild.txt"]
format = "raw"
[source.tame]
type = "file"
paths = ["same.txt", "other.txt"]
format = "raw"
[[stage]]
name = "misbehave"
inputs = ["wild"]
operator = "{}/hostile.wasm"
config = {{ mode = "{}", turns = 5000000 }}
limits = {{ deadline = "{}ms" }}
[[stage]]
name = "behave"
inputs = ["tame"]
operator = "pass.wasm"
[sink.out]
type = "stdout"
inputs = ["behave"]
format = "raw"
[sink.passed]
type = "file"
path = "passed.txt"
inputs = ["misbehave"]
format = "raw"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#,
            operators.display(),
            self.mode,
            self.deadline.as_millis()
        )
    }
}

/// A pipeline that runs, until it is dropped.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Latencies in microseconds by phase and file.
type Latencies = [[Histogram<u64>; FILES.len()]; PHASES];

/// Appends to the files, and knows what has come out again.
struct Stream {
    files: [File; FILES.len()],
    began: Instant,
    latencies: Arc<Mutex<Latencies>>,
}

impl Stream {
    fn open(place: &Path) -> Stream {
        Stream {
            files: FILES.map(|name| append(&place.join(format!("{name}.txt")))),
            began: Instant::now(),
            latencies: Arc::new(Mutex::new(
                [(); PHASES].map(|()| FILES.map(|_| Histogram::<u64>::new(3).unwrap())),
            )),
        }
    }

    fn read(&self, output: ChildStdout) -> std::thread::JoinHandle<()> {
        let (began, latencies) = (self.began, Arc::clone(&self.latencies));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let line = line.unwrap();
                let taken = began.elapsed().as_nanos() as u64;
                let mut parts = line.split(' ').map(|part| part.parse::<u64>());
                let mut next = || parts.next().unwrap().unwrap();
                let (due, phase, file) = (next(), next() as usize, next() as usize);
                latencies.lock().unwrap()[phase][file]
                    .record(taken.saturating_sub(due) / 1000)
                    .unwrap();
            }
        })
    }

    /// So many records that are due at this time, in each file.
    fn give(&mut self, phase: usize, due: Duration, records: usize) {
        let filler = "x".repeat(60);
        for (number, file) in self.files.iter_mut().enumerate() {
            let line = format!("{} {phase} {number} {filler}\n", due.as_nanos());
            file.write_all(line.repeat(records).as_bytes()).unwrap();
        }
    }

    /// Waits until all of a phase's records are out.
    fn wait(&self, phase: usize, records: usize) {
        let until = Instant::now() + PATIENCE;
        let out = |histogram: &Histogram<u64>| histogram.len() == records as u64;
        while !self.latencies.lock().unwrap()[phase].iter().all(out) {
            assert!(Instant::now() < until, "records of phase {phase} are lost");
            std::thread::sleep(STEP);
        }
    }

    fn steadily(&mut self, phase: usize, lasts: Duration) {
        let mut next = self.began.elapsed();
        let records = (lasts.as_millis() / STEP.as_millis()) as usize;
        for _ in 0..records {
            // The time at which a record is due, so that a late writer does not make the host look fast.
            self.give(phase, next, 1);
            next += STEP;
            std::thread::sleep(next.saturating_sub(self.began.elapsed()));
        }
        self.wait(phase, records);
    }

    fn at_once(&mut self, phase: usize) {
        self.give(phase, self.began.elapsed(), BURST);
        self.wait(phase, BURST);
    }
}

fn append(path: &Path) -> File {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap()
}

fn lines(path: &Path) -> usize {
    BufReader::new(File::open(path).unwrap())
        .split(b'\n')
        .count()
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn measure(way: &Way, target: &Path) {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    std::fs::write(
        path("pipeline.toml"),
        way.pipeline(&target.join("operators")),
    )
    .unwrap();
    std::fs::write(path("pass.wasm"), operator_of(1)).unwrap();
    let mut wild = append(&path("wild.txt"));
    let mut stream = Stream::open(place.path());
    let mut host = Host(
        Command::new(target.join("release/tidegate"))
            .args(["run", "--quiet", "--until", "forever", "pipeline.toml"])
            .current_dir(place.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("target/release/tidegate is built"),
    );
    let reader = stream.read(host.0.stdout.take().unwrap());
    stream.steadily(START, Duration::from_secs(2));
    stream.steadily(ALONE, Duration::from_secs(10));
    stream.at_once(BURST_ALONE);
    let load = load();
    wild.write_all(format!("{}\n", way.record).repeat(WILD).as_bytes())
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    stream.steadily(BESIDE, Duration::from_secs(20));
    stream.at_once(BURST_BESIDE);
    drop(host);
    reader.join().unwrap();
    let (dead, passed) = (lines(&path("dead.jsonl")), lines(&path("passed.txt")));
    assert!(
        dead + passed > 0 && dead + passed < WILD,
        "the operator was out of control all the time: {dead} dead letters, {passed} passed"
    );
    println!(
        "{}, deadline {} ms: bound {:.1} s and starts; {dead} dead letters, {passed} passed; load before {load}",
        way.mode,
        way.deadline.as_millis(),
        way.bound().as_secs_f64()
    );
    let latencies = stream.latencies.lock().unwrap();
    for (number, file) in FILES.iter().enumerate() {
        let ms = |phase: usize, quantile: f64| {
            latencies[phase][number].value_at_quantile(quantile) as f64 / 1e3
        };
        let steady = |phase| {
            let of = [0.5, 0.99, 1.0].map(|quantile| format!("{:.1}", ms(phase, quantile)));
            of.join(" ")
        };
        println!(
            "  {file} worker: alone {}, beside {}; {BURST} at once: alone {:.0}, beside {:.0}",
            steady(ALONE),
            steady(BESIDE),
            ms(BURST_ALONE, 1.0),
            ms(BURST_BESIDE, 1.0)
        );
    }
}

fn main() {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let target = target
        .canonicalize()
        .expect("the target directory is there");
    let given: Vec<String> = (std::env::args().skip(1))
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    println!("latency in ms: p50, p99, longest");
    let asked = |way: &&Way| given.is_empty() || given.iter().any(|mode| mode == way.mode);
    for way in WAYS.iter().filter(asked) {
        measure(way, &target);
    }
}
