//! Cutting a stream of bytes into lines or CSV rows, with flat memory.
//!
//! Bytes come in reads of any size; where they are divided changes nothing. A piece longer than the limit is skipped
//! as it streams by: memory stays below `max_record` plus one read, however long it is.
//!
//! Time is linear in the input, quotes that are never closed included. A row that is still open at the end of its first
//! line is inside a quoted field there, and so is every other row open at that place: they all end at the same line end.
//! What the search for it has found outlives the row that is refused ([`Ahead`]), so no line is looked at more than
//! twice. It is a fact about the input, not a choice: a cutter that begins at any piece finds the same ones after it.

use memchr::{memchr, memchr2};

/// Bytes kept of input that is too long, or never ends: 64 KiB.
pub const PREVIEW: usize = 64 << 10;
/// Room offered for one read, in bytes.
const READ: usize = 256 << 10;

/// Where a piece ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At a line feed.
    Lines,
    /// At a line feed outside a quoted field (RFC 4180, with this delimiter).
    Rows {
        /// The byte between fields.
        delimiter: u8,
    },
}

/// A piece of the input. Its offset is the position of its first byte.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line or row without its line end (LF or CR LF).
    Whole {
        /// Position of its first byte.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A line longer than the limit.
    TooLong {
        /// Position of its first byte.
        offset: u64,
        /// Its first [`PREVIEW`] bytes.
        preview: Vec<u8>,
        /// Its length without the line end, bytes.
        length: u64,
    },
    /// The first line of a row whose quoted field is not closed within the limit or the input; the row after it
    /// begins at the next line.
    Unclosed {
        /// Position of its first byte.
        offset: u64,
        /// Its first [`PREVIEW`] bytes.
        preview: Vec<u8>,
        /// Length of that line without the line end, bytes.
        length: u64,
    },
}

/// Cuts what is read into pieces.
#[derive(Debug)]
pub struct Cutter {
    rule: Rule,
    max_record: usize,
    buffer: Vec<u8>,
    /// The uncut bytes are `buffer[begin..end]`; those before `scanned` hold no piece's end.
    begin: usize,
    end: usize,
    scanned: usize,
    row: Row,
    /// The scan has left the first line of the row.
    beyond: bool,
    ahead: Option<Ahead>,
    /// Position of `buffer[begin]`.
    position: u64,
    /// Bytes of the piece cut last, if it can be put back.
    last: usize,
    skipping: Option<Skipped>,
    #[cfg(test)]
    steps: Steps,
}

/// How far the scan of a refused row came past its first line. A row that is open at any line start up to there has the
/// same scan from that line start on.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Position of the first byte not scanned, or of the line feed that ends the row.
    position: u64,
    row: Row,
    ends_here: bool,
}

/// Bytes looked at in search of ends.
#[cfg(test)]
#[derive(Debug, Default)]
struct Steps(usize);

/// Where in a row the scan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    FieldStart,
    Plain,
    Quoted,
    QuoteInQuoted,
}

/// A line that is too long and has not ended yet.
#[derive(Debug)]
struct Skipped {
    offset: u64,
    preview: Vec<u8>,
    /// Bytes passed so far.
    passed: u64,
    ends_in_return: bool,
}

/// An end found: how many bytes belong to the piece and how many more to its line end.
struct End {
    content: usize,
    line_end: usize,
}

impl Cutter {
    /// A cutter for input that begins at this position.
    pub fn new(rule: Rule, max_record: usize, position: u64) -> Cutter {
        Cutter {
            rule,
            max_record,
            buffer: Vec::new(),
            begin: 0,
            end: 0,
            scanned: 0,
            row: Row::FieldStart,
            beyond: false,
            ahead: None,
            position,
            last: 0,
            skipping: None,
            #[cfg(test)]
            steps: Steps::default(),
        }
    }

    /// Position of the first byte that is not cut yet: the start of a line, unless a line too long is being skipped.
    pub fn position(&self) -> u64 {
        self.skipping
            .as_ref()
            .map_or(self.position, |skipped| skipped.offset)
    }

    /// Position after the last byte read.
    pub fn read_to(&self) -> u64 {
        self.position + (self.end - self.begin) as u64
    }

    /// Forgets everything and goes on at this position, which must be the start of a line.
    pub fn reset(&mut self, position: u64) {
        (self.begin, self.end) = (0, 0);
        self.begin_row();
        self.ahead = None;
        self.position = position;
        self.last = 0;
        self.skipping = None;
    }

