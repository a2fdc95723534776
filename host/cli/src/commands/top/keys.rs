//! Keys, of the bytes that a terminal sends for them.

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    /// The next view, or the one before.
    Next,
    Previous,
    /// A view by its number, from 0.
    View(usize),
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Sort,
    Pause,
    Help,
    /// Draw all of it again.
    Again,
}

/// Longest sequence of a key that means anything; of a longer one the rest is skipped.
const SEQUENCE: usize = 16;

/// What has come of a key so far: over a slow line its bytes may come one by one.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<u8>);

impl Keys {
    /// Bytes came: the keys that are whole now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|byte| self.byte(*byte)).collect()
    }

    fn byte(&mut self, byte: u8) -> Option<Key> {
        let is_begun = match self.0.as_slice() {
            [] => false,
            // Escape and a letter is that letter, pressed with Alt or after Escape.
            [_] => matches!(byte, b'[' | b'O'),
            _ => true,
        };
        if !is_begun {
            self.0.clear();
            if byte == 0x1b {
                self.0.push(byte);
                return None;
            }
            return letter(byte);
        }
        let is_last = self.0.len() > 1 && matches!(byte, 0x40..=0x7e);
        if !is_last {
            // A control character is in no sequence: whatever was begun is over.
            if byte < 0x20 {
                self.0.clear();
                return self.byte(byte);
            }
            if self.0.len() < SEQUENCE {
                self.0.push(byte);
            }
            return None;
        }
        let number = std::mem::take(&mut self.0);
        sequence(number.get(2..).unwrap_or_default(), byte)
    }
}

fn letter(byte: u8) -> Option<Key> {
    const CTRL_C: u8 = 3;
    const CTRL_L: u8 = 12;
    Some(match byte {
        b'q' | b'Q' | CTRL_C => Key::Quit,
        b'\t' => Key::Next,
        b'1'..=b'9' => Key::View(usize::from(byte - b'1')),
        b'k' => Key::Up,
        b'j' => Key::Down,
        b' ' => Key::PageDown,
        b'g' => Key::Top,
        b'G' => Key::Bottom,
        b's' => Key::Sort,
        b'p' => Key::Pause,
        b'h' | b'?' => Key::Help,
        CTRL_L => Key::Again,
        _ => return None,
    })
}

fn sequence(number: &[u8], last: u8) -> Option<Key> {
    Some(match (number, last) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'C') => Key::Next,
        (_, b'D') => Key::Previous,
        (_, b'Z') => Key::Previous,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Top,
        (_, b'F') | (b"4" | b"8", b'~') => Key::Bottom,
        (b"5", b'~') => Key::PageUp,
        (b"6", b'~') => Key::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_however_their_bytes_come() {
        let typed = b"q\tj\x1b[A\x1bOB\x1b[Z\x1b[6~\x1b[1;5C3G?\x03\x0c";
        let expected = [
            Key::Quit,
            Key::Next,
            Key::Down,
            Key::Up,
            Key::Down,
            Key::Previous,
            Key::PageDown,
            Key::Next,
            Key::View(2),
            Key::Bottom,
            Key::Help,
            Key::Quit,
            Key::Again,
        ];
        assert_eq!(Keys::default().take(typed), expected);
        let mut keys = Keys::default();
        let one_by_one: Vec<Key> = typed.chunks(1).flat_map(|byte| keys.take(byte)).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn what_is_no_key_does_nothing_and_takes_no_memory() {
        let mut keys = Keys::default();
        assert_eq!(keys.take("zxéß\u{7f}".as_bytes()), []);
        assert_eq!(
            keys.take(b"\x1b"),
            [],
            "it may be the beginning of an arrow"
        );
        assert_eq!(keys.take(b"q"), [Key::Quit]);
        let mut long = b"\x1b[".to_vec();
        long.extend(std::iter::repeat_n(b';', 1 << 20));
        assert_eq!(keys.take(&long), []);
        assert!(keys.0.len() <= SEQUENCE);
        assert_eq!(
            keys.take(b"\x03"),
            [Key::Quit],
            "Ctrl-C ends it whatever came before"
        );
    }
}
