//! Commands in documents that nothing runs: they exist, with each of their options.

use std::collections::BTreeMap;
use std::process::Command;

use tidegate_tests::{root, tidegate};

use super::page::pages;

/// The simple commands of a block of shell, as words.
fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let mut commands = Vec::new();
    for line in joined.lines() {
        // A comment begins a word.
        let line = line
            .split(" #")
            .next()
            .filter(|line| !line.starts_with('#'))
            .unwrap_or_default();
        for command in line.split(['|', ';', '&']) {
            let is_variable = |word: &&str| {
                let name = word.split_once('=').map_or("", |(name, _)| name);
                !name.is_empty()
                    && name
                        .chars()
                        .all(|letter| letter.is_ascii_uppercase() || letter == '_')
            };
            let words = command.split_whitespace().skip_while(is_variable);
            commands.push(words.map(str::to_owned).collect());
        }
    }
    commands
}

/// What `tidegate WORDS --help` prints; none if there is no such command.
fn help(words: &[String]) -> Option<String> {
    let output = Command::new(tidegate())
        .args(words)
        .arg("--help")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// What is wrong with the arguments of a `tidegate`, if anything.
fn wrong(
    arguments: &[String],
    helps: &mut BTreeMap<Vec<String>, Option<String>>,
) -> Option<String> {
    let groups = ["audit", "dead-letters", "model"];
    let options = arguments
        .iter()
        .take_while(|word| word.starts_with('-'))
        .count();
    // Options before the command take a value: `--log info`.
    let words = &arguments[(2 * options).min(arguments.len())..];
    let length = match words.first() {
        None => return None,
        Some(first) if groups.contains(&first.as_str()) => 2,
        Some(_) => 1,
    };
    let command = words.get(..length)?.to_vec();
    let known = helps
        .entry(command.clone())
        .or_insert_with(|| help(&command));
    let Some(known) = known else {
        return Some(format!("there is no tidegate {}", command.join(" ")));
    };
    let given = arguments.iter().filter(|word| word.starts_with("--"));
    let names = given.map(|word| word.split('=').next().unwrap_or_default());
    let boundary = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
    names
        .filter(|name| !known.split(boundary).any(|word| word == *name))
        .map(|name| format!("tidegate {} has no {name}", command.join(" ")))
        .next()
}

#[test]
fn every_command_in_a_document_exists_with_its_options() {
    let xtask = std::fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    let (mut mistakes, mut seen, mut helps) = (Vec::new(), 0, BTreeMap::new());
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.language == "sh") {
            for words in simple_commands(&block.text) {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let what = match words.as_slice() {
                    ["tidegate" | "target/release/tidegate", arguments @ ..] => {
                        let arguments: Vec<String> =
                            arguments.iter().map(|&word| word.to_owned()).collect();
                        wrong(&arguments, &mut helps)
                    }
                    ["cargo", "xtask", command, ..] => (!xtask
                        .contains(&format!("[\"{command}\"")))
                    .then(|| format!("there is no cargo xtask {command}")),
                    _ => continue,
                };
                seen += 1;
                mistakes.extend(
                    what.map(|what| format!("{}:{}: {what}", page.path.display(), block.line)),
                );
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(seen > 20, "only {seen} commands were found");
}

#[test]
fn a_command_that_is_not_there_is_found() {
    let text = "# tidegate no\nA=b tidegate --log info check x.toml # --no\nhead -1 x | tidegate run \\\n  --never y.toml\n";
    let commands = simple_commands(text);
    let mut helps = BTreeMap::new();
    let found: Vec<String> = commands
        .iter()
        .filter(|words| words.first().is_some_and(|word| word == "tidegate"))
        .map(|words| wrong(&words[1..], &mut helps).unwrap_or_default())
        .collect();
    assert_eq!(found, ["", "tidegate run has no --never"]);
    let unknown = ["swim".to_owned()];
    assert_eq!(
        wrong(&unknown, &mut helps).as_deref(),
        Some("there is no tidegate swim")
    );
}
