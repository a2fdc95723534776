//! A server of OpenAI's protocol that answers nobody until it is told to.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longer than any test waits: whoever forgets to release it hears nothing.
const LIMIT: Duration = Duration::from_secs(600);

/// What it says when it may.
pub(crate) const SAYS: &str = "At last.";

/// The server. Its threads end with the test.
pub(crate) struct Held {
    pub(crate) address: String,
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Held {
    pub(crate) fn start() -> Held {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open = Arc::new((Mutex::new(false), Condvar::new()));
        let gate = open.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let gate = gate.clone();
                std::thread::spawn(move || serve(stream, &gate));
            }
        });
        Held { address, open }
    }

    /// From now on it answers.
    pub(crate) fn release(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }
}

fn serve(mut stream: TcpStream, gate: &(Mutex<bool>, Condvar)) {
    if read_request(&mut stream).is_none() {
        return;
    }
    let open = gate.0.lock().unwrap();
    let wait = gate.1.wait_timeout_while(open, LIMIT, |open| !*open);
    drop(wait.unwrap());
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let said = format!("{{\"role\":\"assistant\",\"content\":\"{SAYS}\"}}");
    let body = [
        chunk(&said, "null"),
        chunk("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    let body = body.concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // Whoever has gone does not read it.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Reads a request to its end.
fn read_request(stream: &mut TcpStream) -> Option<()> {
    let mut bytes = Vec::new();
    let mut more = [0; 4096];
    loop {
        let read = stream.read(&mut more).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&more[..read]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length:").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(());
            }
        }
    }
}
