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

const PHONE: [&[u8]; 48] = [
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
    b"reach me",
    b"reach us",
    b"reach him",
    b"reach her",
    b"reached at",
    b"reach at",
    b"contact",
    b"voicemail",
    b"message",
    b"messages",
    b"answering",
    b"landline",
    b"hotline",
    b"helpline",
    b"pager",
    b"registered",
    b"my number",
    b"your number",
    b"his number",
    b"her number",
    b"their number",
    b"our number",
    b"this number",
    b"new number",
    b"old number",
    b"num\xc3\xa9ro",
    b"n\xc3\xbamero",
];

/// Words that a number of another kind stands right behind, save for `number`, `no.`, `is` and the like between.
const OTHER: [&[u8]; 47] = [
    b"order",
    b"orders",
    b"invoice",
    b"ticket",
    b"account",
    b"zip",
    b"postal",
    b"postcode",
    b"reference",
    b"ref",
    b"tracking",
    b"case",
    b"card",
    b"parcel",
    b"package",
    b"address",
    b"street",
    b"serial",
    b"version",
    b"id",
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
    b"part",
    b"model",
    b"since",
    b"suite",
    b"apt",
    b"apartment",
    b"unit",
    b"box",
    b"room",
    b"route",
    b"policy",
    b"member",
    b"customer",
    b"shipment",
    b"booking",
];

/// Words that may stand between.
const BETWEEN: [&[u8]; 9] = [
    b"number", b"numbers", b"no", b"nr", b"num", b"is", b"was", b"code", b"id",
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

/// What is said before a number that begins at `start`, on its line: right before it, else anywhere.
pub(super) fn before(text: &str, start: usize) -> Said {
    let mut window = [0u8; BEFORE];
    let before = lower(line_before(&text.as_bytes()[..start]), &mut window);
    if is_tied(before) {
        Said::Other
    } else if has_any(before, &PHONE) {
        Said::Phone
    } else {
        Said::Nothing
    }
}

/// Whether a word right behind a number says that it is a telephone number.
pub(super) fn phone_behind(text: &str, end: usize) -> bool {
    let mut window = [0u8; BEHIND];
    let behind = lower(line_after(&text.as_bytes()[end..]), &mut window);
    let behind = behind.trim_ascii_start();
    let behind = behind.strip_prefix(b"(").unwrap_or(behind);
    PHONE_BEHIND.iter().any(|word| behind.starts_with(word))
}

/// Whether the text before a number ends with a word of another kind of number.
fn is_tied(mut before: &[u8]) -> bool {
    loop {
        let end = before
            .iter()
            .rposition(u8::is_ascii_alphabetic)
            .map_or(0, |at| at + 1);
        // A comma, a closing bracket or the like ends what was said.
        if before[end..]
            .iter()
            .any(|byte| matches!(byte, b',' | b';' | b')' | b'?' | b'!' | b'0'..=b'9'))
        {
            return false;
        }
        let start = before[..end]
            .iter()
            .rposition(|byte| !byte.is_ascii_alphabetic())
            .map_or(0, |at| at + 1);
        let word = &before[start..end];
        if OTHER.contains(&word) {
            return true;
        }
        if word.is_empty() || !BETWEEN.contains(&word) {
            return false;
        }
        before = &before[..start];
    }
}

/// Whether one of these words stands before a number, on its line.
pub(super) fn has_before(text: &str, start: usize, words: &[&[u8]]) -> bool {
    let mut window = [0u8; BEFORE];
    let before = lower(line_before(&text.as_bytes()[..start]), &mut window);
    has_any(before, words)
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

/// Whether one of these begins a word of a text.
fn has_any(text: &[u8], words: &[&[u8]]) -> bool {
    let begins = |at: &usize| *at == 0 || !text[at - 1].is_ascii_alphabetic();
    (0..text.len())
        .filter(begins)
        .any(|at| words.iter().any(|word| text[at..].starts_with(word)))
}
