//! Components swapped while the stream runs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_contract::{CommitLog as _, Cut};
use tidegate_operator::{Grants, SlotOptions};
use tidegate_state::{Disk, StateDirectory};
use tidegate_tests::{Workspace, full, operator, until};

const REDACT: &str = r#"
[[stage]]
name = "redact"
operator = "{operators}/redact-pii.wasm"
config = { paths = ["text"] }
"#;

const PATIENCE: Duration = Duration::from_secs(60);
const FOLLOW: [&str; 5] = ["run", "--quiet", "--until", "forever", "pipeline.toml"];

/// A pipeline over the four partitions with these stages.
fn pipeline(stages: &str) -> String {
    format!(
        r#"
[pipeline]
name = "swap"
workers = 2
cut-interval = "20ms"
summary = "summary.json"
[source.in]
type = "file"
paths = ["in-*.jsonl"]
key = "k"
{stages}
[sink.out]
type = "file"
path = "out.jsonl"
"#
    )
}

/// A workspace whose pipeline has this stage and, behind it, the slot `pass`: an operator that lets everything through,
/// and takes no configuration.
fn before_pass(stage: &str) -> Workspace {
    let pass = "[[stage]]\nname = \"pass\"\noperator = \"pass.wasm\"\n";
    let workspace = Workspace::new(&pipeline(&format!("{stage}{pass}")));
    workspace.write("pass.wasm", fixture("pass.wasm"));
    workspace
}

/// A component of the operators' own tests.
fn fixture(name: &str) -> Vec<u8> {
    let directory = tidegate_tests::root().join("host/operator/tests/fixtures/released/0.1.0");
    std::fs::read(directory.join(name)).unwrap()
}

