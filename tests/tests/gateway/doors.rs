//! The doors of a whole program: TLS whose certificate changes, pages of other origins, what a key is for and how much.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tidegate_tests::{Workspace, until};

use crate::client::{PATIENCE, Served, model};

/// SHA-256 of `secret`, and of `other`.
const SECRET: &str = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
const OTHER: &str = "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

const CHAT: &str = "/v1/chat/completions";

/// A program with a model, with more in its `[gateway]` and its keys.
fn pipeline(gateway: &str) -> String {
    format!(
        r#"
[pipeline]
name = "doors"
[gateway]
address = "127.0.0.1:0"
{gateway}
[source.chat]
type = "gateway"
models = ["support", "polite"]
{}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 400
order = "none"
[sink.reply]
type = "gateway"
"#,
        model()
    )
}

fn chat(model: &str, tokens: u32) -> Value {
    json!({"model": model, "max_tokens": tokens, "messages": [{"role": "user", "content": "My order came incomplete."}]})
}

/// Puts a new certificate and its key in the place of the old ones, and returns the certificate.
fn renew(directory: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for (name, text) in [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ] {
        std::fs::write(directory.join("new"), text).unwrap();
        std::fs::rename(directory.join("new"), directory.join(name)).unwrap();
    }
    made.cert.der().clone()
}

/// A connection to a program whose certificate is this one.
fn connect(
    address: &str,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

fn say(stream: &mut impl Write, path: &str, headers: &str, body: &str) {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
}

/// Reads until this stands in what was read.
fn hear(stream: &mut impl Read, wanted: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend(&buffer[..read]);
    }
    String::from_utf8(seen).unwrap()
}

#[test]
fn a_certificate_is_renewed_under_a_stream_that_goes_on() {
    let workspace = Workspace::new(&pipeline(
        "certificate = \"cert.pem\"\nprivate-key = \"key.pem\"",
    ));
    let first = renew(&workspace.path(""));
    let served = Served::said(workspace, &["run", "pipeline.toml"], &[]);

    // A stream that goes on until it is cut by its length.
    let mut asked = chat("support", 400);
    asked["stream"] = true.into();
    asked["logit_bias"] = json!({"2": -100});
    asked["n"] = json!(4);
    let mut stream = connect(&served.address, &first).unwrap();
    say(&mut stream, CHAT, "", &asked.to_string());
    let begun = hear(&mut stream, "\"content\":");
    assert!(begun.starts_with("HTTP/1.1 200 "), "{begun}");
    // And one that asks again later.
    let mut kept = connect(&served.address, &first).unwrap();
    say(&mut kept, "/v1/models", "", "");
    hear(&mut kept, "\"support\"");

    let second = renew(&served.workspace.path(""));
    until("the new certificate is shown", PATIENCE, || {
        connect(&served.address, &second).is_ok()
    });
    assert!(
        connect(&served.address, &first).is_err(),
        "the old one is still shown"
    );
    say(&mut kept, "/v1/models", "", "");
    hear(&mut kept, "\"support\"");
    let rest = begun + &hear(&mut stream, "data: [DONE]");
    assert_eq!(
        rest.matches("\"finish_reason\":\"length\"").count(),
        4,
        "{rest}"
    );

    // Who speaks without TLS is answered nothing that is HTTP.
    let mut plain = TcpStream::connect(&served.address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    say(&mut plain, "/v1/models", "", "");
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
}

#[test]
fn a_key_opens_its_endpoints_and_models_and_no_others() {
    let served = Served::start(&pipeline(&format!(
        "[gateway.key.chats]\ndigest = \"{SECRET}\"\nendpoints = [\"chat\"]\nmodels = [\"polite\"]\n\
         [gateway.key.completes]\ndigest = \"{OTHER}\"\nendpoints = [\"completions\"]\n"
    )));
    let ask = |key: &str, path: &str, body: &Value| {
        let key = format!("Bearer {key}");
        let headers = [
            ("authorization", &*key),
            ("content-type", "application/json"),
        ];
        served.send("POST", path, &headers, &body.to_string())
    };
    let completion = json!({"model": "support", "prompt": "My order", "max_tokens": 4});
    assert_eq!(ask("secret", CHAT, &chat("polite", 4)).status, 200);
    assert_eq!(ask("other", "/v1/completions", &completion).status, 200);
    // Another model, another endpoint, both: none of it is said to be there.
    for (key, path, body) in [
        ("secret", CHAT, chat("support", 4)),
        ("secret", "/v1/completions", completion.clone()),
        (
            "secret",
            "/v1/responses",
            json!({"model": "polite", "input": "hello"}),
        ),
        ("other", CHAT, chat("support", 4)),
    ] {
        let got = ask(key, path, &body);
        assert!([403, 404].contains(&got.status), "{key} {path}: {got:?}");
    }
    let names = |key: &str| {
        let key = format!("Bearer {key}");
        let got = served.send("GET", "/v1/models", &[("authorization", &key)], "");
        let names = got.json()["data"].as_array().cloned().unwrap_or_default();
        names
            .iter()
            .map(|model| model["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("secret"), ["polite"]);
}

#[test]
fn a_quota_is_told_kept_and_each_keys_own() {
    let served = Served::start(&pipeline(&format!(
        "[gateway.key.little]\ndigest = \"{SECRET}\"\nrequests-per-minute = 2\ntokens-per-minute = 100000\n\
         [gateway.key.much]\ndigest = \"{OTHER}\"\n"
    )));
    let ask = |key: &str, tokens: u32| {
        let key = format!("Bearer {key}");
        let headers = [
            ("authorization", &*key),
            ("content-type", "application/json"),
        ];
        served.send("POST", CHAT, &headers, &chat("support", tokens).to_string())
    };
    let got = ask("secret", 4);
    assert_eq!(got.status, 200, "{got:?}");
    for header in [
        "x-ratelimit-limit-requests: 2\r",
        "x-ratelimit-remaining-requests: 1\r",
        "x-ratelimit-reset-requests: ",
        "x-ratelimit-limit-tokens: 100000\r",
        "x-ratelimit-remaining-tokens: ",
        "x-ratelimit-reset-tokens: ",
    ] {
        assert!(got.head.contains(header), "{header} is not in {got:?}");
    }
    // It fills all the time: on a slow machine more than two are let in, and sooner or later one is not.
    let mut refused = None;
    until("one is refused", PATIENCE, || {
        let got = ask("secret", 1);
        if got.status != 200 {
            refused = Some(got);
        }
        refused.is_some()
    });
    let got = refused.unwrap();
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (429, &json!("rate_limit_exceeded")),
        "{got:?}"
    );
    let after = got
        .head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    let after: u64 = after.unwrap().trim().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    assert_eq!(ask("other", 1).status, 200);
}

#[test]
fn pages_of_the_origins_that_are_named_may_ask_and_no_others() {
    let served = Served::start(&pipeline("origins = [\"https://a.example\"]"));
    let asks = |origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "authorization, content-type",
            ),
        ];
        served.send("OPTIONS", CHAT, &headers, "")
    };
    let got = asks("https://a.example");
    assert_eq!(got.status, 204, "{got:?}");
    assert!(
        got.head
            .contains("access-control-allow-origin: https://a.example\r"),
        "{got:?}"
    );
    let headers = [
        ("origin", "https://a.example"),
        ("content-type", "application/json"),
    ];
    let got = served.send("POST", CHAT, &headers, &chat("support", 4).to_string());
    assert_eq!(got.status, 200, "{got:?}");
    assert!(
        got.head
            .contains("access-control-allow-origin: https://a.example\r"),
        "{got:?}"
    );
    for other in ["https://b.example", "null", "https://a.example.evil"] {
        let got = asks(other);
        assert_eq!(got.status, 403, "{other}: {got:?}");
        let headers = [("origin", other), ("content-type", "application/json")];
        let got = served.send("POST", CHAT, &headers, &chat("support", 4).to_string());
        assert_eq!(got.status, 403, "{other}: {got:?}");
        assert!(!got.head.contains("access-control-allow-origin"), "{got:?}");
    }
}

