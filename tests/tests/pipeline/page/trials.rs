//! Trials that end before their end, and what is shown of them in part.

use std::net::TcpStream;

use super::playground::{ask, post};
use super::*;

/// Sources that are never written to, each with an operator that does something of its own.
const PIPELINE: &str = r#"
[pipeline]
name = "trials"
state = "state"
[source.later]
type = "file"
paths = ["later.txt"]
format = "raw"
[source.off]
type = "file"
paths = ["off.txt"]
format = "raw"
[source.busy]
type = "file"
paths = ["busy.txt"]
format = "raw"
[source.rows]
type = "file"
paths = ["in.csv"]
format = "csv"
[[stage]]
name = "away"
inputs = ["later"]
operator = "{operators}/plain.wasm"
config = { mode = "transient" }
[[stage]]
name = "put-off"
inputs = ["off"]
operator = "{operators}/hostile.wasm"
config = { mode = "put-off" }
[[stage]]
name = "works"
inputs = ["busy"]
operator = "{operators}/hostile.wasm"
config = { mode = "loop" }
limits = { deadline = "10m" }
[[stage]]
name = "says"
inputs = ["rows"]
operator = "{operators}/hostile.wasm"
config = { mode = "flood" }
grants = ["log"]
[sink.out]
type = "file"
inputs = ["away", "put-off", "works", "says"]
path = "out.txt"
"#;

fn start() -> Paged {
    let workspace = Workspace::new(PIPELINE);
    for source in ["later", "off", "busy"] {
        workspace.write(&format!("{source}.txt"), "");
    }
    workspace.write("in.csv", "id,text\n");
    let running = workspace.start(&FOLLOW);
    Paged {
        workspace,
        running,
        port: 0,
    }
}

/// Tries a record, and what came of it.
fn tried(link: &str, record: &Value) -> Value {
    let (status, body) = post(link, "record", record);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// How often trials of records ended so.
fn ended(link: &str, outcome: &str) -> u64 {
    let series =
        format!("tidegate_playground_tries_total{{kind=\"record\",outcome=\"{outcome}\"}} ");
    let (_, metrics) = ask(link, "GET /metrics", "");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
    line.expect("it is counted").parse().unwrap()
}

/// What the host has logged of the stream must not speak of trials.
fn assert_log_is_calm(paged: &Paged) {
    let log = paged.workspace.read("stderr.log");
    let log = String::from_utf8_lossy(&log);
    for words in ["ERROR", "WARN", "worker failed", "answers again"] {
        assert!(!log.contains(words), "{words}: {log}");
    }
}

#[test]
fn a_trial_that_ends_by_its_time_says_which_stage_waited_and_for_what() {
    let mut paged = start();
    let link = paged.link();
    until("it runs", PATIENCE, || paged.status()["state"] == "running");
    for (source, stage, waits) in [
        (
            "later",
            "away",
            "plain.wasm cannot work: operator error plain (transient): this batch is not for me",
        ),
        (
            "off",
            "put-off",
            "its operator had put the record off: not before noon",
        ),
        ("busy", "works", "its operator was at work still"),
    ] {
        let record = json!({"source": source, "value": "bad", "seconds": 2});
        let tried = tried(&link, &record);
        assert_eq!(tried["ended"], "it took longer than 2 s", "{tried}");
        assert_eq!(tried["stages"][0]["name"], stage, "{tried}");
        let waited = tried["stages"][0]["waits"].as_str();
        assert!(waited.is_some_and(|why| why.contains(waits)), "{tried}");
    }
    // Nothing has failed, and the stream's log says nothing of it.
    assert_eq!((ended(&link, "left"), ended(&link, "failed")), (3, 0));
    assert_log_is_calm(&paged);

    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&link);
    browser.sees("running");
    browser.press(&["6"]);
    browser.sees("Beside the stream");
    browser.click(".tabs a", "Try a record");
    browser.sees("As of source");
    browser.click("textarea#search", "");
    browser.write("bad");
    browser.click("input[type=number]", "");
    browser.run("document.activeElement.select()");
    browser.write("1");
    browser.click("button.strong", "Try");
    browser.sees("It took longer than 1 s");
    browser.sees("When the time was over, it could not answer");
    browser.sees("this batch is not for me");
    browser.look("playground-waits");
    browser.is_well();
}

