//! The playground: what is asked and tried there, and that nothing stays of it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;

use super::*;

fn model(more: &str) -> String {
    let model = root().join("examples/support-bot/model");
    format!(
        "[model.support]\npath = {:?}\nsequences = 2\n[[stage]]\nname = \"answer\"\ninputs = [\"guest\"]\n\
         model = \"support\"\nprompt = \"{{text}}\"\nmax-tokens = 4\n[sink.answers]\ntype = \"file\"\n\
         inputs = [\"answer\"]\npath = \"answers.jsonl\"\n{more}",
        model.display().to_string()
    )
}

/// Every file below a directory, byte for byte.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.display().to_string(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

/// What of a status is of the stream.
fn of_stream(status: &Value) -> Value {
    let names = [
        "records",
        "tokens",
        "slots",
        "stages",
        "graph",
        "deployments",
    ];
    let mut of = serde_json::Map::new();
    for name in names {
        let mut part = status[name].clone();
        // What was of late is less by itself.
        for stage in part.as_array_mut().into_iter().flatten() {
            if let Some(stage) = stage.as_object_mut() {
                stage.remove("time_ms");
            }
        }
        of.insert(name.to_owned(), part);
    }
    of.into()
}

/// Asks the admin API: the status and the body.
pub(super) fn ask(link: &str, request: &str, body: &str) -> (u16, String) {
    let (address, token) = link.split_once("/#token=").unwrap();
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

pub(super) fn post(link: &str, path: &str, body: &Value) -> (u16, String) {
    let request = format!("POST /v1/playground/{path}");
    ask(link, &request, &body.to_string())
}

#[test]
fn a_model_is_asked_and_a_record_is_tried_on_the_page_and_nothing_of_it_stays() {
    let mut paged = Paged::start("last-words", "grants = [\"log\"]", &model(""));
    paged.append("{\"k\":\"one\",\"text\":\"a good one\"}\n{\"k\":\"two\",\"text\":\"bad\"}\n");
    let link = paged.link();
    until(
        "the stream is done and its last cut holds",
        PATIENCE,
        || {
            let (_, metrics) = ask(&link, "GET /metrics", "");
            let wanted = [("in", 2), ("out", 2), ("dead", 1)];
            let holds = wanted.iter().all(|(fate, number)| {
                let series = format!("tidegate_account_records_total{{fate=\"{fate}\"}}");
                metrics.contains(&format!("{series} {number}\n"))
            });
            holds && paged.status()["records"]["in_flight"] == 0
        },
    );
    let (before, stream) = (
        files(&paged.workspace.path(".")),
        of_stream(&paged.status()),
    );
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&link);
    browser.sees("running");

    // By keys alone: a question, and its answer with its times.
    browser.press(&["6"]);
    browser.sees("Beside the stream");
    browser.press(&["/"]);
    until("the prompt has the keys", PATIENCE, || {
        browser.run("document.activeElement.tagName") == "TEXTAREA"
    });
    browser.write(&format!("Where is my order? {HOSTILE}"));
    browser.press(&["Tab", "Tab", "Tab", "Tab", "Tab", "Tab", "Enter"]);
    browser.sees("Tokens a second");
    browser.sees("To the first token");
    browser.sees("ended");
    assert_ne!(
        browser.run("document.querySelector('pre.answer').textContent"),
        ""
    );
    browser.look("playground-model");

    // By mouse: records through the pipeline.
    browser.click(".tabs a", "Try a record");
    browser.sees("As of source");
    browser.click("textarea#search", "");
    browser.write(&json!({"k": HOSTILE, "text": HOSTILE}).to_string());
    browser.click("label.check input", "");
    browser.click("button.strong", "Try");
    browser.sees("2 to sinks, 0 dead");
    browser.sees("misbehave 1.0.0");
    browser.sees("<script>window.pwned=1</script>");
    browser.sees("\\u{202e}desrever");
    browser.click("summary", "What it said");
    browser.sees("call 1");
    for (width, colours) in [
        (1280, "light"),
        (1280, "dark"),
        (400, "light"),
        (400, "dark"),
    ] {
        browser.width(width);
        browser.colours(colours);
        browser.look(&format!("playground-record-{width}-{colours}"));
    }
    // What is found again after another view, and a record that dies.
    browser.press(&["1"]);
    browser.sees("hostile.wasm");
    browser.click("nav a", "Playground");
    browser.click(".tabs a", "Try a record");
    browser.sees("As of source");
    until("the value is there still", PATIENCE, || {
        browser.run("document.querySelector('textarea').value.includes('pwned')") == true
    });
    browser.click("textarea#search", "");
    browser.run("document.activeElement.select()");
    browser.write(r#"{"k":"a","text":"bad"}"#);
    browser.click("button.strong", "Try");
    browser.sees("0 to sinks, 1 dead");
    browser.sees("unreachable");
    browser.look("playground-dead");
    browser.is_well();

    // All of that, and nobody could tell by what is on the disk or in the stream's figures.
    let record = json!({"source": "in", "value": "no JSON", "headers": [["a", "b"]]});
    let (status, tried) = post(&link, "record", &record);
    assert_eq!(status, 200);
    let tried: Value = serde_json::from_str(&tried).unwrap();
    assert_eq!(tried["dead"][0]["stage"], "decode");
    let after = files(&paged.workspace.path("."));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    for (name, bytes) in &before {
        assert!(after[name] == *bytes, "{name} is another");
    }
    assert_eq!(of_stream(&paged.status()), stream);
}

#[test]
fn what_takes_too_long_can_be_cancelled_and_who_goes_leaves_nothing_behind() {
    let limits = "limits = { deadline = \"10m\" }\nretries = 0";
    let mut paged = Paged::start("loop", limits, "");
    let link = paged.link();
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&link);
    browser.sees("running");
    browser.press(&["6"]);
    browser.sees("No models");
    browser.click(".tabs a", "Try a record");
    browser.sees("As of source");
    browser.click("textarea#search", "");
    browser.write(r#"{"k":"a","text":"bad"}"#);
    browser.click("button.strong", "Try");
    browser.click("button:not(:disabled)", "Cancel");
    browser.sees("Cancelled");
    // Its place is free when the guest has been ended: long before its deadline.
    let record = json!({"source": "in", "value": r#"{"k":"a","text":"good"}"#});
    until("the next one is tried", PATIENCE, || {
        let (status, said) = post(&link, "record", &record);
        assert!(status == 200 || status == 409, "{said}");
        status == 200
    });
    assert_eq!(paged.status()["records"]["in"], 0);
    let slot = &paged.status()["slots"][0]["revisions"][0];
    assert_eq!(
        (&slot["records"], &slot["lost_instances"]),
        (&json!(0), &json!(0))
    );
}

#[test]
fn what_the_playground_asks_of_models_is_in_the_audit() {
    let mut paged = Paged::start("pass", "", &model("[audit]\npath = \"audit.jsonl\""));
    let link = paged.link();
    until("it runs", PATIENCE, || paged.status()["state"] == "running");
    let question = json!({"model": "support", "prompt": "Where is it?", "max_tokens": 3, "system": "Be short."});
    let (status, told) = post(&link, "model", &question);
    assert_eq!(status, 200, "{told}");
    assert!(
        told.contains("\"tokens\":3") || told.contains("\"finish\":\"end\""),
        "{told}"
    );
    let record = json!({"source": "in", "value": r#"{"k":"a","text":"x"}"#, "ask": true});
    let (status, told) = post(&link, "record", &record);
    let tried: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (status, tried["written"].as_array().unwrap().len()),
        (200, 2),
        "{told}"
    );
    paged.running.terminate(PATIENCE);
    let verified = paged.workspace.run(&["audit", "verify", "audit.jsonl"]);
    assert!(verified.status.success(), "{verified:?}");
    let lines: Vec<Value> = paged.workspace.json_lines("audit.jsonl");
    let lines = lines.into_iter().filter(|line| line.get("mark").is_none());
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines.len(), 2);
    for (line, (name, stage)) in lines
        .iter()
        .zip([("model/", Value::Null), ("record/", json!("answer"))])
    {
        let record = line["record"].as_str().unwrap();
        assert!(
            record.starts_with(&format!("playground/{name}")),
            "{record}"
        );
        assert_eq!(
            (&line["stage"], &line["outcome"]),
            (&stage, &json!("answered"))
        );
        assert_eq!(line["model"]["name"], "support");
    }
    assert!(paged.workspace.read("out.jsonl").is_empty());
}
