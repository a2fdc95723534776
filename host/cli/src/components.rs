//! Deployed components in the state directory, and how many stay there.
//!
//! A component is kept before any task can run it, because a cut that names it must find it after a restart. It stays
//! while a slot runs it or may go back to it, while the last cut names it, and while it is being deployed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_state::Disk;

/// The directory of deployed components.
#[derive(Debug)]
pub(crate) struct Components {
    directory: PathBuf,
    /// Digests of the components that are being deployed; one for each deployment.
    under_way: Mutex<Vec<String>>,
    /// Held while one is written: one at a time.
    writing: Mutex<()>,
}

/// A component stays while this does, whoever else needs it.
pub(crate) struct Kept<'a> {
    components: &'a Components,
    digest: String,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let mut under_way = self.components.lock();
        if let Some(place) = under_way.iter().position(|digest| *digest == self.digest) {
            under_way.swap_remove(place);
        }
    }
}

impl Components {
    pub(crate) fn new(state: &Path) -> Components {
        Components {
            directory: state.join("components"),
            under_way: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    /// Where a component is kept.
    pub(crate) fn path(&self, digest: &str) -> PathBuf {
        self.directory.join(name(digest))
    }

    /// Keeps a component that is about to be deployed, so that a restart finds it.
    pub(crate) fn keep(&self, digest: &str, bytes: &[u8]) -> io::Result<Kept<'_>> {
        // Before it is there, so that nobody sweeps it away; a sweep does not wait for the disk.
        self.lock().push(digest.to_owned());
        let kept = Kept {
            components: self,
            digest: digest.to_owned(),
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is there was durable before it had its name, and a large one takes a disk's time from the stream.
        let path = self.path(digest);
        if fs::read(&path).ok().as_deref() != Some(bytes) {
            Disk.replace_in_pieces(&path, bytes)?;
        }
        Ok(kept)
    }

    /// Takes away what is not among these and is not being deployed. What cannot be taken away costs room and nothing
    /// else. Returns the digests that stay.
    pub(crate) fn sweep(&self, needed: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        let under_way = self.lock();
        let stay: BTreeSet<String> = needed
            .into_iter()
            .chain(under_way.iter().cloned())
            .collect();
        let names: BTreeSet<String> = stay.iter().map(|digest| name(digest)).collect();
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let found = entry.file_name();
            let ours = found
                .to_str()
                .is_some_and(|name| is_ours(name) && !names.contains(name));
            if ours && let Err(error) = fs::remove_file(entry.path()) {
                tracing::debug!(path = %entry.path().display(), %error, "a component that nobody needs stays on disk");
            }
        }
        stay
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        // Each change is one step.
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(digest: &str) -> String {
    format!("{}.wasm", digest.trim_start_matches("sha256:"))
}

/// Whether this host wrote it: a component, or one that was half written when the process ended.
fn is_ours(name: &str) -> bool {
    let digest = name.strip_suffix(".new").unwrap_or(name);
    digest.strip_suffix(".wasm").is_some_and(|digest| {
        digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> String {
        format!("sha256:{}", format!("{n:02x}").repeat(32))
    }

    fn there(components: &Components) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&components.directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_slot_needs_stays_when_another_deployment_of_it_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let components = Components::new(state.path());
        drop(components.keep(&digest(1), b"runs").unwrap());
        // Another slot refuses the same component.
        drop(components.keep(&digest(1), b"runs").unwrap());
        drop(components.keep(&digest(2), b"refused").unwrap());
        let under_way = components.keep(&digest(3), b"being deployed").unwrap();
        components.sweep([digest(1)]);
        assert_eq!(there(&components), [name(&digest(1)), name(&digest(3))]);
        drop(under_way);
        components.sweep([digest(1)]);
        assert_eq!(there(&components), [name(&digest(1))]);
    }

    #[test]
    fn what_this_host_did_not_write_stays() {
        let state = tempfile::tempdir().unwrap();
        let components = Components::new(state.path());
        drop(components.keep(&digest(1), b"old").unwrap());
        let half = format!("{}.new", name(&digest(4)));
        for file in ["notes.txt", "mine.wasm", &half] {
            fs::write(components.directory.join(file), "x").unwrap();
        }
        components.sweep([]);
        assert_eq!(there(&components), ["mine.wasm", "notes.txt"]);
    }
}