    /// Takes back the whole piece that was cut last: it will be cut again. Does nothing after another call.
    pub fn put_back(&mut self) {
        self.begin -= self.last;
        self.position -= self.last as u64;
        self.last = 0;
        self.begin_row();
    }

    /// Room for the next read.
    pub fn space(&mut self) -> &mut [u8] {
        self.last = 0;
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.scanned -= self.begin;
            self.begin = 0;
        }
        if self.buffer.len() < self.end + READ {
            self.buffer.resize(self.end + READ, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// So many bytes of the room were filled.
    pub fn filled(&mut self, count: usize) {
        self.last = 0;
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// The next piece, or none if it needs more input. With `ended` the rest is the last piece.
    pub fn cut(&mut self, ended: bool) -> Option<Piece<'_>> {
        self.last = 0;
        if self.skipping.is_some() {
            return self.skip(ended);
        }
        match self.find() {
            Some(end) if end.content <= self.max_record => Some(self.whole(end)),
            Some(end) => {
                let line_feed = self.begin + end.content + end.line_end - 1;
                self.look_ahead(line_feed, true);
                self.refuse(ended)
            }
            None if self.pending() > self.max_record + 1 => self.refuse_unended(ended),
            None if !ended || self.pending() == 0 => None,
            None if self.row_is_open() => self.refuse_unended(ended),
            None => {
                let end = content_of(&self.buffer[self.begin..self.end]);
                if end.content > self.max_record {
                    self.refuse_unended(ended)
                } else {
                    Some(self.whole(end))
                }
            }
        }
    }

    fn pending(&self) -> usize {
        self.end - self.begin
    }

    fn row_is_open(&self) -> bool {
        matches!(self.rule, Rule::Rows { .. }) && self.row == Row::Quoted
    }

    fn whole(&mut self, end: End) -> Piece<'_> {
        let (offset, from) = (self.position, self.begin);
        self.advance(end.content + end.line_end);
        self.last = end.content + end.line_end;
        Piece::Whole {
            offset,
            bytes: &self.buffer[from..from + end.content],
        }
    }

    fn advance(&mut self, count: usize) {
        self.begin += count;
        self.position += count as u64;
        self.last = 0;
        self.begin_row();
    }

    fn begin_row(&mut self) {
        self.scanned = self.begin;
        self.row = Row::FieldStart;
        self.beyond = false;
    }

    /// The end of the piece that begins at `begin`, if it is in the buffer.
    fn find(&mut self) -> Option<End> {
        let line_feed = match self.rule {
            Rule::Lines => {
                memchr(b'\n', &self.buffer[self.scanned..self.end]).map(|at| self.scanned + at)
            }
            Rule::Rows { delimiter } => self.find_row_end(delimiter),
        };
        match line_feed {
            Some(at) => {
                let mut end = content_of(&self.buffer[self.begin..at]);
                end.line_end += 1;
                Some(end)
            }
            None => {
                self.scanned = self.end;
                None
            }
        }
    }

    fn find_row_end(&mut self, delimiter: u8) -> Option<usize> {
        if !self.beyond {
            match self.scan::<true>(delimiter) {
                Some(at) if self.row == Row::Quoted => {
                    self.beyond = true;
                    self.scanned = at + 1;
                    if self.follow_ahead() {
                        return Some(self.scanned);
                    }
                }
                end => return end,
            }
        }
        self.scan::<false>(delimiter)
    }

    /// Scans on from `scanned` to the line feed that ends the row; in its first line, to any line feed.
    fn scan<const FIRST_LINE: bool>(&mut self, delimiter: u8) -> Option<usize> {
        let bytes = &self.buffer[..self.end];
        let mut at = self.scanned;
        #[cfg(test)]
        let from = at;
        let mut end = None;
        while at < bytes.len() {
            match self.row {
                Row::Quoted => {
                    let rest = &bytes[at..];
                    let found = if FIRST_LINE {
                        memchr2(b'"', b'\n', rest)
                    } else {
                        memchr(b'"', rest)
                    };
                    at += found.unwrap_or(rest.len());
                    match bytes.get(at) {
                        Some(b'"') => self.row = Row::QuoteInQuoted,
                        Some(_) => {
                            end = Some(at);
                            break;
                        }
                        None => {}
                    }
                }
                Row::FieldStart if bytes[at] == b'"' => self.row = Row::Quoted,
                Row::QuoteInQuoted if bytes[at] == b'"' => self.row = Row::Quoted,
                _ => {
                    self.row = Row::Plain;
                    at += memchr2(b'\n', delimiter, &bytes[at..]).unwrap_or(bytes.len() - at);
                    match bytes.get(at) {
                        Some(b'\n') => {
                            end = Some(at);
                            break;
                        }
                        Some(_) => self.row = Row::FieldStart,
                        None => {}
                    }
                }
            }
            at += 1;
        }
        #[cfg(test)]
        {
            self.steps.0 += at.min(bytes.len()) - from;
        }
        end
    }

    /// Goes on where the scan of a refused row stood, if that covers this place; true if the row ends there.
    fn follow_ahead(&mut self) -> bool {
        let here = self.position + (self.scanned - self.begin) as u64;
        match self.ahead {
            Some(ahead) if ahead.position >= here => {
                self.scanned += (ahead.position - here) as usize;
                self.row = ahead.row;
                ahead.ends_here
            }
            _ => false,
        }
    }

    /// Keeps what was found of the row that is refused now.
    fn look_ahead(&mut self, at: usize, ends_here: bool) {
        if self.beyond {
            self.ahead = Some(Ahead {
                position: self.position + (at - self.begin) as u64,
                row: self.row,
                ends_here,
            });
        }
    }

    fn refuse_unended(&mut self, ended: bool) -> Option<Piece<'_>> {
        self.look_ahead(self.end, false);
        self.refuse(ended)
    }

