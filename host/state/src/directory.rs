//! The state directory: one process at a time, one key.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_contract::{
    AppendFile, CommitLogError, FileLayer, InUse, Recovered, TaskId, TaskImage,
};

use crate::cipher::StateKey;
use crate::disk;
use crate::format::{self, HEADER, MAGIC};
use crate::log::{FileCommitLog, read_error, take};
use crate::owner;

/// The environment variable that holds the key, 64 hexadecimal digits, for those who do not want it beside the data.
const KEY_VARIABLE: &str = "TIDEGATE_STATE_KEY";

/// The commit log's name.
const LOG: &str = "commit.log";

/// What holds the name of the process that uses the directory.
const INSTANCE: &str = "instance";

/// When the directory was made, nanoseconds since 1970: what is counted over restarts was zero then.
const CREATED: &str = "created";

/// What a state directory may have in it without a commit log: what a start that was cut short leaves, what is left
/// when the log was taken away, and what is on a disk of its own.
const NAMES: [&str; 15] = [
    "commit.log.new",
    "key",
    "key.new",
    INSTANCE,
    "instance.new",
    CREATED,
    "created.new",
    // What an older version left there.
    "lock",
    "again",
    "answers",
    "compiled",
    "components",
    "dead-letters.jsonl",
    "ingest",
    "lost+found",
];

/// A state directory. Its process has it for as long as the commit log that was opened with it lives.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    key: StateKey,
    instance: String,
    created: SystemTime,
}

/// The commit log of a directory that this process has, before it is known what it says.
pub struct TakenLog {
    layer: Arc<dyn FileLayer>,
    path: PathBuf,
    file: Box<dyn AppendFile>,
    bytes: Vec<u8>,
    key: StateKey,
}

impl TakenLog {
    /// Reads what it says. `told` is how many bytes of it are read, and how many there are.
    pub fn replay(
        self,
        told: &dyn Fn(u64, u64),
    ) -> Result<(FileCommitLog, Recovered), CommitLogError> {
        let TakenLog {
            layer,
            path,
            file,
            bytes,
            key,
        } = self;
        FileCommitLog::of(layer, &path, file, &bytes, key, told)
    }
}

impl StateDirectory {
    /// Opens the directory and its commit log, or makes them (readable by their owner alone). The key comes from
    /// `TIDEGATE_STATE_KEY`, else from the file `key` in it, which is made when there is none: never for a log in which
    /// records wait, since they were written with another. Whoever is not the user whose log it is gets nothing: what this
    /// one made there, that one could not read.
    pub fn open(
        path: &Path,
        layer: Arc<dyn FileLayer>,
    ) -> Result<(StateDirectory, FileCommitLog, Recovered), CommitLogError> {
        let (directory, log) = StateDirectory::take(path, layer)?;
        let (log, recovered) = log.replay(&|_, _| {})?;
        Ok((directory, log, recovered))
    }

