//! `route-intent`: sends records to named outputs by the words in their text.
//!
//! Rules come from the configuration; the first one that fits decides. A component's outputs are fixed when it is
//! compiled, so rules choose among [`OUTPUTS`]; the pipeline file gives each a stage to go to. The header `intent` says
//! which it was. Words are compared whole, without regard to case, and a phrase's words must follow each other.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod rules;

use serde::Deserialize;
use tidegate_sdk::{Operator, Outcome, Record, operator};

use rules::Rules;

/// The outputs that rules can name.
pub const OUTPUTS: [&str; 7] = [
    "billing",
    "delivery",
    "returns",
    "account",
    "technical",
    "complaint",
    "other",
];

/// The configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rules, first to last.
    pub rules: Vec<RuleConfig>,
    /// Where a record goes that fits no rule: `pass` or an output.
    #[serde(default = "pass")]
    pub default: String,
    /// Whether records are routed or only labelled.
    #[serde(default)]
    pub action: Action,
    /// The header that names the output.
    #[serde(default = "intent")]
    pub header: String,
}

/// One rule of the configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// The output it chooses.
    pub output: String,
    /// One of these stands in the text.
    #[serde(default)]
    pub any: Vec<String>,
    /// Each of these does.
    #[serde(default)]
    pub all: Vec<String>,
    /// None of these does.
    #[serde(default)]
    pub none: Vec<String>,
    /// The member of a JSON value that is looked at.
    pub path: Option<String>,
}

/// What is done with the output found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The record goes there.
    #[default]
    Route,
    /// The record goes on to the main output, with the header.
    Label,
}

fn pass() -> String {
    "pass".to_owned()
}

fn intent() -> String {
    "intent".to_owned()
}

/// The operator.
#[derive(Debug)]
pub struct RouteIntent {
    rules: Rules,
    default: Option<&'static str>,
    action: Action,
    header: String,
}

#[operator(
    name = "route-intent",
    reads = "value",
    outputs = ["billing", "delivery", "returns", "account", "technical", "complaint", "other"]
)]
impl Operator for RouteIntent {
    type Config = Config;
    const CONFIG_SCHEMA: &'static str = include_str!("../config.schema.json");

    fn new(config: Config) -> Result<RouteIntent, String> {
        if config.header.is_empty() {
            return Err("config key `header` is empty; name the header, as \"intent\"".to_owned());
        }
        let default = match config.default.as_str() {
            "pass" => None,
            other => Some(output(other).ok_or_else(|| {
                format!(
                    "config key `default` is {other:?}; it can be \"pass\" or one of {OUTPUTS:?}"
                )
            })?),
        };
        Ok(RouteIntent {
            rules: Rules::new(&config.rules)?,
            default,
            action: config.action,
            header: config.header,
        })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        let value = record.value().unwrap_or_default();
        let value = String::from_utf8_lossy(value);
        let Some(output) = self.rules.output(&value).or(self.default) else {
            return Outcome::Pass;
        };
        let outcome = match self.action {
            Action::Route => Outcome::route(output),
            Action::Label => Outcome::replace(),
        };
        outcome.header(&self.header, output)
    }
}

/// The output of this name.
fn output(name: &str) -> Option<&'static str> {
    OUTPUTS.into_iter().find(|output| *output == name)
}

#[cfg(test)]
mod tests;
