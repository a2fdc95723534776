//! Topics that a pipeline has for itself, and how long its transactions last, as the file says.

use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

use crate::{broker, consume, produce, topic, topic_with};

/// From a topic to a topic, with nothing said of dead letters.
fn pipeline(input: &str, output: &str, more: &str, source: &str, sink: &str) -> Workspace {
    let broker = broker();
    Workspace::new(&format!(
        r#"
[pipeline]
name = "own"
summary = "summary.json"
{more}
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}"
{source}
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
{sink}
"#
    ))
}

fn records(values: &[&str]) -> Vec<(String, String)> {
    let value = |value: &&str| ("k".to_owned(), (*value).to_owned());
    values.iter().map(value).collect()
}

/// What `tidegate check` says, and whether it is content.
fn check(workspace: &Workspace, arguments: &[&str]) -> (bool, String) {
    let mut all = vec!["check"];
    all.extend(arguments);
    all.push("pipeline.toml");
    let checked = workspace.run(&all);
    let said = [checked.stdout, checked.stderr].concat();
    (checked.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn dead_letters_of_a_topic_go_to_a_topic_that_is_made_with_the_changelog() {
    let (input, output) = (topic_with("own", 2, &[]), topic("own-out"));
    let wanted = "changelog = { replication = 1, max-message = \"64KiB\" }";
    let workspace = pipeline(&input, &output, "", wanted, "");
    let (changelog, letters) = (
        format!("{input}-changelog"),
        format!("{input}-dead-letters"),
    );
    let broker = broker();
    let (content, said) = check(&workspace, &[]);
    assert!(
        content && said.contains("guarantee: exactly once"),
        "{said}"
    );
    for line in [
        format!("changelog of source in: topic {changelog} at {broker}, made if it is missing"),
        format!("dead letters: topic {letters} at {broker}, made if it is missing"),
    ] {
        assert!(said.contains(&line), "{said}");
    }
    let (content, said) = check(&workspace, &["--connect"]);
    assert!(content, "{said}");
    for (end, topic) in [
        ("changelog of source in", &changelog),
        ("dead letters", &letters),
    ] {
        let line =
            format!("{end}: topic {topic} at {broker}: it is missing, and the first run makes it");
        assert!(said.contains(&line), "{said}");
    }
    produce(&input, &records(&["{\"n\":1}", "no JSON", "{\"n\":2}"]));
    for _ in 0..2 {
        let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{said}");
        // Neither a topic that is just made nor a group that nobody knew is in trouble.
        assert!(!said.contains("trying again"), "{said}");
    }
    assert_eq!(consume(&output).len(), 2);
    let dead = consume(&letters);
    assert_eq!(dead.len(), 1, "{dead:?}");
    let letter: Value = serde_json::from_str(&dead[0].1).unwrap();
    assert_eq!(
        (&letter["stage"], &letter["value"]),
        (&"decode".into(), &"no JSON".into())
    );
    // Its key is the record's, in the letter and beside it.
    assert_eq!((dead[0].0.as_str(), &letter["key"]), ("k", &"k".into()));
    assert!(workspace.read("state/dead-letters.jsonl").is_empty());
    let (content, said) = check(&workspace, &["--connect"]);
    assert!(content, "{said}");
    let line = format!("changelog of source in: topic {changelog} at {broker}: 2 partitions\n");
    assert!(said.contains(&line), "{said}");
    // Another file is told what it does not get.
    let other = pipeline(&input, &output, "", "changelog = { replication = 3 }", "");
    let (_, said) = check(&other, &["--connect"]);
    assert!(
        said.contains("used as it is: replication 1 instead of 3"),
        "{said}"
    );
}

#[test]
fn a_changelog_that_loses_what_waits_is_refused_by_check_and_run() {
    let (input, output) = (topic("own-bad"), topic("own-bad-out"));
    let deletes = topic_with("own-deletes", 1, &[("cleanup.policy", "delete")]);
    let told = format!("changelog = {{ topic = \"{deletes}\" }}");
    let workspace = pipeline(&input, &output, "", &told, "");
    let why = format!("changelog topic {deletes} has cleanup.policy delete");
    let (content, said) = check(&workspace, &["--connect"]);
    assert!(!content && said.contains(&why), "{said}");
    let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && said.contains(&why), "{said}");
}

#[test]
fn a_topic_that_is_missing_is_named_and_nothing_else() {
    let output = topic("own-there");
    let workspace = pipeline("own-no-such-topic", &output, "", "", "");
    let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&run.stderr);
    let why = format!(
        "topic own-no-such-topic at {}: the topic does not exist",
        broker()
    );
    assert!(!run.status.success() && said.contains(&why), "{said}");
    assert!(!said.contains("commit"), "{said}");
}

#[test]
fn what_a_transaction_cannot_last_is_refused_at_its_line() {
    let refused = |more: &str, source: &str, sink: &str, place: &str, why: &str| {
        let workspace = pipeline("in", "out", more, source, sink);
        let (content, said) = check(&workspace, &[]);
        assert!(
            !content && said.contains(place) && said.contains(why),
            "{said}"
        );
    };
    let timeout = |millis: u32| format!("properties = {{ \"transaction.timeout.ms\" = {millis} }}");
    let at = "sink.out.properties.transaction.timeout.ms";
    refused(
        "",
        "",
        &timeout(20_000),
        at,
        "is more than session.timeout.ms 10000 of source in",
    );
    refused(
        "",
        "",
        "properties = { \"linger.ms\" = 20000 }",
        "sink.out.properties.linger.ms",
        "a transaction is over after 8000",
    );
    refused(
        "",
        "properties = { \"internal.termination.signal\" = 9 }",
        "",
        "source.in.properties.internal.termination.signal",
        "signals are the program's own",
    );
    let unused = "is in no transaction";
    refused(
        "delivery = \"at-least-once\"",
        "",
        &timeout(5_000),
        at,
        unused,
    );
}

#[test]
fn a_time_between_cuts_may_be_longer_than_a_transaction_lasts() {
    let (input, output) = (topic("own-slow"), topic("own-slow-out"));
    // Longer than the 8 s after which brokers end a transaction.
    let workspace = pipeline(&input, &output, "cut-interval = \"12s\"", "", "");
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    let said = || String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned();
    for number in 1..=2 {
        produce(&input, &records(&["{}"]));
        until("the cut holds", Duration::from_secs(120), || {
            assert!(running.ended().is_none(), "{}", said());
            consume(&output).len() == number
        });
    }
    assert!(!said().contains("aborted"), "{}", said());
    assert!(
        running.terminate(Duration::from_secs(60)).success(),
        "{}",
        said()
    );
}
