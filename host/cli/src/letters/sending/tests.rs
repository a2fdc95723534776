use std::ops::ControlFlow;
use std::time::Duration;

use tidegate_contract::{LetterError, WrittenLetter};

use super::*;

/// A store whose letters come to different ends when they are looked up.
#[derive(Debug)]
struct Broken;

impl LetterStore for Broken {
    fn name(&self) -> String {
        "broken".to_owned()
    }

    fn newest(
        &self,
        _: Option<&str>,
        _: Instant,
        _: &mut dyn FnMut(WrittenLetter) -> ControlFlow<()>,
    ) -> Result<Option<String>, LetterError> {
        Ok(None)
    }

    fn find(&self, place: &str, _: Instant) -> Result<Option<WrittenLetter>, LetterError> {
        match place {
            "away" => Err(LetterError::Read {
                place: "broken".to_owned(),
                why: "the brokers are away".to_owned(),
            }),
            "panics" => panic!("as this test wants it"),
            _ => Ok(None),
        }
    }
}

fn send(all: Duration) -> Vec<SendResult> {
    let sender = Sender {
        pipeline: "p".to_owned(),
        ways: Vec::new(),
        sources: BTreeMap::new(),
        rows: Vec::new(),
        seal: None,
    };
    let letters = SendLetters {
        ids: ["in/0/1@away", "in/0/2@gone", "in/0/3@panics"]
            .map(str::to_owned)
            .to_vec(),
        ..SendLetters::default()
    };
    let each = Duration::from_secs(60);
    sender.send(&Broken, &letters, Time { each, all })
}

#[test]
fn one_letter_that_fails_takes_no_word_of_another_with_it() {
    let told = send(Duration::from_secs(60));
    let states: Vec<_> = told
        .iter()
        .map(|one| (one.id.as_str(), one.state))
        .collect();
    assert_eq!(
        states[..2],
        [
            ("in/0/1@away", SendState::Unreached),
            ("in/0/2@gone", SendState::Refused),
        ]
    );
    assert_eq!(states[2], ("in/0/3@panics", SendState::Unknown));
    let why = told[0].why.as_deref().unwrap();
    assert!(why.contains("the brokers are away"), "{why}");
}

#[test]
fn what_a_request_has_no_time_for_is_said_letter_by_letter() {
    for one in send(Duration::ZERO) {
        assert_eq!(one.state, SendState::Unreached, "{one:?}");
        assert!(one.why.unwrap().contains("is not sent"));
    }
}
