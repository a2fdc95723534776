//! A scripted server on loopback: it answers each request as a test says, to the byte. Nothing waits without a limit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Longest wait for anything: a test that needs it has failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A server that answers each request by a script.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<(String, Value)>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

/// A request, and the connection that its answer goes to.
pub(crate) struct Asked {
    /// Counted from 0.
    pub(crate) number: usize,
    pub(crate) body: Value,
    pub(crate) stream: TcpStream,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&mut Asked) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let script = Arc::new(script);
        let (noted, counted) = (seen.clone(), connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                let (noted, script) = (noted.clone(), script.clone());
                std::thread::spawn(move || serve(stream, &noted, &*script));
            }
        });
        Server {
            url,
            seen,
            connections,
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(crate) fn body(&self, number: usize) -> Value {
        self.seen.lock().unwrap()[number].1.clone()
    }

    pub(crate) fn head(&self, number: usize) -> String {
        self.seen.lock().unwrap()[number].0.clone()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<(String, Value)>>, script: &dyn Fn(&mut Asked)) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    let mut bytes = Vec::new();
    loop {
        let head_end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(0) | Err(_) => return,
                Ok(count) => bytes.extend_from_slice(&more[..count]),
            }
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")
                    .map(str::to_owned)
            })
            .map_or(0, |length| length.trim().parse().unwrap());
        while bytes.len() < head_end + length {
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(0) | Err(_) => return,
                Ok(count) => bytes.extend_from_slice(&more[..count]),
            }
        }
        let body = bytes[head_end..head_end + length].to_vec();
        bytes.drain(..head_end + length);
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push((head, body.clone()));
            seen.len() - 1
        };
        let mut asked = Asked {
            number,
            body,
            stream,
        };
        script(&mut asked);
        stream = asked.stream;
    }
}

impl Asked {
    /// Writes bytes; a client that has gone is no fault of the server's.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The head of a stream.
    pub(crate) fn begin(&mut self) {
        self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    }

    /// A piece of its body.
    pub(crate) fn piece(&mut self, text: &str) {
        self.send(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }

    /// An event with JSON.
    pub(crate) fn event(&mut self, value: &Value) {
        self.piece(&format!("data: {value}\n\n"));
    }

    /// The last events and the end, at once.
    pub(crate) fn rest(&mut self, values: &[Value]) {
        let chunk = |value: &Value| {
            let event = format!("data: {value}\n\n");
            format!("{:x}\r\n{event}\r\n", event.len())
        };
        let chunks: String = values.iter().map(chunk).collect();
        self.send(format!("{chunks}0\r\n\r\n").as_bytes());
    }

    pub(crate) fn end(&mut self) {
        self.send(b"0\r\n\r\n");
    }

    /// Closes the connection.
    pub(crate) fn cut(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// An answer that is no stream.
    pub(crate) fn answer(&mut self, status: u16, headers: &str, body: &str) {
        let text = format!(
            "HTTP/1.1 {status} As told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        self.send(text.as_bytes());
    }

    /// A whole streamed answer of these texts.
    pub(crate) fn say(&mut self, texts: &[&str]) {
        self.begin();
        self.event(
            &json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        );
        for text in texts {
            self.event(&said(text));
        }
        self.event(&finish("stop"));
        self.event(&usage(5, texts.len()));
        self.piece("data: [DONE]\n\n");
        self.end();
    }

    /// Waits until the client closes the connection.
    pub(crate) fn wait_for_the_end(&mut self) -> bool {
        let mut byte = [0; 1];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

pub(crate) fn said(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

pub(crate) fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

pub(crate) fn usage(prompt: usize, completion: usize) -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})
}
