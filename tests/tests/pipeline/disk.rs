//! What a run holds on the disk: its state directory, its output files, and what becomes of them when somebody else
//! has them too.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tidegate_state::StateDirectory;
use tidegate_tests::{Running, Workspace, until};

const PIPELINE: &str = r#"
[pipeline]
name = "disk"
cut-interval = "5ms"
state = "state"
[source.in]
type = "file"
paths = ["in.jsonl"]
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "file"
path = "dead.jsonl"
[admin]
address = "off"
"#;

const PATIENCE: Duration = Duration::from_secs(60);

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A run that waits for more input, with one line written.
fn running(workspace: &Workspace) -> Running {
    workspace.write("in.jsonl", "1\n");
    let running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until("the first line is written", PATIENCE, || {
        workspace.read("out.jsonl") == b"1\n"
    });
    running
}

fn append(workspace: &Workspace, name: &str, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(workspace.path(name))
        .unwrap();
    file.write_all(bytes).unwrap();
}

/// The run ends by itself with exit code 1 and says all of these.
fn ends_saying(workspace: &Workspace, running: &mut Running, words: &[&str]) {
    let status = running.wait(PATIENCE);
    let text = String::from_utf8(workspace.read("stderr.log")).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
}

#[test]
fn a_state_directory_has_one_process_whatever_is_removed_from_it() {
    let workspace = Workspace::new(PIPELINE);
    let mut first = running(&workspace);
    let _ = fs::remove_file(workspace.path("state/lock"));
    let second = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let text = said(&second);
    assert_eq!(second.status.code(), Some(1), "{text}");
    let holder = format!("in use by another process ({})", first.id());
    assert!(text.contains(&holder), "{text}");
    assert!(first.terminate(PATIENCE).success());
    // What an older version left behind keeps nobody out.
    workspace.write("state/lock", "");
    append(&workspace, "in.jsonl", b"2\n");
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n2\n");
}

#[test]
fn a_run_whose_state_directory_is_taken_away_ends_before_it_tells_of_a_cut() {
    for (from, to) in [("state", "moved"), ("state/commit.log", "moved.log")] {
        let workspace = Workspace::new(PIPELINE);
        let mut run = running(&workspace);
        fs::rename(workspace.path(from), workspace.path(to)).unwrap();
        append(&workspace, "in.jsonl", b"2\n");
        ends_saying(&workspace, &mut run, &["commit.log", "removed or replaced"]);
        // Put back, it goes on from its last cut.
        fs::rename(workspace.path(to), workspace.path(from)).unwrap();
        workspace.run_pipeline();
        assert_eq!(workspace.read("out.jsonl"), b"1\n2\n");
    }
}

#[test]
fn a_directory_that_is_not_its_own_is_no_state_directory() {
    for state in [".", "notes"] {
        let workspace = Workspace::new(&PIPELINE.replace("\"state\"", &format!("{state:?}")));
        fs::create_dir(workspace.path("notes")).unwrap();
        workspace.write("notes/mine.txt", "mine");
        workspace.write("in.jsonl", "1\n");
        for command in ["check", "run"] {
            let output = workspace.run(&[command, "pipeline.toml"]);
            let text = said(&output);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.contains("is not a state directory"), "{text}");
        }
        let names = |path: &str| {
            let mut names: Vec<_> = fs::read_dir(workspace.path(path))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("notes"), ["mine.txt"]);
        assert_eq!(names("."), ["in.jsonl", "notes", "pipeline.toml"]);
    }
    // An empty one is taken.
    let workspace = Workspace::new(PIPELINE);
    fs::create_dir(workspace.path("state")).unwrap();
    workspace.write("in.jsonl", "1\n");
    workspace.run_pipeline();
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n");
}

