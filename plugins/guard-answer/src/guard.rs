//! A text that comes in pieces, and what goes on of it.
//!
//! At each place the leftmost and there the longest match counts, of patterns of one length the first; a word is one where
//! no letter or digit stands before or behind it. What could still match is held back, from its first character on.
//!
//! Of JSON each string is a text by itself, which is looked at as it reads, and so is the JSON in a string. A number is one
//! too, and `true`, `false` and `null` are: what is covered in it becomes a string.

use std::collections::VecDeque;

use tidegate_sdk::json::{Mark, Nesting, escape, quote};
use tidegate_sdk::{Ending, LaneKind, Through};

use crate::pattern::Pattern;

/// Bytes of a text from which on what is certain of it goes on before the rest is looked at.
const MOST_HELD: usize = 4096;

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
#[derive(Debug)]
pub struct Guarding {
    nesting: Nesting,
    /// The beginning of an escape, as it is written.
    part: String,
    held: Held,
    /// Whether what is held is a number or a word of JSON.
    is_word: bool,
    /// The last character that was looked at before what is held, of the same text.
    before: Option<char>,
    through: String,
    /// How the answer ends.
    end: Option<Ending>,
}

/// What is held back of a text.
#[derive(Debug, Default)]
struct Held {
    /// As it reads.
    text: String,
    /// As it is written.
    written: String,
    /// Bytes that each character has as it is written.
    lengths: VecDeque<usize>,
    /// How many characters at its end may turn out to be JSON, and not of this text; each is a byte.
    undecided: usize,
    /// How often what is put there has to be escaped.
    escapes: usize,
}

/// What there is at a place of the text.
enum At<'r> {
    Nothing,
    /// The text behind decides.
    Open,
    Match(usize, &'r Act),
}

impl Guarding {
    pub(crate) fn new(kind: LaneKind) -> Guarding {
        Guarding {
            nesting: Nesting::of(kind),
            part: String::new(),
            held: Held::default(),
            is_word: false,
            before: None,
            through: String::new(),
            end: None,
        }
    }

    /// The next text, as far as it goes on.
    pub(crate) fn step(&mut self, rules: &[Rule], text: &str, last: bool) -> Through {
        let mut marks = Vec::new();
        for character in text.chars() {
            self.part.push(character);
            self.nesting
                .read(character, &mut |mark: Mark| marks.push(mark));
            for mark in marks.drain(..) {
                self.mark(rules, mark);
            }
            if self.end.is_some() {
                break;
            }
            // Of a whole record, that little of it is held.
            if self.held.text.len() > MOST_HELD && !self.is_word {
                self.look(rules, false);
            }
        }
        match last {
            true => self.ended(rules),
            false if self.is_word => {}
            false => self.look(rules, false),
        }
        if last && self.end.is_none() {
            // An escape that has no end.
            self.through.push_str(&std::mem::take(&mut self.part));
        }
        Through {
            text: std::mem::take(&mut self.through),
            end: self.end,
        }
    }

    fn mark(&mut self, rules: &[Rule], mark: Mark) {
        if self.end.is_some() {
            return;
        }
        match mark {
            Mark::Escape => {}
            Mark::Text(text) => {
                self.is_word = false;
                self.held.undecided = 0;
                self.push(text);
            }
            Mark::Undecided(text) => {
                self.push(text);
                self.held.undecided += 1;
            }
            Mark::Word(text) => {
                self.is_word = true;
                self.push(text);
            }
            Mark::Decided => self.decided(rules),
            Mark::Between => {
                self.ended(rules);
                if self.end.is_none() {
                    self.through.push_str(&std::mem::take(&mut self.part));
                }
            }
        }
    }

    fn push(&mut self, text: char) {
        self.held.escapes = self.nesting.escapes();
        self.held.push(text, &std::mem::take(&mut self.part));
    }

    /// What was undecided is JSON: the text before it has ended, and of it only numbers and words are looked at.
    fn decided(&mut self, rules: &[Rule]) {
        let part = std::mem::take(&mut self.part);
        let json = self.held.split_undecided();
        self.ended(rules);
        let mut characters = json.text.chars();
        let mut written = json.written.as_str();
        for length in json.lengths {
            let (Some(character), None) = (characters.next(), self.end) else {
                return;
            };
            let (raw, rest) = written.split_at(length);
            written = rest;
            self.part.push_str(raw);
            let is_word = character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.');
            self.mark(
                rules,
                match is_word {
                    true => Mark::Word(character),
                    false => Mark::Between,
                },
            );
        }
        self.part = part;
    }

    /// The text that is held has ended.
    fn ended(&mut self, rules: &[Rule]) {
        self.held.undecided = 0;
        match std::mem::take(&mut self.is_word) {
            true => self.word(rules),
            false => self.look(rules, true),
        }
        self.before = None;
    }

    /// A number or a word is whole: what is covered in it makes it a string.
    fn word(&mut self, rules: &[Rule]) {
        let written = self.held.written.clone();
        let through = std::mem::take(&mut self.through);
        let escapes = std::mem::take(&mut self.held.escapes);
        self.look(rules, true);
        let looked = std::mem::replace(&mut self.through, through);
        match self.end.is_some() || looked == written {
            true => self.through.push_str(&looked),
            false => self.through.push_str(&escape(&quote(&looked), escapes)),
        }
    }

    /// Lets through what is certain.
    fn look(&mut self, rules: &[Rule], last: bool) {
        let (mut at, mut written) = (0, 0);
        let decided = self.held.text.len() - self.held.undecided;
        while at < decided {
            let rest = &self.held.text[at..];
            match look(rules, self.before, rest, last) {
                At::Nothing => {
                    let character = rest.chars().next();
                    self.before = character;
                    at += character.map_or(1, char::len_utf8);
                    let length = self.held.lengths.pop_front().unwrap_or_default();
                    let raw = &self.held.written[written..written + length];
                    self.through.push_str(raw);
                    written += length;
                }
                At::Open => break,
                // Part of it may turn out to be none of this text.
                At::Match(bytes, _) if at + bytes > decided => break,
                At::Match(_, Act::End(end)) => {
                    self.end = Some(*end);
                    return;
                }
                At::Match(bytes, Act::Cover(with)) => {
                    let covered = &rest[..bytes];
                    self.before = covered.chars().next_back();
                    let characters = covered.chars().count();
                    at += bytes;
                    written += self.held.lengths.drain(..characters).sum::<usize>();
                    self.through.push_str(&escape(with, self.held.escapes));
                }
            }
        }
        self.held.text.drain(..at);
        self.held.written.drain(..written);
    }
}

impl Held {
    fn push(&mut self, text: char, written: &str) {
        self.text.push(text);
        self.written.push_str(written);
        self.lengths.push_back(written.len());
    }

    /// Splits off what is undecided.
    fn split_undecided(&mut self) -> Held {
        let undecided = std::mem::take(&mut self.undecided);
        let at = self.lengths.len() - undecided;
        let written = self.lengths.iter().take(at).sum();
        Held {
            text: self.text.split_off(self.text.len() - undecided),
            written: self.written.split_off(written),
            lengths: self.lengths.split_off(at),
            ..Held::default()
        }
    }
}

fn look<'r>(rules: &'r [Rule], before: Option<char>, text: &str, last: bool) -> At<'r> {
    let mut best: Option<(usize, &Act)> = None;
    for rule in rules {
        if rule.is_word && before.is_some_and(char::is_alphanumeric) {
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
