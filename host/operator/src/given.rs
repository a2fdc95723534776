//! A component as it is given: bytes, or a file that is known without being read.
//!
//! Reading and hashing eighteen megabytes takes longer than mapping what was compiled of them. So a file that was read
//! before is known by where it lies and when it was last changed, as long as the machine runs; whoever changes it changes
//! that. It is believed only if what was compiled of it is there: bytes that are needed are read, and hashed.

use std::borrow::Cow;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tidegate_component::digest;
use tidegate_contract::OperatorError;

use crate::cache::hex;
use crate::engine::Engine;

/// A component and the digest by which it is known.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    digest: String,
    content: Content<'a>,
}

#[derive(Clone, Debug)]
enum Content<'a> {
    Bytes(Cow<'a, [u8]>),
    File(PathBuf),
}

impl Given<'_> {
    /// `sha256:` and 64 hexadecimal digits, of the file as it is.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its bytes. `label` names it in errors.
    pub fn bytes(&self, label: &str) -> Result<Cow<'_, [u8]>, OperatorError> {
        let path = match &self.content {
            Content::Bytes(bytes) => return Ok(Cow::Borrowed(bytes)),
            Content::File(path) => path,
        };
        let unread = |why: String| OperatorError::NotAnOperator {
            component: label.to_owned(),
            why,
        };
        let bytes =
            std::fs::read(path).map_err(|error| unread(format!("it cannot be read: {error}")))?;
        if digest(&bytes) != self.digest {
            return Err(unread("it was changed while it was looked at".into()));
        }
        Ok(Cow::Owned(bytes))
    }
}

impl<'a> From<&'a [u8]> for Given<'a> {
    fn from(bytes: &'a [u8]) -> Given<'a> {
        Given {
            digest: digest(bytes),
            content: Content::Bytes(Cow::Borrowed(bytes)),
        }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Given<'a> {
    fn from(bytes: &'a [u8; N]) -> Given<'a> {
        Given::from(bytes.as_slice())
    }
}

impl<'a> From<&'a Vec<u8>> for Given<'a> {
    fn from(bytes: &'a Vec<u8>) -> Given<'a> {
        Given::from(bytes.as_slice())
    }
}

impl<'a> From<&'a Given<'_>> for Given<'a> {
    fn from(given: &'a Given<'_>) -> Given<'a> {
        Given {
            digest: given.digest.clone(),
            content: match &given.content {
                Content::Bytes(bytes) => Content::Bytes(Cow::Borrowed(bytes)),
                Content::File(path) => Content::File(path.clone()),
            },
        }
    }
}

impl Engine {
    /// A component in a file, read by `read` unless the engine knows it and has what was compiled of it.
    pub fn open<E>(
        &self,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<Vec<u8>, E>,
    ) -> Result<Given<'static>, E> {
        let cache = self.inner.cache.as_ref();
        let note = cache.and_then(|cache| Some(cache.note(&note_of(path)?)));
        let found = note.as_ref().and_then(|_| Found::at(path));
        if let (Some(note), Some(found), Some(cache)) = (&note, &found, cache)
            && let Some(digest) = found.recall(note)
            && cache.find(&digest, None).is_some()
        {
            return Ok(Given {
                digest,
                content: Content::File(path.to_owned()),
            });
        }
        let bytes = read(path)?;
        let digest = digest(&bytes);
        if let (Some(note), Some(found)) = (&note, &found) {
            // What was changed meanwhile is not what was read.
            if Found::at(path).is_some_and(|after| after.identity == found.identity) {
                found.remember(note, &digest);
            }
        }
        Ok(Given {
            digest,
            content: Content::Bytes(Cow::Owned(bytes)),
        })
    }
}

/// The name of what is noted of a file.
fn note_of(path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    Some(hex(
        &Sha256::digest(path.as_os_str().as_encoded_bytes())[..16]
    ))
}

/// A file as it is now.
struct Found {
    identity: String,
    /// Whether it was changed long enough ago that a change from now on shows.
    is_settled: bool,
}

impl Found {
    fn at(path: &Path) -> Option<Found> {
        let facts = std::fs::metadata(path).ok()?;
        Some(Found {
            identity: identity(&facts)?,
            is_settled: is_settled(&facts),
        })
    }

    /// The digest that was noted of a file with this identity.
    fn recall(&self, note: &Path) -> Option<String> {
        let text = std::fs::read_to_string(note).ok()?;
        let (identity, digest) = text.split_once('\n')?;
        let is_digest = digest.len() == "sha256:".len() + 64 && digest.starts_with("sha256:");
        (identity == self.identity && is_digest).then(|| digest.to_owned())
    }

    fn remember(&self, note: &Path, digest: &str) {
        if !self.is_settled {
            return;
        }
        // A note that is torn or missing costs the reading of a file.
        if let Err(error) = std::fs::write(note, format!("{}\n{digest}", self.identity)) {
            tracing::debug!(target: "tidegate::operator", "a component's file is read again next time: {error}");
        }
    }
}

/// Start of the machine, place on its disk, length, and the last changes of content and of anything: the last of them
/// cannot be set by whoever changes a file. Where a machine lost power, files may have lost what was written to them.
#[cfg(target_os = "linux")]
fn identity(facts: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!(
        "{} {} {} {} {}.{} {}.{}",
        boot.trim(),
        facts.dev(),
        facts.ino(),
        facts.len(),
        facts.mtime(),
        facts.mtime_nsec(),
        facts.ctime(),
        facts.ctime_nsec()
    ))
}

#[cfg(not(target_os = "linux"))]
fn identity(_facts: &Metadata) -> Option<String> {
    None
}

/// Times of files are as coarse as two seconds on some disks.
#[cfg(target_os = "linux")]
fn is_settled(facts: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    now.is_ok_and(|now| now.as_secs() as i64 > facts.ctime() + 2)
}

#[cfg(not(target_os = "linux"))]
fn is_settled(_facts: &Metadata) -> bool {
    false
}
