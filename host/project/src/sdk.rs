//! The SDK of a project: its directory `tidegate/`, out of the program.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::embedded::{VERSION, below};
use crate::language::Language;
use crate::project::{Project, ProjectError, SDK};

/// Says that a directory is an SDK's, and of which version.
const MARK: &str = "VERSION";

/// What has changed in a project's `tidegate/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Files that were not there or had another content, relative to the directory.
    pub written: Vec<PathBuf>,
    /// Files that no longer belong to the SDK.
    pub removed: Vec<PathBuf>,
}

/// The files of a language's SDK by their paths in `tidegate/`.
pub(crate) fn files(language: Language) -> BTreeMap<PathBuf, Vec<u8>> {
    let sdk = format!("sdk/{}", language.sdk());
    let embedded = below(&sdk).chain(below("shared"));
    let mut files: BTreeMap<PathBuf, Vec<u8>> = embedded
        .map(|(path, bytes)| (PathBuf::from(path), bytes.to_vec()))
        .collect();
    files.insert(PathBuf::from(MARK), format!("{VERSION}\n").into_bytes());
    files
}

impl Project {
    /// Writes the SDK of this program into `tidegate/`. Only what is other is written, and what is no longer of the SDK is
    /// removed, so that a build sees what has changed and nothing else.
    pub fn write_sdk(&self) -> Result<Refreshed, ProjectError> {
        let directory = self.sdk();
        disk::make(self.directory(), Path::new(SDK))?;
        let had = listed(&directory)?;
        if !had.is_empty() && !had.contains(&PathBuf::from(MARK)) {
            return Err(ProjectError::NotOurs { directory });
        }
        let files = files(self.language());
        let mut refreshed = Refreshed::default();
        for (path, bytes) in &files {
            // The mark is written last: it says that all the others are there.
            if path != Path::new(MARK) && self.put(path, bytes)? {
                refreshed.written.push(path.clone());
            }
        }
        for path in had {
            if !files.contains_key(&path) && !is_left(&path) {
                let place = directory.join(&path);
                fs::remove_file(&place).map_err(ProjectError::disk("remove", &place))?;
                refreshed.removed.push(path);
            }
        }
        let mark = PathBuf::from(MARK);
        if let Some(bytes) = files.get(&mark)
            && self.put(&mark, bytes)?
        {
            refreshed.written.push(mark);
        }
        Ok(refreshed)
    }

    /// Writes a file of the SDK if it is another; whether it was.
    fn put(&self, path: &Path, bytes: &[u8]) -> Result<bool, ProjectError> {
        disk::write_if_other(self.directory(), &Path::new(SDK).join(path), bytes)
    }

    /// The version of the SDK in `tidegate/`; none where there is no SDK.
    pub fn sdk_version(&self) -> Option<String> {
        let text = fs::read_to_string(self.sdk().join(MARK)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Whether it lies in a project that takes its SDK from elsewhere: a crate of a workspace may.
    pub(crate) fn needs_sdk(&self) -> bool {
        self.language() != Language::Rust
    }

    /// The contract that it is built for.
    pub(crate) fn wit(&self) -> PathBuf {
        self.directory().join(SDK).join("wit").join("tidegate.wit")
    }
}

/// What tools leave beside sources is no matter of the SDK.
fn is_left(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == "__pycache__" || part.as_os_str() == "target")
}

/// Every file below a directory, relative to it; links are files.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, ProjectError> {
    let (mut files, mut places) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = places.pop() {
        let place = directory.join(&below);
        let entries = match fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ProjectError::disk("list", &place)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(ProjectError::disk("list", &place))?;
            let path = below.join(entry.file_name());
            let kind = entry
                .file_type()
                .map_err(ProjectError::disk("read", &path))?;
            match kind.is_dir() {
                true => places.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    Ok(files)
}
