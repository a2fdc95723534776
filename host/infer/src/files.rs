//! Files as memory: mapped, not read.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tidegate_weights::{FileBytes, ReadFile};

/// Maps files into memory, so that opening a model reads only what is looked at, and loading it needs no second copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct MappedFiles;

impl ReadFile for MappedFiles {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        // Opening a pipe would wait for a writer that may never come.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let file = File::open(path)?;
        // An empty file cannot be mapped everywhere.
        if file.metadata()?.len() == 0 {
            return Ok(Arc::new(Vec::new()));
        }
        // SAFETY: a map is sound as long as nobody shortens or rewrites the file under it. Model files are written once
        // and replaced by renaming, which leaves the mapped one as it is; that is said where models are documented.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Arc::new(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_has_the_bytes_that_were_written_and_an_empty_one_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"tide").unwrap();
        assert_eq!((*MappedFiles.read(&path).unwrap()).as_ref(), b"tide");
        std::fs::write(directory.path().join("empty"), b"").unwrap();
        let empty = MappedFiles.read(&directory.path().join("empty")).unwrap();
        assert!((*empty).as_ref().is_empty());
        assert!(MappedFiles.read(&directory.path().join("none")).is_err());
        let error = MappedFiles.read(directory.path()).err().unwrap();
        assert_eq!(error.to_string(), "not a regular file");
    }
}
