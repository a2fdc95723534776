//! The format: what is read, what is refused, and that the schema says the same.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_trial::{CaseFile, CasesError, SCHEMA};

fn read(file: &Value) -> Result<CaseFile, String> {
    parse(&format!("{file:#}"))
}

fn parse(text: &str) -> Result<CaseFile, String> {
    let file = CaseFile::parse(Path::new("cases.json"), text.to_owned());
    file.map_err(|error| error.to_string())
}

/// Whether the schema accepts a file.
fn fits(file: &Value) -> bool {
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    compiler.add_resource("cases.schema.json", schema).unwrap();
    let index = compiler.compile("cases.schema.json", &mut schemas).unwrap();
    schemas.validate(file, index).is_ok()
}

fn of_case(case: Value) -> Value {
    json!({"cases": [case]})
}

fn of_outcome(outcome: Value) -> Value {
    of_case(json!({"name": "a", "records": [{}], "outcomes": [outcome]}))
}

fn of_record(record: Value) -> Value {
    of_case(json!({"name": "a", "records": [record], "outcomes": ["pass"]}))
}

#[test]
fn everything_the_format_has_is_read_and_fits_the_schema() {
    let all = json!({
        "$schema": "tidegate/cases.schema.json",
        "config": {"a": 1},
        "cases": [
            {
                "name": "everything of a record",
                "config": {},
                "clock": -1, "seed": "000102030405060708090a0b0c0d0eFF",
                "limits": {"memory": "64MiB", "total-memory": "1GiB", "output": "1 MiB", "deadline": "1.5s", "bisect": "2m"},
                "sandbox": true,
                "records": [
                    {},
                    {"key": null, "value": "text", "headers": [["a", "b"], ["a", null]], "attributes": {"x": null},
                     "event-time": null, "id": {}},
                    {"key": {"base64": "/w=="}, "value": {"repeat": "xy", "times": 3}, "headers": {"repeat": ["n", "v"], "times": 65535},
                     "attributes": {"repeat": "the value of one", "times": "of another"}, "event-time": -5,
                     "id": {"origin": "timer", "source": 1, "partition": 2, "offset": u64::MAX, "emit": 4}},
                    {"value": {"json": {"b": [1, null]}}},
                ],
                "outcomes": ["pass", "drop", "pass", "pass"],
                "log": [["warn", "a line"], ["trace", {"contains": ["a"]}]],
                "metrics": [{"name": "a", "value": 1}, {"name": "b", "labels": {"c": "d"}, "value": {"count": 1, "sum": 0.5}}],
            },
            {
                "name": "every outcome",
                "records": [{}, {}, {}, {}, {}, {}, {}, {}, {}],
                "outcomes": [
                    {"replace": {"key": "k", "value": null, "headers": [["set", "a", "b"], ["add", "a", null], ["remove", "c"]],
                                 "attributes": [], "event-time": 1}},
                    {"replace": {"event-time": null}},
                    {"split": [{"value": "a"}, {"to": "left", "value": {"base64": "/w=="}}]},
                    {"split": {"repeat": {"to": "left"}, "times": 4095}},
                    {"route": {"to": "left", "headers": [["set", "n", "v"]]}},
                    {"retry": {"after-ms": 1500, "reason": "busy", "then": {"retry": {"after-ms": 0, "reason": {"contains": []}}}}},
                    {"dead-letter": "why"},
                    {"poison": {"contains": ["deadline"]}},
                    {"raised": {"contains": ["boom"]}},
                ],
            },
            {"name": "a failure", "records": [{}], "failure": {"class": "transient", "code": "not-now", "message": {"contains": ["busy"]}}},
            {"name": "a refusal", "refused": {"message": "no"}},
            {"name": "nothing yet", "records": [{}]},
            {"name": "a text", "tokens": {"lane": "reasoning", "model": "m", "choice": 1, "record": "r", "attributes": [["a", "b"]],
                                          "pieces": ["a", ""], "through": ["a", ""], "end": "stop"}, "log": []},
            {"name": "in sum", "tokens": {"lane": {"arguments": 7}, "pieces": ["a"], "through": "a", "end": null}},
            {"name": "a text that fails", "tokens": {"pieces": ["a"]}, "failure": {"code": "no"}},
        ],
    });
    let read = read(&all).unwrap();
    assert!(fits(&all));
    let names: Vec<_> = read.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(read.cases[0].line, 7, "{names:?}");
}

