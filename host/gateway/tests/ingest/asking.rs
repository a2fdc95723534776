//! Requests and answers as the front makes and takes them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_contract::{HostHeaders, IngestLog, Sink};
use tidegate_gateway::access::Who;
use tidegate_gateway::exchange::{Answered, Asked, Content, Gone};
use tidegate_gateway::ingest::{Ingest, IngestOptions};
use tidegate_gateway::outputs::{OutputLimits, OutputLog, OutputSink};
use tidegate_record::{BatchBuilder, NewRecord};
use tidegate_state::{FileIngestLog, IngestLimits, MemoryDisk};
use tokio::sync::watch;

/// However slow a machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn log(disk: &MemoryDisk) -> Arc<FileIngestLog> {
    let limits = IngestLimits {
        bytes: 64 << 10,
        segment: 1 << 10,
        ..IngestLimits::default()
    };
    let directory = Path::new("/state/ingest/orders");
    Arc::new(FileIngestLog::open(Arc::new(disk.clone()), directory, limits).unwrap())
}

pub(crate) fn options(log: Arc<dyn IngestLog>) -> IngestOptions {
    IngestOptions {
        source: "orders".into(),
        log,
        decoder: DecoderOptions {
            max_record: 1000,
            ..DecoderOptions::default()
        },
        key_header: Some(HeaderName::from_static("x-key")),
        headers: vec![HeaderName::from_static("traceparent")],
        max_records: 5,
        max_body: 8000,
    }
}

pub(crate) fn ingest(disk: &MemoryDisk) -> (Ingest, Arc<FileIngestLog>) {
    let log = log(disk);
    (Ingest::new([options(log.clone())]), log)
}

/// A request of somebody who stays.
pub(crate) fn asked(
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> (Asked, watch::Sender<bool>) {
    let (leave, gone) = Gone::new();
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let asked = Asked {
        id: "request-1".into(),
        method,
        path: path.into(),
        query,
        headers: map,
        body: body.into(),
        who: ada(),
        under_way: None,
        gone,
        trace: None,
    };
    (asked, leave)
}

/// Status, headers and JSON body of a whole answer.
pub(crate) fn whole(answered: Answered) -> (StatusCode, Vec<(HeaderName, HeaderValue)>, Value) {
    let Content::Whole { media_type, bytes } = answered.content else {
        panic!("{answered:?}");
    };
    assert_eq!(media_type, "application/json");
    let body = serde_json::from_slice(&bytes).unwrap();
    (answered.status, answered.headers, body)
}

/// An output, and a worker's sink of it.
pub(crate) fn output(limits: OutputLimits) -> (Arc<OutputLog>, OutputSink) {
    let log = OutputLog::new(limits).unwrap();
    let encoder = Encoder::new(EncoderOptions::default()).unwrap();
    let sink = OutputSink::new(log.clone(), encoder).unwrap();
    (log, sink)
}

/// Collects `{"n": N}` for each, and flushes.
pub(crate) fn show(sink: &mut OutputSink, numbers: std::ops::Range<u64>) {
    write(sink, numbers);
    sink.flush().unwrap();
}

pub(crate) fn write(sink: &mut OutputSink, numbers: std::ops::Range<u64>) {
    let mut batch = BatchBuilder::default();
    for number in numbers {
        let value = format!("{{\"n\":{number}}}");
        let record = NewRecord {
            value: Some(value.as_bytes()),
            ..NewRecord::default()
        };
        batch.push(&record).unwrap();
    }
    for record in batch.finish(0).view().records() {
        sink.write(record.public(), HostHeaders::default()).unwrap();
    }
}

/// Someone who may do everything.
pub(crate) fn ada() -> Who {
    let mut who = Who::anyone();
    who.name = "ada".into();
    who
}
