//! The head of a request, byte by byte, before hyper sees it.
//!
//! hyper takes framings that a proxy in front of us may read otherwise. Here only one reading is left: lines end with
//! CRLF, there is one `host`, at most one length, and `chunked` is the only transfer coding. hyper parses the same head
//! again, so that both have to agree.

use hyper::StatusCode;

use super::refusal::Refusal;
use super::refused::Reason;

/// Most header lines of a request. It is hyper's own limit.
const HEADERS: usize = 100;

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Nothing.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// Looks for the end of a head in `bytes`, of which `scanned` are known to hold none.
///
/// Returns the length of the head with its empty line, if all of it is there. A line feed without a carriage return is
/// refused as soon as it is seen: a head that ends its lines so would never end here.
pub(super) fn end(bytes: &[u8], scanned: usize) -> Result<Option<usize>, Refusal> {
    for at in scanned..bytes.len() {
        match bytes[at] {
            b'\n' if at == 0 || bytes[at - 1] != b'\r' => {
                return Err(malformed(
                    "a line of the head ends without a carriage return",
                ));
            }
            b'\n' if at >= 3 && bytes[at - 2] == b'\n' => return Ok(Some(at + 1)),
            0 => return Err(malformed("the head holds a NUL byte")),
            _ => {}
        }
    }
    Ok(None)
}

/// Checks a whole head, with its empty line, and says what follows it.
pub(super) fn check(head: &[u8]) -> Result<Framing, Refusal> {
    let head = head
        .strip_suffix(b"\r\n\r\n")
        .ok_or_else(|| malformed("the head has no end"))?;
    let mut lines = Lines(Some(head));
    let request = lines.next().unwrap_or_default();
    if request.contains(&b'\r') {
        return Err(malformed("the request line holds a carriage return"));
    }
    let mut words = request.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed(
            "the request line is not a method, a target and a version",
        ));
    };
    if !is_token(method) {
        return Err(malformed("the method is not a token"));
    }
    let old = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        _ => {
            return Err(Refusal::fixed(
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                Reason::VersionNotSupported,
                "only HTTP/1.1 and HTTP/1.0 are spoken here",
            ));
        }
    };

    let mut host: Option<&[u8]> = None;
    let mut length: Option<u64> = None;
    let mut chunked = false;
    let mut count = 0;
    for line in lines {
        count += 1;
        if count > HEADERS {
            return Err(Refusal::head_too_large(format!(
                "the head has more than {HEADERS} lines"
            )));
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .ok_or_else(|| malformed("a header line has no colon"))?;
        let name = &line[..colon];
        let value = line[colon + 1..].trim_ascii();
        if !is_token(name) {
            return Err(malformed("the name of a header is not a token"));
        }
        if line[colon + 1..]
            .iter()
            .any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f)
        {
            return Err(malformed("the value of a header holds a control character"));
        }
        if name.eq_ignore_ascii_case(b"host") {
            if host.replace(value).is_some() {
                return Err(malformed("there is more than one host"));
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if length.replace(number(value)?).is_some() {
                return Err(malformed("there is more than one content-length"));
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(malformed("the transfer-encoding is not `chunked` alone"));
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case(b"expect")
            && !value.eq_ignore_ascii_case(b"100-continue")
        {
            return Err(Refusal::fixed(
                StatusCode::EXPECTATION_FAILED,
                Reason::ExpectationFailed,
                "only `100-continue` can be expected",
            ));
        }
    }
    if !old && host.is_none() {
        return Err(malformed("there is no host"));
    }
    if host.is_some_and(|host| !is_host(host)) {
        return Err(malformed(
            "the host is not a name or address with an optional port",
        ));
    }
    if chunked && (old || length.is_some()) {
        return Err(malformed(
            "a transfer-encoding with HTTP/1.0 or beside a content-length can be read in two ways",
        ));
    }
    check_target(target, host)?;
    Ok(match (chunked, length) {
        (true, _) => Framing::Chunked,
        (false, None | Some(0)) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
    })
}

/// Lines that end with CRLF; a carriage return alone stays in its line, where no rule allows it.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        match rest.windows(2).position(|pair| pair == b"\r\n") {
            Some(at) => {
                self.0 = Some(&rest[at + 2..]);
                Some(&rest[..at])
            }
            None => {
                self.0 = None;
                Some(rest)
            }
        }
    }
}

/// The target: a path, or a URL of the host that the request is for.
fn check_target(target: &[u8], host: Option<&[u8]>) -> Result<(), Refusal> {
    if target
        .iter()
        .any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'#' | b'\\' | b'<' | b'>' | b'"'))
    {
        return Err(malformed("the target holds a character that no URL has"));
    }
    let path = if target.first() == Some(&b'/') {
        target
    } else {
        let lower = target.to_ascii_lowercase();
        let scheme = [&b"http://"[..], b"https://"]
            .into_iter()
            .find(|scheme| lower.starts_with(scheme))
            .ok_or_else(|| malformed("the target is neither a path nor a URL"))?
            .len();
        let rest = &target[scheme..];
        let slash = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(rest.len());
        if !host.is_some_and(|host| host.eq_ignore_ascii_case(&rest[..slash])) {
            return Err(malformed("the URL of the target is of another host"));
        }
        &rest[slash..]
    };
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    for segment in path.split(|byte| *byte == b'/') {
        let plain = decode(segment)?;
        if plain == b"." || plain == b".." {
            return Err(malformed("the path has a dot segment"));
        }
        if plain
            .iter()
            .any(|byte| byte.is_ascii_control() || matches!(byte, b'/' | b'\\'))
        {
            return Err(malformed("the path hides a control character or a slash"));
        }
    }
    Ok(())
}

/// Undoes percent-encoding.
fn decode(segment: &[u8]) -> Result<Vec<u8>, Refusal> {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut plain = Vec::with_capacity(segment.len());
    let mut bytes = segment.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            plain.push(*byte);
            continue;
        }
        let (Some(high), Some(low)) = (hex(bytes.next()), hex(bytes.next())) else {
            return Err(malformed(
                "a percent sign of the path is not followed by two hexadecimal digits",
            ));
        };
        plain.push((high * 16 + low) as u8);
    }
    Ok(plain)
}

/// A length in digits alone: no sign, no list, no hexadecimal.
fn number(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(malformed(
            "the content-length is not one number of at most 18 digits",
        ));
    }
    Ok(value
        .iter()
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn is_host(host: &[u8]) -> bool {
    host.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(byte))
}

fn malformed(what: &'static str) -> Refusal {
    Refusal::fixed(StatusCode::BAD_REQUEST, Reason::MalformedRequest, what)
}
