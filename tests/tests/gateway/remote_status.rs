//! What is said of a server that does not answer: to who looks at the program, and to who waited for it.

use serde_json::{Value, json};

use crate::client::Served;
use crate::server::Server;

#[test]
fn a_server_that_is_left_alone_is_shown_and_who_waited_for_it_is_told_so() {
    let server = Server::start(|asked| asked.answer(500, "", "{}"));
    let served = Served::said(
        tidegate_tests::Workspace::new(&format!(
            r#"
[pipeline]
name = "far"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
[model.big]
type = "openai"
url = "{}/v1"
key-variable = "TIDEGATE_TEST_SECRET"
attempts = 1
breaker = {{ within = "1h", least = 2, share = 0.5, open = "1h" }}
[model.unasked]
type = "openai"
url = "{}/v1"
[[stage]]
name = "answer"
model = "big"
messages = true
[sink.reply]
type = "gateway"
"#,
            server.url, server.url
        )),
        &["run", "pipeline.toml"],
        &[("TIDEGATE_TEST_SECRET", "sk-far")],
    );
    let status = |arguments: &[&str]| {
        let output = served.workspace.run(arguments);
        String::from_utf8(output.stdout).unwrap()
    };
    let report = || -> Value {
        let report = status(&["status", "--json", "--state", "state"]);
        assert!(!report.contains("sk-far"), "{report}");
        serde_json::from_str(&report).unwrap()
    };
    let well = &report()["remote"];
    assert_eq!(well.as_array().unwrap().len(), 1, "{well}");
    assert_eq!(well[0]["name"], "big");
    assert_eq!(well[0]["server"], format!("{}/v1", server.url));
    assert_eq!(
        (&well[0]["breaker"], &well[0]["in_flight"]),
        (&json!("closed"), &json!(0))
    );

    let chat = json!({"model": "big", "messages": [{"role": "user", "content": "hello"}]});
    let path = "/v1/chat/completions";
    let got = served.post(path, &chat);
    assert_eq!((got.status, server.requests()), (502, 2), "{got:?}");
    let failed = &report()["remote"][0];
    assert_eq!(failed["breaker"], "open", "{failed}");
    assert!(
        failed["open_seconds"].is_u64() && failed["failed"] == 2,
        "{failed}"
    );
    let shown = status(&["status", "--state", "state"]);
    assert!(
        shown.contains("breaker open, the server does not answer"),
        "{shown}"
    );

    let headers = [
        ("content-type", "application/json"),
        // Long enough that it comes as far as its model.
        ("x-tidegate-deadline-ms", "3000"),
    ];
    let got = served.send("POST", path, &headers, &chat.to_string());
    assert_eq!(got.status, 504, "{got:?}");
    let message = &got.json()["error"]["message"];
    assert!(
        message
            .as_str()
            .unwrap()
            .contains("server is not answering"),
        "{got:?}"
    );
    assert_eq!(server.requests(), 2, "it is left alone");
}
