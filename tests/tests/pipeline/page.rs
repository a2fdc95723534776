//! The page of a running pipeline, in a browser.

mod adapters;
mod browser;
mod keys;
mod playground;
mod replicas;
mod trials;

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Running, Workspace, free_port, root, until};

use self::browser::Browser;

const PATIENCE: Duration = Duration::from_secs(120);
/// What would run if it were taken for more than text, and what turns or hides text.
const HOSTILE: &str = "</pre><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\
                       javascript:window.pwned=1 {{1+1}} ${window.pwned=1} \u{202e}desrever\u{2066} \u{1b}[2J";

/// The view of the engine, wide and narrow, light and dark: these words are seen in each, and pictures of that name made.
fn engine_in_every_look(link: &str, name: &str, words: &[&str]) -> Browser {
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(link);
    browser.sees("running");
    for width in [1280, 390] {
        for colours in ["light", "dark"] {
            browser.width(width);
            browser.colours(colours);
            browser.press(&["4"]);
            for word in words {
                browser.sees(word);
            }
            browser.look(&format!("{name}-{width}-{colours}"));
        }
    }
    browser
}

struct Paged {
    workspace: Workspace,
    running: Running,
    port: u16,
}

impl Paged {
    /// A pipeline with this guest and what else is said, at an address that is its own after a restart too.
    fn start(mode: &str, guest: &str, more: &str) -> Paged {
        let port = free_port();
        let workspace = Workspace::new(&format!(
            r#"
[pipeline]
name = "page"
state = "state"
cut-interval = "20ms"
[admin]
address = "127.0.0.1:{port}"
[source.in]
type = "file"
paths = ["in.jsonl"]
key = "k"
required = ["text"]
max-record = "4MiB"
[[stage]]
name = "guest"
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "{mode}" }}
{guest}
{more}
[sink.out]
type = "file"
inputs = ["guest"]
path = "out.jsonl"
"#
        ));
        workspace.write("in.jsonl", "");
        let running = workspace.start(&FOLLOW);
        Paged {
            workspace,
            running,
            port,
        }
    }

    fn append(&self, lines: &str) {
        let mut file = File::options()
            .append(true)
            .open(self.workspace.path("in.jsonl"))
            .unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    /// The link that the command prints, as soon as the host listens.
    fn link(&mut self) -> String {
        let mut link = String::new();
        until("the page's link", PATIENCE, || {
            let log = String::from_utf8_lossy(&self.workspace.read("stderr.log")).into_owned();
            assert_eq!(self.running.ended(), None, "{log}");
            let said = self.workspace.run(&["page", "--state", "state"]);
            link = String::from_utf8(said.stdout).unwrap().trim().to_owned();
            said.status.success()
        });
        link
    }

    fn status(&self) -> Value {
        let said = self
            .workspace
            .run(&["status", "--json", "--state", "state"]);
        serde_json::from_slice(&said.stdout).unwrap_or_default()
    }

    fn deploy(&self, config: &str) -> std::process::Output {
        self.workspace.write("new.json", config);
        let place = ["deploy", "--state", "state", "--slot", "guest"];
        self.workspace
            .run(&[&place[..], &["--config", "new.json"]].concat())
    }
}

const FOLLOW: [&str; 5] = ["run", "--quiet", "--until", "forever", "pipeline.toml"];

/// Views by their titles, with what each of them shows of this pipeline.
const VIEWS: [(&str, &str); 6] = [
    ("Stream", "hostile.wasm"),
    ("Slots", "misbehave 1.0.0"),
    ("Dead letters", "unreachable"),
    ("Engine", "Memory on the adapter"),
    ("Logs", "call 1"),
    ("Playground", "Beside the stream"),
];

