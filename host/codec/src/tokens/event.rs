//! An event as JSON, and back.

use serde_json::{Map, Value, json};
use tidegate_contract::{ChoiceEnd, Lane, TokenEvent, TokenWhat};

/// An event as a reader has it. Members that it does not know are left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedEvent {
    /// Which answer.
    pub request: String,
    /// The record's key.
    pub key: Option<String>,
    /// Which attempt.
    pub attempt: u64,
    /// What happened.
    pub what: OwnedWhat,
}

/// What happened: see [`TokenWhat`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedWhat {
    /// The attempt begins.
    Reset {
        /// Characters that stay of each text.
        from: u64,
    },
    /// A part of a text.
    Text {
        /// Which of the answers.
        choice: u32,
        /// Which text of it.
        lane: Lane,
        /// Where it begins.
        at: u64,
        /// Index of its last token.
        index: u32,
        /// The part.
        text: String,
        /// Id and name of the call that begins.
        call: Option<(String, String)>,
    },
    /// The answer is whole.
    End {
        /// Each of the answers.
        choices: Vec<OwnedChoiceEnd>,
    },
    /// There will be no answer.
    Lost,
}

/// How one of the answers ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedChoiceEnd {
    /// Which.
    pub choice: u32,
    /// Why, in a word.
    pub finish: String,
    /// Its texts, and how many characters each has.
    pub lanes: Vec<(Lane, u64)>,
}

fn lane_name(lane: Lane) -> String {
    match lane {
        Lane::Content => "content".into(),
        Lane::Reasoning => "reasoning".into(),
        Lane::Arguments(call) => format!("arguments/{call}"),
    }
}

impl OwnedWhat {
    /// A lane as events name it.
    pub fn lane_name(lane: Lane) -> String {
        lane_name(lane)
    }
}

fn lane_of(name: &str) -> Result<Lane, String> {
    match name {
        "content" => Ok(Lane::Content),
        "reasoning" => Ok(Lane::Reasoning),
        _ => {
            let number = name.strip_prefix("arguments/");
            let number = number.and_then(|number| number.parse().ok());
            number.map(Lane::Arguments).ok_or_else(|| {
                let name: String = name.chars().take(64).collect();
                format!("lane is {name:?}, must be content, reasoning or arguments/NUMBER")
            })
        }
    }
}

/// Writes an event as a JSON object, without a line end.
pub fn encode_token_event(event: &TokenEvent<'_>) -> Vec<u8> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("request", event.request.into());
    if let Some(key) = event.key {
        put("key", key.into());
    }
    put("attempt", event.attempt.into());
    match event.what {
        TokenWhat::Reset { from } => put("reset", from.into()),
        TokenWhat::Text {
            choice,
            lane,
            at,
            index,
            text,
            call,
        } => {
            put("choice", choice.into());
            put("lane", lane_name(lane).into());
            put("at", at.into());
            put("index", index.into());
            put("text", text.into());
            if let Some((id, name)) = call {
                put("call", json!({"id": id, "name": name}));
            }
        }
        TokenWhat::End { choices } => {
            put("end", choices.iter().map(end_json).collect());
        }
        TokenWhat::Lost => put("lost", true.into()),
    }
    Value::Object(object).to_string().into_bytes()
}

fn end_json(end: &ChoiceEnd) -> Value {
    let lanes = end.lanes.iter();
    let lanes: Map<String, Value> = lanes
        .map(|(lane, length)| (lane_name(*lane), (*length).into()))
        .collect();
    json!({"choice": end.choice, "finish": end.finish.name(), "lanes": lanes})
}

/// Reads an event. The error says what is wrong with it.
pub fn parse_token_event(json: &[u8]) -> Result<OwnedEvent, String> {
    let value: Value =
        serde_json::from_slice(json).map_err(|error| format!("event is no JSON: {error}"))?;
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let what = if let Some(from) = value["reset"].as_u64() {
        OwnedWhat::Reset { from }
    } else if let Some(text) = text("text") {
        OwnedWhat::Text {
            choice: small(&value, "choice")?,
            lane: lane_of(value["lane"].as_str().unwrap_or_default())?,
            at: number(&value, "at")?,
            index: small(&value, "index")?,
            text,
            call: match (value["call"]["id"].as_str(), value["call"]["name"].as_str()) {
                (Some(id), Some(name)) => Some((id.to_owned(), name.to_owned())),
                _ => None,
            },
        }
    } else if let Some(choices) = value["end"].as_array() {
        let choices = choices.iter().map(end_of);
        OwnedWhat::End {
            choices: choices.collect::<Result<_, _>>()?,
        }
    } else if value["lost"] == Value::Bool(true) {
        OwnedWhat::Lost
    } else {
        return Err("event has neither reset, text, end nor lost".into());
    };
    Ok(OwnedEvent {
        request: text("request").ok_or("event has no request")?,
        key: text("key"),
        attempt: number(&value, "attempt")?,
        what,
    })
}

