//! Malformed input, and malformed pipeline files.

use tidegate_tests::Workspace;

const PIPELINE: &str = r#"
[pipeline]
name = "malformed"
[source.in]
type = "file"
paths = ["in.jsonl"]
key = "k"
required = ["text"]
[[stage]]
name = "abuse"
operator = "{operators}/drop-abuse.wasm"
config = { paths = ["text"], words = ["grumble"] }
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#;

#[test]
fn malformed_input_becomes_dead_letters_with_a_reason() {
    let workspace = Workspace::new(PIPELINE);
    let mut input = Vec::new();
    let good = b"{\"k\":\"a\",\"text\":\"fine\"}\n";
    for bad in [
        b"not json at all\n".to_vec(),
        b"{\"k\":\"a\",\"text\":\"\xff\xfe\"}\n".to_vec(),
        b"\n".to_vec(),
        [
            b"{\"k\":\"a\",\"text\":\"".to_vec(),
            vec![b'x'; 50 << 20],
            b"\"}\n".to_vec(),
        ]
        .concat(),
        b"{\"text\":\"no key\"}\n".to_vec(),
        b"{\"k\":\"a\"}\n".to_vec(),
    ] {
        input.extend_from_slice(good);
        input.extend_from_slice(&bad);
    }
    input.extend_from_slice(good);
    workspace.write("in.jsonl", &input);
    workspace.run_pipeline();
    assert_eq!(workspace.json_lines("out.jsonl").len(), 7);
    let dead = workspace.json_lines("dead.jsonl");
    let reasons: Vec<String> = dead
        .iter()
        .map(|letter| letter["reason"].as_str().unwrap().to_lowercase())
        .collect();
    // The blank line is no input: neither a record nor a dead letter.
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    for (reason, word) in reasons
        .iter()
        .zip(["json", "utf-8", "exceeds", "missing", "missing"])
    {
        assert!(reason.contains(word), "{reason} should say {word}");
    }
    for letter in &dead {
        assert_eq!(letter["stage"], "decode");
        assert_eq!(letter["source"], "in");
        let offset = letter["offset"].as_u64().unwrap() as usize;
        assert!(
            offset == 0 || input[offset - 1] == b'\n',
            "offset {offset} is not the start of a line"
        );
    }
    assert_eq!(dead[2]["length"].as_u64().unwrap(), (50 << 20) + 19);
    assert!(
        workspace.read("dead.jsonl").len() < 1 << 20,
        "a dead letter holds a cut of a long line only"
    );
}

#[test]
fn every_mistake_of_a_pipeline_file_is_reported_at_once() {
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "Bad Name"
cut-interval = "soon"
[source.in]
type = "fiel"
[[stage]]
name = "redact"
operator = "missing.wasm"
limits = { memory = "64 bananas" }
temperature = 3
[sink.out]
type = "file"
inputs = ["redcat"]
"#,
    );
    let output = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in [
        "Bad Name",
        "soon",
        "fiel",
        "missing.wasm",
        "64 bananas",
        "temperature",
        "redcat",
        "path",
        "pipeline.toml:3",
    ] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
}

#[test]
fn a_wrong_operator_configuration_is_a_mistake_of_the_pipeline() {
    let workspace =
        Workspace::new(&PIPELINE.replace("words = [\"grumble\"]", "words = \"grumble\""));
    workspace.write("in.jsonl", "");
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("stage.abuse") && text.contains("words"),
        "{text}"
    );
}

#[test]
fn output_of_another_run_is_not_overwritten() {
    let workspace = Workspace::new(PIPELINE);
    workspace.write("in.jsonl", "{\"k\":\"a\",\"text\":\"fine\"}\n");
    workspace.write("out.jsonl", "somebody's work\n");
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("out.jsonl") && text.contains("move the file away"),
        "{text}"
    );
    assert_eq!(workspace.read("out.jsonl"), b"somebody's work\n");
}
