//! What the README has a newcomer type, typed.

use std::path::Path;
use std::process::Command;

use tidegate_tests::{root, target, tidegate};

/// A block of code of the README: its language and its text.
struct Block {
    language: String,
    text: String,
}

/// The blocks of code under a heading of the README.
fn blocks(heading: &str) -> Vec<Block> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (mut inside, mut blocks, mut open) = (false, Vec::new(), None::<Block>);
    for line in readme.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(language)) if inside => {
                open = Some(Block {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, None) if line.starts_with("## ") => inside = line[3..] == *heading,
            (None, _) => {}
        }
    }
    assert!(!blocks.is_empty(), "the README has no code under {heading}");
    blocks
}

/// Runs a block of shell at the top of the repository, with `tidegate` on the path, as the README says. Returns what it
/// printed.
fn shell(text: &str, build: &Path) -> String {
    let binaries = tidegate().parent().unwrap().to_path_buf();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-euc", text])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("CARGO_TARGET_DIR", build)
        // What the workspace is built of is at hand already.
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{text}\n{out}\n{err}");
    out
}

#[test]
fn an_operator_and_a_pipeline_are_made_as_the_readme_says() {
    let workspace = tempfile::tempdir().unwrap();
    let crate_directory = workspace.path().join("keep-filled");
    // Kept between runs, since the dependencies are the same.
    let build = target().join("readme");
    let here = |text: &str| {
        text.replace(
            "../keep-filled/target/",
            &format!("{}/", build.to_str().unwrap()),
        )
        .replace("../keep-filled", crate_directory.to_str().unwrap())
    };
    let mut printed = String::new();
    for block in blocks("Write an operator") {
        match block.language.as_str() {
            "sh" => printed = shell(&here(&block.text), &build),
            "rust" => std::fs::write(crate_directory.join("src/lib.rs"), block.text).unwrap(),
            "toml" => {
                let built = format!("{}/wasm32", build.to_str().unwrap());
                let text = block.text.replace("target/wasm32", &built);
                std::fs::write(crate_directory.join("pipeline.toml"), text).unwrap();
            }
            other => panic!("a block of {other:?}"),
        }
    }
    assert_eq!(printed, "one\nthree\n");
    // The empty line is a record, and the operator drops it.
    let counted = Command::new(tidegate())
        .args(["run", "--json"])
        .arg(crate_directory.join("pipeline.toml"))
        .output()
        .unwrap();
    assert!(counted.status.success(), "{counted:?}");
    let summary: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
    let records = &summary["records"];
    assert_eq!((&records["in"], &records["out"]), (&3.into(), &2.into()));
    assert_eq!(
        (&records["dropped"], &records["dead"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn a_model_is_asked_as_the_readme_says() {
    let workspace = tempfile::tempdir().unwrap();
    let pipeline = workspace.path().join("pipeline.toml");
    let model = root().join("examples/support-bot/model");
    let blocks = blocks("Serve your own model");
    let whole = blocks
        .iter()
        .position(|block| block.text.starts_with("[pipeline]"))
        .unwrap();
    let text = blocks[whole]
        .text
        .replace("../support-bot/model", model.to_str().unwrap());
    std::fs::write(&pipeline, text).unwrap();
    let command = blocks[whole + 1]
        .text
        .replace("examples/my-ask/pipeline.toml", pipeline.to_str().unwrap());
    let printed = shell(&command, &target().join("readme"));
    let records: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 2, "{printed}");
    for record in records {
        let answer = record["answer"].as_str().unwrap();
        assert!(!answer.is_empty(), "{record}");
    }
}
