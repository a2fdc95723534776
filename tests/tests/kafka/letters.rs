//! Dead letters sent again where cuts are Kafka transactions: once, whichever process sends and reads them.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidegate_control::client::Client;
use tidegate_control::{SendLetters, SendState};
use tidegate_tests::{Running, Workspace, until};

use crate::{broker, consume, produce, topic, topic_with};

const PATIENCE: Duration = Duration::from_secs(120);
const RECORDS: usize = 120;

/// From a topic to a topic; its operator refuses records with this word.
fn pipeline(input: &str, output: &str, instance: &str, word: &str) -> String {
    format!(
        r#"
[pipeline]
name = "{input}"
cut-interval = "20ms"
delivery = "exactly-once"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}"
instance = "{instance}"
properties = {{ "session.timeout.ms" = 6000, "heartbeat.interval.ms" = 500 }}
[[stage]]
name = "abuse"
operator = "{{operators}}/drop-abuse.wasm"
config = {{ paths = ["text"], words = ["{word}"], action = "dead-letter" }}
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
"#,
        broker = broker()
    )
}

fn command(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = workspace.command(arguments);
    command.env("TIDEGATE_STATE_KEY", "22".repeat(32));
    command
}

/// Runs it, once it is ready.
fn start(workspace: &Workspace) -> Running {
    let mut run = command(workspace, &["run", "--quiet", "pipeline.toml"]);
    let log = File::create(workspace.path("stderr.log")).unwrap();
    run.stdout(Stdio::null()).stderr(log);
    let mut running = Running::spawn(run);
    let health = ["health", "--ready", "--pipeline", "pipeline.toml"];
    until("it is ready", PATIENCE, || {
        let said = workspace.read("stderr.log");
        assert!(
            running.ended().is_none(),
            "{}",
            String::from_utf8_lossy(&said)
        );
        workspace.run(&health).status.success()
    });
    running
}

/// What a command with dead letters prints; none if it failed.
fn letters(workspace: &Workspace, arguments: &[&str]) -> Option<Vec<Value>> {
    let all = [
        &["dead-letters"],
        arguments,
        &["--pipeline", "pipeline.toml", "--json"],
    ]
    .concat();
    let output = command(workspace, &all).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    output.status.success().then(|| lines.collect())
}

fn list(workspace: &Workspace) -> Vec<Value> {
    letters(workspace, &["list", "--limit", "1000"]).unwrap_or_default()
}

fn ids(letters: &[Value]) -> Vec<String> {
    let id = |letter: &Value| letter["id"].as_str().unwrap().to_owned();
    letters.iter().map(id).collect()
}

/// Of each letter, the record that it was sent again as.
fn marks(workspace: &Workspace) -> BTreeMap<String, Option<String>> {
    let mark = |letter: &Value| letter["sent"]["record"].as_str().map(str::to_owned);
    let letters = list(workspace);
    letters
        .iter()
        .map(|letter| (letter["id"].as_str().unwrap().to_owned(), mark(letter)))
        .collect()
}

fn records() -> Vec<(String, String)> {
    let text = |n: usize| {
        if n.is_multiple_of(3) {
            "grumble"
        } else {
            "well"
        }
    };
    let record = |n: usize| {
        let value = format!("{{\"n\":{n},\"text\":\"{}\"}}", text(n));
        (format!("k{}", n % 7), value)
    };
    (0..RECORDS).map(record).collect()
}

/// How often each number came out, of what is committed.
fn came_out(output: &str) -> BTreeMap<u64, usize> {
    let mut came = BTreeMap::new();
    for (_, value) in consume(output) {
        let value: Value = serde_json::from_str(&value).unwrap();
        *came.entry(value["n"].as_u64().unwrap()).or_default() += 1;
    }
    came
}

