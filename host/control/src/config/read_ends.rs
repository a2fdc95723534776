//! Reads the ends of the pipeline: `[source.NAME]`, `[sink.NAME]`, `[dead-letters]`.

use toml::de::DeValue;

use super::findings::Typed;
use super::pipeline::{Encoding, Format};
use super::read_changelog::read_changelog;
use super::read_gateway_ends::{
    COUNT_KEYS, DECODING_KEYS, HEADER_KEYS, INGEST_KEYS, OUTPUT_KEYS, ROUTE_KEYS, read_ingest,
    read_output, read_reply, read_route,
};
use super::read_start::read_start;
use super::read_topic::read_topic;
use super::reader::Table;
use super::typed::{TypedSink, TypedSinkKind, TypedSource, TypedSourceKind};

const KAFKA: [&str; 6] = [
    "brokers",
    "topic",
    "group",
    "instance",
    "start",
    "properties",
];
/// Keys that say how records become bytes.
const FORM: [&str; 4] = ["format", "envelope", "columns", "delimiter"];
const FORMATS: [(&str, Format); 3] = [
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("raw", Format::Raw),
];

#[derive(Clone, Copy)]
enum Kind {
    File,
    Standard,
    Kafka,
    Gateway,
    /// Ingest of sources, output of sinks.
    Http,
}

pub(crate) fn read_source(name: Typed<String>, table: Table<'_>) -> TypedSource {
    let kinds = [
        ("file", Kind::File),
        ("stdin", Kind::Standard),
        ("kafka", Kind::Kafka),
        ("gateway", Kind::Gateway),
        ("ingest", Kind::Http),
    ];
    let typed_kind = read_kind(&table, &kinds);
    let kind = match typed_kind {
        Some(Kind::Gateway) => {
            let route = read_route(&name, &table);
            table.misplaced(
                &DECODING_KEYS,
                "has no place here: a request's body says what it is",
            );
            Some(TypedSourceKind::Gateway(Box::new(route)))
        }
        Some(Kind::Http) => Some(TypedSourceKind::Ingest(Box::new(read_ingest(
            &name, &table,
        )))),
        Some(Kind::File) => read_paths(&table).map(TypedSourceKind::File),
        Some(Kind::Standard) => Some(TypedSourceKind::Stdin),
        Some(Kind::Kafka) => {
            let topic = read_topic(&table);
            let group = table.string("group");
            let instance = table.string("instance").map(|typed| typed.value);
            let start = read_start(&table);
            topic.map(|topic| TypedSourceKind::Kafka {
                topic,
                group,
                instance,
                start,
            })
        }
        None => None,
    };
    let typed_format = table.word("format", &FORMATS);
    let format = typed_format
        .as_ref()
        .map_or(Format::Json, |typed| typed.value);
    match (&typed_kind, &typed_format) {
        (Some(Kind::Kafka), Some(typed)) if format == Format::Csv => table.found.about(
            typed,
            "a message of a topic is json or raw; csv is for files and stdin",
        ),
        (Some(Kind::Http), Some(typed)) => table.found.about(
            typed,
            "has no place here: a request's Content-Type says what it is",
        ),
        _ => {}
    }
    let changelog = match typed_kind {
        Some(Kind::File | Kind::Kafka) => read_changelog(&table),
        _ => None,
    };
    let field = |name| {
        table
            .string(name)
            .filter(|typed| check_field(&table, typed, format))
            .map(|typed| typed.value)
    };
    let source = TypedSource {
        name,
        kind,
        format,
        key: field("key"),
        event_time: field("event-time"),
        required: table
            .strings("required")
            .unwrap_or_default()
            .into_iter()
            .filter(|typed| check_field(&table, typed, format))
            .map(|typed| typed.value)
            .collect(),
        max_record: table
            .size("max-record", 1..=256 << 20)
            .map_or(1 << 20, |typed| typed.value),
        delimiter: read_delimiter(&table, format),
        changelog,
    };
    table.misplaced(
        &["changelog"],
        match typed_kind {
            Some(Kind::Gateway | Kind::Http) => "belongs to type = \"file\" and \"kafka\"",
            _ => "what was read from standard input cannot be read again, and waits in the commit log",
        },
    );
    finish(table, typed_kind.is_some());
    source
}

