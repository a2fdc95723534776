//! The operator of the conformance cases: what it does with a record stands in the record's header `do`. Every language
//! has the same one; `plugin-sdk/conformance/README.md` says what it does.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod extremes;
mod show;
mod tokens;

use std::time::Duration;

use tidegate_sdk::metrics::{Counter, Gauge, Histogram};
use tidegate_sdk::prelude::*;
use tidegate_sdk::serde_json::Value;

const SEEN: Counter = Counter::new("seen_total", "Records that were counted");
const WORDS: Counter = Counter::new("words_total", "Words by kind").labels(&["kind"]);
const LAST: Gauge = Gauge::new("last_bytes", "Bytes of the last value");
const BYTES: Histogram =
    Histogram::new("value_bytes", "Bytes of values").bounds(&[1.0, 10.0, 100.0, 1000.0]);

/// Every kind of key.
#[derive(Configuration)]
pub struct Config {
    /// What it does when it starts.
    #[config(default)]
    mode: Mode,
    /// A whole number.
    #[config(default = 1000, range = 1..=1_000_000)]
    limit: u32,
    /// Texts that are not empty.
    #[config(default, each(length = 1..))]
    words: Vec<String>,
    /// A number.
    #[config(default = 0.5, range = 0.0..=1.0)]
    ratio: f64,
    /// A text that may be absent.
    label: Option<String>,
    /// A table that may be absent.
    nested: Option<Nested>,
}

#[derive(Clone, Copy, Configuration, Default, PartialEq)]
enum Mode {
    #[default]
    Normal,
    Refuse,
    Transient,
    Panic,
}

#[derive(Configuration)]
struct Nested {
    /// A text that must be there.
    name: String,
    /// A truth value.
    #[config(default = true)]
    on: bool,
}

/// Many outputs.
#[derive(Clone, Copy, Debug, Output)]
pub enum Side {
    /// `left`
    Left,
    /// `right`
    Right,
    /// `out-3`
    #[output(name = "out-3")]
    Third,
    /// `out-4`
    #[output(name = "out-4")]
    Fourth,
    /// `out-5`
    #[output(name = "out-5")]
    Fifth,
    /// `out-6`
    #[output(name = "out-6")]
    Sixth,
    /// `out-7`
    #[output(name = "out-7")]
    Seventh,
    /// `out-8`
    #[output(name = "out-8")]
    Eighth,
    /// `out-9`
    #[output(name = "out-9")]
    Ninth,
    /// `out-10`
    #[output(name = "out-10")]
    Tenth,
    /// `out-11`
    #[output(name = "out-11")]
    Eleventh,
    /// `out-12`
    #[output(name = "out-12")]
    Twelfth,
    /// `out-13`
    #[output(name = "out-13")]
    Thirteenth,
    /// `out-14`
    #[output(name = "out-14")]
    Fourteenth,
    /// `out-15`
    #[output(name = "out-15")]
    Fifteenth,
    /// `out-16`
    #[output(name = "out-16")]
    Sixteenth,
}

/// See the module.
pub struct Conformance(Config);

#[operator(
    name = "conformance",
    version = "1.0.0",
    metrics = [SEEN, WORDS, LAST, BYTES],
    tokens
)]
impl Operator for Conformance {
    type Config = Config;
    type Output = Side;

