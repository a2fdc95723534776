//! Examples in documents: rustdoc compiles and runs them, wherever a library has some.

use std::path::Path;

use serde_json::Value;

use crate::house::{metadata, rust_files};

/// A run of rustdoc for a library without an example takes seconds and tests nothing; an example that is not run rots.
#[test]
fn examples_in_documents_are_run_wherever_there_are_some() {
    let metadata = metadata();
    let members = metadata["packages"].as_array().unwrap().iter();
    for package in members.filter(|package| package["source"].is_null()) {
        let name = &package["name"];
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let sources = manifest.parent().unwrap().join("src");
        // Others have no documents that rustdoc tests.
        let kinds = ["lib", "rlib", "proc-macro"];
        let is_library = |target: &&Value| {
            let mut crate_types = target["crate_types"].as_array().unwrap().iter();
            crate_types.any(|kind| kinds.contains(&kind.as_str().unwrap()))
        };
        let targets = package["targets"].as_array().unwrap().iter();
        for library in targets.filter(is_library) {
            match (library["doctest"].as_bool().unwrap(), example_of(&sources)) {
                (false, Some(workspace)) => {
                    panic!("{name}: {workspace}: `doctest = false` hides it")
                }
                (true, None) => panic!("{name} has no example: `[lib]` needs `doctest = false`"),
                _ => {}
            }
        }
    }
}

/// Where the documents of a crate have an example to compile.
fn example_of(sources: &Path) -> Option<String> {
    rust_files(sources).into_iter().find_map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let line = example_in(&text)?;
        Some(format!("{}:{line}", path.display()))
    })
}

/// The line of a source file at which an example begins: one in a document, or in an attribute, which may take in
/// another file.
fn example_in(source: &str) -> Option<usize> {
    let is_example = |line: &str| {
        let fence = line.contains("[doc = ") && line.contains("```");
        fence || line.contains("doc = include_str!")
    };
    let attribute = source.lines().position(is_example).map(|index| index + 1);
    let document = documents(source)
        .iter()
        .find_map(|document| example_in_document(document));
    attribute.or(document)
}

/// A line of a document: its number in the file, and what stands behind the marker.
type Line = (usize, String);

/// The documents of a source file, in comments of lines and of blocks.
fn documents(source: &str) -> Vec<Vec<Line>> {
    let mut documents = vec![Vec::new()];
    let mut in_block = false;
    for (number, line) in (1..).zip(source.lines()) {
        let begin = line.trim_start();
        let marked = |marks: [&str; 2], no_marks: [&str; 2]| {
            let text = marks.iter().find_map(|mark| begin.strip_prefix(mark));
            text.filter(|_| !no_marks.iter().any(|mark| begin.starts_with(mark)))
        };
        let block = marked(["/**", "/*!"], ["/***", "/**/"]).filter(|_| !in_block);
        let text = if in_block {
            // A star may begin each line.
            Some(
                begin
                    .strip_prefix('*')
                    .filter(|rest| !rest.starts_with('/')),
            )
            .map(|rest| rest.unwrap_or(line))
        } else {
            block.or_else(|| marked(["///", "//!"], ["////", "////"]))
        };
        in_block |= block.is_some();
        let Some(text) = text else {
            documents.push(Vec::new());
            continue;
        };
        let end = text.find("*/").filter(|_| in_block);
        in_block &= end.is_none();
        let text = text[..end.unwrap_or(text.len())].replace('\t', "    ");
        if let Some(document) = documents.last_mut() {
            document.push((number, text));
        }
    }
    documents
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// The line of a document at which an example begins: a fence that is not marked as text, or, after an empty line, one
/// that is indented by four more than the rest, or than the list item it belongs to.
fn example_in_document(document: &[Line]) -> Option<usize> {
    let written = document.iter().filter(|(_, text)| !text.trim().is_empty());
    // What all lines are indented by is no part of them.
    let common = written.clone().map(|(_, text)| indent(text)).min()?;
    let (mut open, mut item, mut before) = (None, 0, 0);
    for (number, text) in written {
        let after_gap = before + 1 < *number || before == 0;
        before = *number;
        let at = indent(text) - common;
        let text = text.trim();
        let fence = ["```", "~~~"]
            .into_iter()
            .find(|mark| text.starts_with(mark));
        match (open, fence) {
            (None, Some(mark)) if text[mark.len()..].trim() == "text" => open = fence,
            (None, Some(_)) => return Some(*number),
            // What closes has no words behind it.
            (Some(opened), _) if fence == open && text.chars().all(|c| opened.starts_with(c)) => {
                open = None;
            }
            (Some(_), _) => {}
            (None, None) if after_gap && at >= item + 4 => return Some(*number),
            (None, None) => match marker(text) {
                Some(width) => item = at + width,
                None if after_gap && at < item => item = 0,
                None => {}
            },
        }
    }
    None
}

/// How wide the marker is of a list item that begins here.
fn marker(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let bullet = digits == 0 && ["- ", "* ", "+ "].iter().any(|mark| text.starts_with(mark));
    let number = digits > 0 && text[digits..].starts_with(". ");
    (bullet || number).then_some(digits + 2)
}

#[test]
fn an_example_is_found_however_it_is_written() {
    for (source, line) in [
        (
            "/// Adds.\n/// ```\n/// add(1);\n/// ```\nfn add() {}",
            Some(2),
        ),
        ("//! ~~~rust\n//! add(1);\n//! ~~~", Some(1)),
        ("    /// Adds.\n    ///\n    ///     add(1);\n", Some(3)),
        ("///     add(1);\n/// adds.", Some(1)),
        ("/// - one\n///\n///       add(1);", Some(3)),
        (
            "/**\n * Adds.\n *\n *     add(1);\n */\nfn add() {}",
            Some(4),
        ),
        ("/*!\nAdds.\n\n```\nadd(1);\n```\n*/", Some(4)),
        ("/** Adds.\n\n     add(1);\n*/", Some(3)),
        ("#[doc = \"```\\nadd(1);\\n```\"]", Some(1)),
        ("#![doc = include_str!(\"../README.md\")]", Some(1)),
        // None of these is one.
        (
            "/// ```text\n/// ```rust\n///     a table\n/// ```\n/// Adds.",
            None,
        ),
        ("/// Adds, and says\n///     what it did.", None),
        (
            "/// - one,\n///   still one\n///\n///   and its end\n/// 10. two\n///\n///     its end",
            None,
        ),
        (
            "// ```\n//// ```\n/* ``` */\n/*** ``` */\n/**/\nlet fence = \"```\";",
            None,
        ),
        ("/// One.\nfn one() {}\n    /// Two.\n    fn two() {}", None),
        ("/** One. */\nfn one() {\n\n        two();\n}", None),
    ] {
        assert_eq!(example_in(source), line, "{source}");
    }
}