#[test]
fn every_view_is_reached_by_mouse_and_by_keys_and_hostile_records_are_text() {
    let model = root().join("examples/support-bot/model");
    let more = format!(
        "[model.support]\npath = {:?}\nsequences = 2\n[[stage]]\nname = \"answer\"\ninputs = [\"guest\"]\n\
         model = \"support\"\nprompt = \"{{text}}\"\nmax-tokens = 4\ninto = \"attributes\"\n\
         [sink.answers]\ntype = \"file\"\ninputs = [\"answer\"]\npath = \"answers.jsonl\"",
        model.display().to_string()
    );
    let mut paged = Paged::start("last-words", "retries = 1", &more);
    let record = |value: Value| format!("{value}\n");
    let million = format!("{HOSTILE}{}", "<b>\u{202e}x".repeat(160_000));
    paged.append(&(record(json!({"k": "one", "text": "a good one"})) + HOSTILE + "\n"));
    // The guest panics at what ends so.
    paged.append(&format!(
        "{{\"k\":{},\"text\":\"\",\"long\":{},\"last\":\"bad\"}}\n",
        json!(HOSTILE),
        json!(million)
    ));
    let link = paged.link();
    let (address, token) = link.split_once("#token=").unwrap();
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");

    // Without the token nothing is shown but where it comes from.
    browser.open(address);
    browser.sees("tidegate page");
    browser.look("sign-in");
    browser.click("input[type=password]", "");
    browser.write("not the token");
    browser.press(&["Enter"]);
    browser.sees("does not know this token");
    browser.click("input[type=password]", "");
    browser.write(token);
    browser.press(&["Enter"]);
    browser.sees("running");
    until("the dead letters", PATIENCE, || {
        paged.status()["records"]["dead"] == 2
    });

    for width in [1280, 400] {
        for colours in ["light", "dark"] {
            browser.width(width);
            browser.colours(colours);
            for (title, shown) in VIEWS {
                browser.click("nav a", title);
                browser.sees(shown);
                let name = title.to_lowercase().replace(' ', "-");
                browser.look(&format!("{name}-{width}-{colours}"));
            }
        }
    }
    browser.width(1280);
    browser.colours("light");
    // The same by keys: their numbers, and Enter on what Tab comes to.
    for (index, (_, shown)) in VIEWS.iter().enumerate() {
        browser.press(&[&(index + 1).to_string()]);
        browser.sees(shown);
    }
    browser.press(&["?"]);
    browser.sees("Single keys do this");
    browser.look("keys");
    browser.press(&["Escape"]);
    browser.press(&["1"]);
    browser.run("document.activeElement.blur()");
    let mut by_tab = Vec::new();
    for _ in 0..40 {
        browser.press(&["Tab"]);
        let text = browser.run("document.activeElement.textContent.trim()");
        by_tab.push(text.as_str().unwrap().to_owned());
    }
    for (title, _) in VIEWS {
        let is_there = by_tab.iter().any(|text| text.starts_with(title));
        assert!(is_there, "{title} is not reached by Tab: {by_tab:?}");
    }
    browser.press(&["t", "t"]);
    until("the dark colours", PATIENCE, || {
        browser.run("document.documentElement.dataset.theme") == "dark"
    });
    browser.press(&["t"]);

    // A letter of a million characters is opened, and what it says is text.
    browser.press(&["3"]);
    browser.sees("unreachable");
    browser.press(&["/"]);
    until("the filter has the keys", PATIENCE, || {
        browser.run("document.activeElement.tagName") == "INPUT"
    });
    browser.write("unreachable");
    browser.press(&["Enter"]);
    browser.sees("All 1 shown");
    browser.click(".letter .open", "unreachable");
    browser.sees("characters are left");
    browser.sees("<script>window.pwned=1</script>");
    browser.sees("\\u{202e}desrever");
    browser.look("letter");
    browser.press(&["Escape"]);
    // Sent again, it dies again, and is marked where it was.
    browser.click(".letter input", "");
    browser.click("button.strong", "Send 1 again");
    browser.sees("1 sent again");
    until("it dies again", PATIENCE, || {
        paged.status()["records"]["dead"] == 3
    });
    until("both are listed", PATIENCE, || {
        browser.click("button", "Find");
        // What is asked for comes after the click, and the next click asks anew.
        std::thread::sleep(Duration::from_secs(1));
        browser.run("document.querySelectorAll('.letter .open').length") == 2
    });
    // The one that was sent cannot be chosen again.
    browser.sees("All 2 shown, 1 can be sent again");
    browser.sees("sent again");
    browser.look("sent");
    browser.is_well();
    assert_eq!(
        browser.run("document.querySelectorAll('main script, main img').length"),
        0
    );
    // What is no token is none, and shows the way in as ever.
    browser.open("about:blank");
    browser.open(&format!("{address}#token=%"));
    browser.sees("does not know this token");
}

