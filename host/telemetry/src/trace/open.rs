//! A span of something that several have a part in, and of which nobody knows who is the last.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::clock::nanoseconds;
use super::context::TraceContext;
use super::span::{Span, Value};
use super::tracer::Tracer;

/// A span that has begun. A copy is the same; it ends when the last one is dropped.
#[derive(Clone)]
pub struct OpenSpan(Arc<Inner>);

struct Inner {
    tracer: Tracer,
    context: TraceContext,
    span: Mutex<Option<Span>>,
}

impl fmt::Debug for OpenSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenSpan").field(&self.0.context).finish()
    }
}

impl OpenSpan {
    /// Goes to this tracer when it has ended.
    pub fn new(tracer: Tracer, span: Span) -> OpenSpan {
        OpenSpan(Arc::new(Inner {
            tracer,
            context: span.context,
            span: Mutex::new(Some(span)),
        }))
    }

    /// Its trace and its id.
    pub fn context(&self) -> TraceContext {
        self.0.context
    }

    /// Sets an attribute.
    pub fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.change(|span| span.set(name, value));
    }

    /// Changes it.
    pub fn change(&self, change: impl FnOnce(&mut Span)) {
        let mut span = self.0.span.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(span) = span.as_mut() {
            change(span);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let span = self.span.get_mut();
        if let Some(mut span) = span.unwrap_or_else(PoisonError::into_inner).take() {
            span.end = nanoseconds(SystemTime::now()).max(span.start);
            self.tracer.record(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Sampler, SpanKind};

    #[test]
    fn it_ends_once_with_the_last_who_has_it() {
        let (tracer, queue) = Tracer::new(Sampler::new(1.0), 8);
        let context = tracer.begin(None).unwrap();
        let span = Span::new(context, None, SpanKind::Server, "asked");
        let open = OpenSpan::new(tracer.clone(), span);
        let other = open.clone();
        drop(open);
        let mut ended = Vec::new();
        queue.take(&mut ended, 8);
        assert_eq!(ended, []);
        other.set("said", "later");
        other.change(|span| span.rename("answered".to_owned()));
        drop(other);
        queue.take(&mut ended, 8);
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].name(), "answered");
        assert_eq!(ended[0].attributes(), [("said", Value::from("later"))]);
    }
}
