//! Telephone numbers.
//!
//! There is no check digit, so form and context decide. Sure by form: an international prefix (`+46`, `0046`), an area
//! code in brackets, the North American 3-3-4. Taken unless a word right before says otherwise (`order`, `account` ...):
//! a trunk zero with the right number of digits, three or more groups of two to four digits that are neither a date nor
//! an amount nor in fours, two groups of usual lengths that no street follows. Everything else needs a word that says
//! so (`phone`, `call`, `fax` ...).

use super::context::{self, Said};
use super::number::{Run, Separator};
use super::{word_at, word_before};

/// The most digits of a telephone number (ITU-T E.164).
const DIGITS: usize = 15;
/// The fewest that are looked at; with six, only where the text speaks of a telephone.
const FEWEST: usize = 6;

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
    let mut before = None;
    loop {
        if total < FEWEST {
            return None;
        }
        if ends(run, last) && is_phone(run, first, last, total, head, &mut before) {
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
    let digit = |at: usize| at > 0 && run.bytes[at - 1].is_ascii_digit();
    let free = match start.checked_sub(1).map(|at| run.bytes[at]) {
        // A sign that ties it to what is before.
        Some(b'-' | b'/' | b'+') => !word_before(run.text, start - 1),
        Some(b'.' | b',' | b'(' | b')') => !digit(start - 1),
        Some(b'#' | b'$') => false,
        _ => !word_before(run.text, start) && !run.text[..start].ends_with(['€', '£', '¥']),
    };
    // A bracket around more than the first group belongs to the sentence.
    let closed = run.bytes.get(run.groups[first].end) == Some(&b')');
    if bracket && !closed {
        bracket = false;
        start = run.groups[first].start - usize::from(plus);
    }
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
        (Some(b'-' | b'/'), Some(_)) => {
            !word_at(rest, 1) || context::phone_behind(run.text, end + 1)
        }
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

/// `before` keeps what is said before the number, once that is asked for.
fn is_phone(
    run: &Run<'_>,
    first: usize,
    last: usize,
    total: usize,
    head: Head,
    before: &mut Option<Said>,
) -> bool {
    let groups = &run.groups[first..=last];
    let digits = run.digits(first);
    let even = run.even(first, last);
    let goes_on = run.goes_on(first, last);
    let tied = run
        .groups
        .get(last + 1)
        .is_some_and(|next| !matches!(next.before, Separator::Space | Separator::Bracket));
    if tied {
        return false;
    }
    if head.plus {
        let american = digits.starts_with('1');
        return !digits.starts_with('0') && total >= 8 && (!american || total == 11);
    }
    if head.bracket && groups.len() >= 2 && total > FEWEST {
        return run.even(first + 1, last);
    }
    if digits.starts_with("00") && (10..=DIGITS).contains(&total) && groups.len() > 1 {
        return true;
    }
    let mut said = || {
        if context::phone_behind(run.text, run.groups[last].end) {
            return Said::Phone;
        }
        *before.get_or_insert_with(|| context::before(run.text, head.start))
    };
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
    // Written as one, the exchange has to be one that is given out.
    let bare = |digits: &str| area(digits) && area(&digits[3..]);
    if lengths(&[10]) && bare(digits)
        || lengths(&[11]) && digits.starts_with('1') && bare(&digits[1..])
    {
        return said() != Said::Other;
    }
    if lengths(&[1, 3, 3, 4]) && digits == "1" && area(run.digits(first + 1)) && plain {
        return true;
    }
    let trunk = digits.starts_with('0')
        && match groups.len() {
            1 => total == 10 || total == 11,
            2 => (9..=12).contains(&total),
            _ => (8..=12).contains(&total),
        };
    if trunk && said() != Said::Other {
        return true;
    }
    if goes_on {
        return false;
    }
    // Behind other groups with spaces between, it would be a part of them.
    let apart = first == run.fresh
        || groups[1..]
            .iter()
            .all(|group| group.before != Separator::Space);
    let formed =
        apart && even && (is_in_groups(run, first, last, total) || is_in_two(run, first, last));
    if formed {
        return said() != Said::Other;
    }
    (total > FEWEST || groups.len() > 1) && said() == Said::Phone
}

/// Three or more groups that look like nothing but a telephone number.
fn is_in_groups(run: &Run<'_>, first: usize, last: usize, total: usize) -> bool {
    let groups = &run.groups[first..=last];
    let sized = groups.len() >= 3
        && (8..=12).contains(&total)
        && groups[1..]
            .iter()
            .all(|group| (2..=4).contains(&group.len()))
        && (1..=4).contains(&groups[0].len());
    let in_fours = groups.iter().all(|group| group.len() == 4);
    // `12 345 678` is an amount if something follows that is counted.
    let amount = groups[0].len() < 3
        && groups[1..].iter().all(|group| group.len() == 3)
        && !follows(run, last).is_empty();
    sized && is_parted(run, last) && !in_fours && !amount
}

/// Two groups of lengths that telephone numbers have, and postal codes and years have not. What follows decides: a
/// house number stands before the name of a street.
fn is_in_two(run: &Run<'_>, first: usize, last: usize) -> bool {
    if last != first + 1 || !is_parted(run, last) || is_street(run, last) {
        return false;
    }
    let year = |group: usize| (1900..2100).contains(&run.digits(group).parse().unwrap_or(0));
    match (run.groups[first].len(), run.groups[last].len()) {
        (4, 4) => !(year(first) && year(last)),
        (2, 6 | 7) | (3, 4..=7) | (4, 5..=7) | (5, 5 | 6) => true,
        _ => false,
    }
}

/// Whether spaces or hyphens stand between the groups, and not dots or slashes.
fn is_parted(run: &Run<'_>, last: usize) -> bool {
    matches!(run.groups[last].before, Separator::Space | Separator::Dash)
}

/// Whether what follows may be the name of a street: a word of three letters or more with a capital.
fn is_street(run: &Run<'_>, last: usize) -> bool {
    let word = follows(run, last);
    word.starts_with(char::is_uppercase) && word.chars().nth(2).is_some()
}

/// The word that follows on the same line, with a space between.
fn follows<'a>(run: &Run<'a>, last: usize) -> &'a str {
    let rest = &run.text[run.groups[last].end..];
    let word = rest.trim_start_matches([' ', '\t', '\u{a0}']);
    if word.len() == rest.len() {
        return "";
    }
    let end = word
        .char_indices()
        .find(|(_, letter)| !letter.is_alphabetic())
        .map_or(word.len(), |(at, _)| at);
    &word[..end]
}
