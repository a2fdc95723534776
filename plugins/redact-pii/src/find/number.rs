//! Numbers: runs of digit groups, and what can be made of them.

use super::context::has_before;
use super::{Found, Kind, address, card, iban, phone, word_at, word_before};

/// The most groups that are looked at together.
const GROUPS: usize = 24;

/// What stands between two groups of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Space,
    Dash,
    Dot,
    Slash,
    /// With a bracket in it.
    Bracket,
}

/// A group of digits, and what stands before it in the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) before: Separator,
}

impl Group {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Groups of digits with nothing but separators between.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) groups: &'a [Group],
    /// The first group that is not part of something known: that of the run, or behind a find or a date.
    pub(super) fresh: usize,
}

impl<'a> Run<'a> {
    pub(super) fn digits(&self, group: usize) -> &'a str {
        let group = self.groups[group];
        &self.text[group.start..group.end]
    }

    /// Whether the separators within these groups are all the same.
    pub(super) fn even(&self, first: usize, last: usize) -> bool {
        let inner = &self.groups[first + 1..=last];
        inner
            .windows(2)
            .all(|pair| pair[0].before == pair[1].before)
    }

    /// Whether the run goes on behind a group in the way it came.
    pub(super) fn goes_on(&self, first: usize, last: usize) -> bool {
        let spaced = |group: &Group| group.before == Separator::Space;
        last > first && spaced(&self.groups[last]) && self.groups.get(last + 1).is_some_and(spaced)
    }

    /// Whether a number may begin at this group: not behind a letter, or behind a sign that ties it to one.
    fn begins(&self, group: usize) -> bool {
        if group > 0 {
            let before = self.groups[group].before;
            return matches!(before, Separator::Space | Separator::Bracket);
        }
        let start = self.groups[0].start;
        match start.checked_sub(1).map(|at| self.bytes[at]) {
            Some(b'-' | b'/') => !word_before(self.text, start - 1),
            Some(b'.' | b',') => start < 2 || !self.bytes[start - 2].is_ascii_digit(),
            _ => !word_before(self.text, start),
        }
    }
}

/// Looks at the digits that begin here; returns where to look on.
pub(super) fn look(text: &str, at: usize, from: usize, found: &mut Vec<Found>) -> usize {
    let bytes = text.as_bytes();
    if word_before(text, at) {
        // Digits in a word: an account number, or nothing. The digits that follow belong to the word too.
        if let Some((start, end)) = iban::at(text, at) {
            return super::put(Kind::Iban, start, end, from, found);
        }
        return at + digits_at(&bytes[at..]);
    }
    let mut groups = [Group {
        start: 0,
        end: 0,
        before: Separator::Space,
    }; GROUPS];
    let (count, on) = collect(text, at, &mut groups);
    let mut run = Run {
        text,
        bytes,
        groups: &groups[..count],
        fresh: 0,
    };
    let mut group = 0;
    while group < count {
        match at_group(&run, group) {
            Step::Is(kind, start, end, last) => {
                found.push(Found { kind, start, end });
                group = last + 1;
                run.fresh = group;
            }
            Step::Date(last) => {
                group = last + 1;
                run.fresh = group;
            }
            Step::Nothing => group += 1,
        }
    }
    let last = found.last().map_or(0, |last| last.end);
    on.max(last)
}

enum Step {
    /// A find of this kind, start and end, that ends with this group.
    Is(Kind, usize, usize, usize),
    /// A date that ends with this group.
    Date(usize),
    /// Nothing that begins with this group.
    Nothing,
}

