//! The reader of tokens for browsers, as the guide shows it, run by Node.js.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::root;

/// Where the reader stands.
const GUIDE: &str = "docs/src/tokens.md";

/// How an answer stands when all events have been taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its texts that are not empty, by choice and lane: `0/content`.
    pub lanes: BTreeMap<String, String>,
    /// `open`, `whole`, `gap` or `lost`.
    pub state: String,
}

/// Gives events, one JSON text each, to the reader. Returns what it shows at last of each answer.
pub fn read(events: &[impl AsRef<str>]) -> BTreeMap<String, Shown> {
    let program = format!(
        "{}\n\
         const shown = {{}};\n\
         const take = tokenReader((request, lane, text, state) => {{\n\
           shown[request] ??= {{ lanes: {{}} }};\n\
           shown[request].lanes[lane] = text;\n\
           shown[request].state = state;\n\
         }});\n\
         const events = require(\"node:fs\").readFileSync(0, \"utf8\");\n\
         for (const event of events.split(\"\\n\").filter(Boolean)) take(JSON.parse(event));\n\
         console.log(JSON.stringify(shown));\n",
        reader()
    );
    let mut node = Command::new("node")
        .args(["-e", &program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node can be started");
    let mut input = node.stdin.take().expect("it has an input");
    for event in events {
        writeln!(input, "{}", event.as_ref()).expect("it reads");
    }
    drop(input);
    let output = node.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it writes JSON");
    let shown = shown.as_object().expect("it writes an object").iter();
    let shown = shown.map(|(request, shown)| {
        let lanes = shown["lanes"].as_object().into_iter().flatten();
        let text = |text: &serde_json::Value| text.as_str().unwrap_or_default().to_owned();
        let lanes = lanes.map(|(lane, shown)| (lane.clone(), text(shown)));
        let shown = Shown {
            lanes: lanes.filter(|(_, text)| !text.is_empty()).collect(),
            state: text(&shown["state"]),
        };
        (request.clone(), shown)
    });
    shown.collect()
}

/// The function of the guide, without the page around it.
fn reader() -> String {
    let guide = std::fs::read_to_string(root().join(GUIDE)).expect("the guide is there");
    let (_, code) = guide.split_once("```js\n").expect("it shows a script");
    let (reader, _) = code
        .split_once("\nconst take = ")
        .expect("the reader stands before its use");
    reader.to_owned()
}
