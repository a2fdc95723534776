//! Programs that are killed while they answer.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Random, Workspace, until};

use crate::client::{Got, PATIENCE, Served, model, open};

const TOKENS: u64 = 360;

fn pipeline() -> String {
    format!(
        r#"
[pipeline]
name = "killed"
cut-interval = "5ms"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
{}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = {TOKENS}
[sink.reply]
type = "gateway"
"#,
        model()
    )
}

/// A long answer, drawn: nothing but a seed has it come out the same again, and there is none here.
fn asked() -> String {
    let asked = json!({
        "model": "support",
        "messages": [{"role": "user", "content": "My order came incomplete."}],
        "stream": true,
        "temperature": 1.3,
        // It does not end by itself.
        "logit_bias": {"2": -100},
    });
    asked.to_string()
}

const PATH: &str = "/v1/chat/completions";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn headers(key: &str) -> [(&str, &str); 2] {
    [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ]
}

fn ask(served: &Served, key: &str) -> Got {
    let got = served.send("POST", PATH, &headers(key), &asked());
    assert_eq!(got.status, 200, "{got:?}");
    got
}

fn id(event: &str) -> Value {
    let event: Value = serde_json::from_str(event).unwrap();
    event["id"].clone()
}

/// Tokens that the model has made in this life of the program.
fn made(served: &Served) -> u64 {
    let admin = served.workspace.json("state/admin.json");
    let [address, token] = ["address", "token"].map(|name| admin[name].as_str().unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let name = "tidegate_model_tokens_total{model=\"support\",kind=\"generated\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let tokens = line.and_then(|tokens| tokens.trim().parse().ok());
    tokens.unwrap_or_else(|| panic!("{text}"))
}

/// What is said in the whole events of a stream so far.
fn said(shown: &str) -> String {
    let whole = &shown[..shown.rfind("\n\n").unwrap_or_default()];
    let data = whole.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let texts = events.filter_map(|event| {
        let text = event["choices"][0]["delta"]["content"].as_str();
        text.map(str::to_owned)
    });
    texts.collect()
}

/// Reads until so much has been said. Returns what was read.
fn begun(stream: &mut impl Read, characters: usize) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let shown = String::from_utf8_lossy(&seen).into_owned();
        if said(&shown).len() >= characters {
            return shown;
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "it ended: {shown}");
        seen.extend(&buffer[..read]);
    }
}

/// Kills a program, and starts it again.
fn killed(mut served: Served) -> Served {
    served.running.kill();
    Served::again(served.workspace)
}

/// Answers that are made beside one that is looked at.
const BESIDE: usize = 7;

