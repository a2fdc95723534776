//! Components swapped while the stream runs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_tests::{Workspace, full, operator, until};

const PIPELINE: &str = r#"
[pipeline]
name = "swap"
workers = 2
cut-interval = "20ms"
summary = "summary.json"
[source.in]
type = "file"
paths = ["in-*.jsonl"]
key = "k"
[[stage]]
name = "redact"
operator = "{operators}/redact-pii.wasm"
config = { paths = ["text"] }
[sink.out]
type = "file"
path = "out.jsonl"
"#;

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
    let workspace = Workspace::new(PIPELINE);
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
    until("the first output", Duration::from_secs(60), || {
        !workspace.read("out.jsonl").is_empty()
    });
    let written = || {
        let bytes = workspace.read("out.jsonl");
        bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    let feeder = Feeder::start(&workspace, records);
    let mut swaps: Vec<(String, String)> = Vec::new();
    let mut under_load = 0;
    for number in 1..=20 {
        let before = written();
        workspace.write("new.wasm", variant(number));
        let output = workspace.run(&[
            "deploy",
            "--json",
            "--pipeline",
            "pipeline.toml",
            "--slot",
            "redact",
            "new.wasm",
        ]);
        assert!(
            output.status.success(),
            "swap {number}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
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
    let status = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["swaps"], 20, "{status}");
    assert_eq!(status["slots"][0]["digest"], old.as_str(), "{status}");
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
    let mut running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until("the admin API answers", Duration::from_secs(60), || {
        let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let status: Result<Value, _> = serde_json::from_slice(&output.stdout);
        status.is_ok_and(|status| status["slots"][0]["digest"] == old.as_str())
    });
    running.kill();
}

#[test]
fn a_component_that_cannot_run_leaves_the_old_one() {
    let workspace = Workspace::new(PIPELINE);
    input(&workspace, 400);
    let running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until("the first output", Duration::from_secs(60), || {
        !workspace.read("out.jsonl").is_empty()
    });
    let digest = |workspace: &Workspace| {
        let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        (
            status["slots"][0]["digest"].clone(),
            status["swaps"].clone(),
        )
    };
    let before = digest(&workspace);
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
            "does not export",
        ),
    ];
    for (what, bytes, why) in attempts {
        workspace.write("bad.wasm", bytes);
        let output = workspace.run(&[
            "deploy",
            "--pipeline",
            "pipeline.toml",
            "--slot",
            "redact",
            "bad.wasm",
        ]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {text}");
        assert!(text.contains(why), "{what}: {text}");
        assert_eq!(digest(&workspace), before, "{what}");
    }
    let output = workspace.run(&[
        "deploy",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "nothing",
        "bad.wasm",
    ]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("no slot \"nothing\"") && text.contains("redact"),
        "{text}"
    );
    drop(running);
}

#[test]
fn without_a_running_host_deploy_says_so() {
    let workspace = Workspace::new(PIPELINE);
    input(&workspace, 4);
    workspace.write("new.wasm", variant(1));
    let output = workspace.run(&[
        "deploy",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "redact",
        "new.wasm",
    ]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("admin.json"), "{text}");
}

/// Two slots; the second has no configuration for what the first runs.
const TWO_SLOTS: &str = r#"
[pipeline]
name = "two"
state = "state"
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in-*.jsonl"]
[[stage]]
name = "words"
operator = "{operators}/drop-abuse.wasm"
config = { words = ["none of these"] }
[[stage]]
name = "pass"
operator = "pass.wasm"
[sink.out]
type = "file"
path = "out.jsonl"
"#;

#[test]
fn a_component_that_one_slot_refuses_stays_for_the_slot_that_runs_it_and_others_go() {
    let workspace = Workspace::new(TWO_SLOTS);
    let pass = tidegate_tests::root().join("host/operator/tests/fixtures/released/0.1.0/pass.wasm");
    workspace.write("pass.wasm", std::fs::read(pass).unwrap());
    input(&workspace, 400);
    let follow = ["run", "--quiet", "--until", "forever", "pipeline.toml"];
    let mut running = workspace.start(&follow);
    let answers = |digest: Option<&str>| {
        until("the admin API answers", Duration::from_secs(60), || {
            let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
            let status: Result<Value, _> = serde_json::from_slice(&output.stdout);
            status.is_ok_and(|status| digest.is_none_or(|d| status["slots"][0]["digest"] == d))
        });
    };
    answers(None);
    let deploy = |slot: &str, number: u32| {
        workspace.write("new.wasm", variant_of("drop-abuse", number));
        workspace.run(&[
            "deploy",
            "--json",
            "--pipeline",
            "pipeline.toml",
            "--slot",
            slot,
            "new.wasm",
        ])
    };
    let mut digest = String::new();
    for number in 1..=5 {
        let output = deploy("words", number);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        digest = report["new"]["digest"].as_str().unwrap().to_owned();
    }
    let output = deploy("pass", 5);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
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
    assert!(files("compiled").len() <= 4, "{:?}", files("compiled"));
    until("a cut names it", Duration::from_secs(60), || {
        let log = workspace.read("state/commit.log");
        log.windows(digest.len())
            .any(|bytes| bytes == digest.as_bytes())
    });
    running.kill();
    let mut running = workspace.start(&follow);
    answers(Some(&digest));
    assert_eq!(
        files("components"),
        [kept],
        "after a restart nothing else is needed"
    );
    running.kill();
}

