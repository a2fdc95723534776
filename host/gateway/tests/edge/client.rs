//! A client that says exactly what it is told to.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No wait of a test is longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    /// Read and not looked at.
    pub(crate) rest: Vec<u8>,
}

/// An answer whose body has a length, or chunks.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Read {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of an error, whose shape is checked.
    pub(crate) fn error_code(&self) -> String {
        let json = self.json();
        let error = json["error"].as_object().expect("an error");
        let mut names: Vec<_> = error.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["code", "message", "param", "type"]);
        assert!(
            self.header("x-request-id").is_some(),
            "no id: {}",
            self.head
        );
        let after = self
            .header("retry-after")
            .map(|after| after.parse::<u64>().unwrap());
        assert!(
            after.is_some_and(|after| after >= 1) || self.header("x-should-retry") == Some("false"),
            "neither when to retry nor that it does not help: {}",
            self.head
        );
        error["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) async fn to(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S) -> Client<S> {
        Client {
            stream,
            rest: Vec::new(),
        }
    }

    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        tokio::time::timeout(LIMIT, self.stream.write_all(bytes.as_ref()))
            .await
            .unwrap()
            .unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Reads more. False at the end, also where the connection was reset.
    pub(crate) async fn more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = tokio::time::timeout(LIMIT, self.stream.read(&mut bytes))
            .await
            .expect("nothing came");
        let count = read.unwrap_or(0);
        self.rest.extend_from_slice(&bytes[..count]);
        count > 0
    }

    /// Reads until the bytes are there, and takes all up to their end.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self
                .rest
                .windows(end.len())
                .position(|window| window == end)
            {
                return Some(self.rest.drain(..at + end.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads the head of an answer.
    pub(crate) async fn head(&mut self) -> (u16, String) {
        let head = self.until(b"\r\n\r\n").await.expect("no head of an answer");
        let head = String::from_utf8(head).unwrap();
        let status = head[9..12].parse().unwrap();
        (status, head)
    }

    /// Reads a whole answer.
    pub(crate) async fn answer(&mut self) -> Read {
        let (status, head) = self.head().await;
        let mut read = Read {
            status,
            head,
            body: Vec::new(),
        };
        if let Some(length) = read.header("content-length") {
            let length: usize = length.parse().unwrap();
            while self.rest.len() < length {
                assert!(self.more().await, "the answer ends early");
            }
            read.body = self.rest.drain(..length).collect();
        } else if read.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await.filter(|chunk| !chunk.is_empty()) {
                read.body.extend(chunk);
            }
        }
        read
    }

    /// Reads a chunk: empty is the last, none a connection that ended before it.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.until(b"\r\n").await?;
        let length = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        while self.rest.len() < length + 2 {
            if !self.more().await {
                return None;
            }
        }
        let chunk = self.rest.drain(..length).collect();
        self.rest.drain(..2);
        Some(chunk)
    }

    /// Whether the connection ends with nothing more.
    pub(crate) async fn ends(&mut self) -> bool {
        self.rest.is_empty() && !self.more().await
    }
}

/// A request with a body.
pub(crate) fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// One without.
pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
}
