//! Dead letters: looked at, sent again once, marked where they were.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_tests::{Random, Running, Workspace, full, until};

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const GRUMBLES: &str =
    r#"config = { paths = ["text"], words = ["grumble"], action = "dead-letter" }"#;
pub(crate) const NONE: &str =
    r#"config = { paths = ["text"], words = ["nothing"], action = "dead-letter" }"#;

pub(crate) fn pipeline(config: &str) -> String {
    format!(
        r#"
[pipeline]
name = "letters"
cut-interval = "5ms"
state = "state"
[source.in]
type = "file"
paths = ["in.jsonl"]
key = "customer"
max-record = "4MiB"
[[stage]]
name = "abuse"
operator = "{{operators}}/drop-abuse.wasm"
{config}
[sink.out]
type = "file"
path = "out.jsonl"
envelope = true
"#
    )
}

/// Of ten records one is no JSON, and three die at the stage.
pub(crate) fn input(records: u64) -> String {
    let mut text = String::new();
    for n in 0..records {
        match n % 10 {
            0 => writeln!(text, "this is not JSON {n}").unwrap(),
            1..=3 => writeln!(
                text,
                r#"{{"customer":"c{}","n":{n},"text":"grumble {n}"}}"#,
                n % 7
            )
            .unwrap(),
            _ => writeln!(
                text,
                r#"{{"customer":"c{}","n":{n},"text":"well {n}"}}"#,
                n % 7
            )
            .unwrap(),
        }
    }
    text
}

pub(crate) fn json_lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn letters(workspace: &Workspace, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["dead-letters"];
    all.extend_from_slice(arguments);
    all.extend(["--pipeline", "pipeline.toml", "--json"]);
    let output = workspace.run(&all);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{all:?}: {error}");
    json_lines(&output.stdout)
}

pub(crate) fn list(workspace: &Workspace, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["list", "--limit", "1000000"];
    all.extend_from_slice(arguments);
    letters(workspace, &all)
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} of {value}"))
}

/// A part of the status of what runs.
pub(crate) fn status(workspace: &Workspace, part: &str) -> Option<Value> {
    let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
    let status: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(status[part].clone())
}

/// Runs for ever, once it is ready.
pub(crate) fn start(workspace: &Workspace) -> Running {
    let running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    let health = ["health", "--ready", "--pipeline", "pipeline.toml"];
    until("it is ready", PATIENCE, || {
        workspace.run(&health).status.success()
    });
    running
}

fn settled(workspace: &Workspace, ended: u64) {
    until(&format!("{ended} records have ended"), PATIENCE, || {
        let Some(records) = status(workspace, "records") else {
            return false;
        };
        let count = |name: &str| records[name].as_u64().unwrap();
        let all = count("out") + count("dropped") + count("dead");
        all == ended && count("in_flight") == 0 && count("in") + count("split") == all
    });
}

/// How often each number came out.
fn came_out(workspace: &Workspace) -> BTreeMap<u64, u64> {
    let mut came = BTreeMap::new();
    for record in workspace.json_lines("out.jsonl") {
        *came
            .entry(record["value"]["n"].as_u64().unwrap())
            .or_default() += 1;
    }
    came
}

fn dies(n: u64) -> bool {
    (1..=3).contains(&(n % 10))
}

