//! `route-intent`: sends records to named outputs by the words in their text.
//!
//! Rules come from the configuration; the first one that fits decides. Its outputs are those that the rules and `default`
//! name; the pipeline file gives each a stage to go to. The header `intent` says which it was. Words are compared whole,
//! without regard to case, and a phrase's words must follow each other.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod rules;

use tidegate_sdk::{
    Changes, Configuration, Failure, Operator, Outcome, Output, OutputName, Record, operator,
};

use rules::Rules;

/// What stands for the main output.
const PASS: &str = "pass";

/// What is told apart, and what comes of it.
#[derive(Debug, Configuration)]
pub struct Config {
    /// The first rule that fits decides.
    #[config(length = 1..)]
    pub rules: Vec<RuleConfig>,
    /// Where a record goes that fits no rule: an output, or `pass` for the main one.
    #[config(default = "pass")]
    pub default: String,
    /// Whether records are routed or only labelled.
    #[config(default)]
    pub action: Action,
    /// The header that names the output.
    #[config(default = "intent", length = 1..)]
    pub header: String,
}

/// A rule; it has `any` or `all`, or both.
#[derive(Debug, Configuration)]
pub struct RuleConfig {
    /// The output it chooses.
    pub output: OutputName,
    /// One of these words or phrases stands in the text; `refund*` fits every word that begins so.
    #[config(default, each(length = 1..))]
    pub any: Vec<String>,
    /// Each of these does.
    #[config(default, each(length = 1..))]
    pub all: Vec<String>,
    /// None of these does.
    #[config(default, each(length = 1..))]
    pub none: Vec<String>,
    /// The member of a JSON value that is looked at; every string without it.
    #[config(length = 1..)]
    pub path: Option<String>,
}

/// What is done with the output found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configuration)]
pub enum Action {
    /// The record goes there.
    #[default]
    Route,
    /// The record goes on to the main output, with the header.
    Label,
}

impl Config {
    /// Where a record goes that fits no rule; none for the main output.
    fn default_output(&self) -> Result<Option<OutputName>, String> {
        match self.default.as_str() {
            PASS => Ok(None),
            name => OutputName::new(name).map(Some).map_err(|expected| {
                format!("config key `default` is {name:?}, expected {PASS:?} or {expected}")
            }),
        }
    }
}

/// The operator.
#[derive(Debug)]
pub struct RouteIntent {
    rules: Rules,
    default: Option<OutputName>,
    action: Action,
    header: String,
}

#[operator(name = "route-intent", reads = "value", panics = "trap")]
impl Operator for RouteIntent {
    type Config = Config;
    type Output = OutputName;

    fn new(config: Config) -> Result<RouteIntent, Failure> {
        Ok(RouteIntent {
            rules: Rules::new(&config.rules)?,
            default: config.default_output()?,
            action: config.action,
            header: config.header,
        })
    }

    fn outputs(config: &Config) -> Vec<OutputName> {
        if config.action == Action::Label {
            return Vec::new();
        }
        let rules = config.rules.iter().map(|rule| rule.output.clone());
        rules
            .chain(config.default_output().ok().flatten())
            .collect()
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome<OutputName> {
        let value = record.value().unwrap_or_default();
        let value = String::from_utf8_lossy(value);
        let Some(output) = self.rules.output(&value).or(self.default.as_ref()) else {
            return Outcome::Pass;
        };
        let changes = Changes::new().header(&self.header, output.name());
        match self.action {
            Action::Route => Outcome::route_changed(output.clone(), changes),
            Action::Label => Outcome::replace(changes),
        }
    }
}

#[cfg(test)]
mod tests;
