//! Reads the ends of the pipeline that are the gateway's: sources `gateway` and `ingest`, sinks `gateway` and `output`.

use std::time::Duration;

use super::findings::Typed;
use super::gateway::{Endpoint, Ingest, Route, RoutePlaces};
use super::read_gateway_access::{read_endpoints, read_names};
use super::read_load::read_under_load;
use super::read_model_stage::read_field;
use super::reader::Table;
use super::typed::TypedSinkKind;

/// Keys of sources of the gateway alone.
pub(crate) const ROUTE_KEYS: [&str; 6] = [
    "models",
    "endpoints",
    "deadline",
    "priority",
    "max-waiting",
    "under-load",
];
/// Keys of both sources that requests come from.
pub(crate) const HEADER_KEYS: [&str; 2] = ["headers", "key-header"];
/// Keys of ingest sources alone.
pub(crate) const INGEST_KEYS: [&str; 1] = ["log-bytes"];
/// Keys of sources whose records have a form that the file says.
pub(crate) const DECODING_KEYS: [&str; 6] = [
    "format",
    "key",
    "event-time",
    "required",
    "max-record",
    "delimiter",
];
/// Keys of output sinks alone.
pub(crate) const OUTPUT_KEYS: [&str; 1] = ["max-bytes"];
/// Keys of both.
pub(crate) const COUNT_KEYS: [&str; 1] = ["max-records"];

/// Headers that say who asks: they are in no record.
const SECRET: [&str; 5] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
];

pub(crate) fn read_route(name: &Typed<String>, table: &Table<'_>) -> Route {
    let times = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
    let endpoints = read_endpoints(table, &Endpoint::OF_SOURCES);
    let deadline = table
        .duration("deadline", "s", times)
        .map_or(Duration::from_secs(600), |typed| typed.value);
    let max_waiting = table
        .count("max-waiting", 1..=1_000_000)
        .map_or(256, |typed| typed.value);
    Route {
        models: Vec::new(),
        endpoints: Vec::new(),
        headers: read_headers(table),
        key_header: read_key_header(table),
        deadline,
        priority: table
            .number("priority", 0..=9)
            .map_or(0, |typed| typed.value as u8),
        max_waiting,
        under_load: Vec::new(),
        places: Box::new(RoutePlaces {
            under_load: read_under_load(table, max_waiting, deadline),
            name: name.clone(),
            models: read_names(table, "models"),
            endpoints,
        }),
    }
}

pub(crate) fn read_ingest(name: &Typed<String>, table: &Table<'_>) -> Ingest {
    let log_bytes = table.size("log-bytes", 1 << 20..=1 << 44);
    Ingest {
        key_header: read_key_header(table),
        headers: read_headers(table),
        max_records: table
            .count("max-records", 1..=1_000_000)
            .map_or(10_000, |typed| typed.value),
        log_bytes: (log_bytes.as_ref()).map_or(1 << 30, |typed| typed.value as u64),
        name: name.clone(),
        log_place: log_bytes,
    }
}

/// A sink that answers whoever asked.
pub(crate) fn read_reply(table: &Table<'_>) -> TypedSinkKind {
    TypedSinkKind::Gateway {
        field: read_field(table),
    }
}

/// A sink that readers over HTTP follow.
pub(crate) fn read_output(table: &Table<'_>) -> TypedSinkKind {
    let (max_records, max_bytes) = read_output_limits(table);
    TypedSinkKind::Output {
        max_records,
        max_bytes,
    }
}

/// How many records an output keeps, and how many bytes of them.
pub(crate) fn read_output_limits(table: &Table<'_>) -> (u64, u64) {
    let records = table
        .number("max-records", 1..=100_000_000)
        .map_or(100_000, |typed| typed.value);
    let bytes = table
        .size("max-bytes", 64 << 10..=1 << 40)
        .map_or(64 << 20, |typed| typed.value as u64);
    (records, bytes)
}

fn read_headers(table: &Table<'_>) -> Vec<String> {
    let names = table.strings("headers").unwrap_or_default();
    let mut headers: Vec<String> = Vec::new();
    for name in &names {
        let Some(header) = header(table, name) else {
            continue;
        };
        if headers.contains(&header) {
            table
                .found
                .about(name, format!("{:?} stands here twice", name.value));
        }
        headers.push(header);
    }
    headers
}

fn read_key_header(table: &Table<'_>) -> Option<String> {
    let typed = table.string("key-header")?;
    header(table, &typed)
}

/// The name of a header, in small letters.
fn header(table: &Table<'_>, typed: &Typed<String>) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let name = typed.value.to_ascii_lowercase();
    if name.is_empty() || name.len() > 128 || !name.chars().all(fits) {
        table.found.about(
            typed,
            format!(
                "{:?} is not the name of a header; write for example \"x-session\"",
                typed.value
            ),
        );
        return None;
    }
    if SECRET.contains(&name.as_str()) {
        table.found.about(
            typed,
            format!("{name:?} says who asks, and is in no record; name another header"),
        );
        return None;
    }
    Some(name)
}