#[test]
fn a_mistake_is_said_with_its_file_line_case_and_member() {
    let text = r#"{"cases": [
  {"name": "good", "records": [], "outcomes": []},
  {"name": "an e-mail address",
   "records": [{"value": "a"},
     {"valeu": "b"}],
   "outcomes": ["pass", "pass"]}]}"#;
    assert_eq!(
        parse(text).unwrap_err(),
        "cases.json line 5 column 6: case \"an e-mail address\": records[2]: it has \"valeu\"; there are key, value, headers, \
         attributes, event-time, id"
    );
}

#[test]
fn what_is_wrong_is_refused_by_the_reader_and_by_the_schema() {
    let text = |length| json!({"repeat": "x", "times": length});
    for (file, why) in [
        (json!([]), "[] is not an object"),
        (json!({}), "it has no \"cases\""),
        (
            json!({"cases": [], "case": 1}),
            "it has \"case\"; there are $schema, config, cases",
        ),
        (of_case(json!({})), "cases[1]: it has no \"name\""),
        (
            of_case(json!({"name": ""})),
            "cases[1].name: \"\" is not a text of 1 to 500 bytes",
        ),
        (
            of_case(json!({"name": "a", "recrods": []})),
            "case \"a\": it has \"recrods\"; there are name, config",
        ),
        (
            of_case(json!({"name": "a", "clock": 1.5})),
            "clock: 1.5 is not a whole number of microseconds",
        ),
        (
            of_case(json!({"name": "a", "seed": "0g"})),
            "seed: \"0g\" is not 32 hexadecimal digits",
        ),
        (
            of_case(json!({"name": "a", "limits": {"memory": "64MB"}})),
            "limits.memory: \"64MB\" is not a size",
        ),
        (
            of_case(json!({"name": "a", "tokens": {}})),
            "tokens: it has no \"pieces\"",
        ),
        (
            of_case(json!({"name": "a", "tokens": {"pieces": []}})),
            "tokens.pieces: 0 pieces, from 1 to 10000 can be",
        ),
        (
            of_case(json!({"name": "a", "tokens": {"pieces": ["a"], "lane": "said"}})),
            "tokens.lane: \"said\" is not \"content\", \"reasoning\" or {\"arguments\": 0}",
        ),
        (
            of_case(json!({"name": "a", "tokens": {"pieces": ["a"], "lane": {"arguments": -1}}})),
            "tokens.lane.arguments: -1 is not the index of a call",
        ),
        (
            of_case(json!({"name": "a", "tokens": {"pieces": ["a"], "through": 1}})),
            "tokens.through: 1 is not a text, or a list of one for each piece",
        ),
        (
            of_case(json!({"name": "a", "tokens": {"pieces": ["a"], "end": "now"}})),
            "tokens.end: \"now\" is not \"stop\", \"filtered\" or null",
        ),
        (
            of_case(json!({"name": "a", "tokens": {"pieces": ["a"]}, "records": []})),
            "records: a case that has tokens has no records",
        ),
        (
            of_case(
                json!({"name": "a", "tokens": {"pieces": ["a"], "end": "stop"}, "failure": {"code": "no"}}),
            ),
            "a text that fails has neither \"through\" nor \"end\"",
        ),
        (
            of_case(json!({"name": "a", "limits": {"deadline": "soon"}})),
            "limits.deadline: \"soon\" is not a duration",
        ),
        (
            of_case(json!({"name": "a", "limits": {"retries": 1}})),
            "limits: it has \"retries\"; there are memory",
        ),
        (
            of_case(json!({"name": "a", "sandbox": 1})),
            "sandbox: 1 is not true or false",
        ),
        (
            of_case(json!({"name": "a", "records": [], "outcomes": [], "failure": {"code": "b"}})),
            "more than one of outcomes",
        ),
        (
            of_case(json!({"name": "a", "records": [], "refused": {"code": "b"}})),
            "is refused has no records",
        ),
        (
            of_case(json!({"name": "a", "failure": {}})),
            "failure: it has none of class, code, message",
        ),
        (
            of_case(json!({"name": "a", "failure": {"class": "fatal"}})),
            "failure.class: \"fatal\" is not \"transient\"",
        ),
        (
            of_case(json!({"name": "a", "log": [["loud", "b"]]})),
            "log[1][1]: \"loud\" is not trace, debug",
        ),
        (
            of_case(json!({"name": "a", "log": [["warn"]]})),
            "log[1]: [\"warn\"] is not [level, line]",
        ),
        (
            of_case(json!({"name": "a", "metrics": [{"name": "b"}]})),
            "metrics[1]: it has no \"value\"",
        ),
        (
            of_case(json!({"name": "a", "metrics": [{"name": "b", "value": {"sum": 1}}]})),
            "value: it has no \"count\"",
        ),
        (
            of_record(json!("text")),
            "records[1]: \"text\" is not an object",
        ),
        (
            of_record(json!({"value": 1})),
            "records[1].value: 1 is not a text, null, {\"base64\": text}",
        ),
        (
            of_record(json!({"value": {"base64": 1}})),
            "value.base64: 1 is not a text",
        ),
        (
            of_record(json!({"value": {"json": 1, "times": 2}})),
            "is not a text, null",
        ),
        (
            of_record(json!({"value": {"repeat": "x"}})),
            "is not a text, null",
        ),
        (
            of_record(json!({"value": text(67_108_865)})),
            "times: 67108865 is not a whole number from 0 to 67108864",
        ),
        (
            of_record(json!({"headers": [["a"]]})),
            "headers[1]: [\"a\"] is not [name, value]",
        ),
        (
            of_record(json!({"headers": {"repeat": ["a", "b"], "times": 65537}})),
            "from 0 to 65536",
        ),
        (
            of_record(json!({"event-time": "now"})),
            "event-time: \"now\" is not a whole number of microseconds",
        ),
        (
            of_record(json!({"id": {"source": 65536}})),
            "id.source: 65536 is not a whole number from 0 to 65535",
        ),
        (
            of_record(json!({"id": {"origin": "file"}})),
            "id.origin: \"file\" is not \"source\" or \"timer\"",
        ),
        (
            of_outcome(json!("passes")),
            "outcomes[1]: \"passes\" is not \"pass\", \"drop\"",
        ),
        (
            of_outcome(json!({"keep": {}})),
            "outcomes[1]: {\"keep\":{}} is not \"pass\"",
        ),
        (
            of_outcome(json!({"replace": {"to": "left"}})),
            "what goes to a named output is a route",
        ),
        (
            of_outcome(json!({"route": {"value": "a"}})),
            "route: it has no \"to\"",
        ),
        (
            of_outcome(json!({"split": {"repeat": {}, "times": 4097}})),
            "from 0 to 4096",
        ),
        (
            of_outcome(json!({"retry": {"reason": "a"}})),
            "retry: it has no \"after-ms\"",
        ),
        (
            of_outcome(json!({"retry": {"after-ms": -1, "reason": "a"}})),
            "after-ms: -1 is not a whole number",
        ),
        (
            of_outcome(json!({"dead-letter": {"contain": []}})),
            "it has \"contain\"; there are contains",
        ),
        (
            of_outcome(json!({"replace": {"headers": [["put", "a", "b"]]}})),
            "headers[1]: [\"put\",\"a\",\"b\"] is not [\"set\"",
        ),
        (
            of_outcome(json!({"replace": {"headers": [["remove", "a", "b"]]}})),
            "is not [\"set\", name, bytes]",
        ),
    ] {
        // Compact, so that an error shows the value as it stands here.
        let error = parse(&file.to_string()).unwrap_err();
        assert!(error.contains(why), "{file}: {error}");
        assert!(!fits(&file), "the schema accepts {file}");
    }
}

