//! Doors to a pipeline from outside: what a terminal is shown, whether a host runs, and who may open its state.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Running, Workspace, until};

const PATIENCE: Duration = Duration::from_secs(120);
/// What moves, clears, names or turns around, by bytes that writers of JSON escape and by those that they do not.
const HOSTILE: &str =
    "x\u{1b}]0;mine\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{e0041}\u{200b}\r\nin/0/9@9  sent";

fn pipeline(more: &str) -> String {
    format!(
        r#"
[pipeline]
name = "doors"
state = "state"
cut-interval = "5ms"
{more}
[source.in]
type = "file"
paths = ["in.jsonl"]
required = ["text"]
[[stage]]
name = "guest"
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "last-words" }}
[sink.out]
type = "file"
path = "out.jsonl"
"#
    )
}

/// A pipeline that has run, and of which one record of so many bytes has died.
fn stopped(bytes: usize) -> Workspace {
    let workspace = Workspace::new(&pipeline(""));
    workspace.write("in.jsonl", format!("{}\n", "x".repeat(bytes)));
    let mut command = workspace.command(&["run", "--quiet", "pipeline.toml"]);
    let ran = command.env("TIDEGATE_STATE_KEY", "5a".repeat(32)).output();
    assert!(ran.unwrap().status.success());
    workspace
}

fn letters(workspace: &Workspace, what: &[&str]) -> Output {
    let place = ["--pipeline", "pipeline.toml"];
    workspace.run(&[&["dead-letters"], what, &place].concat())
}

/// Standard output, after it was held against what no terminal is to get.
fn harmless(output: &Output) -> String {
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let is_hostile = |one: char| HOSTILE.contains(one) && !one.is_ascii_graphic();
        let found = text
            .chars()
            .find(|one| is_hostile(*one) && !" \n".contains(*one));
        assert_eq!(found, None, "{text:?}");
        assert!(!text.contains("\nin/0/9@9"), "a line is forged: {text}");
    }
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_letter_whose_every_text_is_hostile_steers_no_terminal() {
    let workspace = stopped(8_000);
    let path = workspace.path("state/dead-letters.jsonl");
    let mut letter = workspace.json("state/dead-letters.jsonl");
    for name in [
        "id",
        "source",
        "stage",
        "reason",
        "value",
        "key",
        "component",
        "backtrace",
        "sent_from",
    ] {
        letter[name] = json!(HOSTILE);
    }
    letter["length"] = json!(HOSTILE.len());
    letter["headers"] = json!([{ "name": HOSTILE, "value": HOSTILE }]);
    // As long as it was: the commit log knows where the file ends.
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    let text = letter.to_string();
    let line = format!("{text}{}\n", " ".repeat(length - 1 - text.len()));
    std::fs::write(&path, line).unwrap();

    let listed = harmless(&letters(&workspace, &["list"]));
    assert!(
        listed.contains("cannot be sent again: the pipeline has no source"),
        "{listed}"
    );
    let listed = harmless(&letters(&workspace, &["list", "--json"]));
    let read: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(read["stage"], HOSTILE, "JSON means what it meant");
    let id = format!("{HOSTILE}@0");
    assert_eq!(read["id"], id);
    let shown: Value =
        serde_json::from_str(&harmless(&letters(&workspace, &["show", &id]))).unwrap();
    for name in [
        "stage",
        "source",
        "reason",
        "value",
        "key",
        "component",
        "backtrace",
        "sent_from",
    ] {
        assert_eq!(shown[name], HOSTILE, "{name}");
    }
    assert_eq!(shown["headers"][0]["name"], HOSTILE);
    for json in [&[][..], &["--json"]] {
        let sent = letters(&workspace, &[&["send", &id], json].concat());
        assert_eq!(sent.status.code(), Some(1));
        assert!(harmless(&sent).contains("has no source"));
    }
    let unknown = letters(&workspace, &["show", HOSTILE]);
    assert!(!unknown.status.success());
    harmless(&unknown);
}

#[test]
fn letters_are_looked_at_without_the_key_without_the_lock_and_whatever_process_has_an_old_number() {
    let workspace = stopped(100);
    // What a host left that was killed: its number is another's by now.
    let left =
        json!({"address": "127.0.0.1:9", "token": "0".repeat(64), "pid": std::process::id()});
    workspace.write("state/admin.json", left.to_string());
    let list = || {
        let listed = letters(&workspace, &["list", "--json"]);
        let why = String::from_utf8_lossy(&listed.stderr).into_owned();
        assert!(listed.status.success(), "{why}");
        serde_json::from_slice::<Value>(&listed.stdout).unwrap()
    };
    assert_eq!(list()["stage"], "decode");
    let status = workspace.run(&["status", "--pipeline", "pipeline.toml"]);
    let why = String::from_utf8(status.stderr).unwrap();
    assert!(why.contains("left by a process that has ended"), "{why}");
    // A host that is starting has the directory, and nothing says yet where it listens.
    std::fs::remove_file(workspace.path("state/admin.json")).unwrap();
    let log = File::options()
        .append(true)
        .open(workspace.path("state/commit.log"))
        .unwrap();
    log.try_lock().unwrap();
    let id = list()["id"].as_str().unwrap().to_owned();
    assert!(letters(&workspace, &["show", &id]).status.success());
    assert!(matches!(log.try_lock(), Ok(())), "the lock is kept");
    let other = File::open(workspace.path("state/commit.log")).unwrap();
    assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
    let sent = letters(&workspace, &["send", &id]);
    let why = String::from_utf8(sent.stderr).unwrap();
    assert!(why.contains("in use"), "{why}");
    // Or there is what an earlier host left, and nothing listens there.
    workspace.write("state/admin.json", left.to_string());
    let sent = letters(&workspace, &["send", &id]);
    let why = String::from_utf8(sent.stderr).unwrap();
    assert!(why.contains("the host is starting or ending"), "{why}");
    drop(log);
    // The key was never in the directory, and nothing has made another.
    assert!(!workspace.path("state/key").exists());
}

