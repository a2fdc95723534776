//! Clients that go away, wherever their answer is: what the model keeps for them is free soon after.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};
use tidegate_tests::until;

use crate::client::{PATIENCE, Served, model};
use crate::figures::{read_until, rest};

const PATH: &str = "/v1/chat/completions";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A pipeline whose model runs so many answers at once, in steps of so many tokens.
fn served(sequences: u32, step_tokens: u32) -> Served {
    Served::start(&format!(
        r#"
[pipeline]
name = "gone"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
[engine]
step-tokens = {step_tokens}
{}sequences = {sequences}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 400
order = "none"
max-in-flight-per-key = 64
speculative = "off"
[sink.reply]
type = "gateway"
"#,
        model()
    ))
}

/// Asks for an answer of exactly so many tokens: the token that ends one is never taken.
fn asking(text: &str, tokens: u32, stream: bool) -> Value {
    json!({
        "model": "support", "stream": stream, "max_tokens": tokens, "logit_bias": {"2": -100},
        "messages": [{"role": "user", "content": text}],
    })
}

fn open(served: &Served, asking: &Value) -> TcpStream {
    served.open("POST", PATH, &JSON, &asking.to_string())
}

/// How a client goes.
#[derive(Clone, Copy, Debug)]
enum Going {
    Closed,
    /// It says no more, and would still read.
    Half,
    /// With what it did not read.
    Reset,
}

const GOING: [Going; 3] = [Going::Closed, Going::Half, Going::Reset];

/// Goes. Returns whether the answer was still being made, as far as one who goes so can see.
fn go(mut stream: TcpStream, going: Going) -> bool {
    match going {
        Going::Closed => true,
        Going::Half => {
            stream.shutdown(Shutdown::Write).unwrap();
            let seen = String::from_utf8_lossy(&rest(&mut stream)).into_owned();
            !seen.contains("[DONE]") && !seen.contains("\"usage\"")
        }
        Going::Reset => stream.peek(&mut [0]).unwrap() > 0,
    }
}

/// Begins an answer of so many tokens and goes: not all of them are made. Where a busy machine lets the answer come to
/// its end before, it is tried again.
fn not_all_is_made(
    served: &Served,
    going: Going,
    tokens: u64,
    mut begin: impl FnMut(usize) -> TcpStream,
) {
    let mut tries = 0;
    let what = format!("{going:?}: what is made for nobody has its end");
    until(&what, PATIENCE, || {
        tries += 1;
        let before = served.generated();
        let still_made = go(begin(tries), going);
        served.settles();
        still_made && served.generated() - before < tokens
    });
}

/// Answers of one request, and tokens of each of them: it takes long.
const ANSWERS: u32 = 8;
const TOKENS: u32 = 400;
const ALL: u64 = (ANSWERS * TOKENS) as u64;

fn asking_for_all(text: &str, stream: bool) -> Value {
    let mut asking = asking(text, TOKENS, stream);
    asking["n"] = json!(ANSWERS);
    asking
}

#[test]
fn who_goes_in_the_middle_of_an_answer_frees_what_it_had() {
    let served = served(8, 256);
    for going in GOING {
        not_all_is_made(&served, going, ALL, |tries| {
            let text = format!("Where is parcel {tries}?");
            let mut stream = open(&served, &asking_for_all(&text, true));
            read_until(&mut stream, "\"content\":");
            stream
        });
    }
}

#[test]
fn a_second_request_behind_the_first_hides_nobody() {
    let served = served(8, 256);
    let bodies = [
        asking_for_all("Where is my parcel?", true),
        asking("And the other one?", TOKENS, true),
    ];
    // Two requests of one connection, written at once.
    let mut both = String::new();
    for body in bodies.map(|body| body.to_string()) {
        both += &format!(
            "POST {PATH} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            served.address,
            body.len()
        );
    }
    for going in GOING {
        not_all_is_made(&served, going, ALL, |_| {
            let mut stream = TcpStream::connect(&served.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(both.as_bytes()).unwrap();
            read_until(&mut stream, "\"content\":");
            stream
        });
    }
}

#[test]
fn who_waits_for_a_whole_answer_is_missed_as_well() {
    let served = served(8, 256);
    for going in [Going::Closed, Going::Half] {
        not_all_is_made(&served, going, ALL, |_| {
            let before = served.generated();
            let stream = open(&served, &asking_for_all("Where is my parcel?", false));
            until("the answer is begun", PATIENCE, || {
                served.generated() > before
            });
            stream
        });
    }
    // Each was answered with nothing, and is counted all the same.
    let counted = "tidegate_gateway_requests_total{endpoint=\"chat\",status=\"499\"}";
    until("both are counted", PATIENCE, || served.metric(counted) >= 2);
}

#[test]
fn who_goes_before_the_first_token_is_asked_for_no_more() {
    // One answer at a time: whoever comes second waits. Where a busy machine lets the first come to its end, all of it is
    // tried again.
    let served = served(1, 256);
    let mut first = asking("Where is my parcel?", TOKENS, true);
    first["n"] = json!(16);
    let waiting = || served.metric("tidegate_gateway_waiting_requests");
    until("they go while the first is answered", PATIENCE, || {
        let before = served.of_model("answered_requests_total");
        let is_over = || served.of_model("answered_requests_total") > before;
        let mut working = open(&served, &first);
        read_until(&mut working, "\"content\":");
        for going in [Going::Closed, Going::Half] {
            for stream in [true, false] {
                let second = open(&served, &asking("And mine?", TOKENS, stream));
                until("a second one waits", PATIENCE, || {
                    waiting() == 2 || is_over()
                });
                let unanswered = go(second, going);
                until("it waits no more", PATIENCE, || waiting() == 1 || is_over());
                assert!(unanswered || is_over(), "{going:?}: it is answered");
            }
        }
        // Nothing of that has touched the first, and none of the others was answered.
        let untouched = !is_over();
        go(working, Going::Closed);
        served.settles();
        untouched
    });
}

#[test]
fn who_goes_while_its_prompt_is_read_has_no_answer_made() {
    // A token a step: a long prompt takes many.
    let served = served(1, 1);
    let words = "the parcel has not come and nobody answers the telephone ".repeat(4);
    // The moment is looked for, and may be missed where the machine is busy: then it is tried again.
    let mut tries = 0;
    until("one goes while its prompt is read", PATIENCE, || {
        tries += 1;
        let made = || served.generated();
        let before = made();
        let stream = open(
            &served,
            &asking(&format!("Ticket {tries}: {words}"), 20, true),
        );
        until("its prompt is read", PATIENCE, || {
            served.of_model("used_kv_blocks") > 0 || made() > before
        });
        go(stream, [Going::Closed, Going::Half][tries % 2]);
        served.settles();
        made() == before
    });
}
