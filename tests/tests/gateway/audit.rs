//! Who asked over HTTP and what they were answered: by the name of the key, never by the key, and sealed.

use serde_json::{Value, json};
use tidegate_tests::until;

use crate::client::{PATIENCE, Served, digest, model, read_until};

const KEY: &str = "the-secret-of-a-client-of-the-front";
const PRIVATE: &str = "ada@example.com";
const CHAT: &str = "/v1/chat/completions";

fn pipeline(gateway: &str, tokens: u32) -> String {
    format!(
        r#"
[pipeline]
name = "audited"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
{gateway}
[gateway.key.desk]
digest = "{}"
[source.chat]
type = "gateway"
headers = ["traceparent"]
{}
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["messages"] }}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = {tokens}
tokens = ["restore"]
[[stage]]
name = "restore"
operator = "{{operators}}/restore-pii.wasm"
[sink.reply]
type = "gateway"
[audit]
path = "audit.jsonl"
"#,
        digest(KEY),
        model()
    )
}

/// The lines that are no marks.
fn lines(served: &Served) -> Vec<Value> {
    let file = String::from_utf8(served.workspace.read("audit.jsonl")).unwrap();
    let whole = file.rfind('\n').map_or("", |end| &file[..end]);
    let lines = whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line.get("mark").is_none())
        .collect()
}

/// So many of them, once they are there.
fn wait_for(served: &Served, number: usize) -> Vec<Value> {
    let mut found = Vec::new();
    until("lines of the audit", PATIENCE, || {
        found = lines(served);
        found.len() >= number
    });
    assert_eq!(found.len(), number, "{found:?}");
    found
}

/// Once a cut has all lines that are there: before it, a kill takes away lines of which no answer waits.
fn wait_for_cut(served: &Served) {
    until("a cut that has all lines", PATIENCE, || {
        let output = served
            .workspace
            .run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let head = report["audit"]["head"].as_str().unwrap_or_default();
        let file = String::from_utf8(served.workspace.read("audit.jsonl")).unwrap();
        let last = file
            .strip_suffix("}\n")
            .and_then(|lines| lines.strip_suffix(&format!("\"{head}\"")));
        !head.is_empty() && last.is_some()
    });
}

fn authorization() -> String {
    format!("Bearer {KEY}")
}

#[test]
fn a_request_is_in_the_audit_with_the_name_of_its_key_and_nothing_private_in_clear() {
    let served = Served::start(&pipeline("", 12));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &*authorization()),
        ("traceparent", &*format!("00-{trace}-b7ad6b7169203331-01")),
    ];
    let body = json!({"model": "support", "messages": [{"role": "user", "content": format!("I am {PRIVATE}")}]});
    let got = served.send("POST", CHAT, &headers, &body.to_string());
    assert_eq!(got.status, 200);
    let answer = got.json();
    let text = &answer["choices"][0]["message"]["content"];
    let line = wait_for(&served, 1).swap_remove(0);
    let file = String::from_utf8(served.workspace.read("audit.jsonl")).unwrap();
    assert!(!file.contains(KEY) && !file.contains(PRIVATE), "{file}");
    assert_eq!(line["caller"], "desk");
    assert_eq!(line["trace"], trace);
    assert_eq!(line["outcome"], "answered");
    assert_eq!(line["handlers"][0]["slot"], "restore");
    let shown = [
        "audit",
        "show",
        "--decrypt",
        "--state",
        "state",
        "audit.jsonl",
    ];
    let shown = served.workspace.run(&shown);
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let shown = String::from_utf8(shown.stdout).unwrap();
    let mut shown = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let shown: Value = shown
        .find(|line: &Value| line.get("content").is_some())
        .unwrap();
    assert_eq!(&shown["content"]["choices"][0]["text"], text);
    assert!(
        shown["content"]["asked"]
            .as_str()
            .unwrap()
            .contains("[EMAIL_1]")
    );
}

