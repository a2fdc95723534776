//! The whole host, file to file: records per second of one worker, and CPU seconds per million records.
//!
//! It runs the binary as a user does, over a file of records of 200 bytes. Needs `cargo build --release --workspace
//! --bins` and `cargo xtask operators` first. Times include the start of the process.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate_benches::cpu_seconds;

const RECORDS: usize = 1_000_000;
const BYTES: usize = 200;

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path))
}

fn children_cpu() -> Option<f64> {
    cpu_seconds().map(|[_, children]| children)
}

fn input(place: &Path) {
    let mut text = String::with_capacity(RECORDS * BYTES);
    for n in 0..RECORDS {
        let begin = text.len();
        write!(text, "{{\"k\":\"k{}\",\"n\":{n},\"text\":\"", n % 1000).unwrap();
        while text.len() - begin < BYTES - 3 {
            text.push_str(
                ["my parcel ", "is late ", "again and ", "nobody answers "][(n + text.len()) % 4],
            );
        }
        text.truncate(begin + BYTES - 3);
        text.push_str("\"}\n");
    }
    std::fs::write(place.join("in.jsonl"), text).unwrap();
}

fn pipeline(stage: &str) -> String {
    let operators = target().join("operators");
    format!(
        "[pipeline]\nname = \"bench\"\nworkers = 1\n\
         [source.in]\ntype = \"file\"\npaths = [\"in.jsonl\"]\nkey = \"k\"\n{}\n\
         [sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n[admin]\naddress = \"off\"\n",
        stage.replace("{operators}", &operators.display().to_string())
    )
}

fn run(place: &Path) -> Duration {
    for old in ["state", "out.jsonl"] {
        let path = place.join(old);
        let _ = if path.is_dir() {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_file(path)
        };
    }
    let began = Instant::now();
    let status = Command::new(target().join("release/tidegate"))
        .args(["run", "--quiet", "pipeline.toml"])
        .current_dir(place)
        .status()
        .expect("target/release/tidegate is built");
    assert!(status.success());
    began.elapsed()
}

fn host(criterion: &mut Criterion) {
    let place = tempfile::tempdir().unwrap();
    input(place.path());
    let mut group = criterion.benchmark_group("file-to-file-200B");
    group
        .throughput(Throughput::Elements(RECORDS as u64))
        .sample_size(10);
    let stage = |operator: &str, config: &str| {
        format!(
            "[[stage]]\nname = \"op\"\noperator = \"{{operators}}/{operator}.wasm\"\nconfig = {config}\n"
        )
    };
    for (name, stage) in [
        ("no-operator", String::new()),
        ("filter", stage("bench-operator", "{ mode = \"filter\" }")),
        (
            "drop-abuse",
            stage("drop-abuse", "{ paths = [\"text\"], words = [\"idiot\"] }"),
        ),
        ("redact-pii", stage("redact-pii", "{ paths = [\"text\"] }")),
    ] {
        std::fs::write(place.path().join("pipeline.toml"), pipeline(&stage)).unwrap();
        let (before, mut runs) = (children_cpu(), 0);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                runs += times;
                (0..times).map(|_| run(place.path())).sum()
            });
        });
        if let (Some(before), Some(after)) = (before, children_cpu()) {
            let millions = runs as f64 * RECORDS as f64 / 1e6;
            println!(
                "{name}: {:.2} CPU-seconds per million records",
                (after - before) / millions
            );
        }
    }
    group.finish();
}

criterion_group!(benches, host);
criterion_main!(benches);
