//! International bank account numbers (ISO 13616).

use super::{word_at, word_before};

/// Country and length, from the SWIFT IBAN registry.
const LENGTHS: [(&[u8; 2], usize); 89] = [
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BI", 27),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DJ", 27),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FK", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HN", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MN", 20),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NI", 28),
    (b"NL", 18),
    (b"NO", 15),
    (b"OM", 23),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"RU", 33),
    (b"SA", 24),
    (b"SC", 31),
    (b"SD", 18),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"SO", 23),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
    (b"YE", 30),
];

/// The account number whose two check digits begin at a digit; grouped by spaces or hyphens or not.
pub(super) fn at(text: &str, digit: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let start = digit.checked_sub(2)?;
    let country = [
        bytes[start].to_ascii_uppercase(),
        bytes[start + 1].to_ascii_uppercase(),
    ];
    let found = LENGTHS
        .binary_search_by_key(&&country, |(country, _)| country)
        .ok()?;
    let length = LENGTHS[found].1;
    if word_before(text, start) {
        return None;
    }
    let mut letters = [0u8; 34];
    let (mut count, mut at) = (0, start);
    while count < length {
        match *bytes.get(at)? {
            byte if byte.is_ascii_alphanumeric() => {
                letters[count] = byte.to_ascii_uppercase();
                count += 1;
            }
            // A separator stands alone, between letters.
            b' ' | b'-' if bytes[at - 1].is_ascii_alphanumeric() => {}
            _ => return None,
        }
        at += 1;
    }
    let ends = !word_at(text, at);
    (ends && letters[2..4].iter().all(u8::is_ascii_digit) && mod_97(&letters[..length]) == 1)
        .then_some((start, at))
}

/// The remainder of ISO 7064 MOD 97-10: country and check digits moved to the end, letters read as 10 to 35.
fn mod_97(letters: &[u8]) -> u32 {
    letters[4..]
        .iter()
        .chain(&letters[..4])
        .fold(0, |rest, &letter| {
            if letter.is_ascii_digit() {
                (rest * 10 + u32::from(letter - b'0')) % 97
            } else {
                (rest * 100 + u32::from(letter - b'A') + 10) % 97
            }
        })
}
