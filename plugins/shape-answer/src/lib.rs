//! `shape-answer`: makes the answer of the model stage the value of the record.
//!
//! The model stage leaves a record's value as it was and adds two private attributes: `answer` (text) and `model` (JSON:
//! name, digest, how it ended, tokens, timings, and the operators the record went through). Private attributes never
//! leave the pipeline; this operator writes what should leave into the value. Members keep their order and their exact
//! text. A record without an answer goes to the dead letters.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use tidegate_sdk::json::{members, quote};
use tidegate_sdk::{Changes, Configuration, Failure, Operator, Outcome, Record, operator};

/// What the new value has.
#[derive(Debug, Configuration)]
pub struct Config {
    /// What the new value is. With `text` the other keys have no use.
    #[config(default = Format::Json)]
    pub format: Format,
    /// Members of the JSON value that stay, in this order, as "id" or "customer.id" (which becomes "id").
    #[config(default, each(length = 1..))]
    pub keep: Vec<String>,
    /// Name of the member with the answer.
    #[config(default = "answer", length = 1..)]
    pub answer: String,
    /// Whether `model` says which model answered, and how.
    #[config(default = true)]
    pub model: bool,
    /// Whether `operators` lists slots and versions.
    #[config(default = true)]
    pub operators: bool,
    /// Whether `timings_ms` says what took how long.
    #[config(default = true)]
    pub timings: bool,
}

/// What the new value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configuration)]
pub enum Format {
    /// A JSON object.
    Json,
    /// The answer alone.
    Text,
}

/// The operator.
#[derive(Debug)]
pub struct ShapeAnswer {
    config: Config,
}

#[operator(name = "shape-answer", reads = ["value", "attributes"], panics = "trap")]
impl Operator for ShapeAnswer {
    type Config = Config;

    fn new(config: Config) -> Result<ShapeAnswer, Failure> {
        let mut names = vec![config.answer.as_str()];
        let switches = [
            (config.model, "model"),
            (config.operators, "operators"),
            (config.timings, "timings_ms"),
        ];
        names.extend(switches.iter().filter(|(on, _)| *on).map(|(_, name)| *name));
        for path in &config.keep {
            if path.split('.').any(str::is_empty) {
                return Err(format!(
                    "config key `keep` has {path:?}; a path is member names with dots between, as \"customer.id\""
                )
                .into());
            }
            names.push(member_name(path));
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!(
                "two members of the output would be called {:?}; change `keep` or `answer`, or switch one off",
                pair[0]
            )
            .into());
        }
        Ok(ShapeAnswer { config })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        match self.shape(record) {
            Ok(value) => Outcome::replace(Changes::new().value(value)),
            Err(reason) => Outcome::dead_letter(reason),
        }
    }
}

impl ShapeAnswer {
    fn shape(&self, record: &Record<'_>) -> Result<String, String> {
        let answer = record.attribute("answer").ok_or(
            "the record has no attribute `answer`: this operator stands after a model stage",
        )?;
        let answer = std::str::from_utf8(answer)
            .map_err(|error| format!("attribute `answer` is not UTF-8: {error}"))?;
        if self.config.format == Format::Text {
            return Ok(answer.to_owned());
        }
        let mut object = Object::default();
        if !self.config.keep.is_empty() {
            self.keep(record, &mut object)?;
        }
        object.member(&self.config.answer, &quote(answer));
        if let Some(model) = record.attribute("model") {
            self.model(model, &mut object)?;
        }
        Ok(object.finish())
    }

    fn keep(&self, record: &Record<'_>, object: &mut Object) -> Result<(), String> {
        let value = record.text().map_err(|error| error.to_string())?;
        for path in &self.config.keep {
            let found = find(value, path)
                .map_err(|why| format!("cannot keep {path:?} of the value: {why}"))?;
            object.member(member_name(path), found.unwrap_or("null"));
        }
        Ok(())
    }

    fn model(&self, model: &[u8], object: &mut Object) -> Result<(), String> {
        let wrong =
            |why: &str| format!("attribute `model` is not what a model stage writes: {why}");
        let model = std::str::from_utf8(model).map_err(|error| wrong(&error.to_string()))?;
        let mut described = Object::default();
        let (mut operators, mut timings) = (None, None);
        members(model, |name, value| match &*name {
            "operators" => operators = Some(value),
            "timings_ms" => timings = Some(value),
            name => described.member(name, value),
        })
        .map_err(|error| wrong(&error.to_string()))?;
        if self.config.model {
            object.member("model", &described.finish());
        }
        let switched = [
            ("operators", operators.filter(|_| self.config.operators)),
            ("timings_ms", timings.filter(|_| self.config.timings)),
        ];
        for (name, value) in switched {
            if let Some(value) = value {
                object.member(name, value);
            }
        }
        Ok(())
    }
}

/// The name that a kept path has in the output: its last member.
fn member_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The value at a path of a JSON object, as it stands there; the last one if a name repeats.
fn find<'a>(value: &'a str, path: &str) -> Result<Option<&'a str>, String> {
    let mut found = Some(value);
    for (depth, step) in path.split('.').enumerate() {
        let Some(object) = found else { return Ok(None) };
        if depth > 0 && !object.starts_with('{') {
            return Ok(None);
        }
        found = None;
        members(object, |name, value| {
            if name == step {
                found = Some(value);
            }
        })
        .map_err(|error| error.to_string())?;
    }
    Ok(found)
}

/// A JSON object being written.
#[derive(Default)]
struct Object {
    text: String,
}

impl Object {
    fn member(&mut self, name: &str, value: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.text.push_str(&quote(name));
        self.text.push(':');
        self.text.push_str(value);
    }

    fn finish(mut self) -> String {
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        self.text
    }
}

#[cfg(test)]
mod tests;