#[cfg(unix)]
#[test]
fn two_sinks_are_not_given_one_file_whatever_it_is_called() {
    use std::os::unix::fs::symlink;

    let second = "[sink.second]\ntype = \"file\"\npath = \"second.jsonl\"\n[dead-letters]";
    let two = PIPELINE.replace("[dead-letters]", second);
    let hard_link = |workspace: &Workspace, name: &str| {
        workspace.write("real.jsonl", "");
        fs::hard_link(workspace.path("real.jsonl"), workspace.path(name)).unwrap();
    };
    let refused = |pipeline: &str, lay: &dyn Fn(&Workspace)| {
        let workspace = Workspace::new(pipeline);
        workspace.write("in.jsonl", "1\n");
        lay(&workspace);
        for command in ["check", "run"] {
            let output = workspace.run(&[command, "pipeline.toml"]);
            let text = said(&output);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(
                text.contains("is written by") || text.contains("is read by"),
                "{text}"
            );
        }
        assert!(!workspace.path("state").exists());
        assert!(workspace.read("in.jsonl") == b"1\n");
    };
    refused(&two, &|workspace| {
        hard_link(workspace, "out.jsonl");
        hard_link_of(workspace, "second.jsonl");
    });
    refused(&two, &|workspace| {
        symlink("second.jsonl", workspace.path("out.jsonl")).unwrap();
    });
    refused(&two, &|workspace| {
        symlink("nowhere.jsonl", workspace.path("out.jsonl")).unwrap();
        symlink("nowhere.jsonl", workspace.path("second.jsonl")).unwrap();
    });
    // Dead letters are a file like others, and so is the input.
    refused(PIPELINE, &|workspace| {
        hard_link(workspace, "out.jsonl");
        hard_link_of(workspace, "dead.jsonl");
    });
    refused(PIPELINE, &|workspace| {
        fs::hard_link(workspace.path("in.jsonl"), workspace.path("out.jsonl")).unwrap();
    });
}

#[cfg(unix)]
fn hard_link_of(workspace: &Workspace, name: &str) {
    fs::hard_link(workspace.path("real.jsonl"), workspace.path(name)).unwrap();
}

#[cfg(unix)]
#[test]
fn standard_output_is_not_sent_into_the_file_of_a_sink() {
    let workspace = Workspace::new(PIPELINE);
    workspace.write("in.jsonl", "1\n");
    for name in ["out.jsonl", "dead.jsonl"] {
        let output = workspace
            .command(&["run", "--json", "pipeline.toml"])
            .stdout(fs::File::create(workspace.path(name)).unwrap())
            .output()
            .unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains(name) && text.contains("is where standard output goes"),
            "{text}"
        );
        assert_eq!(workspace.read(name), b"");
    }
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n");
}

/// The kernel ends a process by a signal that writes beyond what its files may have, unless it is told not to.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_any_more_is_named_and_nothing_is_lost() {
    let workspace = Workspace::new(PIPELINE);
    let lines: String = (0..20_000).map(|line| format!("{line}\n")).collect();
    workspace.write("in.jsonl", &lines);
    let run = workspace.command(&["run", "--quiet", "pipeline.toml"]);
    // Eight blocks of 512 bytes, or of 1024 where the shell counts so.
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args())
        .current_dir(workspace.path("."))
        .stdin(Stdio::null());
    let output = limited.output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{:?}: {text}", output.status);
    assert!(text.contains("File too large"), "{text}");
    workspace.run_pipeline();
    assert!(workspace.read("out.jsonl") == lines.as_bytes());
}

#[test]
fn a_header_of_very_many_columns_is_refused_with_its_place() {
    let csv = "paths = [\"in.jsonl\"]\nformat = \"csv\"\nmax-record = \"16MiB\"";
    let workspace = Workspace::new(&PIPELINE.replace("paths = [\"in.jsonl\"]", csv));
    let header: Vec<String> = (0..208_000).map(|column| format!("c{column}")).collect();
    workspace.write("in.jsonl", header.join(",") + "\n");
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("in.jsonl at byte 0: header row has more than 16384 columns"),
        "{text}"
    );
}

#[test]
fn two_processes_are_not_given_one_output_file() {
    for copied in ["out.jsonl", "dead.jsonl"] {
        // With an admin API: a file that is there may not be locked yet, and a run that is ready has them all.
        let asked = PIPELINE.replace("[admin]\naddress = \"off\"\n", "");
        let workspace = Workspace::new(&asked);
        workspace.write("in.jsonl", "");
        let first = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
        until("the first run has its files", PATIENCE, || {
            let health = ["health", "--ready", "--pipeline", "pipeline.toml"];
            workspace.run(&health).status.success()
        });
        let mut other = PIPELINE.replace("\"state\"", "\"other\"");
        other = other.replace("in.jsonl", "other.jsonl");
        for name in ["out.jsonl", "dead.jsonl"] {
            if name != copied {
                other = other.replace(name, &format!("other-{name}"));
            }
        }
        workspace.write("other.toml", other);
        workspace.write("other.jsonl", "this is no JSON\n7\n");
        let second = workspace.run(&["run", "--quiet", "other.toml"]);
        let text = said(&second);
        assert_eq!(second.status.code(), Some(1), "{text}");
        let holder = format!("in use by another process ({})", first.id());
        assert!(text.contains(copied) && text.contains(&holder), "{text}");
        assert_eq!(workspace.read(copied), b"");
        append(&workspace, "in.jsonl", b"1\n");
        until("the first run goes on", PATIENCE, || {
            workspace.read("out.jsonl") == b"1\n"
        });
    }
}

