//! The real disk, reached through directory handles (cap-std), so that a path is resolved once.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};
use tidegate_contract::{AppendFile, FileLayer};

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

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

/// Makes a directory and those it lies in, each durable in its parent.
pub(crate) fn create_directories(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
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

impl FileLayer for Disk {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let (directory, name) = parent(path, true)?;
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        let file = directory.open_with(&name, &options)?;
        sync_directory(&directory)?;
        Ok(Box::new(DiskFile { file }))
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

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (directory, name) = parent(path, true)?;
        let mut temporary = name.clone();
        temporary.push(".new");
        let mut file = directory.create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        directory.rename(&temporary, &directory, &name)?;
        sync_directory(&directory)
    }
}

#[derive(Debug)]
struct DiskFile {
    file: File,
}

impl AppendFile for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.still_there()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.sync_all()
    }
}

impl DiskFile {
    /// What is written to a file that has no name any more is lost, however well it is synced.
    #[cfg(unix)]
    fn still_there(&self) -> io::Result<()> {
        use cap_std::fs::MetadataExt;
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the file was removed or replaced while it was written",
            ));
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn still_there(&self) -> io::Result<()> {
        Ok(())
    }
}
