//! What a project's files look like: when that is other, it is built again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};

use tidegate_project::Project;

/// Most files that are watched.
const MOST: usize = 20_000;

/// The files of a project with the time and the length of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Sources {
    /// As they are now. A file that goes away meanwhile is not there.
    pub(super) fn of(project: &Project) -> anyhow::Result<Sources> {
        let directory = project.directory();
        let mut sources = Sources::default();
        let mut places = vec![directory.to_owned()];
        while let Some(place) = places.pop() {
            let entries = match fs::read_dir(&place) {
                Ok(entries) => entries,
                // The project itself has to be there.
                Err(error) if place != directory => {
                    tracing::debug!(place = %place.display(), %error, "a directory is not watched");
                    continue;
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot list {}", place.display()));
                }
            };
            for entry in entries.flatten() {
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                let path = relative(directory, &entry.path());
                if project.is_made(&path) {
                    continue;
                }
                if found.is_dir() {
                    places.push(entry.path());
                    continue;
                }
                if sources.0.len() >= MOST {
                    bail!(
                        "{} has more than {MOST} files to watch, which is the limit",
                        directory.display()
                    );
                }
                sources.0.insert(path, (found.modified().ok(), found.len()));
            }
        }
        Ok(sources)
    }

    /// The first file that is not the same in both, or only in one.
    pub(super) fn first_other<'a>(&'a self, than: &'a Sources) -> Option<&'a Path> {
        let mut paths = self.0.keys().chain(than.0.keys());
        let other = paths.find(|path| self.0.get(*path) != than.0.get(*path));
        other.map(PathBuf::as_path)
    }
}

/// What a place in the project is called within it.
fn relative(directory: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(directory).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_saves_is_seen_and_what_a_build_writes_is_not() -> anyhow::Result<()> {
        let place = tempfile::tempdir()?;
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(place.path()))?;
            fs::write(path, text)
        };
        write("operator.toml", "name = \"redact\"\nlanguage = \"go\"\n")?;
        let project = Project::open(place.path())?;
        let before = Sources::of(&project)?;
        write("redact.wasm", "made")?;
        write("build/core.wasm", "made")?;
        write("target/release/lib.d", "made")?;
        assert_eq!(Sources::of(&project)?, before);
        write("src/redact.py", "new")?;
        let with = Sources::of(&project)?;
        let saved = Some(Path::new("src/redact.py"));
        assert_eq!(with.first_other(&before), saved);
        assert_eq!(before.first_other(&with), saved);
        assert_eq!(with.first_other(&with), None);
        write("src/redact.py", "longer")?;
        let more = Sources::of(&project)?;
        // Toolchains read these further down.
        write("src/build/tables.py", "new")?;
        assert_ne!(Sources::of(&project)?, more);
        write("src/redact.py", "longer still")?;
        assert_ne!(Sources::of(&project)?, with);
        Ok(())
    }
}