fn at_group(run: &Run<'_>, first: usize) -> Step {
    let is =
        |kind, last: usize| Step::Is(kind, run.groups[first].start, run.groups[last].end, last);
    if let Some(last) = date(run, first) {
        return Step::Date(last);
    }
    if run.begins(first) {
        if let Some(last) = ip(run, first) {
            return is(Kind::Ip, last);
        }
        if let Some(last) = card(run, first) {
            return is(Kind::Card, last);
        }
        if let Some(last) = ssn(run, first) {
            return is(Kind::Ssn, last);
        }
    }
    // A telephone number has no length of its own: it ends before what is known by its form.
    let known = |group: &usize| {
        run.begins(*group) && (ip(run, *group).is_some() || card(run, *group).is_some())
    };
    let end = (first + 1..run.groups.len()).find(known);
    let run = Run {
        groups: &run.groups[..end.unwrap_or(run.groups.len())],
        ..*run
    };
    match phone::at(&run, first) {
        Some((start, end, last)) => Step::Is(Kind::Phone, start, end, last),
        None => Step::Nothing,
    }
}

/// Collects the groups of a run; returns how many, and where the run ends.
fn collect(text: &str, at: usize, groups: &mut [Group; GROUPS]) -> (usize, usize) {
    let bytes = text.as_bytes();
    let (mut count, mut start, mut before) = (0, at, Separator::Space);
    loop {
        let end = start + digits_at(&bytes[start..]);
        if word_at(text, end) && !extension_follows(&bytes[end..]) {
            return (count, end);
        }
        groups[count] = Group { start, end, before };
        count += 1;
        if count == GROUPS {
            return (count, end);
        }
        match separator(&bytes[end..]) {
            Some((length, separator)) => (start, before) = (end + length, separator),
            None => return (count, end),
        }
    }
}

