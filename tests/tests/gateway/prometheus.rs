//! A Prometheus that scrapes a running program, and promtool. `cargo xtask prometheus` fetches them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tidegate_tests::{Running, Workspace, root, target, until};

use crate::client::PATIENCE;

fn program(name: &str) -> PathBuf {
    let path = target().join("prometheus").join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo xtask prometheus",
        path.display()
    );
    path
}

/// Runs promtool with this on its standard input, and expects that it finds nothing. Returns what it said.
pub(crate) fn promtool(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program("promtool"))
        .args(arguments)
        .current_dir(root().join("deploy/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let said = said.concat();
    assert!(output.status.success(), "{arguments:?}: {said}\n{input}");
    said
}

/// A Prometheus with the configuration that is shown in `deploy/`. It ends when this is dropped.
pub(crate) struct Prometheus {
    address: String,
    _running: Running,
    _workspace: Workspace,
}

impl Prometheus {
    /// Starts one that scrapes this address with the token in this file, each second.
    pub(crate) fn start(scraped: &str, token: &str) -> Prometheus {
        let deploy = root().join("deploy/prometheus");
        let mut config = std::fs::read_to_string(deploy.join("prometheus.yml")).unwrap();
        let rules = deploy.join("alerts.yml").display().to_string();
        for (shown, here) in [
            ("127.0.0.1:9464", scraped),
            ("/etc/tidegate/metrics-token", token),
            ("alerts.yml", &rules),
            ("scrape_interval: 15s", "scrape_interval: 1s"),
            ("evaluation_interval: 15s", "evaluation_interval: 1s"),
        ] {
            assert!(config.contains(shown), "{shown} in {config}");
            config = config.replace(shown, here);
        }
        let workspace = Workspace::new("");
        workspace.write("prometheus.yml", config);
        // Free a moment ago: if somebody else takes it meanwhile, Prometheus ends, and another is tried.
        for _ in 0..10 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            drop(listener);
            let log = std::fs::File::create(workspace.path("prometheus.log")).unwrap();
            let mut command = Command::new(program("prometheus"));
            command
                .arg(format!("--web.listen-address={address}"))
                .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
                .current_dir(workspace.path(""))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log);
            let mut running = Running::spawn(command);
            let mut ended = false;
            until("Prometheus", PATIENCE, || {
                ended = running.ended().is_some();
                ended || ask(&address, "/-/ready").is_some_and(|said| said.contains("Ready"))
            });
            if !ended {
                return Prometheus {
                    address,
                    _running: running,
                    _workspace: workspace,
                };
            }
        }
        let log = String::from_utf8(workspace.read("prometheus.log")).unwrap();
        panic!("Prometheus does not start: {log}");
    }

    /// What its API answers.
    pub(crate) fn asked(&self, path: &str) -> Value {
        let said = ask(&self.address, path).unwrap();
        let answer: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {path}: {said}"));
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// The series that answer a query now, each with its value.
    pub(crate) fn query(&self, query: &str) -> Vec<Value> {
        let encode = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        let encoded: String = query.bytes().map(encode).collect();
        let data = self.asked(&format!("/api/v1/query?query={encoded}"));
        data["result"].as_array().unwrap().clone()
    }
}

/// The body of the answer to a request; none if nobody answers.
fn ask(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    // Of 1.0, so that the body is as it is and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    let (_, body) = said.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}
