//! The contract 1.0.0: what both of its worlds have in common.

use tidegate_record::Fields;
use tidegate_telemetry::plain;
use wasmtime::component::{ComponentType, Lift, Linker, WasmStr};
use wasmtime::{Result, StoreContextMut};

use super::Said;
use crate::failure::{Class, Failure};
use crate::host::Host;
use crate::listener::Level;
use crate::metrics::{Kind, Metric};
use crate::shared::LINE_BYTES;

/// `level` of the WIT.
#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "lifted from the guest's number, never named here")]
pub(crate) enum WitLevel {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<WitLevel> for Level {
    fn from(level: WitLevel) -> Level {
        match level {
            WitLevel::Trace => Level::Trace,
            WitLevel::Debug => Level::Debug,
            WitLevel::Info => Level::Info,
            WitLevel::Warn => Level::Warn,
            WitLevel::Error => Level::Error,
        }
    }
}

/// `failure-class` of the WIT.
#[derive(Clone, Copy, Debug, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "lifted from the guest's number, never named here")]
pub(crate) enum WitClass {
    #[component(name = "transient")]
    Transient,
    #[component(name = "permanent")]
    Permanent,
    #[component(name = "bad-configuration")]
    BadConfiguration,
}

/// `failure` of the WIT.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitFailure {
    class: WitClass,
    code: String,
    message: String,
}

/// Longest code of a failure, in bytes.
const CODE_BYTES: usize = 64;

impl WitFailure {
    pub(crate) fn failure(&self) -> Failure {
        let class = match self.class {
            WitClass::Transient => Class::Transient,
            WitClass::Permanent => Class::Permanent,
            WitClass::BadConfiguration => Class::BadConfiguration,
        };
        let is_code = self.code.len() <= CODE_BYTES
            && self
                .code
                .starts_with(|first: char| first.is_ascii_lowercase())
            && self
                .code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let code = if is_code { &self.code } else { "unnamed" };
        Failure::said(class, code, &self.message)
    }
}

wasmtime::component::flags! {
    WitFields {
        #[component(name = "key")]
        const KEY;
        #[component(name = "value")]
        const VALUE;
        #[component(name = "headers")]
        const HEADERS;
        #[component(name = "attributes")]
        const ATTRIBUTES;
    }
}

#[derive(Clone, Copy, Debug, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "lifted from the guest's number, never named here")]
pub(crate) enum WitKind {
    #[component(name = "counter")]
    Counter,
    #[component(name = "gauge")]
    Gauge,
    #[component(name = "histogram")]
    Histogram,
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitMetric {
    name: String,
    kind: WitKind,
    help: String,
    labels: Vec<String>,
    bounds: Vec<f64>,
}

#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitExtension {
    name: String,
    json: String,
}

/// `description` of the WIT.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct WitDescription {
    name: String,
    version: String,
    #[component(name = "config-schema")]
    config_schema: String,
    reads: WitFields,
    outputs: Vec<String>,
    metrics: Vec<WitMetric>,
    handlers: Vec<String>,
    extensions: Vec<WitExtension>,
}

impl WitDescription {
    pub(crate) fn said(self) -> Said {
        let known = [
            (WitFields::KEY, Fields::KEY),
            (WitFields::VALUE, Fields::VALUE),
            (WitFields::HEADERS, Fields::HEADERS),
            (WitFields::ATTRIBUTES, Fields::ATTRIBUTES),
        ];
        let reads = known
            .iter()
            .filter(|(field, _)| self.reads & *field == *field)
            .fold(Fields::NONE, |reads, (_, field)| reads.and(*field));
        let metrics = self.metrics.into_iter().map(|metric| Metric {
            name: metric.name,
            kind: match metric.kind {
                WitKind::Counter => Kind::Counter,
                WitKind::Gauge => Kind::Gauge,
                WitKind::Histogram => Kind::Histogram,
            },
            help: metric.help,
            labels: metric.labels,
            bounds: metric.bounds,
        });
        Said {
            name: self.name,
            version: self.version,
            config_schema: self.config_schema,
            reads,
            outputs: self.outputs,
            metrics: metrics.collect(),
            handlers: self.handlers,
            extensions: self
                .extensions
                .iter()
                .map(|extension| {
                    let bytes = extension.json.len();
                    let name = plain(&extension.name, crate::limits::NAME_BYTES);
                    format!("\"{name}\" ({bytes} bytes)")
                })
                .collect(),
        }
    }
}

/// `write` of the WIT's `log`, the same in every version of it.
pub(super) fn log(
    mut store: StoreContextMut<'_, Host>,
    (level, line): (WitLevel, WasmStr),
) -> Result<()> {
    let level = level.into();
    let line = line.to_str(&store)?;
    store.data().shared.log(level, &line);
    let kept = line[..line.floor_char_boundary(LINE_BYTES)].to_owned();
    store.data_mut().logged.line(level, &kept);
    Ok(())
}

/// Adds `log`.
pub(crate) fn link(linker: &mut Linker<Host>) -> Result<()> {
    linker
        .instance("tidegate:operator/log@1.0.0")?
        .func_wrap("write", log)
}
