//! Files that are made to say what came.

use std::path::PathBuf;

use tidegate_trial::{CaseFile, Options, Report, Trial};

use crate::support::*;

/// Runs cases with `update`, and says what the file is then.
fn updated(text: &str) -> (Report, String) {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("cases.json");
    std::fs::write(&path, text).unwrap();
    let options = Options {
        update: true,
        ..patient()
    };
    let hostile = bytes_of("hostile");
    let mut trial = Trial::new(&ENGINE, &hostile, "guest", &options).unwrap();
    let report = trial.run(&[CaseFile::open(&path).unwrap()]).unwrap();
    let after = std::fs::read_to_string(&path).unwrap();
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 1, "nothing else is left");
    (report, after)
}

#[test]
fn only_what_differs_is_written_anew() {
    let text = r#"{
    "config": {"mode": "every"},   "cases": [
      {"outcomes": [ {"dead-letter": {"contains": ["for"]}} ], "name": "good",
         "records": [{"id": {"offset": 11}}]},
      {"name": "two of three", "records": [{"id": {"offset":  11}}, {"id": {"offset": 3}}, {"id": {"offset": 6}}],
       "outcomes": [{"dead-letter": {"contains": ["not"]}},
                    "pass",   "pass"], "sandbox": false}
    ]
}
"#;
    let (report, after) = updated(text);
    assert_eq!(
        (report.passed(), report.updated(), report.failed()),
        (1, 1, 0),
        "{report}"
    );
    let came = r#"{"replace": {"key": null, "value": "", "event-time": null}},   {"split": [{}, {"to": "other", "value": "two"}, {"to": "side", "key": {"base64": "AP8="}, "value": null, "headers": [["set", "h", "new"], ["add", "h", null], ["remove", "gone"]], "attributes": [["set", "ä", ""]], "event-time": -7}]}"#;
    assert_eq!(after, text.replace(r#""pass",   "pass""#, came));
    let (report, again) = updated(&after);
    assert_eq!((report.passed(), again), (2, after));
}

#[test]
fn a_case_that_says_nothing_is_told_what_came() {
    let text = r#"{"config": {"mode": "count"}, "cases": [
    {
        "name": "new",
        "records": [{}, {}]
    },
    {"name": "on one line", "records": [{}]}
]}"#;
    let (report, after) = updated(text);
    assert_eq!(report.updated(), 2, "{report}");
    let expected = text
        .replace("[{}, {}]\n", "[{}, {}],\n        \"outcomes\": [\"pass\", {\"retry\": {\"after-ms\": 0, \"reason\": \"once more\"}}]\n")
        .replace("[{}]}", "[{}], \"outcomes\": [\"pass\"]}");
    assert_eq!(after, expected);
    passes(&updated(&after).0);
}

#[test]
fn lines_and_measurements_are_written_anew_where_they_are_compared() {
    let text = r#"{"config": {"mode": "every"}, "cases": [
  {"name": "measured", "records": [{}], "outcomes": ["pass"],
   "log": [["info", "gone"]],
   "metrics": [{"name": "seen", "value": 7}]}]}"#;
    let (report, after) = updated(text);
    assert_eq!(report.updated(), 1, "{report}");
    let expected = text.replace(r#"[["info", "gone"]]"#, "[]").replace(
        r#"[{"name": "seen", "value": 7}]"#,
        "[\n     {\"name\": \"level\", \"labels\": {\"lang\": \"dé\"}, \"value\": -1.5},\n     \
         {\"name\": \"seen\", \"value\": 2},\n     \
         {\"name\": \"took\", \"value\": {\"count\": 1, \"sum\": 0.75}}\n   ]",
    );
    assert_eq!(after, expected);
}

#[test]
fn what_is_a_mistake_rather_than_an_outcome_is_not_written() {
    let text = r#"{"config": {"mode": "trap"}, "cases": [
  {"name": "a trap", "records": [{"value": "bad"}, {}], "outcomes": ["pass", "drop"]},
  {"name": "another", "records": [{"value": "bad"}]},
  {"name": "no refusal", "refused": {"code": "no"}}]}"#;
    let (report, after) = updated(text);
    assert_eq!((report.updated(), report.failed()), (0, 3), "{report}");
    assert_eq!(after, text);
}

#[test]
fn what_was_saved_meanwhile_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("cases.json");
    let text = r#"{"config": {"mode": "pass"}, "cases": [{"name": "a", "records": [{}], "outcomes": ["drop"]}]}"#;
    std::fs::write(&path, text).unwrap();
    let file = CaseFile::open(&path).unwrap();
    let saved = text.replace("\"a\"", "\"saved\"");
    std::fs::write(&path, &saved).unwrap();
    let options = Options {
        update: true,
        ..patient()
    };
    let mut trial = Trial::new(&ENGINE, &bytes_of("hostile"), "guest", &options).unwrap();
    let error = trial.run(&[file]).unwrap_err().to_string();
    assert!(error.contains("it was saved meanwhile"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), saved);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
