//! The page behind the gateway's keys: who may see it, and that nothing can be changed there.

use std::io::Read as _;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::until;

use crate::client::{Got, PATIENCE, Served, digest, read_until};

/// A pipeline that is asked over HTTP by no model: what counts is the door.
const PIPELINE: &str = r#"
[pipeline]
name = "night-watch"
state = "state"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
origins = ["https://other.example"]
wrong-keys-per-minute = 0
[gateway.key.looker]
digest = "{looker}"
endpoints = ["page"]
[gateway.key.client]
digest = "{client}"
[gateway.key.narrow]
digest = "{narrow}"
endpoints = ["ingest", "outputs"]
[source.events]
type = "ingest"
[[stage]]
name = "guest"
operator = "{operators}/hostile.wasm"
config = { mode = "last-words" }
retries = 0
[sink.feed]
type = "output"
[dead-letters]
type = "file"
path = "letters.jsonl"
"#;

fn get(served: &Served, key: &str, path: &str) -> Got {
    ask(served, "GET", key, path, &[])
}

fn ask(served: &Served, method: &str, key: &str, path: &str, more: &[(&str, &str)]) -> Got {
    let key = format!("Bearer {key}");
    let mut headers = more.to_vec();
    if key != "Bearer " {
        headers.push(("authorization", &key));
    }
    served.send(method, path, &headers, "")
}

fn started() -> Served {
    let keys = [
        ("{looker}", "looks"),
        ("{client}", "asks"),
        ("{narrow}", "gives"),
    ];
    let named = keys
        .into_iter()
        .fold(PIPELINE.to_owned(), |pipeline, (name, key)| {
            pipeline.replace(name, &digest(key))
        });
    Served::start(&named)
}

