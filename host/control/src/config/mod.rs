//! The pipeline file: what was typed, and what it means.
//!
//! Reading takes two steps. [`read`] looks at each section by itself and gives what was typed, in range and with its
//! place; [`resolve`] looks at the whole and at the disk and gives a [`Pipeline`]. Neither stops at a mistake.

mod addresses;
mod answering;
mod audit;
mod disk;
mod feeds;
mod files;
mod findings;
mod gateway;
#[cfg(test)]
mod gateway_tests;
mod guarantee;
mod internal;
mod mistake;
mod models;
mod named;
mod names;
mod nearest;
mod outputs;
mod pipeline;
mod ports;
mod properties;
mod read;
mod read_changelog;
mod read_ends;
mod read_feed;
mod read_form;
mod read_gateway;
mod read_gateway_access;
mod read_gateway_ends;
mod read_load;
mod read_model;
mod read_model_stage;
mod read_remote_model;
mod read_stage;
mod read_start;
mod read_telemetry;
mod read_topic;
mod read_turns;
mod read_url;
mod reader;
mod remote_models;
mod resolve;
mod resolve_gateway;
mod resolve_load;
mod resolve_model_stage;
mod resolve_order;
mod resolve_stage;
mod telemetry;
#[cfg(test)]
mod telemetry_tests;
#[cfg(test)]
mod tests;
mod text;
mod topics;
mod typed;
mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

use disk::Directory;
use findings::Findings;
use text::{SourceText, Span};

pub use answering::Answering;
pub use audit::Audit;
pub use feeds::{Feed, FeedKind};
pub use gateway::{
    Endpoint, Gateway, GatewayKey, GatewayLimits, GatewayTls, GatewayTokens, Ingest, Kept,
    KeySecret, LoadStep, Quota, Route, Scope, TokenAlgorithm, TokenKeys,
};
pub use guarantee::{Guarantee, GuaranteePart, guarantee};
pub use internal::{Changelog, NewTopic};
pub use mistake::{Mistake, Mistakes};
pub use models::{
    AdapterChoice, Ask, BiasedToken, DEFAULT_CONTEXT, Engine, Generate, Holds, Into, KvPrecision,
    LoraOf, Model, ModelStage, Order, Truncated, Turn,
};
pub use outputs::{check_labels, check_outputs};
pub use pipeline::{
    Breaker, Decoding, Encoding, Format, Grant, Input, KafkaSink, KafkaSource, Limits,
    MetricsToken, Node, OperatorStage, Operators, Pipeline, Sink, SinkKind, Source, SourceKind,
    Stage, StageKind, Start, Then, Ungranted, cluster_of,
};
pub use properties::{KafkaEnd, PropertyMistake};
pub use remote_models::{RemoteBreaker, RemoteHedge, RemoteModel, RemoteProtocol, RemoteTimeouts};
pub use telemetry::{Collector, OtlpMetrics, Telemetry, Traces};
pub use text::Position;
pub use units::{duration, size};

/// Longest pipeline file, bytes: far more than a person writes.
const LONGEST: usize = 4 << 20;

/// Reads a pipeline file. Its warnings are in the pipeline.
pub fn load(path: &Path) -> Result<Pipeline, Mistakes> {
    let whole = |what: String| Mistakes {
        mistakes: vec![Findings::whole_file(path.to_owned(), what)],
        warnings: Vec::new(),
    };
    let absolute = std::path::absolute(path)
        .map_err(|error| whole(format!("has no absolute path: {error}")))?;
    let bytes =
        std::fs::read(&absolute).map_err(|error| whole(format!("cannot be read: {error}")))?;
    if bytes.len() > LONGEST {
        return Err(whole(format!(
            "has {} bytes; a pipeline file has at most {LONGEST}",
            bytes.len()
        )));
    }
    let content = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        whole(format!("is not UTF-8: line {line}, byte {at} of the file"))
    })?;
    parse(path, &absolute, content)
}

/// The state directory of a pipeline file, whatever else is wrong with it.
pub fn state_directory(path: &Path) -> Result<PathBuf, Mistakes> {
    match load(path) {
        Ok(pipeline) => Ok(pipeline.state),
        Err(mistakes) => {
            let typed = std::fs::read_to_string(path).ok();
            let absolute = std::path::absolute(path).ok();
            let (Some(content), Some(absolute)) = (typed, absolute) else {
                return Err(mistakes);
            };
            let Ok(document) = DeTable::parse(&content) else {
                return Err(mistakes);
            };
            let state = document
                .get_ref()
                .get("pipeline")
                .map_or(Some("state"), |table| {
                    table
                        .get_ref()
                        .get("state")
                        .map_or(Some("state"), |state| state.get_ref().as_str())
                });
            let directory = Directory::new(absolute.parent().unwrap_or(Path::new("/")).to_owned());
            state.map(|state| directory.resolve(state)).ok_or(mistakes)
        }
    }
}

/// What a pipeline file's content means.
fn parse(shown: &Path, absolute: &Path, content: String) -> Result<Pipeline, Mistakes> {
    let text = Arc::new(SourceText {
        shown: shown.to_owned(),
        content,
    });
    let directory = Directory::new(absolute.parent().unwrap_or(Path::new("/")).to_owned());
    let (document, errors) = DeTable::parse_recoverable(&text.content);
    let mut found = Findings::new(text.clone());
    let typed = read::read_file(&found, document.get_ref());
    let mut pipeline = None;
    if errors.is_empty() {
        pipeline = Some(resolve::resolve(
            &found,
            &directory,
            absolute.to_owned(),
            typed,
        ));
    } else {
        let broken: Vec<Span> = errors
            .iter()
            .map(|error| Span(error.span().unwrap_or_default()))
            .collect();
        found.discount(&broken);
        for (error, place) in errors.iter().zip(&broken) {
            found.mistake(place, "", format!("this is not TOML: {}", error.message()));
        }
    }
    let (mistakes, warnings) = found.into_parts();
    match pipeline {
        Some(mut pipeline) if mistakes.is_empty() => {
            pipeline.warnings = warnings;
            Ok(pipeline)
        }
        _ => Err(Mistakes { mistakes, warnings }),
    }
}