#[test]
fn what_a_schema_cannot_say_is_refused_by_the_reader() {
    let retry = |then: Value| json!({"retry": {"after-ms": 0, "reason": "", "then": then}});
    let again = retry(retry(retry(retry(json!("pass")))));
    for (file, why) in [
        (
            json!({"cases": [{"name": "a"}, {"name": "a"}]}),
            "another case has the name \"a\"",
        ),
        (
            of_case(json!({"name": "a", "records": [{}], "outcomes": []})),
            "outcomes: 0 outcomes of 1 records",
        ),
        (
            of_case(json!({"name": "a", "limits": {"memory": "1KiB"}})),
            "limits.memory: \"1KiB\" is not 64KiB to 4GiB",
        ),
        (
            of_case(json!({"name": "a", "limits": {"deadline": "2h"}})),
            "limits.deadline: \"2h\" is not 1ms to 1h",
        ),
        (
            of_record(json!({"value": {"base64": "_"}})),
            "value.base64: it is not base64",
        ),
        (of_outcome(again), "a record comes again at most 3 times"),
    ] {
        let error = read(&file).unwrap_err();
        assert!(error.contains(why), "{file}: {error}");
    }
    let error = parse("{\"cases\": [{\"name\": \"a\", \"name\": \"b\"}]}").unwrap_err();
    assert!(
        error.contains("line 1 column 12: cases[1]: it has \"name\" twice"),
        "{error}"
    );
    assert!(
        parse("{\"cases\": [}")
            .unwrap_err()
            .contains("line 1 column 12: it is not JSON")
    );
}

