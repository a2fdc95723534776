//! Every language's operator, as built for WebAssembly, against every file of cases. A test for each, so that what fails
//! is named. `cargo xtask operators` builds them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_contract::Slot as _;
use tidegate_operator::{
    Component, ComponentSlot, Engine, EngineOptions, Grants, Kind, Limits, SlotOptions,
};
use tidegate_record::Fields;
use tidegate_trial::{CaseFile, Options, Trial};

/// No deadline that a busy machine could miss; the cases that are about one have their own.
fn limits() -> Limits {
    Limits {
        deadline: Duration::from_secs(60),
        init_deadline: Duration::from_secs(120),
        bisect: Duration::from_secs(120),
        ..Limits::default()
    }
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    )
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(EngineOptions {
        cache_dir: Some(target().join("conformance")),
        ..EngineOptions::default()
    })
    .unwrap()
});

/// One that is made where the long tests run, and no other time.
const LARGE: &str = "spidermonkey";

fn is_left_out(language: &str) -> bool {
    language == LARGE && std::env::var_os("TIDEGATE_TEST_FULL").is_none()
}

/// The operator of a language. Compiled once, by the first test that asks; the others wait.
fn component(language: &str) -> Component {
    static COMPILED: Mutex<BTreeMap<String, Component>> = Mutex::new(BTreeMap::new());
    let path = target().join(format!("operators/conformance-{language}.wasm"));
    let shown = path.display();
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{shown}: {error}; run `cargo xtask operators` first"));
    let mut compiled = COMPILED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let component = compiled
        .entry(language.to_owned())
        .or_insert_with(|| ENGINE.compile(&bytes, &shown.to_string()).unwrap());
    component.clone()
}

#[track_caller]
fn pass(language: &str, files: &Path) {
    if is_left_out(language) {
        return;
    }
    let options = Options {
        limits: limits(),
        ..Options::default()
    };
    let files = CaseFile::open_all(files).unwrap();
    let report = Trial::of(component(language), &options)
        .run(&files)
        .unwrap();
    assert!(report.failed() == 0 && report.passed() > 0, "{report}");
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// What the operator says of itself, the same in every language.
fn describes_itself(language: &str) {
    if is_left_out(language) {
        return;
    }
    let options = SlotOptions {
        grants: Grants::ALL,
        limits: limits(),
        ..SlotOptions::new("conformance")
    };
    let slot = ComponentSlot::of(&component(language), options).unwrap();
    let version = slot.instance().unwrap().1.version().clone();
    assert_eq!(
        (version.name.as_str(), version.version.as_str()),
        ("conformance", "1.0.0")
    );
    assert_eq!(version.reads, Fields::ALL);
    let more = (3..=16).map(|number| format!("out-{number}"));
    let outputs: Vec<String> = ["left", "right"]
        .map(str::to_owned)
        .into_iter()
        .chain(more)
        .collect();
    assert_eq!(version.outputs, outputs);
    let metrics = slot.metrics().swap_remove(0).metrics;
    let declared: Vec<_> = metrics
        .iter()
        .map(|(metric, _)| {
            let labels: Vec<&str> = metric.labels.iter().map(String::as_str).collect();
            (
                metric.name.as_str(),
                metric.kind,
                metric.help.as_str(),
                labels,
                metric.bounds.clone(),
            )
        })
        .collect();
    assert_eq!(
        declared,
        [
            (
                "seen_total",
                Kind::Counter,
                "Records that were counted",
                vec![],
                vec![]
            ),
            (
                "words_total",
                Kind::Counter,
                "Words by kind",
                vec!["kind"],
                vec![]
            ),
            (
                "last_bytes",
                Kind::Gauge,
                "Bytes of the last value",
                vec![],
                vec![]
            ),
            (
                "value_bytes",
                Kind::Histogram,
                "Bytes of values",
                vec![],
                vec![1.0, 10.0, 100.0, 1000.0]
            ),
        ]
    );
}

/// That the dead letter of an exception names what was raised, and the line in this source.
fn names_the_line(language: &str, source: &str) {
    let directory = tempfile::tempdir().unwrap();
    let line = json!({"raised": {"contains": ["boom", format!("{source}:")]}});
    let cases = json!({"cases": [{
        "name": "an exception",
        "records": [{"headers": [["do", "throw"]]}, {}, {"headers": [["do", "metrics-throw"]]}],
        "outcomes": [line, "pass", line],
    }]});
    let file = directory.path().join("throws.json");
    std::fs::write(&file, cases.to_string()).unwrap();
    pass(language, &file);
}

/// That what is raised over the text of an answer fails that lane in words with the line, where a language can go on after
/// it.
fn fails_a_lane_in_words(language: &str, source: &str, code: &str) {
    let directory = tempfile::tempdir().unwrap();
    let cases = json!({"cases": [{
        "name": "an exception over a piece",
        "tokens": {"model": "throw", "pieces": ["one"]},
        "failure": {"class": "permanent", "code": code, "message": {"contains": ["boom", format!("{source}:")]}},
    }]});
    let file = directory.path().join("throws.json");
    std::fs::write(&file, cases.to_string()).unwrap();
    pass(language, &file);
}

/// How a language says that it has recursed without an end, and that it was stopped as hard as it can be: parts of the dead
/// letter. These are what `hostile.json` leaves open.
struct Words {
    deep: &'static [&'static str],
    trap: &'static [&'static str],
}

