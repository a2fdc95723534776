//! A headless Chromium that does what a person would: see `tests/browser/driver.mjs`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{root, target, until};

/// How long a page may take to show something on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// The names that Chromium's packages give it.
const NAMES: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

pub(super) struct Browser {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

/// Where Chromium is; `cargo xtask clients` installs it where that is possible.
fn chromium() -> PathBuf {
    let named = std::env::var_os("TIDEGATE_CHROMIUM").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .flat_map(|path| NAMES.map(|name| path.join(name)))
        .find(|path| path.is_file());
    named
        .or(found)
        .expect("Chromium is missing: run cargo xtask clients")
}

impl Browser {
    pub(super) fn start() -> Browser {
        let axe = target().join("clients/node/node_modules/axe-core/axe.min.js");
        assert!(
            axe.exists(),
            "{} is missing: run cargo xtask clients",
            axe.display()
        );
        let mut child = Command::new("node")
            .arg(root().join("tests/browser/driver.mjs"))
            .args([chromium(), axe])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Node.js is missing: run cargo xtask clients");
        Browser {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Has it do something.
    pub(super) fn ask(&mut self, command: &Value) -> Value {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}").unwrap();
        stdin.flush().unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).expect("the driver goes on");
        assert_eq!(answer.get("error"), None, "{command}");
        answer["value"].clone()
    }

    pub(super) fn open(&mut self, url: &str) {
        self.ask(&json!({"do": "open", "url": url}));
    }

    pub(super) fn run(&mut self, code: &str) -> Value {
        self.ask(&json!({"do": "eval", "code": code}))
    }

    /// Waits until the page shows a text, in whatever case its style gives it.
    pub(super) fn sees(&mut self, text: &str) {
        let mut shown = String::new();
        let wanted = text.to_lowercase();
        let end = std::time::Instant::now() + PATIENCE;
        while !shown.to_lowercase().contains(&wanted) {
            assert!(
                std::time::Instant::now() < end,
                "{text:?} is not shown, but {shown}"
            );
            std::thread::sleep(Duration::from_millis(50));
            let text = self.run("document.body ? document.body.innerText : ''");
            shown = text.as_str().unwrap_or_default().to_owned();
        }
    }

    /// Clicks the first element of a selector that has a text, as soon as there is one.
    pub(super) fn click(&mut self, selector: &str, text: &str) {
        let command = json!({"do": "click", "selector": selector, "text": text});
        until(&format!("{selector} {text}"), PATIENCE, || {
            self.ask(&command) == true
        });
    }

    pub(super) fn press(&mut self, keys: &[&str]) {
        self.ask(&json!({"do": "press", "keys": keys}));
    }

    pub(super) fn write(&mut self, text: &str) {
        self.ask(&json!({"do": "type", "text": text}));
    }

    pub(super) fn width(&mut self, width: u32) {
        self.ask(&json!({"do": "size", "width": width, "height": 900}));
    }

    pub(super) fn colours(&mut self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        let still = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        self.ask(&json!({"do": "media", "features": [feature, still]}));
    }

    /// Keeps a picture in `target/screenshots`, and holds the page to the rules of accessibility and to its width.
    pub(super) fn look(&mut self, name: &str) {
        let directory = target().join("screenshots");
        std::fs::create_dir_all(&directory).unwrap();
        self.ask(&json!({"do": "shot", "path": directory.join(format!("{name}.png"))}));
        let found = self.ask(&json!({"do": "axe"}));
        let grave = |one: &&Value| one["impact"] == "serious" || one["impact"] == "critical";
        let grave: Vec<_> = found.as_array().unwrap().iter().filter(grave).collect();
        assert!(grave.is_empty(), "{name}: {grave:#?}");
        let wider = self.run("document.documentElement.scrollWidth > innerWidth");
        assert_eq!(wider, false, "{name} is wider than the window");
    }

    /// Nothing of what was shown has run, was refused by the policy, or was asked of others.
    pub(super) fn is_well(&mut self) {
        let problems = self.ask(&json!({"do": "problems"}));
        for kind in [
            "exceptions",
            "console",
            "policy",
            "dialogs",
            "elsewhere",
            "violations",
        ] {
            assert_eq!(problems[kind], json!([]), "{kind}");
        }
        assert_eq!(self.run("typeof window.pwned"), "undefined");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends the browser, and itself, when nobody has anything to do for it.
        self.stdin = None;
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if std::time::Instant::now() > end {
                let _ = self.child.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
