//! Components are compiled apart from the stream, within limits, and once.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use tidegate_tests::{Workspace, until};

const PASS: &str = include_str!("../../../host/operator/tests/fixtures/released/0.1.0/pass.wat");
const PATIENCE: Duration = Duration::from_secs(120);

/// An operator with this in it.
fn pass_with(text: &str) -> Vec<u8> {
    wat::parse_str(PASS.replacen("(component", &format!("(component {text}"), 1)).unwrap()
}

/// An operator that takes seconds and hundreds of mebibytes to compile.
fn costly(import: &str) -> Vec<u8> {
    let function = "(func (param i32) (result i32) (local.get 0) (i32.const 7) (i32.mul))";
    pass_with(&format!(
        "{import} (core module {})",
        function.repeat(200_000)
    ))
}

fn pipeline(operators: &str) -> Workspace {
    let workspace = Workspace::new(&format!(
        r#"
[pipeline]
name = "compile"
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in.txt"]
format = "raw"
[operators]
{operators}
[[stage]]
name = "pass"
operator = "op.wasm"
limits = {{ deadline = "30s" }}
[sink.out]
type = "file"
path = "out.txt"
format = "raw"
"#
    ));
    workspace.write("in.txt", "one\ntwo\n");
    workspace.write("op.wasm", pass_with(""));
    workspace
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_component_that_takes_too_much_to_compile_is_refused_with_the_limit() {
    for (limit, named) in [
        (
            "compile-time = \"1s\"",
            "limit operators.compile-time = \"1s\"",
        ),
        (
            "compile-memory = \"64MiB\"",
            "limit operators.compile-memory = \"64MiB\"",
        ),
    ] {
        let workspace = pipeline(limit);
        workspace.write("op.wasm", costly(""));
        let output = workspace.run(&["check", "pipeline.toml"]);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains("op.wasm is too large: compiling it takes more"),
            "{text}"
        );
        assert!(text.contains(named), "{text}");
    }
}

#[test]
fn a_deployment_that_takes_too_much_to_compile_leaves_the_stream_as_it_is() {
    let workspace = pipeline("compile-memory = \"96MiB\"");
    workspace.write("new.wasm", costly(""));
    let _running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
    until("the first records", PATIENCE, || {
        workspace.read("out.txt") == b"one\ntwo\n"
    });
    let deploy = [
        "deploy",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "pass",
        "new.wasm",
    ];
    let output = workspace.run(&deploy);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("operators.compile-memory = \"96MiB\""),
        "{}",
        text(&output)
    );
    let mut input = std::fs::File::options()
        .append(true)
        .open(workspace.path("in.txt"))
        .unwrap();
    input.write_all(b"three\n").unwrap();
    until("what came after it", PATIENCE, || {
        workspace.read("out.txt") == b"one\ntwo\nthree\n"
    });
}

