//! Reads where a topic begins.

use tidegate_codec::parse_time;
use toml::de::DeValue;

use super::nearest::nearest;
use super::pipeline::Start;
use super::reader::Table;

const WORDS: [(&str, Start); 2] = [("earliest", Start::Earliest), ("latest", Start::Latest)];

/// `start`: a word, or a time as event times are written.
pub(crate) fn read_start(table: &Table<'_>) -> Start {
    let Some(value) = table.get("start") else {
        return Start::Earliest;
    };
    let mut near = None;
    let micros = match value.raw {
        DeValue::String(text) => {
            if let Some((_, start)) = WORDS.iter().find(|(word, _)| *word == text.as_ref()) {
                return *start;
            }
            near = nearest(text, WORDS.iter().map(|(word, _)| *word));
            parse_time(text)
        }
        // TOML writes times in the same way.
        DeValue::Datetime(time) => parse_time(&time.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .and_then(|millis| millis.checked_mul(1000)),
        _ => None,
    };
    if let Some(micros) = micros.filter(|micros| *micros >= 0) {
        // A time between two milliseconds is after the first.
        return Start::At {
            millis: micros / 1000 + i64::from(micros % 1000 != 0),
        };
    }
    let way = match near {
        Some(near) => format!("did you mean {near:?}?"),
        None => "write \"earliest\", \"latest\", or a time since 1970 such as \"2026-11-22T08:00:00Z\" or its \
                 milliseconds"
            .to_owned(),
    };
    table.found.mistake(
        &value.place,
        &value.key,
        format!("{value} is not where a topic can begin; {way}"),
    );
    Start::Earliest
}
