//! What one process does at a time: others wait.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::command::WORKING;
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// Between two looks at whether the other has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Holds a file, which is made where there is none, until what comes back is dropped. Who holds it meanwhile is waited for, and
/// called `who` with `of` on standard error: `another build of`, and the project.
pub(crate) fn hold(path: &Path, who: &'static str, of: &Path) -> Result<File, BuildError> {
    let opened = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    let file = opened.map_err(ProjectError::disk("open", path))?;
    let until = Instant::now() + WORKING;
    let mut is_said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A file system without locks: what is done there is as it was done.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => {
                return Err(ProjectError::disk("lock", path)(error).into());
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(BuildError::Busy {
                    who,
                    directory: of.to_owned(),
                    seconds: WORKING.as_secs(),
                });
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if !is_said {
            is_said = true;
            eprintln!("waiting for {who} {}, which goes on", of.display());
        }
        thread::sleep(LOOK);
    }
}
