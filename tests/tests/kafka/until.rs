//! `--until now`, while others join and leave.

use std::time::Duration;

use tidegate_tests::Workspace;

use crate::{broker, produce, tickets, topic_with};

const PATIENCE: Duration = Duration::from_secs(120);

fn member(topic: &str) -> Workspace {
    let broker = broker();
    Workspace::new(&format!(
        r#"
[pipeline]
name = "until"
cut-interval = "20ms"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{topic}"
group = "{topic}-group"
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "file"
path = "out.jsonl"
"#
    ))
}

#[test]
fn a_run_until_now_ends_beside_members_that_read_on() {
    let topic = topic_with("until", 1, &[]);
    produce(&topic, &tickets(50));
    let keeper = member(&topic);
    let mut keeping = keeper.start(&["run", "--quiet", "pipeline.toml"]);
    let read = |workspace: &Workspace| workspace.json_lines("out.jsonl").len();
    tidegate_tests::until("the first reads", PATIENCE, || read(&keeper) == 50);
    // The one partition is taken: the others have none, and end nevertheless.
    let guests = [member(&topic), member(&topic)];
    let guests = guests.each_ref().map(|guest| {
        produce(&topic, &tickets(50));
        guest.start(&["run", "--quiet", "--until", "now", "pipeline.toml"])
    });
    for mut guest in guests {
        assert!(guest.wait(PATIENCE).success());
    }
    assert!(keeping.ended().is_none());
}

#[test]
fn three_runs_until_now_all_end_and_have_read_everything_together() {
    let topic = topic_with("until-both", 4, &[]);
    let numbered: Vec<(String, String)> = (0..200)
        .map(|n| (n.to_string(), format!("{{\"n\":{n},\"text\":\"\"}}")))
        .collect();
    produce(&topic, &numbered);
    let members = [member(&topic), member(&topic), member(&topic)];
    let runs = members.each_ref().map(|member| {
        let run = member.start(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
        // They come one after the other, so that partitions move.
        std::thread::sleep(Duration::from_millis(300));
        run
    });
    for mut run in runs {
        assert!(run.wait(PATIENCE).success());
    }
    let lines = members
        .iter()
        .flat_map(|member| member.json_lines("out.jsonl"));
    let seen: std::collections::BTreeSet<u64> =
        lines.filter_map(|line| line["n"].as_u64()).collect();
    assert_eq!(seen, (0..200).collect());
}