fn digits_at(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// `x12` behind a telephone number.
fn extension_follows(bytes: &[u8]) -> bool {
    matches!(bytes, [b'x' | b'X', b'0'..=b'9', ..])
}

/// A space or dash that is not ASCII.
fn wide_separator(bytes: &[u8]) -> Option<(usize, Separator)> {
    match bytes {
        [0xc2, 0xa0, ..] => Some((2, Separator::Space)),
        [0xe2, 0x80, 0x89 | 0xaf, ..] => Some((3, Separator::Space)),
        [0xe2, 0x80, 0x90..=0x93, ..] => Some((3, Separator::Dash)),
        _ => None,
    }
}

/// A separator of up to three signs with a digit behind it: its length, and what it is.
fn separator(bytes: &[u8]) -> Option<(usize, Separator)> {
    let (mut at, mut signs, mut kind) = (0, 0, None);
    while signs < 4 {
        let (length, sign) = match *bytes.get(at)? {
            b'0'..=b'9' => return kind.map(|kind| (at, kind)),
            b' ' | b'\t' => (1, Separator::Space),
            b'-' => (1, Separator::Dash),
            b'.' => (1, Separator::Dot),
            b'/' => (1, Separator::Slash),
            b'(' | b')' => (1, Separator::Bracket),
            _ => wide_separator(&bytes[at..])?,
        };
        kind = match (kind, sign) {
            (None | Some(Separator::Space), sign) => Some(sign),
            (Some(Separator::Bracket), _) | (_, Separator::Bracket) => Some(Separator::Bracket),
            // The end of a sentence.
            (Some(Separator::Dot), Separator::Space) => return None,
            (kind, Separator::Space) => kind,
            (Some(known), sign) if known == sign => return None,
            _ => return None,
        };
        at += length;
        signs += 1;
    }
    None
}

/// A date that begins at a group; its last group.
fn date(run: &Run<'_>, first: usize) -> Option<usize> {
    let last = first + 2;
    if last >= run.groups.len()
        || !run.even(first, last)
        || run.groups[last].before == Separator::Bracket
    {
        return None;
    }
    let part = |group: usize| run.digits(group).parse::<u32>().unwrap_or(u32::MAX);
    let length = |group: usize| run.groups[group].len();
    let (a, b, c) = (part(first), part(first + 1), part(last));
    let short = length(first + 1) <= 2;
    let day = |day: u32| (1..=31).contains(&day);
    let month = |month: u32| (1..=12).contains(&month);
    let year = |year: u32| (1900..=2099).contains(&year);
    let big = length(first) == 4 && length(last) <= 2 && year(a) && month(b) && day(c);
    let small = length(first) <= 2
        && ((length(last) == 4 && year(c))
            || (length(last) == 2 && run.groups[last].before == Separator::Slash))
        && ((month(a) && day(b)) || (day(a) && month(b)));
    (short && (big || small)).then_some(last)
}

fn ip(run: &Run<'_>, first: usize) -> Option<usize> {
    let last = first + 3;
    let dotted = last < run.groups.len()
        && run.groups[first + 1..=last]
            .iter()
            .all(|group| is_tight_dot(run, group));
    if !dotted
        || run
            .groups
            .get(last + 1)
            .is_some_and(|next| next.before == Separator::Dot)
    {
        return None;
    }
    let parts = (first..=last).map(|group| run.digits(group));
    let is = address::is_v4(parts)
        && !has_before(
            run.text,
            run.groups[first].start,
            &[b"version", b"release", b"build"],
        );
    is.then_some(last)
}

fn is_tight_dot(run: &Run<'_>, group: &Group) -> bool {
    group.before == Separator::Dot && run.bytes[..group.start].ends_with(b".")
}

/// A card number that begins at a group: one group, or several with the same sign between.
fn card(run: &Run<'_>, first: usize) -> Option<usize> {
    let mut digits = [0u8; 19];
    let (mut count, mut best) = (0, None);
    for last in first..run.groups.len().min(first + 5) {
        let group = run.digits(last).as_bytes();
        let single = last == first;
        if count + group.len() > digits.len() || (!single && !(2..=7).contains(&group.len())) {
            break;
        }
        if !single && (run.groups[first].len() < 4 || !run.even(first, last)) {
            break;
        }
        if !single
            && matches!(
                run.groups[last].before,
                Separator::Slash | Separator::Bracket
            )
        {
            break;
        }
        digits[count..count + group.len()].copy_from_slice(group);
        count += group.len();
        let said = || {
            has_before(
                run.text,
                run.groups[first].start,
                &[b"card", b"visa", b"mastercard", b"amex"],
            )
        };
        if card::is_card(&digits[..count], said) {
            let end = run.groups[last].end;
            if run.bytes.get(end) == Some(&b'-')
                && word_at(run.text, end + 1)
                && last + 1 == run.groups.len()
            {
                break;
            }
            // Sixteen digits before any other number of them: what follows may be a date or a security code.
            let done = count == 16;
            best = Some(last);
            if done {
                break;
            }
        }
    }
    best
}

/// A US social security number: `123-45-6789`; with other signs or none only where the text says so. Areas 000, 666
/// and from 900, group 00 and serial 0000 are never issued.
fn ssn(run: &Run<'_>, first: usize) -> Option<usize> {
    const SAID: [&[u8]; 3] = [b"ssn", b"social", b"soc sec"];
    let start = run.groups[first].start;
    let said = || has_before(run.text, start, &SAID);
    if run.groups[first].len() == 9 {
        let digits = run.digits(first);
        return (is_ssn(&digits[..3], &digits[3..5], &digits[5..]) && said()).then_some(first);
    }
    let last = first + 2;
    let lengths = run.groups.get(first..=last)?.iter().map(Group::len);
    if !lengths.eq([3, 2, 4])
        || !run.even(first, last)
        || !is_ssn(run.digits(first), run.digits(first + 1), run.digits(last))
    {
        return None;
    }
    let dashed = run.groups[last].before == Separator::Dash;
    let goes_on = run
        .groups
        .get(last + 1)
        .is_some_and(|next| next.before != Separator::Space);
    (!goes_on && (dashed || said())).then_some(last)
}

fn is_ssn(area: &str, group: &str, serial: &str) -> bool {
    area != "000" && area != "666" && !area.starts_with('9') && group != "00" && serial != "0000"
}
