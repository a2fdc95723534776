//! A pipeline that listens, and a client that writes bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Running, Workspace, root, until};

/// How long a program may take to load its model, or to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A running pipeline.
pub(crate) struct Served {
    pub(crate) workspace: Workspace,
    pub(crate) running: Running,
    /// `host:port`.
    pub(crate) address: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The data of its events.
    pub(crate) fn events(&self) -> Vec<String> {
        let lines = self.body.lines();
        let data = lines.filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }

    /// The text of a streamed chat.
    pub(crate) fn streamed(&self) -> String {
        let events = self.events();
        assert_eq!(
            events.last().map(String::as_str),
            Some("[DONE]"),
            "{self:?}"
        );
        let chunks = events[..events.len() - 1].iter();
        let text = |chunk: &String| {
            let chunk: Value = serde_json::from_str(chunk).unwrap();
            let content = &chunk["choices"][0]["delta"]["content"];
            content.as_str().unwrap_or_default().to_owned()
        };
        chunks.map(text).collect()
    }
}

/// The model of the demo.
pub(crate) fn model() -> String {
    let path = root().join("examples/support-bot/model");
    format!("[model.support]\npath = {:?}\n", path.display().to_string())
}

/// What a pipeline file has of a key.
pub(crate) fn digest(key: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    let digits: Vec<String> = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{}", digits.concat())
}

impl Served {
    /// Runs a pipeline until it listens.
    pub(crate) fn start(pipeline: &str) -> Served {
        Served::again(Workspace::new(pipeline))
    }

    /// Runs the pipeline of a directory until it listens.
    pub(crate) fn again(workspace: Workspace) -> Served {
        let mut running = workspace.start(&["run", "pipeline.toml"]);
        let mut address = None;
        until("the gateway", PATIENCE, || {
            let said = String::from_utf8(workspace.read("stderr.log")).unwrap();
            assert_eq!(running.ended(), None, "{said}");
            let line = said
                .lines()
                .find_map(|line| line.split_once("gateway listens on http://"));
            address = line.map(|(_, address)| address.trim().to_owned());
            address.is_some()
        });
        Served {
            workspace,
            running,
            address: address.unwrap(),
        }
    }

    /// Sends a request and reads the answer to its end.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Got {
        let mut stream = self.open(method, path, headers, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        read(&bytes)
    }

    /// Sends a request.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        open(&self.address, method, path, headers, body).unwrap()
    }

    /// Sends JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Got {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &json, &body.to_string())
    }
}

/// Sends a request to a program that may have gone.
pub(crate) fn open(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    Ok(stream)
}

/// Reads on until a text has come.
pub(crate) fn read_until(stream: &mut TcpStream, seen: &mut Vec<u8>, text: &str) {
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(seen).contains(text) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "no {text:?}: {}", String::from_utf8_lossy(seen));
        seen.extend(&buffer[..read]);
    }
}

/// An answer of a connection that has ended; chunks are joined.
pub(crate) fn read(bytes: &[u8]) -> Got {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let head = head.to_ascii_lowercase();
    let body = match head.contains("transfer-encoding: chunked") {
        true => joined(rest),
        false => rest.to_owned(),
    };
    Got {
        status: status.unwrap_or_else(|| panic!("{text:?}")),
        head,
        body,
    }
}

fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap();
        body += after.get(..length).unwrap_or(after);
        rest = after.get(length + 2..).unwrap_or_default();
    }
    body
}