#[test]
fn a_swap_an_open_breaker_a_lost_connection_and_a_restart_are_seen() {
    let breaker = "breaker = { failed-records = 2, within = \"1h\" }";
    let mut paged = Paged::start("pass", breaker, "");
    let link = paged.link();
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&link);
    browser.sees("running");
    let address = browser.run("location.href");
    assert!(!address.as_str().unwrap().contains("token"), "{address}");

    let swapped = paged.deploy(r#"{"mode": "trap"}"#);
    assert!(swapped.status.success(), "{swapped:?}");
    browser.press(&["2"]);
    browser.sees("switched");
    browser.look("swapped");
    for n in 0..40 {
        let word = if n % 2 == 0 { "bad" } else { "good" };
        paged.append(&format!("{{\"k\":\"a\",\"n\":{n},\"text\":\"{word}\"}}\n"));
    }
    browser.sees("breaker open");
    browser.sees("fell back");
    browser.look("breaker");
    browser.press(&["1"]);
    browser.sees("breaker is open in slot guest");
    browser.look("breaker-stream");
    until("the open breaker is said", PATIENCE, || {
        let said = browser.run("document.querySelector('p.hidden[role=status]').textContent");
        said.as_str().unwrap().contains("Something is wrong")
    });
    let mended = paged.deploy(r#"{"mode": "pass", "turns": 1}"#);
    assert!(mended.status.success(), "{mended:?}");
    until("the breaker is open no more", PATIENCE, || {
        let shown = browser.run("document.body.innerText");
        !shown.as_str().unwrap().contains("breaker is open in slot")
    });

    // A tab that nobody sees lets go of its stream, and takes it up again when somebody looks.
    let streams = "performance.getEntriesByType('resource').filter(one => one.name.endsWith('/v1/live')).length";
    let looks = |browser: &mut Browser, hidden: bool| {
        browser.run(&format!(
            "Object.defineProperty(document, 'hidden', {{ configurable: true, get: () => {hidden} }});\
             document.dispatchEvent(new Event('visibilitychange'))"
        ));
    };
    assert_eq!(browser.run(streams), 0, "it is still read");
    looks(&mut browser, true);
    until("the stream is let go of", PATIENCE, || {
        browser.run(streams) == 1
    });
    paged.append("{\"k\":\"a\",\"text\":\"unseen\"}\n");
    until("it goes through", PATIENCE, || {
        let written = paged.workspace.read("out.jsonl");
        String::from_utf8_lossy(&written).contains("unseen")
    });
    let shown = browser.run("document.body.innerText");
    assert!(!shown.as_str().unwrap().contains("connection is lost"));
    assert_eq!(browser.run(streams), 1, "no other was begun");
    looks(&mut browser, false);
    let stands = "fetch('/').then(() => document.querySelector('.link').innerText)";
    until("it is live again", PATIENCE, || {
        browser.run(stands) == "live"
    });

    // A host that says nothing is one that is lost, until it says something.
    paged.running.signal("STOP");
    browser.sees("The connection is lost");
    browser.look("lost");
    paged.running.signal("CONT");
    // A try that was under way may have its answer before anybody clicks.
    let try_now = json!({"do": "click", "selector": "button", "text": "Try now"});
    until("it is live after a rest", PATIENCE, || {
        browser.ask(&try_now);
        browser.run("document.querySelector('.link')?.innerText") == "live"
    });
    paged.running.kill();
    browser.sees("The connection is lost");
    paged.running = paged.workspace.start(&FOLLOW);
    // No token outlives its host: a page never goes on with figures that count anew.
    browser.sees("has a new one after each start: ask for the link again");
    // What was known stays, with its time, also where somebody signs in with what is no token.
    let known = |browser: &mut Browser| {
        browser.sees("What is shown is of");
        let shown = browser.run("document.querySelector('main').innerText");
        assert!(shown.as_str().unwrap().contains("guest"), "{shown}");
    };
    known(&mut browser);
    browser.look("restarted");
    browser.click("form.again input", "");
    browser.write("not the token");
    browser.press(&["Enter"]);
    browser.sees("does not know this token");
    known(&mut browser);
    let link = paged.link();
    assert!(link.contains(&format!(":{}/", paged.port)), "{link}");
    let (_, token) = link.split_once("#token=").unwrap();
    browser.click("form.again input", "");
    browser.run("document.querySelector('form.again input').select()");
    browser.write(token);
    browser.press(&["Enter"]);
    until("it is live with the new token", PATIENCE, || {
        browser.run("document.querySelector('.link')?.innerText") == "live"
    });
    browser.sees("running");
    browser.sees("guest");
}
