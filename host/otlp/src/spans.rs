//! Spans as OpenTelemetry's messages, and what a collector says of them.
//!
//! Numbers of fields are those of OpenTelemetry's `trace.proto` and `common.proto`; a test holds what is written against
//! the messages of its crate.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::trace::v1::{span, status};
use prost::Message as _;
use tidegate_telemetry::trace::{Span, SpanKind, TraceContext, Value};

use crate::options::{Resource, scope};
use crate::wire::Message;

/// Bytes that most spans have room in.
const USUAL: usize = 640;

/// A message with these spans.
pub(crate) fn message(resource: &Resource, spans: &[Span]) -> Bytes {
    let mut request = Message::with_capacity(1024 + spans.len() * USUAL);
    request.nested(1, |of_resource| {
        of_resource.bytes_always(1, &resource.message().encode_to_vec());
        of_resource.nested(2, |of_scope| {
            of_scope.bytes_always(1, &scope().encode_to_vec());
            for one in spans {
                of_scope.nested(2, |message| write(one, message));
            }
        });
    });
    request.finish().into()
}

/// How many of them a collector that took the message says it has refused, and why.
pub(crate) fn refused(answer: &[u8]) -> Option<(u64, String)> {
    let answer = ExportTraceServiceResponse::decode(answer).ok()?;
    let partial = answer.partial_success?;
    let refused = u64::try_from(partial.rejected_spans).ok()?;
    (refused > 0).then_some((refused, partial.error_message))
}

fn write(from: &Span, to: &mut Message) {
    let (links, left_out) = from.links();
    to.bytes(1, &from.context.trace.bytes());
    to.bytes(2, &from.context.span.bytes());
    to.bytes(3, from.state.as_bytes());
    if let Some(parent) = from.parent {
        to.bytes(4, &parent.bytes());
    }
    to.bytes(5, from.name().as_bytes());
    to.number(6, kind(from.kind) as u64);
    to.fixed64(7, from.start);
    to.fixed64(8, from.end);
    for (name, value) in from.attributes() {
        to.nested(9, |attribute| {
            attribute.bytes(1, name.as_bytes());
            attribute.nested(2, |any| write_value(value, any));
        });
    }
    for one in links {
        to.nested(13, |message| write_link(one, message));
    }
    to.number(14, u64::from(left_out));
    if let Some(why) = from.error() {
        to.nested(15, |message| {
            message.bytes(2, why.as_bytes());
            message.number(3, status::StatusCode::Error as u64);
        });
    }
    to.fixed32(16, u32::from(from.context.flags()));
}

fn kind(of: SpanKind) -> span::SpanKind {
    match of {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
        SpanKind::Producer => span::SpanKind::Producer,
        SpanKind::Consumer => span::SpanKind::Consumer,
    }
}

fn write_link(one: &TraceContext, to: &mut Message) {
    to.bytes(1, &one.trace.bytes());
    to.bytes(2, &one.span.bytes());
    to.fixed32(6, u32::from(one.flags()));
}

fn write_value(value: &Value, to: &mut Message) {
    match value {
        Value::Text(text) => to.bytes_always(1, text.as_bytes()),
        Value::Flag(flag) => to.always(2, u64::from(*flag)),
        // As protobuf has it: a negative number is the large one of the same bits.
        Value::Number(number) => to.always(3, number.cast_unsigned()),
        Value::Texts(several) => to.nested(5, |array| {
            for one in several {
                array.nested(1, |any| any.bytes_always(1, one.as_bytes()));
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, any_value};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Crate, Status};
    use tidegate_telemetry::trace::{SpanId, TraceId};

    use super::*;
    use crate::options::attribute;

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

    /// The span as the crate has it.
    fn of_crate(from: &Span) -> Crate {
        let (links, left_out) = from.links();
        Crate {
            trace_id: from.context.trace.bytes().to_vec(),
            span_id: from.context.span.bytes().to_vec(),
            trace_state: from.state.clone(),
            parent_span_id: from
                .parent
                .map_or(Vec::new(), |parent| parent.bytes().to_vec()),
            flags: u32::from(from.context.flags()),
            name: from.name().to_owned(),
            kind: kind(from.kind).into(),
            start_time_unix_nano: from.start,
            end_time_unix_nano: from.end,
            attributes: from.attributes().iter().map(named).collect(),
            links: (links.iter())
                .map(|to| span::Link {
                    trace_id: to.trace.bytes().to_vec(),
                    span_id: to.span.bytes().to_vec(),
                    flags: u32::from(to.flags()),
                    ..span::Link::default()
                })
                .collect(),
            dropped_links_count: left_out,
            status: from.error().map(|why| Status {
                message: why.to_owned(),
                code: status::StatusCode::Error.into(),
            }),
            ..Crate::default()
        }
    }

    fn context(number: u8) -> TraceContext {
        TraceContext {
            trace: TraceId::new([number; 16]).unwrap(),
            span: SpanId::new([number; 8]).unwrap(),
            sampled: true,
            random: number.is_multiple_of(2),
        }
    }

    #[test]
    fn what_is_written_is_what_the_messages_of_opentelemetrys_crate_are() {
        let plain = Span::new(context(1), None, SpanKind::Internal, "");
        let mut full = Span::new(
            context(2),
            Some(context(3).span),
            SpanKind::Consumer,
            "receive a topic",
        )
        .with("empty", "")
        .with("text", "a text".to_owned())
        .with("long", "y".repeat(200))
        .with("no", false)
        .with("yes", true)
        .with("zero", 0_i64)
        .with("negative", -7_i64)
        .with("large", i64::MAX)
        .with("none", Value::Texts(Vec::new()))
        .with(
            "several",
            Value::Texts(vec!["".into(), "x".repeat(200).into()]),
        );
        full.state = "a=1".to_owned();
        full.fail("refused");
        for number in 1..=200 {
            full.link(context(number));
        }
        let spans = [plain, full];
        let resource = Resource::of("tests", "here");
        let written = message(&resource, &spans);
        let expected = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource.message()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans: spans.iter().map(of_crate).collect(),
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        };
        assert_eq!(
            ExportTraceServiceRequest::decode(written.clone()).unwrap(),
            expected
        );
        assert_eq!(written, expected.encode_to_vec(), "byte for byte");
    }
}
