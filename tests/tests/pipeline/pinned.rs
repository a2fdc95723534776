//! Prefixes of stages that stay on the device: every form of a prompt, and a model that is loaded again.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

use super::models::{PATIENCE, demo_model, text, tickets};

const KIND: &str = "You answer mails to a shop. Be kind and be short. Refunds take a week, and parcels three days.";

/// Stages that ask in every form, one after another, each with a beginning of its own.
fn pipeline(pin: bool) -> String {
    let stages = [
        format!("prompt = \"{{text}}\"\nsystem = \"A: {KIND}\""),
        format!("prompt = \"B: {KIND} Mail: {{text}}\"\nraw = true"),
        format!(
            "messages = [{{ role = \"user\", content = \"C: {KIND} {{customer}}\" }}, {{ role = \"assistant\", content = \"Yes.\" }}, \
             {{ role = \"user\", content = \"{{text}}\" }}]"
        ),
        format!("prompt = \"D: {KIND} {{text}}\""),
    ];
    let stages: String = (stages.iter().enumerate())
        .map(|(at, asks)| {
            format!(
                "[[stage]]\nname = \"s{at}\"\nmodel = \"support\"\n{asks}\ntruncate = \"text\"\nmax-tokens = 12\nfield = \"answer{at}\"\n\
                 pin-prefix = {pin}\n"
            )
        })
        .collect();
    format!(
        "[pipeline]\nname = \"pinned\"\ncut-interval = \"20ms\"\n[source.tickets]\ntype = \"file\"\n\
         paths = [\"tickets.jsonl\"]\nkey = \"customer\"\n[model.support]\npath = {:?}\nsequences = 4\ncontext = 256\n{stages}\
         [sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n",
        demo_model()
    )
}

fn model(workspace: &Workspace) -> Option<Value> {
    let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
    let status: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(status["models"][0].clone())
}

fn answers(workspace: &Workspace) -> Vec<Value> {
    let mut lines = workspace.json_lines("out.jsonl");
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("customer");
    }
    // Those of several customers may pass each other.
    lines.sort_by_key(|line| line["id"].to_string());
    lines
}

#[test]
fn the_first_record_finds_what_each_stage_begins_with_also_on_a_model_that_is_loaded_again() {
    let all = tickets(6);
    let (first, rest) = all.split_at(all.find('\n').unwrap() + 1);
    let mut made = Vec::new();
    for pin in [true, false] {
        let workspace = Workspace::new(&pipeline(pin));
        workspace.write("tickets.jsonl", first);
        let mut running =
            workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
        let has = |lines: usize| {
            let bytes = workspace.read("out.jsonl");
            bytes.iter().filter(|byte| **byte == b'\n').count() >= lines
        };
        let written = || workspace.path("out.jsonl").exists();
        until("the first answers", PATIENCE, || written() && has(1));
        let model_now = model(&workspace).unwrap();
        let (pinned, hits) = (&model_now["blocks_pinned"], &model_now["prefix_hit_tokens"]);
        let (pinned, hits) = (pinned.as_u64().unwrap(), hits.as_u64().unwrap());
        // Each stage asked once: nothing else is found than what is pinned, all of it.
        match pin {
            true => assert!(pinned >= 4 && hits >= 16 * pinned, "{model_now}"),
            false => assert_eq!((pinned, hits), (0, 0), "{model_now}"),
        }
        let said = workspace.run(&["status", "--pipeline", "pipeline.toml"]);
        assert_eq!(
            text(&said.stdout).contains(&format!(", {pinned} pinned")),
            pin
        );
        let load = ["model", "load", "support", "--pipeline", "pipeline.toml"];
        assert!(workspace.run(&load).status.success());
        let fresh = model(&workspace).unwrap();
        assert_eq!(fresh["blocks_pinned"], pinned);
        assert_eq!(
            (&fresh["prefix_hit_tokens"], &fresh["answered"]),
            (&0.into(), &0.into())
        );
        let path = workspace.path("tickets.jsonl");
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        until("all answers", PATIENCE, || has(6));
        if pin {
            let hits = model(&workspace).unwrap()["prefix_hit_tokens"]
                .as_u64()
                .unwrap();
            assert!(hits >= 5 * 16 * pinned, "{hits} of {pinned} blocks");
        }
        running.terminate(Duration::from_secs(60));
        made.push(answers(&workspace));
    }
    assert_eq!(made[0], made[1]);
}
