//! Walks a JSON text (RFC 8259, strictly) and shows its string values.

use std::borrow::Cow;
use std::fmt;

use super::MemberPath;
use super::unescape::unescape;

/// The deepest nesting that is walked.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The byte at which it goes wrong.
    pub at: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not JSON at byte {}: expected {}",
            self.at, self.expected
        )
    }
}

impl std::error::Error for JsonError {}

/// A string value in a JSON text.
#[derive(Clone, Copy, Debug)]
pub struct StringValue<'a> {
    /// Where its content begins, after the quote.
    pub(super) start: usize,
    raw: &'a str,
    escaped: bool,
}

impl<'a> StringValue<'a> {
    /// The content as it stands, escapes included.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// The content; borrowed where nothing is escaped. Half a surrogate pair reads as U+FFFD.
    pub fn decoded(&self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.raw))
        } else {
            Cow::Borrowed(self.raw)
        }
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.raw.len()
    }
}

/// A number in a JSON text.
#[derive(Clone, Copy, Debug)]
pub struct NumberValue<'a> {
    pub(super) start: usize,
    raw: &'a str,
}

impl<'a> NumberValue<'a> {
    /// The number as it stands.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.raw.len()
    }
}

/// A string or a number in a JSON text.
#[derive(Clone, Copy, Debug)]
pub enum Scalar<'a> {
    /// A string.
    String(StringValue<'a>),
    /// The name of a member, which only [`scalars_and_names`] shows.
    Name(StringValue<'a>),
    /// A number.
    Number(NumberValue<'a>),
}

/// Whether a text begins like a JSON object, array or string.
pub fn looks_like_json(text: &str) -> bool {
    let first = text
        .bytes()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    matches!(first, Some(b'{' | b'[' | b'"'))
}

/// Calls `visit` for every string value of a JSON text, in order, with the place where it stands. Names of members are
/// no values. On an error, values before it have been visited.
pub fn strings<'a>(
    text: &'a str,
    mut visit: impl FnMut(MemberPath<'_, 'a>, StringValue<'a>),
) -> Result<(), JsonError> {
    scalars(text, |place, scalar| {
        if let Scalar::String(string) = scalar {
            visit(place, string);
        }
    })
}

/// As [`strings`], for strings and numbers.
pub fn scalars<'a>(
    text: &'a str,
    visit: impl FnMut(MemberPath<'_, 'a>, Scalar<'a>),
) -> Result<(), JsonError> {
    walk(text, false, visit)
}

/// As [`scalars`], and names of members too, each before its value, with the place of its object.
pub fn scalars_and_names<'a>(
    text: &'a str,
    visit: impl FnMut(MemberPath<'_, 'a>, Scalar<'a>),
) -> Result<(), JsonError> {
    walk(text, true, visit)
}

fn walk<'a>(
    text: &'a str,
    names: bool,
    visit: impl FnMut(MemberPath<'_, 'a>, Scalar<'a>),
) -> Result<(), JsonError> {
    let mut walker = Walker {
        text,
        bytes: text.as_bytes(),
        at: 0,
        place: Vec::new(),
        names,
        visit,
    };
    walker.space();
    walker.value(0)?;
    walker.space();
    if walker.at == text.len() {
        Ok(())
    } else {
        Err(walker.expected("the end"))
    }
}

/// Calls `visit` for every member of a JSON object, in order, with its name and its value as it stands in the text.
/// On an error, members before it have been visited.
pub fn members<'a>(
    text: &'a str,
    mut visit: impl FnMut(Cow<'a, str>, &'a str),
) -> Result<(), JsonError> {
    let mut walker = Walker {
        text,
        bytes: text.as_bytes(),
        at: 0,
        place: Vec::new(),
        names: false,
        visit: |_: MemberPath<'_, 'a>, _: Scalar<'a>| {},
    };
    walker.space();
    if walker.peek() != Some(b'{') {
        return Err(walker.expected("an object"));
    }
    walker.object_with(&mut |walker, name| {
        let start = walker.at;
        walker.value(1)?;
        visit(name, &text[start..walker.at]);
        Ok(())
    })?;
    walker.space();
    if walker.at == text.len() {
        Ok(())
    } else {
        Err(walker.expected("the end"))
    }
}

struct Walker<'a, F> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    place: Vec<Cow<'a, str>>,
    /// Whether names of members are shown.
    names: bool,
    visit: F,
}

impl<'a, F: FnMut(MemberPath<'_, 'a>, Scalar<'a>)> Walker<'a, F> {
    fn expected(&self, expected: &'static str) -> JsonError {
        JsonError {
            at: self.at,
            expected,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.expected(expected))
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth == MAX_DEPTH {
            return Err(self.expected("less nesting"));
        }
        match self.peek() {
            Some(b'"') => {
                let string = self.string()?;
                (self.visit)(&self.place, Scalar::String(string));
                Ok(())
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => {
                let start = self.at;
                self.number()?;
                let raw = &self.text[start..self.at];
                (self.visit)(&self.place, Scalar::Number(NumberValue { start, raw }));
                Ok(())
            }
            _ => Err(self.expected("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        self.object_with(&mut |walker, name| {
            walker.place.push(name);
            walker.value(depth + 1)?;
            walker.place.pop();
            Ok(())
        })
    }

    /// Stands at the opening brace. `member` is called where a value begins, and leaves off behind it.
    fn object_with(
        &mut self,
        member: &mut impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a member name"));
            }
            let name = self.string()?;
            if self.names {
                (self.visit)(&self.place, Scalar::Name(name));
            }
            let name = name.decoded();
            self.space();
            self.take(b':', "`:`")?;
            self.space();
            member(self, name)?;
            self.space();
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(());
            }
            self.take(b',', "`,` or `}`")?;
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(());
            }
            self.take(b',', "`,` or `]`")?;
            self.space();
        }
    }

    /// Stands at the opening quote; afterwards behind the closing one.
    fn string(&mut self) -> Result<StringValue<'a>, JsonError> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..=0x1f) | None => return Err(self.expected("the rest of a string")),
                Some(_) => self.at += 1,
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(StringValue {
            start,
            raw,
            escaped,
        })
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.expected("four hexadecimal digits"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.expected("an escape")),
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.expected(word))
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            Err(self.expected("a digit"))
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }
}
