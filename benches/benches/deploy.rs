//! The latency of a stream while a component is deployed to it: 50,000 records a second from standard input to standard
//! output through one operator, with cuts every 2 ms.
//!
//! It runs the binary as a user does. In turns nothing else happens, a component that was never seen is deployed (and so
//! compiled), and one that was seen before is. `TMPDIR` says on which disk all of it lies: where others write to the same
//! one, a stream's cuts wait behind them more than behind a deployment. The component is given as an argument; without, one of 12 MiB is made.
//! Needs `cargo build --release --workspace --bins` and `cargo xtask operators`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tidegate_benches::{named, operator_of};

const EACH_MILLISECOND: usize = 50;
const ROUNDS: usize = 3;
/// What happens beside the stream.
const PHASES: [&str; 5] = [
    "(start)",
    "nothing",
    "first seen",
    "nothing after",
    "seen before",
];

const PIPELINE: &str = r#"
[pipeline]
name = "bench"
cut-interval = "2ms"
state = "state"
[source.in]
type = "stdin"
format = "raw"
[[stage]]
name = "op"
operator = "old.wasm"
limits = { memory = "512MiB", deadline = "10s" }
[sink.out]
type = "stdout"
format = "raw"
"#;

fn main() {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let tidegate = target.join("release/tidegate");
    let given = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let large = given.map_or_else(
        || operator_of(12 << 20),
        |path| std::fs::read(path).unwrap(),
    );
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("pipeline.toml"), PIPELINE).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        // On disk before anything is measured.
        let mut file = std::fs::File::create(path(name)).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
    };
    write("old.wasm", &operator_of(1));
    for round in 0..ROUNDS {
        write(
            &format!("new-{round}.wasm"),
            &named(&large, &format!("round {round}")),
        );
    }
    let mut host = Command::new(&tidegate)
        .args(["run", "--quiet", "pipeline.toml"])
        .current_dir(place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("target/release/tidegate is built");
    let (mut input, output) = (host.stdin.take().unwrap(), host.stdout.take().unwrap());
    let began = Instant::now();
    let phase = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let latencies = Arc::new(Mutex::new(
        [(); PHASES.len()].map(|()| Histogram::<u64>::new(3).unwrap()),
    ));
    let (told, counted) = (Arc::clone(&stop), Arc::clone(&phase));
    let writer = std::thread::spawn(move || {
        let filler = "x".repeat(170);
        let mut next = Duration::ZERO;
        while !told.load(Ordering::Relaxed) {
            // The time at which a record is due, so that a late writer does not make the host look fast.
            let line = format!(
                "{:020} {} {filler}\n",
                next.as_nanos(),
                counted.load(Ordering::Relaxed)
            );
            input
                .write_all(line.repeat(EACH_MILLISECOND).as_bytes())
                .unwrap();
            next += Duration::from_millis(1);
            std::thread::sleep(next.saturating_sub(began.elapsed()));
        }
    });
    let recorded = Arc::clone(&latencies);
    let reader = std::thread::spawn(move || {
        for line in BufReader::with_capacity(1 << 16, output).lines() {
            let line = line.unwrap();
            let due: u64 = line[..20].parse().unwrap();
            let phase: usize = line[21..22].parse().unwrap();
            let taken = (began.elapsed().as_nanos() as u64).saturating_sub(due);
            recorded.lock().unwrap()[phase]
                .record(taken / 1000)
                .unwrap();
        }
    });
    let deploy = |file: &str| {
        let began = Instant::now();
        let output = Command::new(&tidegate)
            .args([
                "deploy",
                "--pipeline",
                "pipeline.toml",
                "--slot",
                "op",
                file,
            ])
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        began.elapsed()
    };
    let during = |which: usize, work: &mut dyn FnMut() -> Duration| {
        phase.store(which, Ordering::Relaxed);
        let took = work();
        phase.store(0, Ordering::Relaxed);
        println!("{}: {:.2} s", PHASES[which], took.as_secs_f64());
    };
    let rest = || {
        std::thread::sleep(Duration::from_secs(5));
        Duration::from_secs(5)
    };
    std::thread::sleep(Duration::from_secs(3));
    for round in 0..ROUNDS {
        let new = format!("new-{round}.wasm");
        during(1, &mut || rest());
        during(2, &mut || deploy(&new));
        during(3, &mut || rest());
        // Each back and forth takes a fraction of a second: many, so that there are enough records.
        during(4, &mut || {
            (0..10).map(|_| deploy("old.wasm") + deploy(&new)).sum()
        });
        deploy("old.wasm");
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(host.wait().unwrap().success());
    reader.join().unwrap();
    let latencies = latencies.lock().unwrap();
    println!(
        "{} bytes; latency in ms beside: records, p50, p99, p99.9, longest",
        large.len()
    );
    for (name, histogram) in PHASES.iter().zip(latencies.iter()).skip(1) {
        let ms = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "{name}: {} {:.2} {:.2} {:.2} {:.2}",
            histogram.len(),
            ms(0.5),
            ms(0.99),
            ms(0.999),
            histogram.max() as f64 / 1e3
        );
    }
}