#[test]
fn letters_sent_by_two_at_once_and_then_killed_go_through_once_and_are_marked() {
    let records = 400;
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(records));
    let mut running = start(&workspace);
    settled(&workspace, records);
    // Counted first, and listed with the next cut.
    let mut dead = Vec::new();
    until("the letters are in a cut", PATIENCE, || {
        dead = list(&workspace, &["--stage", "abuse"]);
        dead.len() as u64 >= records / 10 * 3
    });
    assert_eq!(dead.len() as u64, records / 10 * 3);
    let newest = text(&dead[0], "id");
    assert!(newest.starts_with("in/0/"), "{newest}");
    assert!(
        dead.iter()
            .all(|letter| letter["sent"].is_null() && letter["at"].is_string())
    );
    // Nothing is sent again of what the pipeline would refuse once more: another configuration first.
    workspace.write(
        "none.json",
        r#"{"paths":["text"],"words":["nothing"],"action":"dead-letter"}"#,
    );
    let deployed = [
        "deploy",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "abuse",
        "--config",
        "none.json",
    ];
    assert!(workspace.run(&deployed).status.success());
    // The file has it too, so that the restart does.
    workspace.pipeline(&pipeline(NONE));
    let ids: Vec<&str> = dead.iter().map(|letter| text(letter, "id")).collect();
    let states = std::thread::scope(|scope| {
        let send = || {
            let mut all = vec!["send"];
            all.extend(&ids);
            letters(&workspace, &all)
        };
        let (one, other) = (scope.spawn(send), scope.spawn(send));
        [one.join().unwrap(), other.join().unwrap()]
    });
    // Acknowledged: a kill takes nothing of it back.
    running.kill();
    drop(running);
    for index in 0..ids.len() {
        let mut both = states
            .each_ref()
            .map(|results| text(&results[index], "state"));
        both.sort_unstable();
        assert_eq!(both, ["already", "sent"], "{}", ids[index]);
    }
    let mut running = start(&workspace);
    settled(&workspace, records + ids.len() as u64);
    until("the output is in a cut", PATIENCE, || {
        let lines = workspace.read("out.jsonl");
        lines.iter().filter(|byte| **byte == b'\n').count() as u64 >= records / 10 * 9
    });
    let came = came_out(&workspace);
    let expected = (0..records).filter(|n| n % 10 != 0).map(|n| (n, 1));
    assert_eq!(came, expected.collect());
    // They are marked, and not sent a second time, whoever asks.
    let marked = list(&workspace, &["--stage", "abuse"]);
    for letter in &marked {
        let sent = &letter["sent"];
        assert!(
            text(sent, "record").starts_with("in.again/0/") && sent["at"].is_string(),
            "{letter}"
        );
    }
    assert!(letters(&workspace, &["send", "--all", "--stage", "abuse"]).is_empty());
    // A record that was sent again says so.
    let out = workspace.json_lines("out.jsonl");
    let again = out
        .iter()
        .filter(|record| text(record, "id").starts_with("in.again/0/"));
    let from: Vec<&str> = again
        .map(|record| {
            assert_eq!(record["headers"][0][0], "tidegate-sent-from", "{record}");
            record["headers"][0][1].as_str().unwrap()
        })
        .collect();
    assert_eq!(from.len(), ids.len());
    assert!(from.iter().all(|id| ids.contains(id)));
    assert!(running.terminate(PATIENCE).success());
}

