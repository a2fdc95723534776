//! The word list, and finding its words in a text.
//!
//! A text is cut into words, each kept as its letters without repetitions and how often each was repeated. A hash of
//! the letters finds the candidates of the list; then the repetitions decide. One pass, no allocation once warm.

use std::collections::HashMap;

use crate::fold::{Folded, fold};

/// A word as letters without repetitions, and the repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    letters: Vec<char>,
    runs: Vec<u8>,
}

impl Word {
    fn push(&mut self, letter: char) {
        match (self.letters.last(), self.runs.last_mut()) {
            (Some(last), Some(run)) if *last == letter => *run = run.saturating_add(1),
            _ => {
                self.letters.push(letter);
                self.runs.push(1);
            }
        }
    }

    fn clear(&mut self) {
        self.letters.clear();
        self.runs.clear();
    }

    fn length(&self) -> usize {
        self.runs.iter().map(|&run| usize::from(run)).sum()
    }

    fn hash(&self) -> u64 {
        self.letters
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, &letter| {
                (hash ^ u64::from(letter as u32)).wrapping_mul(0x0000_0100_0000_01b3)
            })
    }

    /// Whether this word of a text is that word of the list. A letter drawn out three times or more counts as often as
    /// the list writes it; in words of four letters or more, so does one written twice. Shorter ones must be exact:
    /// else `good` would be `god`.
    fn is(&self, listed: &Word) -> bool {
        let drawn_out = if listed.length() >= 4 { 2 } else { 3 };
        self.letters == listed.letters
            && self
                .runs
                .iter()
                .zip(&listed.runs)
                .all(|(&run, &listed)| run == listed || (run > listed && run >= drawn_out))
    }
}

/// A listed word or phrase.
#[derive(Clone, Debug)]
struct Entry {
    words: Vec<Word>,
    written: String,
}

/// The list, ready to be looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordList {
    entries: Vec<Entry>,
    /// Hash of the first word -> entries.
    first: HashMap<u64, Vec<usize>>,
}

/// A word being read.
#[derive(Clone, Debug, Default)]
struct Reading {
    word: Word,
    letters: usize,
    digits: usize,
    /// Whether a letter or a sign came after a digit, or a digit first.
    mixed: bool,
    has_one: bool,
    /// Signs before anything else, and since anything else.
    leading: usize,
    trailing: usize,
}

/// What a search needs to remember; kept between texts to save its allocations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    reading: Reading,
    variant: Word,
    /// Single letters in a row: `f u c k`.
    spelled: Word,
    spelled_count: usize,
    /// Phrases begun: entry, and which of its words comes next.
    begun: Vec<(usize, usize)>,
    next: Vec<(usize, usize)>,
}

impl WordList {
    /// Reads a list. An error names the entry that has no word in it.
    pub(crate) fn new(words: &[String]) -> Result<WordList, String> {
        let mut list = WordList::default();
        for written in words {
            let mut entry = Entry {
                words: Vec::new(),
                written: written.clone(),
            };
            let mut word = Word::default();
            for letter in written.chars() {
                match fold(letter) {
                    Folded::Letter(letter) | Folded::Digit(letter) | Folded::Sign(letter) => {
                        word.push(if letter == '1' { 'i' } else { letter });
                    }
                    Folded::Nothing => {}
                    Folded::Border => entry.take(&mut word),
                    Folded::Alone(letter) => {
                        entry.take(&mut word);
                        word.push(letter);
                        entry.take(&mut word);
                    }
                }
            }
            entry.take(&mut word);
            let Some(first) = entry.words.first() else {
                return Err(format!(
                    "config key `words` has {written:?}, in which there is no letter"
                ));
            };
            list.first
                .entry(first.hash())
                .or_default()
                .push(list.entries.len());
            list.entries.push(entry);
        }
        Ok(list)
    }

    /// The first listed word or phrase in a text, as the list writes it.
    pub(crate) fn find(&self, text: &str, scratch: &mut Scratch) -> Option<&str> {
        scratch.clear();
        for letter in text.chars() {
            let found = match fold(letter) {
                Folded::Letter(letter) => {
                    scratch.reading.letter(letter);
                    None
                }
                Folded::Digit(letter) => {
                    scratch.reading.digit(letter);
                    None
                }
                Folded::Sign(letter) => {
                    scratch.reading.sign(letter);
                    None
                }
                Folded::Nothing => None,
                Folded::Border => self.end(scratch),
                Folded::Alone(letter) => self.end(scratch).or_else(|| {
                    scratch.reading.letter(letter);
                    self.end(scratch)
                }),
            };
            if let Some(entry) = found {
                return Some(&self.entries[entry].written);
            }
        }
        let found = self.end(scratch).or_else(|| self.end_spelled(scratch));
        found.map(|entry| self.entries[entry].written.as_str())
    }

    /// Ends a word of the text, and says which entry it completes.
    fn end(&self, scratch: &mut Scratch) -> Option<usize> {
        if scratch.reading.word.letters.is_empty() {
            return None;
        }
        let reading = std::mem::take(&mut scratch.reading);
        let found = self.end_reading(&reading, scratch);
        scratch.reading = reading;
        scratch.reading.clear();
        found
    }

