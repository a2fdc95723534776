//! Cases in files.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_sdk::Described;
use tidegate_sdk::metrics::{Counter, Gauge, Histogram};
use tidegate_sdk::prelude::*;

const SEEN: Counter = Counter::new("seen", "Records seen").labels(&["kind"]);
const LENGTH: Gauge = Gauge::new("length", "Bytes of the last value");
const SPREAD: Histogram = Histogram::new("spread", "Bytes of values");

/// What it does.
#[derive(Configuration)]
struct Config {
    /// Put before each value.
    #[config(default)]
    prefix: String,
}

/// Puts a text before each value, and obeys some.
#[operator(name = "prefix", metrics = [SEEN, LENGTH, SPREAD])]
fn prefix(record: &Record, config: &Config) -> Result<Outcome, FieldError> {
    let text = record.text()?;
    SEEN.add_for(&["text"], 1);
    LENGTH.set(text.len() as f64);
    SPREAD.observe(text.len() as f64);
    Ok(match text {
        "panic" => panic!("asked to"),
        "fail" => Outcome::Fail(Failure::transient("later", "not now")),
        "log" => {
            log!(Level::Warn, "a line");
            Outcome::Pass
        }
        "later" => Outcome::retry(std::time::Duration::from_millis(5), "busy"),
        "many" => Outcome::split(vec![Changes::new().remove_header("h"); 3]),
        _ => Outcome::replace(Changes::new().value(format!("{}{text}", config.prefix))),
    })
}

/// What differs of one case.
fn run(case: Value) -> Vec<String> {
    run_over::<Prefix>(json!({"prefix": "> "}), case)
}

fn run_over<T: Described>(config: Value, mut case: Value) -> Vec<String> {
    let file = std::env::temp_dir().join(format!(
        "tidegate-cases-{}-{:?}.json",
        std::process::id(),
        std::thread::current().id()
    ));
    case["name"] = "it".into();
    let text = json!({"config": config, "cases": [case]}).to_string();
    std::fs::write(&file, text).unwrap();
    let report = Harness::<T>::try_cases(&file);
    std::fs::remove_file(&file).unwrap();
    match report {
        Ok(report) => report.differences,
        Err(why) => vec![why],
    }
}

#[test]
fn a_case_that_comes_as_it_is_expected_differs_in_nothing() {
    let none: Vec<String> = Vec::new();
    let one = json!({
        "records": [{"value": "a"}, {"value": {"repeat": "ab", "times": 2}}, {"value": "log"}, {"value": "many"}, {}],
        "outcomes": [
            {"replace": {"value": "> a"}},
            {"replace": {"value": {"base64": "PiBhYmFi"}, "headers": []}},
            "pass",
            {"split": {"repeat": {"headers": [["remove", "h"]]}, "times": 3}},
            {"dead-letter": {"contains": ["null"]}}
        ],
        "log": [["warn", "a line"]],
        "metrics": [
            {"name": "spread", "value": {"count": 4, "sum": 12}},
            {"name": "length", "value": 4.0},
            {"name": "seen", "labels": {"kind": "text"}, "value": 4}
        ]
    });
    assert_eq!(run(one), none);
    let other = json!({"config": {}, "records": [{"value": "a"}], "outcomes": [{"replace": {"value": "a"}}]});
    assert_eq!(run(other), none);
    let panics = json!({
        "records": [{"value": "a"}, {"value": "panic"}, {"value": "b"}],
        "outcomes": [{"replace": {"value": "> a"}}, {"raised": {"contains": ["asked to"]}}, {"replace": {"value": "> b"}}]
    });
    assert_eq!(run(panics), none);
    let fails =
        json!({"records": [{"value": "fail"}], "failure": {"class": "transient", "code": "later"}});
    assert_eq!(run(fails), none);
    let refused = json!({"config": {"suffix": 1}, "refused": {"class": "bad-configuration", "message": {"contains": ["`suffix`"]}}});
    assert_eq!(run(refused), none);
    let again = json!({"records": [{"value": "later"}], "outcomes": [{"retry": {"after-ms": 5, "reason": "busy", "then": "drop"}}]});
    assert_eq!(run(again), none);
    let left_out = json!({"sandbox": true, "records": [{"value": "a"}], "outcomes": ["drop"]});
    assert_eq!(run(left_out), none);
}

