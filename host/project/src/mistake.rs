//! What is wrong in a manifest.

use std::fmt;
use std::path::PathBuf;

/// One mistake of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The key; empty for a mistake of syntax.
    pub key: String,
    /// The value found and what would be right; no final period.
    pub what: String,
}

/// Every mistake of a manifest, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// The manifest.
    pub file: PathBuf,
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            let Mistake { line, column, .. } = mistake;
            write!(f, "{}:{line}:{column}:", self.file.display())?;
            if !mistake.key.is_empty() {
                write!(f, " {}:", mistake.key)?;
            }
            write!(f, " {}", mistake.what)?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}