#[test]
fn what_is_left_out_or_shown_in_part_says_so() {
    let mut paged = start();
    let link = paged.link();
    until("it runs", PATIENCE, || paged.status()["state"] == "running");
    let long = "x".repeat(100_000);
    let value = format!("id,text\n1,\"a\n{long}\"\n2,b\n3,c\n");
    let tried = tried(&link, &json!({"source": "rows", "value": value}));
    assert_eq!(tried["rows_left_out"], 2);
    let said = &tried["stages"][0];
    assert_eq!(said["log"].as_array().unwrap().len(), 200);
    // The flood of 10,000 lines, and a long one.
    assert_eq!(said["log_left_out"], 9801);
    let read = &tried["read"][0];
    assert_eq!(read["truncated"], json!([["value", read["length"]]]));
    assert!(read["length"].as_u64().unwrap() > 100_000);
    assert_eq!(read["value"].as_str().unwrap().len(), 64 << 10);

    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&link);
    browser.sees("running");
    browser.press(&["6"]);
    browser.sees("Beside the stream");
    browser.click(".tabs a", "Try a record");
    browser.sees("As of source");
    browser.run(
        "(() => { const source = document.querySelector('form.card select'); source.value = 'rows';\
         source.dispatchEvent(new Event('change', { bubbles: true }));\
         source.dispatchEvent(new Event('input', { bubbles: true })) })()",
    );
    let typed = json!(value);
    browser.run(&format!(
        "(() => {{ const value = document.querySelector('textarea#search'); value.value = {typed};\
         value.dispatchEvent(new Event('input', {{ bubbles: true }})) }})()"
    ));
    browser.click("button.strong", "Try");
    browser.sees("The first row was tried. 2 after it were not");
    browser.sees("The beginning of value, of");
    browser.click("summary", "What it said");
    browser.sees("9,801 more lines are left out");
    browser.look("playground-in-part");
    browser.is_well();
}

#[test]
fn a_trial_that_somebody_leaves_is_no_failure_of_a_worker_nor_of_a_model() {
    let model = root().join("examples/support-bot/model");
    let more = format!(
        "[model.support]\npath = {:?}\nsequences = 2\n[[stage]]\nname = \"answer\"\ninputs = [\"guest\"]\n\
         model = \"support\"\nprompt = \"{{text}}\"\nmax-tokens = 400\n[sink.answers]\ntype = \"file\"\n\
         inputs = [\"answer\"]\npath = \"answers.jsonl\"",
        model.display().to_string()
    );
    let mut paged = Paged::start("pass", "", &more);
    let link = paged.link();
    until("it runs", PATIENCE, || paged.status()["state"] == "running");
    let (address, token) = link.split_once("/#token=").unwrap();
    let address = address.trim_start_matches("http://");
    let record =
        json!({"source": "in", "value": r#"{"k":"a","text":"Where is it?"}"#, "ask": true});
    let body = record.to_string();
    let request = format!(
        "POST /v1/playground/record HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let seen = |name: &str| {
        let (_, status) = ask(&link, "GET /v1/status", "");
        let status: Value = serde_json::from_str(&status).unwrap();
        status["models"][0][name].as_u64().unwrap()
    };
    // A model may be done before it is seen that nobody waits: then somebody else leaves.
    until("the model has let go of three", PATIENCE, || {
        let before = ended(&link, "left") + ended(&link, "answered");
        let mut leaver = TcpStream::connect(address).unwrap();
        leaver.write_all(request.as_bytes()).unwrap();
        until("the model has it, or had it", PATIENCE, || {
            let answered = ended(&link, "answered") + ended(&link, "left") > before;
            answered || seen("running") + seen("waiting") > 0
        });
        drop(leaver);
        until("its place is free", PATIENCE, || {
            ended(&link, "left") + ended(&link, "answered") > before
        });
        until("the model is done with it", PATIENCE, || {
            seen("running") + seen("waiting") == 0
        });
        seen("left") >= 3
    });
    assert_eq!((ended(&link, "failed"), seen("failed")), (0, 0));
    assert_log_is_calm(&paged);
}
