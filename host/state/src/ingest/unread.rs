//! Logs that no source reads any more: what clients handed over is nowhere else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tidegate_contract::{IngestError, TaskId, TaskImage};

use super::open::look;
use crate::disk::Disk;

/// An ingest log that no source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadLog {
    /// The name that its source had.
    pub source: String,
    /// Where it lies.
    pub directory: PathBuf,
    /// What tells it from another one of the same name.
    pub identity: String,
    /// Offsets of what it has.
    pub offsets: Range<u64>,
}

impl UnreadLog {
    /// The logs in this directory of a state directory that no source of these reads, in the order of their names. Nothing
    /// is changed.
    pub fn all(
        state: &Path,
        directory: &str,
        is_read: impl Fn(&str) -> bool,
    ) -> Result<Vec<UnreadLog>, IngestError> {
        let place = state.join(directory);
        let error = |why: io::Error| IngestError::Read {
            place: place.display().to_string(),
            why: why.to_string(),
        };
        let entries = match fs::read_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(error)?,
        };
        let mut logs = Vec::new();
        for entry in entries {
            let entry = entry.map_err(error)?;
            let (directory, source) = (entry.path(), entry.file_name());
            let source = source.to_string_lossy().into_owned();
            if is_read(&source) {
                continue;
            }
            match fs::metadata(&directory) {
                Ok(facts) if facts.is_dir() => {}
                Ok(_) => continue,
                // Taken away meanwhile, or a link that leads nowhere.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return Err(error(why)),
            }
            if let Some((identity, offsets)) = look(&Disk, &directory)? {
                logs.push(UnreadLog {
                    source,
                    directory,
                    identity,
                    offsets,
                });
            }
        }
        logs.sort_by(|one, other| one.source.cmp(&other.source));
        Ok(logs)
    }

    /// How many of its records no cut has, as the commit log has the tasks.
    pub fn waiting(&self, tasks: &BTreeMap<TaskId, TaskImage>) -> u64 {
        let task = TaskId {
            source: self.source.clone(),
            partition: 0,
        };
        let image = tasks.get(&task);
        let image = image.filter(|image| image.identity == self.identity);
        let position = image.and_then(|image| image.position).unwrap_or(0);
        let from = position.max(self.offsets.start);
        self.offsets.end.saturating_sub(from)
    }
}
