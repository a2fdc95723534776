//! Cases run: what passes, and what is said where something differs.

use tidegate_trial::{CaseFile, Options, Trial, TrialError, run_cases};

use crate::support::*;

/// The fourteen outcomes of the mode `every`, by offset.
const EVERY: &str = r#"{"name": "every outcome", "records": [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}],
    "outcomes": ["pass", "drop", "pass",
        {"replace": {"value": "", "key": null, "event-time": null}},
        {"replace": {"key": {"base64": "AP8="}, "value": null, "event-time": -7,
            "headers": [["set", "h", "new"], ["add", "h", null], ["remove", "gone"]], "attributes": [["set", "ä", ""]]}},
        "drop",
        {"split": [{}, {"to": "other", "value": "two"},
            {"to": "side", "key": {"base64": "AP8="}, "value": null, "event-time": -7,
             "headers": [["set", "h", "new"], ["add", "h", null], ["remove", "gone"]], "attributes": [["set", "ä", ""]]}]},
        {"route": {"to": "side", "value": "routed"}}, "pass",
        {"retry": {"after-ms": 250, "reason": "later"}}, {"retry": {"after-ms": 4294967295, "reason": ""}},
        {"dead-letter": "not for me"}],
    "metrics": [{"name": "seen", "value": 20}, {"name": "level", "labels": {"lang": "dé"}, "value": -1.5},
        {"name": "took", "value": {"count": 10, "sum": 7.5}}],
    "log": []}"#;

#[test]
fn every_outcome_and_every_change_passes_as_it_comes_in_both_worlds() {
    for guest in ["hostile", "plain"] {
        passes(&run_over(&bytes_of(guest), file("every", EVERY)));
    }
}

#[test]
fn what_differs_is_said_by_record_and_field() {
    let text = EVERY
        .replacen("\"pass\"", "\"drop\"", 1)
        .replace("\"event-time\": null", "\"event-time\": 5")
        .replace("\"value\": \"two\"", "\"value\": \"three\"")
        .replace(
            "\"to\": \"side\", \"value\": \"routed\"",
            "\"to\": \"other\"",
        )
        .replace("\"after-ms\": 250", "\"after-ms\": 251")
        .replace("not for me", "not for you")
        .replace("[\"remove\", \"gone\"]", "[\"remove\", \"here\"]")
        .replace("\"value\": 20", "\"value\": 21")
        .replace("\"count\": 10", "\"count\": 11")
        .replace("\"log\": []", "\"log\": [[\"info\", \"a line\"]]");
    let said = differences(&run("every", &text));
    assert_eq!(
        said,
        [
            r#"record 1: expected "drop", came "pass""#,
            r#"record 4, event-time: expected 5, came null"#,
            r#"record 5, headers, change 3: expected ["remove", "here"], came ["remove", "gone"]"#,
            r#"record 7, piece 2, value: expected "three", came "two""#,
            r#"record 7, piece 3, headers, change 3: expected ["remove", "here"], came ["remove", "gone"]"#,
            r#"record 8, to: expected "other", came "side""#,
            r#"record 8, value: expected as it was, came "routed""#,
            r#"record 10, after-ms: expected 251, came 250"#,
            r#"record 12, dead-letter: expected "not for you", came "not for me""#,
            r#"log, line 1 of 0: expected ["info", "a line"], came nothing"#,
            r#"metric seen: expected 21, came 20"#,
            r#"metric took: expected {"count": 11, "sum": 7.5}, came {"count": 10, "sum": 7.5}"#,
        ]
    );
}

