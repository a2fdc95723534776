//! Reading files of JSON lines, CSV rows or raw lines. A file is a partition; its offsets are byte positions.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use tidegate_codec::DecoderOptions;
use tidegate_contract::{Assigned, Lag, Partition, Source, SourceError, SourceEvent, Unread};

use crate::lines::{Gathered, Lines, Stopped};
use crate::now_micros;

/// What helps when a file is not the one that was read before.
const CHANGED: &str = "put back the file that was read, or begin anew with another state directory and another output";
/// How often a file that is followed is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(10);
/// Reads of one poll before it looks at the time again (16 MiB).
const READS: usize = 64;

/// Which files are read, and how.
#[derive(Clone, Debug)]
pub struct FileSourceOptions {
    /// Index of the source in the pipeline.
    pub source: u16,
    /// The files; the number of a partition is its index here.
    pub paths: Vec<PathBuf>,
    /// The partitions this worker reads; all of them if none is given.
    pub partitions: Option<Vec<u32>>,
    /// Format, key, event time, limits.
    pub decoder: DecoderOptions,
    /// Waits for what is appended instead of ending. A last line without line end waits for its end.
    pub follow: bool,
}

/// Files as a source. Partitions take turns, a batch each.
#[derive(Debug)]
pub struct FileSource {
    files: Vec<OpenFile>,
    assigned: bool,
    follow: bool,
    turn: usize,
}

#[derive(Debug)]
struct OpenFile {
    partition: Partition,
    place: String,
    file: File,
    lines: Lines,
    /// Where records begin: after the header row of CSV.
    begin: u64,
    follow: bool,
    ended: bool,
    end_reported: bool,
    paused: bool,
    /// Size of the batch given last, as a guess for the next.
    guess: usize,
}

impl FileSource {
    /// Opens the files, at their beginnings.
    pub fn open(options: FileSourceOptions) -> Result<FileSource, SourceError> {
        let numbers = match &options.partitions {
            Some(numbers) => numbers.clone(),
            None => (0..options.paths.len() as u32).collect(),
        };
        let mut files = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(path) = options.paths.get(number as usize) else {
                return Err(SourceError::Read {
                    place: format!("partition {number}"),
                    why: format!("there are {} files", options.paths.len()),
                });
            };
            let partition = Partition {
                source: options.source,
                number,
            };
            files.push(OpenFile::open(path, partition, &options)?);
        }
        Ok(FileSource {
            files,
            assigned: false,
            follow: options.follow,
            turn: 0,
        })
    }

    /// What the partitions read here are: the files' paths as configured, for the commit log's `identity`.
    pub fn identities(&self) -> Vec<(Partition, String)> {
        let identity = |file: &OpenFile| (file.partition, file.place.clone());
        self.files.iter().map(identity).collect()
    }

    fn file(&mut self, partition: Partition) -> Result<&mut OpenFile, SourceError> {
        let found = self
            .files
            .iter_mut()
            .find(|file| file.partition == partition);
        found.ok_or_else(|| SourceError::Read {
            place: format!("source {} partition {}", partition.source, partition.number),
            why: "this worker does not read it".into(),
        })
    }

    /// The next event of any file, by turns.
    fn next_event(
        &mut self,
        records: usize,
        bytes: usize,
    ) -> Result<Option<SourceEvent>, SourceError> {
        let count = self.files.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if let Some(event) = self.files[index].next_event(records, bytes)? {
                self.turn = (index + 1) % count;
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

impl Source for FileSource {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        if !self.assigned {
            self.assigned = true;
            let assigned = |file: &OpenFile| Assigned {
                partition: file.partition,
                kept: None,
            };
            return Ok(SourceEvent::Assigned(
                self.files.iter().map(assigned).collect(),
            ));
        }
        let deadline = Instant::now() + wait;
        loop {
            if let Some(event) = self.next_event(records, bytes)? {
                return Ok(event);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(SourceEvent::Idle);
            }
            let busy = self
                .files
                .iter()
                .any(|file| !file.paused && !file.ended && !file.follow);
            match (busy, self.follow) {
                // A line too long is being skipped.
                (true, _) => {}
                (false, true) => sleep(left.min(FOLLOW_INTERVAL)),
                (false, false) => sleep(left),
            }
        }
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.file(partition)?.seek(position)
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.file(partition)?.paused = true;
        Ok(())
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.file(partition)?.paused = false;
        Ok(())
    }

    /// Of a pipe nothing is known.
    fn lag(&mut self) -> Vec<Lag> {
        let known = Instant::now();
        let unread = |file: &OpenFile| {
            let length = file.length().ok().flatten()?;
            let bytes = length.saturating_sub(file.lines.cutter.position());
            Some(Lag {
                partition: file.partition.number,
                unread: Unread::Bytes(bytes),
                known,
            })
        };
        self.files.iter().filter_map(unread).collect()
    }
}

/// Opens a file by its name in its directory; a link is followed first.
fn open_in_directory(path: &Path) -> io::Result<File> {
    let path = path.canonicalize()?;
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("not the name of a file"));
    };
    let file = Dir::open_ambient_dir(directory, ambient_authority())?.open(name)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    Ok(file)
}