    fn new(config: Config) -> Result<Conformance, Failure> {
        match config.mode {
            Mode::Normal => Ok(Conformance(config)),
            Mode::Refuse => Err(Failure::bad_configuration(
                "refused",
                r#"config key "mode" is "refuse""#,
            )),
            Mode::Transient => Err(Failure::transient("not-now", "asked to come later")),
            Mode::Panic => panic!("asked to fail in init"),
        }
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome<Side> {
        let changes = Changes::new();
        match record.header_text("do").unwrap_or("pass") {
            "pass" => Outcome::Pass,
            "drop" => Outcome::Drop,
            "echo" => Outcome::replace(changes.value(bytes(record))),
            "upper" => match record.text() {
                Ok(text) => Outcome::replace(changes.value(text.to_ascii_uppercase())),
                Err(_) => Outcome::dead_letter("value is not UTF-8 text"),
            },
            "show" => Outcome::replace(changes.value(show::record(record))),
            "set-key" => Outcome::replace(changes.key("a new key")),
            "null-key" => Outcome::replace(changes.null_key()),
            "null-value" => Outcome::replace(changes.null_value()),
            "empty-value" => Outcome::replace(changes.value("")),
            "headers" => Outcome::replace(
                changes
                    .header("a", "1")
                    .add_header("b", "2")
                    .add_header("b", "3")
                    .remove_header("c")
                    .null_header("d")
                    .add_null_header("e"),
            ),
            "attributes" => Outcome::replace(
                changes
                    .attribute("a", "1")
                    .add_attribute("b", "2")
                    .add_attribute("b", "3")
                    .remove_attribute("c")
                    .null_attribute("d")
                    .add_null_attribute("e"),
            ),
            "time" => Outcome::replace(changes.event_time(record.now())),
            "no-time" => Outcome::replace(changes.no_event_time()),
            "same" => Outcome::replace(changes),
            "all" => Outcome::replace(
                changes
                    .key("k")
                    .value("v")
                    .header("h", "1")
                    .attribute("t", "2")
                    .event_time(Timestamp::from_micros(5)),
            ),
            "split" => Outcome::split(parts(bytes(record))),
            "split-outputs" => Outcome::split([
                Piece::to(Side::Left, Changes::new().value("l")),
                Piece::to(Side::Right, Changes::new().value("r")),
                Piece::from(Changes::new().value("m")),
            ]),
            "split-none" => Outcome::split(Vec::<Changes>::new()),
            "split-many" => Outcome::split(vec![changes; 4095]),
            "split-too-many" => Outcome::split(vec![changes; 4096]),
            "route" => route(record.header_text("to").unwrap_or_default()),
            "route-changed" => {
                Outcome::route_changed(Side::Left, changes.value("changed").remove_header("do"))
            }
            "last-output" => Outcome::route(Side::Sixteenth),
            "retry" => Outcome::retry(Duration::from_millis(1500), lossy(record)),
            "dead-letter" => Outcome::dead_letter(lossy(record)),
            "throw" => panic!("boom"),
            "fail-transient" => Outcome::Fail(Failure::transient("asked-for", ASKED)),
            "fail-permanent" => Outcome::Fail(Failure::permanent("asked-for", ASKED)),
            "fail-configuration" => Outcome::Fail(Failure::bad_configuration("asked-for", ASKED)),
            "spin" => extremes::spin(),
            "grow" => extremes::grow(),
            "deep" => Outcome::dead_letter(extremes::deep(1).to_string()),
            "trap" => std::process::abort(),
            "log" => {
                log!(Level::Trace, "a trace line");
                log!(Level::Debug, "a debug line");
                log!(Level::Info, "an info line");
                log!(Level::Warn, "a warn line");
                log!(Level::Error, "an error line");
                Outcome::Pass
            }
            "metrics" => {
                measure(record);
                Outcome::Pass
            }
            "metrics-drop" => {
                measure(record);
                Outcome::Drop
            }
            "metrics-throw" => {
                SEEN.add(1);
                panic!("boom")
            }
            "json" => match record.json::<Value>() {
                Ok(json) => match json["name"].as_str() {
                    Some(name) => Outcome::replace(changes.value(name)),
                    None => Outcome::dead_letter("value is no JSON object with a text `name`"),
                },
                Err(error) => Outcome::dead_letter(error.to_string()),
            },
            "random" => {
                let mut random = record.random();
                let drawn = format!("{},{}", random.bits(), random.bits());
                Outcome::replace(changes.value(drawn))
            }
            "config" => Outcome::replace(changes.value(show::config(&self.0))),
            "headers-count" => {
                Outcome::replace(changes.value(record.headers().count().to_string()))
            }
            "clock" => Outcome::replace(changes.value(record.now().as_micros().to_string())),
            other => Outcome::dead_letter(format!("unknown behaviour \"{other}\"")),
        }
    }
}

const ASKED: &str = "the record asks for it";

fn bytes<'a>(record: &Record<'a>) -> &'a [u8] {
    record.value().unwrap_or_default()
}

fn lossy(record: &Record<'_>) -> String {
    String::from_utf8_lossy(bytes(record)).into_owned()
}

fn parts(value: &[u8]) -> impl Iterator<Item = Changes> {
    let parts = value.split(|byte| *byte == b',').enumerate();
    parts.map(|(index, part)| Changes::new().value(part).header("part", index.to_string()))
}

fn route(to: &str) -> Outcome<Side> {
    match Side::all().into_iter().find(|side| side.name() == to) {
        Some(side) => Outcome::route(side),
        None => Outcome::dead_letter(format!("there is no output \"{to}\"")),
    }
}

fn measure(record: &Record<'_>) {
    let length = bytes(record).len() as f64;
    SEEN.add(1);
    WORDS.add_for(&["short"], 2);
    LAST.set(length);
    BYTES.observe(length);
}