fn end_of(value: &Value) -> Result<OwnedChoiceEnd, String> {
    let lanes = value["lanes"].as_object().ok_or("end has no lanes")?;
    let lanes = lanes.iter().map(|(name, length)| {
        let length = length
            .as_u64()
            .ok_or_else(|| format!("{name} ends at {length}, must be a number of characters"))?;
        Ok::<_, String>((lane_of(name)?, length))
    });
    Ok(OwnedChoiceEnd {
        choice: small(value, "choice")?,
        finish: value["finish"].as_str().ok_or("end has no finish")?.into(),
        lanes: lanes.collect::<Result<_, _>>()?,
    })
}

fn number(value: &Value, name: &str) -> Result<u64, String> {
    let found = &value[name];
    found
        .as_u64()
        .ok_or_else(|| format!("{name} is {found}, must be a whole number"))
}

fn small(value: &Value, name: &str) -> Result<u32, String> {
    let number = number(value, name)?;
    u32::try_from(number).map_err(|_| format!("{name} is {number}, must be below 4294967296"))
}

#[cfg(test)]
mod tests {
    use tidegate_contract::Finish;

    use super::*;

    fn there_and_back(what: TokenWhat<'_>) -> OwnedWhat {
        let event = TokenEvent {
            request: "ask/0/3/125",
            key: Some("k7"),
            attempt: 1_763_863_200_000_123,
            what,
        };
        let json = encode_token_event(&event);
        assert!(!json.contains(&b'\n'));
        let back = parse_token_event(&json).unwrap();
        assert_eq!(back.request, event.request);
        assert_eq!(back.key.as_deref(), event.key);
        assert_eq!(back.attempt, event.attempt);
        back.what
    }

    #[test]
    fn every_event_is_read_as_it_was_written() {
        assert_eq!(
            there_and_back(TokenWhat::Reset { from: 3 }),
            OwnedWhat::Reset { from: 3 }
        );
        assert_eq!(there_and_back(TokenWhat::Lost), OwnedWhat::Lost);
        let text = TokenWhat::Text {
            choice: 1,
            lane: Lane::Arguments(2),
            at: 9,
            index: 4,
            text: "a\n\"é",
            call: Some(("call_1", "send")),
        };
        let OwnedWhat::Text {
            choice,
            lane,
            at,
            index,
            text,
            call,
        } = there_and_back(text)
        else {
            panic!("it is a text");
        };
        assert_eq!((choice, lane, at, index), (1, Lane::Arguments(2), 9, 4));
        assert_eq!(text, "a\n\"é");
        assert_eq!(call, Some(("call_1".into(), "send".into())));
        let lanes = vec![(Lane::Content, 5), (Lane::Reasoning, 0)];
        let choices = [ChoiceEnd {
            choice: 0,
            finish: Finish::Stop,
            lanes: lanes.clone(),
        }];
        let expected = OwnedChoiceEnd {
            choice: 0,
            finish: "stop".into(),
            lanes,
        };
        assert_eq!(
            there_and_back(TokenWhat::End { choices: &choices }),
            OwnedWhat::End {
                choices: vec![expected]
            }
        );
    }

    #[test]
    fn what_is_no_event_is_said() {
        for (json, why) in [
            ("", "event is no JSON"),
            ("[]", "neither reset"),
            ("{\"lost\":true}", "no request"),
            (r#"{"request":"a","reset":0}"#, "attempt is null"),
            (
                r#"{"request":"a","attempt":1,"text":"a","choice":0,"lane":"x","at":0,"index":0}"#,
                "lane is \"x\"",
            ),
            (
                r#"{"request":"a","attempt":1,"text":"a","choice":0,"lane":"content","at":-1,"index":0}"#,
                "at is -1",
            ),
            (
                r#"{"request":"a","attempt":1,"end":[{"choice":0,"finish":"end","lanes":{"content":"5"}}]}"#,
                "content ends at",
            ),
        ] {
            let error = parse_token_event(json.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
    }
}