#[test]
fn output_that_somebody_else_wrote_or_cut_ends_the_run_and_stays() {
    type Change = fn(&Workspace);
    let changes: [(Change, &str); 2] = [
        (
            |workspace| append(workspace, "out.jsonl", b"foreign\n"),
            "10 bytes",
        ),
        (|workspace| workspace.write("out.jsonl", ""), "0 bytes"),
    ];
    for (change, found) in changes {
        let workspace = Workspace::new(PIPELINE);
        let mut run = running(&workspace);
        change(&workspace);
        let left = workspace.read("out.jsonl");
        append(&workspace, "in.jsonl", b"2\n");
        ends_saying(&workspace, &mut run, &["out.jsonl", found, "2 bytes"]);
        assert_eq!(workspace.read("out.jsonl"), left);
    }
}

#[test]
fn what_is_written_to_an_output_file_between_two_runs_is_not_cut_away() {
    let workspace = Workspace::new(PIPELINE);
    let mut run = running(&workspace);
    assert!(run.terminate(PATIENCE).success());
    append(&workspace, "out.jsonl", b"mine\n");
    append(&workspace, "in.jsonl", b"2\n");
    for _ in 0..2 {
        let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("out.jsonl") && text.contains("something else wrote to it"),
            "{text}"
        );
        assert_eq!(workspace.read("out.jsonl"), b"1\nmine\n");
    }
    workspace.write("out.jsonl", "1\n");
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n2\n");
}

#[test]
fn a_killed_run_that_starts_with_another_output_path_cuts_no_file() {
    for name in ["out.jsonl", "dead.jsonl"] {
        let workspace = Workspace::new(PIPELINE);
        workspace.write("mine.jsonl", "mine\n");
        running(&workspace).kill();
        let left = workspace.read(name);
        workspace.write("pipeline.toml", PIPELINE.replace(name, "mine.jsonl"));
        let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("mine.jsonl"), "{text}");
        assert_eq!(workspace.read("mine.jsonl"), b"mine\n");
        assert_eq!(workspace.read(name), left);
        workspace.write("pipeline.toml", PIPELINE);
        workspace.run_pipeline();
        assert_eq!(workspace.read("out.jsonl"), b"1\n");
    }
    // Two that change places are two other files.
    let workspace = Workspace::new(PIPELINE);
    running(&workspace).kill();
    let swapped = PIPELINE
        .replace("out.jsonl", "new.jsonl")
        .replace("dead.jsonl", "out.jsonl")
        .replace("new.jsonl", "dead.jsonl");
    workspace.write("pipeline.toml", swapped);
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["out.jsonl", "dead.jsonl", "bring"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(workspace.read("out.jsonl"), b"1\n");
}

