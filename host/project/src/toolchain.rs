//! Toolchains: which versions are taken, where they are, and how they are installed.

mod install;
mod machine;

use std::fmt;
use std::io;

use tidegate_component::EncodeError;

use crate::language::Language;
use crate::project::ProjectError;

pub(crate) use install::{INTO, apt};
pub use machine::{Machine, user_cache};

/// What a person does to have a toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Commands, which `build --install` runs as well.
    Commands(Vec<Vec<String>>),
    /// Something that is the person's own to do, in words.
    Words(String),
}

/// A toolchain that a build needs and the machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is built with it.
    pub language: Language,
    /// The tool and its version: `componentize-py 0.25.1`.
    pub wanted: String,
    /// What is there instead; none if there is nothing.
    pub found: Option<String>,
    /// What helps.
    pub remedy: Remedy,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing {
            language,
            wanted,
            found,
            remedy,
        } = self;
        let title = language.title();
        write!(f, "{title} operators need {wanted}; ")?;
        match found {
            Some(found) => write!(f, "this machine has {found}. ")?,
            None => f.write_str("this machine has none. ")?,
        }
        match remedy {
            Remedy::Words(words) => f.write_str(words),
            Remedy::Commands(commands) => {
                f.write_str("Install it with `tidegate build --install`, which runs")?;
                for command in commands {
                    write!(f, "\n    {}", command.join(" "))?;
                }
                Ok(())
            }
        }
    }
}

/// Why nothing was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The project cannot be read or written.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A toolchain is not there.
    #[error("{0}")]
    Missing(Box<Missing>),
    /// The project has no SDK.
    #[error("{directory} has no SDK: `tidegate sdk {directory}` writes it")]
    NoSdk {
        /// The project.
        directory: String,
    },
    /// Another build did not end, or another run of tests.
    #[error("{who} {} goes on and did not end within {seconds} s", directory.display())]
    Busy {
        /// Which: `another build of`.
        who: &'static str,
        /// The project, or where both install.
        directory: std::path::PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A program cannot be run.
    #[error("cannot run {program}: {error}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        error: io::Error,
    },
    /// A program failed: usually the sources are wrong, and it has said where.
    #[error("{}{program} ended with {status}", with_end(said))]
    Failed {
        /// The program, with what it was asked to do: `cargo build`.
        program: String,
        /// How it ended.
        status: String,
        /// What it said, as it said it.
        said: String,
    },
    /// What installs a toolchain failed, and has said why.
    #[error(
        "{}{wanted} is not installed: {program} ended with {status}",
        with_end(said)
    )]
    NotInstalled {
        /// The tool and its version: `componentize-py 0.25.1`.
        wanted: String,
        /// The program, with what it was asked to do: `npm install`.
        program: String,
        /// How it ended.
        status: String,
        /// What it said besides what was shown as it went on.
        said: String,
    },
    /// The operator calls what its manifest does not grant.
    #[error(
        "the operator imports {import:?}, which its manifest does not grant: write grants = [{word:?}] in operator.toml, and grant it in the pipeline file"
    )]
    NotGranted {
        /// The interface.
        import: String,
        /// The grant for it.
        word: &'static str,
    },
    /// The operator imports what nobody grants.
    #[error("the operator imports {import:?}, which is neither of the contract nor of WASI")]
    Unknown {
        /// The interface.
        import: String,
    },
    /// What the toolchain made is no component of the contract.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The toolchain made nothing.
    #[error("{program} has made no {what}{hint}")]
    Nothing {
        /// The program.
        program: String,
        /// What should be there.
        what: &'static str,
        /// What may help, with what goes before it.
        hint: &'static str,
    },
}

/// A text with a line end, if it is not empty.
fn with_end(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("{text}\n"),
    }
}

impl From<Missing> for BuildError {
    fn from(missing: Missing) -> BuildError {
        BuildError::Missing(Box::new(missing))
    }
}

/// The numbers that a version begins with, `14.0.6` of `clang version 14.0.6-deb`: of the first word that has one.
pub(crate) fn version(text: &str) -> Option<Vec<u32>> {
    text.split_whitespace().find_map(|word| {
        let digits = word.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let end = digits
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(digits.len());
        let numbers: Result<Vec<u32>, _> = digits[..end]
            .trim_end_matches('.')
            .split('.')
            .map(str::parse)
            .collect();
        numbers.ok().filter(|numbers| !numbers.is_empty())
    })
}

/// `14.0.6`.
pub(crate) fn dotted(version: &[u32]) -> String {
    let numbers: Vec<String> = version.iter().map(u32::to_string).collect();
    numbers.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        for (said, expected) in [
            ("Debian clang version 14.0.6", "14.0.6"),
            ("go version go1.26.8 linux/amd64", "1.26.8"),
            ("rustc 1.95.0-nightly (59807616e 2026-04-14)", "1.95.0"),
            ("v20.20.2", "20.20.2"),
            ("componentize-py 0.25.1", "0.25.1"),
        ] {
            let found = version(said).map(|found| dotted(&found));
            assert_eq!(found.as_deref(), Some(expected), "{said}");
        }
        assert_eq!(version("no version"), None);
    }
}
