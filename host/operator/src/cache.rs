//! Compiled components on disk, so that a start does not compile what was compiled before.
//!
//! An entry is named after what it depends on: the component's digest, and a hash over the engine's settings, its
//! version, the target and the features of this CPU. Its content is `magic, sha256 over name and artifact, artifact`.
//! An entry that is cut, changed or from another engine is compiled anew and written again; it never fails a start.
//!
//! # What is trusted
//!
//! An artifact is machine code: who can write one into the directory, hash and all, can run code in this process. The
//! hash finds accidents, not attackers. So the directory is made with mode 0700, and one that others may enter or that
//! belongs to another user is not used at all.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"TGCODE\0\x01";
const HEADER: usize = 8 + 32;

/// The directory of compiled components.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    engine: String,
}

impl Cache {
    /// Opens the directory, or says why it cannot be used.
    pub(crate) fn open(directory: &Path, engine: &wasmtime::Engine) -> Result<Cache, String> {
        make_private(directory)?;
        let mut hasher = Sha(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.0.update(std::env::consts::ARCH);
        hasher.0.update(std::env::consts::OS);
        Ok(Cache {
            directory: directory.to_owned(),
            engine: hex(&hasher.0.finalize()[..8]),
        })
    }

    fn name(&self, digest: &str) -> String {
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        format!("{digest}-{}.code", self.engine)
    }

    /// The artifact, if a whole one is there.
    pub(crate) fn load(&self, digest: &str) -> Option<Vec<u8>> {
        let name = self.name(digest);
        let mut bytes = std::fs::read(self.directory.join(&name)).ok()?;
        let whole = bytes.len() > HEADER
            && bytes[..8] == *MAGIC
            && bytes[8..HEADER] == checksum(&name, &bytes[HEADER..]);
        if !whole {
            tracing::warn!(target: "tidegate::operator", entry = name, "a compiled component on disk is damaged and is compiled anew");
            return None;
        }
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Takes every entry away that is not the artifact of one of these digests for this engine, with what was left half
    /// written by a process that has ended. What cannot be taken away costs room and nothing else.
    pub(crate) fn retain(&self, digests: &BTreeSet<String>) {
        let stay: BTreeSet<String> = digests.iter().map(|digest| self.name(digest)).collect();
        let own = format!(".{}.", std::process::id());
        let entries = std::fs::read_dir(&self.directory);
        for entry in entries.into_iter().flatten().flatten() {
            let found = entry.file_name();
            let Some(name) = found.to_str() else { continue };
            let ours = match name.strip_prefix('.') {
                Some(beside) => beside.contains(".code.") && !beside.contains(&own),
                None => name.ends_with(".code") && !stay.contains(name),
            };
            if ours && let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(target: "tidegate::operator", entry = name, "a compiled component that nobody needs stays on disk: {error}");
            }
        }
    }

    /// Writes an artifact beside its place and moves it there. A failure is logged: the component runs anyway.
    pub(crate) fn store(&self, digest: &str, artifact: &[u8]) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let name = self.name(digest);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let beside = self
            .directory
            .join(format!(".{name}.{}.{serial}", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(MAGIC)?;
            file.write_all(&checksum(&name, artifact))?;
            file.write_all(artifact)?;
            std::fs::rename(&beside, self.directory.join(&name))
        };
        if let Err(error) = write() {
            // Nothing more can be done about the half-written file than to try.
            let _ = std::fs::remove_file(&beside);
            tracing::warn!(target: "tidegate::operator", directory = %self.directory.display(), "a compiled component was not kept: {error}");
        }
    }
}

fn checksum(name: &str, artifact: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(name);
    hash.update(artifact);
    hash.finalize().into()
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hasher with the same result in every process and for every version of the standard library.
struct Sha(Sha256);

impl Hasher for Sha {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.clone().finalize();
        hash.iter()
            .take(8)
            .fold(0, |n, &byte| (n << 8) | u64::from(byte))
    }
}

#[cfg(unix)]
fn make_private(directory: &Path) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let shown = directory.display();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| format!("{shown} cannot be made: {error}"))?;
    let found = std::fs::metadata(directory).map_err(|error| format!("{shown}: {error}"))?;
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return Err(format!(
            "{shown} is open to others (mode {mode:o}, must be 700)"
        ));
    }
    // A file of our own tells who we are without asking the system by other means.
    let probe = directory.join(format!(".probe.{}", std::process::id()));
    let own = std::fs::File::create(&probe)
        .and_then(|file| file.metadata())
        .map_err(|error| format!("{shown} cannot be written: {error}"));
    // The probe is empty; one that stays behind does no harm.
    let _ = std::fs::remove_file(&probe);
    if own?.uid() != found.uid() {
        return Err(format!("{shown} belongs to another user"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("{} cannot be made: {error}", directory.display()))
}