#[test]
fn a_short_file_does_not_become_a_large_one() {
    let large = json!({"value": {"repeat": "x", "times": 64 << 20}});
    let file =
        of_case(json!({"name": "a", "records": [large, large, large, large, {"value": "x"}]}));
    let error = read(&file).unwrap_err();
    assert!(
        error
            .contains("records[5].value: with it the file's fields have more than 268435456 bytes"),
        "{error}"
    );
}

#[test]
fn a_long_file_of_many_cases_is_looked_at_once() {
    let between = "\n".repeat(4000);
    let cases = (0..10_000).map(|number| format!("{between}{{\"name\": \"{number}\"}}"));
    let text = format!("{{\"cases\": [{}]}}", cases.collect::<Vec<_>>().join(","));
    let file = parse(&text).unwrap();
    let lines: Vec<usize> = file.cases.iter().map(|case| case.line).collect();
    assert!((0..10_000).all(|at| lines[at] == 4000 * (at + 1) + 1));
}

#[test]
fn a_directory_is_all_of_its_files_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let none = CaseFile::open_all(path).unwrap_err();
    assert!(matches!(none, CasesError::NoFiles { .. }), "{none}");
    for (name, case) in [("b.json", "second"), ("a.json", "first")] {
        let text = format!("{{\"cases\": [{{\"name\": \"{case}\"}}]}}");
        std::fs::write(path.join(name), text).unwrap();
    }
    std::fs::write(path.join("notes.txt"), "no cases").unwrap();
    let files = CaseFile::open_all(path).unwrap();
    let names: Vec<_> = files
        .iter()
        .map(|file| file.cases[0].name.as_str())
        .collect();
    assert_eq!(names, ["first", "second"]);
    let missing = CaseFile::open_all(&path.join("c.json")).unwrap_err();
    assert!(
        missing.to_string().contains("c.json: No such file"),
        "{missing}"
    );
}

#[test]
fn a_file_that_is_no_text_or_no_file_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json");
    std::fs::write(&path, b"{\n  \"\xc3\xa4\xff").unwrap();
    let error = CaseFile::open(&path).unwrap_err();
    assert!(matches!(error, CasesError::Mistake { .. }), "{error}");
    let said = error.to_string();
    assert!(said.ends_with("line 2 column 5: it is not UTF-8"), "{said}");
    let pipe = directory.path().join("b.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let said = CaseFile::open(&pipe).unwrap_err().to_string();
    assert!(said.ends_with("it is no regular file"), "{said}");
}