#[test]
fn letters_sent_by_two_processes_at_once_through_kills_go_through_once_and_all_see_the_marks() {
    let (input, output) = (topic_with("letters", 2, &[]), topic("letters-out"));
    let members = ["one", "two"];
    let of = |word: &str| members.map(|name| pipeline(&input, &output, name, word));
    let workspaces = of("grumble").map(|pipeline| Workspace::new(&pipeline));
    let mut running = workspaces.each_ref().map(start);
    produce(&input, &records());
    let dead = RECORDS / 3;
    for workspace in &workspaces {
        until("the letters are there for every process", PATIENCE, || {
            list(workspace).len() == dead
        });
    }
    let all = list(&workspaces[0]);
    assert!(
        all.iter().all(|letter| letter["unsendable"].is_null()),
        "{all:?}"
    );
    let all = ids(&all);
    // The operator is mended by a swap, and in the file for the next start.
    let mended = r#"{"paths":["text"],"words":["nothing"],"action":"dead-letter"}"#;
    for (workspace, pipeline) in workspaces.iter().zip(of("nothing")) {
        workspace.write("mended.json", mended);
        let deploy = ["deploy", "--pipeline", "pipeline.toml", "--slot", "abuse"];
        let deploy = [&deploy[..], &["--config", "mended.json"]].concat();
        let deployed = workspace.run(&deploy);
        assert!(deployed.status.success(), "{deployed:?}");
        workspace.pipeline(&pipeline);
    }
    let client = |workspace: &Workspace| Client::find(&workspace.path("pipeline.toml"));
    let by_command = |workspace: &Workspace, ids: &[String]| {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let sent = letters(workspace, &[&["send"], &ids[..]].concat());
        sent.map(|results| results.iter().filter(|one| one["state"] == "sent").count())
    };
    let by_request = |workspace: &Workspace, ids: &[String]| {
        let letters = SendLetters {
            ids: ids.to_vec(),
            ..SendLetters::default()
        };
        let sent = client(workspace).ok()?.send_dead_letters(&letters).ok()?;
        let results = sent.results.iter();
        Some(results.filter(|one| one.state == SendState::Sent).count())
    };
    // Both at once, with nobody killed: each is sent by one of them.
    let (first, rest) = all.split_at(dead / 2);
    let [one, two] = &workspaces;
    let (sent, also) = std::thread::scope(|scope| {
        let other = scope.spawn(|| by_request(two, first));
        (by_command(one, first), other.join().unwrap())
    });
    assert_eq!(sent.unwrap() + also.unwrap(), first.len());
    // And killed while they send, one after the other.
    for (round, chunk) in rest.chunks(rest.len() / 2).enumerate() {
        let killed = round % 2;
        std::thread::scope(|scope| {
            scope.spawn(|| by_request(two, chunk));
            scope.spawn(|| by_command(one, chunk));
            let marked = || marks(&workspaces[1 - killed]);
            let before = marked().values().flatten().count();
            until("some of it is sent", PATIENCE, || {
                marked().values().flatten().count() > before
            });
            running[killed].kill();
        });
        running[killed] = start(&workspaces[killed]);
    }
    until("whoever asks again is told", PATIENCE, || {
        by_command(one, &all).is_some() && by_request(two, &all) == Some(0)
    });
    let expected: BTreeMap<u64, usize> = (0..RECORDS as u64).map(|n| (n, 1)).collect();
    until("every record is through", PATIENCE, || {
        let came = came_out(&output);
        assert!(came.values().all(|times| *times == 1), "{came:?}");
        came == expected
    });
    let seen = marks(one);
    assert_eq!(seen.len(), dead, "none died again");
    assert!(seen.values().all(Option::is_some), "{seen:?}");
    assert_eq!(marks(two), seen);
    // What is known of it is nothing of a directory.
    assert!(running[0].terminate(PATIENCE).success());
    std::fs::remove_dir_all(one.path("state")).unwrap();
    running[0] = start(one);
    assert_eq!(marks(one), seen);
    assert_eq!(by_command(one, &all), Some(0));
    for running in &mut running {
        assert!(running.terminate(PATIENCE).success());
    }
    assert_eq!(came_out(&output), expected);
}

