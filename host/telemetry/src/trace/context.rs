//! Trace contexts as W3C's Trace Context (level 2) has them: `traceparent` and `tracestate`.
//!
//! What is read comes from outside. A header that is not exactly of its form is none: nothing of it is repaired, kept or
//! told, and the record that came with it is not changed.

use std::fmt;

/// The header that names a trace and a span of it.
pub const TRACEPARENT: &str = "traceparent";
/// The header that other tracing systems keep what is theirs in.
pub const TRACESTATE: &str = "tracestate";

/// Bytes of a `traceparent` of version 0.
const LENGTH: usize = 55;
/// Most bytes of a `traceparent` of a later version, which may have more at its end.
const LONGEST: usize = 256;
/// The flags that have a meaning.
const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;
/// Most bytes of a `tracestate` that is passed on, and most members: W3C's own figures.
const LONGEST_STATE: usize = 512;
const MOST_MEMBERS: usize = 32;

/// A trace: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// A span of a trace: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// That of these bytes; none if all are zero.
    pub fn new(bytes: [u8; 16]) -> Option<TraceId> {
        (bytes != [0; 16]).then_some(TraceId(bytes))
    }

    /// That of this number; of zero it is one.
    pub(crate) fn of(number: u128) -> TraceId {
        TraceId(number.max(1).to_be_bytes())
    }

    /// Its bytes, as they go over the wire.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The part of it that is random by W3C's rule: 56 bits.
    pub(crate) fn randomness(self) -> u64 {
        (u128::from_be_bytes(self.0) as u64) & ((1 << 56) - 1)
    }
}

impl SpanId {
    /// That of these bytes; none if all are zero.
    pub fn new(bytes: [u8; 8]) -> Option<SpanId> {
        (bytes != [0; 8]).then_some(SpanId(bytes))
    }

    /// That of this number; of zero it is one.
    pub(crate) fn of(number: u64) -> SpanId {
        SpanId(number.max(1).to_be_bytes())
    }

    /// Its bytes, as they go over the wire.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A span as others name it: what a `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span of it that is meant.
    pub span: SpanId,
    /// Whether whoever made that span has it recorded.
    pub sampled: bool,
    /// Whether whoever made the trace's id says that it is random, by which others may sample. It goes on as it came: the
    /// ids of some have a time in them. Of ids that follow from a record it is not said.
    pub random: bool,
}

impl TraceContext {
    /// What a header says; none if it is not exactly of its form.
    pub fn parse(header: &[u8]) -> Option<TraceContext> {
        let version = hex::<1>(header.get(..2)?)?[0];
        let fits = match version {
            0 => header.len() == LENGTH,
            0xff => false,
            // A later version begins like this one, and may go on.
            _ => header.len() <= LONGEST && header.get(LENGTH).is_none_or(|next| *next == b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|at| header.get(*at) == Some(&b'-'));
        if !fits || !dashes {
            return None;
        }
        let flags = hex::<1>(header.get(53..LENGTH)?)?[0];
        Some(TraceContext {
            trace: TraceId::new(hex(header.get(3..35)?)?)?,
            span: SpanId::new(hex(header.get(36..52)?)?)?,
            sampled: flags & SAMPLED != 0,
            random: flags & RANDOM != 0,
        })
    }

    /// Its flags, as W3C numbers them: those that have a meaning.
    pub fn flags(&self) -> u8 {
        (u8::from(self.sampled) * SAMPLED) | (u8::from(self.random) * RANDOM)
    }

    /// The header that says it.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, self.flags())
    }
}

/// What comes with a record or a request: where its trace goes on, and what other systems keep with it, as it may be passed
/// on. None if `traceparent` is missing, comes twice or is not of its form; without it `tracestate` says nothing. Several
/// lines of that are one, as W3C has it.
pub fn came_with<'a>(
    headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> Option<(TraceContext, String)> {
    let mut parent = None;
    let mut states: Vec<&[u8]> = Vec::new();
    for (name, value) in headers {
        match name {
            TRACEPARENT if parent.is_some() => return None,
            TRACEPARENT => parent = Some(value),
            // More than may be passed on is not kept, and one more is enough to know it.
            TRACESTATE if states.len() <= MOST_MEMBERS => states.extend(value),
            _ => {}
        }
    }
    let context = TraceContext::parse(parent??)?;
    Some((context, joined(&states)))
}

/// Several lines of `tracestate` as one; empty if it is more, or of another form, than may be passed on.
fn joined(states: &[&[u8]]) -> String {
    let bytes: usize = states.iter().map(|state| state.len() + 1).sum();
    if bytes > LONGEST_STATE + 1 {
        return String::new();
    }
    let whole = states.join(&b',');
    trace_state(&whole).unwrap_or_default().to_owned()
}

