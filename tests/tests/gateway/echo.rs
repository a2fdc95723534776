//! A model server of the test's own, which speaks OpenAI's protocol: it keeps what it is asked, and says again what it was
//! told, in another order and in pieces that end anywhere.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidegate_tests::Random;

/// The words that a conversation is known by.
pub(crate) const CASE: &str = "conversation ";

/// The server. It ends with the process.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    pub(crate) fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let kept = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                std::thread::spawn(move || answer(stream, &kept));
            }
        });
        Echo { address, asked }
    }

    /// The bodies of all that it was asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// What an answer says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) content: String,
    pub(crate) reasoning: String,
    /// Of the one call.
    pub(crate) arguments: String,
}

/// In which form it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Prose,
    Json,
    Call,
}

/// The answer to these texts: all of them, in an order that the conversation's name decides.
pub(crate) fn says(form: Form, name: &str, texts: &[String]) -> Said {
    let mut random = seeded(name);
    let mut order: Vec<usize> = (0..texts.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let texts: Vec<&str> = order.into_iter().map(|at| texts[at].as_str()).collect();
    match form {
        Form::Prose => Said {
            content: format!("You wrote: {}", texts.join(" | ")),
            reasoning: format!("It was said that {}", texts[0]),
            ..Said::default()
        },
        Form::Json => Said {
            content: json!({"texts": texts}).to_string(),
            ..Said::default()
        },
        Form::Call => Said {
            arguments: json!({"texts": texts}).to_string(),
            ..Said::default()
        },
    }
}

/// The name of the conversation that stands in a text.
pub(crate) fn name(text: &str) -> &str {
    let at = text.find(CASE).map(|at| at + CASE.len());
    let rest = at.map_or("", |at| &text[at..]);
    let end = rest.find(|letter: char| !letter.is_ascii_lowercase());
    &rest[..end.unwrap_or(rest.len())]
}

/// All texts of a conversation, oldest first: contents, and arguments of calls.
pub(crate) fn texts(messages: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for message in messages.as_array().unwrap() {
        texts.extend(message["content"].as_str().map(str::to_owned));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            texts.extend(call["function"]["arguments"].as_str().map(str::to_owned));
        }
    }
    texts
}

fn seeded(name: &str) -> Random {
    Random(
        name.bytes()
            .fold(7, |seed, byte| seed * 31 + u64::from(byte)),
    )
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<String>>) {
    let Some(body) = read(&mut stream) else {
        return;
    };
    kept.lock().unwrap().push(body.clone());
    let asked: Value = serde_json::from_str(&body).unwrap();
    let texts = texts(&asked["messages"]);
    let name = name(texts.last().unwrap());
    let form = match (asked.get("response_format"), asked.get("tools")) {
        (Some(_), _) => Form::Json,
        (None, Some(_)) => Form::Call,
        (None, None) => Form::Prose,
    };
    let said = says(form, name, &texts);
    // Some are refused.
    let refused = texts.iter().any(|text| text.contains("REFUSE"));
    let head = "content-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let answer = match refused {
        true => "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}".to_owned(),
        false => format!("HTTP/1.1 200 OK\r\n{head}{}", events(&said, name)),
    };
    // Who asked may have gone.
    let _ = stream.write_all(answer.as_bytes());
}

/// The body of a request.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}

/// The answer as a stream of small pieces.
fn events(said: &Said, name: &str) -> String {
    let mut random = seeded(name);
    let mut events = String::new();
    let mut event = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "echo", "choices": [choice]});
        events += &format!("data: {chunk}\n\n");
    };
    event(json!({"role": "assistant", "content": ""}), Value::Null);
    for piece in pieces(&said.reasoning, &mut random) {
        event(json!({"reasoning_content": piece}), Value::Null);
    }
    for piece in pieces(&said.content, &mut random) {
        event(json!({"content": piece}), Value::Null);
    }
    if !said.arguments.is_empty() {
        let function = json!({"name": "note", "arguments": ""});
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
        event(json!({"tool_calls": [call]}), Value::Null);
    }
    for piece in pieces(&said.arguments, &mut random) {
        let call = json!({"index": 0, "function": {"arguments": piece}});
        event(json!({"tool_calls": [call]}), Value::Null);
    }
    let finish = if said.arguments.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    event(json!({}), json!(finish));
    events + "data: [DONE]\n\n"
}

/// Cut anywhere: often within a placeholder.
fn pieces<'a>(text: &'a str, random: &mut Random) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = 1 + random.below(6) as usize;
        let end = rest
            .char_indices()
            .nth(length)
            .map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}
