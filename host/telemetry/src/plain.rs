//! Text of others (operators, components, records) as it may be shown: on one line, of bounded length, and without
//! anything that moves a terminal's cursor, turns text around or hides it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text on one line that changes nothing around it: control characters, line ends and what reverses or hides text
/// are escaped as in a Rust string. Of a text that would be longer than `limit` bytes the beginning is kept, and the
/// length of the whole is said.
pub fn plain(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit && is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len().min(limit) + 32);
    for character in text.chars() {
        let end = shown.len();
        if disturbs(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        if shown.len() > limit {
            shown.truncate(end);
            // Writing to a string cannot fail.
            let _ = write!(shown, "… ({} bytes in all)", text.len());
            break;
        }
    }
    Cow::Owned(shown)
}

/// JSON text that changes nothing around it: the same escaped as JSON has it, so that it says what it said. Within strings
/// is the only place where JSON has such characters.
pub fn plain_json(json: &str) -> Cow<'_, str> {
    if is_plain(json) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 32);
    for character in json.chars() {
        if disturbs(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a text can be shown as it is: it has no control characters, no line ends and nothing that reverses or hides
/// text.
pub fn is_plain(text: &str) -> bool {
    // Most texts are of what a typewriter had.
    let typed = |byte: &u8| (0x20..0x7f).contains(byte);
    text.as_bytes().iter().all(typed) || !text.chars().any(disturbs)
}

fn disturbs(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Ends of lines and paragraphs.
            '\u{2028}' | '\u{2029}'
            // Marks, embeddings, overrides and isolates of writing direction.
            | '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // What cannot be seen: soft hyphens, spaces without width, fillers, tags. The joiners that scripts need stay.
            | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_control_of_the_terminal_stays_as_it_is() {
        for text in ["", "redact-pii 1.2.3", "C:\\a \"b\"", "Grüße, नमस्ते 👩‍🚀"]
        {
            assert!(matches!(plain(text, 64), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn what_moves_a_cursor_ends_a_line_or_turns_text_is_escaped() {
        let hostile = "a\x1b[2J\r\n\tb\u{202e}c\u{2028}\u{9b}1m\0\u{7f}\u{200b}\u{e0041}";
        assert_eq!(
            plain(hostile, 200),
            "a\\u{1b}[2J\\r\\n\\tb\\u{202e}c\\u{2028}\\u{9b}1m\\u{0}\\u{7f}\\u{200b}\\u{e0041}"
        );
        assert!(!is_plain(hostile) && is_plain(&plain(hostile, 200)));
    }

    #[test]
    fn json_says_the_same_and_moves_no_cursor() {
        let json = "{\"a\": \"\\u001b[2J \u{9b}1m\u{7f}\u{202e}b\u{e0041} Grüße\"}";
        let shown = plain_json(json);
        assert!(!is_plain(json) && is_plain(&shown), "{shown}");
        assert_eq!(
            shown,
            "{\"a\": \"\\u001b[2J \\u009b1m\\u007f\\u202eb\\udb40\\udc41 Grüße\"}"
        );
        assert!(matches!(plain_json("{\"a\": 1}"), Cow::Borrowed(_)));
    }

    #[test]
    fn fillers_that_cannot_be_seen_are_escaped() {
        for filler in "\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{3164}\u{ffa0}".chars() {
            assert_eq!(
                plain(&filler.to_string(), 64),
                filler.escape_default().to_string()
            );
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character_and_its_length_is_said() {
        assert_eq!(plain(&"é".repeat(100), 5), "éé… (200 bytes in all)");
        assert_eq!(plain(&"\x1b".repeat(3), 8), "\\u{1b}… (3 bytes in all)");
        let long = "x".repeat(1 << 20);
        assert_eq!(
            plain(&long, 4096).len(),
            4096 + "… (1048576 bytes in all)".len()
        );
    }
}
