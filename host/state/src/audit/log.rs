//! The files of an audit log. They grow at each cut, and are cut back to the last one on recovery.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_contract::{
    AppendFile, AuditLog, Audited, EntryCipher, FileLayer, InUse, SinkError, SinkPosition,
};

use super::chain::{AuditHead, link, members};
use super::files::{gap, number_of, numbered};

/// What the log's place is called in cuts: no sink can be called so.
const NAME: &str = "audit log";

/// How much is kept where.
#[derive(Clone, Copy, Debug)]
pub struct AuditLimits {
    /// A file that has so many bytes is followed by another.
    pub file: u64,
    /// Most bytes of what was asked and answered in one line; of more only a hash is kept.
    pub content: usize,
}

/// The audit log, as one worker has it. Workers share the files and the chain.
pub struct AuditFile {
    first: PathBuf,
    layer: Arc<dyn FileLayer>,
    cipher: Arc<dyn EntryCipher>,
    limits: AuditLimits,
    /// The rest of each line, in order: its place in the chain is known when it is written.
    pending: Vec<String>,
    bytes: usize,
    open: Arc<Mutex<Open>>,
}

struct Open {
    /// Nobody else has it while it is open here.
    file: Box<dyn AppendFile>,
    /// Its number, counted from 1.
    number: u64,
    /// Length at the last flush that held.
    length: u64,
    head: AuditHead,
    /// A write failed: what of it is on the disk is not known.
    failed: bool,
}

impl AuditFile {
    /// Opens the log whose first file this is, and takes away what lies beyond the last cut. `known` are the positions
    /// that the commit log has, and `ended` is whether the last run ended in order: what its files have beyond its last
    /// cut is then somebody else's, and refused.
    pub fn recover(
        first: &Path,
        layer: Arc<dyn FileLayer>,
        cipher: Arc<dyn EntryCipher>,
        limits: AuditLimits,
        (known, ended): (&[SinkPosition], bool),
    ) -> Result<AuditFile, SinkError> {
        let fail = |path: &Path, why: String| SinkError::Recover {
            place: path.display().to_string(),
            why,
        };
        let own = known.iter().filter(|known| known.sink == NAME);
        let last = own.clone().next_back();
        let position = own
            .filter_map(|known| Some((number_of(first, &known.identity)?, known.length)))
            .next_back();
        if let Some(last) = last.filter(|last| number_of(first, &last.identity).is_none())
            && !ended
        {
            let why = format!(
                "the audit went to {} until now, when the last run was cut short; bring that back as the path and let a run \
                 end before you change it",
                last.identity
            );
            return Err(fail(first, why));
        }
        let (number, length) = position.unwrap_or((1, 0));
        let missing = gap(layer.as_ref(), first, number);
        let missing = missing.map_err(|error| fail(first, error.to_string()))?;
        if let Some(missing) = missing {
            let why = format!(
                "{} is missing among its files: bring it back; only those from the first on can be archived",
                missing.display()
            );
            return Err(fail(first, why));
        }
        let path = numbered(first, number);
        let mut file = open(layer.as_ref(), &path)?;
        let io = |error: io::Error| fail(&path, error.to_string());
        let found = file.length().map_err(io)?;
        if found < length {
            let why = format!(
                "it has {found} bytes but the last cut left {length}: lines were lost or taken away"
            );
            return Err(fail(&path, why));
        }
        if found > length && (position.is_none() || ended) {
            let why = format!(
                "it has {found} bytes and the last cut left {length}: something else wrote to it; name a new or empty file, \
                 or take that away"
            );
            return Err(fail(&path, why));
        }
        if found > length {
            file.truncate(length).map_err(io)?;
        }
        // One that was begun and not committed.
        let next = numbered(first, number + 1);
        let begun = layer
            .length(&next)
            .map_err(|error| fail(&next, error.to_string()))?;
        if let Some(bytes @ 1..) = begun {
            if ended || position.is_none() {
                let why = format!("it has {bytes} bytes that no cut knows of; take it away");
                return Err(fail(&next, why));
            }
            let truncated = open(layer.as_ref(), &next)?.truncate(0);
            truncated.map_err(|error| fail(&next, error.to_string()))?;
        }
        let head = match (length, number) {
            (1.., _) => Some((file.read().map_err(io)?, path.clone())),
            (0, 2..) => {
                let before = numbered(first, number - 1);
                let bytes = layer.read(&before);
                let bytes = bytes.map_err(|error| fail(&before, error.to_string()))?;
                Some((bytes.unwrap_or_default(), before))
            }
            _ => None,
        };
        let head = match head {
            None => AuditHead::default(),
            Some((bytes, path)) => head_of(&bytes).ok_or_else(|| {
                fail(
                    &path,
                    "its last line is altered: see tidegate audit verify".into(),
                )
            })?,
        };
        Ok(AuditFile {
            first: first.to_owned(),
            layer,
            cipher,
            limits,
            pending: Vec::new(),
            bytes: 0,
            open: Arc::new(Mutex::new(Open {
                file,
                number,
                length,
                head,
                failed: false,
            })),
        })
    }

