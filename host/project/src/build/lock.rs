//! One build of a project at a time, and one run of its tests: they share what they make on the way.

use std::fs::File;
use std::path::Path;

use super::Build;
use crate::disk;
use crate::lock;
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
            Work::Build => "another build of",
            Work::Test => "another test run of",
        }
    }
}

impl Build<'_> {
    /// Waits until nobody else does such work in the project, which is said on standard error; then nobody does until what
    /// comes back is dropped.
    pub(super) fn hold(&self, work: Work) -> Result<File, BuildError> {
        disk::make(&self.directory, Path::new("build"))?;
        let path = self.directory.join("build").join(work.file());
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            disk::clear(&path)?;
        }
        lock::hold(&path, work.called(), &self.directory)
    }
}
