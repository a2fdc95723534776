//! The playground over HTTP.

use std::io::{BufRead as _, BufReader};

use super::*;
use crate::letters::SendLetters;
use crate::playground::{MAX_PROMPT, MAX_TRIED};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the fake host answers: of "wait" nothing until nobody hears it.
pub(super) fn ask(
    host: &Fake,
    question: &ModelQuestion,
    hearer: &dyn Hearer,
) -> Result<ModelAnswer, PlaygroundRefused> {
    match question.prompt.as_str() {
        "busy" => return Err(PlaygroundRefused::Busy("the queue is full".into())),
        "refused" => return Err(PlaygroundRefused::Refused("it embeds".into())),
        "panic" => panic!("on purpose"),
        _ => {}
    }
    if question.model != "support" {
        return Err(PlaygroundRefused::Unknown {
            kind: "model",
            name: question.model.clone(),
            known: vec!["support".into()],
        });
    }
    hearer.begins();
    hearer.hears("Hello \n\nevent: end", 2);
    if question.prompt == "wait" {
        waits(host, hearer);
    }
    Ok(ModelAnswer {
        finish: "end".into(),
        tokens: 2,
        ..ModelAnswer::default()
    })
}

pub(super) fn try_record(
    host: &Fake,
    record: &TryRecord,
    hearer: &dyn Hearer,
) -> Result<TriedRecord, PlaygroundRefused> {
    if record.value == "wait" {
        waits(host, hearer);
    }
    Ok(TriedRecord {
        ms: 1.0,
        ..TriedRecord::default()
    })
}

fn waits(host: &Fake, hearer: &dyn Hearer) {
    host.under_way.fetch_add(1, Ordering::SeqCst);
    while hearer.is_there() {
        std::thread::sleep(Duration::from_millis(1));
    }
    host.under_way.fetch_sub(1, Ordering::SeqCst);
}

fn head(server: &AdminServer, path: &str, bytes: usize) -> String {
    let (address, token) = (server.address(), server.token());
    format!(
        "POST /v1/playground/{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {bytes}\r\n\r\n"
    )
}

fn post(server: &AdminServer, path: &str, body: &str) -> (u16, String) {
    let request = head(server, path, body.len()) + body;
    raw(server.address(), &request)
}

