//! A request's trace, as a collector of OpenTelemetry has it.

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use tidegate_tests::collector::{Collector, Does, attribute, hex};
use tidegate_tests::until;

use crate::client::{Got, PATIENCE, Served, model};
use crate::server::{Server, finish, said, usage};

const CLIENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "My order of jane.roe@example.com, a samovar, came incomplete.";

/// A pipeline that redacts, asks and answers, with a collector.
fn pipeline(collector: &Collector, model: &str, name: &str) -> String {
    format!(
        r#"
[pipeline]
name = "traced"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
[telemetry.traces]
endpoint = "{}"
sample = 0.0
[source.chat]
type = "gateway"
{model}
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["messages", "prompt"] }}
[[stage]]
name = "answer"
model = "{name}"
messages = true
max-tokens = 24
[sink.reply]
type = "gateway"
"#,
        collector.url
    )
}

/// The one span of this kind and name.
fn one<'s>(spans: &'s [Span], kind: SpanKind, name: &str) -> &'s Span {
    let kind = i32::from(kind);
    let mut found = spans
        .iter()
        .filter(|span| span.kind == kind && span.name == name);
    let only = found
        .next()
        .unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert_eq!(found.next(), None, "{name}");
    only
}

fn ask(served: &Served, model: &str, stream: bool, headers: &[(&str, &str)]) -> Got {
    let asked = json!({"model": model, "stream": stream, "max_tokens": 5,
        "messages": [{"role": "user", "content": SECRET}]});
    let json = [("content-type", "application/json")];
    let headers = [&json[..], headers].concat();
    served.send("POST", "/v1/chat/completions", &headers, &asked.to_string())
}

/// What the collector has, as soon as these spans are there: two of one name and different kinds may come apart.
fn told(collector: &Collector, awaited: &[(SpanKind, &str)]) -> Vec<Span> {
    until("all spans are told", PATIENCE, || {
        let spans = collector.spans();
        awaited.iter().all(|(kind, name)| {
            let kind = i32::from(*kind);
            spans
                .iter()
                .any(|span| span.kind == kind && span.name == *name)
        })
    });
    collector.spans()
}

