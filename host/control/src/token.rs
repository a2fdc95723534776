//! The token of a running host, and the file by which its owner's other processes find it.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the file in the state directory.
const NAME: &str = "admin.json";

/// Where a running host is, and how it is asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdminFile {
    pub(crate) address: SocketAddr,
    /// 64 hexadecimal digits.
    pub(crate) token: String,
    /// The process that listens.
    pub(crate) pid: u32,
}

impl std::fmt::Debug for AdminFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminFile")
            .field("address", &self.address)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl AdminFile {
    pub(crate) fn path(state: &Path) -> PathBuf {
        state.join(NAME)
    }

    /// Writes it, seen whole or not at all and readable by its owner only.
    pub(crate) fn write(&self, state: &Path) -> io::Result<()> {
        fs::create_dir_all(state)?;
        let temporary = state.join(format!("{NAME}.{}.new", self.pid));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Left over from a process of the same number that died in between.
        let _ = fs::remove_file(&temporary);
        let written = options.open(&temporary).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&temporary, Self::path(state))
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Takes it away, if it is still this one.
    pub(crate) fn remove(&self, state: &Path) {
        let path = Self::path(state);
        let ours = fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<AdminFile>(&bytes).ok())
            .is_some_and(|file| file == *self);
        if ours {
            let _ = fs::remove_file(path);
        }
    }
}

/// 32 random bytes as hexadecimal digits.
pub(crate) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not tell how much was right. The length of a token is no secret.
pub(crate) fn same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len()
        && std::hint::black_box(
            given
                .iter()
                .zip(token)
                .fold(0, |different, (one, other)| different | (one ^ other)),
        ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ_and_compare_whole() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        assert!(same(one.as_bytes(), one.as_bytes()));
        assert!(!same(one.as_bytes(), other.as_bytes()));
        assert!(!same(&one.as_bytes()[..63], one.as_bytes()));
        assert!(!same(b"", one.as_bytes()));
    }

    #[test]
    fn the_file_is_its_owners_and_only_its_writer_removes_it() {
        let state = tempfile::tempdir().unwrap();
        let directory = state.path().join("deep/state");
        let file = AdminFile {
            address: ([127, 0, 0, 1], 80).into(),
            token: "t".repeat(64),
            pid: 1,
        };
        file.write(&directory).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(AdminFile::path(&directory)).unwrap();
            assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        }
        let next = AdminFile {
            pid: 2,
            ..file.clone()
        };
        next.write(&directory).unwrap();
        file.remove(&directory);
        assert!(AdminFile::path(&directory).exists());
        next.remove(&directory);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        assert!(!format!("{file:?}").contains("ttt"));
    }
}
