//! `tidegate component --try`: an operator's answers to a few records, before it is near a stream.

use tidegate_tests::{Workspace, operator};

/// Tries a guest of the tests: the exit code, and what was printed on both ways out.
fn tried(name: &str, records: Option<&str>, config: &str) -> (Option<i32>, String, String) {
    let workspace = Workspace::new("");
    let component = operator(name);
    let component = component.to_str().unwrap();
    let mut arguments = vec!["component", component, "--try"];
    if let Some(records) = records {
        workspace.write("records.jsonl", records);
        arguments.push("records.jsonl");
    }
    arguments.extend(["--config", config]);
    let output = workspace.run(&arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn an_operator_is_tried_on_records_and_its_answers_are_shown() {
    for (guest, name) in [("hostile", "packed"), ("plain", "plain")] {
        let (code, shown, error) = tried(guest, None, r#"{"mode": "every"}"#);
        assert_eq!(code, Some(0), "{name}: {error}");
        for line in [
            "record 0/0/0    pass\n",
            "record 0/0/1    drop\n",
            "record 0/0/2    replace  unchanged\n",
            "record 0/0/3    replace  key null, value \"\", no event time\n",
            "record 0/0/4    replace  key \"\\u{0}\u{fffd}\", value null, set header h to \"new\", add header h null, \
             remove header gone, set attribute ä to \"\", event time -7\n",
            "record 0/0/5    split    into 0\n",
            "record 0/0/6    split    into 3\n    main output: unchanged\n    output \"other\": value \"two\"\n",
            "metric    seen{} 14\n",
            "metric    level{lang=\"dé\"} -1.5\n",
            "metric    took{} 7 values, sum 5.25\n",
            "time      ",
            "memory    ",
        ] {
            assert!(shown.contains(line), "{name}: {line:?} in\n{shown}");
        }
    }
}

#[test]
fn a_bad_answer_is_said_with_its_record_and_its_byte() {
    let records =
        "{\"value\": \"good\"}\n\n{\"key\": \"k\", \"value\": \"bad\"}\n{\"value\": null}\n";
    let (code, shown, error) = tried("hostile", Some(records), r#"{"mode": "offsets"}"#);
    assert_eq!(code, Some(1));
    let failed = "record 0/0/1    FAILED bad answer: outcome of record 0 is malformed at byte 46: \
        a length that reaches beyond the end (record 0/0/1)\n";
    assert!(shown.contains(failed), "{shown}");
    assert!(shown.contains("record 0/0/0    pass\n") && shown.contains("record 0/0/2    pass\n"));
    assert!(shown.contains("lost      "), "{shown}");
    assert!(error.contains(": 1 of 3 records have no answer"), "{error}");
    // A failure in words ends as well.
    let (code, shown, _) = tried("plain", Some(records), r#"{"mode": "permanent"}"#);
    assert_eq!(code, Some(1));
    let failed = "record 0/0/1    FAILED operator error plain: this batch is not for me\n";
    assert!(shown.contains(failed), "{shown}");
    let (code, _, error) = tried("plain", Some(records), r#"{"mode": "transient"}"#);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("operator error plain (transient): "),
        "{error}"
    );
}

#[test]
fn records_and_configurations_that_are_none_are_refused_by_their_place() {
    let (code, _, error) = tried("plain", Some("{}\n{\"val\": 1}\n"), "{}");
    assert_eq!(code, Some(2));
    assert!(
        error.contains("records.jsonl line 2: it has \"val\"; there are key, value, headers"),
        "{error}"
    );
    let (code, _, error) = tried("plain", None, "[]");
    assert_eq!(code, Some(2));
    assert!(
        error.contains("config: want object, but got array"),
        "{error}"
    );
    let (code, _, error) = tried("drop-abuse", None, r#"{"treshold": 1}"#);
    assert_eq!(code, Some(2));
    assert!(error.contains("'treshold' not allowed"), "{error}");
}

#[test]
fn check_has_an_operator_answer_the_samples_of_its_stage() {
    let pipeline = |mode: &str| {
        format!(
            "[pipeline]\nname = \"checked\"\n[source.in]\ntype = \"file\"\npaths = [\"in.jsonl\"]\n\
             [[stage]]\nname = \"guest\"\noperator = \"{{operators}}/hostile.wasm\"\n\
             config = {{ mode = \"{mode}\" }}\nsamples = \"samples.jsonl\"\n\
             [sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n"
        )
    };
    let workspace = Workspace::new(&pipeline("trap"));
    workspace.write("in.jsonl", "");
    let samples = "{\"value\": \"good\"}\n{\"value\": \"bad\"}\n{\"value\": \"good\"}\n";
    workspace.write("samples.jsonl", samples);
    let refused = workspace.run(&["check", "pipeline.toml"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(
        error.contains("stage.guest: samples: ")
            && error.contains("samples.jsonl: record 2: trap: "),
        "{error}"
    );
    workspace.pipeline(&pipeline("pass"));
    let checked = workspace.run(&["check", "pipeline.toml"]);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    workspace.pipeline(&pipeline("pass").replace("samples.jsonl", "none.jsonl"));
    let refused = workspace.run(&["check", "pipeline.toml"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("none.jsonl"), "{error}");
}
