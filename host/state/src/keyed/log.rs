//! Opening a log of values by key, and writing it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_contract::{
    AppendFile, EntryCipher, FileLayer, KeyedChange, KeyedLog, KeyedLogError, KeyedLoss, KeyedValue,
};

use super::format::{self, Entry};
use super::read::{Read, read};

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
    live: Live,
    /// Keys of changes that may be in the file or not.
    unsure: HashSet<[u8; 32]>,
    length: usize,
    /// What was lost and nobody was told yet.
    loss: Option<KeyedLoss>,
}

/// What counts in the file.
#[derive(Default)]
struct Live {
    /// Bytes of its entry, and when it is forgotten.
    by_key: HashMap<[u8; 32], (usize, u64)>,
    by_time: BTreeSet<(u64, [u8; 32])>,
    bytes: usize,
}

impl Live {
    fn put(&mut self, key: [u8; 32], size: usize, until: u64) {
        self.remove(&key);
        self.by_key.insert(key, (size, until));
        self.by_time.insert((until, key));
        self.bytes += size;
    }

    fn remove(&mut self, key: &[u8; 32]) {
        if let Some((size, until)) = self.by_key.remove(key) {
            self.by_time.remove(&(until, *key));
            self.bytes -= size;
        }
    }

    /// What is to be forgotten by then counts no longer.
    fn forget(&mut self, now: u64) {
        while let Some((until, key)) = self.by_time.first().copied()
            && until <= now
        {
            self.remove(&key);
        }
    }
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
    /// Whether that is no more than the end of a write that was cut short, of which nobody was told that it is kept.
    pub torn: bool,
}

impl fmt::Debug for FileKeyedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileKeyedLog")
            .field("path", &self.path)
            .field("values", &self.live.by_key.len())
            .finish_non_exhaustive()
    }
}

