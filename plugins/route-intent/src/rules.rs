//! Rules over the words of a text.

use tidegate_sdk::OutputName;
use tidegate_sdk::json::{Paths, texts};

use crate::{PASS, RuleConfig};

/// A word or phrase, as it stands in a text of words: a space before each word and after the last.
#[derive(Clone, Debug)]
struct Phrase(String);

#[derive(Clone, Debug)]
struct Rule {
    output: OutputName,
    any: Vec<Phrase>,
    all: Vec<Phrase>,
    none: Vec<Phrase>,
    /// Index into the texts of a record.
    text: usize,
}

/// The rules of an operator, and the texts they look at.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    paths: Vec<Paths>,
    /// The words of the present record at each of the paths; kept for its memory.
    words: Vec<String>,
}

impl Rules {
    /// Reads the rules. An error names the rule, the key and the value.
    pub(crate) fn new(configs: &[RuleConfig]) -> Result<Rules, String> {
        let mut rules = Rules {
            rules: Vec::new(),
            paths: Vec::new(),
            words: Vec::new(),
        };
        for (index, config) in configs.iter().enumerate() {
            let key = |name: &str| format!("rules[{index}].{name}");
            if config.output == *PASS {
                return Err(format!(
                    "config key `{}` is {PASS:?}, which is the main output; name another",
                    key("output")
                ));
            }
            if config.any.is_empty() && config.all.is_empty() {
                return Err(format!(
                    "config key `rules[{index}]` has neither `any` nor `all`; give one of them a word or phrase"
                ));
            }
            let one = config.path.as_ref().map(std::slice::from_ref);
            let paths = Paths::configured(&key("path"), one)?;
            let text = rules
                .paths
                .iter()
                .position(|known| *known == paths)
                .unwrap_or_else(|| {
                    rules.paths.push(paths);
                    rules.words.push(String::new());
                    rules.paths.len() - 1
                });
            rules.rules.push(Rule {
                output: config.output.clone(),
                any: phrases(&key("any"), &config.any)?,
                all: phrases(&key("all"), &config.all)?,
                none: phrases(&key("none"), &config.none)?,
                text,
            });
        }
        Ok(rules)
    }

    /// The output of the first rule that fits.
    pub(crate) fn output(&mut self, value: &str) -> Option<&OutputName> {
        for (paths, words) in self.paths.iter().zip(&mut self.words) {
            words.clear();
            texts(value, paths, |text| {
                push_words(&text, words);
                // Phrases do not reach from one text into the next.
                words.push_str(" \n");
            });
        }
        let fits = |rule: &&Rule| {
            let words = &self.words[rule.text];
            let has = |phrase: &Phrase| words.contains(&phrase.0);
            (rule.any.is_empty() || rule.any.iter().any(has))
                && rule.all.iter().all(has)
                && !rule.none.iter().any(has)
        };
        self.rules.iter().find(fits).map(|rule| &rule.output)
    }
}

fn phrases(key: &str, phrases: &[String]) -> Result<Vec<Phrase>, String> {
    let phrase = |written: &String| {
        let mut words = String::new();
        push_words(written, &mut words);
        if words.is_empty() {
            return Err(format!(
                "config key `{key}` has {written:?}, in which there is no word"
            ));
        }
        if !written.trim_end().ends_with('*') {
            words.push(' ');
        }
        Ok(Phrase(words))
    };
    phrases.iter().map(phrase).collect()
}

/// Appends the words of a text in lower case, a space before each. An apostrophe inside a word belongs to it.
fn push_words(text: &str, words: &mut String) {
    let mut in_word = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() {
            if !in_word {
                words.push(' ');
                in_word = true;
            }
            if letter.is_ascii() {
                words.push(letter.to_ascii_lowercase());
            } else {
                words.extend(letter.to_lowercase());
            }
        } else if in_word
            && matches!(letter, '\'' | '’')
            && letters.peek().is_some_and(|next| next.is_alphanumeric())
        {
            words.push('\'');
        } else {
            in_word = false;
        }
    }
}
