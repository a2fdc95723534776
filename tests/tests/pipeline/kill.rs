//! SIGKILL of the real binary, at random instants.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tidegate_tests::{Random, Workspace, comparable_letters, full, until};

const PIPELINE: &str = r#"
[pipeline]
name = "kill"
cut-interval = "5ms"
batch = 64
[source.in]
type = "file"
paths = ["a.jsonl", "b.jsonl"]
key = "customer"
[[stage]]
name = "abuse"
operator = "{operators}/drop-abuse.wasm"
config = { paths = ["text"], words = ["grumble"] }
[[stage]]
name = "redact"
operator = "{operators}/redact-pii.wasm"
config = { paths = ["text"] }
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "file"
path = "dead.jsonl"
[admin]
address = "off"
"#;

fn input(workspace: &Workspace, files: &[&str], records: u64) {
    for (number, name) in files.iter().enumerate() {
        let mut random = Random(number as u64);
        let mut text = String::new();
        for n in 0..records {
            let line = match random.below(20) {
                0 => "this is not JSON".to_owned(),
                1 => format!(
                    "{{\"customer\":\"c{}\",\"n\":{n},\"text\":\"grumble {n}\"}}",
                    n % 7
                ),
                _ => format!(
                    "{{\"customer\":\"c{}\",\"n\":{n},\"text\":\"write to user{n}@example.com or call 555-0{:03}\"}}",
                    n % 7,
                    random.below(1000)
                ),
            };
            writeln!(text, "{line}").unwrap();
        }
        workspace.write(name, text);
    }
}

/// Takes away what a run left, but for its compiled operators.
fn begin_anew(workspace: &Workspace) {
    for name in ["out.jsonl", "dead.jsonl"] {
        std::fs::remove_file(workspace.path(name)).unwrap();
    }
    for entry in std::fs::read_dir(workspace.path("state")).unwrap() {
        let entry = entry.unwrap();
        match (entry.file_name() == "compiled", entry.path().is_dir()) {
            (true, _) => {}
            (false, true) => std::fs::remove_dir_all(entry.path()).unwrap(),
            (false, false) => std::fs::remove_file(entry.path()).unwrap(),
        }
    }
}

#[test]
fn killed_at_random_instants_a_run_gives_byte_identical_output() {
    // One partition, so that the order of the whole output is determined.
    let pipeline = PIPELINE.replace("\"a.jsonl\", \"b.jsonl\"", "\"a.jsonl\"");
    let records = if full() { 200_000 } else { 30_000 };
    let expected = Workspace::new(&pipeline);
    input(&expected, &["a.jsonl"], records);
    expected.run_pipeline();
    let dead_letters = |workspace: &Workspace| {
        comparable_letters(&String::from_utf8(workspace.read("dead.jsonl")).unwrap())
    };
    let (out, dead) = (expected.read("out.jsonl"), dead_letters(&expected));
    // How long a run takes that need not compile, as most of those below.
    begin_anew(&expected);
    let began = Instant::now();
    expected.run_pipeline();
    let life = began.elapsed().as_micros() as u64;
    assert!(out.len() > 1_000_000 && !dead.is_empty());

    let workspace = Workspace::new(&pipeline);
    input(&workspace, &["a.jsonl"], records);
    let mut random = Random(25);
    let (mut kills, mut between) = (0, 0);
    // On a busy machine a start takes longer than it did: more kills, until enough came while output was written.
    while kills < 25 || (between < 5 && kills < 400) {
        let before = workspace.read("out.jsonl").len();
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        // Any instant of a whole run: while it starts, reads, cuts or ends.
        std::thread::sleep(Duration::from_micros(random.below(2 * life)));
        if running.ended().is_some() {
            // The input was read before the kill: begin anew.
            begin_anew(&workspace);
            continue;
        }
        running.kill();
        kills += 1;
        let after = workspace.read("out.jsonl").len();
        between += usize::from(after > before && after < out.len());
    }
    workspace.run_pipeline();
    assert!(
        workspace.read("out.jsonl") == out,
        "output differs after {kills} kills"
    );
    assert!(
        dead_letters(&workspace) == dead,
        "dead letters differ after {kills} kills"
    );
    assert!(
        between >= 5,
        "only {between} of {kills} kills came while output was written"
    );
}

#[test]
fn killed_with_several_workers_nothing_is_lost_or_doubled() {
    let records = 20_000;
    let sorted = |workspace: &Workspace, name: &str| {
        let text = comparable_letters(&String::from_utf8(workspace.read(name)).unwrap());
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let pipeline = PIPELINE.replace("batch = 64", "batch = 64\nworkers = 2");
    let expected = Workspace::new(&pipeline);
    input(&expected, &["a.jsonl", "b.jsonl"], records);
    expected.run_pipeline();
    let workspace = Workspace::new(&pipeline);
    input(&workspace, &["a.jsonl", "b.jsonl"], records);
    for n in 1..=5u64 {
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        let before = workspace.read("out.jsonl").len();
        until(
            "output grows or the run ends",
            Duration::from_secs(60),
            || running.ended().is_some() || workspace.read("out.jsonl").len() > before,
        );
        std::thread::sleep(Duration::from_millis(n * 3));
        running.kill();
    }
    workspace.run_pipeline();
    for name in ["out.jsonl", "dead.jsonl"] {
        assert!(
            sorted(&workspace, name) == sorted(&expected, name),
            "{name} differs"
        );
    }
}

#[test]
fn sigterm_ends_a_run_after_a_cut_and_it_goes_on_later() {
    let pipeline = PIPELINE.replace("\"a.jsonl\", \"b.jsonl\"", "\"a.jsonl\"");
    let workspace = Workspace::new(&pipeline);
    input(&workspace, &["a.jsonl"], 20_000);
    let mut running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
    until("the input is read", Duration::from_secs(60), || {
        workspace
            .read("out.jsonl")
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            > 1000
    });
    assert!(running.terminate(Duration::from_secs(30)).success());
    workspace.run_pipeline();
    let expected = Workspace::new(&pipeline);
    input(&expected, &["a.jsonl"], 20_000);
    expected.run_pipeline();
    assert!(workspace.read("out.jsonl") == expected.read("out.jsonl"));
}

#[test]
fn two_runs_cannot_share_a_state_directory() {
    let workspace = Workspace::new(&PIPELINE.replace("\"a.jsonl\", \"b.jsonl\"", "\"a.jsonl\""));
    input(&workspace, &["a.jsonl"], 10);
    let _running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until(
        "the first run has its lock",
        Duration::from_secs(60),
        || !workspace.read("out.jsonl").is_empty(),
    );
    let second = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains("in use by another process"), "{text}");
}
