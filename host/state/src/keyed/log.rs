//! Opening a log of values by key, and writing it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_contract::{
    AppendFile, EntryCipher, FileLayer, KeyedChange, KeyedLog, KeyedLogError, KeyedValue,
};

use super::format::{self, Entries, Entry, HEADER};

/// Bytes that no longer count, beside as many as do, before the file is written anew.
const SLACK: usize = 1 << 20;

/// A log of values by key in one file, see the module.
pub struct FileKeyedLog {
    layer: Arc<dyn FileLayer>,
    path: PathBuf,
    cipher: Arc<dyn EntryCipher>,
    fingerprint: [u8; 32],
    /// None while what is in the file is not known.
    file: Option<Box<dyn AppendFile>>,
    /// Bytes of the entry that counts, by key.
    live: HashMap<[u8; 32], usize>,
    live_bytes: usize,
    length: usize,
}

/// A log that was opened.
#[derive(Debug)]
pub struct OpenedKeyedLog {
    /// The log.
    pub log: FileKeyedLog,
    /// What it has, in the order of its keys.
    pub values: Vec<KeyedValue>,
    /// What was lost of it, for a person.
    pub lost: Option<String>,
}

impl fmt::Debug for FileKeyedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileKeyedLog")
            .field("path", &self.path)
            .field("values", &self.live.len())
            .finish_non_exhaustive()
    }
}

/// What counts of a file: when each is forgotten, and its sealed value.
type Counts<'a> = BTreeMap<[u8; 32], (u64, &'a [u8])>;

/// The entries that count, and how many bytes at the end of the file are none.
fn counting(bytes: &[u8]) -> (Counts<'_>, usize) {
    let mut counts = Counts::new();
    let mut entries = Entries::of(bytes);
    for entry in entries.by_ref() {
        match entry {
            Entry::Put { key, until, sealed } => drop(counts.insert(key, (until, sealed))),
            Entry::Remove { key } => drop(counts.remove(&key)),
        }
    }
    (counts, bytes.len() - entries.at)
}

impl FileKeyedLog {
    /// Opens the log at this path, or makes it. What is to be forgotten by `now` (seconds since the Unix epoch) is not
    /// there any more. Whoever opens it has the directory to itself.
    pub fn open(
        layer: Arc<dyn FileLayer>,
        path: &Path,
        cipher: Arc<dyn EntryCipher>,
        now: u64,
    ) -> Result<OpenedKeyedLog, KeyedLogError> {
        let read_error = |why: String| KeyedLogError::Read {
            place: path.display().to_string(),
            why,
        };
        let own = fingerprint(cipher.as_ref());
        let own =
            own.ok_or_else(|| read_error("the key of the state has no fingerprint".into()))?;
        let bytes = layer.read(path);
        let bytes = bytes.map_err(|error| read_error(error.to_string()))?;
        let mut lost = None;
        let mut values = Vec::new();
        if let Some(bytes) = &bytes {
            // A file that was never synced may be of any length; one of another kind is somebody's.
            let of = match format::fingerprint(bytes) {
                Ok(of) => Some(of),
                Err(_) if bytes.len() < HEADER => None,
                Err(why) => return Err(read_error(why.into())),
            };
            let (counts, torn) = match of {
                Some(of) if of == own => counting(bytes),
                _ => (Counts::new(), 0),
            };
            if of.is_some_and(|of| of != own) {
                lost =
                    Some("it was written with another key of the state, and is forgotten".into());
            } else if torn > 0 {
                lost = Some(format!(
                    "{torn} bytes at its end are torn, and are cut away"
                ));
            }
            for (key, (until, sealed)) in counts {
                if until <= now {
                    continue;
                }
                match cipher.open(&format::name(&key, until), sealed) {
                    Some(value) => values.push(KeyedValue { key, until, value }),
                    None => lost = Some("a value in it is damaged, and is forgotten".into()),
                }
            }
        }
        let mut log = FileKeyedLog {
            file: None,
            layer,
            path: path.to_owned(),
            cipher,
            fingerprint: own,
            live: HashMap::new(),
            live_bytes: 0,
            length: 0,
        };
        // What was read may be what a failed sync left in the kernel's memory: it is written anew before it counts.
        let mut fresh = format::header(&log.fingerprint);
        let mut live = HashMap::new();
        for value in &values {
            let size = log.seal(value, &mut fresh)?;
            live.insert(value.key, size);
        }
        log.replace(fresh, live)?;
        Ok(OpenedKeyedLog { log, values, lost })
    }

