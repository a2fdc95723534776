//! The state directory: one process at a time, one key.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_contract::CommitLogError;

use crate::cipher::StateKey;

/// The environment variable that holds the key, 64 hexadecimal digits, for those who do not want it beside the data.
const KEY_VARIABLE: &str = "TIDEGATE_STATE_KEY";

/// A state directory, held by this process until it is dropped.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    key: StateKey,
    _lock: File,
}

impl StateDirectory {
    /// Opens the directory, or makes it (readable by its owner alone), and takes its lock. The key comes from
    /// `TIDEGATE_STATE_KEY`, else from the file `key` in it, which is made on first use.
    pub fn open(path: &Path) -> Result<StateDirectory, CommitLogError> {
        let write_error = |error: io::Error| CommitLogError::Write {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        // A directory that was there keeps its mode: what is secret in it has modes of its own.
        if !path.is_dir() {
            fs::create_dir_all(path).map_err(write_error)?;
            restrict(path, 0o700).map_err(write_error)?;
        }
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(write_error)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(CommitLogError::Locked {
                    path: path.display().to_string(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(write_error(error)),
        }
        let key = key(path)?;
        Ok(StateDirectory {
            path: path.to_path_buf(),
            key,
            _lock: lock,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The commit log's path.
    pub fn log(&self) -> PathBuf {
        self.path.join("commit.log")
    }

    /// The key.
    pub fn key(&self) -> StateKey {
        self.key.clone()
    }
}

fn key(directory: &Path) -> Result<StateKey, CommitLogError> {
    let error = |path: String, why: String| CommitLogError::Read { path, why };
    let not_a_key = "the key must be 64 hexadecimal digits";
    if let Ok(text) = std::env::var(KEY_VARIABLE) {
        return StateKey::from_hex(&text)
            .ok_or_else(|| error(KEY_VARIABLE.to_owned(), not_a_key.to_owned()));
    }
    let path = directory.join("key");
    let name = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => StateKey::from_hex(&text).ok_or_else(|| error(name, not_a_key.to_owned())),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let key = StateKey::random().map_err(|why| error(name.clone(), why.to_string()))?;
            write_private(&path, key.to_hex().as_bytes()).map_err(|why| CommitLogError::Write {
                path: name,
                why: why.to_string(),
            })?;
            Ok(key)
        }
        Err(why) => Err(error(name, why.to_string())),
    }
}

/// Writes a file that only its owner can read, durable before it has its name.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    restrict(&temporary, 0o600)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
