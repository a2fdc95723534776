//! What stays of dead letters that were sent again.

use std::path::Path;

use serde_json::Value;
use tidegate_tests::Workspace;

use crate::letters::{GRUMBLES, NONE, input, letters, list, pipeline, text};

/// All bytes of the files below a directory.
fn below(directory: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => bytes.extend(below(&path)),
            false => bytes.extend(std::fs::read(&path).unwrap()),
        }
    }
    bytes
}

fn has_letters(workspace: &Workspace) -> bool {
    let bytes = below(&workspace.path("state/again"));
    bytes.windows(7).any(|seven| seven == b"grumble")
}

/// What is said of a run that succeeds.
fn run(workspace: &Workspace) -> String {
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn of_letters_that_a_cut_has_their_marks_stay_and_nothing_of_what_was_in_them() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(20));
    workspace.run_pipeline();
    workspace.pipeline(&pipeline(NONE));
    assert_eq!(
        letters(&workspace, &["send", "--all", "--stage", "abuse"]).len(),
        6
    );
    assert!(has_letters(&workspace), "they wait for a run");
    run(&workspace);
    assert_eq!(workspace.json_lines("out.jsonl").len(), 18);
    assert!(!has_letters(&workspace), "what was read is still there");
    let marked = list(&workspace, &["--stage", "abuse"]);
    let places = |marked: &[Value]| -> Vec<String> {
        let marks = marked.iter().map(|letter| {
            assert!(text(&letter["sent"], "at").starts_with("20"), "{letter}");
            text(&letter["sent"], "record").to_owned()
        });
        marks.collect()
    };
    let before = places(&marked);
    let mut sorted = before.clone();
    sorted.sort_unstable();
    let expected: Vec<String> = (0..6).map(|n| format!("in.again/0/{n}")).collect();
    assert_eq!(sorted, expected);
    // Whoever sends them once more is told, by whichever run.
    let ids: Vec<&str> = marked.iter().map(|letter| text(letter, "id")).collect();
    let mut send = vec!["send"];
    send.extend(&ids);
    let told = letters(&workspace, &send);
    assert!(told.iter().all(|one| one["state"] == "already"), "{told:?}");
    run(&workspace);
    assert_eq!(places(&list(&workspace, &["--stage", "abuse"])), before);
    assert_eq!(workspace.json_lines("out.jsonl").len(), 18);
}

#[test]
fn marks_that_are_damaged_are_said_and_end_no_start() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(20));
    workspace.run_pipeline();
    workspace.pipeline(&pipeline(NONE));
    letters(&workspace, &["send", "--all", "--stage", "abuse"]);
    run(&workspace);
    let mut marks = workspace.read("state/again/marks");
    let middle = marks.len() / 2;
    marks[middle] ^= 0xff;
    workspace.write("state/again/marks", marks);
    let said = run(&workspace);
    assert!(said.contains("of which the mark is lost"), "{said}");
    assert!(said.contains("marks.damaged"), "{said}");
    let marked = list(&workspace, &["--stage", "abuse"]);
    let known = marked.iter().filter(|letter| !letter["sent"].is_null());
    assert_eq!(known.count(), 5, "one entry was damaged");
}
