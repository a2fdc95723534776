//! What a running program tells of itself, and what it holds.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_tests::until;

use crate::client::{PATIENCE, Served};

impl Served {
    /// What `GET /metrics` of its admin API says.
    pub(crate) fn metrics(&self) -> String {
        self.told("/metrics")
    }

    /// One metric, with its labels; 0 where it is not told.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// One of the figures of the model `support`.
    pub(crate) fn of_model(&self, name: &str) -> u64 {
        self.metric(&format!("tidegate_model_{name}{{model=\"support\"}}"))
    }

    /// Waits until nobody waits for an answer, and nothing is kept for one.
    pub(crate) fn settles(&self) {
        until("nothing is kept for those who have gone", PATIENCE, || {
            self.metric("tidegate_gateway_requests_waiting") == 0
                && self.of_model("requests_waiting") == 0
                && self.of_model("requests_running") == 0
                && self.of_model("kv_blocks_used") == 0
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
        let file = self.workspace.json("state/admin.json");
        let text = |name: &str| file[name].as_str().unwrap().to_owned();
        let (address, token) = (text("address"), text("token"));
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        said
    }
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
