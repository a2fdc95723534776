//! The sources that a component may be made of, in a directory of their own: a tool that reads whatever it likes reads these
//! and nothing else, so that what they are says what the component is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tidegate_component::{digest, digest_of};

use super::Build;
use crate::disk;
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// Most files that a component is made of.
const MOST: usize = 20_000;
/// Most bytes of them.
const BYTES: u64 = 256 << 20;

impl Build<'_> {
    /// Every file of the project that its component may be made of, named from there and sorted: regular files, but not what
    /// builds make, cases, samples, tests, the README and environments of Python. Links are not followed.
    pub(super) fn sources(&self) -> Result<Vec<PathBuf>, BuildError> {
        let cases = self.project.cases()?;
        let directory = self.project.directory();
        let cases: Vec<&Path> = cases
            .iter()
            .filter_map(|case| case.strip_prefix(directory).ok())
            .collect();
        let (mut files, mut bytes) = (Vec::new(), 0);
        self.each_file(|path, length| {
            if self.is_beside(&path) || cases.contains(&path.as_path()) {
                return true;
            }
            bytes += length;
            files.push(path);
            files.len() <= MOST && bytes <= BYTES
        })?;
        if files.len() > MOST || bytes > BYTES {
            return Err(ProjectError::ManyFiles {
                directory: self.directory.clone(),
                limit: MOST,
                bytes: BYTES >> 20,
            }
            .into());
        }
        files.sort();
        Ok(files)
    }

    /// Tells of every regular file that is there, named from the project, with its length, but of what builds make and of
    /// environments of Python, until the answer is false.
    pub(super) fn each_file(
        &self,
        mut each: impl FnMut(PathBuf, u64) -> bool,
    ) -> Result<(), ProjectError> {
        let mut places = vec![PathBuf::new()];
        while let Some(below) = places.pop() {
            let place = self.directory.join(&below);
            for entry in fs::read_dir(&place).map_err(ProjectError::disk("list", &place))? {
                let entry = entry.map_err(ProjectError::disk("list", &place))?;
                let path = below.join(entry.file_name());
                // It may be gone by now.
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                if self.project.is_made(&path) {
                    continue;
                }
                if found.is_dir() && !entry.path().join("pyvenv.cfg").exists() {
                    places.push(path);
                } else if found.is_file() && !each(path, found.len()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether a file is for people and tests, and not for the component.
    fn is_beside(&self, path: &Path) -> bool {
        if self
            .project
            .manifest()
            .entry
            .iter()
            .any(|entry| Path::new(entry) == path)
        {
            return false;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_test = (name.starts_with("test_") && name.ends_with(".py"))
            || name.ends_with(".test.js")
            || name.ends_with(".test.ts");
        is_test || path == Path::new("README.md") || path == Path::new("samples.jsonl")
    }

    /// Copies sources into a directory that has nothing else.
    pub(super) fn stage(&self, sources: &[PathBuf]) -> Result<PathBuf, BuildError> {
        let stage = self.fresh("staged")?;
        for source in sources {
            let from = self.directory.join(source);
            let to = stage.join(source);
            disk::make(&stage, source.parent().unwrap_or(Path::new("")))?;
            fs::copy(&from, &to).map_err(ProjectError::disk("copy", &from))?;
        }
        Ok(stage)
    }

    /// A name of all that goes into a component: the tool, the world, and the sources as they stand in a directory.
    pub(super) fn made_of(
        &self,
        tool: &str,
        directory: &Path,
        sources: &[PathBuf],
    ) -> Result<String, BuildError> {
        let mut text = format!("{tool} {}\n", self.world());
        for source in sources {
            let path = directory.join(source);
            let found = File::open(&path)
                .and_then(digest_of)
                .map_err(ProjectError::disk("read", &path))?;
            text += &format!("{} {found}\n", source.display());
        }
        Ok(digest(text.as_bytes())
            .trim_start_matches("sha256:")
            .to_owned())
    }
}
