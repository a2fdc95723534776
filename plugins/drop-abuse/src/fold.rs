//! Folds letters to what they are read as.

/// What a character is to the word list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folded {
    /// A letter of a word.
    Letter(char),
    /// A digit; some are read as letters.
    Digit(char),
    /// A sign that is read as a letter.
    Sign(char),
    /// A character that is a word by itself, as in scripts that do not put spaces between words.
    Alone(char),
    /// Not seen by a reader: combining marks, zero-width characters.
    Nothing,
    /// Between words.
    Border,
}

/// Folds a character: upper to lower case, accents off, full width and look-alikes to Latin, digits and signs to the
/// letter they are read as. `1` is left as it is: it is read as `i` or `l`.
pub(crate) fn fold(letter: char) -> Folded {
    match letter {
        'a'..='z' => Folded::Letter(letter),
        'A'..='Z' => Folded::Letter(letter.to_ascii_lowercase()),
        '0' => Folded::Digit('o'),
        '1' => Folded::Digit('1'),
        '3' => Folded::Digit('e'),
        '4' => Folded::Digit('a'),
        '5' => Folded::Digit('s'),
        '7' => Folded::Digit('t'),
        '2' | '6' | '8' | '9' => Folded::Digit(letter),
        '@' => Folded::Sign('a'),
        '$' => Folded::Sign('s'),
        '\0'..='\u{7f}' => Folded::Border,
        _ => fold_wide(letter),
    }
}

fn fold_wide(letter: char) -> Folded {
    match letter {
        // Soft hyphen, zero-width characters, direction marks, word joiner, variation selectors, byte order mark.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' => Folded::Nothing,
        // Combining marks.
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}' => Folded::Nothing,
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => match char::from_u32(letter as u32 - 0xfee0) {
            Some(narrow) => fold(narrow),
            None => Folded::Border,
        },
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}' => Folded::Alone(letter),
        _ if letter.is_alphabetic() => Folded::Letter(base(lower(letter))),
        _ if letter.is_numeric() => Folded::Digit(letter),
        _ => Folded::Border,
    }
}

fn lower(letter: char) -> char {
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        // The only letter with two is a capital I with a dot.
        _ => 'i',
    }
}

/// The plain letter beneath an accent, and the Latin letter a Cyrillic or Greek one looks the same as.
fn base(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' | 'ạ'..='ặ' | 'а' | 'α' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' | 'с' => 'c',
        'ď' | 'đ' | 'ð' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' | 'ẹ'..='ệ' | 'е' | 'ё' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' | 'ħ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' | 'ỉ'..='ị' | 'і' | 'ї' | 'ι' => 'i',
        'ĵ' | 'ј' => 'j',
        'ķ' | 'κ' => 'k',
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' | 'ọ'..='ợ' | 'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' | 'ſ' | 'ѕ' => 's',
        'ţ' | 'ť' | 'ŧ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ụ'..='ự' => 'u',
        'ŵ' => 'w',
        'х' => 'x',
        'ý' | 'ÿ' | 'ŷ' | 'ỳ'..='ỹ' | 'у' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}
