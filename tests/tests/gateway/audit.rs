//! Who asked over HTTP and what they were answered: by the name of the key, never by the key, and sealed.

use serde_json::{Value, json};
use tidegate_tests::until;

use crate::client::{PATIENCE, Served, model};

const KEY: &str = "the-secret-of-a-client-of-the-front";
const PRIVATE: &str = "ada@example.com";

fn digest(key: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    let digits: Vec<String> = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{}", digits.concat())
}

#[test]
fn a_request_is_in_the_audit_with_the_name_of_its_key_and_nothing_private_in_clear() {
    let served = Served::start(&format!(
        r#"
[pipeline]
name = "audited"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
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
max-tokens = 12
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
    ));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &*format!("Bearer {KEY}")),
        ("traceparent", &*format!("00-{trace}-b7ad6b7169203331-01")),
    ];
    let body = json!({"model": "support", "messages": [{"role": "user", "content": format!("I am {PRIVATE}")}]});
    let got = served.send("POST", "/v1/chat/completions", &headers, &body.to_string());
    assert_eq!(got.status, 200);
    let answer = got.json();
    let text = &answer["choices"][0]["message"]["content"];
    until("the line of the answer", PATIENCE, || {
        !served.workspace.read("audit.jsonl").is_empty()
    });
    let file = String::from_utf8(served.workspace.read("audit.jsonl")).unwrap();
    assert!(!file.contains(KEY) && !file.contains(PRIVATE), "{file}");
    let line: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
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
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(&shown["content"]["choices"][0]["text"], text);
    assert!(
        shown["content"]["asked"]
            .as_str()
            .unwrap()
            .contains("[EMAIL_1]")
    );
}
