//! Tokens that readers see before the answer is whole.

use std::io::Read;
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};

use serde_json::{Value, json};
use tidegate_codec::tokens::{OwnedWhat, State, TokenReader, parse_token_event};
use tidegate_contract::Lane;

use crate::client::{Got, Served, model, read};
use crate::server::{LIMIT, Server, finish, said};

/// A pipeline that asks this model.
fn pipeline(name: &str, model: &str) -> String {
    format!(
        r#"
[pipeline]
name = "aloud"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
{model}
[[stage]]
name = "answer"
model = "{name}"
messages = true
max-tokens = 40
tokens-to = ["live"]
[feed.live]
type = "output"
[sink.reply]
type = "gateway"
"#
    )
}

/// An output that is read event by event.
struct Follows {
    stream: TcpStream,
    seen: Vec<u8>,
    reader: TokenReader,
    texts: Vec<String>,
}

impl Follows {
    fn begin(served: &Served) -> Follows {
        Follows {
            stream: served.open("GET", "/v1/outputs/live?from=start", &[], ""),
            seen: Vec::new(),
            reader: TokenReader::default(),
            texts: Vec::new(),
        }
    }

    /// Reads on until this holds.
    fn until(&mut self, holds: impl Fn(&Follows) -> bool) {
        let mut buffer = [0; 4096];
        while !holds(self) {
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&self.seen));
            self.seen.extend(&buffer[..read]);
            while let Some(end) = self.seen.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.seen.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data:") else {
                    continue;
                };
                let event = parse_token_event(data.trim_ascii()).unwrap();
                self.reader.take(&event);
                if let OwnedWhat::Text { text, .. } = event.what {
                    self.texts.push(text);
                }
            }
        }
    }

    /// Reads until an answer is whole, and returns its text.
    fn joined(mut self) -> String {
        self.until(|follows| follows.whole().is_some());
        let request = self.whole().unwrap();
        assert!(request.starts_with("answer/"), "{request}");
        let mut joined = self.reader.answer(&request).unwrap();
        joined.choices[0].lanes.remove(&Lane::Content).unwrap()
    }

    /// The request whose answer is whole.
    fn whole(&self) -> Option<String> {
        let is_whole = |request: &&str| self.reader.state(request) == Some(State::Complete);
        self.reader.requests().find(is_whole).map(str::to_owned)
    }
}

const CHAT: &str = "/v1/chat/completions";

fn chat(model: &str) -> Value {
    let message = json!({"role": "user", "content": "My order came incomplete."});
    json!({"model": model, "messages": [message]})
}

fn text(got: &Got) -> String {
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    let text = answer["choices"][0]["message"]["content"].as_str();
    text.unwrap().to_owned()
}

#[test]
fn a_reader_sees_the_text_of_an_answer_while_it_is_made() {
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::start(move |asked| {
        asked.begin();
        asked.event(&said("One "));
        waits.lock().unwrap().recv_timeout(LIMIT).unwrap();
        asked.event(&said("two"));
        asked.event(&finish("stop"));
        asked.end();
    });
    let model = format!(
        "[model.there]\ntype = \"openai\"\nurl = \"{}\"\ncontext = 4096\n",
        server.url
    );
    let served = Served::start(&pipeline("there", &model));
    let mut follows = Follows::begin(&served);
    let json = [("content-type", "application/json")];
    let mut asks = served.open("POST", CHAT, &json, &chat("there").to_string());
    // Before the model has said the rest.
    follows.until(|follows| follows.texts == ["One "]);
    assert_eq!(follows.whole(), None);
    go_on.send(()).unwrap();
    let mut got = Vec::new();
    asks.read_to_end(&mut got).unwrap();
    assert_eq!(text(&read(&got)), "One two");
    // Its end comes before the answer is committed, so that all of it is on the way.
    assert_eq!(follows.joined(), "One two");
}

#[test]
fn a_reader_joins_the_text_of_an_answer_to_what_its_client_has() {
    let served = Served::start(&pipeline("support", &model()));
    let follows = Follows::begin(&served);
    let answer = text(&served.post(CHAT, &chat("support")));
    assert!(!answer.is_empty());
    assert_eq!(follows.joined(), answer);
}
