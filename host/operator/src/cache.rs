//! Compiled components on disk, so that a start does not compile what was compiled before, and functions of them
//! (`functions`).
//!
//! An entry is named after what it depends on: the component's digest, and a hash over the engine's settings, its
//! version, the limits of what a component may contain, the target and the features of this CPU. Its content is
//! `artifact, magic, length, sha256 of its name, sha256 of name and artifact`; it is mapped as it lies there. An entry
//! that is cut, changed or from another engine is compiled anew and written again; it never fails a start.
//!
//! # What is trusted
//!
//! An artifact is machine code: who can write one into the directory, hash and all, can run code in this process. The
//! hashes find accidents, not attackers. So the directory is made with mode 0700, and one that others may enter or that
//! belongs to another user is not used at all.
//!
//! # What is checked
//!
//! Hashing thirty megabytes at each start would take longer than all else. So an entry whose hash was right, when it was
//! written or later, is marked by its time of modification, which is made of the hash and lies in the past: whatever is
//! written into a file sets it to now, and takes the mark away. One with the mark, its length and its name is mapped
//! without being read; any other is hashed as a whole first, and marked again. It is on disk before it is marked, so a
//! machine that loses power leaves no mark on what it did not write. What a disk loses later by itself is found in
//! machine code as little as in any other program.

mod functions;

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tidegate_contract::write_in_pieces;

pub(crate) use functions::Owner;
use functions::end_of;

use crate::limits::{COMPONENT_INSTANCES, CORE_INSTANCES, DEFINITIONS, MEMORIES, TABLES};

const MAGIC: &[u8; 8] = b"TGCODE\0\x02";
/// How files end that note something of others, and how many there may be.
const NOTE: &str = "known";
const NOTES: usize = 1000;
/// How files end that are artifacts, and known functions.
const CODE: &str = "code";
const FUNCTIONS: &str = "functions";
/// Magic, length, two hashes.
const TRAILER: usize = 8 + 8 + 32 + 32;

/// The directory of compiled components.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    engine: String,
    /// Most bytes of all entries together, of which the oldest go first.
    most: Option<u64>,
}

impl Cache {
    /// Opens the directory, or says why it cannot be used.
    pub(crate) fn open(
        directory: &Path,
        most: Option<u64>,
        engine: &wasmtime::Engine,
    ) -> Result<Cache, String> {
        make_private(directory)?;
        let mut hasher = Sha(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        // What was compiled is not counted again.
        for limit in [
            CORE_INSTANCES,
            COMPONENT_INSTANCES,
            MEMORIES,
            TABLES,
            DEFINITIONS,
        ] {
            limit.hash(&mut hasher);
        }
        hasher.0.update(std::env::consts::ARCH);
        hasher.0.update(std::env::consts::OS);
        Ok(Cache {
            directory: directory.to_owned(),
            engine: hex(&hasher.0.finalize()[..8]),
            most,
        })
    }

    /// The artifact of this digest: one that serves all, or one that was made with functions of this owner.
    fn name(&self, digest: &str, owner: Option<&Owner>) -> String {
        let digest = hex_of(digest);
        match owner {
            None => format!("{digest}-{}.{CODE}", self.engine),
            Some(Owner(owner)) => format!("{digest}-{}-{owner}.{CODE}", self.engine),
        }
    }

    /// Where something is noted of a file, by a name that has no other use here. Notes are few and short: beyond a
    /// thousand all are forgotten.
    pub(crate) fn note(&self, name: &str) -> PathBuf {
        let note = self.directory.join(format!("{name}.{NOTE}"));
        if !note.exists() {
            let entries = std::fs::read_dir(&self.directory);
            let paths = entries
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path());
            let notes: Vec<PathBuf> = paths.filter(|path| is_note(path)).collect();
            for old in notes.iter().filter(|_| notes.len() >= NOTES) {
                // One that stays costs room and nothing else.
                let _ = std::fs::remove_file(old);
            }
        }
        note
    }

    /// The file that begins with the artifact, if a whole one is there that serves all or this owner.
    pub(crate) fn find(&self, digest: &str, owner: Option<&Owner>) -> Option<PathBuf> {
        let of_all = self.find_named(self.name(digest, None));
        of_all.or_else(|| self.find_named(self.name(digest, Some(owner?))))
    }

    fn find_named(&self, name: String) -> Option<PathBuf> {
        let path = self.directory.join(&name);
        let mut file = File::open(&path).ok()?;
        match is_whole(&mut file, &name) {
            Ok(true) => Some(path),
            _ => {
                tracing::warn!(target: "tidegate::operator", entry = name, "a compiled component on disk is damaged and is compiled anew");
                None
            }
        }
    }

