//! IP addresses.

use std::net::Ipv6Addr;

use super::{word_at, word_before};

/// The longest text of an IPv6 address.
const LONGEST: usize = 45;

/// The IPv6 address whose first colon stands here.
pub(super) fn v6_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut start = at;
    while start > 0 && at - start < 5 && bytes[start - 1].is_ascii_hexdigit() {
        start -= 1;
    }
    if word_before(text, start) || text[..start].ends_with([':', '.']) {
        return None;
    }
    let limit = bytes.len().min(start + LONGEST);
    let mut end = at;
    while end < limit && (bytes[end].is_ascii_hexdigit() || matches!(bytes[end], b':' | b'.')) {
        end += 1;
    }
    if word_at(text, end) {
        return None;
    }
    while end > at
        && (bytes[end - 1] == b'.' || (bytes[end - 1] == b':' && !bytes[..end].ends_with(b"::")))
    {
        end -= 1;
    }
    let candidate = text.get(start..end)?;
    let groups = candidate
        .split(':')
        .filter(|group| !group.is_empty())
        .count();
    // `a::b` is a path in a program, and `::` alone says nothing of anybody.
    let telling =
        groups >= 4 || (groups >= 2 && candidate.bytes().any(|byte| byte.is_ascii_digit()));
    (telling && candidate.parse::<Ipv6Addr>().is_ok()).then_some((start, end))
}

/// Whether four numbers are an IPv4 address.
pub(super) fn is_v4<'a>(parts: impl Iterator<Item = &'a str>) -> bool {
    let mut count = 0;
    for part in parts {
        if part.len() > 3 || part.parse::<u16>().map_or(true, |number| number > 255) {
            return false;
        }
        count += 1;
    }
    count == 4
}
