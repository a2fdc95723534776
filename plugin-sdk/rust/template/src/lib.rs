//! `{{name}}`: puts a mask over words that nobody else should read.

use tidegate_sdk::prelude::*;

/// Which words are masked.
#[derive(Debug, Configuration)]
pub struct Config {
    /// Words to look for, as they are written.
    #[config(default, each(length = 1..))]
    pub words: Vec<String>,
    /// What stands in their place.
    #[config(default = "***")]
    pub mask: String,
}

/// The operator: one outcome for each record.
#[operator(name = "{{name}}", reads = "value")]
pub fn {{snake}}(record: &Record, config: &Config) -> Result<Outcome, FieldError> {
    // A value that is no text is an error, which goes to the dead letters with its reason.
    let text = record.text()?;
    let masked = config
        .words
        .iter()
        .fold(text.to_owned(), |text, word| text.replace(word, &config.mask));
    Ok(match masked == text {
        true => Outcome::Pass,
        false => Outcome::replace(Changes::new().value(masked)),
    })
}

#[cfg(test)]
mod tests;