#[test]
fn what_is_compiled_is_seen_in_the_status_and_no_more_when_it_has_ended() {
    let workspace = pipeline("");
    workspace.write("new.wasm", costly(""));
    let _running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
    until("the first records", PATIENCE, || {
        workspace.read("out.txt") == b"one\ntwo\n"
    });
    let status = |arguments: &[&str]| {
        let output =
            workspace.run(&[&["status", "--pipeline", "pipeline.toml"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = || -> Vec<serde_json::Value> {
        let report: serde_json::Value = serde_json::from_str(&status(&["--json"])).unwrap();
        report["progress"].as_array().unwrap().clone()
    };
    let mut deploy = workspace.command(&[
        "deploy",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "pass",
        "new.wasm",
    ]);
    let mut deploy = deploy.spawn().unwrap();
    let (mut seen, mut shown) = (Vec::new(), String::new());
    let is_shown = |shown: &str| shown.contains("\nprogress  compile ");
    until("the compilation in the status", PATIENCE, || {
        assert!(
            deploy.try_wait().unwrap().is_none(),
            "it ended unseen: {seen:?}, {shown}"
        );
        // Each is kept once it was there: when the other is asked for, it may be over.
        if seen.is_empty() {
            seen = listed();
        }
        if !is_shown(&shown) {
            shown = status(&[]);
        }
        !seen.is_empty() && is_shown(&shown)
    });
    assert_eq!(seen[0]["kind"], "compile");
    assert_eq!(seen[0]["unit"], "bytes of memory");
    assert!(seen[0]["of"].is_null());
    // Not before it has ended, however that is.
    deploy.wait().unwrap();
    assert_eq!(listed(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_deployed_component_is_not_compiled_as_a_whole_where_its_functions_are_known() {
    let workspace = pipeline("");
    let _running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
    until("the first records", PATIENCE, || {
        workspace.read("out.txt") == b"one\ntwo\n"
    });
    let functions = || {
        let files = compiled(workspace.path("state/compiled"));
        let mut files = files.into_iter();
        let file = files.find(|path| path.extension().is_some_and(|end| end == "functions"));
        std::fs::read(file.unwrap()).unwrap()
    };
    let known = functions();
    // Another name: it differs in its data alone.
    let mut other = pass_with("");
    let name = other.windows(4).position(|name| name == b"pass").unwrap();
    other[name..name + 4].copy_from_slice(b"past");
    workspace.write("past.wasm", other);
    let pipeline = ["deploy", "--pipeline", "pipeline.toml", "--slot", "pass"];
    let deploy = |component| {
        let output = workspace.run(&[&pipeline[..], &[component]].concat());
        assert!(output.status.success(), "{}", text(&output));
    };
    deploy("past.wasm");
    let made_with_them = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".code") && name.matches('-').count() == 2
    };
    let files = compiled(workspace.path("state/compiled"));
    assert_eq!(files.iter().filter(|path| made_with_them(path)).count(), 1);
    workspace.write("more.wasm", pass_with("(core module (func))"));
    deploy("more.wasm");
    assert!(functions().len() > known.len());
}

#[test]
fn an_import_that_is_not_granted_refuses_a_component_before_it_is_compiled() {
    // It could not be compiled either: what is said is what was looked at first.
    let workspace = pipeline("compile-time = \"1s\"");
    workspace.write(
        "op.wasm",
        costly("(import \"my:own/thing@1.0.0\" (instance))"),
    );
    let output = workspace.run(&["check", "pipeline.toml"]);
    assert!(
        text(&output)
            .contains("op.wasm imports my:own/thing@1.0.0, which the pipeline does not grant"),
        "{}",
        text(&output)
    );
}

/// Compiled components in a directory.
fn compiled(directory: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn commands_without_a_state_directory_compile_a_component_once() {
    let workspace = pipeline("");
    let cache = workspace.path("cache");
    let run = |arguments: &[&str]| {
        let mut command = workspace.command(arguments);
        let output = command.env("XDG_CACHE_HOME", &cache).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    };
    run(&["component", "op.wasm"]);
    let entries = compiled(cache.join("tidegate/compiled"));
    assert_eq!(entries.len(), 1, "{entries:?}");
    let written = || std::fs::metadata(&entries[0]).unwrap();
    #[cfg(unix)]
    let which = || std::os::unix::fs::MetadataExt::ino(&written());
    #[cfg(not(unix))]
    let which = || written().created().unwrap();
    let first = which();
    run(&["check", "pipeline.toml"]);
    run(&["component", "op.wasm"]);
    assert_eq!(compiled(cache.join("tidegate/compiled")), entries);
    assert_eq!(which(), first, "it was written once");
    assert!(
        !workspace.path("state").exists(),
        "nothing was made for a question"
    );
}

/// An operator that asks for so many pages with each batch.
fn growing(pages: u32) -> Vec<u8> {
    let grows = format!("(drop (memory.grow (i32.const {pages}))) (local.set $count");
    wat::parse_str(PASS.replacen("(local.set $count", &grows, 1)).unwrap()
}

#[test]
fn memory_of_all_operators_is_refused_by_name_where_it_is_not_enough() {
    for (operators, limits, named) in [
        ("memory = \"2MiB\"", "", "(operators.memory)"),
        ("", "total-memory = \"2MiB\",", "(limits.total-memory)"),
    ] {
        let workspace = pipeline(operators);
        let text = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
        workspace.pipeline(&text.replace("limits = {", &format!("limits = {{ {limits}")));
        // Each instance begins with 17 pages, a little over a mebibyte, and cannot have so many twice.
        let traps = PASS.replacen(
            "(local.set $count",
            "(if (i32.eq (memory.grow (i32.const 32)) (i32.const -1)) (then (unreachable))) (local.set $count",
            1,
        );
        workspace.write("op.wasm", wat::parse_str(traps).unwrap());
        workspace.run(&["run", "--quiet", "pipeline.toml"]);
        let mut state = compiled(workspace.path(""));
        state.retain(|path| path.join("dead-letters.jsonl").exists());
        let letters = std::fs::read_to_string(state[0].join("dead-letters.jsonl")).unwrap();
        assert_eq!(letters.lines().count(), 2, "{letters}");
        assert!(letters.contains(named), "{letters}");
        // Within them it is granted.
        workspace.write("op.wasm", growing(4));
        let output = workspace.run(&["check", "pipeline.toml"]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn an_instance_for_which_there_is_no_memory_is_not_started() {
    let workspace = pipeline("memory = \"1MiB\"");
    let output = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output)
            .contains("memory of all operators: needed 1.1 MiB, limit 1 MiB (operators.memory)"),
        "{}",
        text(&output)
    );
}

#[test]
fn operators_that_may_take_more_than_there_is_are_warned_of() {
    let workspace = pipeline("memory = \"150MiB\"");
    for file in ["in-1.txt", "in-2.txt"] {
        workspace.write(file, "one\n");
    }
    let one = workspace.run(&["check", "pipeline.toml"]);
    assert!(!text(&one).contains("operators.memory"), "{}", text(&one));
    let small = workspace.read("pipeline.toml");
    let small = String::from_utf8(small)
        .unwrap()
        .replace("150MiB", "100MiB");
    workspace.pipeline(&small);
    // One task, and a record that is tried in the playground.
    let tried = workspace.run(&["check", "pipeline.toml"]);
    let said = "operators of 1 tasks and of one record that is tried may need 128 MiB";
    assert!(text(&tried).contains(said), "{}", text(&tried));
    let pipeline = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
    let pipeline = pipeline.replace("100MiB", "150MiB");
    workspace.pipeline(&pipeline.replace("\"in.txt\"", "\"in-*.txt\""));
    let two = workspace.run(&["check", "pipeline.toml"]);
    let said = "warning: operators of 2 tasks and of one record that is tried may need 192 MiB within limits.memory, and \
                operators.memory is 150 MiB";
    assert!(text(&two).contains(said), "{}", text(&two));
}
