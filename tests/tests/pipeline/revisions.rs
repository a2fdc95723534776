//! Revisions of operators: configurations that are deployed, what each did, and what becomes of one that fails too
//! often.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

const PATIENCE: Duration = Duration::from_secs(120);

/// One partition, one hostile operator; `more` goes into its stage.
fn pipeline(mode: &str, more: &str) -> String {
    format!(
        r#"
[pipeline]
name = "revisions"
state = "state"
cut-interval = "20ms"
batch = 8
[source.in]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "guest"
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "{mode}" }}
{more}
[sink.out]
type = "file"
path = "out.jsonl"
"#
    )
}

/// So many records from this number on; every fifth is bad if that is asked for.
fn lines(numbers: std::ops::Range<u64>, bad: bool) -> String {
    let word = |n: u64| match bad && n.is_multiple_of(5) {
        true => "bad",
        false => "good",
    };
    numbers
        .map(|n| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", word(n)))
        .collect()
}

fn append(workspace: &Workspace, text: &str) {
    let mut options = File::options();
    let file = options
        .create(true)
        .append(true)
        .open(workspace.path("in.jsonl"));
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

const FOLLOW: [&str; 6] = ["run", "--quiet", "--log", "info", "--until", "forever"];

fn follow(workspace: &Workspace) -> tidegate_tests::Running {
    workspace.start(&[&FOLLOW[..], &["pipeline.toml"]].concat())
}

fn written(workspace: &Workspace, name: &str) -> usize {
    workspace.read(name).iter().filter(|b| **b == b'\n').count()
}

fn status(workspace: &Workspace) -> Option<Value> {
    let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
    serde_json::from_slice(&output.stdout).ok()
}

fn deploy(workspace: &Workspace, config: &str) -> Output {
    workspace.write("new.json", config);
    workspace.run(&[
        "deploy",
        "--json",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "guest",
        "--config",
        "new.json",
    ])
}

pub(crate) fn metrics(workspace: &Workspace) -> String {
    let file: PathBuf = workspace.path("state/admin.json");
    let admin: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let (address, token) = (admin["address"].as_str(), admin["token"].as_str());
    let (address, token) = (address.unwrap(), token.unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_configuration_that_is_deployed_outlives_a_restart_until_the_file_has_another() {
    let workspace = Workspace::new(&pipeline("pass", ""));
    append(&workspace, &lines(0..10, false));
    let mut running = follow(&workspace);
    until("the first output", PATIENCE, || {
        written(&workspace, "out.jsonl") == 10
    });
    let refused = deploy(&workspace, "{\"mode\": \"init-error\"}");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("does not please me"), "{error}");
    let refused = deploy(&workspace, "[1]");
    assert_eq!(refused.status.code(), Some(2));
    // What an editor holds the file against is no part of the configuration.
    let output = deploy(
        &workspace,
        "{\"$schema\": \"config.schema.json\", \"mode\": \"config\"}",
    );
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["old"]["digest"], report["new"]["digest"], "{report}");
    assert_ne!(
        report["old"]["revision"], report["new"]["revision"],
        "{report}"
    );
    let letters = || workspace.json_lines("state/dead-letters.jsonl");
    let buried = |more: usize, reason: &str| {
        let before = letters().len();
        append(&workspace, &lines(0..more as u64, false));
        until("they are dead letters", PATIENCE, || {
            letters().len() == before + more
        });
        let letters = letters();
        let found = letters.last().unwrap()["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(found.contains(reason), "{found}");
    };
    buried(3, "{\"mode\":\"config\"}");
    // What each did is told apart.
    let now = status(&workspace).unwrap();
    let revisions = now["slots"][0]["revisions"].as_array().unwrap().clone();
    let seen: Vec<_> = revisions
        .iter()
        .map(|one| {
            (
                one["revision"].clone(),
                one["runs"] == true,
                one["records"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (report["old"]["revision"].clone(), false, Some(10)),
            (report["new"]["revision"].clone(), true, Some(3)),
        ]
    );
    assert_eq!(revisions[0]["outcomes"]["pass"], 10);
    assert_eq!(revisions[1]["outcomes"]["dead-letter"], 3);
    assert!(revisions[1]["memory"].as_u64().unwrap() > 0);
    assert_eq!(revisions[1]["instances"], 1);
    let text = metrics(&workspace);
    let digits = &report["new"]["revision"].as_str().unwrap()["sha256:".len()..][..16];
    for line in [
        format!(
            "tidegate_revision_records_total{{slot=\"guest\",revision=\"{digits}\",version=\"1.0.0\"}} 3"
        ),
        format!(
            "tidegate_revision_outcomes_total{{slot=\"guest\",revision=\"{digits}\",version=\"1.0.0\",outcome=\"dead-letter\"}} 3"
        ),
        format!(
            "tidegate_revision_lost_instances_total{{slot=\"guest\",revision=\"{digits}\",version=\"1.0.0\"}} 0"
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    for name in ["guest_seconds_total", "memory_bytes", "instances"] {
        assert!(
            text.contains(&format!("tidegate_revision_{name}{{slot=\"guest\"")),
            "{text}"
        );
    }
    let shown = workspace.run(&["status", "--pipeline", "pipeline.toml"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains(&format!("revision {digits}: 3 records (dead-letter 3)")),
        "{shown}"
    );

    running.kill();
    let mut running = follow(&workspace);
    buried(2, "{\"mode\":\"config\"}");
    assert!(running.terminate(PATIENCE).success());
    // What is in the file now is newer.
    workspace.pipeline(&pipeline("clock", ""));
    let mut running = follow(&workspace);
    until("it answers", PATIENCE, || status(&workspace).is_some());
    append(&workspace, &lines(0..1, false));
    until("it is a dead letter", PATIENCE, || letters().len() == 6);
    let reason = letters().pop().unwrap()["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.bytes().all(|byte| byte.is_ascii_digit()), "{reason}");
    assert!(running.terminate(PATIENCE).success());
}

#[test]
fn a_revision_that_loses_too_many_instances_falls_back_to_the_one_before() {
    let breaker = "breaker = { lost-instances = 4, within = \"1h\" }";
    let workspace = Workspace::new(&pipeline("pass", breaker));
    append(&workspace, &lines(0..10, false));
    let mut running = follow(&workspace);
    until("the first output", PATIENCE, || {
        written(&workspace, "out.jsonl") == 10
    });
    let output = deploy(&workspace, "{\"mode\": \"trap\"}");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    append(&workspace, &lines(0..200, true));
    let dead = || written(&workspace, "state/dead-letters.jsonl");
    until("everything has its end", PATIENCE, || {
        written(&workspace, "out.jsonl") + dead() == 210
    });
    // What was found before it was one too many.
    assert!(dead() <= 4, "{} dead letters of forty bad records", dead());
    let slot = || status(&workspace).unwrap()["slots"][0].clone();
    let revisions = slot()["revisions"].as_array().unwrap().clone();
    let (runs, tripped): (Vec<_>, Vec<_>) = revisions.iter().partition(|one| one["runs"] == true);
    assert_eq!(runs[0]["revision"], report["old"]["revision"]);
    assert_eq!(tripped[0]["revision"], report["new"]["revision"]);
    let why = "5 instances were lost within 3600s, limit 4";
    assert_eq!(tripped[0]["tripped"], why);
    assert!(slot().get("trouble").is_none(), "{}", slot());
    let shown = workspace.run(&["status", "--pipeline", "pipeline.toml"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&format!("is run no more: {why}")), "{shown}");
    let name = "tidegate_stage_tripped_revisions_total{stage=\"guest\"} 1";
    assert!(metrics(&workspace).lines().any(|line| line == name));
    let log = String::from_utf8(workspace.read("stderr.log")).unwrap();
    assert!(
        log.contains("an operator is run no more") && log.contains(why),
        "{log}"
    );
    // A restart goes on with what was fallen back to.
    running.kill();
    let mut running = follow(&workspace);
    append(&workspace, &lines(0..20, true));
    until("all of it is out", PATIENCE, || {
        written(&workspace, "out.jsonl") + dead() == 230
    });
    assert_eq!(
        slot()["revisions"][0]["revision"],
        report["old"]["revision"]
    );
    assert!(running.terminate(PATIENCE).success());
}

#[test]
fn a_deployed_revision_that_fails_after_a_restart_falls_back_to_that_of_the_file() {
    let breaker = "breaker = { failed-records = 2, within = \"1h\" }";
    let workspace = Workspace::new(&pipeline("pass", breaker));
    append(&workspace, &lines(0..10, false));
    let mut running = follow(&workspace);
    until("the first output", PATIENCE, || {
        written(&workspace, "out.jsonl") == 10
    });
    let output = deploy(&workspace, "{\"mode\": \"trap\"}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    running.kill();
    let mut running = follow(&workspace);
    append(&workspace, &lines(0..50, true));
    until("everything has its end", PATIENCE, || {
        let dead = written(&workspace, "state/dead-letters.jsonl");
        written(&workspace, "out.jsonl") + dead == 60
    });
    assert_eq!(written(&workspace, "state/dead-letters.jsonl"), 3);
    let revisions = status(&workspace).unwrap()["slots"][0]["revisions"].clone();
    assert_eq!(revisions[0]["revision"], report["new"]["revision"]);
    assert_eq!(revisions[1]["revision"], report["old"]["revision"]);
    assert!(revisions[1]["runs"] == true && revisions[0].get("tripped").is_some());
    // Its breaker is open until something is deployed, and no longer.
    let slot = || status(&workspace).unwrap()["slots"][0].clone();
    let open = slot()["open"].clone();
    assert_eq!(open["revision"], report["new"]["revision"]);
    assert_eq!(open["reason"], revisions[0]["tripped"]);
    let shown = workspace.run(&["status", "--pipeline", "pipeline.toml"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("a breaker is open in slot guest"));
    let mended = deploy(&workspace, "{\"mode\": \"pass\", \"turns\": 1}");
    assert!(mended.status.success());
    assert!(slot().get("open").is_none(), "{}", slot());
    let revisions = slot()["revisions"].clone();
    let mut revisions = revisions.as_array().unwrap().iter();
    let stays = revisions.any(|one| one["tripped"] == open["reason"]);
    assert!(stays, "what it did is still told");
    assert!(running.terminate(PATIENCE).success());
}

#[test]
fn a_pipeline_stops_where_its_operator_fails_too_often_and_nothing_that_waits_is_lost() {
    let breaker = "breaker = { failed-records = 3, within = \"1h\", then = \"stop\" }";
    // Where there is nothing to fall back to, it stops as well.
    for breaker in [
        breaker,
        &breaker.replace("then = \"stop\"", "then = \"fall-back\""),
    ] {
        let workspace = Workspace::new(&pipeline("trap", breaker));
        append(&workspace, &lines(0..100, true));
        let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let why = "the operator of stage guest (misbehave 1.0.0) is run no more: 4 records failed within 3600s, limit 3";
        assert!(error.contains(why), "{error}");
        assert_eq!(written(&workspace, "state/dead-letters.jsonl"), 4);
        assert!(written(&workspace, "out.jsonl") < 80);
        // With an operator that can take them the others go on.
        workspace.pipeline(&pipeline("pass", breaker));
        workspace.run_pipeline();
        assert_eq!(written(&workspace, "out.jsonl"), 96);
    }
}

#[test]
fn a_run_whose_operator_failed_on_every_record_or_on_more_than_it_may_does_not_end_well() {
    let run = |more: &str, text: &str| {
        let workspace = Workspace::new(&pipeline("trap", more));
        append(&workspace, text);
        let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    };
    let bad = "{\"text\":\"bad\"}\n".repeat(3);
    let (code, error) = run("", &bad);
    assert_eq!(code, Some(1), "{error}");
    let why = "the operator of stage guest failed on every record it was given (3)";
    assert!(error.contains(why), "{error}");
    // Ten of fifty.
    let some = lines(0..50, true);
    assert_eq!(run("", &some).0, Some(0));
    assert_eq!(run("max-failed-records = 10", &some).0, Some(0));
    let (code, error) = run("max-failed-records = 9", &some);
    assert_eq!(code, Some(1), "{error}");
    let why =
        "the operator of stage guest failed on 10 of 50 records, limit 9 (max-failed-records)";
    assert!(error.contains(why), "{error}");
    // No record is no failure.
    assert_eq!(run("max-failed-records = 0", "").0, Some(0));
}
