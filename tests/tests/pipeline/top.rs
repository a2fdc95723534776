//! `tidegate top`, on a terminal and without one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Running, Workspace, root, tidegate, until};

const PATIENCE: Duration = Duration::from_secs(120);
const FOLLOW: [&str; 5] = ["run", "--quiet", "--until", "forever", "pipeline.toml"];

/// A terminal on which it runs: see `tests/terminal/driver.py`.
struct Terminal {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Terminal {
    fn of(workspace: &Workspace, (rows, columns): (u16, u16)) -> Terminal {
        let mut child = Command::new("python3")
            .arg(root().join("tests/terminal/driver.py"))
            .args([rows.to_string(), columns.to_string()])
            .arg(tidegate())
            .args(["top", "--interval", "100ms", "--state"])
            .arg(workspace.path("state"))
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        Terminal {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn ask(&mut self, command: &Value) -> Value {
        writeln!(self.stdin, "{command}").unwrap();
        self.stdin.flush().unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).expect("the driver goes on");
        assert_eq!(answer.get("error"), None, "{command}");
        answer["value"].clone()
    }

    /// Waits until this stands on the screen; returns what does then.
    fn sees(&mut self, text: &str) -> Vec<String> {
        let lines = self.ask(&json!({"do": "sees", "text": text}));
        serde_json::from_value(lines).unwrap()
    }

    /// Waits until it does no more.
    fn loses(&mut self, text: &str) {
        self.ask(&json!({"do": "loses", "text": text}));
    }

    fn press(&mut self, keys: &str) {
        self.ask(&json!({"do": "press", "keys": keys}));
    }

    fn size(&mut self, rows: u16, columns: u16) {
        self.ask(&json!({"do": "size", "rows": rows, "columns": columns}));
    }

    fn signal(&mut self, name: &str) {
        self.ask(&json!({"do": "signal", "name": name}));
    }

    /// It ends well, and the terminal is as it was, whatever names the host had told.
    fn ends(mut self) -> String {
        let end = self.ask(&json!({"do": "ends"}));
        assert_eq!(
            end,
            json!({"status": 0, "is_given_back": true, "unknown": [], "words": end["words"]})
        );
        end["words"].as_str().unwrap().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn running() -> (Workspace, Running) {
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "seen"
state = "state"
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in.txt"]
format = "raw"
[[stage]]
name = "abuse"
operator = "{operators}/drop-abuse.wasm"
config = { words = ["grumble"] }
[sink.out]
type = "file"
path = "out.txt"
format = "raw"
"#,
    );
    workspace.write("in.txt", "one\ntwo\ngrumble\n");
    let running = workspace.start(&FOLLOW);
    until("the pipeline", PATIENCE, || {
        workspace.read("out.txt") == b"one\ntwo\n"
    });
    (workspace, running)
}

#[test]
fn a_person_sees_the_pipeline_presses_keys_and_has_the_terminal_back() {
    let (workspace, _running) = running();
    let mut terminal = Terminal::of(&workspace, (24, 80));
    terminal.sees("dropped 1");
    let lines = terminal.sees("seen  running");
    assert_eq!(lines.len(), 24);
    let text = lines.join("\n");
    for part in [
        "source",
        "abuse",
        "slot      abuse  drop-abuse",
        "cuts",
        "q quit",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    terminal.press("\t\x1b[C");
    terminal.sees("revision");
    terminal.press("h");
    terminal.sees("quit");
    terminal.loses("revision");
    // A window that is drawn smaller and larger again, with what fits in it.
    terminal.size(5, 20);
    terminal.press("1");
    let tiny = terminal.sees("more below");
    assert_eq!(tiny.len(), 5);
    assert!(tiny[0].starts_with("seen  running"), "{tiny:?}");
    terminal.size(40, 120);
    terminal.sees("5 Ends");
    terminal.press("q");
    terminal.ends();
    for how in ["TERM", "INT", "HUP", "QUIT"] {
        let mut terminal = Terminal::of(&workspace, (24, 80));
        terminal.sees("seen  running");
        terminal.signal(how);
        terminal.ends();
    }
    let mut terminal = Terminal::of(&workspace, (24, 80));
    terminal.sees("seen  running");
    terminal.press("\x03");
    terminal.ends();
}

#[test]
fn a_host_that_is_killed_is_said_to_be_lost_until_it_runs_again() {
    let (workspace, mut running) = running();
    let mut terminal = Terminal::of(&workspace, (24, 80));
    terminal.sees("seen  running");
    running.kill();
    let lost = terminal.sees("lost, trying again");
    assert!(lost[0].starts_with("seen  lost"), "{lost:?}");
    assert!(
        lost.join("\n").contains("abuse"),
        "what was known stays: {lost:?}"
    );
    terminal.press("3");
    terminal.sees("revision");
    let _running = workspace.start(&FOLLOW);
    terminal.loses("lost, trying again");
    terminal.sees("seen  running");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn a_host_that_hangs_holds_no_key_and_its_figures_are_said_to_be_old() {
    let (workspace, running) = running();
    let mut terminal = Terminal::of(&workspace, (24, 80));
    terminal.sees("seen  running");
    running.signal("STOP");
    terminal.sees("what is shown is old");
    terminal.press("q");
    terminal.ends();
    // It has never answered: keys do what they do, and none is shown.
    let mut terminal = Terminal::of(&workspace, (24, 80));
    terminal.sees("nothing is known yet: no answer for");
    terminal.press("xyq");
    assert!(!terminal.ends().contains('x'));
    running.signal("CONT");
}

#[test]
fn names_that_would_turn_or_hide_what_is_shown_are_text_on_the_screen_and_in_print() {
    let (workspace, _running) = running();
    workspace.write("new.json", r#"{"words": ["grumble", "moan"]}"#);
    // A label is one line: what turns and hides text on it comes as far as here, escapes do not.
    let label = "\u{202e}desrever\u{2066}名前\u{200b}";
    let deployed = workspace.run(&[
        "deploy", "--state", "state", "--slot", "abuse", "--config", "new.json", "--label", label,
    ]);
    assert!(deployed.status.success(), "{deployed:?}");
    let mut terminal = Terminal::of(&workspace, (24, 120));
    terminal.press("3");
    terminal.sees(r"\u{202e}desrever\u{2066}名前\u{200b}");
    terminal.sees("switched");
    terminal.press("q");
    terminal.ends();

    // Without a terminal all of it is printed once, and nothing but text.
    let once = [
        "top",
        "--once",
        "--interval",
        "100ms",
        "--pipeline",
        "pipeline.toml",
    ];
    let output = workspace.run(&once);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.starts_with("seen  running"), "{text}");
    assert!(text.contains(r"\u{202e}desrever"), "{text}");
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text}"
    );
    let refused = workspace.run(&["top", "--pipeline", "pipeline.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--once prints all of it"));
}
