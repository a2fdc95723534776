//! Dead letters in a file, read from its end.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidegate_contract::{LetterError, LetterStore, WrittenLetter};

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// Most bytes that one call reads, and of the longest letter that is looked at.
const READ: u64 = 64 << 20;

/// The dead letters of a file: one JSON object a line. It is read in blocks from its committed end backwards, so that a
/// page costs the same however long the file is.
#[derive(Debug)]
pub struct FileLetters {
    path: PathBuf,
    /// Where the last cut ended: what lies beyond may be taken away again.
    committed: Arc<AtomicU64>,
}

impl FileLetters {
    /// Those before `committed`, which grows with each cut.
    pub fn new(path: PathBuf, committed: Arc<AtomicU64>) -> FileLetters {
        FileLetters { path, committed }
    }

    fn open(&self) -> Result<Option<(File, u64)>, LetterError> {
        let committed = self.committed.load(Ordering::Acquire);
        match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound && committed == 0 => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let gone = format!("it is gone, and the commit log has {committed} bytes of it");
                Err(self.error(&io::Error::new(ErrorKind::NotFound, gone)))
            }
            Err(error) => Err(self.error(&error)),
            Ok(file) => {
                let length = file.metadata().map_err(|error| self.error(&error))?.len();
                Ok(Some((file, length.min(committed))))
            }
        }
    }

    fn error(&self, error: &io::Error) -> LetterError {
        LetterError::Read {
            place: self.path.display().to_string(),
            why: error.to_string(),
        }
    }
}

impl LetterStore for FileLetters {
    fn name(&self) -> String {
        format!("file {}", self.path.display())
    }

    fn newest(
        &self,
        before: Option<&str>,
        until: Instant,
        look: &mut dyn FnMut(WrittenLetter) -> ControlFlow<()>,
    ) -> Result<Option<String>, LetterError> {
        let cursor = |text: &str| text.parse::<u64>().ok();
        let before = match before {
            Some(text) => Some(cursor(text).ok_or_else(|| LetterError::Cursor(text.to_owned()))?),
            None => None,
        };
        let Some((mut file, length)) = self.open()? else {
            return Ok(None);
        };
        let end = before.map_or(length, |before| before.min(length));
        let mut backwards = Backwards::new(&mut file, end);
        while let Some(line) = backwards.line().map_err(|error| self.error(&error))? {
            let at = line.place;
            let stop = line.length > 0 && look(line.letter()).is_break();
            if at == 0 {
                return Ok(None);
            }
            if stop || backwards.read >= READ || Instant::now() >= until {
                return Ok(Some(at.to_string()));
            }
        }
        Ok(None)
    }

    fn find(&self, place: &str, _until: Instant) -> Result<Option<WrittenLetter>, LetterError> {
        let (Ok(at), Some((mut file, end))) = (place.parse::<u64>(), self.open()?) else {
            return Ok(None);
        };
        if at >= end {
            return Ok(None);
        }
        let found = line_at(&mut file, at, end).map_err(|error| self.error(&error))?;
        Ok(found.map(Line::letter))
    }
}

/// A line without its end; none of its bytes if it is too long.
struct Line {
    place: u64,
    length: u64,
    bytes: Option<Vec<u8>>,
}

impl Line {
    fn of(place: u64, bytes: Vec<u8>) -> Line {
        let length = bytes.len() as u64;
        Line {
            place,
            length,
            bytes: (length <= READ).then_some(bytes),
        }
    }

    fn letter(self) -> WrittenLetter {
        WrittenLetter {
            place: self.place.to_string(),
            bytes: self.bytes,
            length: self.length,
        }
    }
}

/// The line that begins at this byte, if one does.
fn line_at(file: &mut File, at: u64, end: u64) -> io::Result<Option<Line>> {
    if at > 0 {
        let mut before = [0];
        file.seek(SeekFrom::Start(at - 1))?;
        file.read_exact(&mut before)?;
        if before != *b"\n" {
            return Ok(None);
        }
    }
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    let mut block = vec![0; BLOCK];
    let mut left = (end - at).min(READ + 1);
    while left > 0 {
        let most = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut block[..most])?;
        left -= most as u64;
        if let Some(line_end) = memchr::memchr(b'\n', &block[..most]) {
            bytes.extend_from_slice(&block[..line_end]);
            break;
        }
        bytes.extend_from_slice(&block[..most]);
    }
    Ok(Some(Line::of(at, bytes)))
}

/// Lines from a byte of the file back to its beginning.
struct Backwards<'f> {
    file: &'f mut File,
    /// What is read is from here on; what comes before is still to be read.
    from: u64,
    /// Bytes from `from` to the end of the line that is next, the last of them first read.
    held: Vec<u8>,
    read: u64,
}

