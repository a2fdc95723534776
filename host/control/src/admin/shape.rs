//! What is wrong with the body of a request, in the words of JSON: whoever wrote it knows no types of this program.

use serde_json::{Error, Value};

/// What a member of an object may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    TrueOrFalse,
    Number,
    /// From the one to the other.
    Whole(u64, u64),
    /// Of names and values.
    Pairs,
}

impl Kind {
    fn takes(self, value: &Value) -> bool {
        match self {
            Kind::Text => value.is_string(),
            Kind::TrueOrFalse => value.is_boolean(),
            Kind::Number => value.is_number(),
            Kind::Whole(least, most) => value
                .as_u64()
                .is_some_and(|number| (least..=most).contains(&number)),
            Kind::Pairs => value.as_array().is_some_and(|pairs| {
                let pair = |pair: &Value| {
                    let texts = pair.as_array();
                    texts
                        .is_some_and(|texts| texts.len() == 2 && texts.iter().all(Value::is_string))
                };
                pairs.iter().all(pair)
            }),
        }
    }

    fn words(self) -> String {
        match self {
            Kind::Text => "a text".to_owned(),
            Kind::TrueOrFalse => "true or false".to_owned(),
            Kind::Number => "a number".to_owned(),
            Kind::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Pairs => "a list of [\"name\", \"value\"]".to_owned(),
        }
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    name: &'static str,
    kind: Kind,
    /// Whether it need not be there; null is then as if it were not.
    or_null: bool,
}

impl Member {
    /// One that has to be there.
    pub(super) const fn needed(name: &'static str, kind: Kind) -> Member {
        Member {
            name,
            kind,
            or_null: false,
        }
    }

    /// One that need not.
    pub(super) const fn optional(name: &'static str, kind: Kind) -> Member {
        Member {
            name,
            kind,
            or_null: true,
        }
    }

    fn takes(self, value: &Value) -> bool {
        (self.or_null && value.is_null()) || self.kind.takes(value)
    }
}

/// Whether a body is an object, if it is JSON at all: lists of the members' values are not taken for one.
pub(super) fn is_object(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"{")
}

/// What is wrong with a body that was not taken for this reason, or is no object.
pub(super) fn fault(body: &[u8], why: Option<&Error>, members: &[Member]) -> String {
    let found = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(found)) => found,
        Ok(_) => return "it is no object".to_owned(),
        Err(error) => return no_json(&error),
    };
    for member in members {
        let (name, words) = (member.name, member.kind.words());
        if found.get(name).is_some_and(|value| !member.takes(value)) {
            return match member.or_null {
                true => format!("{name} is not {words}, or null"),
                false => format!("{name} is not {words}"),
            };
        }
    }
    // One that is missing, unknown or there twice: those words name it as it stands in the body.
    why.map_or_else(String::new, Error::to_string)
}

fn no_json(error: &Error) -> String {
    let said = error.to_string();
    if said.contains("hex escape") {
        let (line, column) = (error.line(), error.column());
        return format!(
            "it is no JSON: \\u has four hexadecimal digits, and \\ud800 to \\udfff stand in pairs, at line {line} column {column}"
        );
    }
    format!("it is no JSON: {said}")
}