#[test]
fn whoever_has_a_key_that_names_the_page_sees_the_pipeline_and_nobody_else_does() {
    let served = started();
    let post = |key: &str| {
        let key = format!("Bearer {key}");
        let headers = [
            ("authorization", &*key),
            ("content-type", "application/json"),
        ];
        served.send("POST", "/v1/ingest/events", &headers, "{\"last\":\"bad\"}")
    };
    assert_eq!(post("gives").status, 200);
    // The files of the page hold nothing of the pipeline, so that a person can sign in.
    for path in [
        "/tidegate/",
        "/tidegate/page/main.js",
        "/tidegate/page/style.css",
    ] {
        let got = get(&served, "", path);
        assert_eq!(got.status, 200, "{path}: {got:?}");
        assert!(
            got.head
                .contains("content-security-policy: default-src 'none'"),
            "{got:?}"
        );
        assert!(!got.body.contains("night-watch"), "{path}");
    }
    let moved = get(&served, "", "/tidegate");
    assert_eq!(moved.status, 308);
    assert!(moved.head.contains("location: /tidegate/\r\n"), "{moved:?}");

    let asked = [
        "/tidegate/v1/status",
        "/tidegate/v1/live",
        "/tidegate/v1/dead-letters",
        "/tidegate/v1/slots/guest/logs",
    ];
    for path in asked {
        for (key, status) in [("", 401), ("guessed", 401), ("asks", 403), ("gives", 403)] {
            assert_eq!(get(&served, key, path).status, status, "{key} {path}");
        }
    }
    let status = get(&served, "looks", "/tidegate/v1/status").json();
    assert_eq!(
        (&status["pipeline"], &status["read_only"]),
        (&"night-watch".into(), &true.into())
    );
    let mut letters = Value::Null;
    until("the letter", PATIENCE, || {
        letters = get(&served, "looks", "/tidegate/v1/dead-letters").json();
        letters["letters"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    let id = letters["letters"][0]["id"].as_str().unwrap();
    let one = get(&served, "looks", &format!("/tidegate/v1/dead-letters/{id}"));
    assert_eq!(
        (one.status, &one.json()["stage"]),
        (200, &"guest".into()),
        "{one:?}"
    );
    let logs = get(&served, "looks", "/tidegate/v1/slots/guest/logs?after=0");
    assert_eq!(logs.status, 200, "{logs:?}");
    // What its key is not for is closed to it.
    assert_eq!(post("looks").status, 403);
    // The admin API itself is as it was: it can change things, and is asked by nobody's key.
    let admin = served
        .workspace
        .run(&["status", "--json", "--state", "state"]);
    let admin: Value = serde_json::from_slice(&admin.stdout).unwrap();
    assert!(
        admin.get("read_only").is_none_or(|is| is == false),
        "{admin}"
    );
}

#[test]
fn nothing_can_be_changed_and_no_other_path_of_the_admin_api_is_there_by_any_name() {
    let served = started();
    for (method, path) in [
        ("POST", "/v1/dead-letters/send"),
        ("POST", "/v1/playground/model"),
        ("POST", "/v1/playground/record"),
        ("POST", "/v1/slots/guest"),
        ("POST", "/v1/models/support"),
        ("DELETE", "/v1/models/support"),
        ("GET", "/v1/models"),
        ("GET", "/metrics"),
        ("GET", "/v1/health"),
        ("GET", "/healthz/live"),
        ("POST", "/v1/status"),
        ("PUT", "/v1/live"),
        ("DELETE", "/v1/dead-letters/x"),
        ("POST", "/v1/slots/guest/logs"),
        ("GET", "//v1/status"),
        ("GET", "/v1//status"),
        ("GET", "/V1/status"),
        ("GET", "/page/../v1/playground/record"),
        ("GET", "/page/%2e%2e/v1/status"),
        ("POST", "/page/..%2fv1%2fslots%2fguest"),
        ("GET", "/page/%00"),
        ("GET", "/v1/status/"),
        ("GET", "/v1%2fstatus"),
        ("GET", "/page/LICENSES.txt"),
    ] {
        let got = ask(&served, method, "looks", &format!("/tidegate{path}"), &[]);
        assert!(
            matches!(got.status, 400 | 404 | 405),
            "{method} {path}: {got:?}"
        );
        // Without a key there is no more to be had.
        let got = ask(&served, method, "", &format!("/tidegate{path}"), &[]);
        assert!(
            matches!(got.status, 400 | 401 | 404 | 405),
            "{method} {path}: {got:?}"
        );
    }
    for path in [
        "/tidegatex/v1/status",
        "/tidegate%2f",
        "/v1/status",
        "/page/main.js",
    ] {
        let got = get(&served, "looks", path);
        assert!(matches!(got.status, 400 | 404), "{path}: {got:?}");
    }
}

#[test]
fn pages_of_other_origins_that_may_ask_models_may_not_ask_for_the_page() {
    let served = started();
    let origin = ("origin", "https://other.example");
    let models = ask(&served, "GET", "asks", "/v1/models", &[origin]);
    assert!(
        models.head.contains("access-control-allow-origin"),
        "{models:?}"
    );
    let status = ask(&served, "GET", "looks", "/tidegate/v1/status", &[origin]);
    assert!(!status.head.contains("access-control-"), "{status:?}");
    let before = [origin, ("access-control-request-method", "GET")];
    let before = ask(&served, "OPTIONS", "", "/tidegate/v1/status", &before);
    assert!(!before.head.contains("access-control-"), "{before:?}");
    assert_ne!(before.status, 204);
}

#[test]
fn those_who_look_are_let_go_of_when_the_host_ends() {
    let mut served = started();
    let key = [("authorization", "Bearer looks")];
    let mut looking: Vec<_> = (0..3)
        .map(|_| served.open("GET", "/tidegate/v1/live", &key, ""))
        .collect();
    for stream in &mut looking {
        read_until(stream, &mut Vec::new(), "event: state");
    }
    assert!(served.running.terminate(Duration::from_secs(60)).success());
    for mut stream in looking {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        // The last chunk of a body that is whole.
        assert!(
            rest.ends_with(b"0\r\n\r\n"),
            "{}",
            String::from_utf8_lossy(&rest)
        );
    }
}