impl<'f> Backwards<'f> {
    fn new(file: &'f mut File, end: u64) -> Backwards<'f> {
        Backwards {
            file,
            from: end,
            held: Vec::new(),
            read: 0,
        }
    }

    /// The line before the last that was given; none at the beginning.
    fn line(&mut self) -> io::Result<Option<Line>> {
        // Its own line end is no part of it. Where nothing is held it is read first.
        let mut ended = false;
        let mut searched = self.held.len();
        loop {
            if !ended && self.held.last() == Some(&b'\n') {
                self.held.pop();
                searched = searched.min(self.held.len());
                ended = true;
            }
            ended |= !self.held.is_empty();
            if let Some(at) = memchr::memrchr(b'\n', &self.held[..searched]) {
                let bytes = self.held.split_off(at + 1);
                return Ok(Some(Line::of(self.from + at as u64 + 1, bytes)));
            }
            if self.from == 0 {
                let bytes = std::mem::take(&mut self.held);
                return Ok(ended.then(|| Line::of(0, bytes)));
            }
            if self.held.len() as u64 > READ {
                // No end of it is in sight: it is given in parts, of which none is looked at.
                let bytes = std::mem::take(&mut self.held);
                return Ok(Some(Line::of(self.from, bytes)));
            }
            searched = self.fill()?;
        }
    }

    /// Reads what comes before, in blocks that grow with what is held: a long line is not copied for each block. Returns
    /// how many bytes of what is held are new.
    fn fill(&mut self) -> io::Result<usize> {
        let most = BLOCK.max(self.held.len()) as u64;
        let more = most.min(self.from);
        self.from -= more;
        self.read += more;
        let more = more as usize;
        let mut bytes = vec![0; more];
        self.file.seek(SeekFrom::Start(self.from))?;
        self.file.read_exact(&mut bytes)?;
        bytes.append(&mut self.held);
        self.held = bytes;
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn letters(path: &std::path::Path) -> FileLetters {
        let length = std::fs::metadata(path).map_or(0, |file| file.len());
        FileLetters::new(path.to_owned(), Arc::new(AtomicU64::new(length)))
    }

    /// All letters by pages of so many.
    fn paged(letters: &FileLetters, page: usize) -> Vec<(String, Vec<u8>)> {
        let (mut all, mut before) = (Vec::new(), None::<String>);
        loop {
            let mut here = 0;
            let next = letters.newest(before.as_deref(), soon(), &mut |letter| {
                here += 1;
                all.push((letter.place, letter.bytes.unwrap()));
                match here == page {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            before = next.unwrap();
            if before.is_none() {
                return all;
            }
        }
    }

    #[test]
    fn letters_come_newest_first_by_pages_of_any_size_and_lines_of_any_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dead.jsonl");
        for lengths in [
            vec![],
            vec![1],
            vec![3, 1, 2],
            vec![BLOCK - 1, BLOCK, BLOCK + 1, 5, 3 * BLOCK, 1],
            (1..700).collect(),
        ] {
            let mut expected = Vec::new();
            let mut file = Vec::new();
            for (index, length) in lengths.iter().enumerate() {
                let line = vec![b'a' + (index % 26) as u8; *length];
                expected.push((file.len().to_string(), line.clone()));
                file.extend_from_slice(&line);
                file.push(b'\n');
            }
            expected.reverse();
            std::fs::write(&path, &file).unwrap();
            let letters = letters(&path);
            for page in [1, 2, 1000] {
                assert_eq!(paged(&letters, page), expected, "{page}");
            }
            for (place, bytes) in &expected {
                let found = letters.find(place, soon()).unwrap().unwrap();
                assert_eq!(found.bytes.as_ref(), Some(bytes));
            }
        }
    }

    #[test]
    fn what_no_cut_has_is_not_there_and_neither_is_what_is_no_letter() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dead.jsonl");
        std::fs::write(&path, b"one\ntwo\nthree").unwrap();
        let letters = FileLetters::new(path.clone(), Arc::new(AtomicU64::new(8)));
        let all = paged(&letters, 9);
        let places: Vec<&str> = all.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["4", "0"]);
        for place in ["8", "5", "999999999999", "-1", "", "x"] {
            assert_eq!(letters.find(place, soon()).unwrap(), None, "{place:?}");
        }
        let refused = letters.newest(Some("0.1"), soon(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(refused, Err(LetterError::Cursor("0.1".into())));
        let missing = FileLetters::new(path.with_extension("none"), Arc::default());
        assert!(paged(&missing, 1).is_empty());
        let gone = FileLetters::new(path.with_extension("none"), Arc::new(AtomicU64::new(8)));
        let told = gone.newest(None, soon(), &mut |_| ControlFlow::Continue(()));
        let told = told.unwrap_err().to_string();
        assert!(
            told.contains("it is gone, and the commit log has 8 bytes"),
            "{told}"
        );
        assert!(gone.find("0", soon()).is_err());
    }

    #[test]
    fn a_file_of_many_gigabytes_is_read_at_its_end_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dead.jsonl");
        // A hole of 10 GB: one line that is too long, then three letters.
        let mut file = File::create(&path).unwrap();
        file.set_len(10 << 30).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        io::Write::write_all(&mut file, b"\none\ntwo\nthree\n").unwrap();
        let letters = letters(&path);
        let mut seen = Vec::new();
        let next = letters.newest(None, soon(), &mut |letter| {
            seen.push(letter.bytes.unwrap());
            match seen.len() {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        assert_eq!(seen, [b"three".to_vec(), b"two".to_vec(), b"one".to_vec()]);
        let next = next.unwrap().unwrap();
        assert_eq!(next, ((10u64 << 30) + 1).to_string());
        let too_long = letters.find("0", soon()).unwrap().unwrap();
        assert_eq!(too_long.bytes, None, "it is not read as a whole");
        let mut parts = 0;
        let older = letters.newest(Some(&next), soon(), &mut |letter| {
            parts += 1;
            assert_eq!(letter.bytes, None);
            ControlFlow::Continue(())
        });
        assert!(older.unwrap().is_some() && parts == 1, "{parts}");
    }
}
