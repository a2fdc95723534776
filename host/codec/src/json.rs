//! A JSON checker that finds wanted fields on its way: one pass, no document in memory.
//!
//! Grammar: RFC 8259, nesting at most [`MAX_DEPTH`]. The text must be checked as UTF-8 before. Lone surrogates in
//! escapes are grammatical and pass; reading such a string as a key fails later, with a reason.

use std::borrow::Cow;

/// The deepest nesting accepted; the same as serde_json's.
pub(crate) const MAX_DEPTH: usize = 127;

/// Where a value stands in the text: first byte and the byte after.
pub(crate) type Span = Option<(usize, usize)>;

/// What was expected where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) expected: &'static str,
}

impl Fault {
    /// `expected ... at column 17, found ...`; columns count bytes from 1.
    pub(crate) fn describe(&self, text: &str) -> String {
        let column = self.at + 1;
        match text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) if found.is_control() => {
                format!(
                    "expected {} at column {column}, found {found:?}",
                    self.expected
                )
            }
            Some(found) => format!(
                "expected {} at column {column}, found `{found}`",
                self.expected
            ),
            None => format!(
                "expected {} at column {column}, found the end",
                self.expected
            ),
        }
    }
}

/// Dotted paths to fields, as a tree; a path is known by its slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    nodes: Vec<Node>,
    slots: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    name: String,
    children: Vec<usize>,
    slot: Option<usize>,
}

/// The node of a value under which nothing is wanted.
const NOTHING: usize = usize::MAX;

impl Paths {
    /// The slot of a path; the same path has one slot.
    pub(crate) fn add(&mut self, path: &str) -> usize {
        if let Some(slot) = self.slots.iter().position(|known| known == path) {
            return slot;
        }
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut node = 0;
        for name in path.split('.') {
            let known = self.nodes[node].children.iter().copied();
            node = match known
                .into_iter()
                .find(|&child| self.nodes[child].name == name)
            {
                Some(child) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node {
                        name: name.to_owned(),
                        ..Node::default()
                    });
                    self.nodes[node].children.push(child);
                    child
                }
            };
        }
        let slot = self.slots.len();
        self.slots.push(path.to_owned());
        self.nodes[node].slot = Some(slot);
        slot
    }

    /// The path of a slot.
    pub(crate) fn name(&self, slot: usize) -> &str {
        &self.slots[slot]
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

/// Checks the text and notes where the wanted values stand; of a name given twice the last counts.
pub(crate) fn scan(text: &str, paths: &Paths, found: &mut [Span]) -> Result<(), Fault> {
    let root = if paths.nodes.is_empty() { NOTHING } else { 0 };
    let mut scanner = Scanner {
        text: text.as_bytes(),
        paths: &paths.nodes,
        found,
    };
    let at = scanner.space(0);
    let at = scanner.value(at, 0, root)?;
    let at = scanner.space(at);
    if at == text.len() {
        Ok(())
    } else {
        Err(Fault {
            at,
            expected: "the end of the value",
        })
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    paths: &'a [Node],
    found: &'a mut [Span],
}

impl Scanner<'_> {
    fn byte(&self, at: usize) -> u8 {
        // Zero is no part of the grammar outside strings, so it can stand for the end.
        self.text.get(at).copied().unwrap_or(0)
    }

    fn space(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t' | b'\n' | b'\r') {
            at += 1;
        }
        at
    }

    fn value(&mut self, at: usize, depth: usize, node: usize) -> Result<usize, Fault> {
        match self.byte(at) {
            b'"' => self.string(at + 1),
            b'{' => self.object(at + 1, depth + 1, node),
            b'-' | b'0'..=b'9' => self.number(at),
            b'[' => self.array(at + 1, depth + 1),
            b't' => self.literal(at, b"true", "`true`"),
            b'f' => self.literal(at, b"false", "`false`"),
            b'n' => self.literal(at, b"null", "`null`"),
            _ => Err(Fault {
                at,
                expected: "a value",
            }),
        }
    }

    fn literal(&self, at: usize, word: &[u8], expected: &'static str) -> Result<usize, Fault> {
        let end = at + word.len();
        if self.text.get(at..end) == Some(word) {
            Ok(end)
        } else {
            Err(Fault { at, expected })
        }
    }

    fn object(&mut self, at: usize, depth: usize, node: usize) -> Result<usize, Fault> {
        check_depth(at, depth)?;
        let mut at = self.space(at);
        if self.byte(at) == b'}' {
            return Ok(at + 1);
        }
        loop {
            if self.byte(at) != b'"' {
                return Err(Fault {
                    at,
                    expected: "a name in quotes",
                });
            }
            let name = at + 1;
            at = self.string(name)?;
            let child = if node == NOTHING {
                NOTHING
            } else {
                self.child(node, name, at - 1)
            };
            at = self.space(at);
            if self.byte(at) != b':' {
                return Err(Fault {
                    at,
                    expected: "`:`",
                });
            }
            let begin = self.space(at + 1);
            at = self.value(begin, depth, child)?;
            if child != NOTHING
                && let Some(slot) = self.paths[child].slot
            {
                self.found[slot] = Some((begin, at));
            }
            at = self.space(at);
            match self.byte(at) {
                b',' => at = self.space(at + 1),
                b'}' => return Ok(at + 1),
                _ => {
                    return Err(Fault {
                        at,
                        expected: "`,` or `}`",
                    });
                }
            }
        }
    }

    fn array(&mut self, at: usize, depth: usize) -> Result<usize, Fault> {
        check_depth(at, depth)?;
        let mut at = self.space(at);
        if self.byte(at) == b']' {
            return Ok(at + 1);
        }
        loop {
            at = self.value(at, depth, NOTHING)?;
            at = self.space(at);
            match self.byte(at) {
                b',' => at = self.space(at + 1),
                b']' => return Ok(at + 1),
                _ => {
                    return Err(Fault {
                        at,
                        expected: "`,` or `]`",
                    });
                }
            }
        }
    }

    fn child(&self, node: usize, begin: usize, end: usize) -> usize {
        let name = &self.text[begin..end];
        let children = &self.paths[node].children;
        // Once for all children: a name may be as long as the record.
        let unescaped = if !children.is_empty() && name.contains(&b'\\') {
            unescape(&self.text[begin - 1..end + 1])
        } else {
            None
        };
        let name = unescaped.as_ref().map_or(name, |name| name.as_bytes());
        children
            .iter()
            .copied()
            .find(|child| self.paths[*child].name.as_bytes() == name)
            .unwrap_or(NOTHING)
    }

    /// From the byte after the opening quote to the byte after the closing one.
    fn string(&self, mut at: usize) -> Result<usize, Fault> {
        loop {
            while let Some(eight) = self.text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
                let stops = stops(u64::from_le_bytes(*eight));
                if stops != 0 {
                    at += stops.trailing_zeros() as usize / 8;
                    break;
                }
                at += 8;
            }
            match self.text.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at = self.escape(at + 1)?,
                Some(0..0x20) => {
                    return Err(Fault {
                        at,
                        expected: "no raw control character in a string",
                    });
                }
                Some(_) => at += 1,
                None => {
                    return Err(Fault {
                        at,
                        expected: "a closing quote",
                    });
                }
            }
        }
    }

    fn escape(&self, at: usize) -> Result<usize, Fault> {
        match self.byte(at) {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 1),
            b'u' => {
                for digit in at + 1..at + 5 {
                    if !self.byte(digit).is_ascii_hexdigit() {
                        return Err(Fault {
                            at: digit,
                            expected: "a hexadecimal digit",
                        });
                    }
                }
                Ok(at + 5)
            }
            _ => Err(Fault {
                at,
                expected: "an escape",
            }),
        }
    }

    fn digits(&self, at: usize) -> Result<usize, Fault> {
        let mut end = at;
        while self.byte(end).is_ascii_digit() {
            end += 1;
        }
        if end == at {
            Err(Fault {
                at,
                expected: "a digit",
            })
        } else {
            Ok(end)
        }
    }

    fn number(&self, at: usize) -> Result<usize, Fault> {
        let mut at = if self.byte(at) == b'-' { at + 1 } else { at };
        at = if self.byte(at) == b'0' {
            at + 1
        } else {
            self.digits(at)?
        };
        if self.byte(at) == b'.' {
            at = self.digits(at + 1)?;
        }
        if matches!(self.byte(at), b'e' | b'E') {
            at += 1;
            if matches!(self.byte(at), b'+' | b'-') {
                at += 1;
            }
            at = self.digits(at)?;
        }
        Ok(at)
    }
}

