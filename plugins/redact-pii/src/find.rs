//! Finds personal data in a text.
//!
//! One pass over the bytes: digits, `@` and `:` begin a closer look, everything else is skipped. A look is bounded, so
//! no text takes more than linear time. Nothing here allocates but the list of what was found.

mod address;
mod card;
mod context;
mod email;
mod iban;
mod number;
mod phone;
mod url;

use tidegate_sdk::Configuration;

/// A kind of personal data that is recognised by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Configuration)]
pub enum Kind {
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// A payment card number: known issuer, right length, Luhn check digit.
    Card,
    /// An international bank account number: right length for its country, right check digits.
    Iban,
    /// A US social security number.
    Ssn,
    /// An IPv4 or IPv6 address.
    Ip,
    /// User and password in a URL.
    UrlCredentials,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 7] = [
        Kind::Email,
        Kind::Phone,
        Kind::Card,
        Kind::Iban,
        Kind::Ssn,
        Kind::Ip,
        Kind::UrlCredentials,
    ];

    /// Its name in a placeholder.
    pub const fn label(self) -> &'static str {
        match self {
            Kind::Email => "EMAIL",
            Kind::Phone => "PHONE",
            Kind::Card => "CARD",
            Kind::Iban => "IBAN",
            Kind::Ssn => "SSN",
            Kind::Ip => "IP",
            Kind::UrlCredentials => "URL_CREDENTIALS",
        }
    }
}

/// A choice of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds(0x7f);

    /// These kinds.
    pub fn of(kinds: &[Kind]) -> Kinds {
        Kinds(kinds.iter().fold(0, |bits, &kind| bits | 1 << kind as u8))
    }

    /// Whether a kind is chosen.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// Personal data found in a text: bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: Kind,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

/// What a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Nothing,
    Digit,
    At,
    Colon,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Nothing; 256];
    let mut digit = b'0';
    while digit <= b'9' {
        classes[digit as usize] = Class::Digit;
        digit += 1;
    }
    classes[b'@' as usize] = Class::At;
    classes[b':' as usize] = Class::Colon;
    classes
};

/// Appends what is found in a text, in order and without overlap. Kinds that are not chosen are recognised all the
/// same, so that a card number is no telephone number, but left out.
pub fn find(text: &str, kinds: Kinds, found: &mut Vec<Found>) {
    let from = found.len();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        at = match CLASSES[usize::from(bytes[at])] {
            Class::Nothing => at + 1,
            Class::Digit => number::look(text, at, from, found),
            Class::At => match email::at(text, at) {
                Some((start, end)) => put(Kind::Email, start, end, from, found),
                None => at + 1,
            },
            Class::Colon => match url::credentials_at(text, at) {
                // Behind the `@`, which else would look like that of an address.
                Some((start, end)) => put(Kind::UrlCredentials, start, end, from, found) + 1,
                None => match address::v6_at(text, at) {
                    Some((start, end)) => put(Kind::Ip, start, end, from, found),
                    None => at + 1,
                },
            },
        };
    }
    if kinds != Kinds::ALL {
        let mut index = 0;
        found.retain(|one| {
            index += 1;
            index <= from || kinds.has(one.kind)
        });
    }
}

/// Adds a find that reaches back over others: those it overlaps become part of it, with what of them stands before it.
/// Returns where to look on.
fn put(kind: Kind, mut start: usize, end: usize, from: usize, found: &mut Vec<Found>) -> usize {
    while found.len() > from
        && let Some(last) = found.pop_if(|last| last.end > start)
    {
        start = start.min(last.start);
    }
    found.push(Found { kind, start, end });
    end
}

/// Whether a character belongs to a word. Those of scripts without spaces between words (CJK) stand for themselves.
fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
        || letter == '_'
        || (!letter.is_ascii() && letter < '\u{2e80}' && letter.is_alphanumeric())
}

/// Whether a word stands right before this byte. The letter of an escape, as `\n`, is none: a text may be the source of
/// another, as a list that a program printed.
fn word_before(text: &str, at: usize) -> bool {
    match text.as_bytes()[..at] {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => false,
        _ => text[..at].chars().next_back().is_some_and(is_word),
    }
}

/// Whether a word goes on at this byte.
fn word_at(text: &str, at: usize) -> bool {
    text[at..].chars().next().is_some_and(is_word)
}

#[cfg(test)]
mod tests;
