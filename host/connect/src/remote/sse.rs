//! Server-sent events, as tolerant as clients are: any line end, a space after the colon or none, comments, a last event
//! without a blank line. Names of events are kept, ids and retry times are not.

use memchr::memchr2;

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its lines of data.
    pub data: String,
}

/// An event is longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of its answer is longer than {limit} bytes")]
pub(crate) struct TooLong {
    limit: usize,
}

/// Makes events of bytes.
#[derive(Debug)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    first: bool,
    limit: usize,
}

impl Parser {
    /// No line and no event's data is longer than the limit.
    pub(crate) fn new(limit: usize) -> Parser {
        Parser {
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_cr: false,
            first: true,
            limit,
        }
    }

    /// Takes bytes, and gives the events that end in them.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        events: &mut impl Extend<Event>,
    ) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\r', b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > self.limit {
                return Err(TooLong { limit: self.limit });
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else {
                return Ok(());
            };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.line_ended()?);
        }
        Ok(())
    }

    /// The bytes have ended: an event that is not ended by a blank line ends too.
    pub(crate) fn end(&mut self) -> Result<Option<Event>, TooLong> {
        if !self.line.is_empty() {
            self.line_ended()?;
        }
        Ok(self.event_ended())
    }

    fn line_ended(&mut self) -> Result<Option<Event>, TooLong> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.first) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.line = line;
            return Ok(self.event_ended());
        }
        let text = String::from_utf8_lossy(&line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.event.data.len() + value.len() >= self.limit {
                    return Err(TooLong { limit: self.limit });
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => self.event.name = value.to_owned(),
            _ => {}
        }
        drop(text);
        // Its space is used again.
        line.clear();
        self.line = line;
        Ok(None)
    }

    /// None if it has no data: nobody is told of it.
    fn event_ended(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::new(100);
        let mut events = Vec::new();
        for piece in pieces {
            parser.take(piece, &mut events).unwrap();
        }
        events.extend(parser.end().unwrap());
        events
            .into_iter()
            .map(|event| (event.name, event.data))
            .collect()
    }

    const MIXED: &[u8] = b"\xef\xbb\xbfdata: a\n\n: comment\n\ndata:b\r\n\r\nid: 3\nretry: 5\n\nevent: ping\n\n\
        data: c1\rdata:  c2\r\revent: error\ndata: d\n\ndata\n\nunknown: x\ndata: \xff\nnothing\n\ndata: last";

    fn expected() -> Vec<(String, String)> {
        [
            ("", "a"),
            ("", "b"),
            ("", "c1\n c2"),
            ("error", "d"),
            ("", ""),
            ("", "\u{fffd}"),
            ("", "last"),
        ]
        .map(|(name, data)| (name.to_owned(), data.to_owned()))
        .to_vec()
    }

    #[test]
    fn every_framing_that_clients_read_is_read_whole_or_byte_for_byte() {
        assert_eq!(parse(&[MIXED]), expected());
        let bytes: Vec<&[u8]> = MIXED.chunks(1).collect();
        assert_eq!(parse(&bytes), expected());
    }

    #[test]
    fn long_lines_and_long_events_are_refused_before_they_are_held() {
        let mut parser = Parser::new(16);
        let mut events = Vec::new();
        let line = parser.take(&[b'x'; 17], &mut events);
        assert_eq!(line, Err(TooLong { limit: 16 }));
        let mut parser = Parser::new(16);
        let lines = parser.take(b"data: 0123456\ndata: 0123456\ndata: 01", &mut events);
        assert_eq!(lines, Ok(()));
        assert_eq!(
            parser.take(b"2345\n", &mut events),
            Err(TooLong { limit: 16 })
        );
        // A comment that is long in all, line by line, is no event.
        let mut parser = Parser::new(16);
        for _ in 0..100 {
            parser.take(b": a comment\n", &mut events).unwrap();
        }
        assert!(events.is_empty());
    }

    proptest! {
        #[test]
        fn where_it_is_cut_changes_nothing(cuts in prop::collection::vec(0..MIXED.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&MIXED[from..cut]);
                from = cut;
            }
            pieces.push(&MIXED[from..]);
            prop_assert_eq!(parse(&pieces), expected());
        }
    }
}
