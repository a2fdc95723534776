//! A text that comes in pieces, and what goes on of it.
//!
//! At each place the leftmost and there the longest match counts, of patterns of one length the first; a word is one where
//! no letter or digit stands before or behind it. What could still match is held back, from its first character on.

use tidegate_sdk::json::quote;
use tidegate_sdk::{Ending, Through};

use crate::pattern::Pattern;

/// What is done about a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    End(Ending),
    Cover(String),
}

/// A pattern, and what is done about it.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: Pattern,
    /// Whether it only counts where no letter or digit is next to it.
    pub(crate) is_word: bool,
    pub(crate) act: Act,
}

/// What is kept for a lane.
#[derive(Debug, Default)]
pub struct Guarding {
    held: String,
    /// The last character that was looked at before what is held.
    before: Option<char>,
    /// Whether what is put in has to be escaped.
    is_json: bool,
}

/// What there is at a place of the text.
enum At<'r> {
    Nothing,
    /// The text behind decides.
    Open,
    Match(usize, &'r Act),
}

impl Guarding {
    pub(crate) fn new(is_json: bool) -> Guarding {
        Guarding {
            is_json,
            ..Guarding::default()
        }
    }

    /// The next text, as far as it goes on.
    pub(crate) fn step(&mut self, rules: &[Rule], text: &str, last: bool) -> Through {
        let mut all = std::mem::take(&mut self.held);
        all.push_str(text);
        let mut through = String::with_capacity(all.len());
        let mut at = 0;
        while let Some(character) = all[at..].chars().next() {
            match self.look(rules, &all[at..], last) {
                At::Nothing => {
                    through.push(character);
                    self.before = Some(character);
                    at += character.len_utf8();
                }
                At::Open => {
                    self.held.push_str(&all[at..]);
                    break;
                }
                At::Match(_, Act::End(end)) => return Through::end(through, *end),
                At::Match(bytes, Act::Cover(with)) => {
                    match self.is_json {
                        true => {
                            let quoted = quote(with);
                            through.push_str(&quoted[1..quoted.len() - 1]);
                        }
                        false => through.push_str(with),
                    }
                    self.before = all[..at + bytes].chars().next_back();
                    at += bytes;
                }
            }
        }
        Through::text(through)
    }

    fn look<'r>(&self, rules: &'r [Rule], text: &str, last: bool) -> At<'r> {
        let mut best: Option<(usize, &Act)> = None;
        for rule in rules {
            if rule.is_word && self.before.is_some_and(char::is_alphanumeric) {
                continue;
            }
            let found = rule.pattern.look(text);
            if found.open && !last {
                return At::Open;
            }
            let Some(bytes) = found.matched else { continue };
            if rule.is_word {
                match text[bytes..].chars().next() {
                    Some(behind) if behind.is_alphanumeric() => continue,
                    None if !last => return At::Open,
                    _ => {}
                }
            }
            if best.is_none_or(|(longest, _)| bytes > longest) {
                best = Some((bytes, &rule.act));
            }
        }
        best.map_or(At::Nothing, |(bytes, act)| At::Match(bytes, act))
    }
}
