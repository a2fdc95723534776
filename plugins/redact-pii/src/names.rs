//! Names given in one member of a record, found again in its texts.

use std::ops::Range;

/// Values of named members and their parts, in lower case, with the label of the member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Words of each name, and its label; longer names first.
    names: Vec<(Vec<String>, String)>,
}

/// Parts of a name shorter than this are not looked for alone.
const SHORTEST_PART: usize = 3;

impl Names {
    /// Adds a member's value: looked for as a whole, and each of its words alone.
    pub(crate) fn add(&mut self, label: &str, value: &str) {
        let words: Vec<String> = words(value)
            .map(|word| value[word].to_lowercase())
            .collect();
        if words.is_empty() {
            return;
        }
        if words.len() > 1 {
            for word in &words {
                if word.chars().count() >= SHORTEST_PART {
                    self.names.push((vec![word.clone()], label.to_owned()));
                }
            }
        }
        self.names.push((words, label.to_owned()));
        self.names
            .sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
    }

    /// Whether there is nothing to look for.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names in a text, in order and without overlap: their bytes and labels. Whole words, in any case; the words
    /// of a name may have any space between.
    pub(crate) fn find(&self, text: &str) -> Vec<(Range<usize>, &str)> {
        let words: Vec<Range<usize>> = words(text).collect();
        let lower: Vec<String> = words
            .iter()
            .map(|word| text[word.clone()].to_lowercase())
            .collect();
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let name = self.names.iter().find(|(name, _)| {
                lower[at..].starts_with(name)
                    && words[at..at + name.len()]
                        .windows(2)
                        .all(|pair| is_space(&text[pair[0].end..pair[1].start]))
            });
            match name {
                Some((name, label)) => {
                    found.push((
                        words[at].start..words[at + name.len() - 1].end,
                        label.as_str(),
                    ));
                    at += name.len();
                }
                None => at += 1,
            }
        }
        found
    }
}

/// What may stand between the words of a name: spaces, a hyphen, the dot of an initial.
fn is_space(between: &str) -> bool {
    between
        .chars()
        .all(|letter| letter.is_whitespace() || matches!(letter, '-' | '.' | '\'' | '’'))
}

/// The runs of letters and digits of a text.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = letters
            .by_ref()
            .find(|(_, letter)| letter.is_alphanumeric())?;
        while letters
            .next_if(|(_, letter)| letter.is_alphanumeric())
            .is_some()
        {}
        let end = letters.peek().map_or(text.len(), |&(at, _)| at);
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(names: &Names, text: &'t str) -> Vec<&'t str> {
        names
            .find(text)
            .into_iter()
            .map(|(range, _)| &text[range])
            .collect()
    }

    #[test]
    fn names_and_their_parts_are_found_as_whole_words() {
        let mut names = Names::default();
        names.add("NAME", "Maria Lopez");
        names.add("NAME", "Åsa");
        assert_eq!(
            found(&names, "I am maria  LOPEZ, Maria for short."),
            ["maria  LOPEZ", "Maria"]
        );
        assert_eq!(
            found(&names, "Lopez; åsa's and Mariah Lopezes"),
            ["Lopez", "åsa"]
        );
        assert_eq!(found(&names, "Maria, Lopez"), ["Maria", "Lopez"]);
        assert!(found(&names, "").is_empty());
    }

    #[test]
    fn short_parts_are_not_looked_for_alone() {
        let mut names = Names::default();
        names.add("NAME", "Jan de Wit");
        assert_eq!(found(&names, "de Jan de wit, wit"), ["Jan de wit", "wit"]);
        names.add("NAME", "!!");
        assert_eq!(found(&names, "!!"), [""; 0]);
    }
}
