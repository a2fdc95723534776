//! A file that grows at each cut and is cut back to the last one on recovery.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_codec::{Encoder, encode_dead_letter};
use tidegate_contract::{
    AppendFile, DeadLetter, FileLayer, HostHeaders, InUse, Sink, SinkError, SinkPosition,
};
use tidegate_record::PublicRecord;

use crate::encode_error;

/// A file as a sink. Output is collected in memory; `flush` appends it in one write and makes it durable.
#[derive(Debug)]
pub struct FileSink {
    name: String,
    path: PathBuf,
    layer: Arc<dyn FileLayer>,
    encoder: Encoder,
    pending: Vec<u8>,
    /// Shared with siblings, which append in turns.
    open: Arc<Mutex<Option<Open>>>,
}

#[derive(Debug)]
struct Open {
    /// Nobody else has it while it is open here.
    file: Box<dyn AppendFile>,
    /// Length at the last flush that held.
    length: u64,
    /// A flush failed half way: up to so many bytes past `length` are its own and must go before the next one.
    torn: u64,
}

impl FileSink {
    /// A sink of this name; nothing is opened before `recover`.
    pub fn new(
        name: impl Into<String>,
        path: impl AsRef<Path>,
        layer: Arc<dyn FileLayer>,
        encoder: Encoder,
    ) -> FileSink {
        FileSink {
            name: name.into(),
            path: path.as_ref().to_owned(),
            layer,
            encoder,
            pending: Vec::new(),
            open: Arc::default(),
        }
    }

    /// Another handle of the same file, for another worker: it collects its own output and appends in turn. `recover`
    /// is called on one of them only.
    pub fn sibling(&self) -> FileSink {
        FileSink {
            name: self.name.clone(),
            path: self.path.clone(),
            layer: self.layer.clone(),
            encoder: self.encoder.clone(),
            pending: Vec::new(),
            open: self.open.clone(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        // After a panic half way `torn` is above zero, and the next append begins by mending that.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path as configured. It is what the file is in the commit log too: a copy that was put back, or one on another
    /// disk behind the same link, is the same output, and a number of an inode is given to the next file that is made.
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether a position of this sink is one in its file, be it under another path that leads to it now.
    fn is_of_this_file(&self, known: &SinkPosition) -> bool {
        let real = |path: &Path| self.layer.real_path(path);
        let named = known.identity.is_empty() || known.identity == self.place();
        named || real(Path::new(&known.identity)) == real(&self.path)
    }

    /// Whether another file than this sink's, which the last run wrote, may be left as it is: nothing of it is to be
    /// cut away, and this one is new, or as the sink left it. Then that is where it goes on.
    fn leave<'k>(
        &self,
        last: &SinkPosition,
        known: Option<&'k SinkPosition>,
    ) -> Result<Option<&'k SinkPosition>, SinkError> {
        let length = |path: &Path| {
            let found = self.layer.length(path);
            found.map_err(|error| self.recover_error(error.to_string()))
        };
        let found = length(&self.path)?.unwrap_or(0);
        let whole = last.ended
            || (last.length == 0 && length(Path::new(&last.identity))?.unwrap_or(0) == 0);
        let known = known.filter(|_| found > 0);
        if whole && known.map_or(0, |known| known.length) == found {
            return Ok(known);
        }
        let (name, was) = (&self.name, &last.identity);
        let of = match known {
            Some(known) => format!("and had {} when the sink left it", known.length),
            None => "that no cut of this state directory knows of".to_owned(),
        };
        Err(self.recover_error(if whole {
            format!(
                "sink {name} wrote {was} until now, and this file has {found} bytes {of}; name a new or empty file, \
                 bring {was} back as the path, or begin with another state directory"
            )
        } else {
            format!(
                "sink {name} wrote {was}, {} bytes of it committed, when the run was cut short; bring {was} back as \
                 the path and let a run end before you change it, or begin with another state directory",
                last.length
            )
        }))
    }

    fn position_at(&self, length: u64) -> SinkPosition {
        SinkPosition {
            sink: self.name.clone(),
            identity: self.place(),
            length,
            head: String::new(),
            ended: false,
        }
    }

    fn recover_error(&self, why: impl Into<String>) -> SinkError {
        SinkError::Recover {
            place: self.place(),
            why: why.into(),
        }
    }
}

impl Open {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check(self.length, self.torn)?;
        if self.torn > 0 {
            self.file.truncate(self.length)?;
        }
        self.torn = bytes.len() as u64;
        self.file.append(bytes)?;
        self.file.sync()?;
        let length = self.length + self.torn;
        self.check(length, 0)?;
        (self.length, self.torn) = (length, 0);
        Ok(())
    }

