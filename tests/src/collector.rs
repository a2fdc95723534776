//! A collector of OpenTelemetry, of the tests' own: it keeps what it is told, and answers as it is made to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// What it does with what it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Does {
    /// Takes it.
    Take,
    /// Takes it but for so many spans of each message.
    Refuse(i64),
    /// Answers with this status.
    Answer(u16),
    /// Says nothing until it does something else.
    Stall,
    /// Ends the connection in the middle of its answer.
    BreakOff,
}

/// The collector. It ends with the process.
pub struct Collector {
    /// Where it listens.
    pub url: String,
    kept: Arc<Kept>,
}

struct Kept {
    does: Mutex<Does>,
    changed: Condvar,
    spans: Mutex<Vec<Span>>,
    resources: Mutex<Vec<BTreeMap<String, String>>>,
    metrics: Mutex<Vec<Metric>>,
    heads: Mutex<Vec<String>>,
}

impl Collector {
    /// One that listens.
    pub fn start(does: Does) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let kept = Arc::new(Kept {
            does: Mutex::new(does),
            changed: Condvar::new(),
            spans: Mutex::default(),
            resources: Mutex::default(),
            metrics: Mutex::default(),
            heads: Mutex::default(),
        });
        let keeps = kept.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = keeps.clone();
                // A connection that breaks is the other's affair.
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
        Collector { url, kept }
    }

    /// Does something else from now on, also with what waits for an answer.
    pub fn does(&self, does: Does) {
        *self.kept.does.lock().expect("no panic") = does;
        self.kept.changed.notify_all();
    }

    /// The spans that it has taken.
    pub fn spans(&self) -> Vec<Span> {
        self.kept.spans.lock().expect("no panic").clone()
    }

    /// The attributes of whoever has told it something, a message each.
    pub fn resources(&self) -> Vec<BTreeMap<String, String>> {
        self.kept.resources.lock().expect("no panic").clone()
    }

    /// The metrics that it has taken, oldest first.
    pub fn metrics(&self) -> Vec<Metric> {
        self.kept.metrics.lock().expect("no panic").clone()
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.kept.heads.lock().expect("no panic").clone()
    }
}

/// An attribute of a span as text; none if it has none.
pub fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key == name)?;
    Some(text(found.value.as_ref()?.value.as_ref()?))
}

fn text(value: &Value) -> String {
    match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        Value::ArrayValue(list) => {
            let texts = list.values.iter().filter_map(|one| one.value.as_ref());
            texts.map(text).collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serve(stream: TcpStream, kept: &Kept) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let is_metrics = head.starts_with("POST /v1/metrics ");
        kept.heads.lock().expect("no panic").push(head);
        let mut does = kept.does.lock().expect("no panic");
        while *does == Does::Stall {
            does = kept
                .changed
                .wait_timeout(does, Duration::from_secs(600))
                .expect("no panic")
                .0;
        }
        let does = *does;
        let (status, answer) = match does {
            Does::Answer(status) => (status, Vec::new()),
            Does::Take | Does::Stall if is_metrics => (200, keep_metrics(kept, &body)),
            Does::Take | Does::Stall | Does::BreakOff => (200, keep(kept, &body, 0)),
            Does::Refuse(few) => (200, keep(kept, &body, few)),
        };
        let mut stream = reader.get_ref();
        let length = match does {
            Does::BreakOff => answer.len() + 10,
            _ => answer.len(),
        };
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&answer).ok()?;
        if does == Does::BreakOff {
            return None;
        }
    }
}

fn keep(kept: &Kept, body: &[u8], refused: i64) -> Vec<u8> {
    let told = ExportTraceServiceRequest::decode(body).expect("OTLP");
    let mut spans = kept.spans.lock().expect("no panic");
    let mut resources = kept.resources.lock().expect("no panic");
    for of in told.resource_spans {
        let attributes = of.resource.unwrap_or_default().attributes;
        let named = attributes.into_iter().filter_map(|one| {
            let value = one.value?.value?;
            Some((one.key, text(&value)))
        });
        resources.push(named.collect());
        let told: Vec<Span> = of.scope_spans.into_iter().flat_map(|of| of.spans).collect();
        let taken = told.len().saturating_sub(refused as usize);
        spans.extend(told.into_iter().take(taken));
    }
    let partial = ExportTracePartialSuccess {
        rejected_spans: refused,
        error_message: "not these".to_owned(),
    };
    ExportTraceServiceResponse {
        partial_success: (refused > 0).then_some(partial),
    }
    .encode_to_vec()
}

fn keep_metrics(kept: &Kept, body: &[u8]) -> Vec<u8> {
    let told = ExportMetricsServiceRequest::decode(body).expect("OTLP");
    let of = told.resource_metrics.into_iter();
    let scopes = of.flat_map(|of| of.scope_metrics);
    let metrics = scopes.flat_map(|of| of.metrics);
    kept.metrics.lock().expect("no panic").extend(metrics);
    Vec::new()
}