/// A `tracestate` that may be passed on; none if it is longer, or of another form, than W3C allows.
fn trace_state(header: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(header).ok()?;
    let is_text = header.iter().all(|byte| (0x20..0x7f).contains(byte));
    if header.len() > LONGEST_STATE || !is_text {
        return None;
    }
    let mut members = text.split(',').map(str::trim).filter(|one| !one.is_empty());
    let named = |member: &str| matches!(member.find('='), Some(at) if at > 0);
    (members.clone().count() <= MOST_MEMBERS && members.all(named)).then_some(text)
}

/// Bytes of lower-case hexadecimal digits.
fn hex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written_as_w3c_has_it() {
        let context = TraceContext::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(
            context.trace.to_string(),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
        assert_eq!(context.span.to_string(), "00f067aa0ba902b7");
        assert!(context.sampled);
        assert_eq!(context.traceparent(), GOOD);
        let unsampled = GOOD.replace("-01", "-00");
        assert!(!TraceContext::parse(unsampled.as_bytes()).unwrap().sampled);
        let unknown_flags = GOOD.replace("-01", "-fd");
        assert!(
            TraceContext::parse(unknown_flags.as_bytes())
                .unwrap()
                .sampled
        );
    }

    #[test]
    fn flags_go_on_as_they_came_and_nothing_is_said_of_an_id_that_another_made() {
        for (came, goes_on) in [
            ("00", "00"),
            ("01", "01"),
            ("02", "02"),
            ("03", "03"),
            ("fd", "01"),
        ] {
            let header = GOOD.replace("-01", &format!("-{came}"));
            let context = TraceContext::parse(header.as_bytes()).unwrap();
            let expected = GOOD.replace("-01", &format!("-{goes_on}"));
            assert_eq!(context.traceparent(), expected, "{came}");
        }
    }

    #[test]
    fn a_tracestate_is_read_only_with_a_traceparent_and_several_lines_are_one() {
        type Headers<'h> = &'h [(&'h str, &'h str)];
        let read = |headers: Headers<'_>| {
            came_with(
                headers
                    .iter()
                    .map(|(name, value)| (*name, Some(value.as_bytes()))),
            )
        };
        let (parent, state) = (("traceparent", GOOD), ("tracestate", "a=1"));
        let context = TraceContext::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(read(&[state, parent]), Some((context, "a=1".into())));
        let both = [state, parent, ("other", "x"), ("tracestate", "b=2,c=3")];
        assert_eq!(read(&both), Some((context, "a=1,b=2,c=3".into())));
        // What may not be passed on is left out, and the trace goes on.
        for wrong in ["nothing", &"a=1,".repeat(40), &"a=".repeat(300)] {
            let headers = [parent, ("tracestate", wrong), state];
            assert_eq!(read(&headers), Some((context, String::new())), "{wrong}");
        }
        let many = vec![state; 1000];
        let many: Vec<_> = many.into_iter().chain([parent]).collect();
        assert_eq!(read(&many), Some((context, String::new())));
        let none: [Headers<'_>; 4] = [
            &[],
            &[state],
            &[state, ("traceparent", "00-zz")],
            &[state, parent, parent],
        ];
        for headers in none {
            assert_eq!(read(headers), None, "{headers:?}");
        }
        let null = [("traceparent", None), ("tracestate", Some(&b"a=1"[..]))];
        assert_eq!(came_with(null.into_iter()), None);
    }

    #[test]
    fn a_later_version_is_read_by_what_it_begins_with() {
        for later in [
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-has",
        ] {
            assert!(TraceContext::parse(later.as_bytes()).is_some(), "{later}");
        }
    }

    #[test]
    fn whatever_is_not_exactly_of_the_form_is_no_context() {
        let long = format!("01{}-{}", &GOOD[2..], "x".repeat(300));
        let hostile = [
            "",
            "00",
            "00-",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "00-4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b7--01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
            "00-4bf92f3577b34da6a3ce929d0e0e473\u{661}-00f067aa0ba902b7-1",
            &long,
        ];
        for header in hostile {
            assert_eq!(TraceContext::parse(header.as_bytes()), None, "{header}");
        }
        assert_eq!(TraceContext::parse(&[0xff; 55]), None);
    }

    #[test]
    fn a_tracestate_has_an_end() {
        assert_eq!(
            trace_state(b"rojo=00f067aa,congo=t61"),
            Some("rojo=00f067aa,congo=t61")
        );
        let members = |many: usize| vec!["a=1"; many].join(",");
        assert!(trace_state(members(32).as_bytes()).is_some());
        assert_eq!(trace_state(members(33).as_bytes()), None);
        assert_eq!(
            trace_state(format!("a={}", "x".repeat(511)).as_bytes()),
            None
        );
        for wrong in ["=1", "nothing", "a=\n", "a=\u{e9}"] {
            assert_eq!(trace_state(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