    /// Holds the file's length against what was written here. What somebody else wrote stays: it cannot be told from
    /// what a crash leaves, so it must be seen before the next crash.
    fn check(&self, expected: u64, torn: u64) -> io::Result<()> {
        let found = self.file.length()?;
        if (expected..=expected + torn).contains(&found) {
            return Ok(());
        }
        let what = if found < expected {
            "cut it"
        } else {
            "wrote to it"
        };
        Err(io::Error::other(format!(
            "it has {found} bytes, and this run left {expected} bytes: something else {what}; put it right before the \
             next start, which cuts the file to its last committed length"
        )))
    }
}

impl Sink for FileSink {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        self.encoder
            .encode(record, &mut self.pending)
            .map_err(encode_error)
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        encode_dead_letter(&mut self.pending, letter);
        self.pending.push(b'\n');
        Ok(())
    }

    fn pending(&self) -> usize {
        self.pending.len()
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let failed = |path: &Path, why: String| SinkError::Write {
            place: path.display().to_string(),
            why,
        };
        let mut shared = self.open();
        let Some(open) = shared.as_mut() else {
            return Err(failed(
                &self.path,
                "it was not recovered before the first flush".into(),
            ));
        };
        // Whoever is first among siblings writes what stands first in the file.
        let mut headed = Vec::new();
        let bytes = if open.length == 0 {
            self.encoder.write_header(&mut headed);
            headed.extend_from_slice(&self.pending);
            &headed
        } else {
            &self.pending
        };
        open.append(bytes)
            .map_err(|error| failed(&self.path, error.to_string()))?;
        let position = self.position_at(open.length);
        drop(shared);
        self.pending.clear();
        Ok(Some(position))
    }

    fn discard(&mut self) {
        self.pending.clear();
    }

    fn position(&self) -> Option<SinkPosition> {
        let length = self.open().as_ref().map(|open| open.length);
        length.map(|length| self.position_at(length))
    }

    fn recover(&mut self, known: &[SinkPosition]) -> Result<(), SinkError> {
        let own = || known.iter().rev().filter(|known| known.sink == self.name);
        let mut position = own().find(|known| self.is_of_this_file(known));
        if let Some(last) = own().next().filter(|last| position != Some(last)) {
            position = self.leave(last, position)?;
        }
        // Before anything is taken away from it the file is taken: another sink or process may be writing it.
        let mut file =
            self.layer
                .open_append(&self.path)
                .map_err(|error| match InUse::of(&error) {
                    Some(in_use) => self.recover_error(format!(
                        "it is {in_use}; each sink needs a file of its own"
                    )),
                    None => self.recover_error(error.to_string()),
                })?;
        let found = file
            .length()
            .map_err(|error| self.recover_error(error.to_string()))?;
        let length = position.map_or(0, |position| position.length);
        if position.is_none() && found > 0 {
            return Err(self.recover_error(format!(
                "it has {found} bytes that no cut of this state directory knows of; move the file away, or use the state directory that wrote it"
            )));
        }
        if found < length {
            return Err(self.recover_error(format!(
                "it has {found} bytes but the last cut left {length}: output was lost or changed from outside"
            )));
        }
        // What lies beyond its last cut is a crash's, if the run that wrote the file was cut short.
        if found > length && position.is_some_and(|position| position.ended) {
            return Err(self.recover_error(format!(
                "it has {found} bytes and the last run that wrote it ended with {length} bytes: something else wrote to it; take that \
                 away, or begin anew with another file and another state directory"
            )));
        }
        if found > length {
            file.truncate(length)
                .map_err(|error| self.recover_error(error.to_string()))?;
        }
        self.pending.clear();
        *self.open() = Some(Open {
            file,
            length,
            torn: 0,
        });
        Ok(())
    }
}
