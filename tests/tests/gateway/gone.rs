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

fn go(mut stream: TcpStream, going: Going) {
    match going {
        Going::Closed => drop(stream),
        Going::Half => {
            stream.shutdown(Shutdown::Write).unwrap();
            let seen = String::from_utf8_lossy(&rest(&mut stream)).into_owned();
            assert!(
                !seen.contains("[DONE]") && !seen.contains("\"usage\""),
                "{seen}"
            );
        }
        Going::Reset => assert!(stream.peek(&mut [0]).unwrap() > 0),
    }
}

#[test]
fn who_goes_in_the_middle_of_an_answer_frees_what_it_had() {
    let served = served(8, 256);
    for (round, going) in GOING.into_iter().enumerate() {
        let before = served.of_model("generated_tokens_total");
        // Eight answers of 400 tokens each: none of them comes to its end before we have gone.
        let mut asking = asking(&format!("Where is parcel {round}?"), 400, true);
        asking["n"] = json!(8);
        let mut stream = open(&served, &asking);
        read_until(&mut stream, "\"content\":");
        go(stream, going);
        served.settles();
        let made = served.of_model("generated_tokens_total") - before;
        assert!(
            made < 8 * 400,
            "{going:?}: {made} tokens were made for nobody"
        );
    }
}

#[test]
fn a_second_request_behind_the_first_hides_nobody() {
    let served = served(8, 256);
    for going in GOING {
        let before = served.of_model("generated_tokens_total");
        let mut first = asking("Where is my parcel?", 400, true);
        first["n"] = json!(8);
        let second = asking("And the other one?", 400, true);
        // Two requests of one connection, written at once.
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut both = String::new();
        for body in [first.to_string(), second.to_string()] {
            both += &format!(
                "POST {PATH} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                served.address,
                body.len()
            );
        }
        stream.write_all(both.as_bytes()).unwrap();
        read_until(&mut stream, "\"content\":");
        go(stream, going);
        served.settles();
        let made = served.of_model("generated_tokens_total") - before;
        assert!(
            made < 8 * 400,
            "{going:?}: {made} tokens were made for nobody"
        );
    }
}

#[test]
fn who_waits_for_a_whole_answer_is_missed_as_well() {
    let served = served(8, 256);
    for going in [Going::Closed, Going::Half] {
        let before = served.of_model("generated_tokens_total");
        let mut asking = asking("Where is my parcel?", 400, false);
        asking["n"] = json!(8);
        let stream = open(&served, &asking);
        until("the answer is begun", PATIENCE, || {
            served.of_model("generated_tokens_total") > before
        });
        go(stream, going);
        served.settles();
        let made = served.of_model("generated_tokens_total") - before;
        assert!(
            made < 8 * 400,
            "{going:?}: {made} tokens were made for nobody"
        );
    }
    // Each was answered with nothing, and is counted all the same.
    let counted = "tidegate_gateway_requests_total{endpoint=\"chat\",status=\"499\"}";
    until("both are counted", PATIENCE, || served.metric(counted) == 2);
}

#[test]
fn who_goes_before_the_first_token_is_asked_for_no_more() {
    // One answer at a time: whoever comes second waits.
    let served = served(1, 256);
    let mut first = asking("Where is my parcel?", 400, true);
    first["n"] = json!(8);
    let mut working = open(&served, &first);
    read_until(&mut working, "\"content\":");
    for going in [Going::Closed, Going::Half] {
        for stream in [true, false] {
            let waiting = open(&served, &asking("And mine?", 400, stream));
            until("a second one waits", PATIENCE, || {
                served.metric("tidegate_gateway_requests_waiting") == 2
            });
            go(waiting, going);
            until("it waits no more", PATIENCE, || {
                served.metric("tidegate_gateway_requests_waiting") == 1
            });
        }
    }
    // Nothing of that has touched the first.
    assert_eq!(served.of_model("answered_total"), 0);
    go(working, Going::Closed);
    served.settles();
}

#[test]
fn who_goes_while_its_prompt_is_read_has_no_answer_made() {
    // A token a step: a long prompt takes many.
    let served = served(8, 1);
    let words = "the parcel has not come and nobody answers the telephone ".repeat(4);
    // The moment is looked for, and may be missed where the machine is busy: then it is tried again.
    let mut tries = 0;
    until("one goes while its prompt is read", PATIENCE, || {
        tries += 1;
        let before = served.of_model("generated_tokens_total");
        let stream = open(
            &served,
            &asking(&format!("Ticket {tries}: {words}"), 20, true),
        );
        until("its prompt is read", PATIENCE, || {
            served.of_model("kv_blocks_used") > 0
        });
        go(stream, [Going::Closed, Going::Half][tries % 2]);
        served.settles();
        let made = served.of_model("generated_tokens_total") - before;
        assert!(made < 20, "{made} tokens were made for nobody");
        made == 0
    });
}
