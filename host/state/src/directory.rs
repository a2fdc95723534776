//! The state directory: one process at a time, one key.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_contract::CommitLogError;

use crate::cipher::StateKey;
use crate::disk;
use crate::format::HEADER;

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
    /// `TIDEGATE_STATE_KEY`, else from the file `key` in it, which is made on first use: never for a log that has entries, since they were
    /// written with another.
    pub fn open(path: &Path) -> Result<StateDirectory, CommitLogError> {
        let write_error = |error: io::Error| CommitLogError::Write {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        // A directory that was there keeps its mode: what is secret in it has modes of its own.
        if !path.is_dir() {
            disk::create_directories(path).map_err(write_error)?;
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
        let key = key(path, std::env::var_os(KEY_VARIABLE).as_deref())?;
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
        log(&self.path)
    }

    /// The key.
    pub fn key(&self) -> StateKey {
        self.key.clone()
    }
}

fn log(directory: &Path) -> PathBuf {
    directory.join("commit.log")
}

/// The key: what the environment gives, else what the directory's file `key` holds, else a new one.
fn key(directory: &Path, given: Option<&OsStr>) -> Result<StateKey, CommitLogError> {
    let error = |place: &str, why: &str| CommitLogError::StateKey {
        place: place.to_owned(),
        why: why.to_owned(),
    };
    let not_a_key = "a key is 64 hexadecimal digits";
    if let Some(text) = given {
        return text
            .to_str()
            .and_then(StateKey::from_hex)
            .ok_or_else(|| error(KEY_VARIABLE, not_a_key));
    }
    let path = directory.join("key");
    let name = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => StateKey::from_hex(&text).ok_or_else(|| error(&name, not_a_key)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let log = log(directory);
            if fs::metadata(&log).is_ok_and(|log| log.len() > HEADER as u64) {
                return Err(CommitLogError::Read {
                    path: log.display().to_string(),
                    why: format!(
                        "{name} is missing; put it back or set {KEY_VARIABLE}, or begin with a new state directory"
                    ),
                });
            }
            let key = StateKey::random().map_err(|why| error(&name, &why.to_string()))?;
            write_private(&path, key.to_hex().as_bytes())
                .and_then(|()| disk::sync_names(directory))
                .map_err(|why| error(&name, &format!("it cannot be written: {why}")))?;
            Ok(key)
        }
        Err(why) => Err(error(&name, &why.to_string())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_environment_is_taken_or_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let hex = "5a".repeat(32);
        let given = key(place.path(), Some(OsStr::new(&hex))).unwrap();
        assert_eq!(given.to_hex(), hex);
        for bad in ["", "short", &"zz".repeat(32)] {
            let text = key(place.path(), Some(OsStr::new(bad)))
                .unwrap_err()
                .to_string();
            assert_eq!(
                text,
                "cannot take the state key from TIDEGATE_STATE_KEY: a key is 64 hexadecimal digits"
            );
            assert!(!place.path().join("key").exists());
        }
    }

    #[test]
    fn no_new_key_is_made_for_a_log_that_has_entries() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("state");
        let log = StateDirectory::open(&path).unwrap().log();
        let remake = || {
            fs::remove_file(path.join("key")).unwrap();
            key(&path, None)
        };
        fs::write(&log, [0; HEADER]).unwrap();
        assert!(remake().is_ok(), "nothing was written with the old key");
        fs::write(&log, [0; HEADER + 1]).unwrap();
        let text = remake().unwrap_err().to_string();
        assert!(
            text.contains("commit.log") && text.contains("put it back or set TIDEGATE_STATE_KEY"),
            "{text}"
        );
        assert!(!path.join("key").exists());
        assert!(key(&path, Some(OsStr::new(&"00".repeat(32)))).is_ok());
    }
}