/// Deploys a component into a slot, and says how that went as JSON.
fn deploy(workspace: &Workspace, slot: &str, component: impl AsRef<[u8]>) -> Output {
    workspace.write("new.wasm", component);
    workspace.run(&[
        "deploy",
        "--json",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        slot,
        "new.wasm",
    ])
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a deployment that must succeed.
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", error(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the running host says of itself, once it answers.
fn status(workspace: &Workspace) -> Option<Value> {
    let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
    serde_json::from_slice(&output.stdout).ok()
}

/// Lines of a file.
fn count(workspace: &Workspace, name: &str) -> u64 {
    let bytes = workspace.read(name);
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn append(workspace: &Workspace, partition: u64, text: &str) {
    let path = workspace.path(&format!("in-{partition}.jsonl"));
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Records of a partition, 16 keys, numbered.
fn lines(partition: u64, numbers: Range<u64>) -> String {
    let mut text = String::new();
    for n in numbers {
        writeln!(
            text,
            "{{\"k\":\"{partition}-{}\",\"n\":{n},\"text\":\"mail u{n}@example.com, say hello\"}}",
            n % 16
        )
        .unwrap();
    }
    text
}

/// Four partitions.
fn input(workspace: &Workspace, records: u64) {
    for partition in 0..4 {
        workspace.write(
            &format!("in-{partition}.jsonl"),
            lines(partition, 0..records / 4),
        );
    }
}

/// Appends records to the four partitions until it is told to stop, and gives their number, those from before included.
struct Feeder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Feeder {
    fn start(workspace: &Workspace, records: u64) -> Feeder {
        let mut files: Vec<File> = (0..4)
            .map(|partition| {
                let path = workspace.path(&format!("in-{partition}.jsonl"));
                File::options().append(true).open(path).unwrap()
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut next = records / 4;
            let end = Instant::now() + Duration::from_secs(120);
            while !told.load(Ordering::Relaxed) && Instant::now() < end {
                for (partition, file) in files.iter_mut().enumerate() {
                    let text = lines(partition as u64, next..next + 25);
                    file.write_all(text.as_bytes()).unwrap();
                }
                next += 25;
                std::thread::sleep(Duration::from_millis(5));
            }
            next * 4
        });
        Feeder { stop, thread }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A component that does the same under another digest: a custom section is added to it.
fn variant(number: u32) -> Vec<u8> {
    variant_of("redact-pii", number)
}

fn variant_of(name: &str, number: u32) -> Vec<u8> {
    let mut bytes = std::fs::read(operator(name)).unwrap();
    let name = format!("variant-{number}");
    let payload = [&[name.len() as u8], name.as_bytes()].concat();
    bytes.push(0);
    bytes.push(payload.len() as u8);
    bytes.extend(payload);
    bytes
}

fn check_output(workspace: &Workspace, records: u64) {
    let mut last: HashMap<String, i64> = HashMap::new();
    let mut count = 0;
    for line in workspace.json_lines("out.jsonl") {
        count += 1;
        assert_eq!(line["text"], "mail [EMAIL_1], say hello");
        let key = line["k"].as_str().unwrap().to_owned();
        let n = line["n"].as_i64().unwrap();
        let step = last.insert(key.clone(), n).map_or(16, |before| n - before);
        assert_eq!(step, 16, "key {key}: lost, doubled or reordered at {n}");
    }
    assert_eq!(count, records);
}

#[test]
fn twenty_swaps_lose_double_and_reorder_nothing() {
    let records = if full() { 200_000 } else { 60_000 };
    let workspace = Workspace::new(&pipeline(REDACT));
    input(&workspace, records);
    // Followed, and fed until every swap is done.
    let mut running = workspace.start(&[
        "run",
        "--quiet",
        "--log",
        "info",
        "--until",
        "forever",
        "pipeline.toml",
    ]);
    until("the first output", PATIENCE, || {
        !workspace.read("out.jsonl").is_empty()
    });
    let written = || count(&workspace, "out.jsonl");
    let feeder = Feeder::start(&workspace, records);
    let mut swaps: Vec<(String, String)> = Vec::new();
    let mut under_load = 0;
    for number in 1..=20 {
        let before = written();
        let report = report(&deploy(&workspace, "redact", variant(number)));
        assert_eq!(report["tasks"], 4, "{report}");
        assert_ne!(report["old"]["digest"], report["new"]["digest"], "{report}");
        let digest = |which: &str| report[which]["digest"].as_str().unwrap().to_owned();
        if let Some((_, running)) = swaps.last() {
            assert_eq!(digest("old"), *running, "{report}");
        }
        swaps.push((digest("old"), digest("new")));
        // Records went in all the while, and output grew meanwhile: the tasks switched between batches at work.
        under_load += u32::from(written() > before);
    }
    let records = feeder.stop();
    assert!(
        under_load >= 10,
        "of twenty swaps only {under_load} were made while output grew"
    );
    let old = swaps[19].1.clone();
    until("the whole input is read", Duration::from_secs(120), || {
        written() >= records
    });
    let told = status(&workspace).unwrap();
    assert_eq!(told["swaps"], 20, "{told}");
    assert_eq!(told["slots"][0]["digest"], old.as_str(), "{told}");
    assert!(running.terminate(Duration::from_secs(30)).success());
    check_output(&workspace, records);
    let summary = workspace.json("summary.json");
    assert_eq!(summary["swaps"], 20, "{summary}");
    assert!(
        summary["longest_swap_wait_ms"].as_f64().unwrap() > 0.0,
        "{summary}"
    );
    let log = String::from_utf8(workspace.read("stderr.log")).unwrap();
    for (old, new) in &swaps {
        let (old, new) = (format!("old=\"{old}\""), format!("new=\"{new}\""));
        let lines = log.lines();
        let logged = lines.filter(|line| line.contains(&old) && line.contains(&new));
        assert_eq!(logged.count(), 1, "swap with {old} {new} in the log: {log}");
    }

    // The deployed component outlives the restart: the pipeline file still names the old one.
    let mut running = workspace.start(&FOLLOW);
    until("the admin API answers", PATIENCE, || {
        status(&workspace).is_some_and(|told| told["slots"][0]["digest"] == old.as_str())
    });
    running.kill();
}

#[test]
fn a_component_that_cannot_run_leaves_the_old_one() {
    let workspace = Workspace::new(&pipeline(REDACT));
    input(&workspace, 400);
    let running = workspace.start(&FOLLOW);
    until("the first output", PATIENCE, || {
        !workspace.read("out.jsonl").is_empty()
    });
    let digest = || {
        let told = status(&workspace).unwrap();
        (told["slots"][0]["digest"].clone(), told["swaps"].clone())
    };
    let before = digest();
    let abuse = std::fs::read(operator("drop-abuse")).unwrap();
    let attempts: [(&str, Vec<u8>, &str); 4] = [
        (
            "not wasm",
            b"hello".to_vec(),
            "does not begin like WebAssembly",
        ),
        (
            "cut short",
            abuse[..abuse.len() / 2].to_vec(),
            "malformed: unexpected end-of-file",
        ),
        // It needs words, which this slot's configuration does not have.
        ("refuses in init", abuse, "words"),
        (
            "an empty component",
            vec![0, b'a', b's', b'm', 0x0d, 0, 1, 0],
            "exports no operator",
        ),
    ];
    for (what, bytes, why) in attempts {
        let output = deploy(&workspace, "redact", bytes);
        let text = error(&output);
        assert_eq!(output.status.code(), Some(1), "{what}: {text}");
        assert!(text.contains(why), "{what}: {text}");
        assert_eq!(digest(), before, "{what}");
    }
    let text = error(&deploy(&workspace, "nothing", variant(1)));
    assert!(
        text.contains("no slot \"nothing\"") && text.contains("redact"),
        "{text}"
    );
    drop(running);
}

#[test]
fn without_a_running_host_deploy_says_so() {
    let workspace = Workspace::new(&pipeline(REDACT));
    input(&workspace, 4);
    let output = deploy(&workspace, "redact", variant(1));
    let text = error(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("admin.json"), "{text}");
}

const WORDS: &str = r#"
[[stage]]
name = "words"
operator = "{operators}/drop-abuse.wasm"
config = { words = ["none of these"] }
"#;

#[test]
fn a_component_that_one_slot_refuses_stays_for_the_slot_that_runs_it_and_others_go() {
    let workspace = before_pass(WORDS);
    input(&workspace, 400);
    let mut running = workspace.start(&FOLLOW);
    let answers = |digest: Option<&str>| {
        until("the admin API answers", PATIENCE, || {
            status(&workspace)
                .is_some_and(|told| digest.is_none_or(|d| told["slots"][0]["digest"] == d))
        });
    };
    answers(None);
    let mut digest = String::new();
    for number in 1..=5 {
        let report = report(&deploy(
            &workspace,
            "words",
            variant_of("drop-abuse", number),
        ));
        digest = report["new"]["digest"].as_str().unwrap().to_owned();
    }
    // It has no configuration for what the first runs.
    let output = deploy(&workspace, "pass", variant_of("drop-abuse", 5));
    let text = error(&output);
    assert!(!output.status.success() && text.contains("words"), "{text}");
    let files = |name: &str| -> Vec<String> {
        std::fs::read_dir(workspace.path("state").join(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let kept = format!("{}.wasm", digest.trim_start_matches("sha256:"));
    // The running one, the one before it, and what the last cut names.
    let components = files("components");
    assert!(components.contains(&kept), "{components:?}");
    assert!(components.len() <= 3, "{components:?}");
    // The same of what was compiled of them: a slot's own may stand beside what serves all.
    let compiled = files("compiled");
    let code = compiled.iter().filter(|name| name.ends_with(".code"));
    let code = code.map(|name| name.split('-').next());
    let code: std::collections::BTreeSet<_> = code.collect();
    assert!(code.len() <= 4 && compiled.len() <= 8, "{compiled:?}");
    until("a cut names it", PATIENCE, || {
        let log = workspace.read("state/commit.log");
        log.windows(digest.len())
            .any(|bytes| bytes == digest.as_bytes())
    });
    running.kill();
    let mut running = workspace.start(&FOLLOW);
    answers(Some(&digest));
    assert_eq!(
        files("components"),
        [kept],
        "after a restart nothing else is needed"
    );
    running.kill();
}

/// A pipeline with one operator that is told how to behave.
fn hostile(slot: &str, mode: &str) -> String {
    format!(
        "[[stage]]\nname = \"{slot}\"\noperator = \"{{operators}}/hostile.wasm\"\nconfig = {{ mode = \"{mode}\" }}\n"
    )
}

/// Has the log say that the slot ran this component with the mode of a pipeline file, as if it had started then.
fn ran(workspace: &Workspace, mode: &str, component: &[u8]) {
    let (_, log, recovered) =
        StateDirectory::open(&workspace.path("state"), Arc::new(Disk)).unwrap();
    let mut slot = recovered.slots[0].clone();
    slot.revision.digest = SlotOptions {
        grants: Grants::ALL,
        config: format!("{{\"mode\":\"{mode}\"}}"),
        ..SlotOptions::new("guest")
    }
    .revision(component);
    log.commit(&Cut {
        slots: vec![slot],
        ..Cut::default()
    })
    .unwrap();
}

#[test]
fn a_run_that_is_started_again_waits_for_an_operator_that_does_not_start() {
    let [unwilling, willing] = ["init-trap", "pass"].map(|mode| pipeline(&hostile("guest", mode)));
    let workspace = Workspace::new(&unwilling);
    input(&workspace, 400);
    // The first time, that is a mistake that is told before anything is read; so it is of a check.
    for arguments in [&FOLLOW[..], &["check", "pipeline.toml"]] {
        let refused = workspace.run(arguments);
        let text = error(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains("does not start: init: trap"), "{text}");
    }
    assert!(workspace.read("out.jsonl").is_empty());

    let written = || count(&workspace, "out.jsonl");
    workspace.pipeline(&willing);
    let mut running = workspace.start(&FOLLOW);
    until("the first output", PATIENCE, || written() == 400);
    running.kill();

    // The pipeline file's component, then a deployed one.
    let mut records = 400;
    for deployed in [false, true] {
        if deployed {
            let mut running = workspace.start(&FOLLOW);
            until("it answers", PATIENCE, || status(&workspace).is_some());
            report(&deploy(&workspace, "guest", variant_of("hostile", 1)));
            append(&workspace, 0, &lines(0, 1000..1010));
            records += 10;
            until("a cut with it", PATIENCE, || written() == records);
            running.kill();
        }
        workspace.pipeline(&unwilling);
        append(&workspace, 1, &lines(1, 2000..2010));
        records += 10;
        // A configuration that has never run is a mistake, though its component has run.
        let refused = workspace.run(&FOLLOW);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains("does not start: init: trap"), "{error}");
        let component = match deployed {
            true => variant_of("hostile", 1),
            false => std::fs::read(operator("hostile")).unwrap(),
        };
        ran(&workspace, "init-trap", &component);
        let mut running = workspace.start(&FOLLOW);
        until("status says why", PATIENCE, || {
            assert!(
                running.ended().is_none(),
                "{}",
                String::from_utf8_lossy(&workspace.read("stderr.log"))
            );
            status(&workspace).is_some_and(|told| {
                told["slots"][0]["trouble"]["reason"]
                    .as_str()
                    .is_some_and(|reason| reason.contains("does not start: init: trap"))
            })
        });
        running.kill();
        workspace.pipeline(&willing);
        let mut running = workspace.start(&FOLLOW);
        until("all of it is out", PATIENCE, || written() == records);
        assert!(running.terminate(Duration::from_secs(30)).success());
        assert_eq!(workspace.json_lines("out.jsonl").len() as u64, records);
    }
}

#[test]
fn a_refused_deployment_beside_a_slot_that_traps_leaves_the_run_as_it_is() {
    let workspace = before_pass(&hostile("trapping", "trap"));
    let text = String::from_utf8(fixture("pass.wat")).unwrap();
    // Hundreds of memories, and hundreds of instances within one that do not start.
    let nested = |module: &str, instances: usize| {
        let each = "(instance (instantiate $many))".repeat(instances);
        let inner = format!(
            "(component (component $many (core module $m {module}) (core instance (instantiate $m))) {each}"
        );
        wat::parse_str(text.replacen("(component", &inner, 1)).unwrap()
    };
    let greedy = [
        (
            nested("(memory 1) (memory 1)", 200),
            "makes 401 memories, limit 16",
        ),
        (nested("", 400), "makes 401 core instances, limit 256"),
        (
            nested("(func $no unreachable) (start $no)", 200),
            "does not start",
        ),
        (nested("(memory 200)", 15), "needed"),
    ];
    // Every fifth record of four partitions traps.
    let lines = |numbers: Range<u64>| -> String {
        let value = |n: u64| match n % 5 {
            0 => format!("{{\"k\":\"{n}\",\"text\":\"bad\"}}\n"),
            _ => format!("{{\"k\":\"{n}\",\"text\":\"good\"}}\n"),
        };
        numbers.map(value).collect()
    };
    for partition in 0..4 {
        workspace.write(&format!("in-{partition}.jsonl"), lines(0..50));
    }
    let mut running = workspace.start(&FOLLOW);
    until("the first output", PATIENCE, || {
        !workspace.read("out.jsonl").is_empty()
    });
    let mut next = 50;
    for (bytes, why) in &greedy {
        for partition in 0..4 {
            append(&workspace, partition, &lines(next..next + 50));
        }
        next += 50;
        let output = deploy(&workspace, "pass", bytes);
        let text = error(&output);
        assert!(!output.status.success() && text.contains(why), "{text}");
        assert!(running.ended().is_none());
    }
    let good = next * 4 * 4 / 5;
    let written = |name: &str| count(&workspace, name);
    until("all of it is out", Duration::from_secs(120), || {
        written("out.jsonl") == good && written("state/dead-letters.jsonl") == good / 4
    });
    assert!(running.terminate(Duration::from_secs(30)).success());
    assert!(
        workspace
            .json_lines("out.jsonl")
            .iter()
            .all(|line| line["text"] == "good")
    );
}