#[test]
fn what_differs_is_named_by_record_and_field() {
    for (case, differs) in [
        (
            json!({"records": [{"value": "a"}, {"value": "b"}], "outcomes": [{"replace": {"value": "> a"}}, {"replace": {"value": "> c"}}]}),
            r#"case "it", record 2, replace, value: expected "> c", found "> b""#,
        ),
        (
            json!({"records": [{"value": "a"}], "outcomes": ["pass"]}),
            r#"case "it", record 1: expected "pass", found {"replace":{"value":"> a"}}"#,
        ),
        (
            json!({"records": [{"value": "a"}], "outcomes": [{"replace": {"key": null, "value": "> a"}}]}),
            r#"case "it", record 1, replace, key: expected null, found nothing"#,
        ),
        (
            json!({"records": [{"value": "many"}], "outcomes": [{"split": {"repeat": {"headers": [["remove", "h"]]}, "times": 2}}]}),
            r#"case "it", record 1, split: expected 2 entries, found 3"#,
        ),
        (
            json!({"config": {}, "records": [{"value": {"repeat": "x", "times": 1000}}], "outcomes": [{"replace": {"value": {"repeat": "x", "times": 1002}}}]}),
            r#"case "it", record 1, replace, value from byte 1000 on: expected "#,
        ),
        (
            json!({"records": [{"value": "log"}], "outcomes": ["pass"], "log": [["info", "a line"]]}),
            r#"case "it", log[1][1]: expected "info", found "warn""#,
        ),
        (
            json!({"records": [{"value": "log"}], "outcomes": ["pass"], "metrics": []}),
            r#"case "it", metrics: expected nothing, found {"labels":{},"name":"length","value":3.0}"#,
        ),
        (
            json!({"records": [{"value": "fail"}], "outcomes": ["pass"]}),
            r#"case "it": it fails the batch: {"class":"transient","code":"later","message":"not now"}"#,
        ),
        (
            json!({"records": [{"value": "a"}], "failure": {"code": "later"}}),
            r#"case "it": expected that it fails the batch, it answers"#,
        ),
        (
            json!({"refused": {"code": "no"}}),
            r#"case "it": expected that it does not start, it does"#,
        ),
        (
            json!({"records": [{"value": "panic"}], "outcomes": [{"dead-letter": "asked to"}]}),
            r#"case "it", record 1: expected {"dead-letter":"asked to"}, found {"raised":"panicked: asked to"}"#,
        ),
    ] {
        let found = run(case);
        let plain = |text: &str| {
            text.replace(
                r#""labels":{},"name":"length""#,
                r#""name":"length","labels":{}"#,
            )
        };
        assert!(
            found
                .iter()
                .any(|found| plain(found).contains(&plain(differs))),
            "{differs}\n{found:#?}"
        );
    }
}

/// Takes no text for nothing to do, and so never says what it has held back.
struct Hasty;

#[operator(name = "hasty", tokens)]
impl Operator for Hasty {
    fn new(_: NoConfig) -> Result<Hasty, Failure> {
        Ok(Hasty)
    }

    fn process(&mut self, _: &Record<'_>) -> Outcome {
        Outcome::Pass
    }
}

impl Tokens for Hasty {
    type Answer = String;

    fn open(&self, _: &Lane<'_>) -> Result<String, Failure> {
        Ok(String::new())
    }

    fn step(&self, held: &mut String, text: &str, last: bool) -> Through {
        held.push_str(text);
        match last && !text.is_empty() {
            true => Through::text(std::mem::take(held)),
            false => Through::default(),
        }
    }
}

#[test]
fn cases_find_what_is_lost_where_the_end_comes_without_a_text() {
    let case = json!({"tokens": {"pieces": ["a", "b"], "through": ["", "ab"]}});
    let found = run_over::<Hasty>(json!({}), case);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("the same text with its end apart"),
        "{found:?}"
    );
}

#[test]
fn a_file_that_is_none_of_cases_is_refused_by_place() {
    for (case, why) in [
        (
            json!({}),
            "has [], expected one of outcomes, failure and refused",
        ),
        (
            json!({"outcomes": [], "refused": {}}),
            "expected one of outcomes",
        ),
        (
            json!({"outcome": []}),
            r#"has the member "outcome", known are name"#,
        ),
        (
            json!({"records": [{"value": 5}], "outcomes": ["pass"]}),
            "records[1].value is 5, expected a text",
        ),
        (
            json!({"records": [{"valu": ""}], "outcomes": ["pass"]}),
            r#"records[1] has the member "valu""#,
        ),
        (
            json!({"records": [{}], "outcomes": []}),
            "outcomes are 0, records 1",
        ),
        (
            json!({"records": [{}], "outcomes": ["passes"]}),
            r#"outcomes[1] is "passes""#,
        ),
        (
            json!({"records": [{}], "outcomes": [{"route": {}}]}),
            "outcomes[1].route.to is missing",
        ),
        (
            json!({"records": [{}], "outcomes": [{"replace": {"to": "a"}}]}),
            r#"outcomes[1].replace has the member "to""#,
        ),
        (
            json!({"records": [{}], "outcomes": [{"replace": {"headers": [["put", "a", "b"]]}}]}),
            "outcomes[1].replace.headers[1] is ",
        ),
        (
            json!({"records": [{}], "outcomes": [{"dead-letter": {"has": []}}]}),
            "outcomes[1].dead-letter is ",
        ),
        (
            json!({"records": [{"id": {"source": 65536}}], "outcomes": ["pass"]}),
            "records[1].id.source is 65536, expected a whole number, at most 65535",
        ),
        (
            json!({"records": [{"headers": {"repeat": ["a", "b"], "times": 65536}}], "outcomes": ["pass"]}),
            "records[1].headers has the times 65536",
        ),
        (
            json!({"seed": "00", "outcomes": []}),
            "seed is \"00\", expected 32 hexadecimal digits",
        ),
    ] {
        let found = run(case);
        assert!(
            found[0].starts_with("case \"it\": ") && found[0].contains(why),
            "{why}\n{found:#?}"
        );
    }
    let none = Harness::<Prefix>::try_cases(Path::new("no-such-file.json"));
    assert!(none.unwrap_err().contains("No such file"));
}
