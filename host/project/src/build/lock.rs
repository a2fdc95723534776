//! One build of a project at a time, and one run of its tests: they share what they make on the way.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::Build;
use crate::command::WORKING;
use crate::disk;
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// What is done by one at a time.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Build,
    Test,
}

impl Work {
    /// In `build/`; it has no content.
    fn file(self) -> &'static str {
        match self {
            Work::Build => ".lock",
            Work::Test => ".tests.lock",
        }
    }

    fn called(self) -> &'static str {
        match self {
            Work::Build => "build",
            Work::Test => "test run",
        }
    }
}

/// Between two looks at whether the other has ended.
const LOOK: Duration = Duration::from_millis(50);

impl Build<'_> {
    /// Waits until nobody else does such work in the project, which is said on standard error; then nobody does until what
    /// comes back is dropped.
    pub(super) fn hold(&self, work: Work) -> Result<File, BuildError> {
        disk::make(&self.directory, Path::new("build"))?;
        let path = self.directory.join("build").join(work.file());
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            disk::clear(&path)?;
        }
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = opened.map_err(ProjectError::disk("open", &path))?;
        let until = Instant::now() + WORKING;
        let mut is_said = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                // A file system without locks: builds there are as they were made.
                Err(TryLockError::Error(error))
                    if error.kind() == std::io::ErrorKind::Unsupported =>
                {
                    return Ok(file);
                }
                Err(TryLockError::Error(error)) => {
                    return Err(ProjectError::disk("lock", &path)(error).into());
                }
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(BuildError::Busy {
                        work: work.called(),
                        directory: self.directory.clone(),
                        seconds: WORKING.as_secs(),
                    });
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if !is_said {
                is_said = true;
                eprintln!(
                    "waiting for another {} of {}, which goes on",
                    work.called(),
                    self.directory.display()
                );
            }
            thread::sleep(LOOK);
        }
    }
}
