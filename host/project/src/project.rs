//! A project: a directory with a manifest.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use wildmatch::WildMatchPattern;

use crate::disk;
use crate::language::{Grant, Handler, Language};
use crate::manifest::Manifest;
use crate::mistake::{Mistake, Mistakes};
use crate::name::Name;

/// The manifest's file.
pub const MANIFEST: &str = "operator.toml";
/// The directory of the SDK within a project.
pub const SDK: &str = "tidegate";
/// The schema of files of cases, within the SDK's directory.
pub const CASES: &str = "cases.schema.json";

/// Directories right in a project that builds write and people do not.
const MADE: [&str; 3] = ["build", "target", "node_modules"];
/// The cases of a manifest that names none.
const DEFAULT_CASES: &str = "cases/*.json";
/// Longest manifest, in bytes.
const MANIFEST_BYTES: u64 = 64 << 10;
/// Most files of cases.
const MOST_CASES: usize = 10_000;

/// A directory with an operator's sources.
#[derive(Clone, Debug)]
pub struct Project {
    directory: PathBuf,
    manifest: Manifest,
}

/// Why there is no project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is no manifest.
    #[error(
        "{} has no {MANIFEST}: `tidegate new NAME --lang LANGUAGE` makes a project",
        directory.display()
    )]
    NoManifest {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// A manifest is longer than one may be.
    #[error("{} has more than {MANIFEST_BYTES} bytes, which is the limit", file.display())]
    Long {
        /// The manifest.
        file: PathBuf,
    },
    /// The manifest is wrong.
    #[error(transparent)]
    Wrong(#[from] Mistakes),
    /// A new project would lie over something else.
    #[error("{} is not empty: it has {first:?}; name another directory", directory.display())]
    NotEmpty {
        /// Where the project was to be.
        directory: PathBuf,
        /// Something that it has.
        first: String,
    },
    /// A file or a link stands where a directory has to be.
    #[error("{} is no directory of its own; name or make another one", path.display())]
    NoDirectory {
        /// The file or link.
        path: PathBuf,
    },
    /// The program was built without a template.
    #[error("this program has no template for {}", language.title())]
    NoTemplate {
        /// The language.
        language: Language,
    },
    /// The directory of the SDK has something else.
    #[error(
        "{} is no directory of an SDK: it has no file VERSION; move away what is yours there",
        directory.display()
    )]
    NotOurs {
        /// The project's `tidegate`.
        directory: PathBuf,
    },
    /// There is no file where the manifest says that cases are.
    #[error("{}: cases: {pattern:?} fits no file", file.display())]
    NoCases {
        /// The manifest.
        file: PathBuf,
        /// Where they were to be.
        pattern: String,
    },
    /// There are more cases than are run.
    #[error("{}: more than {MOST_CASES} files of cases, which is the limit", directory.display())]
    ManyCases {
        /// Where they are.
        directory: PathBuf,
    },
    /// There are more files than a component is made of.
    #[error("{} has more than {limit} files or {bytes} MiB of sources, which is the limit", directory.display())]
    ManyFiles {
        /// The project.
        directory: PathBuf,
        /// Most files.
        limit: usize,
        /// Most of them together, in MiB.
        bytes: u64,
    },
    /// A file or a directory cannot be used.
    #[error("cannot {what} {}: {error}", path.display())]
    Disk {
        /// What was tried: `read`, `list`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl ProjectError {
    pub(crate) fn disk(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ProjectError {
        let path = path.to_owned();
        move |error| ProjectError::Disk { what, path, error }
    }
}

impl Project {
    /// Reads the manifest of a directory. The directory is named as it was given in what is said of it; paths of the
    /// project begin with it.
    pub fn open(directory: impl AsRef<Path>) -> Result<Project, ProjectError> {
        let directory = directory.as_ref().to_owned();
        let file = directory.join(MANIFEST);
        let mut text = String::new();
        let read = disk::open(&file)
            .and_then(|opened| opened.take(MANIFEST_BYTES + 1).read_to_string(&mut text));
        match read {
            Ok(_) if text.len() as u64 > MANIFEST_BYTES => Err(ProjectError::Long { file }),
            Ok(_) => Ok(Project {
                manifest: Manifest::parse(&text, &file)?,
                directory,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ProjectError::NoManifest { directory })
            }
            Err(error) => Err(ProjectError::disk("read", &file)(error)),
        }
    }

    /// A source that the manifest names and the project does not have is a mistake of the manifest.
    pub(crate) fn has_entries(&self) -> Result<(), Mistakes> {
        let entries = self.manifest.entry.iter().zip(&self.manifest.entry_places);
        let missing = entries.filter(|(entry, _)| !self.directory.join(entry).is_file());
        let mistakes: Vec<Mistake> = missing
            .map(|(entry, (line, column))| Mistake {
                line: *line,
                column: *column,
                key: "entry".to_owned(),
                what: format!("{entry:?} is not there"),
            })
            .collect();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(Mistakes {
                file: self.directory.join(MANIFEST),
                mistakes,
            }),
        }
    }

    /// Where it lies, as it was given.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What its manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The operator's name.
    pub fn name(&self) -> &Name {
        &self.manifest.name
    }

    /// What it is written in.
    pub fn language(&self) -> Language {
        self.manifest.language
    }

    /// What it imports.
    pub fn grants(&self) -> &[Grant] {
        &self.manifest.grants
    }

    /// What it exports beside the interface for records.
    pub fn handlers(&self) -> &[Handler] {
        &self.manifest.handlers
    }

    /// The component that is built of it.
    pub fn output(&self) -> PathBuf {
        self.directory.join(format!("{}.wasm", self.name()))
    }

    /// What a quick build writes: a component that is tried and swapped, and never deployed.
    pub fn quick_output(&self) -> PathBuf {
        self.build_directory().join(format!("{}.wasm", self.name()))
    }

    /// Whether a file or directory of the project, named from there, is what builds and tools write, and no source. A
    /// directory further down may be called `build` or `target`: toolchains read it.
    pub fn is_made(&self, path: &Path) -> bool {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let component = format!("{}.wasm", self.name());
        let is_hidden = |part: &str| part.starts_with('.') || part == "__pycache__";
        parts.iter().any(|part| is_hidden(part))
            || parts.first().is_some_and(|first| {
                MADE.contains(&first.as_ref())
                    || (parts.len() == 1 && first.starts_with(&component))
            })
    }

    /// Where what is made on the way to it is.
    pub fn build_directory(&self) -> PathBuf {
        self.directory.join("build")
    }

    /// Where its SDK is.
    pub fn sdk(&self) -> PathBuf {
        self.directory.join(SDK)
    }

    /// Its files of cases, sorted, each once. There may be none, but for a pattern that the manifest states.
    pub fn cases(&self) -> Result<Vec<PathBuf>, ProjectError> {
        let Some(patterns) = &self.manifest.cases else {
            let mut cases = self.fitting(DEFAULT_CASES)?;
            cases.sort();
            return Ok(cases);
        };
        let mut cases = Vec::new();
        for pattern in patterns {
            let fitting = self.fitting(pattern)?;
            if fitting.is_empty() {
                return Err(ProjectError::NoCases {
                    file: self.directory.join(MANIFEST),
                    pattern: pattern.clone(),
                });
            }
            cases.extend(fitting);
            if cases.len() > MOST_CASES {
                return Err(ProjectError::ManyCases {
                    directory: self.directory.clone(),
                });
            }
        }
        cases.sort();
        cases.dedup();
        Ok(cases)
    }

    /// The files of a pattern.
    fn fitting(&self, pattern: &str) -> Result<Vec<PathBuf>, ProjectError> {
        let mut cases = Vec::new();
        let (below, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let directory = self.directory.join(below);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(cases),
            Err(error) => return Err(ProjectError::disk("list", &directory)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(ProjectError::disk("list", &directory))?;
            let file = entry.file_name();
            if file.to_str().is_some_and(|file| fits(name, file)) {
                cases.push(entry.path());
            }
            if cases.len() > MOST_CASES {
                return Err(ProjectError::ManyCases { directory });
            }
        }
        Ok(cases)
    }
}

/// Whether a name fits a pattern in which `*` stands for any text. No other character has a meaning.
fn fits(pattern: &str, name: &str) -> bool {
    // No name of a file has a NUL.
    WildMatchPattern::<'*', '\0'>::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_pattern_fits_whole_names() {
        for (pattern, name, right) in [
            ("*.json", "a.json", true),
            ("*.json", "a.json.bak", false),
            ("a.json", "a.json", true),
            ("a.json", "a.jsonx", false),
            ("a*b*.json", "a1b2.json", true),
            ("a*b*.json", "a1c2.json", false),
            ("a*a.json", "a.json", false),
            ("*", "", true),
            ("a?[b].json", "a?[b].json", true),
            ("a?[b].json", "axb.json", false),
            ("a**.json", "a.json", true),
            ("*ä*", "Bär", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), right, "{pattern} {name}");
        }
    }
}
