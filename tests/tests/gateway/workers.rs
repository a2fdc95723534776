//! Sources over HTTP on several workers: one whose operators take long holds up no other.

use serde_json::{Value, json};
use tidegate_tests::until;

use crate::client::{PATIENCE, Served};
use crate::server::Server;

#[test]
fn an_operator_that_never_ends_holds_up_the_requests_of_no_other_worker() {
    let server = Server::start(|asked| asked.say(&["here"]));
    let served = Served::start(&format!(
        r#"
[pipeline]
name = "shared"
workers = 2
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
[source.events]
type = "ingest"
[model.far]
type = "openai"
url = "{}"
[[stage]]
name = "answer"
inputs = ["chat"]
model = "far"
messages = true
[[stage]]
name = "stuck"
inputs = ["events"]
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "loop" }}
limits.deadline = "1h"
[sink.reply]
type = "gateway"
inputs = ["answer"]
[sink.kept]
type = "file"
path = "kept.jsonl"
inputs = ["stuck"]
"#,
        server.url
    ));
    let got = served.post("/v1/ingest/events", &json!({"text": "bad"}));
    assert!(matches!(got.status, 200..=299), "{got:?}");
    until("the record is read", PATIENCE, || {
        let status = served
            .workspace
            .run(&["status", "--json", "--state", "state"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        status["records"]["in"] == 1
    });
    for number in 0..20 {
        let chat = json!({"model": "far", "messages": [{"role": "user", "content": "hello"}]});
        let got = served.post("/v1/chat/completions", &chat);
        assert_eq!(got.status, 200, "{number}: {got:?}");
    }
    assert!(served.workspace.read("kept.jsonl").is_empty());
}