#[test]
fn a_letter_sent_while_nothing_runs_is_read_by_the_next_run_and_says_which_it_was() {
    let (input, output) = (topic("letters-still"), topic("letters-still-out"));
    let workspace = Workspace::new(&pipeline(&input, &output, "one", "grumble"));
    let run = || {
        let mut run = command(
            &workspace,
            &["run", "--quiet", "--until", "now", "pipeline.toml"],
        );
        let run = run.output().unwrap();
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
    };
    let both = [
        ("k".to_owned(), "no JSON".to_owned()),
        records().swap_remove(0),
    ];
    produce(&input, &both);
    run();
    let dead = list(&workspace);
    assert_eq!(dead.len(), 2, "{dead:?}");
    // The second is mended, the first is not.
    workspace.pipeline(&pipeline(&input, &output, "one", "nothing"));
    let sent = letters(&workspace, &["send", "--all"]).unwrap();
    assert!(sent.iter().all(|one| one["state"] == "sent"), "{sent:?}");
    assert!(marks(&workspace).values().all(Option::is_some));
    run();
    assert_eq!(came_out(&output), BTreeMap::from([(0, 1)]));
    let now = list(&workspace);
    assert_eq!(now.len(), 3, "{now:?}");
    let again = &now[0];
    assert_eq!(
        (&again["stage"], &again["source"]),
        (&"decode".into(), &"in.again".into())
    );
    assert_eq!(again["value"], "no JSON");
    let first = dead
        .iter()
        .find(|letter| letter["stage"] == "decode")
        .unwrap();
    assert_eq!(again["sent_from"], first["id"]);
    // It is another letter, which can be sent itself, and dies once more.
    let sent = letters(&workspace, &["send", "--all"]).unwrap();
    assert_eq!((sent.len(), &sent[0]["id"]), (1, &again["id"]));
    run();
    run();
    assert_eq!(list(&workspace).len(), 4);
    assert_eq!(came_out(&output), BTreeMap::from([(0, 1)]));
}

/// From a topic to a file, so that cuts are in the commit log, with letters in a topic.
fn in_log(input: &str, dead: &str, word: &str, interval: &str) -> String {
    format!(
        r#"
[pipeline]
name = "{input}"
cut-interval = "{interval}"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}"
[[stage]]
name = "abuse"
operator = "{{operators}}/drop-abuse.wasm"
config = {{ paths = ["text"], words = ["{word}"], action = "dead-letter" }}
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "kafka"
brokers = ["{broker}"]
topic = "{dead}"
"#,
        broker = broker()
    )
}

#[test]
fn a_death_that_was_written_twice_around_a_kill_is_sent_again_once() {
    let (input, dead) = (topic("letters-twice"), topic("letters-twice-dead"));
    let workspace = Workspace::new(&in_log(&input, &dead, "grumble", "10m"));
    let mut running = start(&workspace);
    produce(&input, &records()[..1]);
    until("the letter is there before its cut", PATIENCE, || {
        !consume(&dead).is_empty()
    });
    running.kill();
    workspace.pipeline(&in_log(&input, &dead, "grumble", "20ms"));
    running = start(&workspace);
    until("the record is read again, and dies again", PATIENCE, || {
        consume(&dead).len() == 2
    });
    assert!(running.terminate(PATIENCE).success());
    workspace.pipeline(&in_log(&input, &dead, "nothing", "20ms"));
    running = start(&workspace);
    let two = ids(&list(&workspace));
    assert_eq!(two.len(), 2, "{two:?}");
    let sent = letters(&workspace, &["send", &two[0]]).unwrap();
    assert_eq!(sent[0]["state"], "sent", "{sent:?}");
    assert!(marks(&workspace).values().all(Option::is_some));
    let sent = letters(&workspace, &["send", &two[0], &two[1]]).unwrap();
    assert!(sent.iter().all(|one| one["state"] == "already"), "{sent:?}");
    until("it is through", PATIENCE, || {
        !workspace.json_lines("out.jsonl").is_empty()
    });
    assert!(running.terminate(PATIENCE).success());
    assert_eq!(workspace.json_lines("out.jsonl").len(), 1);
}
