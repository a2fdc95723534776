//! Writes into directories that somebody else has made: whole, beside their place first, and never through a link, which
//! may lead anywhere.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::project::ProjectError;

/// Tells apart what threads of this program write beside the same place.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Opens a file to read it. What would be waited for, as a pipe, is refused.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        )),
    }
}

/// Writes a file with the directories between it and `root`, none of which may be a link; a link in the file's own place is
/// replaced by the file.
pub(crate) fn write(root: &Path, path: &Path, bytes: &[u8]) -> Result<(), ProjectError> {
    if let Some(parent) = path.parent() {
        make(root, parent)?;
    }
    let place = root.join(path);
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = place.with_file_name(format!(".{name}.new-{}-{number}", process::id()));
    let written = written_anew(&beside, bytes).map_err(ProjectError::disk("write", &beside));
    let moved = written
        .and_then(|()| fs::rename(&beside, &place).map_err(ProjectError::disk("write", &place)));
    if moved.is_err() {
        // That it could not be written is what is told.
        let _ = fs::remove_file(&beside);
    }
    moved
}

fn written_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let opened = File::create_new(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        _ => Err(error),
    });
    opened?.write_all(bytes)
}

/// The same, but a file that has these bytes keeps its time. Whether it was written.
pub(crate) fn write_if_other(root: &Path, path: &Path, bytes: &[u8]) -> Result<bool, ProjectError> {
    let place = root.join(path);
    let is_file = place.symlink_metadata().is_ok_and(|found| found.is_file());
    if is_file && fs::read(&place).ok().as_deref() == Some(bytes) {
        return make(root, path.parent().unwrap_or(Path::new(""))).map(|()| false);
    }
    write(root, path, bytes).map(|()| true)
}

/// Makes the directories between `root` and one below it; a link, or a file, in the place of one is refused.
pub(crate) fn make(root: &Path, below: &Path) -> Result<(), ProjectError> {
    fs::create_dir_all(root).map_err(ProjectError::disk("make", root))?;
    let mut place = root.to_owned();
    for part in below.components() {
        let Component::Normal(part) = part else {
            continue;
        };
        place.push(part);
        match fs::create_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ProjectError::disk("make", &place)(error));
            }
            _ => {}
        }
        let found = place.symlink_metadata();
        if !found.map_err(ProjectError::disk("read", &place))?.is_dir() {
            return Err(ProjectError::NoDirectory { path: place });
        }
    }
    Ok(())
}

/// Removes what is in a place, with all that is in it; what a link leads to stays.
pub(crate) fn clear(place: &Path) -> Result<(), ProjectError> {
    let removed = match place.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(ProjectError::disk("remove", place))
}
