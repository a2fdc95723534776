//! Traces: what became of one record or request, as spans.
//!
//! A record's spans follow from where it came from ([`Digest`]) or from what it brought ([`TraceContext`]); what follows
//! from nothing is drawn. There is no span for each token, and nothing of a prompt or an answer in any of them.

mod clock;
mod context;
mod drawn;
mod ids;
pub mod names;
mod open;
mod quota;
mod sampler;
mod span;
mod text;
mod tracer;

pub use clock::{at, nanoseconds};
pub use context::{SpanId, TRACEPARENT, TRACESTATE, TraceContext, TraceId, came_with};
pub use ids::Digest;
pub use open::OpenSpan;
pub use quota::Quota;
pub use sampler::Sampler;
pub use span::{MOST_LINKS, Span, SpanKind, Value};
pub use text::Text;
pub use tracer::{Room, SpanCounts, SpanQueue, Tracer};
