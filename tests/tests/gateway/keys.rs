//! Who may ask a whole program.

use serde_json::json;

use crate::client::Served;

/// SHA-256 of `secret`.
const DIGEST: &str = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

#[test]
fn who_has_no_key_is_let_in_nowhere_and_a_key_opens_what_it_is_for() {
    let served = Served::start(&format!(
        r#"
[pipeline]
name = "front"
[gateway]
address = "127.0.0.1:0"
[gateway.key.reader]
digest = "{DIGEST}"
endpoints = ["outputs"]
requests-per-minute = 1000
[source.events]
type = "ingest"
[sink.feed]
type = "output"
"#
    ));
    let record = json!({"n": 1});
    assert_eq!(served.post("/v1/ingest/events", &record).status, 401);
    let key = ("authorization", "Bearer secret");
    let json = ("content-type", "application/json");
    for path in [
        "/v1/ingest/events",
        "/v1/chat/completions",
        "/v1/embeddings",
    ] {
        let got = served.send("POST", path, &[key, json], "{}");
        assert_eq!(got.status, 403, "{got:?}");
        assert_eq!(got.json()["error"]["code"], "endpoint_not_allowed");
        assert!(
            got.head.contains("x-ratelimit-remaining-requests: "),
            "{got:?}"
        );
    }
    // Whoever has a key may see which models there are.
    assert_eq!(served.send("GET", "/v1/models", &[key], "").status, 200);
    let got = served.send(
        "GET",
        "/v1/models",
        &[("authorization", "Bearer wrong")],
        "",
    );
    assert_eq!(got.status, 401, "{got:?}");
    assert!(got.json()["error"]["message"].is_string());
    let got = served.send("GET", "/health", &[], "");
    assert_eq!(got.status, 200, "{got:?}");
}

#[test]
fn a_key_whose_variable_is_not_set_keeps_the_program_from_starting() {
    let workspace = tidegate_tests::Workspace::new(
        "[pipeline]\nname = \"front\"\n[gateway]\naddress = \"127.0.0.1:0\"\n\
         [gateway.key.app]\nvariable = \"TIDEGATE_TEST_NO_SUCH_KEY\"\n\
         [source.events]\ntype = \"ingest\"\n[sink.feed]\ntype = \"output\"\n",
    );
    let output = workspace.run(&["run", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("TIDEGATE_TEST_NO_SUCH_KEY"), "{said}");
}
