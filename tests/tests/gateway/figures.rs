//! What a running program tells of itself, and what it holds.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use tidegate_tests::until;

use crate::client::{PATIENCE, Served};

impl Served {
    /// What `GET /metrics` of its admin API says.
    pub(crate) fn metrics(&self) -> String {
        self.told("/metrics")
    }

    /// One metric, with its labels; 0 where it is not told.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        metric(&self.metrics(), name)
    }

    /// One of the figures of the model `support`.
    pub(crate) fn of_model(&self, name: &str) -> u64 {
        self.metric(&format!("tidegate_model_{name}{{model=\"support\"}}"))
    }

    /// Tokens of answers that it has made.
    pub(crate) fn generated(&self) -> u64 {
        self.metric("tidegate_model_tokens_total{model=\"support\",kind=\"generated\"}")
    }

    /// One of its figures that is told in parts, over all of them.
    fn sum_of_model(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let begins = format!("tidegate_model_{name}{{model=\"support\",");
        let lines = metrics.lines().filter(|line| line.starts_with(&begins));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }

    /// Waits until nobody waits for an answer, and nothing is kept for one.
    pub(crate) fn settles(&self) {
        until("nothing is kept for those who have gone", PATIENCE, || {
            self.metric("tidegate_gateway_waiting_requests") == 0
                && self.sum_of_model("waiting_requests") == 0
                && self.of_model("running_sequences") == 0
                && self.of_model("used_kv_blocks") == 0
        });
        assert!(self.of_model("kv_blocks") > 0, "{}", self.metrics());
    }

    /// Its resident memory in KiB, where the system tells.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.id()));
        let status = status.ok()?;
        let mut lines = status.lines();
        let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
        resident.split_whitespace().next()?.parse().ok()
    }

    fn told(&self, path: &str) -> String {
        let said = told(&self.workspace.path("state"), path);
        said.unwrap_or_else(|| panic!("nobody answers {path}"))
    }
}

/// What the admin API answers of whoever runs on this state directory; none if nobody does.
pub(crate) fn told(state: &Path, path: &str) -> Option<String> {
    let file = std::fs::read(state.join("admin.json")).ok()?;
    let file: serde_json::Value = serde_json::from_slice(&file).ok()?;
    let (address, token) = (file["address"].as_str()?, file["token"].as_str()?);
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    Some(said)
}

/// A metric in what was told, with its labels; 0 where it is not there.
pub(crate) fn metric(metrics: &str, name: &str) -> u64 {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.trim().parse().unwrap())
}

/// Reads until this stands in what was read, and returns all of it.
pub(crate) fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let shown = String::from_utf8_lossy(&seen);
        if shown.contains(wanted) {
            return shown.into_owned();
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "it ended before {wanted:?}: {shown}");
        seen.extend(&buffer[..read]);
    }
}

/// All that comes until the other side ends the connection, which it may reset.
pub(crate) fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return seen,
            Ok(read) => seen.extend(&buffer[..read]),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    panic!(
                        "it is still open after {:?}: {}",
                        PATIENCE,
                        String::from_utf8_lossy(&seen)
                    )
                }
                _ => return seen,
            },
        }
    }
}

/// The status in the head of an answer; 0 where there is none.
pub(crate) fn status(answer: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(answer);
    let status = text
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    status.map_or(0, |status| status.parse().unwrap())
}
