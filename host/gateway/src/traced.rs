//! A request as a span, and what its records go on with.

use std::borrow::Cow;

use hyper::{HeaderMap, StatusCode};
use tidegate_contract::Finish;
use tidegate_telemetry::trace::{
    OpenSpan, Span, SpanKind, TRACEPARENT, TRACESTATE, TraceContext, TraceId, Tracer, Value,
    came_with, names,
};

use crate::exchange::CLIENT_GONE;

/// The trace of a request: one that is recorded, or one that is not, of which everybody who follows is told so.
#[derive(Clone, Debug)]
pub struct Trace {
    context: TraceContext,
    /// `tracestate` as the client has it.
    state: String,
    /// Ends with the last byte of the answer.
    span: Option<OpenSpan>,
}

impl Trace {
    /// The trace of a request with these headers: the client's, or one that begins here. None if nothing is traced.
    pub(crate) fn begin(
        tracer: &Tracer,
        headers: &HeaderMap,
        method: &str,
        endpoint: &'static str,
    ) -> Option<Trace> {
        if !tracer.is_on() {
            return None;
        }
        let named = headers.iter();
        let came = came_with(named.map(|(name, value)| (name.as_str(), Some(value.as_bytes()))));
        let (client, state) = came.unzip();
        let state: String = state.unwrap_or_default();
        let context = tracer.begin_request(client.as_ref())?;
        if !context.sampled {
            // Whoever follows is told the client's span: there is none of this process. What begins here and is left out is
            // so everywhere: nobody draws for its records once more.
            return Some(Trace {
                context: TraceContext {
                    sampled: false,
                    ..client.unwrap_or(context)
                },
                state,
                span: None,
            });
        }
        let parent = client.map(|client| client.span);
        let name = format!("{method} {endpoint}");
        let mut span = Span::new(context, parent, SpanKind::Server, name)
            .with(names::HTTP_METHOD, method.to_owned())
            .with(names::HTTP_ROUTE, endpoint)
            .with(names::HTTP_STATUS, CLIENT_GONE);
        span.state.clone_from(&state);
        Some(Trace {
            context,
            state,
            span: Some(OpenSpan::new(tracer.clone(), span)),
        })
    }

    /// Its id, if it is recorded.
    pub(crate) fn id(&self) -> Option<TraceId> {
        self.span.as_ref().map(|_| self.context.trace)
    }

