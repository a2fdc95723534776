//! Whether a host is well, as probes ask it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

const PATIENCE: Duration = Duration::from_secs(120);
const PIPELINE: &str = r#"
[pipeline]
name = "health"
state = "state"
[gateway]
address = "127.0.0.1:0"
[source.events]
type = "ingest"
[sink.out]
type = "file"
path = "out.jsonl"
"#;

fn health(workspace: &Workspace, arguments: &[&str]) -> (Option<i32>, String) {
    let mut all = vec!["health", "--state", "state"];
    all.extend_from_slice(arguments);
    let output = workspace.run(&all);
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The status and body of an answer to a request without any key.
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

#[test]
fn a_host_is_live_and_ready_and_probes_are_told_so_with_reasons_for_who_knows_the_token() {
    let workspace = Workspace::new(PIPELINE);
    let (code, why) = health(&workspace, &[]);
    assert_eq!(code, Some(1), "nothing runs: {why}");
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("it is ready", PATIENCE, || {
        health(&workspace, &["--ready"]).0 == Some(0)
    });
    assert_eq!(health(&workspace, &[]), (Some(0), "ok\n".into()));
    let (code, report) = health(&workspace, &["--ready", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (code, report),
        (
            Some(0),
            serde_json::json!({"live": true, "ready": true, "reasons": []})
        )
    );
    // A probe knows no token: it is told whether, and never why.
    let admin = workspace.json("state/admin.json");
    let admin = admin["address"].as_str().unwrap().to_owned();
    let status = workspace.run(&["status", "--json", "--state", "state"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let url = status["gateway"]["url"].as_str().unwrap();
    let gateway = url.trim_start_matches("http://").to_owned();
    for address in [&admin, &gateway] {
        for path in ["/healthz/live", "/healthz/ready"] {
            let told = get(address, path).unwrap();
            assert_eq!(
                told,
                (200, "{\"status\":\"ok\"}".to_owned()),
                "{address}{path}"
            );
        }
    }
    assert_eq!(get(&admin, "/v1/health").unwrap().0, 401);
    assert_eq!(get(&admin, "/healthz/other").unwrap().0, 401);
    assert!(running.terminate(PATIENCE).success());
    assert_eq!(health(&workspace, &["--ready"]).0, Some(1), "it has ended");
}

#[test]
fn a_host_whose_broker_is_away_is_live_and_says_why_it_is_not_ready() {
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "away"
state = "state"
[source.tickets]
type = "kafka"
brokers = ["127.0.0.1:9"]
topic = "tickets"
group = "away"
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#,
    );
    let _running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("it answers", PATIENCE, || {
        health(&workspace, &[]).0 == Some(0)
    });
    let (code, why) = health(&workspace, &["--ready"]);
    assert_eq!(code, Some(1));
    assert!(why.contains("tickets") || why.contains("starting"), "{why}");
}

#[test]
fn a_host_that_is_told_to_end_is_not_ready_while_clients_still_have_their_answers() {
    let workspace = Workspace::new(PIPELINE);
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("it is ready", PATIENCE, || {
        health(&workspace, &["--ready"]).0 == Some(0)
    });
    let status = workspace.run(&["status", "--json", "--state", "state"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let url = status["gateway"]["url"].as_str().unwrap();
    let address = url.trim_start_matches("http://");
    // A request that is under way: its body is waited for, and not there yet.
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/ingest/events HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut goes_on = [0; 21];
    stream.read_exact(&mut goes_on).unwrap();
    assert_eq!(&goes_on, b"HTTP/1.1 100 Continue");
    running.signal("TERM");
    let (mut why, mut ended) = (String::new(), None);
    until("it says that it ends", PATIENCE, || {
        (_, why) = health(&workspace, &["--ready"]);
        ended = running.ended();
        why.contains("ending") || ended.is_some()
    });
    assert!(why.contains("the pipeline is ending"), "{ended:?}: {why}");
    drop(stream);
    assert!(running.wait(PATIENCE).success());
}

/// What is told to a socket of systemd's, message by message, each with a line for each fact.
#[cfg(target_os = "linux")]
#[test]
fn systemd_is_told_that_it_runs_that_it_is_not_hung_and_that_it_ends() {
    let workspace = Workspace::new(PIPELINE);
    let path = workspace.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = workspace.command(&["run", "--quiet", "pipeline.toml"]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "300000");
    let mut running = tidegate_tests::Running::spawn(command);
    let told = |fact: &str| {
        let mut bytes = [0; 4096];
        loop {
            let length = socket.recv(&mut bytes).expect(fact);
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.lines().any(|line| line == fact) {
                return text;
            }
        }
    };
    let first = told("READY=1");
    assert!(first.contains("WATCHDOG=1"), "{first}");
    // Again and again.
    for _ in 0..3 {
        told("WATCHDOG=1");
    }
    running.signal("TERM");
    told("STOPPING=1");
    assert!(running.wait(PATIENCE).success());
}

#[test]
fn whoever_asks_is_answered_before_a_log_is_read_that_may_be_long() {
    let pipeline = |admin: &str| {
        let source = "[source.in]\ntype = \"file\"\npaths = [\"in.txt\"]\nformat = \"raw\"\n";
        let sink = "[sink.out]\ntype = \"file\"\npath = \"out.txt\"\nformat = \"raw\"\n";
        format!("[pipeline]\nname = \"early\"\nstate = \"state\"\n{admin}{source}{sink}")
    };
    let workspace = Workspace::new(&pipeline(""));
    workspace.write("in.txt", "one\n");
    workspace.run_pipeline();
    // The log of a version that is not known: it is refused when it is read.
    let mut log = workspace.read("state/commit.log");
    log[4] ^= 0xff;
    workspace.write("state/commit.log", &log);
    let refused = || {
        let output = workspace.run(&["run", "--quiet", "pipeline.toml"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let why = refused();
    assert!(why.contains("another version"), "{why}");
    assert!(!workspace.path("state/admin.json").exists());
    // The admin API cannot be there, and that is known before the log is read.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    workspace.pipeline(&pipeline(&format!("[admin]\naddress = \"{address}\"\n")));
    let why = refused();
    assert!(why.contains(&address.to_string()), "{why}");
    assert!(!why.contains("another version"), "{why}");
}

#[test]
fn a_host_whose_models_server_is_left_alone_is_live_and_says_so_to_those_who_watch_from_elsewhere()
{
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "watched"
state = "state"
[admin]
metrics-address = "127.0.0.1:0"
[model.far]
type = "openai"
url = "http://127.0.0.1:9/v1"
attempts = 1
breaker = { within = "1h", least = 2, share = 0.5, open = "1h" }
[source.tickets]
type = "file"
paths = ["tickets.jsonl"]
[[stage]]
name = "ask"
model = "far"
prompt = "{n}"
[sink.out]
type = "file"
path = "out.jsonl"
"#,
    );
    workspace.write("tickets.jsonl", "{\"n\": 1}\n".repeat(10));
    let run = [
        "run",
        "--log",
        "info",
        "--until",
        "forever",
        "pipeline.toml",
    ];
    let mut running = workspace.start(&run);
    // Any free port: the log has it.
    let mut address = String::new();
    until("it listens", PATIENCE, || {
        let log = String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned();
        let line = log.lines().find(|line| line.contains("metrics and health"));
        let told = line.and_then(|line| line.split_once("address="));
        let told = told.and_then(|(_, told)| told.split_whitespace().next());
        address = told.unwrap_or_default().to_owned();
        !address.is_empty()
    });
    let status = |path: &str| get(&address, path).map(|(status, _)| status);
    until("it has had no answer for long", PATIENCE, || {
        let (code, why) = health(&workspace, &["--ready"]);
        code == Some(1) && why.contains("model far: its server has not answered for")
    });
    assert_eq!(health(&workspace, &[]).0, Some(0), "no restart would help");
    assert_eq!(status("/healthz/live"), Some(200));
    assert_eq!(status("/healthz/ready"), Some(503));
    let (_, metrics) = get(&address, "/metrics").unwrap();
    assert!(metrics.contains("\ntidegate_ready 0\n"), "{metrics}");
    for path in ["/", "/v1/status", "/v1/health", "/v1/live"] {
        assert_eq!(status(path), Some(404), "{path}");
    }
    running.kill();
}

#[test]
fn a_host_whose_cuts_do_not_come_to_an_end_is_live_and_says_so() {
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "stuck"
state = "state"
cut-interval = "20ms"
[source.lines]
type = "file"
paths = ["in.txt"]
format = "raw"
[sink.out]
type = "stdout"
format = "raw"
"#,
    );
    // More than a pipe takes that nobody reads.
    workspace.write("in.txt", "a line that nobody reads\n".repeat(40_000));
    let mut command = workspace.command(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    command.stdout(std::process::Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut output = running.stdout.take().unwrap();
    let killed_in_the_end = tidegate_tests::Running::of(running);
    let mut why = String::new();
    until("it is not ready", PATIENCE, || {
        (_, why) = health(&workspace, &["--ready"]);
        why.contains("no cut of worker 0 has held for")
    });
    assert_eq!(health(&workspace, &[]), (Some(0), "ok\n".into()), "{why}");
    // Somebody reads: the cut holds, and it is well again.
    let reader = std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    until("it is ready again", PATIENCE, || {
        health(&workspace, &["--ready"]).0 == Some(0)
    });
    drop(killed_in_the_end);
    reader.join().unwrap().unwrap();
}
