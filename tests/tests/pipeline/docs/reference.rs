//! The reference of the pipeline file names every key there is, and none that there is not.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_tests::Workspace;

use super::page::{Page, pages};

/// A file in which every table has a key that it does not know: what the program then says names all keys it knows.
const ASKING: &str = r#"
[pipeline]
zzzzzzzzzzzzzzzz = 1
[engine]
zzzzzzzzzzzzzzzz = 1
[operators]
zzzzzzzzzzzzzzzz = 1
[admin]
zzzzzzzzzzzzzzzz = 1
[audit]
zzzzzzzzzzzzzzzz = 1
[gateway]
cache = { zzzzzzzzzzzzzzzz = 1 }
idempotency = { zzzzzzzzzzzzzzzz = 1 }
zzzzzzzzzzzzzzzz = 1
[gateway.key.k]
zzzzzzzzzzzzzzzz = 1
[gateway.tokens]
zzzzzzzzzzzzzzzz = 1
[telemetry]
traces = { zzzzzzzzzzzzzzzz = 1 }
metrics = { zzzzzzzzzzzzzzzz = 1 }
[model.m]
zzzzzzzzzzzzzzzz = 1
[model.adapted]
type = "lora"
zzzzzzzzzzzzzzzz = 1
[model.far]
type = "openai"
zzzzzzzzzzzzzzzz = 1
[model.remote]
type = "kserve"
breaker = { zzzzzzzzzzzzzzzz = 1 }
timeouts = { zzzzzzzzzzzzzzzz = 1 }
zzzzzzzzzzzzzzzz = 1
[source.requests]
type = "gateway"
zzzzzzzzzzzzzzzz = 1
[[source.requests.under-load]]
zzzzzzzzzzzzzzzz = 1
[source.sent]
type = "ingest"
zzzzzzzzzzzzzzzz = 1
[source.table]
type = "file"
format = "csv"
zzzzzzzzzzzzzzzz = 1
[source.topic]
type = "kafka"
changelog = { zzzzzzzzzzzzzzzz = 1 }
zzzzzzzzzzzzzzzz = 1
[[stage]]
name = "operator"
operator = "x.wasm"
limits = { zzzzzzzzzzzzzzzz = 1 }
breaker = { zzzzzzzzzzzzzzzz = 1 }
zzzzzzzzzzzzzzzz = 1
[[stage]]
name = "model"
model = "m"
zzzzzzzzzzzzzzzz = 1
[[stage]]
name = "embed"
embed = "m"
zzzzzzzzzzzzzzzz = 1
[[stage]]
name = "classify"
classify = "m"
zzzzzzzzzzzzzzzz = 1
[[stage]]
name = "recognize"
recognize = "m"
zzzzzzzzzzzzzzzz = 1
[[stage]]
name = "rerank"
rerank = "m"
zzzzzzzzzzzzzzzz = 1
[sink.table]
type = "file"
format = "csv"
zzzzzzzzzzzzzzzz = 1
[sink.lines]
type = "file"
zzzzzzzzzzzzzzzz = 1
[sink.topic]
type = "kafka"
zzzzzzzzzzzzzzzz = 1
[feed.tokens]
type = "output"
zzzzzzzzzzzzzzzz = 1
[feed.topic]
type = "kafka"
zzzzzzzzzzzzzzzz = 1
[sink.reply]
type = "gateway"
zzzzzzzzzzzzzzzz = 1
[sink.feed]
type = "output"
zzzzzzzzzzzzzzzz = 1
"#;

type Keys = BTreeMap<String, BTreeSet<String>>;

/// Tables of the gateway that have a heading of their own.
const OF_GATEWAY: [&str; 2] = ["key", "tokens"];

/// The kind of a table by the parts of its name, and where the names of its keys begin.
fn kind(parts: &[&str]) -> (String, String) {
    // Of a list, `under-load[1]`, the number says nothing.
    let name = |part: &&str| part.split('[').next().map(|name| format!("{name}."));
    let prefix = |part: Option<&&str>| part.and_then(name).unwrap_or_default();
    match parts {
        ["gateway", part, ..] if OF_GATEWAY.contains(part) => {
            (format!("gateway.{part}"), String::new())
        }
        [of @ ("gateway" | "telemetry"), ..] => ((*of).to_owned(), prefix(parts.get(1))),
        _ => (parts[0].to_owned(), prefix(parts.get(2))),
    }
}

/// The keys that the program knows, by kind of table: `[stage.a.limits]` is of `stage`, its keys are `limits.KEY`.
fn known() -> Keys {
    let workspace = Workspace::new(ASKING);
    let output = workspace.run(&["check", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut keys = Keys::new();
    for line in said.lines() {
        let Some((before, names)) = line.split_once("; keys here: ") else {
            continue;
        };
        let table = before.rsplit_once(" [").unwrap().1.trim_end_matches(']');
        let parts: Vec<&str> = table.split('.').collect();
        let (table, prefix) = kind(&parts);
        let names = names.split(", ").map(|name| format!("{prefix}{name}"));
        keys.entry(table).or_default().extend(names);
    }
    assert!(keys.len() >= 7, "{said}");
    keys
}

/// The keys that the reference has, by kind of table.
fn written() -> Keys {
    let mut keys = Keys::new();
    for (heading, names) in Page::read("docs/src/reference/pipeline-file.md").first_cells() {
        let parts: Vec<&str> = heading.trim_matches(['[', ']']).split('.').collect();
        let table = match heading.starts_with('[') {
            true => kind(&parts).0,
            // Parts of what a stage has stand under headings of their own.
            false => "stage".to_owned(),
        };
        keys.entry(table).or_default().extend(names);
    }
    keys
}

#[test]
fn the_reference_has_every_key_of_the_pipeline_file() {
    let (mut known, written) = (known(), written());
    // Tables whose keys stand under their own names, and what is said in a sentence.
    if let Some(stage) = known.get_mut("stage") {
        stage.remove("limits");
        stage.remove("breaker");
    }
    if let Some(source) = known.get_mut("source") {
        source.remove("changelog");
        source.remove("under-load");
    }
    if let Some(gateway) = known.get_mut("gateway") {
        for table in ["cache", "idempotency", "key", "tokens"] {
            gateway.remove(table);
        }
    }
    if let Some(model) = known.get_mut("model") {
        model.remove("breaker");
        model.remove("timeouts");
    }
    known.remove("admin");
    assert_eq!(known, written);
}

/// Pieces of pipeline files in documents have no key that is not there. Whatever else they lack, they are pieces.
#[test]
fn pipelines_in_documents_have_only_keys_that_there_are() {
    let mut seen = 0;
    for page in pages() {
        let tables = |text: &str| {
            text.lines().any(|line| {
                ["[[stage]]", "[pipeline]", "[source."]
                    .iter()
                    .any(|table| line.starts_with(table))
            })
        };
        for block in page
            .blocks()
            .iter()
            .filter(|block| block.language == "toml" && tables(&block.text))
        {
            seen += 1;
            let output = Workspace::new(&block.text).run(&["check", "pipeline.toml"]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let wrong = said.lines().find(|line| {
                ["is not a key of", "this is not TOML"]
                    .iter()
                    .any(|what| line.contains(what))
            });
            let (path, line) = (page.path.display(), block.line);
            assert_eq!(wrong, None, "{path}:{line}\n{said}");
        }
    }
    assert!(seen >= 4, "only {seen} pipelines were found");
}
