//! Reads the file, and the sections that belong to the pipeline as a whole: `[pipeline]` and `[admin]`.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_contract::Wanted;
use toml::de::{DeTable, DeValue};

use super::audit::read_audit;
use super::findings::{Findings, Typed};
use super::ports::{self, Listener};
use super::read_ends::{read_dead_letters, read_sink, read_source};
use super::read_feed::read_feed;
use super::read_gateway::read_gateway;
use super::read_model::{read_engine, read_model};
use super::read_stage::{read_operators, read_stage};
use super::read_telemetry::read_telemetry;
use super::reader::{Table, Value};
use super::text::Span;
use super::typed::{TypedAdmin, TypedFile};

/// Reads the whole file.
pub(crate) fn read_file<'t>(found: &'t Findings, document: &'t DeTable<'t>) -> TypedFile {
    let root = Table::new(found, String::new(), Span(0..0), document);
    let mut file = TypedFile::default();
    match root.table("pipeline") {
        Some(table) => read_pipeline(table, &mut file),
        None if root.get("pipeline").is_none() => {
            root.missing("pipeline", "[pipeline] with name = \"...\"");
        }
        None => {}
    }
    for (name, value) in sections(&root, "source", "at least one [source.NAME]") {
        if let Some(table) = value.table(found) {
            file.sources.push(read_source(name, table));
        }
    }
    if let Some(table) = root.table("operators") {
        file.operators = read_operators(table);
    }
    if let Some(table) = root.table("engine") {
        file.engine = read_engine(table);
    }
    for (name, value) in sections(&root, "model", "") {
        if let Some(table) = value.table(found) {
            file.models.push(read_model(name, table));
        }
    }
    if let Some(value) = root.get("stage") {
        match value.raw {
            DeValue::Array(stages) => {
                for (number, stage) in stages.iter().enumerate() {
                    let value = Value {
                        raw: stage.get_ref(),
                        place: Span(stage.span()),
                        key: format!("stage[{}]", number + 1),
                    };
                    if let Some(table) = value.table(found) {
                        file.stages.push(read_stage(table));
                    }
                }
            }
            _ => found.mistake(
                &value.place,
                &value.key,
                "stages have an order; write each as [[stage]] with name = \"...\"",
            ),
        }
    }
    for (name, value) in sections(&root, "feed", "") {
        if let Some(table) = value.table(found) {
            file.feeds.push(read_feed(name, table));
        }
    }
    for (name, value) in sections(&root, "sink", "at least one [sink.NAME]") {
        if let Some(table) = value.table(found) {
            file.sinks.push(read_sink(name, table));
        }
    }
    file.dead_letters = root.table("dead-letters").map(read_dead_letters);
    file.audit = root.table("audit").map(read_audit);
    let mut listeners = Vec::new();
    if let Some(table) = root.table("admin") {
        let place = |key| table.get(key).map(|value| value.place.clone());
        let places = (place("address"), place("metrics-address"));
        file.metrics_token = table.string("metrics-token-file");
        file.watch = read_watch(&table, file.metrics_token.is_some());
        file.admin = read_admin(table);
        if let (TypedAdmin::Address(address), Some(place)) = (&file.admin, places.0) {
            listeners.push(Listener {
                key: "admin.address",
                address: *address,
                place,
            });
        }
        if let (Some(address), Some(place)) = (file.watch, places.1) {
            listeners.push(Listener {
                key: "admin.metrics-address",
                address,
                place,
            });
        }
    }
    file.gateway = root.table("gateway").map(read_gateway);
    if let Some(gateway) = &file.gateway {
        let place = gateway.address_place.as_ref().unwrap_or(&gateway.place);
        listeners.push(Listener {
            key: "gateway.address",
            address: gateway.address,
            place: place.clone(),
        });
    }
    ports::look(found, &listeners);
    if let Some(table) = root.table("telemetry") {
        file.telemetry = read_telemetry(table);
    }
    root.finish();
    file
}