    fn write_error(&self, error: &io::Error) -> KeyedLogError {
        KeyedLogError::Write {
            place: self.path.display().to_string(),
            why: error.to_string(),
            kind: error.kind(),
        }
    }

    /// Appends the entry of a value. Returns its bytes.
    fn seal(&self, value: &KeyedValue, out: &mut Vec<u8>) -> Result<usize, KeyedLogError> {
        let KeyedValue { key, until, value } = value;
        let sealed = self.cipher.seal(&format::name(key, *until), value);
        let sealed = sealed.ok_or_else(|| {
            self.write_error(&io::Error::other("the system gives no random numbers"))
        })?;
        let entry = Entry::Put {
            key: *key,
            until: *until,
            sealed: &sealed,
        };
        format::write(&entry, out).ok_or(KeyedLogError::TooLarge {
            bytes: value.len(),
            limit: u32::MAX,
        })?;
        Ok(format::size(sealed.len()))
    }

    /// The file has these bytes from now on, durable.
    fn replace(
        &mut self,
        bytes: Vec<u8>,
        live: HashMap<[u8; 32], usize>,
    ) -> Result<(), KeyedLogError> {
        self.file = None;
        let file = self.layer.replace(&self.path, &bytes);
        self.file = Some(file.map_err(|error| self.write_error(&error))?);
        self.live_bytes = live.values().sum();
        (self.live, self.length) = (live, bytes.len());
        Ok(())
    }

    /// Writes the file anew with what counts in it.
    fn write_anew(&mut self) -> Result<(), KeyedLogError> {
        let bytes = self.layer.read(&self.path);
        let bytes = bytes.map_err(|error| self.write_error(&error))?;
        let bytes = bytes.unwrap_or_default();
        let (counts, _) = match format::fingerprint(&bytes) {
            Ok(of) if of == self.fingerprint => counting(&bytes),
            _ => (Counts::new(), 0),
        };
        let mut fresh = format::header(&self.fingerprint);
        let mut live = HashMap::new();
        for (key, (until, sealed)) in counts {
            let entry = Entry::Put { key, until, sealed };
            // It was counted when it was written.
            if format::write(&entry, &mut fresh).is_some() {
                live.insert(key, format::size(sealed.len()));
            }
        }
        self.replace(fresh, live)
    }

    fn append(&mut self, bytes: &[u8], durable: bool) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("it is not open"));
        };
        let length = file.length()?;
        if length != self.length as u64 {
            let why = format!(
                "it has {length} bytes and this run left {}: something else writes it",
                self.length
            );
            return Err(io::Error::other(why));
        }
        file.append(bytes)?;
        self.length += bytes.len();
        match durable {
            true => file.sync(),
            false => Ok(()),
        }
    }

    fn count(&mut self, key: [u8; 32], size: Option<usize>) {
        let before = match size {
            Some(size) => self.live.insert(key, size),
            None => self.live.remove(&key),
        };
        self.live_bytes = self.live_bytes + size.unwrap_or_default() - before.unwrap_or_default();
    }
}

impl KeyedLog for FileKeyedLog {
    fn write(&mut self, changes: &[KeyedChange], durable: bool) -> Result<(), KeyedLogError> {
        if self.file.is_none() || self.length > 2 * self.live_bytes + SLACK {
            self.write_anew()?;
        }
        let mut bytes = Vec::new();
        let mut sizes = Vec::with_capacity(changes.len());
        for change in changes {
            match change {
                KeyedChange::Put(value) => {
                    let size = self.seal(value, &mut bytes)?;
                    sizes.push((value.key, Some(size)));
                }
                KeyedChange::Remove(key) => {
                    let _ = format::write(&Entry::Remove { key: *key }, &mut bytes);
                    sizes.push((*key, None));
                }
            }
        }
        if let Err(error) = self.append(&bytes, durable) {
            self.file = None;
            return Err(self.write_error(&error));
        }
        for (key, size) in sizes {
            self.count(key, size);
        }
        Ok(())
    }
}

/// The digits as bytes.
fn fingerprint(cipher: &dyn EntryCipher) -> Option<[u8; 32]> {
    cipher.fingerprint().as_bytes().try_into().ok()
}
