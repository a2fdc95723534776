//! Patterns of bounded length: characters, classes and counts, one behind the other.

/// Most characters that a pattern may match.
pub(crate) const LONGEST: usize = 256;

/// A pattern: elements in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    elements: Vec<Element>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Element {
    class: Class,
    least: usize,
    most: usize,
}

/// Which characters an element takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Class {
    /// This one in any case, in lower case.
    Letter(String),
    Digit,
    Word,
    Space,
    Any,
    /// Ranges, and whether all others are meant.
    Set(Vec<(char, char)>, bool),
}

/// What a pattern makes of a text from some place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes of the longest match.
    pub(crate) matched: Option<usize>,
    /// Whether more text could make another or a longer match.
    pub(crate) open: bool,
}

impl Pattern {
    /// A text as it is, in any case.
    pub(crate) fn literal(text: &str) -> Result<Pattern, String> {
        let elements = text.chars().map(|letter| Element {
            class: Class::letter(letter),
            least: 1,
            most: 1,
        });
        Pattern::of(elements.collect())
    }

    /// `\d{4}-[A-F0-9]{2,8}`: characters, `.`, `\d`, `\w`, `\s`, classes in brackets, each with `?`, `{N}` or `{N,M}`. What
    /// has no bound cannot be written.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        let mut rest = text.chars().peekable();
        let mut elements = Vec::new();
        while let Some(character) = rest.next() {
            let class = match character {
                '.' => Class::Any,
                '[' => set(&mut rest)?,
                '\\' => escaped(rest.next().ok_or("it ends with \\")?)?,
                '*' | '+' => {
                    return Err(format!("{character} has no bound; write {{1,32}}"));
                }
                '(' | ')' | '|' | '^' | '$' | '{' | '}' | ']' | '?' => {
                    return Err(format!(
                        "{character} stands for nothing here; as itself it is \\{character}"
                    ));
                }
                other => Class::letter(other),
            };
            let (least, most) = match rest.peek() {
                Some('?') => {
                    rest.next();
                    (0, 1)
                }
                Some('{') => {
                    rest.next();
                    let count: String = rest.by_ref().take_while(|&next| next != '}').collect();
                    counts(&count)
                        .ok_or_else(|| format!("{{{count}}} is not as {{2}} or {{2,8}}"))?
                }
                _ => (1, 1),
            };
            elements.push(Element { class, least, most });
        }
        Pattern::of(elements)
    }

    fn of(elements: Vec<Element>) -> Result<Pattern, String> {
        let most: usize = elements.iter().map(|element| element.most).sum();
        if elements.iter().all(|element| element.least == 0) {
            return Err("it matches an empty text".to_owned());
        }
        match most > LONGEST {
            true => Err(format!(
                "it matches up to {most} characters, limit {LONGEST}"
            )),
            false => Ok(Pattern { elements }),
        }
    }

    /// Looks at the text from its beginning on.
    pub(crate) fn look(&self, text: &str) -> Found {
        let mut states = vec![(0, 0)];
        self.skip(&mut states);
        let end = self.elements.len();
        let mut matched = None;
        for (at, character) in text.char_indices() {
            let mut next = Vec::with_capacity(states.len());
            for &(element, count) in &states {
                if let Some(known) = self.elements.get(element)
                    && count < known.most
                    && known.class.has(character)
                {
                    next.push((element, count + 1));
                }
            }
            self.skip(&mut next);
            if next.is_empty() {
                return Found {
                    matched,
                    open: false,
                };
            }
            if next.iter().any(|&(element, _)| element == end) {
                matched = Some(at + character.len_utf8());
            }
            states = next;
        }
        Found {
            matched,
            // Whatever comes, a pattern that is through takes no more.
            open: states.iter().any(|&(element, count)| {
                self.elements
                    .get(element)
                    .is_some_and(|known| count < known.most)
            }),
        }
    }

    /// Adds the states that are reached without a character.
    fn skip(&self, states: &mut Vec<(usize, usize)>) {
        let mut at = 0;
        while let Some(&(element, count)) = states.get(at) {
            at += 1;
            let is_enough = self
                .elements
                .get(element)
                .is_some_and(|known| count >= known.least);
            if is_enough && !states.contains(&(element + 1, 0)) {
                states.push((element + 1, 0));
            }
        }
    }
}

impl Class {
    fn letter(letter: char) -> Class {
        Class::Letter(letter.to_lowercase().collect())
    }

    fn has(&self, character: char) -> bool {
        match self {
            Class::Letter(letter) => character.to_lowercase().eq(letter.chars()),
            Class::Digit => character.is_ascii_digit(),
            Class::Word => character.is_alphanumeric() || character == '_',
            Class::Space => character.is_whitespace(),
            Class::Any => true,
            Class::Set(ranges, others) => {
                let is_in = |&(from, to): &(char, char)| (from..=to).contains(&character);
                ranges.iter().any(is_in) != *others
            }
        }
    }
}

fn escaped(character: char) -> Result<Class, String> {
    Ok(match character {
        'd' => Class::Digit,
        'w' => Class::Word,
        's' => Class::Space,
        'n' => Class::letter('\n'),
        't' => Class::letter('\t'),
        other if other.is_alphanumeric() => return Err(format!("\\{other} stands for nothing")),
        other => Class::letter(other),
    })
}

fn set(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Class, String> {
    let others = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let from = match rest.next().ok_or("a [ has no ]")? {
            ']' if ranges.is_empty() => return Err("[] has no characters".to_owned()),
            ']' => return Ok(Class::Set(ranges, others)),
            '\\' => rest.next().ok_or("it ends with \\")?,
            other => other,
        };
        let mut to = from;
        if rest.next_if_eq(&'-').is_some() {
            match rest.next_if(|&next| next != ']') {
                Some(end) => to = end,
                None => ranges.push(('-', '-')),
            }
        }
        if from > to {
            return Err(format!("{from}-{to} is the wrong way round"));
        }
        ranges.push((from, to));
    }
}

fn counts(text: &str) -> Option<(usize, usize)> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let number = |text: &str| text.parse().ok().filter(|&number| number <= LONGEST);
    let (least, most) = (number(least)?, number(most)?);
    (least <= most && most > 0).then_some((least, most))
}
