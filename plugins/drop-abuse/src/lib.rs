//! `drop-abuse`: drops, dead-letters or routes records in whose text stands a word of a list.
//!
//! Words match whole: `class` and `Scunthorpe` pass. Seen through are case, accents, full-width and look-alike letters,
//! zero-width characters, digits and signs for letters (`sh1t`, `a$$`), drawn-out letters (`shiiit`), and words spelled
//! out (`s h i t`). A list entry may be a phrase. What the words are is configuration; none is built in.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod fold;
mod words;

use tidegate_sdk::json::{Paths, texts};
use tidegate_sdk::{Changes, Configuration, Failure, Operator, Outcome, Output, Record, operator};

use words::{Scratch, WordList};

/// What is looked for, and what comes of it.
#[derive(Debug, Configuration)]
pub struct Config {
    /// Words and phrases to look for.
    #[config(length = 1.., each(length = 1..))]
    pub words: Vec<String>,
    /// Members of a JSON value to look in, as "text" or "customer.note"; every string without it.
    pub paths: Paths,
    /// What becomes of a record with such a word.
    #[config(default)]
    pub action: Action,
}

/// What becomes of a record with a listed word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configuration)]
pub enum Action {
    /// It ends.
    #[default]
    Drop,
    /// It goes to the dead letters.
    DeadLetter,
    /// It goes to the output `abuse`, with the word in the header `abuse`.
    Route,
}

/// Where records with a listed word go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Output)]
pub enum Side {
    /// All of them.
    Abuse,
}

/// The operator.
#[derive(Debug)]
pub struct DropAbuse {
    words: WordList,
    paths: Paths,
    action: Action,
    scratch: Scratch,
}

#[operator(name = "drop-abuse", reads = "value", panics = "trap")]
impl Operator for DropAbuse {
    type Config = Config;
    type Output = Side;

    fn new(config: Config) -> Result<DropAbuse, Failure> {
        Ok(DropAbuse {
            words: WordList::new(&config.words)?,
            paths: config.paths,
            action: config.action,
            scratch: Scratch::default(),
        })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome<Side> {
        let Some(value) = record.value() else {
            return Outcome::Pass;
        };
        let Some(word) = self.find(&String::from_utf8_lossy(value)) else {
            return Outcome::Pass;
        };
        match self.action {
            Action::Drop => Outcome::Drop,
            Action::DeadLetter => Outcome::dead_letter(format!("abusive: has {word:?}")),
            Action::Route => {
                Outcome::route_changed(Side::Abuse, Changes::new().header("abuse", word))
            }
        }
    }
}

impl DropAbuse {
    fn find(&mut self, value: &str) -> Option<String> {
        let mut found = None;
        texts(value, &self.paths, |text| {
            if found.is_none() {
                found = self.words.find(&text, &mut self.scratch).map(str::to_owned);
            }
        });
        found
    }
}

#[cfg(test)]
mod tests;
