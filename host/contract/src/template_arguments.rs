//! Named values for a model's chat template, beside messages and functions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Values that a chat template finds by their names, as `enable_thinking`.
///
/// They come from pipeline files and from clients, so they are bounded, and what a template is given anyway has its name
/// to itself: no argument stands in the place of the messages, the functions or a special token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct TemplateArguments(Map<String, Value>);

/// An argument that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ArgumentError {
    /// The argument, where it is one of them that is wrong.
    pub name: Option<String>,
    /// What is wrong, with value and limit.
    pub why: String,
}

impl TemplateArguments {
    /// Most arguments.
    pub const MOST: usize = 32;
    /// Longest name, in bytes.
    pub const LONGEST_NAME: usize = 64;
    /// Most bytes of all of them, as JSON text.
    pub const MOST_BYTES: usize = 16 << 10;
    /// How deep lists and objects may stand in each other.
    pub const DEPTH: usize = 8;
    /// Names that a template finds anyway, and those by which servers are told which template it is.
    pub const RESERVED: [&str; 20] = [
        "add_generation_prompt",
        "bos_token",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "eos_token",
        "loop",
        "messages",
        "namespace",
        "pad_token",
        "raise_exception",
        "range",
        "self",
        "strftime_now",
        "tojson",
        "tokenize",
        "tools",
        "unk_token",
        "dict",
    ];

    /// Checks names, depth and size.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn new(arguments: Map<String, Value>) -> Result<TemplateArguments, ArgumentError> {
        if arguments.len() > Self::MOST {
            return Err(ArgumentError {
                name: None,
                why: format!(
                    "{} arguments, at most {} may be",
                    arguments.len(),
                    Self::MOST
                ),
            });
        }
        for (name, value) in &arguments {
            let wrong = |why: String| {
                Err(ArgumentError {
                    name: Some(name.clone()),
                    why,
                })
            };
            let shown: String = name.chars().take(Self::LONGEST_NAME).collect();
            let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let digit = |c: char| c.is_ascii_digit();
            if name.is_empty()
                || name.len() > Self::LONGEST_NAME
                || name.starts_with(digit)
                || !name.chars().all(letter)
            {
                return wrong(format!(
                    "{shown:?} is no name of a template's argument: 1 to {} of a-z, A-Z, 0-9 and _, no digit first",
                    Self::LONGEST_NAME
                ));
            }
            if Self::RESERVED.contains(&name.as_str()) || name.ends_with("_token") {
                return wrong(format!(
                    "{name:?} is given to every template; an argument cannot take its place"
                ));
            }
            if depth(value) > Self::DEPTH {
                return wrong(format!("{name:?} is nested more than {} deep", Self::DEPTH));
            }
        }
        let arguments = TemplateArguments(arguments);
        let bytes = arguments.text().len();
        if bytes > Self::MOST_BYTES {
            return Err(ArgumentError {
                name: None,
                why: format!("{bytes} bytes as JSON, at most {} may be", Self::MOST_BYTES),
            });
        }
        Ok(arguments)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// As a JSON object.
    pub fn text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// These, and of `usual` those that have other names.
    ///
    /// # Errors
    /// Together they are too many or too long.
    pub fn over(&self, usual: &TemplateArguments) -> Result<TemplateArguments, ArgumentError> {
        if usual.is_empty() {
            return Ok(self.clone());
        }
        let mut all = usual.0.clone();
        all.extend(self.0.clone());
        TemplateArguments::new(all)
    }
}

impl TryFrom<Map<String, Value>> for TemplateArguments {
    type Error = ArgumentError;

    fn try_from(arguments: Map<String, Value>) -> Result<TemplateArguments, ArgumentError> {
        TemplateArguments::new(arguments)
    }
}

impl From<TemplateArguments> for Map<String, Value> {
    fn from(arguments: TemplateArguments) -> Map<String, Value> {
        arguments.0
    }
}

/// How deep lists and objects stand in a value; 0 of one that is neither. What was parsed is at most as deep as its parser
/// goes.
fn depth(value: &Value) -> usize {
    let deepest = |depth: Option<usize>| 1 + depth.unwrap_or(0);
    match value {
        Value::Array(items) => deepest(items.iter().map(depth).max()),
        Value::Object(members) => deepest(members.values().map(depth).max()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TemplateArguments, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_come_back_as_they_were_written() {
        let text =
            r#"{"builtin_tools":["a",{"b":null}],"enable_thinking":false,"thinking_budget":512}"#;
        let arguments = read(text).unwrap();
        assert_eq!(serde_json::to_string(&arguments).unwrap(), text);
        assert_eq!(arguments.text(), text);
        assert!(!arguments.is_empty() && TemplateArguments::default().is_empty());
    }

    #[test]
    fn what_a_template_is_given_anyway_no_argument_replaces() {
        for name in [
            "messages",
            "tools",
            "bos_token",
            "sep_token",
            "chat_template",
            "raise_exception",
        ] {
            let error = read(&format!("{{\"{name}\": []}}")).unwrap_err();
            let wanted =
                format!("{name:?} is given to every template; an argument cannot take its place");
            assert!(error.starts_with(&wanted), "{error}");
        }
    }

    #[test]
    fn names_depth_number_and_size_are_bounded_and_the_limits_themselves_are_allowed() {
        for name in ["", "1a", "a b", "a.b", "é", &"a".repeat(65)] {
            let error = read(&serde_json::json!({name: 1}).to_string()).unwrap_err();
            assert!(
                error.contains("is no name of a template's argument"),
                "{error}"
            );
        }
        assert!(read(&serde_json::json!({"a".repeat(64): 1}).to_string()).is_ok());
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(8)).is_ok());
        assert!(
            read(&nested(9))
                .unwrap_err()
                .starts_with("\"a\" is nested more than 8 deep")
        );
        let many = |count: usize| {
            let all: Map<String, Value> = (0..count).map(|n| (format!("a{n}"), n.into())).collect();
            TemplateArguments::new(all)
        };
        assert!(many(32).is_ok());
        assert_eq!(
            many(33).unwrap_err().to_string(),
            "33 arguments, at most 32 may be"
        );
        let long = |bytes: usize| read(&format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8)));
        assert!(long(16 << 10).is_ok());
        assert!(
            long((16 << 10) + 1)
                .unwrap_err()
                .starts_with("16385 bytes as JSON, at most 16384")
        );
    }

    #[test]
    fn a_requests_arguments_stand_over_its_stages() {
        let stage = read(r#"{"a":1,"b":2}"#).unwrap();
        let own = read(r#"{"b":3}"#).unwrap();
        assert_eq!(own.over(&stage).unwrap().text(), r#"{"a":1,"b":3}"#);
        assert_eq!(TemplateArguments::default().over(&stage).unwrap(), stage);
    }
}