    /// The same log for another worker.
    pub fn sibling(&self) -> AuditFile {
        AuditFile {
            first: self.first.clone(),
            layer: Arc::clone(&self.layer),
            cipher: Arc::clone(&self.cipher),
            limits: self.limits,
            pending: Vec::new(),
            bytes: 0,
            open: Arc::clone(&self.open),
        }
    }

    /// Its first file.
    pub fn path(&self) -> &Path {
        &self.first
    }

    /// The last line that is on the disk.
    pub fn head(&self) -> AuditHead {
        self.lock().head.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, open: &Open) -> SinkPosition {
        SinkPosition {
            sink: NAME.to_owned(),
            identity: numbered(&self.first, open.number).display().to_string(),
            length: open.length,
        }
    }

    /// Goes on to the next file where this one is full. It must be new.
    fn turn(&self, open: &mut Open) -> io::Result<()> {
        if open.length < self.limits.file {
            return Ok(());
        }
        let path = numbered(&self.first, open.number + 1);
        let file = self.layer.open_append(&path)?;
        let found = file.length()?;
        if found > 0 {
            return Err(io::Error::other(format!(
                "{} is there already and has {found} bytes",
                path.display()
            )));
        }
        open.number += 1;
        (open.file, open.length) = (file, 0);
        Ok(())
    }

    fn append(&self, open: &mut Open) -> io::Result<()> {
        let found = open.file.length()?;
        if found != open.length {
            return Err(io::Error::other(format!(
                "it has {found} bytes, and this run left {}: something else wrote to it",
                open.length
            )));
        }
        self.turn(open)?;
        let (mut head, mut lines) = (open.head.clone(), Vec::new());
        for members in &self.pending {
            head.chain(members, &mut lines);
        }
        open.file.append(&lines)?;
        open.file.sync()?;
        open.length += lines.len() as u64;
        open.head = head;
        Ok(())
    }

    fn error(&self, number: u64, why: String) -> SinkError {
        SinkError::Write {
            place: numbered(&self.first, number).display().to_string(),
            why,
        }
    }
}

fn open(layer: &dyn FileLayer, path: &Path) -> Result<Box<dyn AppendFile>, SinkError> {
    layer.open_append(path).map_err(|error| SinkError::Recover {
        place: path.display().to_string(),
        why: match InUse::of(&error) {
            Some(in_use) => format!("it is {in_use}; each pipeline needs an audit of its own"),
            None => error.to_string(),
        },
    })
}

/// What the last line of a file says, if it is whole.
fn head_of(bytes: &[u8]) -> Option<AuditHead> {
    let lines = bytes.strip_suffix(b"\n")?;
    let last = lines.rsplit(|byte| *byte == b'\n').next()?;
    let link = link(last).ok()?;
    Some(AuditHead {
        lines: link.number,
        hash: link.hash,
    })
}

impl AuditLog for AuditFile {
    fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let milliseconds = since.unwrap_or_default().as_millis() as u64;
        let made = members(
            audited,
            milliseconds,
            self.cipher.as_ref(),
            self.limits.content,
        );
        let members = made.ok_or_else(|| {
            self.error(
                1,
                "the system gives no random numbers to seal a line with".into(),
            )
        })?;
        self.bytes += members.len();
        self.pending.push(members);
        Ok(())
    }

    fn pending(&self) -> usize {
        self.bytes
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let shared = Arc::clone(&self.open);
        let mut open = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if open.failed {
            return Err(self.error(open.number, "an earlier write failed".into()));
        }
        // A panic counts as a failure too.
        open.failed = true;
        let appended = self.append(&mut open);
        appended.map_err(|error| self.error(open.number, error.to_string()))?;
        open.failed = false;
        let place = self.place(&open);
        drop(open);
        self.discard();
        Ok(Some(place))
    }

    fn discard(&mut self) {
        self.pending.clear();
        self.bytes = 0;
    }

    fn position(&self) -> Option<SinkPosition> {
        Some(self.place(&self.lock()))
    }
}

impl fmt::Debug for AuditFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditFile")
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}