const OUT_OF_STACK: &str = "trap: wasm trap: call stack exhausted";
const OUT_OF_BOUNDS: &str = "trap: wasm trap: out of bounds memory access";
const UNREACHABLE: &str = "trap: wasm trap: wasm `unreachable` instruction executed";

/// Puts these words where the cases have none.
fn fill(outcomes: &mut Value, records: &Value, words: &Words) -> usize {
    let (outcomes, records) = (
        outcomes.as_array_mut().unwrap(),
        records.as_array().unwrap(),
    );
    let mut filled = 0;
    for (outcome, record) in outcomes.iter_mut().zip(records) {
        let Some(contains) = outcome.pointer_mut("/raised/contains") else {
            continue;
        };
        let does = record["headers"][0][1].as_str().unwrap();
        *contains = match does {
            "deep" => json!(words.deep),
            "trap" => json!(words.trap),
            other => panic!("{other} has words of its own"),
        };
        filled += 1;
    }
    filled
}

/// That what ends an instance is told in the language's own words.
fn says_how_it_ended(language: &str, words: &Words) {
    let text = std::fs::read_to_string(cases().join("hostile.json")).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let mut filled = 0;
    for case in file["cases"].as_array_mut().unwrap() {
        let records = case["records"].clone();
        filled += fill(&mut case["outcomes"], &records, words);
    }
    assert!(filled > 4, "{filled}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hostile.json");
    std::fs::write(&path, file.to_string()).unwrap();
    pass(language, &path);
}

/// Files of cases, each with a test.
macro_rules! files {
    ($($file:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($file)),*];

        macro_rules! language {
            ($language:ident, $source:literal, $deep:expr, $trap:expr) => {
                mod $language {
                    #[test]
                    fn describes_itself_as_all_do() {
                        super::describes_itself(stringify!($language));
                    }

                    #[test]
                    fn says_in_which_line_it_raised() {
                        super::names_the_line(stringify!($language), $source);
                    }

                    #[test]
                    fn says_how_it_ended() {
                        let words = super::Words { deep: &$deep, trap: &$trap };
                        super::says_how_it_ended(stringify!($language), &words);
                    }

                    $(#[test]
                    fn $file() {
                        super::pass(
                            stringify!($language),
                            &super::cases().join(concat!(stringify!($file), ".json")),
                        );
                    })*
                }
            };
        }
    };
}

files!(bytes configuration effects failures hostile outcomes patches splits tokens);
language!(
    c,
    "conformance.c",
    [super::OUT_OF_BOUNDS, "descend"],
    [super::UNREACHABLE, "abort"]
);
language!(
    go,
    "conformance.go",
    [super::OUT_OF_STACK, "main.deep"],
    ["exit: the operator ended itself with code 1"]
);
language!(
    js,
    "conformance.js",
    [super::OUT_OF_STACK],
    ["Error: boom (conformance.js:"]
);
language!(
    python,
    "conformance.py",
    ["RecursionError: maximum recursion depth exceeded (conformance.py:"],
    [super::UNREACHABLE]
);
language!(
    rust,
    "lib.rs",
    [super::OUT_OF_BOUNDS, "conformance_rust::extremes::deep"],
    [super::UNREACHABLE]
);
language!(
    spidermonkey,
    "conformance.js",
    ["InternalError: too much recursion (conformance.js:"],
    ["Error: boom (conformance.js:"]
);

#[test]
fn what_is_raised_over_a_text_fails_its_lane_in_words() {
    for (language, source, code) in [
        ("go", "tokens.go", "panic"),
        ("js", "conformance.js", "exception"),
        ("python", "conformance.py", "exception"),
        ("spidermonkey", "conformance.js", "exception"),
    ] {
        fails_a_lane_in_words(language, source, code);
    }
}

#[test]
fn every_file_of_cases_has_a_test() {
    let there: BTreeSet<String> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(there, FILES.iter().map(|file| (*file).to_owned()).collect());
}