    /// The same, but for what the commit log says: it may be long, and the directory is this process's before it is known.
    pub fn take(
        path: &Path,
        layer: Arc<dyn FileLayer>,
    ) -> Result<(StateDirectory, TakenLog), CommitLogError> {
        let write_error = |error: io::Error| CommitLogError::Write {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        owner::check(path, &path.join(LOG))?;
        StateDirectory::inspect(path)?;
        // A directory that was there keeps its mode: what is secret in it has modes of its own.
        if !disk::is_there(path).map_err(write_error)? {
            disk::create_directories(path).map_err(write_error)?;
            restrict(path, 0o700).map_err(write_error)?;
        }
        let log = path.join(LOG);
        let (file, bytes) = take(layer.as_ref(), &log)?;
        let key = key(path, std::env::var_os(KEY_VARIABLE).as_deref(), &bytes)?;
        let directory = StateDirectory {
            instance: instance(path)?,
            created: created(path)?,
            path: path.to_path_buf(),
            key: key.clone(),
        };
        let taken = TakenLog {
            layer,
            path: log,
            file,
            bytes,
            key,
        };
        Ok((directory, taken))
    }

    /// Refuses a directory that holds what is not Tidegate's. One that is missing or empty will do, and nothing in it is
    /// touched.
    pub fn inspect(path: &Path) -> Result<(), CommitLogError> {
        match foreign_entry(path) {
            Ok(None) => Ok(()),
            Ok(Some(entry)) => Err(CommitLogError::Foreign {
                path: path.display().to_string(),
                entry,
            }),
            Err(error) => Err(CommitLogError::Read {
                path: path.display().to_string(),
                why: error.to_string(),
            }),
        }
    }

    /// Who uses a directory, if somebody does: a lock is nobody's whose process has ended, whoever has its number since.
    pub fn in_use(path: &Path) -> Result<Option<InUse>, CommitLogError> {
        let log = path.join(LOG);
        disk::in_use(&log).map_err(|error| CommitLogError::Read {
            path: log.display().to_string(),
            why: error.to_string(),
        })
    }

    /// What the commit log of a directory has, without what waits in it; none where there is none. Nothing is changed, no
    /// key is needed, and another process may be using it.
    pub fn recorded(path: &Path) -> Result<Option<Recovered>, CommitLogError> {
        let log = path.join(LOG);
        let bytes = match fs::read(&log) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(CommitLogError::Read {
                    path: log.display().to_string(),
                    why: error.to_string(),
                });
            }
        };
        let read = format::read(&bytes).map_err(|damage| read_error(&log, damage))?;
        let mut state = read.state;
        for image in state.tasks.values_mut() {
            // They are encrypted.
            image.entries.clear();
        }
        Ok(Some(state))
    }

    /// The same of each task alone.
    pub fn tasks(path: &Path) -> Result<BTreeMap<TaskId, TaskImage>, CommitLogError> {
        let recorded = StateDirectory::recorded(path)?;
        Ok(recorded.map(|state| state.tasks).unwrap_or_default())
    }

    /// The key of a directory, from `TIDEGATE_STATE_KEY` or its file. None is made, and another process may be using it.
    pub fn key_of(path: &Path) -> Result<StateKey, CommitLogError> {
        let given = std::env::var_os(KEY_VARIABLE);
        let file = path.join("key");
        let no_key = |why: String| CommitLogError::StateKey {
            place: file.display().to_string(),
            why,
        };
        if given.is_none()
            && !file
                .try_exists()
                .map_err(|error| no_key(error.to_string()))?
        {
            return Err(no_key("there is none".to_owned()));
        }
        key(path, given.as_deref(), b"")
    }

    /// A directory in it, by the names that lead there, for files that only their owner may read. It is made, or taken
    /// from all others, and so are the files that are in it: they may be of a version that did not care.
    pub fn private(&self, names: &[&str]) -> io::Result<PathBuf> {
        let mut path = self.path.clone();
        for name in names {
            path.push(name);
            make_private(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
        }
        Ok(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name of the process that uses this directory, which no other one has and which stays the same: 16 hexadecimal
    /// digits, made when there is none.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// When it was made.
    pub fn created(&self) -> SystemTime {
        self.created
    }

    /// The key.
    pub fn key(&self) -> &StateKey {
        &self.key
    }
}

/// Something in the directory that shows that it is another's. What lies beside a commit log is its owner's affair.
fn foreign_entry(directory: &Path) -> io::Result<Option<String>> {
    let mut begin = Vec::new();
    match File::open(directory.join(LOG)) {
        Ok(log) => {
            log.take(HEADER as u64).read_to_end(&mut begin)?;
            let known = begin.len().min(MAGIC.len());
            let own = begin[..known] == MAGIC[..known];
            return Ok((!own).then(|| format!("a {LOG} of something else")));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        // While it is written its name has the process number in it.
        let admin = name.starts_with("admin.json");
        if !admin && !NAMES.contains(&name.as_ref()) {
            return Ok(Some(format!("{name:?}")));
        }
    }
    Ok(None)
}

/// The key: what the environment gives, else what the directory's file `key` holds, else a new one. `log` is what the
/// commit log holds.
fn key(directory: &Path, given: Option<&OsStr>, log: &[u8]) -> Result<StateKey, CommitLogError> {
    let error = |place: &str, why: &str| CommitLogError::StateKey {
        place: place.to_owned(),
        why: why.to_owned(),
    };
    let not_a_key = "a key is 64 hexadecimal digits";
    if let Some(text) = given {
        return text
            .to_str()
            .and_then(StateKey::from_hex)
            .ok_or_else(|| error(KEY_VARIABLE, not_a_key));
    }
    let path = directory.join("key");
    let name = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => {
            let key = StateKey::from_hex(&text).ok_or_else(|| error(&name, not_a_key))?;
            // The process that made it may have ended before its name was durable.
            disk::sync_names(directory).map_err(|why| error(&name, &why.to_string()))?;
            Ok(key)
        }
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let path_of_log = directory.join(LOG);
            let read = format::read(log).map_err(|damage| read_error(&path_of_log, damage))?;
            if read.waits() {
                return Err(CommitLogError::Read {
                    path: path_of_log.display().to_string(),
                    why: format!(
                        "records wait in it and {name} is missing; put it back or set {KEY_VARIABLE}, or begin with a new state directory"
                    ),
                });
            }
            let key = StateKey::random().map_err(|why| error(&name, &why.to_string()))?;
            write_private(&path, key.to_hex().as_bytes())
                .and_then(|()| disk::sync_names(directory))
                .map_err(|why| error(&name, &format!("it cannot be written: {why}")))?;
            Ok(key)
        }
        Err(why) => Err(error(&name, &why.to_string())),
    }
}

/// The name in the directory's file `instance`, or a new one.
fn instance(directory: &Path) -> Result<String, CommitLogError> {
    let path = directory.join(INSTANCE);
    let error = |why: String| CommitLogError::Read {
        path: path.display().to_string(),
        why,
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let name = text.trim();
            let fits = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            match fits {
                true => Ok(name.to_owned()),
                false => Err(error(
                    "the name of a process is 16 hexadecimal digits".into(),
                )),
            }
        }
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|why| error(why.to_string()))?;
            let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write_private(&path, name.as_bytes())
                .and_then(|()| disk::sync_names(directory))
                .map_err(|why| error(format!("it cannot be written: {why}")))?;
            Ok(name)
        }
        Err(why) => Err(error(why.to_string())),
    }
}

