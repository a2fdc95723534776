//! What components cost beside their records: how long one takes to start that was compiled before, and the memory of
//! many slots.
//!
//! Components are given as arguments, such as those of interpreters; without, one of 12 MiB is made. Needs `cargo xtask
//! operators`. Plain text, no statistics: the figures are read, not compared.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tidegate_benches::{memory, named, operator_of};
use tidegate_contract::{Operator, Slot as _};
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, Grants, SlotOptions, digest};
use tidegate_record::{BatchBuilder, NewRecord};

const TURNS: usize = 15;
const SLOTS: usize = 200;
const TASKS: usize = 6;

fn engine(directory: &Path) -> Engine {
    Engine::new(EngineOptions {
        cache_dir: Some(directory.join("code")),
        instances: 64,
        ..EngineOptions::default()
    })
    .unwrap()
}

fn median(mut work: impl FnMut() -> Duration) -> f64 {
    let mut times: Vec<Duration> = (0..TURNS).map(|_| work()).collect();
    times.sort_unstable();
    times[TURNS / 2].as_secs_f64() * 1e3
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn options(name: &str) -> SlotOptions {
    SlotOptions {
        grants: Grants::ALL,
        config: "{\"mode\": \"filter\"}".into(),
        ..SlotOptions::new(name)
    }
}

/// Takes the mark of every entry away, so that it is hashed again.
fn unmark(directory: &Path) {
    for entry in std::fs::read_dir(directory.join("code")).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }
}

fn start(name: &str, bytes: &[u8]) {
    let home = tempfile::tempdir().unwrap();
    let compiled = timed(|| drop(engine(home.path()).compile(bytes, name).unwrap()));
    let engine = engine(home.path());
    let file = home.path().join("op.wasm");
    std::fs::write(&file, bytes).unwrap();
    // What was written just now is not known by its times yet.
    std::thread::sleep(Duration::from_millis(3100));
    let open = || engine.open(&file, |path| std::fs::read(path)).unwrap();
    drop(open());
    let hashed = median(|| timed(|| drop(digest(bytes))));
    let rehashed = median(|| {
        unmark(home.path());
        timed(|| assert!(engine.compile(open(), name).unwrap().is_from_disk()))
    });
    let mapped = median(|| timed(|| assert!(engine.compile(open(), name).unwrap().is_from_disk())));
    let slot =
        median(|| timed(|| drop(ComponentSlot::new(&engine, options("s"), open(), name).unwrap())));
    println!(
        "{name}: {:.1} MiB, compiled in {:.2} s; seen before: known and mapped {mapped:.2} ms, with describe and init of an \
         instance {slot:.2} ms; what is saved: its digest {hashed:.2} ms, with the artifact hashed again {rehashed:.2} ms",
        bytes.len() as f64 / f64::from(1 << 20),
        compiled.as_secs_f64(),
    );
}

fn slots(what: &str, bytes: impl Fn(usize) -> Vec<u8>) {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path());
    // As after a restart: nothing of what was compiled is left in memory.
    for number in 0..SLOTS {
        drop(engine.compile(&bytes(number), what).unwrap());
    }
    let before = memory("VmRSS").unwrap_or_default();
    let mut held: Vec<(ComponentSlot, Vec<Box<dyn Operator>>)> = Vec::new();
    for number in 0..SLOTS {
        let mut options = options(&format!("slot-{number}"));
        options.tasks = TASKS;
        let slot = ComponentSlot::new(&engine, options, &bytes(number), what).unwrap();
        let tasks = (0..TASKS).map(|_| slot.instance().unwrap().1).collect();
        held.push((slot, tasks));
    }
    let value = [b'v'; 200];
    for operator in held.iter_mut().flat_map(|(_, tasks)| tasks) {
        let mut batch = BatchBuilder::default();
        for _ in 0..64 {
            let record = NewRecord {
                value: Some(&value),
                ..NewRecord::default()
            };
            batch.push(&record).unwrap();
        }
        operator.process(&batch.finish(0)).unwrap();
    }
    let counted: u64 = held.iter().map(|(slot, _)| slot.memory()).sum();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{SLOTS} slots x {TASKS} tasks, {what}: RSS {:.0} MiB, of which anonymous {:.0}, before them {:.0}; linear memory {:.0} MiB",
        mib(memory("VmRSS").unwrap_or_default()),
        mib(memory("RssAnon").unwrap_or_default()),
        mib(before),
        mib(counted),
    );
}

fn main() {
    let given: Vec<PathBuf> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .map(PathBuf::from)
        .collect();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let small = std::fs::read(target.join("operators/bench-operator.wasm"))
        .expect("cargo xtask operators has built it");
    slots("one component", |_| small.clone());
    // A module has no sections of components: what the host makes of one has.
    let home = tempfile::tempdir().unwrap();
    let small = engine(home.path())
        .componentize(&small, "small")
        .unwrap()
        .into_owned();
    slots("a component each", |number| {
        named(&small, &format!("number {number}"))
    });
    if given.is_empty() {
        start("made", &operator_of(12 << 20));
    }
    for path in given {
        start(&path.display().to_string(), &std::fs::read(&path).unwrap());
    }
}
