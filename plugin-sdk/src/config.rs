//! Reading an operator's configuration.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The configuration of an operator that has none; any key is an error.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

impl NoConfig {
    /// Its JSON Schema.
    pub const SCHEMA: &'static str =
        r#"{"type":"object","properties":{},"additionalProperties":false}"#;
}

/// Reads a configuration from JSON text; an empty text is an empty table. An error names the key it is about.
pub fn read_config<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let text = match text.trim() {
        "" | "null" => "{}",
        text => text,
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let mut why = error.into_inner().to_string();
        // The text is made by the host from the pipeline file: its lines say nothing to the user.
        if let Some(at) = why.rfind(" at line ") {
            why.truncate(at);
        }
        if path == "." {
            format!("config: {why}")
        } else {
            format!("config key `{path}`: {why}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nested {
        #[allow(dead_code)]
        rules: Vec<Rule>,
    }

    #[derive(Debug, Deserialize)]
    struct Rule {
        #[allow(dead_code)]
        output: String,
    }

    #[test]
    fn an_error_names_the_key_and_the_value() {
        let error =
            read_config::<Nested>(r#"{"rules":[{"output":"a"},{"output":7}]}"#).unwrap_err();
        assert_eq!(
            error,
            "config key `rules[1].output`: invalid type: integer `7`, expected a string"
        );
        let error = read_config::<Nested>(r#"{"rule":[]}"#).unwrap_err();
        assert_eq!(
            error,
            "config key `rule`: unknown field `rule`, expected `rules`"
        );
    }

    #[test]
    fn an_empty_text_is_an_empty_table() {
        for text in ["", "  ", "{}", "null"] {
            assert!(read_config::<NoConfig>(text).is_ok(), "{text:?}");
        }
        assert!(read_config::<NoConfig>(r#"{"a":1}"#).is_err());
    }
}