impl OpenFile {
    fn open(
        path: &Path,
        partition: Partition,
        options: &FileSourceOptions,
    ) -> Result<OpenFile, SourceError> {
        let place = path.display().to_string();
        let read_error = |why: String| SourceError::Read {
            place: place.clone(),
            why,
        };
        let file = open_in_directory(path).map_err(|error| read_error(error.to_string()))?;
        let lines = Lines::new(partition, options.decoder.clone())
            .map_err(|error| read_error(error.to_string()))?;
        let mut open = OpenFile {
            partition,
            place,
            file,
            lines,
            begin: 0,
            follow: options.follow,
            ended: false,
            end_reported: false,
            paused: false,
            guess: 0,
        };
        if open.lines.awaits_header() {
            open.read_header()?;
        }
        Ok(open)
    }

    fn read_error(&self, why: impl ToString) -> SourceError {
        SourceError::Read {
            place: format!("{} at byte {}", self.place, self.lines.cutter.position()),
            why: why.to_string(),
        }
    }

    fn position_error(&self, position: u64, why: impl Into<String>) -> SourceError {
        SourceError::Position {
            place: self.place.clone(),
            position,
            why: why.into(),
        }
    }

    /// Reads until the header row is taken or there is nothing more to read.
    fn read_header(&mut self) -> Result<(), SourceError> {
        loop {
            let ended = self.ended && !self.follow;
            let place = format!("{} at byte {}", self.place, self.lines.cutter.position());
            if self
                .lines
                .take_header(ended)
                .map_err(|malformed| SourceError::Read {
                    place,
                    why: malformed.to_string(),
                })?
            {
                self.begin = self.lines.cutter.position();
                return Ok(());
            }
            if self.fill()? == 0 {
                if self.follow || ended {
                    return Ok(());
                }
                self.ended = true;
            }
        }
    }

    /// Length of the file now; none for what has no length, such as a pipe.
    fn length(&self) -> Result<Option<u64>, SourceError> {
        let metadata = self
            .file
            .metadata()
            .map_err(|error| self.read_error(error))?;
        Ok(metadata.is_file().then_some(metadata.len()))
    }

    /// Reads once; 0 at the end of the file.
    fn fill(&mut self) -> Result<usize, SourceError> {
        let count = loop {
            match self.file.read(self.lines.cutter.space()) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.read_error(error)),
            }
        };
        self.lines.cutter.filled(count);
        if count == 0 {
            let position = self.lines.cutter.read_to();
            if let Some(length) = self.length()?.filter(|length| *length < position) {
                return Err(self.position_error(
                    position,
                    format!("the file was cut to {length} bytes; {CHANGED}"),
                ));
            }
        }
        Ok(count)
    }

    fn next_event(
        &mut self,
        records: usize,
        bytes: usize,
    ) -> Result<Option<SourceEvent>, SourceError> {
        if self.paused || self.end_reported {
            return Ok(None);
        }
        if self.lines.awaits_header() && !self.ended {
            self.read_header()?;
            if self.lines.awaits_header() && self.follow {
                return Ok(None);
            }
        }
        let mut gathered = Gathered::with_capacity(self.guess);
        let mut reads = 0;
        // What the end of the file completes is gathered before the end is told.
        loop {
            let ended = self.ended && !self.follow;
            if self.lines.gather(&mut gathered, records, bytes, ended) == Stopped::Full
                || self.ended
                || reads == READS
            {
                break;
            }
            reads += 1;
            if self.fill()? == 0 {
                if self.follow {
                    break;
                }
                self.ended = true;
            }
        }
        if gathered.len() > 0 {
            let Gathered {
                batch, rejected, ..
            } = gathered;
            self.guess = batch.bytes() + batch.bytes() / 8;
            return Ok(Some(SourceEvent::Records {
                partition: self.partition,
                batch: batch.finish(now_micros()),
                rejected,
                next: self.lines.cutter.position(),
            }));
        }
        if self.ended && !self.follow {
            self.end_reported = true;
            return Ok(Some(SourceEvent::End(self.partition)));
        }
        Ok(None)
    }

    fn seek(&mut self, position: u64) -> Result<(), SourceError> {
        let Some(length) = self.length()? else {
            let here = position.max(self.begin) == self.lines.cutter.position();
            let why = "it is a pipe, what went by cannot be read again";
            return if here {
                Ok(())
            } else {
                Err(self.position_error(position, why))
            };
        };
        if position > length {
            return Err(
                self.position_error(position, format!("the file has {length} bytes; {CHANGED}"))
            );
        }
        let position = position.max(self.begin);
        if position > self.begin && (position < length || self.follow) {
            let mut before = [0];
            self.file
                .seek(SeekFrom::Start(position - 1))
                .and_then(|_| self.file.read_exact(&mut before))
                .map_err(|error| self.read_error(error))?;
            if before != *b"\n" {
                return Err(self.position_error(
                    position,
                    format!(
                        "no line begins there: the file was changed, or grew after its last line was read without a \
                         line end; {CHANGED}"
                    ),
                ));
            }
        }
        self.file
            .seek(SeekFrom::Start(position))
            .map_err(|error| self.read_error(error))?;
        self.lines.cutter.reset(position);
        (self.ended, self.end_reported) = (false, false);
        Ok(())
    }
}