    /// The headers that its records have.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let state = Some(&self.state).filter(|state| !state.is_empty());
        let parent = (TRACEPARENT, Cow::Owned(self.context.traceparent()));
        [parent]
            .into_iter()
            .chain(state.map(|state| (TRACESTATE, Cow::Borrowed(state.as_str()))))
    }

    /// It asks a model that there is.
    pub(crate) fn asks(&self, operation: &'static str, model: &str, id: &str, stream: bool) {
        self.change(|span| {
            span.rename(format!("{operation} {model}"));
            span.set(names::GEN_AI_OPERATION, operation);
            span.set(names::GEN_AI_PROVIDER, names::OWN_PROVIDER);
            span.set(names::GEN_AI_REQUEST_MODEL, model.to_owned());
            span.set(names::GEN_AI_REQUEST_STREAM, stream);
            span.set(names::GEN_AI_RESPONSE_ID, id.to_owned());
        });
    }

    /// It was answered so, with so many tokens of prompt and answer.
    pub(crate) fn answered(&self, ends: impl Iterator<Item = Finish>, prompt: u64, answer: u64) {
        let ends = ends.map(|finish| finish.name().into()).collect();
        self.change(|span| {
            span.set(names::GEN_AI_FINISH_REASONS, Value::Texts(ends));
            span.set(names::GEN_AI_INPUT_TOKENS, prompt);
            span.set(names::GEN_AI_OUTPUT_TOKENS, answer);
        });
    }

    /// A stream has begun, and was broken.
    pub(crate) fn broke(&self) {
        self.change(|span| span.fail("broken"));
    }

    /// It has a status.
    pub(crate) fn has(&self, status: StatusCode) {
        self.change(|span| {
            span.set(names::HTTP_STATUS, status.as_u16());
            if status.is_server_error() {
                span.set(names::ERROR_TYPE, status.as_u16().to_string());
                span.fail("server error");
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Span)) {
        if let Some(span) = &self.span {
            span.change(change);
        }
    }
}

/// Whether a header says where a trace goes on.
pub(crate) fn is_of_trace(name: &str) -> bool {
    name == TRACEPARENT || name == TRACESTATE
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use tidegate_telemetry::trace::{Sampler, SpanQueue};

    use super::*;

    const CAME: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = of.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (hyper::header::HeaderName::from_static(name), value)
        });
        let mut headers = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn spans(queue: &SpanQueue) -> Vec<Span> {
        let mut spans = Vec::new();
        queue.take(&mut spans, 10);
        spans
    }

    #[test]
    fn a_request_goes_on_with_its_clients_trace_and_its_records_with_its_own_span() {
        let (tracer, queue) = Tracer::new(Sampler::new(0.0), 10);
        let came = headers(&[("traceparent", CAME), ("tracestate", "a=1")]);
        let trace = Trace::begin(&tracer, &came, "POST", "chat").unwrap();
        trace.asks(names::CHAT, "small", "req_1", true);
        trace.has(StatusCode::OK);
        let told: Vec<_> = trace
            .headers()
            .map(|(name, value)| (name, value.into_owned()))
            .collect();
        drop(trace);
        let span = spans(&queue).remove(0);
        assert_eq!((span.name(), span.kind), ("chat small", SpanKind::Server));
        assert_eq!(span.parent.unwrap().to_string(), "00f067aa0ba902b7");
        assert_eq!(
            told,
            [
                ("traceparent", span.context.traceparent()),
                ("tracestate", "a=1".to_owned())
            ]
        );
    }

    #[test]
    fn what_is_not_recorded_is_passed_on_and_what_is_wrong_is_not() {
        let (tracer, queue) = Tracer::new(Sampler::new(0.0), 10);
        let unsampled = CAME.replace("-01", "-00");
        let came = headers(&[("traceparent", &unsampled)]);
        let trace = Trace::begin(&tracer, &came, "POST", "chat").unwrap();
        let (_, told) = trace.headers().next().unwrap();
        let (told, came) = (
            TraceContext::parse(told.as_bytes()),
            TraceContext::parse(unsampled.as_bytes()),
        );
        assert_eq!((told, trace.id()), (came, None));
        let hostile: [&[(&'static str, &str)]; 4] = [
            &[],
            &[("traceparent", "00-zz")],
            &[("traceparent", CAME), ("traceparent", CAME)],
            &[("tracestate", "a=1")],
        ];
        for came in hostile {
            // It begins here, is left out, and so it is for its records.
            let trace = Trace::begin(&tracer, &headers(came), "POST", "chat").unwrap();
            let told: Vec<_> = trace.headers().collect();
            assert_eq!((told.len(), trace.id()), (1, None), "{told:?}");
            let told = TraceContext::parse(told[0].1.as_bytes()).unwrap();
            assert!(!told.sampled && told.random);
            assert_ne!(told.trace.to_string(), CAME[3..35]);
        }
        // One client too many is told on as what is not recorded.
        let (few, _queue) = Tracer::new(Sampler::new(0.0).forced(0), 10);
        let came = headers(&[("traceparent", CAME)]);
        let trace = Trace::begin(&few, &came, "POST", "chat").unwrap();
        let (_, told) = trace.headers().next().unwrap();
        assert_eq!((told.as_ref(), trace.id()), (unsampled.as_str(), None));
        let off = Trace::begin(
            &Tracer::default(),
            &headers(&[("traceparent", CAME)]),
            "POST",
            "chat",
        );
        assert!(off.is_none());
        assert_eq!(spans(&queue), []);
    }
}
