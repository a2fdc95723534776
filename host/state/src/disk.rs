//! The real disk, reached through directory handles (cap-std), so that a path is resolved once.

use std::ffi::OsString;
use std::fs::{File, FileType, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
#[cfg(unix)]
use cap_std::fs::OpenOptionsExt;
use cap_std::fs::{Dir, OpenOptions};
use tidegate_contract::{AppendFile, FileLayer, InUse, write_in_pieces};

use crate::holder::holder;
use crate::paths::real_path;

/// How often a file is opened anew that is replaced between its opening and its lock.
const ATTEMPTS: usize = 16;

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// The real disk, where new files are readable by their owner alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrivateDisk;

/// Who may read a new file.
#[derive(Clone, Copy, Debug)]
enum Readers {
    /// Whom the system's mask lets.
    Mask,
    /// Its owner.
    Owner,
}

impl Readers {
    #[cfg(unix)]
    fn restrict(self, options: &mut OpenOptions) {
        if matches!(self, Readers::Owner) {
            options.mode(0o600);
        }
    }

    #[cfg(not(unix))]
    fn restrict(self, _options: &mut OpenOptions) {}
}

fn parent(path: &Path, create: bool) -> io::Result<(Dir, OsString)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "path has no file name"))?;
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    if create {
        create_directories(directory)?;
    }
    Ok((
        Dir::open_ambient_dir(directory, ambient_authority())?,
        name.to_owned(),
    ))
}

/// Whether there is something of this name. What cannot be looked at is an error, and not missing: a process that may not
/// enter a directory knows nothing of what is in it.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    path.try_exists()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// What something is that is no file.
pub(crate) fn no_file(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        return None;
    }
    if kind.is_dir() {
        return Some("a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_block_device() || kind.is_char_device() {
            return Some("a device");
        }
    }
    Some("something of another kind")
}

/// Makes a directory and those it lies in, each durable in its parent.
pub(crate) fn create_directories(directory: &Path) -> io::Result<()> {
    if is_there(directory)? {
        return Ok(());
    }
    let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
        // A root that is not there, or a path that ends in "..": there is no name to make.
        return Dir::create_ambient_dir_all(directory, ambient_authority());
    };
    let above = if above.as_os_str().is_empty() {
        Path::new(".")
    } else {
        above
    };
    create_directories(above)?;
    let above = Dir::open_ambient_dir(above, ambient_authority())?;
    match above.create_dir(name) {
        Ok(()) => {}
        // Somebody else made it just now, or something that is no directory has its name: opening it will say so.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    sync_directory(&above)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_names(directory: &Path) -> io::Result<()> {
    sync_directory(&Dir::open_ambient_dir(directory, ambient_authority())?)
}

fn sync_directory(directory: &Dir) -> io::Result<()> {
    // On Windows a directory cannot be synced; a rename there is durable with the file system's journal.
    if cfg!(unix) {
        directory.open(".")?.sync_all()
    } else {
        Ok(())
    }
}

/// See [`FileLayer::open_append`].
fn open_append(path: &Path, readers: Readers) -> io::Result<Box<dyn AppendFile>> {
    for _ in 0..ATTEMPTS {
        // A link may lead out of its directory, and a directory handle would not go there.
        let real = real_path(path);
        let (directory, name) = parent(&real, true)?;
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        readers.restrict(&mut options);
        let file = directory.open_with(&name, &options)?.into_std();
        lock(&file)?;
        let file = DiskFile::new(file, path)?;
        // Whoever had it until now may have put another file in its place: then the lock is on one that has no
        // name any more.
        if file.has_its_name() {
            sync_directory(&directory)?;
            return Ok(Box::new(file));
        }
    }
    Err(io::Error::other(
        "it was replaced each time it was opened; something else writes it",
    ))
}

impl FileLayer for Disk {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        open_append(path, Readers::Mask)
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        real_path(path)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        match std::fs::metadata(path) {
            Ok(facts) => Ok(Some(facts.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn no_file(&self, path: &Path) -> io::Result<Option<&'static str>> {
        match std::fs::metadata(path) {
            Ok(facts) => Ok(no_file(facts.file_type())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let mut file = match parent(path, false).and_then(|(directory, name)| directory.open(name))
        {
            Ok(file) => file,
            Err(error) if missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        // At once: a cut may wait for it.
        let file = replace(path, Readers::Mask, |file| file.write_all(bytes))?;
        Ok(Box::new(file))
    }
}

impl Disk {
    /// Replaces a file as [`FileLayer::replace`] does, beside a stream that uses the same disk: in pieces with pauses.
    pub fn replace_in_pieces(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        replace(path, Readers::Mask, |file| write_in_pieces(file, bytes)).map(drop)
    }
}

impl FileLayer for PrivateDisk {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        open_append(path, Readers::Owner)
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        Disk.real_path(path)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        Disk.length(path)
    }

    fn no_file(&self, path: &Path) -> io::Result<Option<&'static str>> {
        Disk.no_file(path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Disk.read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        let file = replace(path, Readers::Owner, |file| file.write_all(bytes))?;
        Ok(Box::new(file))
    }
}

fn replace(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<DiskFile> {
    let (directory, name) = parent(path, true)?;
    let mut temporary = name.clone();
    temporary.push(".new");
    // One that a crash left behind is not written over but removed: it may have another name elsewhere.
    match directory.remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.create_new(true).append(true).read(true);
    readers.restrict(&mut options);
    let mut file = directory.open_with(&temporary, &options)?.into_std();
    lock(&file)?;
    write(&mut file)?;
    file.sync_all()?;
    directory.rename(&temporary, &directory, &name)?;
    sync_directory(&directory)?;
    DiskFile::new(file, path)
}

/// Takes the file itself, not one beside it that could be removed. The system lets go of it when the process ends,
/// however it ends.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(InUse {
            process: holder(file),
        }
        .into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Who has the lock of a file, if somebody has. It is taken for a moment to know: whoever opens a file asks more than once.
pub(crate) fn in_use(path: &Path) -> io::Result<Option<InUse>> {
    for _ in 0..ATTEMPTS {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            // One that was replaced meanwhile is nobody's, and says nothing of the one in its place.
            Ok(()) => {
                if DiskFile::new(file, path)?.has_its_name() {
                    return Ok(None);
                }
            }
            Err(TryLockError::WouldBlock) => {
                let process = holder(&file);
                return Ok(Some(InUse { process }));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    // Somebody replaces it again and again.
    Ok(Some(InUse { process: None }))
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    /// Absolute.
    path: PathBuf,
}

impl AppendFile for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.has_its_name() {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the file was removed or replaced while it was written",
        ))
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.sync_all()
    }
}

impl DiskFile {
    fn new(file: File, path: &Path) -> io::Result<DiskFile> {
        let path = std::path::absolute(path)?;
        Ok(DiskFile { file, path })
    }

    /// Whether the path still leads to this file.
    #[cfg(unix)]
    fn has_its_name(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(held), Ok(named)) => held.dev() == named.dev() && held.ino() == named.ino(),
            _ => false,
        }
    }

    /// Elsewhere an open file can be neither removed nor replaced.
    #[cfg(not(unix))]
    fn has_its_name(&self) -> bool {
        true
    }
}