impl FileKeyedLog {
    /// Opens the log at this path, or makes it. What is to be forgotten by `now` (seconds since the Unix epoch) is not
    /// there any more. A file that is damaged is put aside under its name with `.damaged` behind it, and what can be read
    /// of it is kept. Whoever opens it has the directory to itself.
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
        let mut log = FileKeyedLog {
            file: None,
            layer,
            path: path.to_owned(),
            cipher,
            fingerprint: own,
            live: Live::default(),
            unsure: HashSet::new(),
            length: 0,
            loss: None,
        };
        let bytes = log.layer.read(path);
        let bytes = bytes.map_err(|error| read_error(error.to_string()))?;
        let (mut lost, mut values, mut torn) = (None, Vec::new(), false);
        if let Some(bytes) = &bytes {
            let Read {
                counts,
                mut wrong,
                mut damaged,
                torn: cut_short,
            } = read(bytes, &own);
            let mut sealed_otherwise = 0;
            for (key, (until, sealed)) in counts {
                if until <= now {
                    continue;
                }
                match log.cipher.open(&format::name(&key, until), sealed) {
                    Some(value) => values.push(KeyedValue { key, until, value }),
                    None => sealed_otherwise += 1,
                }
            }
            if sealed_otherwise > 0 {
                damaged = true;
                let values = format!("{sealed_otherwise} values in it are not as they were sealed");
                wrong = Some(match wrong {
                    Some(wrong) => format!("{wrong}, {values}"),
                    None => values,
                });
            }
            torn = cut_short && !damaged;
            lost = wrong;
            if let Some(lost) = lost.as_mut().filter(|_| damaged) {
                *lost = format!("{lost}; {}", log.put_aside(bytes));
            }
        }
        // What was read may be what a failed sync left in the kernel's memory: it is written anew before it counts.
        let mut fresh = format::header(&log.fingerprint);
        let mut live = Live::default();
        for value in &values {
            let size = log.seal(value, &mut fresh)?;
            live.put(value.key, size, value.until);
        }
        log.replace(fresh, live)?;
        Ok(OpenedKeyedLog {
            log,
            values,
            lost,
            torn,
        })
    }

    /// What the log at this path has now, in the order of its keys, as far as it can be read: nothing is made or changed,
    /// and another process may write it.
    pub(crate) fn look(
        layer: &dyn FileLayer,
        path: &Path,
        cipher: &dyn EntryCipher,
        now: u64,
    ) -> Result<Vec<KeyedValue>, KeyedLogError> {
        let error = |why: String| KeyedLogError::Read {
            place: path.display().to_string(),
            why,
        };
        let bytes = layer.read(path).map_err(|why| error(why.to_string()))?;
        let own = fingerprint(cipher);
        let own = own.ok_or_else(|| error("the key of the state has no fingerprint".into()))?;
        let read = read(bytes.as_deref().unwrap_or_default(), &own);
        let counts = read.counts.into_iter();
        let counts = counts.filter(|(_, (until, _))| *until > now);
        let values = counts.filter_map(|(key, (until, sealed))| {
            let value = cipher.open(&format::name(&key, until), sealed)?;
            Some(KeyedValue { key, until, value })
        });
        Ok(values.collect())
    }

    fn write_error(&self, error: &io::Error) -> KeyedLogError {
        KeyedLogError::Write {
            place: self.path.display().to_string(),
            why: error.to_string(),
            kind: error.kind(),
        }
    }

    /// Keeps what is damaged for whoever wants to look at it; the last one only. Returns what became of it, for a person.
    fn put_aside(&self, bytes: &[u8]) -> String {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".damaged");
        let aside = self.path.with_file_name(name);
        match self.layer.replace(&aside, bytes) {
            Ok(_) => format!("the file as it was is {}", aside.display()),
            // It is a log of what may be asked for anew: no reason to end.
            Err(error) => format!("the file as it was cannot be kept: {error}"),
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
    fn replace(&mut self, bytes: Vec<u8>, live: Live) -> Result<(), KeyedLogError> {
        self.file = None;
        let file = self.layer.replace(&self.path, &bytes);
        self.file = Some(file.map_err(|error| self.write_error(&error))?);
        (self.live, self.length) = (live, bytes.len());
        self.unsure.clear();
        Ok(())
    }

    /// Writes the file anew with what counts in it. What should be in it and is not is lost.
    fn write_anew(&mut self, now: u64) -> Result<(), KeyedLogError> {
        let bytes = self.layer.read(&self.path);
        let bytes = bytes.map_err(|error| self.write_error(&error))?;
        let is_there = bytes.is_some();
        let bytes = bytes.unwrap_or_default();
        let Read {
            mut counts, wrong, ..
        } = read(&bytes, &self.fingerprint);
        // What is damaged may be what took a value away.
        counts.retain(|key, (until, _)| {
            *until > now && (self.live.by_key.contains_key(key) || self.unsure.contains(key))
        });
        let lost = self.live.by_key.keys();
        let lost = lost.filter(|key| !counts.contains_key(*key) && !self.unsure.contains(*key));
        let lost: Vec<[u8; 32]> = lost.copied().collect();
        let mut fresh = format::header(&self.fingerprint);
        let mut live = Live::default();
        for (key, (until, sealed)) in counts {
            let entry = Entry::Put { key, until, sealed };
            // It was counted when it was written.
            if format::write(&entry, &mut fresh).is_some() {
                live.put(key, format::size(sealed.len()), until);
            }
        }
        let aside = match (lost.is_empty(), is_there) {
            (true, _) => String::new(),
            (_, true) => format!("; {}", self.put_aside(&bytes)),
            (_, false) => "; it was removed".to_owned(),
        };
        self.replace(fresh, live)?;
        if !lost.is_empty() {
            let wrong = wrong.unwrap_or_else(|| "something else wrote it".to_owned());
            let why = format!("{}: {wrong}{aside}", self.path.display());
            let mut keys = lost;
            keys.extend(self.loss.take().into_iter().flat_map(|before| before.keys));
            self.loss = Some(KeyedLoss { keys, why });
        }
        Ok(())
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
}

impl KeyedLog for FileKeyedLog {
    fn write(
        &mut self,
        changes: &[KeyedChange],
        durable: bool,
        now: u64,
    ) -> Result<Option<KeyedLoss>, KeyedLogError> {
        self.live.forget(now);
        if self.file.is_none() || self.length > 2 * self.live.bytes + SLACK {
            self.write_anew(now)?;
        }
        let mut bytes = Vec::new();
        let mut sizes = Vec::with_capacity(changes.len());
        for change in changes {
            match change {
                KeyedChange::Put(value) => {
                    let size = self.seal(value, &mut bytes)?;
                    sizes.push((value.key, Some((size, value.until))));
                }
                KeyedChange::Remove(key) => {
                    // It has a length that can be counted.
                    let _ = format::write(&Entry::Remove { key: *key }, &mut bytes);
                    sizes.push((*key, None));
                }
            }
        }
        if let Err(error) = self.append(&bytes, durable) {
            self.file = None;
            self.unsure.extend(sizes.iter().map(|(key, _)| *key));
            return Err(self.write_error(&error));
        }
        for (key, size) in sizes {
            match size {
                Some((size, until)) => self.live.put(key, size, until),
                None => self.live.remove(&key),
            }
        }
        Ok(self.loss.take())
    }
}

/// The digits as bytes.
fn fingerprint(cipher: &dyn EntryCipher) -> Option<[u8; 32]> {
    cipher.fingerprint().as_bytes().try_into().ok()
}