#[test]
fn what_is_no_letter_is_opened_by_its_place_and_a_search_says_how_far_it_looked() {
    let workspace = stopped(100);
    let path = workspace.path("state/dead-letters.jsonl");
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    let mut text = "no letter at all ".repeat(100);
    text.truncate(length - 1);
    std::fs::write(&path, format!("{text}\n")).unwrap();
    let listed: Value =
        serde_json::from_slice(&letters(&workspace, &["list", "--json"]).stdout).unwrap();
    assert_eq!(listed["id"], "@0");
    let shown = letters(&workspace, &["show", "@0"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["value"], text);
    let sent = letters(&workspace, &["send", "@0"]);
    let why = String::from_utf8(sent.stdout).unwrap();
    assert!(why.contains("no dead letter of Tidegate"), "{why}");
}

#[cfg(unix)]
#[test]
fn whoever_is_another_user_than_the_owner_makes_nothing_in_a_state_directory() {
    use std::os::unix::fs::chown;
    let workspace = stopped(100);
    let log = workspace.path("state/commit.log");
    // Only who is above permissions can be asked this, and can do the harm.
    if chown(&log, Some(61_184), None).is_err() {
        return;
    }
    let before = names(&workspace);
    let id: Value =
        serde_json::from_slice(&letters(&workspace, &["list", "--json"]).stdout).unwrap();
    let id = id["id"].as_str().unwrap().to_owned();
    for what in [
        &["run", "--quiet", "pipeline.toml"][..],
        &["dead-letters", "send", "--pipeline", "pipeline.toml", &id],
    ] {
        let refused = workspace.run(what);
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && why.contains("sudo -u '#61184'"),
            "{why}"
        );
        assert_eq!(names(&workspace), before);
    }
}

#[cfg(unix)]
fn names(workspace: &Workspace) -> Vec<String> {
    let entries = std::fs::read_dir(workspace.path("state")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_log_that_is_followed_goes_on_over_a_restart_and_ends_with_its_reader() {
    let workspace = Workspace::new(&pipeline(""));
    workspace.write("in.jsonl", "");
    let append = |text: &str| {
        let file = File::options()
            .append(true)
            .open(workspace.path("in.jsonl"));
        writeln!(file.unwrap(), "{{\"text\":\"{text}\"}}").unwrap();
    };
    let start = || {
        let running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
        until("it is ready", PATIENCE, || {
            let ready = ["health", "--ready", "--pipeline", "pipeline.toml"];
            workspace.run(&ready).status.success()
        });
        running
    };
    let mut host = start();
    append("one");
    let follow = ["logs", "guest", "--follow", "--pipeline", "pipeline.toml"];
    let mut follower = workspace.command(&follow);
    let said = File::create(workspace.path("follow.log")).unwrap();
    follower.stdout(Stdio::piped()).stderr(said);
    let mut child = follower.spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let mut follower = Running::of(child);
    let (heard, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        // Two lines, and then its end of the pipe is closed.
        for _ in 0..2 {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            heard.send(line).unwrap();
        }
    });
    let next = || lines.recv_timeout(PATIENCE).expect("a line is followed");
    assert!(next().contains("call 1"));
    host.kill();
    until("the loss is said", PATIENCE, || {
        assert_eq!(follower.ended(), None);
        let said = workspace.read("follow.log");
        String::from_utf8_lossy(&said).contains("the host is lost")
    });
    drop(host);
    let mut host = start();
    append("two");
    assert!(next().contains("call 1"), "the new host counts its own");
    reader.join().unwrap();
    assert_eq!(follower.wait(PATIENCE).code(), Some(0));
    let said = String::from_utf8(workspace.read("follow.log")).unwrap();
    assert!(said.contains("the host is there again"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(host.terminate(PATIENCE).success());
}

#[test]
fn a_token_for_metrics_that_cannot_be_read_is_what_this_machine_lacks() {
    let workspace = Workspace::new(&pipeline("[admin]\nmetrics-token-file = \"token\""));
    workspace.write("in.jsonl", "");
    let check = || {
        let checked = workspace.run(&["check", "pipeline.toml"]);
        (
            checked.status.success(),
            String::from_utf8(checked.stderr).unwrap(),
        )
    };
    let (is_well, said) = check();
    assert!(is_well && said.contains("token: No such file"), "{said}");
    let ran = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    assert!(!ran.status.success(), "a run needs it");
    workspace.write("token", "short");
    let (is_well, said) = check();
    assert!(!is_well && said.contains("at least 16"), "{said}");
}
