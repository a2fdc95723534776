//! A string of JSON as it comes, character by character.

/// What stands for half of a pair.
const HALF: char = '\u{fffd}';

/// A string that is open.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    pub(super) is_name: bool,
    escape: Escape,
    /// The first half of a pair.
    half: Option<u32>,
}

#[derive(Clone, Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// The number so far, and how many digits it has.
    Unicode(u32, u8),
}

/// What a character of a string is.
#[derive(Default)]
pub(super) struct Read {
    /// Characters that it ends, as they read: a half that stays one, and two more at most.
    pub(super) texts: [Option<char>; 3],
    /// The string ends with it.
    pub(super) closes: bool,
}

impl Open {
    pub(super) fn of(is_name: bool) -> Open {
        Open {
            is_name,
            ..Open::default()
        }
    }

    /// Reads the next character.
    pub(super) fn read(&mut self, character: char) -> Read {
        let mut read = Read::default();
        match std::mem::take(&mut self.escape) {
            Escape::None => self.plain(character, &mut read),
            Escape::Backslash if character == 'u' => self.escape = Escape::Unicode(0, 0),
            Escape::Backslash => {
                read.texts[0] = self.half.take().map(|_| HALF);
                read.texts[1] = Some(match character {
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
            }
            Escape::Unicode(before, digits) => match character.to_digit(16) {
                Some(digit) if digits < 3 => {
                    self.escape = Escape::Unicode(before << 4 | digit, digits + 1);
                }
                Some(digit) => self.unit(before << 4 | digit, &mut read),
                None => {
                    let half = self.half.take().map(|_| HALF);
                    self.plain(character, &mut read);
                    // What goes on after the escape that is none stands behind it.
                    read.texts = [half, Some(HALF), read.texts[1]];
                }
            },
        }
        read
    }

    fn plain(&mut self, character: char, read: &mut Read) {
        match character {
            '\\' => self.escape = Escape::Backslash,
            other => {
                read.texts[0] = self.half.take().map(|_| HALF);
                match other {
                    '"' => read.closes = true,
                    other => read.texts[1] = Some(other),
                }
            }
        }
    }

    /// An escape is whole: a character, or half of a pair.
    fn unit(&mut self, unit: u32, read: &mut Read) {
        let before = self.half.take();
        match (before, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let point = 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00);
                read.texts[0] = char::from_u32(point);
            }
            (_, 0xd800..=0xdbff) => {
                read.texts[0] = before.map(|_| HALF);
                self.half = Some(unit);
            }
            _ => {
                read.texts[0] = before.map(|_| HALF);
                read.texts[1] = Some(char::from_u32(unit).unwrap_or(HALF));
            }
        }
    }
}
