//! Telephone numbers.
//!
//! There is no check digit, so form and context decide. Sure by form: an international prefix (`+46`, `0046`), an area
//! code in brackets, the North American 3-3-4, a trunk zero with nine to eleven digits, and three or more groups of two
//! to four digits that are neither a date nor an amount nor in fours. Everything else needs a word that says so
//! (`phone`, `call`, `fax` ...), nearer than one that says otherwise (`order`, `account`, `address` ...).

use super::context::{self, Said};
use super::number::{Run, Separator};
use super::{word_at, word_before};

/// The most digits of a telephone number (ITU-T E.164).
const DIGITS: usize = 15;
/// The fewest that are looked at.
const FEWEST: usize = 7;

/// How a number begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    start: usize,
    plus: bool,
    bracket: bool,
}

/// The number that begins at a group: start, end, last group.
pub(super) fn at(run: &Run<'_>, first: usize) -> Option<(usize, usize, usize)> {
    let head = head(run, first)?;
    let mut total = 0;
    let mut longest = first;
    for (index, group) in run.groups.iter().enumerate().skip(first) {
        if total + group.len() > DIGITS {
            break;
        }
        total += group.len();
        longest = index;
    }
    let mut last = longest;
    loop {
        if total < FEWEST {
            return None;
        }
        if ends(run, last) && is_phone(run, first, last, total, head) {
            return Some((head.start, end(run, last), last));
        }
        if last == first {
            return None;
        }
        total -= run.groups[last].len();
        last -= 1;
    }
}

/// What stands before the first group, if a number may begin there.
fn head(run: &Run<'_>, first: usize) -> Option<Head> {
    let mut start = run.groups[first].start;
    let (mut plus, mut bracket) = (false, false);
    for _ in 0..2 {
        match start.checked_sub(1).map(|at| run.bytes[at]) {
            Some(b'+') if !plus => plus = true,
            Some(b'(') if !bracket => bracket = true,
            _ => break,
        }
        start -= 1;
    }
    let free = match start.checked_sub(1).map(|at| run.bytes[at]) {
        // A sign that ties it to what is before; also another group.
        Some(b'-' | b'.' | b'/' | b',' | b'(' | b')' | b'+') => {
            !word_before(run.text, start - 1) && !run.text[..start - 1].ends_with(')')
        }
        Some(b'#' | b'$') => false,
        _ => !word_before(run.text, start) && !run.text[..start].ends_with(['€', '£', '¥']),
    };
    free.then_some(Head {
        start,
        plus,
        bracket,
    })
}

/// Whether a number may end with this group.
fn ends(run: &Run<'_>, last: usize) -> bool {
    let end = run.groups[last].end;
    let rest = &run.text[end..];
    let mut bytes = rest.bytes();
    match (bytes.next(), bytes.next()) {
        (Some(b':'), Some(b'0'..=b'9')) => false,
        (Some(b'%'), _) => false,
        (Some(b'-' | b'/'), Some(_)) => !word_at(rest, 1),
        _ => !rest.trim_start().starts_with(['€', '$', '£', '¥']),
    }
}

/// Where the number ends, an extension included.
fn end(run: &Run<'_>, last: usize) -> usize {
    let end = run.groups[last].end;
    let rest = run.bytes[end..].trim_ascii_start();
    let words: [&[u8]; 4] = [b"extension", b"ext.", b"ext", b"x"];
    let is = |word: &&[u8]| {
        rest.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let Some(word) = words.into_iter().find(is) else {
        return end;
    };
    let after = rest[word.len()..].trim_ascii_start();
    let digits = after
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let extended = run.bytes.len() - after.len() + digits;
    if (1..=6).contains(&digits) && !word_at(run.text, extended) {
        extended
    } else {
        end
    }
}

fn is_phone(run: &Run<'_>, first: usize, last: usize, total: usize, head: Head) -> bool {
    let groups = &run.groups[first..=last];
    let digits = run.digits(first);
    let even = run.even(first, last);
    let goes_on = run.goes_on(first, last);
    let tied = run
        .groups
        .get(last + 1)
        .is_some_and(|next| next.before != Separator::Space);
    if tied {
        return false;
    }
    if head.plus {
        let american = digits.starts_with('1');
        return !digits.starts_with('0') && total >= 8 && (!american || total == 11);
    }
    let closed = run.bytes.get(groups[0].end) == Some(&b')');
    if head.bracket && closed && groups.len() >= 2 {
        return run.even(first + 1, last);
    }
    if digits.starts_with("00") && (10..=DIGITS).contains(&total) && groups.len() > 1 {
        return true;
    }
    let lengths = |wanted: &[usize]| {
        groups
            .iter()
            .map(super::number::Group::len)
            .eq(wanted.iter().copied())
    };
    let area = |digits: &str| !digits.starts_with(['0', '1']);
    let plain = !groups[1..]
        .iter()
        .any(|group| group.before == Separator::Slash);
    if lengths(&[3, 3, 4]) && area(digits) && plain {
        return true;
    }
    if lengths(&[1, 3, 3, 4]) && digits == "1" && area(run.digits(first + 1)) && plain {
        return true;
    }
    let said = || context::of(run.text, head.start, run.groups[last].end);
    let trunk = digits.starts_with('0') && (9..=11).contains(&total);
    if trunk && (groups.len() > 1 || total >= 10) && said() != Said::Other {
        return true;
    }
    if goes_on {
        return false;
    }
    if is_generic(run, first, last, total) && even && said() != Said::Other {
        return true;
    }
    said() == Said::Phone
}

/// Three or more groups that look like nothing but a telephone number.
fn is_generic(run: &Run<'_>, first: usize, last: usize, total: usize) -> bool {
    let groups = &run.groups[first..=last];
    let sized = groups.len() >= 3
        && (8..=12).contains(&total)
        && groups.iter().all(|group| (2..=4).contains(&group.len()));
    let separated = matches!(
        groups[groups.len() - 1].before,
        Separator::Space | Separator::Dash
    );
    let in_fours = groups.iter().all(|group| group.len() == 4);
    // `12 345 678` is an amount.
    let amount = groups[0].len() < 3 && groups[1..].iter().all(|group| group.len() == 3);
    sized && separated && !in_fours && !amount
}