    /// A piece that is too long, or a row that does not end: its first line is refused.
    fn refuse(&mut self, ended: bool) -> Option<Piece<'_>> {
        self.skipping = Some(Skipped {
            offset: self.position,
            preview: Vec::new(),
            passed: 0,
            ends_in_return: false,
        });
        self.skip(ended)
    }

    fn skip(&mut self, ended: bool) -> Option<Piece<'_>> {
        let pending = &self.buffer[self.begin..self.end];
        let line_feed = memchr(b'\n', pending);
        let content = &pending[..line_feed.unwrap_or(pending.len())];
        let skipped = self.skipping.as_mut()?;
        let room = PREVIEW - skipped.preview.len();
        skipped
            .preview
            .extend_from_slice(&content[..content.len().min(room)]);
        skipped.passed += content.len() as u64;
        if let Some(last) = content.last() {
            skipped.ends_in_return = *last == b'\r';
        }
        let taken = content.len() + usize::from(line_feed.is_some());
        self.advance(taken);
        if line_feed.is_none() && !ended {
            return None;
        }
        let Skipped {
            offset,
            mut preview,
            passed,
            ends_in_return,
        } = self.skipping.take()?;
        let length = passed - u64::from(ends_in_return);
        preview.truncate(length.min(PREVIEW as u64) as usize);
        Some(if length > self.max_record as u64 {
            Piece::TooLong {
                offset,
                preview,
                length,
            }
        } else {
            Piece::Unclosed {
                offset,
                preview,
                length,
            }
        })
    }
}

/// The line without a carriage return at its end.
fn content_of(line: &[u8]) -> End {
    match line {
        [content @ .., b'\r'] => End {
            content: content.len(),
            line_end: 1,
        },
        _ => End {
            content: line.len(),
            line_end: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces cut and bytes looked at.
    fn work(input: &[u8], max_record: usize) -> (usize, usize) {
        let mut cutter = Cutter::new(Rule::Rows { delimiter: b',' }, max_record, 0);
        let (mut pieces, mut rest) = (0, input);
        loop {
            while cutter.cut(rest.is_empty()).is_some() {
                pieces += 1;
            }
            if rest.is_empty() {
                return (pieces, cutter.steps.0);
            }
            let (read, after) = rest.split_at(rest.len().min(64 << 10));
            cutter.space()[..read.len()].copy_from_slice(read);
            cutter.filled(read.len());
            rest = after;
        }
    }

    #[test]
    fn quotes_that_do_not_close_cost_linear_time() {
        let count = 100_000;
        for (lines, max_record) in [
            ("a\"b,\"c\n", 1 << 20),
            ("\"\n", 1 << 20),
            ("\"a\n", 100),
            ("1,\"open\n2,b\n", 1 << 20),
            ("\"\"\"\n\"\n", 100),
        ] {
            let input = lines.repeat(count);
            let (pieces, steps) = work(input.as_bytes(), max_record);
            assert!(
                pieces > 0 && steps <= 3 * input.len(),
                "{lines:?}: {steps} steps"
            );
        }
        // A row that closes, but only long after the limit.
        let input = format!("{}\"\n", "\"x\n".to_owned() + &"a,\"\"\"\n".repeat(count));
        let (_, steps) = work(input.as_bytes(), 1 << 10);
        assert!(steps <= 3 * input.len(), "{steps} steps");
    }
}