#[test]
fn a_client_that_leaves_is_named_and_so_is_one_whose_answer_is_made_after_a_kill() {
    let mut served = Served::start(&pipeline("", 400));
    let authorization = authorization();
    let ask = |served: &Served, key: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("authorization", &*authorization),
            ("idempotency-key", key),
        ];
        let headers = match key {
            "" => &headers[..2],
            _ => &headers[..],
        };
        let body = json!({
            "model": "support", "stream": true, "temperature": 1.3, "logit_bias": {"2": -100},
            "messages": [{"role": "user", "content": "My order came incomplete."}],
        });
        let mut stream = served.open("POST", CHAT, headers, &body.to_string());
        let mut seen = Vec::new();
        read_until(&mut stream, &mut seen, "\"content\"");
        stream
    };
    // Where a busy machine lets the answer come to its end before it is seen that nobody waits, somebody else leaves.
    let mut asked = 0;
    until("one has left", PATIENCE, || {
        drop(ask(&served, ""));
        asked += 1;
        let line = wait_for(&served, asked).swap_remove(asked - 1);
        assert_eq!(line["caller"], "desk", "{line}");
        line["outcome"] == "left"
    });
    wait_for_cut(&served);
    // Long enough that a cut has it before it is there.
    let stream = ask(&served, "\"one\"");
    let log = || served.workspace.read("state/commit.log").len();
    let before = log();
    until("a cut", PATIENCE, || log() != before);
    served.running.kill();
    drop(stream);
    let served = Served::again(served.workspace);
    // Nobody asks again, or somebody does: whoever did is known.
    let ended = wait_for(&served, asked + 1);
    assert_eq!(ended[asked]["caller"], "desk", "{}", ended[asked]);
}

#[test]
fn an_answer_that_is_given_again_has_a_line_with_who_got_it_and_of_which_record_also_after_a_restart()
 {
    let mut served = Served::start(&pipeline("cache = { ttl = \"1h\" }", 8));
    let authorization = authorization();
    let body = json!({"model": "support", "temperature": 0, "messages": [{"role": "user", "content": "Hello"}]});
    let ask = |served: &Served, key: Option<&str>| {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("authorization", &*authorization),
        ];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let got = served.send("POST", CHAT, &headers, &body.to_string());
        assert_eq!(got.status, 200, "{got:?}");
    };
    let key = Some("\"one\"");
    ask(&served, None);
    ask(&served, None);
    ask(&served, key);
    ask(&served, key);
    let found = wait_for(&served, 4);
    let outcomes: Vec<&Value> = found.iter().map(|line| &line["outcome"]).collect();
    let repeated = |of: &Value, line: &Value, by: &str| {
        assert_eq!(
            (&line["outcome"], &line["by"]),
            (&"repeated".into(), &by.into()),
            "{line}"
        );
        assert_eq!(
            (&line["of"], &line["record"]),
            (&json!([of["record"]]), &of["record"])
        );
        assert_eq!(line["caller"], "desk");
        assert!(line["content"].is_null());
    };
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| ***outcome == "answered")
            .count(),
        2,
        "{found:?}"
    );
    let by = |by: &str| found.iter().find(|line| line["by"] == by).unwrap();
    let answered: Vec<&Value> = found
        .iter()
        .filter(|line| line["outcome"] == "answered")
        .collect();
    repeated(answered[0], by("cache"), "cache");
    repeated(answered[1], by("idempotency-key"), "idempotency-key");
    wait_for_cut(&served);
    served.running.kill();
    let served = Served::again(served.workspace);
    ask(&served, key);
    let later = wait_for(&served, 5);
    repeated(answered[1], &later[4], "idempotency-key");
    let verified = served
        .workspace
        .run(&["audit", "verify", "--state", "state", "audit.jsonl"]);
    assert!(
        verified.status.success(),
        "{}",
        String::from_utf8_lossy(&verified.stderr)
    );
}