#[test]
fn a_record_that_the_operator_fails_of_is_found_among_the_others() {
    let records = r#"[{"value": "good"}, {"value": "bad"}, {"value": "good"}]"#;
    for (mode, why, limits) in [
        ("trap", "unreachable", "{}"),
        (
            "loop",
            "deadline: no answer within",
            r#"{"deadline": "200ms"}"#,
        ),
        ("grow", "limit 8 MiB", r#"{"memory": "8MiB"}"#),
        ("offsets", "bad answer: ", "{}"),
        ("error", "operator error hostile: I refuse", "{}"),
    ] {
        let case = format!(
            r#"{{"name": "bad", "records": {records}, "limits": {limits},
                "outcomes": ["pass", {{"poison": {{"contains": ["{why}"]}}}}, "pass"]}},
               {{"name": "raised", "records": {records}, "limits": {limits},
                "outcomes": ["pass", {{"raised": {{"contains": ["{why}"]}}}}, "pass"]}}"#
        );
        passes(&run(mode, &case));
    }
    let case =
        format!(r#"{{"name": "bad", "records": {records}, "outcomes": ["pass", "pass", "pass"]}}"#);
    let said = differences(&run("trap", &case));
    assert!(
        said[0].starts_with(r#"record 2: expected "pass", came {"poison": "trap: wasm trap: wasm `unreachable` instruction executed"} with "#),
        "{said:?}"
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_batch_that_fails_in_words_is_held_against_its_failure() {
    let plain = bytes_of("plain");
    for (mode, class) in [("transient", "transient"), ("permanent", "permanent")] {
        let case = format!(
            r#"{{"name": "fails", "records": [{{"value": "bad"}}],
                "failure": {{"class": "{class}", "code": "plain", "message": {{"contains": ["this batch"]}}}}}}"#
        );
        passes(&run_over(&plain, file(mode, &case)));
    }
    let case = r#"{"name": "fails", "records": [{"value": "bad"}],
        "failure": {"class": "permanent", "code": "other", "message": "no"}}"#;
    let said = differences(&run_over(&plain, file("transient", case)));
    assert!(
        said[0].starts_with("failure, class: expected permanent, came transient: "),
        "{said:?}"
    );
    assert_eq!(said[1], r#"failure, code: expected "other", came "plain""#);
    assert!(
        said[2].starts_with(r#"failure, message: expected "no", came "this batch"#),
        "{said:?}"
    );
    let case =
        r#"{"name": "fails", "records": [{"value": "good"}], "failure": {"class": "permanent"}}"#;
    let said = differences(&run_over(&plain, file("permanent", case)));
    assert_eq!(
        said,
        [r#"the case: expected a batch that fails: {"class": "permanent"}, came outcomes"#]
    );
}

#[test]
fn a_configuration_that_is_refused_is_held_against_its_refusal() {
    for (mode, refused) in [
        (
            "init-error",
            r#"{"class": "permanent", "code": "hostile", "message": "the configuration does not please me"}"#,
        ),
        ("init-trap", r#"{"message": {"contains": ["trap: "]}}"#),
        (
            "init-grow",
            r#"{"message": {"contains": ["memory: needed "]}}"#,
        ),
    ] {
        passes(&run(
            mode,
            &format!(r#"{{"name": "refused", "refused": {refused}}}"#),
        ));
    }
    let cases = r#"{"config": {"treshold": 1}, "cases": [
        {"name": "by the schema", "refused": {"class": "bad-configuration", "message": {"contains": ["treshold"]}}}]}"#;
    let cases = CaseFile::parse(std::path::Path::new("cases.json"), cases.to_owned()).unwrap();
    passes(&run_over(&bytes_of("drop-abuse"), cases));
    let said = differences(&run(
        "pass",
        r#"{"name": "refused", "refused": {"code": "no"}}"#,
    ));
    assert_eq!(
        said,
        [r#"the case: expected a start that is refused: {"code": "no"}, came outcomes"#]
    );
    let case = r#"{"name": "starts", "records": [{}], "outcomes": ["pass"]}"#;
    let said = differences(&run("init-error", case));
    assert!(
        said[0].starts_with(r#"the case: expected outcomes, came a start that is refused: {"class": "permanent", "code": "hostile""#),
        "{said:?}"
    );
}

#[test]
fn clock_seed_and_identity_are_those_of_the_case() {
    passes(&run(
        "clock",
        r#"{"name": "a clock", "clock": -3, "records": [{}], "outcomes": [{"dead-letter": "-3"}]},
           {"name": "the usual one", "records": [{}], "outcomes": [{"dead-letter": "1700000000000000"}]}"#,
    ));
    // Identity, event time, key, value, headers, attributes, clock and seed.
    passes(&run(
        "echo",
        r#"{"name": "all that there is", "seed": "01000000000000000200000000000000", "clock": 9,
            "records": [{"key": "k", "headers": {"a": null}, "event-time": 5,
                "id": {"origin": "timer", "source": 1, "partition": 2, "offset": 3, "emit": 4}}],
            "outcomes": [{"dead-letter": "((1, 1, 2, 3, 4), Some(5), Some([107]), None, [(\"a\", None)], [], (9, (1, 2)))"}]},
           {"name": "the usual seed", "records": [{}],
            "outcomes": [{"dead-letter": {"contains": ["(1700000000000000, (7358992177779908705, 8319401291237323375))"]}}]}"#,
    ));
}

#[test]
fn every_line_of_the_log_is_there_and_no_limit_of_lines_a_second() {
    let lines: Vec<String> = (0..10_000)
        .map(|line| format!("[\"info\", \"line {line}\"]"))
        .collect();
    let case = format!(
        r#"{{"name": "a flood", "records": [{{}}], "outcomes": ["pass"], "log": [{}]}}"#,
        lines.join(", ")
    );
    let said = differences(&run("flood", &case));
    assert_eq!(said, ["log: expected 10000 lines, came 10001 lines"]);
}

#[test]
fn what_comes_again_is_given_again_with_the_clock_so_much_later() {
    passes(&run(
        "count",
        r#"{"name": "again", "records": [{"id": {"offset": 1}}],
            "outcomes": [{"retry": {"after-ms": 0, "reason": "once more", "then": {"retry": {"after-ms": 0, "reason": {"contains": ["once"]}}}}}],
            "metrics": []}"#,
    ));
    let said = differences(&run(
        "count",
        r#"{"name": "again", "records": [{"id": {"offset": 1}}],
            "outcomes": [{"retry": {"after-ms": 0, "reason": "once more", "then": "pass"}}]}"#,
    ));
    assert_eq!(
        said,
        [
            r#"record 1 when it comes again: expected "pass", came {"retry": {"after-ms": 0, "reason": "once more"}}"#
        ]
    );
}

#[test]
fn answers_that_depend_on_the_batch_are_told_so() {
    // Everything passes that comes alone, and several are dropped.
    let text = include_str!("../../src/bench/pass.wat");
    let fill =
        "(memory.fill (i32.add (local.get $at) (i32.const 40)) (i32.const 0) (local.get $count))";
    assert!(text.contains(fill));
    let by_number = fill.replace(
        "(i32.const 0)",
        "(i32.gt_u (local.get $count) (i32.const 1))",
    );
    let component = wat::parse_str(text.replace(fill, &by_number)).unwrap();
    let cases = r#"{"config": {"reads": "0"}, "cases": [
        {"name": "one", "records": [{}], "outcomes": ["pass"]},
        {"name": "two", "records": [{}, {}], "outcomes": ["drop", "drop"]}]}"#;
    let cases = CaseFile::parse(std::path::Path::new("cases.json"), cases.to_owned()).unwrap();
    let report = run_over(&component, cases);
    assert!(report.cases[0].passed(), "{report}");
    let said: Vec<String> = report.cases[1]
        .differences
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said[0],
        r#"record 1 given by itself, which its batch must not matter to: expected "drop", came "pass""#
    );
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn one_case_is_run_by_its_name_and_one_that_is_not_there_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cases.json");
    let cases = r#"{"config": {"mode": "pass"}, "cases": [
        {"name": "good", "records": [{}], "outcomes": ["pass"]},
        {"name": "wrong", "records": [{}], "outcomes": ["drop"]}]}"#;
    std::fs::write(&path, cases).unwrap();
    let only = |name: &str| Options {
        only: Some(name.to_owned()),
        ..patient()
    };
    let component = guest("hostile");
    let report = run_cases(&component, &path, &only("good")).unwrap();
    assert_eq!((report.passed(), report.failed()), (1, 0), "{report}");
    assert!(report.first_passed.is_some());
    let report = run_cases(&component, directory.path(), &patient()).unwrap();
    assert_eq!((report.passed(), report.failed()), (1, 1), "{report}");
    let shown = report.to_string();
    let line = format!(
        "failed  {}:3: case \"wrong\"\n    record 1: expected \"drop\", came \"pass\"\n",
        path.display()
    );
    assert!(
        shown.starts_with(&line) && shown.contains("\n1 passed, 1 failed, "),
        "{shown}"
    );
    let said = report.to_json();
    assert_eq!(said["cases"][1]["differences"][0]["came"], "\"pass\"");
    let error = run_cases(&component, &path, &only("other")).unwrap_err();
    assert!(matches!(error, TrialError::NoCase { .. }), "{error}");
    let error = run_cases(&path, &path, &patient()).unwrap_err();
    assert!(error.to_string().contains("is not an operator"), "{error}");
}

#[test]
fn a_case_that_takes_too_long_ends() {
    let records = vec![r#"{"value": "bad"}"#; 20].join(", ");
    let case = format!(
        r#"{{"name": "late", "limits": {{"deadline": "50ms"}}, "records": [{records}], "outcomes": [{}]}}"#,
        vec![r#"{"poison": {"contains": ["deadline"]}}"#; 20].join(", ")
    );
    let options = Options {
        case_time: std::time::Duration::from_millis(200),
        ..patient()
    };
    let hostile = bytes_of("hostile");
    let mut trial = Trial::new(&ENGINE, &hostile, "guest", &options).unwrap();
    let report = trial.run(&[file("loop", &case)]).unwrap();
    assert_eq!(
        differences(&report),
        ["the batch: expected an answer, came none within 200ms"]
    );
}
