//! What is wrong with a pipeline file, in the shape of a compiler's messages.

use std::fmt;
use std::path::PathBuf;

use super::text::Position;

/// One mistake, or one warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was given.
    pub file: PathBuf,
    /// Where it is; none if the file cannot be read.
    pub position: Option<Position>,
    /// The key with its tables, `stage.redact.limits.memory`; empty for a mistake of syntax.
    pub key: String,
    /// The value found and what would be right; no final period.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(at) = &self.position {
            write!(f, "{}:{}:", at.line, at.column)?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.what)?;
        let Some(at) = self
            .position
            .as_ref()
            .filter(|at| !at.text.trim().is_empty())
        else {
            return Ok(());
        };
        let number = at.line.to_string();
        // A long line is shown from a little before the mistake.
        let skip = at.column.saturating_sub(60);
        let shown: String = at
            .text
            .chars()
            .skip(skip)
            .take(110)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let before = at.column - 1 - skip;
        let carets = at.length.clamp(1, 110usize.saturating_sub(before).max(1));
        write!(
            f,
            "\n {number} | {}\n {:width$} | {:before$}{}",
            shown.trim_end(),
            "",
            "",
            "^".repeat(carets),
            width = number.len(),
        )
    }
}

/// Every mistake of a pipeline file, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// At least one.
    pub mistakes: Vec<Mistake>,
    /// What else was noticed.
    pub warnings: Vec<Mistake>,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.mistakes {
            writeln!(f, "{mistake}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        match self.mistakes.len() {
            1 => write!(f, "1 mistake"),
            more => write!(f, "{more} mistakes"),
        }
    }
}

impl std::error::Error for Mistakes {}
