//! Tokens that readers see before the answer is whole.

use std::io::Read;

use serde_json::json;
use tidegate_codec::tokens::{State, TokenReader, parse_token_event};
use tidegate_contract::Lane;

use crate::client::{Served, model};

fn pipeline() -> String {
    format!(
        r#"
[pipeline]
name = "aloud"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
{}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 40
tokens-to = ["live"]
[feed.live]
type = "output"
[sink.reply]
type = "gateway"
"#,
        model()
    )
}

#[test]
fn a_reader_sees_the_text_of_an_answer_as_an_output_of_tokens() {
    let served = Served::start(&pipeline());
    let mut stream = served.open("GET", "/v1/outputs/live?from=start", &[], "");
    let chat = json!({"model": "support", "messages": [{"role": "user", "content": "My order came incomplete."}]});
    let got = served.post("/v1/chat/completions", &chat);
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    let answer = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(!answer.is_empty(), "{got:?}");

    // Its end comes before the answer is committed, so that all of it is on the way.
    let (mut reader, mut texts) = (TokenReader::default(), 0);
    let (mut seen, mut taken) = (Vec::new(), 0);
    let mut buffer = [0; 4096];
    let request = loop {
        let shown = String::from_utf8_lossy(&seen).into_owned();
        let whole = &shown[..shown.rfind('\n').map_or(0, |end| end + 1)];
        let data = whole.lines().filter_map(|line| line.strip_prefix("data:"));
        for event in data.skip(taken) {
            taken += 1;
            texts += usize::from(event.contains("\"text\""));
            reader.take(&parse_token_event(event.trim().as_bytes()).unwrap());
        }
        let is_whole = |request: &&str| reader.state(request) == Some(State::Complete);
        let complete = reader.requests().find(is_whole).map(str::to_owned);
        if let Some(request) = complete {
            break request;
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "{shown}");
        seen.extend(&buffer[..read]);
    };
    assert!(request.starts_with("answer/"), "{request}");
    assert!(texts > 1, "the answer came in {texts} parts");
    let joined = reader.answer(&request).unwrap();
    assert_eq!(joined.choices[0].lanes[&Lane::Content], answer);
}