    fn end_reading(&self, reading: &Reading, scratch: &mut Scratch) -> Option<usize> {
        if reading.word.length() == 1 {
            scratch.spelled.push(reading.word.letters[0]);
            scratch.spelled_count += 1;
        } else if let Some(entry) = self.end_spelled(scratch) {
            return Some(entry);
        }
        scratch.next.clear();
        let mut found = None;
        if reading.is_word() {
            found = self.try_variants(reading, scratch);
        }
        std::mem::swap(&mut scratch.begun, &mut scratch.next);
        found
    }

    /// Tries the word as it is read, and then without the signs at its ends, which may be a mention or a price.
    fn try_variants(&self, reading: &Reading, scratch: &mut Scratch) -> Option<usize> {
        let found = self.try_ones(reading, 0, 0, scratch);
        if found.is_some() || reading.letters == 0 || reading.leading + reading.trailing == 0 {
            return found;
        }
        self.try_ones(reading, reading.leading, reading.trailing, scratch)
    }

    /// Tries the word without so many letters at its ends, with each `1` as `i` and as `l`.
    fn try_ones(
        &self,
        reading: &Reading,
        skip: usize,
        cut: usize,
        scratch: &mut Scratch,
    ) -> Option<usize> {
        if !reading.has_one && skip + cut == 0 {
            return self.try_word(&reading.word, scratch);
        }
        let word = &reading.word;
        let ones = word
            .letters
            .iter()
            .filter(|&&letter| letter == '1')
            .count()
            .min(4);
        let keep = word.length().saturating_sub(skip + cut);
        for choice in 0..1u32 << ones {
            let mut variant = std::mem::take(&mut scratch.variant);
            variant.clear();
            let mut one = 0;
            let read = word
                .letters
                .iter()
                .zip(&word.runs)
                .flat_map(|(&letter, &run)| {
                    let mut read = letter;
                    if letter == '1' {
                        read = if one < ones && choice >> one & 1 == 1 {
                            'l'
                        } else {
                            'i'
                        };
                        one += 1;
                    }
                    std::iter::repeat_n(read, usize::from(run))
                });
            read.skip(skip)
                .take(keep)
                .for_each(|letter| variant.push(letter));
            let found = self.try_word(&variant, scratch);
            scratch.variant = variant;
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn try_word(&self, word: &Word, scratch: &mut Scratch) -> Option<usize> {
        for index in 0..scratch.begun.len() {
            let (entry, at) = scratch.begun[index];
            let words = &self.entries[entry].words;
            if word.is(&words[at]) {
                if at + 1 == words.len() {
                    return Some(entry);
                }
                scratch.next.push((entry, at + 1));
            }
        }
        for &entry in self.first.get(&word.hash()).into_iter().flatten() {
            let words = &self.entries[entry].words;
            if word.is(&words[0]) {
                if words.len() == 1 {
                    return Some(entry);
                }
                scratch.next.push((entry, 1));
            }
        }
        None
    }

    /// Ends a row of single letters.
    fn end_spelled(&self, scratch: &mut Scratch) -> Option<usize> {
        let mut found = None;
        if scratch.spelled_count >= 3 {
            let candidates = self
                .first
                .get(&scratch.spelled.hash())
                .into_iter()
                .flatten();
            found = candidates.copied().find(|&entry| {
                let words = &self.entries[entry].words;
                words.len() == 1 && words[0].length() > 1 && scratch.spelled.is(&words[0])
            });
        }
        scratch.spelled.clear();
        scratch.spelled_count = 0;
        found
    }
}

impl Entry {
    fn take(&mut self, word: &mut Word) {
        if !word.letters.is_empty() {
            self.words.push(std::mem::take(word));
        }
    }
}

impl Reading {
    fn letter(&mut self, letter: char) {
        self.mixed |= self.digits > 0;
        self.letters += 1;
        self.trailing = 0;
        self.word.push(letter);
    }

    fn digit(&mut self, letter: char) {
        self.digits += 1;
        self.trailing = 0;
        self.has_one |= letter == '1';
        self.word.push(letter);
    }

    fn sign(&mut self, letter: char) {
        self.mixed |= self.digits > 0;
        self.leading += usize::from(self.letters + self.digits == 0);
        self.trailing += 1;
        self.word.push(letter);
    }

    /// Whether it can be read as a word: not a number (`455`), a price (`$455`) or a model (`A55`).
    fn is_word(&self) -> bool {
        self.digits == 0 || self.letters >= 2 || (self.letters == 1 && self.mixed)
    }

    fn clear(&mut self) {
        self.word.clear();
        self.letters = 0;
        self.digits = 0;
        self.leading = 0;
        self.trailing = 0;
        self.mixed = false;
        self.has_one = false;
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.reading.clear();
        self.spelled.clear();
        self.spelled_count = 0;
        self.begun.clear();
    }
}
