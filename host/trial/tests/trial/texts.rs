//! Texts that a model makes: what goes on of them, and what is said where something differs.

use tidegate_trial::{CaseFile, Options, Report, Trial};

use crate::support::*;

/// Runs cases over the guest that handles tokens.
fn handled(mode: &str, cases: &str) -> Report {
    run_over(&bytes_of("tokens"), file(mode, cases))
}

#[test]
fn what_goes_on_of_a_text_passes_in_sum_and_piece_by_piece() {
    passes(&handled(
        "upper",
        r#"{"name": "sum", "tokens": {"pieces": ["on", "e t", "wo"], "through": "ONE TWO"}},
           {"name": "each", "tokens": {"pieces": ["on", "", "é"], "through": ["ON", "", "É"], "end": null}}"#,
    ));
    passes(&handled(
        "hold",
        r#"{"name": "held", "tokens": {"pieces": ["a", "b"], "through": ["", "ab"]}}"#,
    ));
    // Other pieces would not be the one that it ends at: only the sandbox of one piece can be asked.
    let ends = r#"{"name": "end", "tokens": {"pieces": ["bad"], "through": ["until here"], "end": "stop"}}"#;
    let said = differences(&handled("stop", ends));
    assert_eq!(
        said,
        [
            r#"the same text character by character: expected "until here", came "bad""#,
            "the same text character by character, end: expected stop, came none",
        ]
    );
}

#[test]
fn a_handler_is_told_what_the_case_says_of_its_lane() {
    let told = r#"{"name": "told", "tokens": {"lane": {"arguments": 3}, "model": "m", "choice": 2,
        "record": "source 1 partition 2 offset 3", "attributes": {"a": "1", "b": {"base64": "Yg=="}}, "pieces": ["x"],
        "through": "source 1 partition 2 offset 3 m 2 LaneKind::Arguments(3) [\"a=1\", \"b=b\"]"}}"#;
    passes(&handled("told", told));
    let usual = r#"{"name": "usual", "tokens": {"pieces": ["x"],
        "through": "source 0 partition 0 offset 0 model 0 LaneKind::Content []"}}"#;
    passes(&handled("told", usual));
}

#[test]
fn what_differs_is_said_by_piece() {
    let wrong = r#"{"name": "wrong", "tokens": {"pieces": ["one", "two"], "through": ["ONE", "TOO", ""], "end": "filtered"},
        "log": [["info", "a line"]]}"#;
    assert_eq!(
        differences(&handled("upper", wrong)),
        [
            r#"through[2]: expected "TOO", came "TWO""#,
            "through: expected 3 pieces, came 2 pieces",
            "end: expected filtered, came none",
            r#"log, line 1 of 0: expected ["info", "a line"], came nothing"#,
        ]
    );
    let counted = r#"{"name": "cut", "tokens": {"pieces": ["a", "b"], "through": "12"}}"#;
    assert_eq!(
        differences(&handled("steps", counted)),
        [r#"the same text in one piece: expected "12", came "1""#]
    );
    // As every lane of a pipeline ends.
    let held = r#"{"name": "held", "tokens": {"pieces": ["a", "b"], "through": "ab"}}"#;
    assert_eq!(
        differences(&handled("hasty", held)),
        [r#"the same text with its end apart: expected "ab", came """#]
    );
    let silent = r#"{"name": "silent", "tokens": {"pieces": ["a"]}}"#;
    assert_eq!(
        differences(&handled("upper", silent)),
        [r#"tokens: expected that it has through, or the case failure, came ["A"]"#]
    );
}

#[test]
fn a_text_that_is_not_handled_says_why() {
    let failure = r#""failure": {"class": "permanent", "code": "not-so", "message": "I refuse"}"#;
    passes(&handled(
        "fail",
        &format!(r#"{{"name": "step", "tokens": {{"pieces": ["good", "bad"]}}, {failure}}}"#),
    ));
    let lane = r#"{"name": "open", "tokens": {"model": "bad", "pieces": ["x"]}, "failure": {"message": "no such answer"}}"#;
    passes(&handled("refuse", lane));
    let text = r#"{"name": "bad", "tokens": {"pieces": ["bad"], "through": "bad"}}"#;
    let said = |mode: &str| differences(&handled(mode, text)).remove(0);
    assert_eq!(
        said("fail"),
        r#"the case: expected a text that goes on, came a text that fails: {"class": "permanent", "code": "not-so", "message": "I refuse"}"#
    );
    let lost = said("trap");
    assert!(
        lost.starts_with("the batch: expected an answer, came guest fails on this answer: trap"),
        "{lost}"
    );
    let unnamed = said("unnamed");
    assert!(unnamed.contains("it handles no tokens"), "{unnamed}");
    let answered = format!(r#"{{"name": "good", "tokens": {{"pieces": ["good"]}}, {failure}}}"#);
    assert_eq!(
        differences(&handled("upper", &answered)),
        [
            r#"the case: expected a text that fails: {"class": "permanent", "code": "not-so", "message": "I refuse"}, came the text "GOOD""#
        ]
    );
}

/// What the files of cases say after they were made to say what came.
fn updated(text: &str) -> (Report, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cases.json");
    std::fs::write(&path, text).unwrap();
    let options = Options {
        update: true,
        ..patient()
    };
    let mut trial = Trial::new(&ENGINE, &bytes_of("tokens"), "guest", &options).unwrap();
    let report = trial.run(&[CaseFile::open(&path).unwrap()]).unwrap();
    (report, std::fs::read_to_string(&path).unwrap())
}

#[test]
fn a_file_is_made_to_say_what_goes_on() {
    let text = r#"{"config": {"mode": "upper"}, "cases": [
  {"name": "sum", "tokens": {"pieces": ["a",  "b"], "through": "x"}},
  {"name": "each", "tokens": {"through": [], "pieces": ["a",  "b"], "end": "stop"}},
  {"name": "silent", "tokens": {
    "pieces": ["a"]
  }},
  {"name": "right", "tokens": {"pieces": ["a"],   "through": "A"}},
  {"name": "another cut", "config": {"mode": "steps"}, "tokens": {"pieces": ["a", "b"], "through": "x"}},
  {"name": "fails", "config": {"mode": "fail"}, "tokens": {"pieces": ["bad"], "through": "x"}}
]}"#;
    let (report, after) = updated(text);
    assert_eq!(
        (report.passed(), report.updated(), report.failed()),
        (1, 3, 2),
        "{report}"
    );
    let expected = text
        .replacen(r#""through": "x""#, r#""through": "AB""#, 1)
        .replace(r#""through": []"#, r#""through": ["A", "B"]"#)
        .replace(r#""end": "stop""#, r#""end": null"#)
        .replace("[\"a\"]\n", "[\"a\"],\n    \"through\": \"A\"\n");
    assert_eq!(after, expected);
    let (again, unchanged) = updated(&after);
    assert_eq!((again.passed(), unchanged), (4, after));
}