/// When a directory was made, as it is kept there; that the name of its process was written is the sign of an older one.
fn created(directory: &Path) -> Result<SystemTime, CommitLogError> {
    let path = directory.join(CREATED);
    let error = |why: String| CommitLogError::Read {
        path: path.display().to_string(),
        why,
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let nanoseconds = text.trim().parse().map(Duration::from_nanos);
            let created = nanoseconds
                .ok()
                .and_then(|time| UNIX_EPOCH.checked_add(time));
            created.ok_or_else(|| error("it is a number of nanoseconds since 1970".into()))
        }
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let named = fs::metadata(directory.join(INSTANCE)).and_then(|about| about.modified());
            let created = named.unwrap_or_else(|_| SystemTime::now());
            let since = created.duration_since(UNIX_EPOCH).unwrap_or_default();
            write_private(&path, since.as_nanos().to_string().as_bytes())
                .and_then(|()| disk::sync_names(directory))
                .map_err(|why| error(format!("it cannot be written: {why}")))?;
            Ok(created)
        }
        Err(why) => Err(error(why.to_string())),
    }
}

/// Makes a directory that only its owner may enter, or takes one from all others, with the files in it.
fn make_private(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut new = DirBuilder::new();
    #[cfg(unix)]
    new.mode(0o700);
    match new.create(path) {
        Ok(()) => match path.parent() {
            Some(above) => disk::sync_names(above),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            keep_others_out(path, 0o700)?;
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    keep_others_out(&entry.path(), 0o600)?;
                }
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Gives this mode to what others than its owner have rights to.
#[cfg(unix)]
fn keep_others_out(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match fs::metadata(path)?.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => restrict(path, mode),
    }
}

#[cfg(not(unix))]
fn keep_others_out(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Writes a file that only its owner can read, durable before it has its name.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    restrict(&temporary, 0o600)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_contract::{Cut, Entry, EntryKey, EntryPart, TaskCut, TaskId};

    use super::*;

    #[test]
    fn a_key_in_the_environment_is_taken_or_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let hex = "5a".repeat(32);
        let given = key(place.path(), Some(OsStr::new(&hex)), b"").unwrap();
        assert_eq!(given.to_hex(), hex);
        for bad in ["", "short", &"zz".repeat(32)] {
            let text = key(place.path(), Some(OsStr::new(bad)), b"")
                .unwrap_err()
                .to_string();
            assert_eq!(
                text,
                "cannot take the state key from TIDEGATE_STATE_KEY: a key is 64 hexadecimal digits"
            );
            assert!(!place.path().join("key").exists());
        }
    }

    #[test]
    fn no_new_key_is_made_for_a_log_in_which_records_wait() {
        let place = tempfile::tempdir().unwrap();
        let old = StateKey::random().unwrap();
        let entry = |number: u64, put: &[u64], done: &[u64]| {
            let key = |offset: &u64| EntryKey {
                stage: "ask".into(),
                offset: *offset,
                emit: 0,
                copy: 0,
                part: EntryPart::Record,
            };
            let put = put.iter().map(|offset| Entry {
                key: key(offset),
                payload: b"secret".to_vec(),
            });
            let task = TaskId {
                source: "tickets".into(),
                partition: 0,
            };
            let of_task = TaskCut {
                put: put.collect(),
                done: done.iter().map(key).collect(),
                ..TaskCut::default()
            };
            let cut = Cut {
                tasks: BTreeMap::from([(task, of_task)]),
                ..Cut::default()
            };
            format::cut_entry(number, &cut, &old).unwrap().0
        };
        let waits = [&format::header()[..], &entry(1, &[1, 2], &[])].concat();
        let text = key(place.path(), None, &waits).unwrap_err().to_string();
        assert!(
            text.contains("commit.log") && text.contains("put it back or set TIDEGATE_STATE_KEY"),
            "{text}"
        );
        assert!(!place.path().join("key").exists());
        assert!(key(place.path(), Some(OsStr::new(&"00".repeat(32))), &waits).is_ok());
        let one_done = [&waits[..], &entry(2, &[], &[1])].concat();
        assert!(key(place.path(), None, &one_done).is_err());
        let done = [&one_done[..], &entry(3, &[], &[2])].concat();
        let made = key(place.path(), None, &done).unwrap();
        assert_eq!(
            key(place.path(), None, &done).unwrap().to_hex(),
            made.to_hex()
        );
    }
}
