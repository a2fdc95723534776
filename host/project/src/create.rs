//! `tidegate new`: a project out of the program, without a question and without a network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::disk;
use crate::embedded::below;
use crate::language::Language;
use crate::name::Name;
use crate::project::{Project, ProjectError, SDK};
use crate::sdk;

/// A project that is to be made.
#[derive(Clone, Debug)]
pub struct NewProject {
    /// The operator's name.
    pub name: Name,
    /// What it is written in.
    pub language: Language,
    /// Where it is written: a directory that is not there, or has nothing but `.git`.
    pub directory: PathBuf,
}

impl NewProject {
    /// Writes the template and the SDK. The directory appears with all of it, or not at all.
    pub fn create(&self) -> Result<Project, ProjectError> {
        let directory = &self.directory;
        check_free(directory)?;
        let files = self.files()?;
        match directory.is_dir() {
            // It stays the directory that it is: somebody may stand in it.
            true => {
                let beside = directory.join(format!(".{}.new-{}", self.name, process::id()));
                let moved = write_all(&beside, &files).and_then(|()| move_each(&beside, directory));
                let _ = fs::remove_dir_all(&beside);
                moved?;
            }
            false => {
                let parent = match directory.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                fs::create_dir_all(parent).map_err(ProjectError::disk("make", parent))?;
                let beside = parent.join(format!(".{}.new-{}", self.name, process::id()));
                let written = write_all(&beside, &files).and_then(|()| {
                    fs::rename(&beside, directory).map_err(ProjectError::disk("make", directory))
                });
                if written.is_err() {
                    // What could not be written whole is of no use; that it could not is what is told.
                    let _ = fs::remove_dir_all(&beside);
                }
                written?;
            }
        }
        Project::open(directory)
    }

    /// Every file with its path.
    fn files(&self) -> Result<Vec<(PathBuf, Vec<u8>)>, ProjectError> {
        let template = format!("template/{}", self.language.word());
        let mut files: Vec<(PathBuf, Vec<u8>)> = below(&template)
            .map(|(path, bytes)| (self.path(path), self.fill(bytes)))
            .collect();
        if files.is_empty() {
            return Err(ProjectError::NoTemplate {
                language: self.language,
            });
        }
        let sdk = sdk::files(self.language).into_iter();
        files.extend(sdk.map(|(path, bytes)| (Path::new(SDK).join(path), bytes)));
        Ok(files)
    }

    /// Where a file of the template is written. Some are called otherwise in the repository, where their own names would
    /// have a meaning.
    fn path(&self, path: &str) -> PathBuf {
        let path = PathBuf::from(self.replace(path));
        match path.file_name().and_then(|name| name.to_str()) {
            Some("gitignore") => path.with_file_name(".gitignore"),
            Some(name) if name.ends_with(".in") => path.with_extension(""),
            _ => path,
        }
    }

    fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        match str::from_utf8(bytes) {
            Ok(text) => self.replace(text).into_bytes(),
            Err(_) => bytes.to_vec(),
        }
    }

    fn replace(&self, text: &str) -> String {
        text.replace("{{name}}", self.name.as_str())
            .replace("{{package}}", &self.name.package(self.language))
            .replace("{{snake}}", &self.name.snake(self.language))
            .replace("{{camel}}", &self.name.camel(self.language))
    }
}

fn write_all(directory: &Path, files: &[(PathBuf, Vec<u8>)]) -> Result<(), ProjectError> {
    files
        .iter()
        .try_for_each(|(path, bytes)| disk::write(directory, path, bytes))
}

/// Moves everything in a directory into another one; if that ends half-way, what was moved is removed.
fn move_each(from: &Path, to: &Path) -> Result<(), ProjectError> {
    let mut moved = Vec::new();
    let entries = fs::read_dir(from).map_err(ProjectError::disk("list", from))?;
    let all = entries.into_iter().try_for_each(|entry| {
        let entry = entry.map_err(ProjectError::disk("list", from))?;
        let place = to.join(entry.file_name());
        fs::rename(entry.path(), &place).map_err(ProjectError::disk("make", &place))?;
        moved.push(place);
        Ok(())
    });
    if all.is_err() {
        for place in moved {
            let _ = disk::clear(&place);
        }
    }
    all
}

/// Nothing that lies there is written over. A repository without a file is as good as an empty directory.
fn check_free(directory: &Path) -> Result<(), ProjectError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(ProjectError::NoDirectory {
                path: directory.to_owned(),
            });
        }
        Err(error) => return Err(ProjectError::disk("list", directory)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(ProjectError::disk("list", directory))?;
        if entry.file_name() != ".git" {
            return Err(ProjectError::NotEmpty {
                directory: directory.to_owned(),
                first: entry.file_name().to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}
