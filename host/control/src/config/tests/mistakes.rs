//! Everything that is wrong is said at once, with its line.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::super::*;
use super::{content, directory, parsed, said};

#[test]
fn every_mistake_is_reported_at_once_with_its_line() {
    let mut different = Vec::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let said = said(&fs::read_to_string(&file).unwrap());
        let expected = file.with_extension("expected");
        if std::env::var_os("TIDEGATE_UPDATE").is_some() {
            fs::write(&expected, &said).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != said {
            different.push(format!("{}:\n{said}", file.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn a_property_that_its_client_does_not_know_is_found_at_its_line() {
    let full = content("full.toml");
    let pipeline = parsed(&full).unwrap();
    let mistakes = pipeline.check_properties(|end| match end {
        KafkaEnd::Sink(_) => Vec::new(),
        KafkaEnd::Source(topic) => {
            assert!(topic.properties.contains_key("fetch.max.bytes"));
            let of = |name: Option<&str>, known: &[&'static str]| PropertyMistake {
                name: name.map(str::to_owned),
                why: "is wrong".into(),
                known: known.to_vec(),
            };
            vec![
                of(Some("fetch.max.bytes"), &["fetch.max.byte"]),
                of(Some("security.protocol"), &[]),
                of(None, &[]),
            ]
        }
    });
    let mistakes = mistakes.unwrap_err().mistakes;
    let line = 1 + full
        .lines()
        .position(|line| line.starts_with("properties"))
        .unwrap();
    let places = mistakes.iter().map(|mistake| {
        let at = mistake.position.as_ref().unwrap();
        assert_eq!(at.line, line);
        (mistake.key.as_str(), mistake.what.as_str())
    });
    let key = "source.live.properties";
    let expected = [
        (key.to_owned(), "is wrong"),
        (format!("{key}.security.protocol"), "is wrong"),
        (
            format!("{key}.fetch.max.bytes"),
            "is wrong; did you mean \"fetch.max.byte\"?",
        ),
    ];
    let expected = expected.iter().map(|(key, what)| (key.as_str(), *what));
    assert!(places.eq(expected), "{mistakes:?}");
}

#[test]
fn a_number_without_its_unit_is_answered_with_the_likely_one() {
    for (line, near) in [
        ("cut-interval = \"200\"", "200ms"),
        ("cut-interval = 200", "200ms"),
        ("cut-interval = \"2 sec\"", "2s"),
    ] {
        let said = said(&format!("[pipeline]\nname = \"x\"\n{line}\n"));
        let expected = format!("write for example {near:?}\n");
        assert!(said.contains(&expected), "{line}: {said}");
    }
}

#[test]
fn every_example_has_no_mistake_but_operators_not_built_yet() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let file = entry.unwrap().path().join("pipeline.toml");
        if !file.is_file() {
            continue;
        }
        seen += 1;
        for mistake in load(&file).err().map_or(Vec::new(), |found| found.mistakes) {
            let unbuilt =
                mistake.what.starts_with("there is no file") && mistake.key.ends_with(".operator");
            assert!(unbuilt, "{mistake}");
        }
    }
    assert!(seen > 0);
}

/// Text that is nearly a pipeline file.
fn nearly() -> impl Strategy<Value = String> {
    let lines: Vec<String> = [
        "full",
        "values",
        "names",
        "files",
        "syntax",
        "models",
        "model-mistakes",
    ]
    .iter()
    .flat_map(|name| {
        content(&format!("{name}.toml"))
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .collect();
    prop::collection::vec(
        prop_oneof![
            6 => prop::sample::select(lines),
            1 => "[ -~é\"'{}\\[\\]=.#\n]{0,30}",
        ],
        0..40,
    )
    .prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        if let Err(mistakes) = parsed(&text) {
            prop_assert!(!mistakes.mistakes.is_empty());
            prop_assert!(!mistakes.to_string().is_empty());
        }
    }

    #[test]
    fn no_pipeline_file_is_too_broken(text in nearly()) {
        if let Err(mistakes) = parsed(&text) {
            prop_assert!(!mistakes.mistakes.is_empty());
            prop_assert!(!mistakes.to_string().is_empty());
        }
    }
}
