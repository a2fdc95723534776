//! Words around a number that say what it is.

/// How far before a number a word counts, in bytes.
const BEFORE: usize = 48;
/// How far behind it, in bytes.
const BEHIND: usize = 14;

/// What the nearest telling word says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// That it is a telephone number.
    Phone,
    /// That it is something else: an order, an address, an amount.
    Other,
    /// Nothing.
    Nothing,
}

const PHONE: [&[u8]; 36] = [
    b"phone",
    b"telef",
    b"tel:",
    b"tel.",
    b"tel ",
    b"tlf",
    b"call",
    b"calling",
    b"mobile",
    b"mobil",
    b"m\xc3\xb3vil",
    b"cell",
    b"handy",
    b"fax",
    b"sms",
    b"text me",
    b"texted",
    b"texting",
    b"whatsapp",
    b"dial",
    b"ring me",
    b"reach ",
    b"contact",
    b"voicemail",
    b"messages to",
    b"message to",
    b"answering",
    b"landline",
    b"hotline",
    b"pager",
    b"num\xc3\xa9ro",
    b"n\xc3\xbamero",
    b"my number",
    b"his number",
    b"her number",
    b"number is",
];

const OTHER: [&[u8]; 33] = [
    b"order",
    b"invoice",
    b"ticket",
    b"account",
    b"zip",
    b"postal",
    b"postcode",
    b"reference",
    b"tracking",
    b"case",
    b"card",
    b"parcel",
    b"package",
    b"address",
    b"street",
    b"serial",
    b"version",
    b"id ",
    b"id:",
    b"isbn",
    b"sku",
    b"ssn",
    b"security",
    b"passport",
    b"license",
    b"licence",
    b"iban",
    b"transaction",
    b"item",
    b"product",
    b"article",
    b"since",
    b"ref ",
];

const PHONE_BEHIND: [&[u8]; 10] = [
    b"office",
    b"fax",
    b"mobile",
    b"cell",
    b"home",
    b"work",
    b"landline",
    b"direct",
    b"phone",
    b"ext",
];

/// What is said of a number at `start..end`, on its line: a word right behind it, else the nearest one before.
pub(super) fn of(text: &str, start: usize, end: usize) -> Said {
    let bytes = text.as_bytes();
    let mut window = [0u8; BEHIND];
    let behind = lower(line_after(&bytes[end..]), &mut window);
    let behind = behind.trim_ascii_start();
    let behind = behind.strip_prefix(b"(").unwrap_or(behind);
    if PHONE_BEHIND.iter().any(|word| behind.starts_with(word)) {
        return Said::Phone;
    }
    let mut window = [0u8; BEFORE];
    let before = lower(line_before(&bytes[..start]), &mut window);
    let phone = PHONE.iter().filter_map(|word| last(before, word)).max();
    let other = OTHER.iter().filter_map(|word| last(before, word)).max();
    match (phone, other) {
        (None, None) => Said::Nothing,
        (phone, other) if phone > other => Said::Phone,
        _ => Said::Other,
    }
}

/// Whether one of these words stands before a number, on its line.
pub(super) fn has_before(text: &str, start: usize, words: &[&[u8]]) -> bool {
    let mut window = [0u8; BEFORE];
    let before = lower(line_before(&text.as_bytes()[..start]), &mut window);
    words.iter().any(|word| last(before, word).is_some())
}

fn line_before(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[bytes.len().saturating_sub(BEFORE)..];
    match bytes.iter().rposition(|&byte| byte == b'\n') {
        Some(at) => &bytes[at + 1..],
        None => bytes,
    }
}

fn line_after(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(BEHIND)];
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(at) => &bytes[..at],
        None => bytes,
    }
}

fn lower<'a>(bytes: &[u8], window: &'a mut [u8]) -> &'a [u8] {
    let window = &mut window[..bytes.len()];
    window.copy_from_slice(bytes);
    window.make_ascii_lowercase();
    window
}

/// Where a word ends that stands last; it begins a word.
fn last(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let found = bytes
        .windows(word.len())
        .enumerate()
        .rev()
        .find(|(at, window)| *window == word && (*at == 0 || !bytes[at - 1].is_ascii_alphabetic()));
    found.map(|(at, _)| at + word.len())
}
