//! Spans: plain values, bounded in everything.

use std::time::{Instant, SystemTime};

use super::clock::{at, nanoseconds};
use super::context::{SpanId, TraceContext};
use super::text::{LONGEST_TEXT, Text};
use crate::plain::plain;

/// Most attributes of a span; more are left out.
const MOST_ATTRIBUTES: usize = 32;
/// Most links of a span; more are counted.
pub const MOST_LINKS: usize = 128;
/// Most texts of one attribute.
const MOST_TEXTS: usize = 16;
/// Attributes that most spans have room for without growing.
const USUAL_ATTRIBUTES: usize = 12;

/// On which side of what it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// Within this process.
    Internal,
    /// It answers somebody.
    Server,
    /// It asks somebody.
    Client,
    /// It sends what others receive later.
    Producer,
    /// It receives what others have sent.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(Text),
    /// Several.
    Texts(Vec<Text>),
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text.into())
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Value {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Value {
                Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
    )*};
}

numbers!(u16, u32, u64, usize, i64);

impl Value {
    /// No longer than a span may hold.
    fn bounded(self) -> Value {
        match self {
            Value::Text(text) => Value::Text(text.bounded()),
            Value::Texts(mut texts) => {
                texts.truncate(MOST_TEXTS);
                Value::Texts(texts.into_iter().map(Text::bounded).collect())
            }
            other => other,
        }
    }
}

/// Something that took time, and is part of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its trace and its own id.
    pub context: TraceContext,
    /// The span that it is a part of, if it has one; maybe another process's.
    pub parent: Option<SpanId>,
    /// What other tracing systems keep with the trace: checked, or empty.
    pub state: String,
    name: Text,
    /// On which side of what it was made.
    pub kind: SpanKind,
    /// Nanoseconds since the Unix epoch.
    pub start: u64,
    /// The same; not before the start.
    pub end: u64,
    attributes: Vec<(&'static str, Value)>,
    links: Vec<TraceContext>,
    links_left_out: u32,
    error: Option<String>,
}

impl Span {
    /// A span of a trace, below one of its spans or at its root. It begins and ends now.
    pub fn new(
        context: TraceContext,
        parent: Option<SpanId>,
        kind: SpanKind,
        name: impl Into<Text>,
    ) -> Span {
        let now = nanoseconds(SystemTime::now());
        Span {
            start: now,
            end: now,
            ..Span::untimed(context, parent, kind, name)
        }
    }

    /// The same without a time: for one whose time is told with [`Span::lasting`] before it goes anywhere.
    pub fn untimed(
        context: TraceContext,
        parent: Option<SpanId>,
        kind: SpanKind,
        name: impl Into<Text>,
    ) -> Span {
        Span {
            context,
            parent,
            state: String::new(),
            name: name.into().bounded(),
            kind,
            start: 0,
            end: 0,
            attributes: Vec::with_capacity(USUAL_ATTRIBUTES),
            links: Vec::new(),
            links_left_out: 0,
            error: None,
        }
    }

    /// With the time from one instant to another.
    #[must_use]
    pub fn lasting(mut self, start: Instant, end: Instant) -> Span {
        (self.start, self.end) = (at(start), at(end));
        self.end = self.end.max(self.start);
        self
    }

    /// It ends later than it did.
    #[must_use]
    pub fn ending(mut self, end: Instant) -> Span {
        self.end = at(end).max(self.end);
        self
    }

    /// With an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Span {
        self.set(name, value);
        self
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into().bounded();
        if let Some((_, place)) = self.attributes.iter_mut().find(|(known, _)| *known == name) {
            *place = value;
        } else if self.attributes.len() < MOST_ATTRIBUTES {
            self.attributes.push((name, value));
        }
    }

    /// Gives it another name.
    pub fn rename(&mut self, name: String) {
        self.name = Text::from(name).bounded();
    }

    /// Links it to another span.
    pub fn link(&mut self, to: TraceContext) {
        match self.links.len() < MOST_LINKS {
            true => self.links.push(to),
            false => self.links_left_out = self.links_left_out.saturating_add(1),
        }
    }

    /// There is so much more that it would be linked to.
    pub fn leave_out_links(&mut self, more: usize) {
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.links_left_out = self.links_left_out.saturating_add(more);
    }

    /// It has failed, in this way: a word for a kind of failure, and nothing of a record.
    pub fn fail(&mut self, kind: &str) {
        self.error = Some(plain(kind, LONGEST_TEXT).into_owned());
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its attributes; each name once.
    pub fn attributes(&self) -> &[(&'static str, Value)] {
        &self.attributes
    }

    /// What it is linked to, and to how much more it would be.
    pub fn links(&self) -> (&[TraceContext], u32) {
        (&self.links, self.links_left_out)
    }

    /// In which way it has failed, if it has.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::Digest;

    fn context(number: u64) -> TraceContext {
        let digest = Digest::default().with(number);
        TraceContext {
            trace: digest.trace_at(0),
            span: digest.span(),
            sampled: true,
            random: true,
        }
    }

    #[test]
    fn a_span_is_bounded_in_everything() {
        let mut span = Span::new(context(0), None, SpanKind::Internal, "n".repeat(5000));
        span.set("text", "x\u{7}".repeat(5000));
        span.set("texts", Value::Texts(vec!["y".repeat(5000).into(); 500]));
        for _ in 0..100 {
            span.set("again", 1u64);
        }
        for number in 0..1000 {
            span.link(context(number));
        }
        span.leave_out_links(3);
        span.fail(&"why".repeat(1000));
        assert!(span.name().len() <= 512, "{}", span.name().len());
        assert_eq!(span.attributes().len(), 3);
        for (name, value) in span.attributes() {
            match value {
                Value::Text(text) => {
                    assert!(text.len() <= 512 && !text.contains('\u{7}'), "{name}")
                }
                Value::Texts(texts) => assert!(texts.len() <= 16),
                _ => {}
            }
        }
        let (links, left_out) = span.links();
        assert_eq!((links.len(), left_out), (128, 1000 - 128 + 3));
        assert!(span.error().is_some_and(|error| error.len() <= 512));
    }

    #[test]
    fn a_span_ends_no_earlier_than_it_begins() {
        let now = Instant::now();
        let span = Span::new(context(0), None, SpanKind::Internal, "late");
        let span = span.lasting(now + Duration::from_secs(1), now);
        assert_eq!(span.start, span.end);
        let began = at(now);
        assert!(at(now + Duration::from_secs(1)) > began);
    }
}
