//! E-mail addresses.

use super::is_word;

/// The longest part before the `@` that is looked at, in characters.
const LOCAL: usize = 64;
/// The longest domain, in characters.
const DOMAIN: usize = 255;

/// The address around an `@`: its first byte and the byte after its last.
pub(super) fn at(text: &str, at: usize) -> Option<(usize, usize)> {
    let start = local(text, at)?;
    let end = domain(text, at + 1)?;
    Some((start, end))
}

/// Where the local part begins. Signs that are legal but stand between addresses and other things more often (`=`,
/// `/`, `?`, `|`, `&`) do not count.
fn local(text: &str, at: usize) -> Option<usize> {
    if text[..at].ends_with('.') {
        return None;
    }
    let letters = text[..at].char_indices().rev().take(LOCAL);
    let local = letters.take_while(|&(_, letter)| is_local(letter));
    // Quotes, dots and the like in front belong to the sentence: it begins with the foremost letter or digit.
    let begins = local.filter(|&(_, letter)| is_word(letter) || matches!(letter, '+' | '#'));
    begins.last().map(|(start, _)| start)
}

fn is_local(letter: char) -> bool {
    is_word(letter)
        || matches!(
            letter,
            '.' | '%' | '+' | '-' | '!' | '#' | '$' | '\'' | '*' | '^' | '`' | '~' | '{' | '}'
        )
}

/// Where the domain ends: labels of letters, digits and hyphens, at least two, the last a name.
fn domain(text: &str, start: usize) -> Option<usize> {
    let mut end = None;
    let mut labels = 0;
    let mut label = start;
    let rest = text[start..].char_indices().take(DOMAIN);
    let stop = rest
        .clone()
        .find(|&(_, letter)| !(is_domain(letter) || letter == '.'));
    let cut = rest
        .last()
        .map_or(start, |(at, letter)| start + at + letter.len_utf8());
    let stop = stop.map_or(cut, |(at, _)| start + at);
    for part in text[start..stop].split('.') {
        let name = part.trim_end_matches('-');
        if name.is_empty() || name.starts_with('-') {
            break;
        }
        labels += 1;
        let is_name =
            name.chars().nth(1).is_some() && !name.bytes().all(|byte| byte.is_ascii_digit());
        if labels >= 2 && is_name {
            end = Some(label + name.len());
        }
        if name.len() < part.len() {
            break;
        }
        label += part.len() + 1;
    }
    end
}

fn is_domain(letter: char) -> bool {
    (is_word(letter) && letter != '_') || letter == '-'
}
