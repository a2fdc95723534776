//! Spans as OpenTelemetry's messages, and what a collector says of them.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as Message, Status, span, status,
};
use prost::Message as _;
use tidegate_telemetry::trace::{Span, SpanKind, TraceContext, Value};

use crate::options::{Resource, attribute, scope};

/// Flags of W3C: sampled, and a trace id that is random.
const FLAGS: u32 = 3;

/// A message with these spans.
pub(crate) fn message(resource: &Resource, spans: &[Span]) -> Bytes {
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.message()),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope()),
                spans: spans.iter().map(one).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    request.encode_to_vec().into()
}

/// How many of them a collector that took the message says it has refused, and why.
pub(crate) fn refused(answer: &[u8]) -> Option<(u64, String)> {
    let answer = ExportTraceServiceResponse::decode(answer).ok()?;
    let partial = answer.partial_success?;
    let refused = u64::try_from(partial.rejected_spans).ok()?;
    (refused > 0).then_some((refused, partial.error_message))
}

fn one(from: &Span) -> Message {
    let (links, left_out) = from.links();
    Message {
        trace_id: from.context.trace.bytes().to_vec(),
        span_id: from.context.span.bytes().to_vec(),
        trace_state: from.state.clone(),
        parent_span_id: from
            .parent
            .map_or(Vec::new(), |parent| parent.bytes().to_vec()),
        flags: FLAGS,
        name: from.name().to_owned(),
        kind: match from.kind {
            SpanKind::Internal => span::SpanKind::Internal,
            SpanKind::Server => span::SpanKind::Server,
            SpanKind::Client => span::SpanKind::Client,
            SpanKind::Producer => span::SpanKind::Producer,
            SpanKind::Consumer => span::SpanKind::Consumer,
        }
        .into(),
        start_time_unix_nano: from.start,
        end_time_unix_nano: from.end,
        attributes: from.attributes().iter().map(named).collect(),
        links: links.iter().map(link).collect(),
        dropped_links_count: left_out,
        status: from.error().map(|why| Status {
            message: why.to_owned(),
            code: status::StatusCode::Error.into(),
        }),
        ..Message::default()
    }
}

fn link(to: &TraceContext) -> span::Link {
    span::Link {
        trace_id: to.trace.bytes().to_vec(),
        span_id: to.span.bytes().to_vec(),
        flags: FLAGS,
        ..span::Link::default()
    }
}

fn named((name, value): &(&'static str, Value)) -> KeyValue {
    let text = |text: &str| any_value::Value::StringValue(text.to_owned());
    let value = match value {
        Value::Text(one) => text(one),
        Value::Number(number) => any_value::Value::IntValue(*number),
        Value::Flag(flag) => any_value::Value::BoolValue(*flag),
        Value::Texts(several) => any_value::Value::ArrayValue(ArrayValue {
            values: (several.iter())
                .map(|one| AnyValue {
                    value: Some(text(one)),
                })
                .collect(),
        }),
    };
    attribute(name, value)
}
