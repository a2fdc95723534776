//! Writes a tokenizer as the files it can be read from.

use std::fs;
use std::path::Path;

use crate::tokenizer::{CONFIG, TOKENIZER};
use crate::{SaveError, Tokenizer};

impl Tokenizer {
    /// Writes `tokenizer.json` and `tokenizer_config.json` (the special tokens by role and the chat template) into a
    /// directory that is there; [`Tokenizer::from_dir`] reads the same tokenizer from them.
    ///
    /// # Errors
    /// A file that cannot be written; the error names it.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), SaveError> {
        let json = self
            .inner
            .to_string(false)
            .map_err(|e| SaveError::Form(e.to_string()))?;
        for (name, contents) in [(TOKENIZER, json), (CONFIG, self.config.json())] {
            let file = dir.as_ref().join(name);
            fs::write(&file, contents).map_err(|source| SaveError::Write { file, source })?;
        }
        Ok(())
    }
}
