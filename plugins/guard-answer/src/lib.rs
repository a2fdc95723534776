//! `guard-answer`: ends an answer at a word, and covers what is not to be read in it, while it is made.
//!
//! Words count in any case, and only whole. Patterns are bounded: what may still match is all that is held back. Strings of
//! JSON are looked at without their escapes, each by itself, and what is put there is escaped. As an operator on records it
//! does the same with the texts of a value; an answer that ends is cut there.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod guard;
mod pattern;

use tidegate_sdk::json::{Edits, Paths, looks_like_json, strings};
use tidegate_sdk::{
    Changes, Configuration, Ending, Failure, Lane, LaneKind, Operator, Outcome, Record, Through,
    Tokens, operator,
};

use guard::{Act, Guarding, Rule};
use pattern::Pattern;

/// What is looked for.
#[derive(Debug, Configuration)]
pub struct Config {
    /// Words and phrases at which an answer ends, as at a stop string: the finish is `stop`.
    #[config(default, each(length = 1..))]
    pub stop: Vec<String>,
    /// Words and phrases that are not to be said: the answer ends before them, filtered.
    #[config(default, each(length = 1..))]
    pub filter: Vec<String>,
    /// Patterns that end an answer, filtered, as '\d{4}-\d{4}'.
    #[config(default, each(length = 1..))]
    pub filter_patterns: Vec<String>,
    /// What is covered.
    #[config(default)]
    pub cover: Vec<Cover>,
    /// Members of a record's JSON value to look at, as "answer"; every string without it. Tokens have none.
    pub paths: Paths,
}

/// A pattern that is covered.
#[derive(Debug, Configuration)]
pub struct Cover {
    /// As 'AC-\d{6}': characters, ., \d, \w, \s and classes in brackets, each with ?, {N} or {N,M}; at most 256 characters.
    #[config(length = 1..)]
    pub pattern: String,
    /// What stands in its place.
    #[config(default = "[…]")]
    pub with: String,
}

/// The operator.
#[derive(Debug)]
pub struct GuardAnswer {
    rules: Vec<Rule>,
    paths: Paths,
}

#[operator(name = "guard-answer", reads = "value", panics = "trap", tokens)]
impl Operator for GuardAnswer {
    type Config = Config;

    fn new(config: Config) -> Result<GuardAnswer, Failure> {
        let mut rules = Vec::new();
        let mut add = |key: &str, text: &str, is_word: bool, act: Act| {
            let pattern = match is_word {
                true => Pattern::literal(text),
                false => Pattern::parse(text),
            };
            let pattern = pattern
                .map_err(|why| Failure::from(format!("config key `{key}` has {text:?}: {why}")))?;
            rules.push(Rule {
                pattern,
                is_word,
                act,
            });
            Ok::<(), Failure>(())
        };
        for word in &config.stop {
            add("stop", word, true, Act::End(Ending::Stop))?;
        }
        for word in &config.filter {
            add("filter", word, true, Act::End(Ending::Filtered))?;
        }
        for pattern in &config.filter_patterns {
            add(
                "filter-patterns",
                pattern,
                false,
                Act::End(Ending::Filtered),
            )?;
        }
        for Cover { pattern, with } in config.cover {
            add("cover", &pattern, false, Act::Cover(with))?;
        }
        Ok(GuardAnswer {
            rules,
            paths: config.paths,
        })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        let Ok(text) = record.text() else {
            return Outcome::Pass;
        };
        let guarded = match looks_like_json(text) {
            true => self.guard_json(text),
            false => None,
        };
        match guarded.unwrap_or_else(|| self.guard(text)) {
            guarded if guarded == text => Outcome::Pass,
            guarded => Outcome::replace(Changes::new().value(guarded)),
        }
    }
}

impl Tokens for GuardAnswer {
    type Answer = Guarding;

    fn open(&self, lane: &Lane<'_>) -> Result<Guarding, Failure> {
        Ok(Guarding::new(lane.kind))
    }

    fn step(&self, answer: &mut Guarding, text: &str, last: bool) -> Through {
        answer.step(&self.rules, text, last)
    }
}

impl GuardAnswer {
    fn guard(&self, text: &str) -> String {
        Guarding::new(LaneKind::Content)
            .step(&self.rules, text, true)
            .text
    }

    /// The text with its strings guarded; none if it is no JSON.
    fn guard_json(&self, text: &str) -> Option<String> {
        let mut edits = Edits::default();
        let walked = strings(text, |place, string| {
            if self.paths.cover(place) {
                let decoded = string.decoded();
                let guarded = self.guard(&decoded);
                if guarded != *decoded {
                    edits.replace(&string, &guarded);
                }
            }
        });
        walked.ok().map(|_| edits.apply(text))
    }
}

#[cfg(test)]
mod tests;