#[test]
fn input_that_is_sent_again_is_decoded_again_and_a_letter_that_dies_again_says_which_it_was() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    let text_in = "{\"customer\":\"a\",\"n\":1,\"text\":\"grumble\"}\nnonsense\n{\"n\":2,\"text\":\"no customer\"}\n";
    workspace.write("in.jsonl", text_in);
    workspace.run_pipeline();
    assert!(workspace.read("out.jsonl").is_empty());
    // Nothing runs: the letters are read where they are.
    let dead = list(&workspace, &[]);
    assert_eq!(dead.len(), 3);
    let of = |letters: &[Value], value: &str| -> String {
        let mut found = letters
            .iter()
            .filter(|letter| text(letter, "value").contains(value));
        text(found.next().unwrap(), "id").to_owned()
    };
    let (grumble, nonsense, keyless) = (
        of(&dead, "grumble"),
        of(&dead, "nonsense"),
        of(&dead, "no customer"),
    );
    assert_eq!(list(&workspace, &["--stage", "decode"]).len(), 2);
    assert_eq!(list(&workspace, &["--text", "NOT json"]).len(), 1);
    assert_eq!(list(&workspace, &["--source", "other"]).len(), 0);
    let whole = letters_show(&workspace, &keyless);
    assert_eq!(text(&whole, "value"), "{\"n\":2,\"text\":\"no customer\"}");
    // The pipeline takes records without a customer now. What is sent waits for its next run.
    let mended = pipeline(GRUMBLES).replace("key = \"customer\"\n", "");
    workspace.pipeline(&mended);
    let sent = letters(&workspace, &["send", &grumble, &nonsense, &keyless]);
    assert!(
        sent.iter().all(|result| result["state"] == "sent"),
        "{sent:?}"
    );
    let unknown = workspace.run(&[
        "dead-letters",
        "send",
        "--pipeline",
        "pipeline.toml",
        "in/0/0@7",
    ]);
    assert!(!unknown.status.success());
    workspace.run_pipeline();
    let out = workspace.json_lines("out.jsonl");
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(out[0]["value"]["n"], 2);
    let dead = list(&workspace, &[]);
    assert_eq!(dead.len(), 5);
    let again: Vec<&Value> = dead
        .iter()
        .filter(|letter| text(letter, "source") == "in.again")
        .collect();
    let mut from: Vec<&str> = again
        .iter()
        .map(|letter| text(letter, "sent_from"))
        .collect();
    from.sort_unstable();
    let mut expected = [grumble.as_str(), nonsense.as_str()];
    expected.sort_unstable();
    assert_eq!(from, expected);
    assert_eq!(
        list(&workspace, &["--source", "in"]).len(),
        5,
        "also those that were sent again"
    );
    // Such a letter can be sent again itself.
    let again = text(again[0], "id").to_owned();
    assert_eq!(
        text(&letters(&workspace, &["send", &again])[0], "state"),
        "sent"
    );
    workspace.run_pipeline();
    let dead = list(&workspace, &[]);
    assert_eq!(dead.len(), 6);
    assert_eq!(text(&dead[0], "sent_from"), again);
    let dropped = workspace.run(&["check", "pipeline.toml"]);
    assert!(dropped.status.success());
}