#[test]
fn a_request_is_one_trace_from_its_client_over_operator_and_model_to_its_answer() {
    let collector = Collector::start(Does::Take);
    let served = Served::start(&pipeline(&collector, &model(), "support"));
    let got = ask(
        &served,
        "support",
        true,
        &[("traceparent", CLIENT), ("tracestate", "rojo=1")],
    );
    assert_eq!(got.status, 200, "{got:?}");
    // One that nobody has sampled is not recorded.
    assert_eq!(ask(&served, "support", false, &[]).status, 200);
    let awaited = [
        (SpanKind::Server, "chat support"),
        (SpanKind::Internal, "chat support"),
        (SpanKind::Internal, "process redact"),
        (SpanKind::Internal, "queue"),
        (SpanKind::Internal, "prefill"),
        (SpanKind::Internal, "answer reply"),
        (SpanKind::Internal, "cut"),
    ];
    let spans = told(&collector, &awaited);
    let request = one(&spans, SpanKind::Server, "chat support");
    assert_eq!(hex(&request.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(request.trace_state, "rojo=1");
    let operator = one(&spans, SpanKind::Internal, "process redact");
    let model = one(&spans, SpanKind::Internal, "chat support");
    let answer = one(&spans, SpanKind::Internal, "answer reply");
    let cut = one(&spans, SpanKind::Internal, "cut");
    for below in [operator, model, answer] {
        assert_eq!(below.parent_span_id, request.span_id, "{below:#?}");
    }
    for part in ["queue", "prefill"] {
        let part = one(&spans, SpanKind::Internal, part);
        assert_eq!(part.parent_span_id, model.span_id);
        assert!(
            part.start_time_unix_nano >= model.start_time_unix_nano,
            "{part:#?}"
        );
        assert!(
            part.end_time_unix_nano <= model.end_time_unix_nano,
            "{part:#?}"
        );
    }
    for span in spans.iter().filter(|span| span.name != "cut") {
        assert_eq!(
            hex(&span.trace_id),
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "{span:#?}"
        );
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    // The answer is out of the pipeline with the cut, which is another trace.
    assert_eq!(cut.links.len(), 1, "{cut:#?}");
    assert_eq!(cut.links[0].span_id, answer.span_id);
    assert_ne!(cut.trace_id, request.trace_id);
    for (span, name, value) in [
        (request, "gen_ai.operation.name", "chat"),
        (request, "gen_ai.request.model", "support"),
        (request, "gen_ai.request.stream", "true"),
        (request, "http.response.status_code", "200"),
        (request, "http.request.method", "POST"),
        (operator, "tidegate.stage", "redact"),
        (operator, "tidegate.outcome", "replace"),
        (operator, "tidegate.batch.records", "1"),
        (model, "gen_ai.operation.name", "chat"),
        (model, "gen_ai.provider.name", "tidegate"),
        (model, "gen_ai.request.model", "support"),
        (model, "gen_ai.request.max_tokens", "5"),
        (model, "gen_ai.usage.output_tokens", "5"),
        (model, "gen_ai.response.finish_reasons", "length"),
        (model, "tidegate.attempt", "1"),
    ] {
        assert_eq!(
            attribute(span, name).as_deref(),
            Some(value),
            "{name}: {span:#?}"
        );
    }
    let usage = |span| attribute(span, "gen_ai.usage.input_tokens");
    assert!(usage(model).is_some() && usage(request) == usage(model));
    assert_eq!(collector.resources()[0]["service.name"], "traced");
    // Neither what was asked nor what was answered is in any.
    let all = format!("{spans:?}");
    assert!(
        !all.contains("samovar") && !all.contains("jane.roe"),
        "{all}"
    );
}

#[test]
fn another_server_goes_on_with_the_trace_of_whoever_asked() {
    let collector = Collector::start(Does::Take);
    let server = Server::start(|asked| {
        asked.begin();
        asked.event(&said("One"));
        asked.event(&finish("stop"));
        asked.event(&usage(7, 1));
        asked.piece("data: [DONE]\n\n");
        asked.end();
    });
    let model = format!(
        "[model.big]\ntype = \"openai\"\nurl = {:?}\nmodel = \"there\"\ncontext = 4096\n",
        server.url
    );
    let served = Served::start(&pipeline(&collector, &model, "big"));
    let got = ask(&served, "big", false, &[("traceparent", CLIENT)]);
    assert_eq!(got.status, 200, "{got:?}");
    let awaited = [
        (SpanKind::Client, "chat big"),
        (SpanKind::Internal, "answer reply"),
    ];
    let spans = told(&collector, &awaited);
    let asks = one(&spans, SpanKind::Client, "chat big");
    let (trace, span) = (hex(&asks.trace_id), hex(&asks.span_id));
    let head = server.head(0).to_ascii_lowercase();
    assert!(
        head.contains(&format!("traceparent: 00-{trace}-{span}-01\r\n")),
        "{head}"
    );
    assert_eq!(trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(
        attribute(asks, "gen_ai.provider.name").as_deref(),
        Some("openai")
    );
    assert_eq!(
        attribute(asks, "gen_ai.usage.input_tokens").as_deref(),
        Some("7")
    );

    // What is no header of a trace is none: the request is answered, and nothing of it is told or passed on.
    let long = format!("00-{}-00f067aa0ba902b7-01", "4".repeat(6000));
    let hostile: [&[(&str, &str)]; 4] = [
        &[(
            "traceparent",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        )],
        &[("traceparent", &long)],
        &[("traceparent", CLIENT), ("traceparent", CLIENT)],
        &[("tracestate", "rojo=1")],
    ];
    for (number, headers) in (1..).zip(hostile) {
        let got = ask(&served, "big", false, headers);
        assert_eq!(got.status, 200, "{got:?}");
        let head = server.head(number).to_ascii_lowercase();
        assert!(!head.contains("trace"), "{head}");
    }
    assert_eq!(
        ask(&served, "big", false, &[("traceparent", CLIENT)]).status,
        200
    );
    until("the last request is told", PATIENCE, || {
        let client = i32::from(SpanKind::Client);
        let spans = collector.spans();
        spans.iter().filter(|span| span.kind == client).count() == 2
    });
    let spans = collector.spans();
    let requests = spans
        .iter()
        .filter(|span| span.kind == i32::from(SpanKind::Server));
    assert!(requests.count() <= 2, "{spans:#?}");
}