fn check_depth(at: usize, depth: usize) -> Result<(), Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault {
            at: at - 1,
            expected: "at most 127 levels of nesting",
        });
    }
    Ok(())
}

/// The high bit of every byte that is a quote, a backslash or a control character. Bits above the lowest one may be
/// wrong (a borrow runs upwards), the lowest is exact.
fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

/// A JSON string with its quotes as text.
fn unescape(quoted: &[u8]) -> Option<String> {
    serde_json::from_slice(quoted).ok()
}

/// A field that is one value, not a list or an object.
#[derive(Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// A string without its quotes and escapes.
    Text(Cow<'a, str>),
    /// A number, `true` or `false`, as it is written.
    Plain(&'a str),
    /// `null`.
    Null,
    /// An object or an array, as it is written.
    Compound(&'a str),
    /// A string whose escapes are no text (a lone surrogate).
    Broken(&'a str),
}

/// The value at a span that [`scan`] found.
pub(crate) fn scalar(text: &str, (begin, end): (usize, usize)) -> Scalar<'_> {
    let raw = text.get(begin..end).unwrap_or_default();
    match raw.as_bytes().first() {
        Some(b'"') if !raw.contains('\\') => Scalar::Text(Cow::Borrowed(&raw[1..raw.len() - 1])),
        Some(b'"') => match unescape(raw.as_bytes()) {
            Some(text) => Scalar::Text(Cow::Owned(text)),
            None => Scalar::Broken(raw),
        },
        Some(b'{' | b'[') => Scalar::Compound(raw),
        Some(b'n') => Scalar::Null,
        _ => Scalar::Plain(raw),
    }
}

/// Appends checked JSON without the white space between its tokens.
pub(crate) fn write_compact(out: &mut Vec<u8>, text: &str) {
    let mut in_string = false;
    let mut escaped = false;
    for &byte in text.as_bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            out.push(byte);
        } else if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            in_string = byte == b'"';
            out.push(byte);
        }
    }
}