#[test]
fn after_a_run_that_ended_output_goes_on_in_a_new_file() {
    let workspace = Workspace::new(PIPELINE);
    workspace.write("in.jsonl", "1\n");
    workspace.run_pipeline();
    append(&workspace, "in.jsonl", b"2\n");
    workspace.write("mine.jsonl", "mine\n");
    workspace.write("pipeline.toml", PIPELINE.replace("out.jsonl", "mine.jsonl"));
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["out.jsonl", "mine.jsonl", "name a new or empty file"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    workspace.write("pipeline.toml", PIPELINE.replace("out.jsonl", "new.jsonl"));
    let mut run = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until("the second line is written", PATIENCE, || {
        workspace.path("new.jsonl").exists() && workspace.read("new.jsonl") == b"2\n"
    });
    run.kill();
    append(&workspace, "in.jsonl", b"3\n");
    workspace.run_pipeline();
    assert_eq!(workspace.read("new.jsonl"), b"2\n3\n");
    assert_eq!(workspace.read("out.jsonl"), b"1\n");
    assert_eq!(workspace.read("mine.jsonl"), b"mine\n");
}

#[test]
fn output_goes_on_in_a_file_that_its_sink_wrote_before() {
    let workspace = Workspace::new(PIPELINE);
    let elsewhere = PIPELINE.replace("out.jsonl", "new.jsonl");
    workspace.write("in.jsonl", "1\n");
    workspace.run_pipeline();
    append(&workspace, "in.jsonl", b"2\n");
    workspace.pipeline(&elsewhere);
    workspace.run_pipeline();
    append(&workspace, "in.jsonl", b"3\n");
    workspace.pipeline(PIPELINE);
    let mut run = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until("the third line is written", PATIENCE, || {
        workspace.read("out.jsonl") == b"1\n3\n"
    });
    run.kill();
    append(&workspace, "in.jsonl", b"4\n");
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n3\n4\n");
    // What was written to it meanwhile is not the sink's, and stays.
    append(&workspace, "new.jsonl", b"mine\n");
    workspace.pipeline(&elsewhere);
    let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["new.jsonl", "7 bytes and had 2", "out.jsonl"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(workspace.read("new.jsonl"), b"2\nmine\n");
}

#[cfg(unix)]
#[test]
fn state_and_outputs_go_on_on_another_disk_and_behind_another_path() {
    use std::os::unix::fs::symlink;
    let on_disk = [
        ("\"state\"", "\"data/state\""),
        ("out.jsonl", "data/out.jsonl"),
        ("dead.jsonl", "data/dead.jsonl"),
    ];
    let pipeline = on_disk
        .iter()
        .fold(PIPELINE.to_owned(), |text, (from, to)| {
            text.replace(from, to)
        });
    let workspace = Workspace::new(&pipeline);
    let link_to = |disk: &str| {
        let _ = fs::remove_file(workspace.path("data"));
        symlink(disk, workspace.path("data")).unwrap();
    };
    fs::create_dir(workspace.path("disk-1")).unwrap();
    link_to("disk-1");
    workspace.write("in.jsonl", "1\n");
    let mut run = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    let out = || workspace.read("data/out.jsonl");
    until("the first line is written", PATIENCE, || out() == b"1\n");
    run.kill();
    fs::rename(workspace.path("disk-1"), workspace.path("disk-2")).unwrap();
    link_to("disk-2");
    append(&workspace, "in.jsonl", b"2\n");
    workspace.run_pipeline();
    assert_eq!(out(), b"1\n2\n");
    // The pipeline file names the place itself; the link stays behind for the paths in the log.
    workspace.pipeline(&pipeline.replace("data/", "disk-2/"));
    append(&workspace, "in.jsonl", b"3\n");
    workspace.run_pipeline();
    assert_eq!(out(), b"1\n2\n3\n");
}

#[cfg(unix)]
#[test]
fn a_pipeline_that_was_moved_goes_on_behind_a_link_at_its_old_path() {
    use std::os::unix::fs::symlink;
    let workspace = Workspace::new(PIPELINE);
    fs::create_dir(workspace.path("old")).unwrap();
    workspace.write("old/pipeline.toml", PIPELINE);
    workspace.write("old/in.jsonl", "1\n");
    let run = || workspace.run(&["run", "--quiet", "old/pipeline.toml"]);
    assert!(run().status.success());
    fs::rename(workspace.path("old"), workspace.path("new")).unwrap();
    symlink("new", workspace.path("old")).unwrap();
    append(&workspace, "new/in.jsonl", b"2\n");
    let output = run();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(workspace.read("new/out.jsonl"), b"1\n2\n");
}

#[cfg(unix)]
#[test]
fn a_link_out_of_its_directory_is_written_where_it_leads() {
    use std::os::unix::fs::symlink;
    let elsewhere = tempfile::tempdir().unwrap();
    for made in [true, false] {
        let target = elsewhere.path().join(format!("out-{made}.jsonl"));
        if made {
            fs::write(&target, "").unwrap();
        }
        let workspace = Workspace::new(PIPELINE);
        symlink(&target, workspace.path("out.jsonl")).unwrap();
        workspace.write("in.jsonl", "1\n");
        workspace.run_pipeline();
        append(&workspace, "in.jsonl", b"2\n");
        workspace.run_pipeline();
        assert_eq!(fs::read(&target).unwrap(), b"1\n2\n");
    }
}

/// The second record is sent to retry twenty times, a quarter of a second each.
fn with_a_retry(source: &str, sinks: &str) -> String {
    format!(
        r#"
[pipeline]
name = "waits"
cut-interval = "5ms"
batch = 2
[source.in]
{source}
format = "raw"
[[stage]]
name = "later"
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "outcomes" }}
retries = 20
[sink.out]
type = "file"
path = "out.jsonl"
format = "raw"
inputs = ["later"]
{sinks}
[dead-letters]
type = "file"
path = "dead.jsonl"
[admin]
address = "off"
"#
    )
}