    /// Takes every entry away that is not the artifact of one of these digests for this engine, or made for another than
    /// these owners, or their functions, with what was left half written by a process that has ended. What cannot be
    /// taken away costs room and nothing else.
    pub(crate) fn retain(&self, digests: &BTreeSet<String>, owners: &BTreeSet<Owner>) {
        let digests: BTreeSet<&str> = digests.iter().map(|digest| hex_of(digest)).collect();
        let stays = |name: &str| match *name.split(['-', '.']).collect::<Vec<_>>() {
            [digest, engine, CODE] => engine == self.engine && digests.contains(digest),
            [digest, engine, owner, CODE] => {
                engine == self.engine
                    && digests.contains(digest)
                    && owners.contains(&Owner(owner.to_owned()))
            }
            [owner, engine, FUNCTIONS] => {
                engine == self.engine && owners.contains(&Owner(owner.to_owned()))
            }
            _ => false,
        };
        let own = format!(".{}.", std::process::id());
        let entries = std::fs::read_dir(&self.directory);
        for entry in entries.into_iter().flatten().flatten() {
            let found = entry.file_name();
            let Some(name) = found.to_str() else { continue };
            let ours = match name.strip_prefix('.') {
                Some(beside) => {
                    [CODE, FUNCTIONS]
                        .iter()
                        .any(|end| beside.contains(&format!(".{end}.")))
                        && !beside.contains(&own)
                }
                None if is_note(&entry.path()) => {
                    let noted = std::fs::read_to_string(entry.path()).unwrap_or_default();
                    !noted
                        .lines()
                        .nth(1)
                        .is_some_and(|digest| digests.contains(hex_of(digest)))
                }
                None => {
                    let mut ends = [CODE, FUNCTIONS].iter();
                    ends.any(|end| has_end(&entry.path(), end)) && !stays(name)
                }
            };
            if ours && let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(target: "tidegate::operator", entry = name, "a compiled component that nobody needs stays on disk: {error}");
            }
        }
    }

    /// Writes an artifact, of this owner alone or of all, and says where it is.
    pub(crate) fn store(
        &self,
        digest: &str,
        owner: Option<&Owner>,
        artifact: &[u8],
    ) -> Option<PathBuf> {
        let name = self.name(digest, owner);
        let end = end_of(&name, artifact);
        let sum = end.get(TRAILER - 32..).unwrap_or_default();
        let path = self.write(&name, &[artifact, &end], |file| {
            file.sync_data()?;
            file.set_modified(mark(sum))
        })?;
        if let Some(most) = self.most {
            self.shrink(CODE, most, &path);
        }
        Some(path)
    }

    /// Writes a file beside its place, moves it there, and says where it is. A failure is logged: the component runs
    /// anyway.
    fn write(
        &self,
        name: &str,
        pieces: &[&[u8]],
        finish: impl FnOnce(&File) -> std::io::Result<()>,
    ) -> Option<PathBuf> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let beside = self
            .directory
            .join(format!(".{name}.{}.{serial}", std::process::id()));
        let path = self.directory.join(name);
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&beside)?;
            for piece in pieces {
                write_in_pieces(&mut file, piece)?;
            }
            finish(&file)?;
            std::fs::rename(&beside, &path)
        };
        if let Err(error) = write() {
            // Nothing more can be done about the half-written file than to try.
            let _ = std::fs::remove_file(&beside);
            tracing::warn!(target: "tidegate::operator", directory = %self.directory.display(), "what was compiled was not kept: {error}");
            return None;
        }
        Some(path)
    }

    /// Takes the oldest entries of a kind away until what is left has no more bytes than this; one stays whatever it has.
    fn shrink(&self, kind: &str, most: u64, newest: &Path) {
        let entries = std::fs::read_dir(&self.directory);
        let mut entries: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let is_entry = has_end(&path, kind);
                let facts = entry
                    .metadata()
                    .ok()
                    .filter(|_| is_entry && path != newest)?;
                Some((facts.accessed().ok()?, facts.len(), path))
            })
            .collect();
        entries.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let mut room =
            most.saturating_sub(std::fs::metadata(newest).map_or(0, |facts| facts.len()));
        for (_, bytes, path) in entries {
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                // One that stays costs room and nothing else.
                None => drop(std::fs::remove_file(path)),
            }
        }
    }
}

/// The digits of a digest.
fn hex_of(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

fn is_note(path: &Path) -> bool {
    has_end(path, NOTE)
}

fn has_end(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|found| found == end)
}

/// Whether a file is an entry of this name as it was written, without reading it as a whole if it has its mark.
fn is_whole(file: &mut File, name: &str) -> std::io::Result<bool> {
    let facts = file.metadata()?;
    let Some(length) = facts.len().checked_sub(TRAILER as u64) else {
        return Ok(false);
    };
    let mut trailer = [0; TRAILER];
    file.seek(SeekFrom::Start(length))?;
    file.read_exact(&mut trailer)?;
    let (magic, rest) = trailer.split_at(8);
    let (written, rest) = rest.split_at(8);
    let (named, sum) = rest.split_at(32);
    if magic != MAGIC || written != length.to_le_bytes() || named != Sha256::digest(name).as_slice()
    {
        return Ok(false);
    }
    if facts.modified()? == mark(sum) {
        return Ok(true);
    }
    file.rewind()?;
    let mut hash = Sha256::new();
    hash.update(name);
    std::io::copy(&mut (&*file).take(length), &mut hash)?;
    if hash.finalize().as_slice() != sum {
        return Ok(false);
    }
    // Without it the next start hashes again.
    let marked = file.sync_data().and_then(|()| file.set_modified(mark(sum)));
    if let Err(error) = marked {
        tracing::debug!(target: "tidegate::operator", entry = name, "a compiled component cannot be marked as whole: {error}");
    }
    Ok(true)
}

/// The time of modification of an entry with this hash: between 2001 and 2010, to the nanosecond.
fn mark(sum: &[u8]) -> SystemTime {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| (n << 8) | u64::from(byte));
    let seconds = 1_000_000_000 + number(&sum[..4]) % (1 << 28);
    let nanoseconds = number(&sum[4..8]) % 1_000_000_000;
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds as u32)
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