/// Asks for others, again and again until the program is gone: a model with so much to do is slower than any disk, and
/// an answer has many cuts.
fn keep_busy(served: &Served) -> Vec<JoinHandle<()>> {
    let asks = |address: &str| -> std::io::Result<String> {
        let mut answer = String::new();
        let mut stream = open(address, "POST", PATH, &JSON, &asked())?;
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let client =
        |_| {
            let address = served.address.clone();
            std::thread::spawn(move || {
                while asks(&address).is_ok_and(|answer| answer.contains("[DONE]")) {}
            })
        };
    (0..BESIDE).map(client).collect()
}

/// Asks a fresh program, which is killed when much of the answer was shown. Returns its directory and the first event;
/// none if the answer was there before the kill came.
fn broken_off(key: &str) -> Option<(Workspace, String)> {
    let mut served = Served::start(&pipeline());
    let busy = keep_busy(&served);
    let mut stream = served.open("POST", PATH, &headers(key), &asked());
    // About a hundred tokens.
    let begun = begun(&mut stream, 400);
    // One may have begun long ago, and be held up by the disk. A cut that begins after it has most of what was shown.
    let log = || served.workspace.read("state/commit.log").len();
    for _ in 0..2 {
        let before = log();
        until("a cut", PATIENCE, || log() != before);
    }
    served.running.kill();
    for client in busy {
        client.join().unwrap();
    }
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let shown = begun + &String::from_utf8_lossy(&rest);
    if shown.contains("[DONE]") {
        return None;
    }
    assert!(
        !shown.ends_with("0\r\n\r\n"),
        "the body has an end: {shown}"
    );
    let first = shown.lines().find_map(|line| line.strip_prefix("data: "));
    Some((served.workspace, first.unwrap().to_owned()))
}

#[test]
fn a_stream_that_is_killed_breaks_and_asking_again_gives_the_same_answer_from_where_it_was() {
    let (mut keys, mut broken) = (0, None);
    until("a kill before the end of an answer", PATIENCE, || {
        keys += 1;
        broken = broken_off(&format!("key-{keys}"));
        broken.is_some()
    });
    let (workspace, first) = broken.unwrap();
    let key = &format!("key-{keys}");
    let served = Served::again(workspace);
    let again = ask(&served, key);
    assert_eq!(id(&again.events()[0]), id(&first));
    let tokens = made(&served);
    assert!(
        tokens <= TOKENS - 64,
        "{tokens} of {TOKENS} tokens were made again"
    );
    let undisturbed = ask(&Served::start(&pipeline()), key);
    assert_eq!(again.streamed(), undisturbed.streamed());

    // What was told to its end is not made at all.
    let served = killed(served);
    let third = ask(&served, key);
    assert!(
        third.head.contains("idempotent-replayed: true"),
        "{third:?}"
    );
    assert_eq!(third.events(), again.events());
    assert_eq!(made(&served), 0);
}

#[test]
fn killed_at_random_instants_an_answer_is_the_same_in_the_end() {
    let undisturbed = Served::start(&pipeline());
    let expected = ask(&undisturbed, "a").streamed();
    let mut random = Random(11);
    let mut served = Served::start(&pipeline());
    for _ in 0..4 {
        // It may not be in any cut yet, or be there already.
        let mut stream = served.open("POST", PATH, &headers("a"), &asked());
        std::thread::sleep(Duration::from_millis(random.below(400)));
        served.running.kill();
        // Nobody reads it, and nothing here depends on what came.
        let _ = stream.read_to_end(&mut Vec::new());
        served = Served::again(served.workspace);
    }
    assert_eq!(ask(&served, "a").streamed(), expected);
}

const INGEST: &str = r#"
[pipeline]
name = "take"
cut-interval = "5ms"
[gateway]
address = "127.0.0.1:0"
[source.events]
type = "ingest"
[sink.kept]
type = "file"
path = "kept.jsonl"
"#;

/// Posts one record, until the program is gone. Returns whether it was acknowledged.
fn post(address: &str, number: u64) -> bool {
    let record = json!({"n": number}).to_string();
    let request = format!(
        "POST /v1/ingest/events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\nidempotency-key: \"{number}\"\r\n\
         content-length: {}\r\n\r\n{record}",
        record.len()
    );
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    let sent = stream.write_all(request.as_bytes());
    let read = sent.and_then(|()| stream.read_to_end(&mut answer));
    read.is_ok() && answer.starts_with(b"HTTP/1.1 200")
}

#[test]
fn what_was_acknowledged_while_the_program_was_killed_is_kept_once() {
    let mut random = Random(5);
    let mut served = Served::again(Workspace::new(INGEST));
    let (mut number, mut kills) = (0, 0);
    while kills < 6 {
        let address = served.address.clone();
        let from = number;
        let posting = std::thread::spawn(move || {
            let mut number = from;
            // The first that is not acknowledged is sent again by whoever asks next, under the same key.
            while post(&address, number) {
                number += 1;
            }
            number
        });
        std::thread::sleep(Duration::from_millis(random.below(100)));
        served.running.kill();
        kills += 1;
        number = posting.join().unwrap();
        served = Served::again(served.workspace);
    }
    while number < 20 {
        assert!(post(&served.address, number));
        number += 1;
    }
    let kept = || served.workspace.json_lines("kept.jsonl");
    until("all of them", PATIENCE, || kept().len() as u64 >= number);
    let ended = served.running.terminate(PATIENCE);
    assert!(ended.success(), "{ended}");
    let kept = served.workspace.json_lines("kept.jsonl");
    let numbers: Vec<u64> = kept.iter().filter_map(|one| one["n"].as_u64()).collect();
    let once: BTreeSet<u64> = numbers.iter().copied().collect();
    // One more may be kept than was acknowledged.
    assert_eq!(numbers.len(), once.len());
    assert!((0..number).all(|number| once.contains(&number)));
}
