//! Components that were made before. What starts an interpreter and keeps it as it stands then keeps what it drew at random
//! too, so that a second run makes other bytes: the first component of the same sources is the one that counts on this
//! machine, wherever they lie, and it is there at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tidegate_component::digest;

use super::{Build, write_whole};
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// Most bytes of components that are kept; those that were not asked for the longest go first.
const KEPT: u64 = 1 << 30;
/// Most files that a component is made of.
const MOST: usize = 20_000;
/// Directories in which nothing is that a component is made of.
const MADE: [&str; 4] = ["build", "target", "node_modules", "__pycache__"];

impl Build<'_> {
    /// The component that `make` writes to a file, or the one that it wrote before for the same tool, world and sources; with what
    /// the tool said. `sources` are files of the project; without them all of it are.
    pub(super) fn remembered(
        &self,
        tool: &str,
        sources: Option<Vec<PathBuf>>,
        out: &Path,
        make: impl FnOnce() -> Result<String, BuildError>,
    ) -> Result<(Vec<u8>, String), BuildError> {
        let kept = self.machine().kept("built");
        let kept = match &kept {
            Some(directory) => Some(directory.join(self.made_of(tool, sources)?)),
            None => None,
        };
        if let Some(bytes) = kept.as_deref().and_then(asked_for) {
            return Ok((bytes, String::new()));
        }
        let said = make()?;
        let bytes = fs::read(out).map_err(ProjectError::disk("read", out))?;
        // What the tool warned of is said again the next time.
        if let (Some(kept), true) = (kept, said.is_empty()) {
            keep(&kept, &bytes);
        }
        Ok((bytes, said))
    }

    /// A name of all that goes into a component.
    fn made_of(&self, tool: &str, sources: Option<Vec<PathBuf>>) -> Result<String, BuildError> {
        let mut sources = match sources {
            Some(sources) => sources,
            None => self.all_sources()?,
        };
        sources.push(self.directory.join("tidegate/wit/tidegate.wit"));
        sources.sort();
        sources.dedup();
        let mut text = format!("{tool} {}\n", self.world());
        for source in sources {
            let bytes = fs::read(&source).map_err(ProjectError::disk("read", &source))?;
            let path = source.strip_prefix(&self.directory).unwrap_or(&source);
            text += &format!("{} {}\n", path.display(), digest(&bytes));
        }
        let name = digest(text.as_bytes());
        Ok(format!("{}.wasm", name.trim_start_matches("sha256:")))
    }

    /// Every file of the project, but what builds make.
    fn all_sources(&self) -> Result<Vec<PathBuf>, BuildError> {
        let (mut files, mut places) = (Vec::new(), vec![self.directory.clone()]);
        while let Some(place) = places.pop() {
            for entry in fs::read_dir(&place).map_err(ProjectError::disk("list", &place))? {
                let entry = entry.map_err(ProjectError::disk("list", &place))?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let path = entry.path();
                if name.starts_with('.') || name.contains(".wasm") {
                    continue;
                }
                match path.is_dir() {
                    true if MADE.contains(&&*name) => {}
                    true => places.push(path),
                    false => files.push(path),
                }
                if files.len() > MOST {
                    return Err(ProjectError::ManyFiles {
                        directory: self.directory.clone(),
                        limit: MOST,
                    }
                    .into());
                }
            }
        }
        Ok(files)
    }
}

/// What is kept under a name; that it was asked for is its time from now on.
fn asked_for(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    if let Ok(file) = File::options().append(true).open(path) {
        // Without it the file goes earlier, and is made again.
        let _ = file.set_modified(SystemTime::now());
    }
    Some(bytes)
}

/// Keeps a component, and lets the oldest go. One that cannot be kept is made again.
fn keep(path: &Path, bytes: &[u8]) {
    let Some(directory) = path.parent() else {
        return;
    };
    if fs::create_dir_all(directory).is_err() || write_whole(path, bytes).is_err() {
        return;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        })
        .collect();
    files.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    let mut all = 0;
    for (_, length, path) in files {
        all += length;
        if all > KEPT {
            let _ = fs::remove_file(path);
        }
    }
}
