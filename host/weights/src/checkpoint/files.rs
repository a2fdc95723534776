//! Where bytes come from.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::CheckpointError;

/// Most bytes of a JSON file.
const LARGEST_JSON: usize = 64 << 20;

/// The content of a file, in memory or mapped.
pub type FileBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Gives the content of files. Mapping them needs unsafe code, which stands elsewhere.
pub trait ReadFile {
    /// The whole content of `path`.
    ///
    /// # Errors
    /// The file cannot be read; [`io::ErrorKind::NotFound`] if there is none.
    fn read(&self, path: &Path) -> io::Result<FileBytes>;
}

/// Reads files whole into memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadWhole;

impl ReadFile for ReadWhole {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        Ok(Arc::new(std::fs::read(path)?))
    }
}

/// A file's content; nothing if there is no such file.
pub(crate) fn read(
    files: &dyn ReadFile,
    path: &Path,
) -> Result<Option<FileBytes>, CheckpointError> {
    match files.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(source) => Err(CheckpointError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// What a JSON file holds, which should be `expected`.
pub(crate) fn json<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    expected: &'static str,
) -> Result<T, CheckpointError> {
    if bytes.len() > LARGEST_JSON {
        return Err(CheckpointError::LargeJson {
            path: path.to_owned(),
            bytes: bytes.len() as u64,
            limit: LARGEST_JSON as u64,
        });
    }
    serde_json::from_slice(bytes).map_err(|source| CheckpointError::Json {
        path: path.to_owned(),
        expected,
        source,
    })
}
