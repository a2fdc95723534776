//! With `--log-format json` whoever collects the lines of a run reads all of them: those of its log, and what it says itself.

use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Running, Workspace, until};

fn pipeline(paths: &str, more: &str) -> String {
    format!(
        r#"
[pipeline]
name = "lines"
[source.lines]
type = "file"
format = "raw"
paths = {paths}
[sink.out]
type = "file"
path = "out.txt"
format = "raw"
inputs = ["lines"]
{more}
"#
    )
}

/// A source from which nothing takes, which is a warning.
const UNUSED: &str = "
[source.unused]
type = \"file\"
format = \"raw\"
paths = [\"unused.txt\"]
";

fn workspace(paths: &str, more: &str) -> Workspace {
    let workspace = Workspace::new(&pipeline(paths, more));
    workspace.write("in.txt", "a\nb\n");
    workspace.write("unused.txt", "");
    workspace
}

/// The lines, each of them JSON with what each line of the log has.
fn lines(said: &[u8]) -> Vec<Value> {
    let said = std::str::from_utf8(said).unwrap();
    let lines = said.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        for member in ["timestamp", "level", "message", "target"] {
            assert!(line[member].is_string(), "{member}: {line}");
        }
        line
    });
    lines.collect()
}

/// Runs it, and gives its exit code and its lines.
fn run(workspace: &Workspace, arguments: &[&str]) -> (i32, Vec<Value>) {
    let mut command = workspace.command(&["run", "pipeline.toml"]);
    let run = command
        .args(arguments)
        .env("TIDEGATE_LOG_FORMAT", "json")
        .env("TIDEGATE_LOG", "debug")
        .output()
        .unwrap();
    (run.status.code().unwrap(), lines(&run.stderr))
}

fn one<'a>(lines: &'a [Value], level: &str, part: &str) -> &'a Value {
    let mut found = lines
        .iter()
        .filter(|line| line["level"] == level && line["message"].as_str().unwrap().contains(part));
    match (found.next(), found.next()) {
        (Some(line), None) => line,
        _ => panic!("not one line of {level} with {part:?} in {lines:#?}"),
    }
}

#[test]
fn every_line_of_a_run_is_json_where_that_is_asked_for_also_its_last_words() {
    // One that is well, with what it counts, and one that is warned.
    let well = workspace("[\"in.txt\"]", UNUSED);
    let (code, lines) = run(&well, &[]);
    assert_eq!(code, 0, "{lines:#?}");
    one(&lines, "WARN", "no stage or sink takes from this source");
    let summary = one(&lines, "INFO", "summary");
    assert_eq!(summary["summary"]["records"]["out"], 2, "{summary}");

    // One whose file has several mistakes, in one line.
    let wrong = workspace("[]", "rpath = 3");
    let (code, lines) = run(&wrong, &["--quiet"]);
    assert_eq!(code, 2);
    let mistakes = one(&lines, "ERROR", "rpath");
    assert!(mistakes["message"].as_str().unwrap().lines().count() > 1);

    // One that fails when it has begun: its output was changed.
    std::fs::write(well.path("out.txt"), "").unwrap();
    let (code, lines) = run(&well, &["--quiet"]);
    assert_eq!(code, 1);
    let why = one(&lines, "ERROR", "tidegate: ");
    assert!(
        why["message"].as_str().unwrap().contains("out.txt"),
        "{why}"
    );
    assert_eq!(lines.last(), Some(why));
}

#[test]
fn a_run_that_is_told_to_end_says_so_in_json_too() {
    let workspace = workspace("[\"in.txt\"]", "");
    let log = std::fs::File::create(workspace.path("log")).unwrap();
    let mut command = workspace.command(&["run", "--until", "forever", "pipeline.toml"]);
    command.args(["--log-format", "json"]).stderr(log);
    let mut running = Running::spawn(command);
    until("both lines are written", Duration::from_secs(60), || {
        workspace.read("out.txt") == b"a\nb\n"
    });
    assert!(running.terminate(Duration::from_secs(60)).success());
    let lines = lines(&workspace.read("log"));
    one(&lines, "INFO", "stopping after a last cut");
}