#[test]
fn an_answer_that_would_be_the_same_is_given_again_without_the_model() {
    let served = Served::start(&pipeline("cache = { ttl = \"1h\" }"));
    let answered = || served.of_model("answered_requests_total");
    let text = |asked: &Value| {
        let got = served.post(CHAT, asked);
        assert_eq!(got.status, 200, "{got:?}");
        got.json()["choices"].clone()
    };
    let greedy = chat("support", 12);
    let mut seeded = chat("support", 12);
    seeded["temperature"] = json!(0.9);
    seeded["seed"] = json!(5);
    for asked in [&greedy, &seeded] {
        let (first, before) = (text(asked), answered());
        assert_eq!(text(asked), first);
        assert_eq!(answered(), before, "the model was asked again for {asked}");
    }
    // Another length, another seed, and one that is drawn each time.
    let mut other = seeded.clone();
    other["seed"] = json!(6);
    let mut drawn = seeded.clone();
    drawn.as_object_mut().unwrap().remove("seed");
    for asked in [&chat("support", 13), &other, &drawn, &drawn] {
        let before = answered();
        text(asked);
        assert_eq!(answered(), before + 1, "{asked} was not asked");
    }
    // A stream of the same is the same.
    let mut streamed = greedy.clone();
    streamed["stream"] = true.into();
    let content = text(&greedy)[0]["message"]["content"].clone();
    assert_eq!(json!(served.post(CHAT, &streamed).streamed()), content);
}

#[test]
fn no_answer_is_given_again_once_a_model_or_an_operator_on_its_way_was_replaced() {
    let operator = "[[stage]]\nname = \"redact\"\noperator = \"{operators}/redact-pii.wasm\"\n\
        config = { paths = [\"messages\", \"prompt\"] }\n";
    let file = pipeline("cache = { ttl = \"1h\" }");
    let served = Served::start(&file.replacen("[[stage]]", &format!("{operator}[[stage]]"), 1));
    let is_given_again = || {
        let got = served.post(CHAT, &chat("support", 8));
        assert_eq!(got.status, 200, "{got:?}");
        got.head.contains("x-cache: true")
    };
    assert!(!is_given_again() && is_given_again());
    served
        .workspace
        .write("new.json", r#"{"paths": ["prompt"]}"#);
    let deploy = ["deploy", "--slot", "redact", "--config", "new.json"];
    let load = ["model", "load", "support"];
    for replace in [&deploy[..], &load] {
        let replaced = served
            .workspace
            .run(&[replace, &["--state", "state"]].concat());
        assert!(replaced.status.success(), "{replace:?}: {replaced:?}");
        assert!(!is_given_again(), "after {replace:?}");
        assert!(is_given_again(), "after {replace:?}");
    }
}
