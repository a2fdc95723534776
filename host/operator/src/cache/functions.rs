//! Known functions on disk, those of each owner in a file of their own, beside the artifacts that were made with them.
//!
//! Functions of a compiler that a component has broken are machine code of that component's author. So nobody is given
//! those of another: neither the functions, nor an artifact that was made with them. Its entry has the owner in its name,
//! and is found by that owner alone; what was compiled as a whole serves all.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::{Cache, FUNCTIONS, MAGIC, TRAILER, checksum, hex};

/// Most bytes of the known functions of all owners of a directory, of which the oldest go first.
const ALL: u64 = 512 << 20;
/// Bytes of an owner's hash that name it.
const NAMED: usize = 16;

/// Who has functions: no other is given them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner(pub(super) String);

impl Owner {
    /// The slot of this name.
    pub(crate) fn slot(name: &str) -> Owner {
        Owner::of("slot", name.as_bytes())
    }

    /// The project in this directory.
    pub(crate) fn project(directory: &std::path::Path) -> Owner {
        Owner::of("project", directory.as_os_str().as_encoded_bytes())
    }

    fn of(kind: &str, name: &[u8]) -> Owner {
        let hash = Sha256::new()
            .chain_update(kind)
            .chain_update([0])
            .chain_update(name);
        Owner(hex(&hash.finalize()[..NAMED]))
    }
}

impl Cache {
    pub(super) fn functions_name(&self, owner: &Owner) -> String {
        format!("{}-{}.{FUNCTIONS}", owner.0, self.engine)
    }

    fn functions_path(&self, owner: &Owner) -> PathBuf {
        self.directory.join(self.functions_name(owner))
    }

    /// The functions that this owner has, if they are as they were written and no more than so many bytes; nothing
    /// where there are none.
    pub(crate) fn functions(&self, owner: &Owner, most: usize) -> Vec<u8> {
        let path = self.functions_path(owner);
        let most = (most + TRAILER) as u64;
        if !std::fs::metadata(&path).is_ok_and(|found| found.len() <= most) {
            return Vec::new();
        }
        let Ok(mut bytes) = std::fs::read(&path) else {
            return Vec::new();
        };
        let name = self.functions_name(owner);
        let length = bytes.len().saturating_sub(TRAILER);
        let (functions, trailer) = bytes.split_at(length);
        if trailer != end_of(&name, functions) {
            tracing::warn!(target: "tidegate::operator", entry = name, "known functions on disk are damaged and are not used");
            return Vec::new();
        }
        bytes.truncate(length);
        bytes
    }

    /// Writes them anew. They are not waited for until they are on the disk: what is lost is compiled again.
    pub(crate) fn keep_functions(&self, owner: &Owner, functions: &[u8]) {
        let name = self.functions_name(owner);
        let end = end_of(&name, functions);
        if let Some(path) = self.write(&name, &[functions, &end], |_| Ok(())) {
            self.shrink(FUNCTIONS, ALL, &path);
        }
    }

    /// Takes them away.
    pub(crate) fn forget_functions(&self, owner: &Owner) {
        if let Err(error) = std::fs::remove_file(self.functions_path(owner)) {
            tracing::debug!(target: "tidegate::operator", "known functions stay on disk: {error}");
        }
    }
}

/// What stands behind content of this name.
pub(super) fn end_of(name: &str, content: &[u8]) -> Vec<u8> {
    let mut end = MAGIC.to_vec();
    end.extend_from_slice(&(content.len() as u64).to_le_bytes());
    end.extend_from_slice(&Sha256::digest(name));
    end.extend_from_slice(&checksum(name, content));
    end
}