fn letters_show(workspace: &Workspace, id: &str) -> Value {
    let output = workspace.run(&["dead-letters", "show", "--pipeline", "pipeline.toml", id]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn kills_at_any_time_of_sending_lose_no_letter_and_send_none_twice() {
    let records = if full() { 40_000 } else { 4_000 };
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(records));
    workspace.run_pipeline();
    workspace.pipeline(&pipeline(NONE));
    let mut random = Random(11);
    let dead = (0..records).filter(|n| dies(*n)).count() as u64;
    for _ in 0..if full() { 30 } else { 6 } {
        let mut running = start(&workspace);
        let command = [
            "dead-letters",
            "send",
            "--pipeline",
            "pipeline.toml",
            "--all",
            "--stage",
            "abuse",
        ];
        let mut sending = workspace.command(&command);
        sending
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut sending = Running::spawn(sending);
        std::thread::sleep(Duration::from_millis(random.below(400)));
        running.kill();
        drop(running);
        // Its host is gone: it ends, whatever it was told.
        sending.wait(PATIENCE);
    }
    let mut running = start(&workspace);
    letters(&workspace, &["send", "--all", "--stage", "abuse"]);
    settled(&workspace, records + dead);
    assert!(running.terminate(PATIENCE).success());
    let came = came_out(&workspace);
    let twice: Vec<_> = came.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(came.len() as u64, records / 10 * 9);
    assert!(
        list(&workspace, &["--stage", "abuse"])
            .iter()
            .all(|letter| !letter["sent"].is_null())
    );
}

#[test]
fn letters_of_hostile_text_and_a_megabyte_are_shown_as_text_and_come_again_to_the_byte() {
    let hostile =
        "grumble <script>alert(1)</script> \u{1b}[31m \u{202e}reversed\u{0} \"quoted\" \\ \u{7f}";
    let long = format!("grumble {}", "x<&>\u{1b}".repeat(220_000));
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    let mut lines = String::new();
    for (n, text) in [hostile, &long].iter().enumerate() {
        let record = serde_json::json!({"customer": "<b>\u{1b}", "n": n, "text": text});
        writeln!(lines, "{record}").unwrap();
    }
    workspace.write("in.jsonl", &lines);
    workspace.run_pipeline();
    let shown = workspace.run(&["dead-letters", "list", "--pipeline", "pipeline.toml"]);
    let control = |byte: &u8| byte.is_ascii_control() && *byte != b'\n';
    assert!(!shown.stdout.iter().any(control), "the terminal is steered");
    let dead = list(&workspace, &[]);
    assert_eq!(dead[0]["truncated"], true);
    assert!(text(&dead[0], "value").len() <= 2048);
    assert_eq!(
        dead[0]["length"].as_u64().unwrap() as usize,
        lines.lines().nth(1).unwrap().len()
    );
    let whole = letters_show(&workspace, text(&dead[0], "id"));
    assert_eq!(text(&whole, "value"), lines.lines().nth(1).unwrap());
    workspace.pipeline(&pipeline(NONE).replace("envelope = true", ""));
    assert_eq!(letters(&workspace, &["send", "--all"]).len(), 2);
    workspace.run_pipeline();
    let mut out: Vec<String> = String::from_utf8(workspace.read("out.jsonl"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    out.sort();
    let mut expected: Vec<String> = lines.lines().map(str::to_owned).collect();
    expected.sort();
    assert!(out == expected, "not as they were read");
}

#[test]
fn a_hundred_thousand_letters_are_paged_and_sent_again() {
    let records = if full() { 100_000 } else { 5_000 };
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    let mut lines = String::new();
    for n in 0..records {
        writeln!(lines, r#"{{"customer":"c","n":{n},"text":"grumble"}}"#).unwrap();
    }
    workspace.write("in.jsonl", lines);
    workspace.run_pipeline();
    workspace.pipeline(&pipeline(NONE));
    let began = Instant::now();
    let all = list(&workspace, &[]);
    eprintln!("{} letters listed in {:?}", all.len(), began.elapsed());
    assert_eq!(all.len(), records);
    let mut ids: Vec<&str> = all.iter().map(|letter| text(letter, "id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), records, "each has an id of its own");
    let mut running = start(&workspace);
    let began = Instant::now();
    let sent = letters(&workspace, &["send", "--all"]);
    eprintln!("{} letters sent in {:?}", sent.len(), began.elapsed());
    assert_eq!(sent.len(), records);
    settled(&workspace, 2 * records as u64);
    assert!(running.terminate(PATIENCE).success());
    assert_eq!(came_out(&workspace).len(), records);
    assert!(
        list(&workspace, &[])
            .iter()
            .all(|letter| !letter["sent"].is_null())
    );
}

#[test]
fn a_source_whose_letters_wait_is_not_taken_away() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(10));
    workspace.run_pipeline();
    letters(&workspace, &["send", "--all"]);
    workspace.pipeline(&pipeline(NONE).replace("[source.in]", "[source.renamed]"));
    let refused = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && why.contains("in.again"),
        "{why}"
    );
    workspace.pipeline(&pipeline(NONE));
    workspace.run_pipeline();
    assert_eq!(came_out(&workspace).len(), 9);
}

#[test]
fn a_source_whose_letters_were_read_is_taken_away_or_renamed_as_any_other() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(10));
    workspace.run_pipeline();
    workspace.pipeline(&pipeline(NONE));
    letters(&workspace, &["send", "--all"]);
    workspace.run_pipeline();
    assert_eq!(workspace.json_lines("out.jsonl").len(), 9);
    workspace.write("other.jsonl", input(10));
    let other = pipeline(NONE)
        .replace("[source.in]", "[source.renamed]")
        .replace("in.jsonl", "other.jsonl");
    workspace.pipeline(&other);
    workspace.run_pipeline();
    assert_eq!(workspace.json_lines("out.jsonl").len(), 18);
}

#[test]
fn letters_sent_after_their_log_was_thrown_away_all_go_through() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(10));
    workspace.run_pipeline();
    let died: Vec<String> = list(&workspace, &["--stage", "abuse"])
        .iter()
        .map(|letter| letter["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(died.len(), 3);
    workspace.pipeline(&pipeline(NONE));
    let ids: Vec<&str> = died.iter().map(String::as_str).collect();
    // Two at first, all three into another log: the place of none of them is taken for one that was read.
    for (sent, out) in [(2, 8), (3, 11)] {
        let mut arguments = vec!["send"];
        arguments.extend_from_slice(&ids[..sent]);
        letters(&workspace, &arguments);
        workspace.run_pipeline();
        assert_eq!(workspace.json_lines("out.jsonl").len(), out);
        std::fs::remove_dir_all(workspace.path("state/again")).unwrap();
    }
}

#[test]
fn letters_of_another_pipeline_are_shown_and_never_sent() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(10));
    workspace.run_pipeline();
    let other = pipeline(NONE).replace("name = \"letters\"", "name = \"other\"");
    workspace.pipeline(&other);
    let listed = list(&workspace, &[]);
    assert_eq!(listed.len(), 4);
    for letter in listed {
        assert_eq!(
            letter["unsendable"], "it is of pipeline letters, and this one is other",
            "{letter}"
        );
    }
}

