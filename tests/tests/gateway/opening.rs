//! What a pipeline needs of its machine and of other servers is looked at before it runs: by `check`, and by `run` before
//! a model is loaded or a file is touched.

use std::net::TcpListener;
use std::process::Output;

use serde_json::json;
use tidegate_tests::Workspace;

use crate::client::{Served, model};
use crate::server::Server;

/// A pipeline that takes requests, with more in these places.
fn pipeline(gateway: &str, models: &str, stage: &str) -> String {
    format!(
        r#"
[pipeline]
name = "doors"
[gateway]
{gateway}
[source.chat]
type = "gateway"
{models}
[[stage]]
name = "answer"
messages = true
{stage}
[sink.reply]
type = "gateway"
[sink.kept]
type = "file"
path = "kept.jsonl"
"#
    )
}

/// A model that another server has; nobody is there.
fn far(name: &str, keys: &str) -> String {
    format!("[model.{name}]\ntype = \"openai\"\nurl = \"http://127.0.0.1:9/v1\"\n{keys}\n")
}

const ANYWHERE: &str = "address = \"127.0.0.1:0\"";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Both `check` and `run` refuse it with each of these, and no file is touched.
fn refused(workspace: &Workspace, expected: &[&str]) {
    for command in ["check", "run"] {
        let output = workspace.run(&[command, "pipeline.toml"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        for expected in expected {
            assert!(said.contains(expected), "{command}: {expected}: {said}");
        }
        assert!(!workspace.path("kept.jsonl").exists(), "{command}");
    }
}

fn line_of(pipeline: &str, text: &str) -> usize {
    let mut lines = pipeline.lines();
    1 + lines.position(|line| line.contains(text)).unwrap()
}

#[test]
fn an_answer_that_the_model_of_another_server_cannot_make_is_a_mistake_of_its_line() {
    let small = far("small", "max-tokens = 128");
    let large = far("large", "context = 8192");
    let load = "[[source.chat.under-load]]\nwaiting = 5\nmodel = \"small\"\n";
    for (models, stage, why) in [
        (
            small.clone(),
            "model = \"small\"\nmax-tokens = 200",
            "max-tokens = 200 is more than the 128 tokens that max-tokens of model \"small\"",
        ),
        (
            format!("{load}{small}{large}"),
            "model = \"large\"\nmax-tokens = 200",
            "max-tokens = 200 is more than the 128 tokens that max-tokens of model \"small\"",
        ),
        (
            format!("{load}{large}{}", far("small", "")),
            "model = \"large\"\nmax-tokens = 2048",
            "max-tokens = 2048 leaves 0 positions of 2048 for the prompt of model \"small\"",
        ),
        (
            far("small", ""),
            "model = \"small\"\nmax-tokens = 4096",
            "model \"small\" has a context of 2048",
        ),
        (
            far("small", "context = 64"),
            "model = \"small\"\nsystem = \"You are a clerk in a shop that sells furniture, and say so in each of your answers.\"\nmax-tokens = 40",
            "leaves 0 positions of 64",
        ),
    ] {
        let text = pipeline(ANYWHERE, &models, stage);
        let workspace = Workspace::new(&text);
        let place = format!(
            "pipeline.toml:{}:",
            line_of(&text, stage.lines().last().unwrap())
        );
        refused(&workspace, &[why, &place]);
    }
}

#[test]
fn a_stage_that_says_no_length_asks_the_model_of_another_server_for_no_more_than_it_makes() {
    let server = Server::start(|asked| asked.say(&["short"]));
    let models = format!(
        "[model.small]\ntype = \"openai\"\nurl = \"{}\"\nmax-tokens = 128",
        server.url
    );
    let served = Served::start(&pipeline(ANYWHERE, &models, "model = \"small\""));
    for asked in [json!({}), json!({"max_tokens": 100})] {
        let mut body =
            json!({"model": "small", "messages": [{"role": "user", "content": "hello"}]});
        if let Some(most) = asked.get("max_tokens") {
            body["max_tokens"] = most.clone();
        }
        let got = served.post("/v1/chat/completions", &body);
        assert_eq!(got.status, 200, "{got:?}");
    }
    assert_eq!(server.body(0)["max_tokens"], 128);
    assert_eq!(server.body(1)["max_tokens"], 100);
}

#[test]
fn certificates_and_keys_that_are_of_no_use_are_found_with_all_other_mistakes() {
    let gateway = r#"address = "127.0.0.1:0"
certificate = "cert.pem"
private-key = "key.pem"
[gateway.tokens]
algorithm = "RS256"
keys-file = "jwks.json""#;
    let models = [
        far("small", "max-tokens = 16").as_str(),
        "[model.far]\ntype = \"openai\"\nurl = \"https://models.example/v1\"\ncertificates = \"ca.pem\"\n\
         [[stage]]\nname = \"redact\"\noperator = \"{operators}/redact-pii.wasm\"\nconfig = { knids = [\"email\"] }\n\
         [[stage]]\nname = \"draft\"\nmodel = \"far\"\nmessages = true\nfield = \"draft\"\n",
    ]
    .concat();
    let text = pipeline(gateway, &models, "model = \"small\"\nmax-tokens = 17");
    let workspace = Workspace::new(&text);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    workspace.write("cert.pem", made.cert.pem());
    workspace.write("key.pem", "none");
    workspace.write("jwks.json", "{}");
    workspace.write("ca.pem", "none");
    let checked = workspace.run(&["check", "pipeline.toml"]);
    let all = said(&checked);
    assert_eq!(checked.status.code(), Some(2), "{all}");
    for (line, key, why) in [
        ("certificate =", "gateway.certificate", "key.pem"),
        ("[gateway.tokens]", "gateway.tokens", "jwks.json"),
        ("[model.far]", "model.far", "ca.pem"),
        ("name = \"redact\"", "stage.redact", "knids"),
        ("max-tokens = 17", "stage.answer.max-tokens", "16 tokens"),
    ] {
        let found = all.lines().find(|said| said.contains(&format!(" {key}: ")));
        let found = found.unwrap_or_else(|| panic!("{key}: {all}"));
        assert!(found.contains(why), "{found}");
        let line = line_of(&text, line);
        // A stage stands at its header.
        let near = [line, line - 1].map(|line| format!("pipeline.toml:{line}:"));
        assert!(
            near.iter().any(|near| found.starts_with(near.as_str())),
            "{found}"
        );
    }
    assert!(all.trim_end().ends_with("5 mistakes"), "{all}");
    // What a run needs of the machine is looked at before an operator is compiled.
    let run = workspace.run(&["run", "pipeline.toml"]);
    assert_eq!(run.status.code(), Some(2), "{}", said(&run));
    assert!(said(&run).contains("gateway.certificate"), "{}", said(&run));
    assert!(!workspace.path("state").exists() && !workspace.path("kept.jsonl").exists());
}

#[test]
fn a_secret_that_is_not_here_is_a_warning_of_a_check_and_a_mistake_of_a_run() {
    let gateway = format!("{ANYWHERE}\n[gateway.key.app]\nvariable = \"TIDEGATE_TEST_NO_KEY\"");
    let models = far("small", "key-variable = \"TIDEGATE_TEST_NO_SECRET\"");
    let text = pipeline(&gateway, &models, "model = \"small\"");
    let workspace = Workspace::new(&text);
    let checked = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    let run = workspace.run(&["run", "pipeline.toml"]);
    assert_eq!(run.status.code(), Some(2), "{}", said(&run));
    for (line, variable) in [
        ("[gateway.key.app]", "TIDEGATE_TEST_NO_KEY"),
        ("[model.small]", "TIDEGATE_TEST_NO_SECRET"),
    ] {
        let place = format!("pipeline.toml:{}:", line_of(&text, line));
        for (output, before) in [(&checked, "warning: "), (&run, "")] {
            let said = said(output);
            let found = said.lines().find(|line| line.contains(variable));
            let found = found.unwrap_or_else(|| panic!("{said}"));
            assert!(found.starts_with(&format!("{before}{place}")), "{found}");
        }
    }
    // With them a check has nothing to say.
    let mut command = workspace.command(&["check", "pipeline.toml"]);
    let with = command.envs([
        ("TIDEGATE_TEST_NO_KEY", "a"),
        ("TIDEGATE_TEST_NO_SECRET", "b"),
    ]);
    let with = with.output().unwrap();
    let said = said(&with);
    assert_eq!(with.status.code(), Some(0), "{said}");
    assert!(!said.contains("TIDEGATE_TEST"), "{said}");
}

#[test]
fn an_address_that_is_taken_is_known_before_a_model_is_loaded_and_a_check_takes_none() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let gateway = format!("address = \"{address}\"");
    let text = pipeline(&gateway, &model(), "model = \"support\"\nmax-tokens = 8");
    let workspace = Workspace::new(&text);
    let checked = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    let run = workspace.run(&["--log", "info", "run", "pipeline.toml"]);
    let said = said(&run);
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains(&address.to_string()), "{said}");
    assert!(!said.contains("model loaded"), "{said}");
    assert!(!workspace.path("kept.jsonl").exists());
}