/// The tables `[kind.NAME]`, with their names checked.
fn sections<'t>(
    root: &Table<'t>,
    kind: &'static str,
    needed: &str,
) -> Vec<(Typed<String>, Value<'t>)> {
    let Some(value) = root.get(kind) else {
        if !needed.is_empty() {
            root.missing(kind, needed);
        }
        return Vec::new();
    };
    if let DeValue::Array(_) = value.raw {
        root.found.mistake(
            &value.place,
            kind,
            format!("each {kind} has a name; write [{kind}.NAME]"),
        );
        return Vec::new();
    }
    let Some(table) = value.table(root.found) else {
        return Vec::new();
    };
    let all = table.all();
    if all.is_empty() && !needed.is_empty() {
        root.missing(kind, needed);
    }
    for (name, _) in &all {
        check_name(root.found, name);
    }
    all
}

/// Names are part of file names, groups and metrics.
pub(crate) fn check_name(found: &Findings, name: &Typed<String>) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let text = &name.value;
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
        let mut near: String = text
            .to_lowercase()
            .chars()
            .map(|c| if fits(c) { c } else { '-' })
            .take(64)
            .collect();
        if near.is_empty() {
            near = "support-bot".into();
        }
        found.about(
            name,
            format!(
                "{text:?} is not a name: 1 to 64 of a-z, 0-9 and -; write for example {near:?}"
            ),
        );
    }
}

fn read_pipeline(table: Table<'_>, file: &mut TypedFile) {
    file.name = table.string("name");
    match &file.name {
        Some(name) => check_name(table.found, name),
        None if table.get("name").is_none() => table.missing("name", "name = \"support-bot\""),
        None => {}
    }
    file.state = table.string("state");
    file.workers = table.number("workers", 1..=1024);
    file.cut_interval = table.duration(
        "cut-interval",
        "ms",
        Duration::from_millis(1)..=Duration::from_secs(600),
    );
    file.delivery = read_delivery(&table);
    file.batch = table.count("batch", 1..=65_536).map(|typed| typed.value);
    file.summary = table.string("summary");
    table.finish();
}

fn read_delivery(table: &Table<'_>) -> Option<Wanted> {
    let typed = table.string("delivery")?;
    match typed.value.as_str() {
        "exactly-once" => Some(Wanted::ExactlyOnce),
        "at-least-once" => Some(Wanted::AtLeastOnce),
        _ => {
            table.found.about(
                &typed,
                format!(
                    "{:?} is no delivery; write \"exactly-once\" or \"at-least-once\"",
                    typed.value
                ),
            );
            None
        }
    }
}

/// Where probes and whoever scrapes metrics may ask, from elsewhere too.
fn read_watch(table: &Table<'_>, has_token: bool) -> Option<SocketAddr> {
    let typed = table.string("metrics-address")?;
    let Ok(address) = typed.value.parse::<SocketAddr>() else {
        table.found.about(
            &typed,
            format!(
                "{:?} is not an address with a port; write \"0.0.0.0:9464\"",
                typed.value
            ),
        );
        return None;
    };
    if !address.ip().is_loopback() && !has_token {
        table.found.warning(
            &typed.place,
            "admin.metrics-address",
            "tells metrics to whoever reaches it; write metrics-token-file, or let nobody but those who scrape reach it",
        );
    }
    Some(address)
}

fn read_admin(table: Table<'_>) -> TypedAdmin {
    let mut admin = TypedAdmin::Default;
    if let Some(typed) = table.string("address") {
        if typed.value == "off" {
            admin = TypedAdmin::Off;
        } else {
            match typed.value.parse::<SocketAddr>() {
                Ok(address) if address.ip().is_loopback() => admin = TypedAdmin::Address(address),
                Ok(address) => table.found.about(
                    &typed,
                    format!(
                        "{:?} is not a loopback address: the admin API is for this machine only; write \"127.0.0.1:{}\"",
                        typed.value,
                        address.port()
                    ),
                ),
                Err(_) => table.found.about(
                    &typed,
                    format!(
                        "{:?} is not an address with a port; write \"127.0.0.1:0\" (any free port) or \"off\"",
                        typed.value
                    ),
                ),
            }
        }
    }
    table.finish();
    admin
}