/// Begins something that waits, and stays connected.
fn begin(server: &AdminServer, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let request = head(server, path, body.len()) + body;
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const WAIT: &str = r#"{"model":"support","prompt":"wait"}"#;

#[test]
fn an_answer_is_told_as_it_is_made_and_ends_with_who_asked() {
    let Running { server, host, .. } = running();
    let (status, body) = post(&server, "model", r#"{"model":"support","prompt":"hello"}"#);
    assert_eq!(status, 200);
    let wanted = [
        "event: begun\ndata: {}\n\n",
        "event: text\ndata: {\"text\":\"Hello \\n\\nevent: end\",\"tokens\":2}\n\n",
        "event: end\ndata: {",
    ];
    for event in wanted {
        assert!(body.contains(event), "{event} in {body}");
    }
    // Who waits is told what there is so far, and two are under way at most.
    let mut first = BufReader::new(begin(&server, "model", WAIT));
    let mut line = String::new();
    while !line.starts_with("data: {\"text\"") {
        line.clear();
        assert!(first.read_line(&mut line).unwrap() > 0);
    }
    let second = begin(&server, "model", WAIT);
    until("two are under way", || {
        host.under_way.load(Ordering::SeqCst) == 2
    });
    let (status, why) = post(&server, "model", WAIT);
    assert_eq!(status, 409);
    assert!(why.starts_with("2 questions are under way"), "{why}");
    // A record has a place of its own, and is the only one.
    let third = begin(&server, "record", r#"{"source":"in","value":"wait"}"#);
    until("a record too", || {
        host.under_way.load(Ordering::SeqCst) == 3
    });
    let record = r#"{"source":"in","value":"x"}"#;
    assert_eq!(post(&server, "record", record).0, 409);
    drop((first, second, third));
    until("all have ended", || {
        host.under_way.load(Ordering::SeqCst) == 0
    });
    until("their places are free", || {
        post(&server, "record", record).0 == 200
            && post(&server, "model", r#"{"model":"support","prompt":"x"}"#).0 == 200
    });
}

#[test]
fn what_is_asked_needs_the_token_and_has_limits_that_are_named() {
    let Running { server, .. } = running();
    let address = server.address();
    for path in ["model", "record"] {
        let bare = format!(
            "POST /v1/playground/{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        assert_eq!(raw(address, &bare).0, 401);
        let other = bare.replace("\r\n\r\n", "\r\nAuthorization: Bearer x\r\n\r\n");
        assert_eq!(raw(address, &other).0, 401);
        let get = head(&server, path, 0).replacen("POST", "GET", 1);
        assert_eq!(raw(address, &get).0, 405);
    }
    let long = "x".repeat(MAX_PROMPT + 1);
    let value = "x".repeat(MAX_TRIED + 1);
    for (path, body, status, words) in [
        ("model", "{}".to_owned(), 400, "missing field `model`"),
        (
            "model",
            r#"{"model":"support","prompt":"x","top_k":1}"#.into(),
            400,
            "unknown field",
        ),
        (
            "model",
            format!(r#"{{"model":"support","prompt":"{long}"}}"#),
            422,
            "65537 bytes, more than 65536",
        ),
        (
            "model",
            r#"{"model":"support","prompt":"x","max_tokens":9999}"#.into(),
            422,
            "9999 is not from 1 to 2048",
        ),
        (
            "model",
            r#"{"model":"big","prompt":"x"}"#.into(),
            404,
            "there are: support",
        ),
        (
            "model",
            r#"{"model":"support","prompt":"busy"}"#.into(),
            503,
            "the stream goes first",
        ),
        (
            "model",
            r#"{"model":"support","prompt":"refused"}"#.into(),
            422,
            "it embeds",
        ),
        (
            "model",
            r#"{"model":"support","prompt":"panic"}"#.into(),
            500,
            "see its log",
        ),
        (
            "record",
            format!(r#"{{"source":"in","value":"{value}"}}"#),
            422,
            "1048577 bytes exceeds 1048576",
        ),
    ] {
        let (found, why) = post(&server, path, &body);
        assert_eq!(found, status, "{why}");
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn null_is_as_if_a_member_that_need_not_be_there_were_not() {
    let question = r#"{"model":"support","prompt":"x","system":null,"raw":null,"max_tokens":null,"temperature":null,"seed":null}"#;
    let record =
        r#"{"source":"in","key":null,"value":"x","headers":null,"ask":null,"seconds":null}"#;
    let least = r#"{"model":"support","prompt":"x"}"#;
    let read = |body: &str| serde_json::from_str::<ModelQuestion>(body).unwrap();
    assert_eq!(read(question), read(least));
    let least = r#"{"source":"in","value":"x"}"#;
    let read = |body: &str| serde_json::from_str::<TryRecord>(body).unwrap();
    assert_eq!(read(record), read(least));
    let read = |body: &str| serde_json::from_str::<SendLetters>(body).unwrap();
    let letters = r#"{"ids":["in/0/1@2"],"without_private":null}"#;
    assert_eq!(read(letters), read(r#"{"ids":["in/0/1@2"]}"#));
    let Running { server, .. } = running();
    for (path, body) in [("model", question), ("record", record)] {
        let (status, said) = post(&server, path, body);
        assert_eq!(status, 200, "{body}: {said}");
    }
}

#[test]
fn what_is_wrong_with_a_body_is_said_in_the_words_of_json() {
    let Running { server, .. } = running();
    for (path, body, words) in [
        ("record", "[]", "it is no object"),
        // Members without their names are none.
        ("record", r#"["in",null,"x",[],false,1]"#, "it is no object"),
        ("record", "[", "it is no JSON: EOF while parsing a list"),
        (
            "record",
            r#"{"source":1,"value":"x"}"#,
            "source is not a text",
        ),
        (
            "record",
            r#"{"source":"in","value":"\ud800"}"#,
            "stand in pairs, at line 1",
        ),
        (
            "record",
            r#"{"source":"in","value":"x","headers":[["a"]]}"#,
            "headers is not a list of",
        ),
        (
            "record",
            r#"{"source":"in","value":"x","value":"y"}"#,
            "duplicate field `value`",
        ),
        (
            "model",
            r#"{"model":"support","prompt":"x","max_tokens":-1}"#,
            "max_tokens is not a whole number from 1 to 2048",
        ),
        (
            "record",
            r#"{"source":"in","value":"x","seconds":-1}"#,
            "seconds is not a whole number from 1 to 60, or null",
        ),
        // What is taken is not blamed for another member.
        (
            "record",
            r#"{"source":"in","value":"x","seconds":null,"ask":1}"#,
            "ask is not true or false",
        ),
        (
            "record",
            r#"{"source":"in","value":"x","seconds":null,"more":1}"#,
            "unknown field `more`",
        ),
        (
            "model",
            r#"{"model":"support","prompt":"x","seed":1.5}"#,
            "seed is not a whole number from 0 to 18446744073709551615",
        ),
        (
            "model",
            r#"{"model":"support","prompt":null,"raw":null}"#,
            "prompt is not a text",
        ),
    ] {
        let (status, why) = post(&server, path, body);
        assert_eq!(status, 400, "{body}: {why}");
        assert!(why.contains(words), "{body}: {why}");
    }
    // A number that is far too large is said as it is.
    let hot = r#"{"model":"support","prompt":"x","temperature":1e308}"#;
    let (status, why) = post(&server, "model", hot);
    assert_eq!(status, 422);
    assert!(
        why.contains("temperature 1e308 is not from 0 to 2"),
        "{why}"
    );
}
