//! A model with two replicas on one adapter: the same stream as with one.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

use super::models::{PATIENCE, asking, text, tickets};

const RECORDS: usize = 40;

/// The demo's model on these adapters.
fn pipeline(adapters: &str) -> String {
    let stage = "max-tokens = 24\ntemperature = 0.7\nseed = 5\norder = \"partition\"";
    asking(stage).replace(
        "sequences = 16\n",
        &format!("sequences = 4\nadapters = {adapters}\n"),
    )
}

fn model(workspace: &Workspace) -> Option<Value> {
    let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
    let status: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(status["models"][0].clone())
}

fn answered(model: &Value) -> Vec<u64> {
    let replicas = model["replicas"].as_array().unwrap();
    replicas
        .iter()
        .map(|one| one["answered"].as_u64().unwrap())
        .collect()
}

#[test]
fn two_replicas_write_the_bytes_that_one_writes_also_while_the_model_is_loaded_again() {
    let all = tickets(RECORDS);
    let one = Workspace::new(&pipeline("[\"cpu\"]"));
    one.write("tickets.jsonl", &all);
    one.run_pipeline();
    let wanted = one.read("out.jsonl");
    let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(count(&wanted), RECORDS);

    let two = Workspace::new(&pipeline("[\"cpu\", \"cpu\"]"));
    let half = all.match_indices('\n').nth(RECORDS / 2 - 1).unwrap().0 + 1;
    two.write("tickets.jsonl", &all[..half]);
    let mut running = two.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    let has =
        |lines: usize| two.path("out.jsonl").exists() && count(&two.read("out.jsonl")) >= lines;
    until("half of the answers", PATIENCE, || has(RECORDS / 2));
    let before = model(&two).unwrap();
    assert!(answered(&before).iter().all(|one| *one >= 4), "{before}");
    let said = text(&two.run(&["status", "--pipeline", "pipeline.toml"]).stdout);
    for number in 0..2 {
        assert!(said.contains(&format!("  replica {number} on ")), "{said}");
    }
    // Both are replaced while requests are under way.
    let mut file = File::options()
        .append(true)
        .open(two.path("tickets.jsonl"))
        .unwrap();
    file.write_all(&all.as_bytes()[half..]).unwrap();
    let load = ["model", "load", "support", "--pipeline", "pipeline.toml"];
    assert!(two.run(&load).status.success());
    until("all answers", PATIENCE, || has(RECORDS));
    let after = model(&two).unwrap();
    assert_eq!(after["replicas"].as_array().unwrap().len(), 2, "{after}");
    running.terminate(Duration::from_secs(60));
    let made = two.read("out.jsonl");
    assert!(made == wanted, "{}\n{}", text(&made), text(&wanted));
}