pub(crate) fn read_sink(name: Typed<String>, table: Table<'_>) -> TypedSink {
    let inputs = table.strings("inputs");
    let kind = table.get("type").map(|kind| match kind.raw {
        DeValue::String(text) => text.as_ref(),
        _ => "",
    });
    let (keys, why): (&[&'static str], _) = match kind {
        Some("kafka") => (&FORM, "a topic takes key, value and headers as they are"),
        Some("gateway") => (
            &FORM,
            "a client gets its answer in the form that it asked for",
        ),
        Some("output") => (&["format", "columns", "delimiter"], "readers get JSON"),
        _ => (&[], ""),
    };
    table.misplaced(keys, why);
    let format = table
        .word("format", &FORMATS)
        .map_or(Format::Json, |typed| typed.value);
    let encoding = Encoding {
        format,
        envelope: format == Format::Json
            && table.truth("envelope").is_some_and(|typed| typed.value),
        columns: if format == Format::Csv {
            read_columns(&table)
        } else {
            Vec::new()
        },
        delimiter: read_delimiter(&table, format),
    };
    TypedSink {
        name,
        inputs,
        kind: read_sink_kind(table, true),
        encoding,
    }
}

/// Dead letters are objects with the reason beside the record: they are always JSON.
pub(crate) fn read_dead_letters(table: Table<'_>) -> Option<TypedSinkKind> {
    table.word("format", &FORMATS[..1]);
    read_sink_kind(table, false)
}

fn read_sink_kind(table: Table<'_>, named: bool) -> Option<TypedSinkKind> {
    let kinds = [
        ("file", Kind::File),
        ("stdout", Kind::Standard),
        ("kafka", Kind::Kafka),
        ("gateway", Kind::Gateway),
        ("output", Kind::Http),
    ];
    // Dead letters are for those who look after the pipeline, not for its clients.
    let typed_kind = read_kind(&table, if named { &kinds } else { &kinds[..3] });
    let kind = match typed_kind {
        Some(Kind::File) => {
            let path = table.string("path");
            if table.get("path").is_none() {
                table.missing("path", "path = \"out/answers.jsonl\"");
            }
            path.map(TypedSinkKind::File)
        }
        Some(Kind::Standard) => Some(TypedSinkKind::Stdout {
            place: table.place.clone(),
            key: table.key.clone(),
        }),
        Some(Kind::Kafka) => read_topic(&table).map(TypedSinkKind::Kafka),
        Some(Kind::Gateway) => Some(read_reply(&table)),
        Some(Kind::Http) => Some(read_output(&table)),
        None => None,
    };
    finish(table, typed_kind.is_some());
    kind
}

fn read_columns(table: &Table<'_>) -> Vec<String> {
    let Some(value) = table.get("columns") else {
        table.missing(
            "columns",
            "columns = [\"id\", \"answer\"], the columns of the file",
        );
        return Vec::new();
    };
    let columns = value.strings(table.found).unwrap_or_default();
    if matches!(value.raw, DeValue::Array(list) if list.is_empty()) {
        table.found.mistake(
            &value.place,
            &value.key,
            "is empty; name at least one column",
        );
    }
    columns
        .into_iter()
        .filter(|typed| check_field(table, typed, Format::Json))
        .map(|typed| typed.value)
        .collect()
}

/// The byte between CSV fields; other formats have none.
fn read_delimiter(table: &Table<'_>, format: Format) -> u8 {
    if format != Format::Csv {
        return b',';
    }
    let Some(typed) = table.string("delimiter") else {
        return b',';
    };
    match typed.value.as_bytes() {
        [byte]
            if *byte == b'\t'
                || (byte.is_ascii_graphic() && !byte.is_ascii_alphanumeric() && *byte != b'"') =>
        {
            *byte
        }
        _ => {
            table.found.about(
                &typed,
                format!(
                    "{:?} is not one character between fields; write for example \";\" or \"\\t\"",
                    typed.value
                ),
            );
            b','
        }
    }
}

/// A section whose type is not known says nothing of its other keys: they may well be right.
fn finish(table: Table<'_>, kind_known: bool) {
    if kind_known {
        table.misplaced(&KAFKA, "belongs to type = \"kafka\" only");
        table.misplaced(&["path", "paths"], "belongs to type = \"file\" only");
        table.misplaced(&ROUTE_KEYS, "belongs to type = \"gateway\" only");
        table.misplaced(&HEADER_KEYS, "belongs to type = \"gateway\" and \"ingest\"");
        table.misplaced(&COUNT_KEYS, "belongs to type = \"ingest\" and \"output\"");
        table.misplaced(&INGEST_KEYS, "belongs to type = \"ingest\" only");
        table.misplaced(&OUTPUT_KEYS, "belongs to type = \"output\" only");
        table.misplaced(
            &["columns", "delimiter"],
            "belongs to format = \"csv\" only",
        );
        table.misplaced(&["envelope"], "belongs to format = \"json\" only");
        table.finish();
    }
}

fn read_kind(table: &Table<'_>, kinds: &[(&'static str, Kind)]) -> Option<Kind> {
    if table.get("type").is_none() {
        let list: Vec<String> = kinds.iter().map(|(name, _)| format!("{name:?}")).collect();
        table.missing("type", &format!("type = one of {}", list.join(", ")));
        return None;
    }
    table.word("type", kinds).map(|typed| typed.value)
}

fn read_paths(table: &Table<'_>) -> Option<Vec<Typed<String>>> {
    let Some(value) = table.get("paths") else {
        table.missing("paths", "paths = [\"tickets.jsonl\"]");
        return None;
    };
    let paths = value.strings(table.found)?;
    if paths.is_empty() && matches!(value.raw, DeValue::Array(list) if list.is_empty()) {
        table
            .found
            .mistake(&value.place, &value.key, "is empty; name at least one file");
    }
    Some(paths)
}

fn check_field(table: &Table<'_>, typed: &Typed<String>, format: Format) -> bool {
    let what = match format {
        Format::Raw => {
            "raw records have no fields; leave it out, or write format = \"json\"".into()
        }
        Format::Json if typed.value.split('.').any(str::is_empty) => format!(
            "{:?} is not the path of a field; write for example \"customer.id\"",
            typed.value
        ),
        Format::Csv if typed.value.is_empty() => "\"\" is not the name of a column".into(),
        _ => return true,
    };
    table.found.about(typed, what);
    false
}