/// Waits for the cut in which the output has this length. What waits beside it is part of the same cut.
fn until_a_cut_has(workspace: &Workspace, length: usize) {
    until("a cut has all but one", PATIENCE, || {
        // What is being appended may be there in part.
        let recorded = StateDirectory::recorded(&workspace.path("state"));
        recorded.is_ok_and(|recorded| {
            let sinks = recorded.map(|recorded| recorded.sinks).unwrap_or_default();
            (sinks.iter()).any(|file| file.sink == "out" && file.length == length as u64)
        })
    });
}

/// Lines at byte 0, 5, 7, 14 and so on: the operator passes those at multiples of 7 and wants the second one later.
fn lines() -> String {
    let more: String = (0..400).map(|n| format!("{n:06}\n")).collect();
    format!("zero\nx\n{more}")
}

#[test]
fn a_file_is_written_once_whatever_the_sinks_beside_it_are() {
    let file = "type = \"file\"\npaths = [\"in.txt\"]";
    let beside = "[sink.shown]\ntype = \"stdout\"\nformat = \"raw\"\ninputs = [\"later\"]";
    let alone = Workspace::new(&with_a_retry(file, ""));
    alone.write("in.txt", lines());
    alone.run_pipeline();
    let expected = alone.read("out.jsonl");
    assert!(expected.len() > 2000 && alone.json_lines("dead.jsonl").len() == 1);

    let workspace = Workspace::new(&with_a_retry(file, beside));
    workspace.write("in.txt", lines());
    let checked = workspace.run(&["check", "pipeline.toml"]);
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(text.contains("sink out: exactly once"), "{text}");
    assert!(text.contains("guarantee: at least once"), "{text}");
    let mut run = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("all but one is written", PATIENCE, || {
        workspace.read("out.jsonl").len() == expected.len()
    });
    // Time for the cut that holds it.
    std::thread::sleep(Duration::from_millis(300));
    assert!(run.ended().is_none(), "nothing waits any more");
    run.kill();
    workspace.run_pipeline();
    assert!(
        workspace.read("out.jsonl") == expected,
        "the crash repeated lines"
    );
    assert_eq!(workspace.json_lines("dead.jsonl").len(), 1);
}

#[test]
fn what_waits_of_standard_input_outlives_a_crash() {
    let workspace = Workspace::new(&with_a_retry("type = \"stdin\"", ""));
    let log = fs::File::create(workspace.path("stderr.log")).unwrap();
    let mut child = workspace
        .command(&["run", "--quiet", "pipeline.toml"])
        .stdin(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let input = lines();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    until_a_cut_has(&workspace, input.len() - 2);
    child.kill().unwrap();
    child.wait().unwrap();
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl").len(), input.len() - 2);
    let dead = workspace.json_lines("dead.jsonl");
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["offset"], 5);
}

#[test]
fn another_key_is_refused_only_while_a_record_waits() {
    let file = "type = \"file\"\npaths = [\"in.txt\"]";
    let workspace = Workspace::new(&with_a_retry(file, ""));
    workspace.write("in.txt", "zero\nx\n000000\n");
    let run_with = |key: &str| {
        workspace
            .command(&["run", "--quiet", "pipeline.toml"])
            .env("TIDEGATE_STATE_KEY", key.repeat(32))
            .output()
            .unwrap()
    };
    let log = fs::File::create(workspace.path("stderr.log")).unwrap();
    let mut first = workspace
        .command(&["run", "--quiet", "pipeline.toml"])
        .env("TIDEGATE_STATE_KEY", "11".repeat(32))
        .stderr(log)
        .spawn()
        .unwrap();
    until_a_cut_has(&workspace, b"zero\n000000\n".len());
    first.kill().unwrap();
    first.wait().unwrap();
    let refused = run_with("22");
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("key"), "{}", said(&refused));
    let done = run_with("11");
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(workspace.json_lines("dead.jsonl").len(), 1);
    let other = run_with("22");
    assert!(other.status.success(), "{}", said(&other));
    // Without a key in the environment one is made.
    workspace.run_pipeline();
    fs::remove_file(workspace.path("state/key")).unwrap();
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"zero\n000000\n");
}

#[test]
fn blank_lines_are_neither_records_nor_dead_letters() {
    let workspace = Workspace::new(PIPELINE);
    workspace.write("in.jsonl", "\n1\n \t\r\n2\r\n\n  \n");
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n2\n");
    assert_eq!(workspace.read("dead.jsonl"), b"");
    // What is written after them is read.
    append(&workspace, "in.jsonl", b"3\n\n");
    workspace.run_pipeline();
    assert_eq!(workspace.read("out.jsonl"), b"1\n2\n3\n");
    assert_eq!(workspace.read("dead.jsonl"), b"");
}