const UNWILLING: &str = r#"
[pipeline]
name = "unwilling"
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in-*.jsonl"]
[[stage]]
name = "guest"
operator = "{operators}/hostile.wasm"
config = { mode = "MODE" }
[sink.out]
type = "file"
path = "out.jsonl"
"#;

#[test]
fn a_run_that_is_started_again_waits_for_an_operator_that_does_not_start() {
    let workspace = Workspace::new(&UNWILLING.replace("MODE", "init-trap"));
    input(&workspace, 400);
    let follow = ["run", "--quiet", "--until", "forever", "pipeline.toml"];
    // The first time, that is a mistake that is told before anything is read; so it is of a check.
    for arguments in [&follow[..], &["check", "pipeline.toml"]] {
        let refused = workspace.run(arguments);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains("does not start: init: trap"), "{error}");
    }
    assert!(workspace.read("out.jsonl").is_empty());

    let status = || -> Option<Value> {
        let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        serde_json::from_slice(&output.stdout).ok()
    };
    let written = || {
        workspace
            .read("out.jsonl")
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    };
    workspace.pipeline(&UNWILLING.replace("MODE", "pass"));
    let mut running = workspace.start(&follow);
    until("the first output", Duration::from_secs(60), || {
        written() == 400
    });
    running.kill();

    // The pipeline file's component, then a deployed one.
    let mut records = 400;
    for deployed in [false, true] {
        if deployed {
            let mut running = workspace.start(&follow);
            until("it answers", Duration::from_secs(60), || status().is_some());
            workspace.write("new.wasm", variant_of("hostile", 1));
            let deploy = [
                "deploy",
                "--pipeline",
                "pipeline.toml",
                "--slot",
                "guest",
                "new.wasm",
            ];
            let output = workspace.run(&deploy);
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            let mut file = File::options()
                .append(true)
                .open(workspace.path("in-0.jsonl"))
                .unwrap();
            file.write_all(lines(0, 1000..1010).as_bytes()).unwrap();
            records += 10;
            until("a cut with it", Duration::from_secs(60), || {
                written() == records
            });
            running.kill();
        }
        workspace.pipeline(&UNWILLING.replace("MODE", "init-trap"));
        let mut file = File::options()
            .append(true)
            .open(workspace.path("in-1.jsonl"))
            .unwrap();
        file.write_all(lines(1, 2000..2010).as_bytes()).unwrap();
        records += 10;
        let mut running = workspace.start(&follow);
        until("status says why", Duration::from_secs(60), || {
            assert!(
                running.ended().is_none(),
                "{}",
                String::from_utf8_lossy(&workspace.read("stderr.log"))
            );
            status().is_some_and(|status| {
                status["slots"][0]["trouble"]["reason"]
                    .as_str()
                    .is_some_and(|reason| reason.contains("does not start: init: trap"))
            })
        });
        running.kill();
        workspace.pipeline(&UNWILLING.replace("MODE", "pass"));
        let mut running = workspace.start(&follow);
        until("all of it is out", Duration::from_secs(60), || {
            written() == records
        });
        assert!(running.terminate(Duration::from_secs(30)).success());
        assert_eq!(workspace.json_lines("out.jsonl").len(), records);
    }
}

const BESIDE: &str = r#"
[pipeline]
name = "beside"
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in-*.jsonl"]
[[stage]]
name = "trapping"
operator = "{operators}/hostile.wasm"
config = { mode = "trap" }
[[stage]]
name = "pass"
operator = "pass.wasm"
[sink.out]
type = "file"
path = "out.jsonl"
"#;

#[test]
fn a_refused_deployment_beside_a_slot_that_traps_leaves_the_run_as_it_is() {
    let workspace = Workspace::new(BESIDE);
    let pass = tidegate_tests::root().join("host/operator/tests/fixtures");
    workspace.write("pass.wasm", std::fs::read(pass.join("pass.wasm")).unwrap());
    let text = std::fs::read_to_string(pass.join("pass.wat")).unwrap();
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
            0 => format!("{{\"n\":{n},\"text\":\"bad\"}}\n"),
            _ => format!("{{\"n\":{n},\"text\":\"good\"}}\n"),
        };
        numbers.map(value).collect()
    };
    for partition in 0..4 {
        workspace.write(&format!("in-{partition}.jsonl"), lines(0..50));
    }
    let follow = ["run", "--quiet", "--until", "forever", "pipeline.toml"];
    let mut running = workspace.start(&follow);
    until("the first output", Duration::from_secs(60), || {
        !workspace.read("out.jsonl").is_empty()
    });
    let mut next = 50;
    for (bytes, why) in &greedy {
        workspace.write("new.wasm", bytes);
        for partition in 0..4 {
            let path = workspace.path(&format!("in-{partition}.jsonl"));
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(lines(next..next + 50).as_bytes()).unwrap();
        }
        next += 50;
        let deploy = [
            "deploy",
            "--pipeline",
            "pipeline.toml",
            "--slot",
            "pass",
            "new.wasm",
        ];
        let output = workspace.run(&deploy);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{error}");
        assert!(running.ended().is_none());
    }
    let good = next as usize * 4 * 4 / 5;
    let written = |name: &str| workspace.read(name).iter().filter(|b| **b == b'\n').count();
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
