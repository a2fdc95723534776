//! What a project's files look like: when that is other, it is built again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};

use super::relative;

/// Most files that are watched.
const MOST: usize = 20_000;
/// Directories that builds write and people do not.
const MADE: [&str; 4] = ["build", "target", "node_modules", "__pycache__"];

/// The files of a project with the time and the length of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Sources(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Sources {
    /// As they are now. A file that goes away meanwhile is not there.
    pub(in crate::commands) fn of(directory: &Path) -> anyhow::Result<Sources> {
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
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                if name.starts_with('.') || name.contains(".wasm") {
                    continue;
                }
                if found.is_dir() {
                    if !MADE.contains(&&*name) {
                        places.push(entry.path());
                    }
                    continue;
                }
                if sources.0.len() >= MOST {
                    bail!(
                        "{} has more than {MOST} files to watch, which is the limit",
                        directory.display()
                    );
                }
                let path = relative(directory, &entry.path());
                sources.0.insert(path, (found.modified().ok(), found.len()));
            }
        }
        Ok(sources)
    }

    /// Whether none of them was written since a file of the project was, but for these and what no component is made of.
    pub(in crate::commands) fn are_older_than(
        &self,
        file: &Path,
        directory: &Path,
        but: &[PathBuf],
    ) -> bool {
        let Ok(written) = fs::metadata(file).and_then(|found| found.modified()) else {
            return false;
        };
        let but: Vec<PathBuf> = but.iter().map(|path| relative(directory, path)).collect();
        self.0.iter().all(|(path, (time, _))| {
            let is_text = path
                .extension()
                .is_some_and(|end| end == "md" || end == "jsonl");
            is_text || but.contains(path) || time.is_some_and(|time| time < written)
        })
    }
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
        write("operator.toml", "one")?;
        let before = Sources::of(place.path())?;
        write("redact.wasm", "made")?;
        write("build/core.wasm", "made")?;
        write("target/release/lib.d", "made")?;
        assert_eq!(Sources::of(place.path())?, before);
        write("src/redact.py", "new")?;
        let with = Sources::of(place.path())?;
        assert_ne!(with, before);
        write("src/redact.py", "longer")?;
        assert_ne!(Sources::of(place.path())?, with);
        Ok(())
    }

    #[test]
    fn a_component_is_up_to_date_until_a_source_of_it_is_saved() -> anyhow::Result<()> {
        let place = tempfile::tempdir()?;
        let directory = place.path();
        let begin = SystemTime::now();
        let save = |name: &str, seconds: u64| -> anyhow::Result<()> {
            fs::write(directory.join(name), "text")?;
            let saved = fs::File::options().write(true).open(directory.join(name))?;
            Ok(saved.set_modified(begin + std::time::Duration::from_secs(seconds))?)
        };
        let output = directory.join("redact.wasm");
        let is_new = || -> anyhow::Result<bool> {
            let cases = [directory.join("a.json")];
            Ok(Sources::of(directory)?.are_older_than(&output, directory, &cases))
        };
        save("redact.py", 1)?;
        assert!(!is_new()?, "there is none");
        save("redact.wasm", 2)?;
        for other in ["a.json", "README.md", "samples.jsonl"] {
            save(other, 3)?;
            assert!(is_new()?, "{other}");
        }
        save("redact.py", 3)?;
        assert!(!is_new()?);
        Ok(())
    }
}