#[test]
fn a_file_of_letters_that_is_gone_is_said_to_be() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(10));
    workspace.run_pipeline();
    std::fs::remove_file(workspace.path("state/dead-letters.jsonl")).unwrap();
    let listed = workspace.run(&["dead-letters", "list", "--pipeline", "pipeline.toml"]);
    let why = String::from_utf8_lossy(&listed.stderr);
    assert_eq!(listed.status.code(), Some(1), "{why}");
    assert!(
        why.contains("dead-letters.jsonl") && why.contains("it is gone"),
        "{why}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_waits_for_who_sends_letters_from_its_state_directory() {
    use std::io::Read as _;
    use std::process::Stdio;

    let workspace = Workspace::new(&pipeline(GRUMBLES));
    let mut lines = String::new();
    for n in 0..4_000 {
        writeln!(lines, r#"{{"customer":"c","n":{n},"text":"grumble"}}"#).unwrap();
    }
    workspace.write("in.jsonl", lines);
    workspace.run_pipeline();
    workspace.pipeline(&pipeline(NONE));
    // Nobody reads what it says: it stands, with the directory, when the pipe is full.
    let send = [
        "dead-letters",
        "send",
        "--all",
        "--json",
        "--pipeline",
        "pipeline.toml",
    ];
    let mut sending = workspace.command(&send);
    let mut sending = sending.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = sending.stdout.take().unwrap();
    said.read_exact(&mut [0; 10]).unwrap();
    let mut run = workspace.command(&["run", "pipeline.toml"]);
    let log = std::fs::File::create(workspace.path("run.log")).unwrap();
    run.stdout(Stdio::null()).stderr(log);
    let mut running = Running::spawn(run);
    until("the run says what it waits for", PATIENCE, || {
        let log = workspace.read("run.log");
        assert!(
            running.ended().is_none(),
            "{}",
            String::from_utf8_lossy(&log)
        );
        String::from_utf8_lossy(&log).contains("in use by `tidegate dead-letters send`")
    });
    said.read_to_end(&mut Vec::new()).unwrap();
    assert!(sending.wait().unwrap().success());
    assert!(running.wait(PATIENCE).success());
    assert_eq!(came_out(&workspace).len(), 4_000);
}
