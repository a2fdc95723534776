//! Records and configurations as the cases write them.

use tidegate_sdk::serde_json::{Value, json};
use tidegate_sdk::{Origin, Pair, Record};

use crate::{Config, Mode};

/// A record as compact JSON.
pub(crate) fn record(record: &Record<'_>) -> String {
    let id = record.id();
    let origin = match id.origin {
        Origin::Source => "source",
        Origin::Timer => "timer",
    };
    format!(
        r#"{{"id":["{origin}",{},{},"{}","{}"],"time":{},"clock":{},"key":{},"value":{},"headers":{},"attributes":{}}}"#,
        id.source,
        id.partition,
        id.offset,
        id.emit,
        json!(record.event_time().map(|time| time.as_micros())),
        record.now().as_micros(),
        hexadecimal(record.key()),
        hexadecimal(record.value()),
        pairs(record.headers()),
        pairs(record.attributes()),
    )
}

fn pairs<'a>(pairs: impl Iterator<Item = Pair<'a>>) -> Value {
    pairs
        .map(|pair| json!([pair.name, hexadecimal(pair.value)]))
        .collect()
}

fn hexadecimal(bytes: Option<&[u8]>) -> Value {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.map_or(Value::Null, |bytes| Value::String(digits(bytes)))
}

/// A configuration as compact JSON.
pub(crate) fn config(config: &Config) -> String {
    let nested = config.nested.as_ref().map_or("null".to_owned(), |nested| {
        format!(r#"{{"name":{},"on":{}}}"#, json!(nested.name), nested.on)
    });
    format!(
        r#"{{"mode":"{}","limit":{},"words":{},"ratio":{},"label":{},"nested":{nested}}}"#,
        match config.mode {
            Mode::Normal => "normal",
            Mode::Refuse => "refuse",
            Mode::Transient => "transient",
            Mode::Panic => "panic",
        },
        config.limit,
        json!(config.words),
        json!(config.ratio),
        json!(config.label),
    )
}
