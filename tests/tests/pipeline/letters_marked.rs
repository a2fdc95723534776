//! What stays of dead letters that were sent again.

use std::fs::File;
use std::path::Path;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

use crate::letters::{
    GRUMBLES, NONE, PATIENCE, input, letters, list, pipeline, start, status, text,
};

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

#[test]
fn a_log_of_letters_that_is_gone_and_that_a_cut_knows_is_said_by_each_run_until_another_is_read() {
    let gone = [
        "state/again",
        "state/again/in.again",
        "state/again/in.again/segment-0001",
    ];
    for place in gone {
        let workspace = Workspace::new(&pipeline(GRUMBLES));
        workspace.write("in.jsonl", input(20));
        workspace.run_pipeline();
        workspace.pipeline(&pipeline(NONE));
        letters(&workspace, &["send", "--all", "--stage", "abuse"]);
        let said = run(&workspace);
        assert!(!said.contains("lost"), "{said}");
        let before = list(&workspace, &["--stage", "abuse"]);
        let path = workspace.path(place);
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
        // The second time the new log is there, with nothing in it.
        for _ in 0..2 {
            let said = run(&workspace);
            assert!(said.contains("can be sent once more"), "{said}");
            assert!(said.contains("that no cut has are lost"), "{said}");
            assert!(said.contains("up to 6, is gone"), "{said}");
        }
        let after = list(&workspace, &["--stage", "abuse"]);
        if place != "state/again" {
            assert_eq!(after, before, "the marks are there");
            continue;
        }
        // Whoever sends is told too, before anything goes twice.
        let id = text(&after[0], "id");
        let sent = workspace.run(&["dead-letters", "send", "--pipeline", "pipeline.toml", id]);
        let said = String::from_utf8_lossy(&sent.stderr).into_owned();
        assert!(said.contains("can be sent once more"), "{said}");
        run(&workspace);
        let said = run(&workspace);
        assert!(!said.contains("lost"), "{said}");
    }
}

#[test]
fn letters_that_are_sent_again_are_counted_as_a_source_from_the_first_one_on() {
    let workspace = Workspace::new(&pipeline(GRUMBLES));
    workspace.write("in.jsonl", input(20));
    let mut running = start(&workspace);
    until("the letters are in a cut", PATIENCE, || {
        list(&workspace, &["--stage", "abuse"]).len() == 6
    });
    let sources = || status(&workspace, "sources").unwrap_or_default();
    let names = |sources: &Value| -> Vec<String> {
        let all = sources.as_array().into_iter().flatten();
        all.map(|source| text(source, "name").to_owned()).collect()
    };
    assert_eq!(names(&sources()), ["in"]);
    letters(&workspace, &["send", "--all", "--stage", "abuse"]);
    until("all are read", PATIENCE, || {
        let sources = sources();
        names(&sources) == ["in", "in.again"]
            && sources[1]["records"] == 6
            && sources[1]["unread_records"] == 0
    });
    assert_eq!(sources()[0]["records"], 18, "two of 20 are no records");
    assert!(running.terminate(PATIENCE).success());
}

/// Standard input counts from 0 in each run: another value may stand where one of an earlier run died.
#[test]
fn a_letter_of_standard_input_is_another_than_that_of_an_earlier_run_at_its_place() {
    let file = pipeline(GRUMBLES);
    let file = file.replace(
        "type = \"file\"\npaths = [\"in.jsonl\"]",
        "type = \"stdin\"",
    );
    let workspace = Workspace::new(&file);
    let give = |text: &str| {
        workspace.write("given", text);
        let ended = workspace
            .command(&["run", "--quiet", "pipeline.toml"])
            .stdin(File::open(workspace.path("given")).unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
    };
    for n in [1, 2] {
        give(&format!(r#"{{"customer":"a","n":{n},"text":"grumble"}}"#));
    }
    let dead = list(&workspace, &[]);
    let inputs: Vec<&str> = dead.iter().map(|letter| text(letter, "input")).collect();
    assert_eq!(inputs.len(), 2);
    assert_ne!(inputs[0], inputs[1]);
    workspace.pipeline(&file.replace(GRUMBLES, NONE));
    let id = |index: usize| text(&dead[index], "id").to_owned();
    assert_eq!(letters(&workspace, &["send", &id(0)])[0]["state"], "sent");
    let other = list(&workspace, &[]).into_iter();
    let sent: Vec<bool> = other.map(|letter| !letter["sent"].is_null()).collect();
    assert_eq!(sent, [true, false]);
    assert_eq!(letters(&workspace, &["send", &id(1)])[0]["state"], "sent");
    give("");
    let mut came: Vec<u64> = workspace
        .json_lines("out.jsonl")
        .iter()
        .map(|line| line["value"]["n"].as_u64().unwrap())
        .collect();
    came.sort_unstable();
    assert_eq!(came, [1, 2]);
}
