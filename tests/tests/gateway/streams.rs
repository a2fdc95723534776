//! Two hundred streams at once, of which some break off and some are hardly read.

use std::io::Read;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::full;

use crate::client::{Got, Served, model};
use crate::figures::read_until;

/// Streams at once: as many as the key may have, so that a place that is not given back is missed.
const STREAMS: usize = 200;
const KILLED: usize = 50;
const SLOW: usize = 20;
/// Requests that differ. The others are the same again.
const DIFFERENT: usize = 16;

/// SHA-256 of `secret`.
const DIGEST: &str = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
const HEADERS: [(&str, &str); 2] = [
    ("authorization", "Bearer secret"),
    ("content-type", "application/json"),
];
const PATH: &str = "/v1/chat/completions";

fn pipeline() -> String {
    format!(
        r#"
[pipeline]
name = "streams"
[gateway]
address = "127.0.0.1:0"
max-connections-per-address = 1024
[gateway.key.app]
digest = "{DIGEST}"
concurrent-requests = {STREAMS}
[source.chat]
type = "gateway"
{}sequences = 32
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 400
order = "none"
max-in-flight = 256
max-in-flight-per-key = 256
[sink.reply]
type = "gateway"
"#,
        model()
    )
}

/// What the reader of this stream asks: every second one greedily, the others with a seed.
fn asked(number: usize) -> Value {
    let number = number % DIFFERENT;
    let texts = [
        "My order came incomplete.",
        "Where is the parcel that you sent on Monday?",
        "I was charged twice for one juicer.",
        "How do I send back a lamp that flickers?",
    ];
    let text = format!("{} Ticket {}.", texts[number % texts.len()], number + 7);
    let mut asked = json!({
        "model": "support", "stream": true, "max_tokens": 40, "logprobs": true, "top_logprobs": 2,
        "messages": [{"role": "user", "content": text}],
    });
    if number % 2 == 1 {
        asked["temperature"] = json!(0.9);
        asked["seed"] = json!(number);
    }
    asked
}

/// One that goes on until it is cut: the token that ends an answer is never taken.
fn endless(number: usize) -> Value {
    let mut asked = asked(number);
    asked["logit_bias"] = json!({"2": -100});
    asked["max_tokens"] = json!(400);
    asked
}

/// All that an answer consists of, whichever pieces it came in.
#[derive(Debug, PartialEq)]
struct Said {
    text: String,
    logprobs: Vec<Value>,
    finish: Vec<Value>,
}

fn said(got: &Got) -> Said {
    assert_eq!(got.status, 200, "{got:?}");
    let text = got.streamed();
    let events = got.events();
    let events = events
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok());
    let choices: Vec<Value> = events.map(|event| event["choices"][0].clone()).collect();
    let logprobs = choices
        .iter()
        .filter_map(|choice| choice["logprobs"]["content"].as_array());
    let finish = choices.iter().map(|choice| choice["finish_reason"].clone());
    Said {
        text,
        logprobs: logprobs.flatten().cloned().collect(),
        finish: finish.filter(|finish| !finish.is_null()).collect(),
    }
}

fn ask(served: &Served, number: usize) -> Said {
    said(&served.send("POST", PATH, &HEADERS, &asked(number).to_string()))
}

/// Leaves in the middle of an answer: with a FIN, or with what came unread, which the system makes a RST of.
fn break_off(served: &Served, number: usize) {
    let mut stream = served.open("POST", PATH, &HEADERS, &endless(number).to_string());
    let seen = read_until(&mut stream, "\"content\":");
    assert!(seen.starts_with("HTTP/1.1 200 "), "{seen}");
    if number.is_multiple_of(2) {
        stream.shutdown(Shutdown::Write).unwrap();
        // The other side misses us, and ends the connection without having told us the end of the answer.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains("[DONE]"));
    } else {
        assert!(stream.peek(&mut [0]).unwrap() > 0);
    }
}

/// Reads a byte a second, until all others have their answers.
fn dawdle(served: &Served, number: usize, enough: &AtomicBool) {
    let mut asked = endless(number);
    asked["top_logprobs"] = json!(20);
    let mut stream = served.open("POST", PATH, &HEADERS, &asked.to_string());
    while !enough.load(Ordering::Acquire) {
        // Whoever reads so slowly may be cut.
        if !matches!(stream.read(&mut [0]), Ok(1)) {
            return;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// All streams at once. Whoever stays to the end has what it has alone.
fn load(served: &Served, alone: &[Said]) {
    let (enough, whole) = (AtomicBool::new(false), AtomicUsize::new(0));
    let staying = STREAMS - KILLED - SLOW;
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for number in 0..STREAMS {
            let (enough, whole) = (&enough, &whole);
            // Mixed, as they come.
            match number % 20 {
                0..2 => {
                    scope.spawn(move || dawdle(served, number, enough));
                }
                2..7 => readers.push(scope.spawn(move || break_off(served, number))),
                _ => readers.push(scope.spawn(move || {
                    assert_eq!(
                        ask(served, number),
                        alone[number % DIFFERENT],
                        "stream {number}"
                    );
                    whole.fetch_add(1, Ordering::AcqRel);
                })),
            }
        }
        let failed: Vec<_> = readers
            .into_iter()
            .filter_map(|reader| reader.join().err())
            .collect();
        enough.store(true, Ordering::Release);
        if let Some(first) = failed.into_iter().next() {
            std::panic::resume_unwind(first);
        }
    });
    assert_eq!(whole.into_inner(), staying);
}

#[test]
fn of_two_hundred_streams_those_that_stay_are_whole_and_nothing_is_kept_of_the_others() {
    let served = Served::start(&pipeline());
    let alone: Vec<Said> = (0..DIFFERENT).map(|number| ask(&served, number)).collect();
    assert!(
        alone
            .iter()
            .all(|said| !said.text.is_empty() && !said.logprobs.is_empty())
    );
    assert_ne!(alone[1].text, alone[5].text);
    served.settles();

    load(&served, &alone);
    served.settles();
    let after_one = served.memory();
    // Again: what the first load has taken is there to be used, and none of its two hundred places is lost.
    for _ in 0..if full() { 5 } else { 1 } {
        load(&served, &alone);
        served.settles();
    }
    let after_all = served.memory();
    if let (Some(one), Some(all)) = (after_one, after_all) {
        assert!(
            all <= one + one / 10 + (16 << 10),
            "{one} KiB became {all} KiB"
        );
    }
    // Alone again, it says the same.
    assert_eq!(ask(&served, 3), alone[3]);
}
