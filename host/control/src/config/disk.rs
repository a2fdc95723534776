//! Paths of a pipeline file: relative to its directory, patterns expanded, files looked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_state::{real_path, without_dots};
use wildmatch::WildMatchPattern;

use super::findings::Typed;

/// The directory that a pipeline file's paths are relative to.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// What the program lives by beside the records that it reads: certificates, keys, components, models.
    uses: RefCell<BTreeMap<FileId, Typed<String>>>,
}

impl Directory {
    pub(crate) fn new(path: PathBuf) -> Directory {
        Directory {
            path,
            uses: RefCell::default(),
        }
    }

    /// The program lives by this file, which is so named. Several may name it.
    pub(crate) fn uses(&self, path: &Path, typed: &Typed<String>) {
        let mut uses = self.uses.borrow_mut();
        uses.entry(FileId::of(path))
            .or_insert_with(|| typed.clone());
    }

    /// Where this file is named, if the program lives by it.
    pub(crate) fn used(&self, file: &FileId) -> Option<Typed<String>> {
        self.uses.borrow().get(file).cloned()
    }

    /// An absolute path, without `.` and without `..` where that is certain.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        without_dots(&self.path.join(path))
    }

    /// A path as it is shown: relative to this directory where it lies inside.
    pub(crate) fn shown<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.path).unwrap_or(path).display()
    }
}

/// A file, by whatever name: two that are equal are written at the same place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileId {
    /// It exists: device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// It does not exist yet, or the system has no inodes.
    Path(PathBuf),
}

impl FileId {
    pub(crate) fn of(path: &Path) -> FileId {
        #[cfg(unix)]
        if let Ok(facts) = fs::metadata(path) {
            use std::os::unix::fs::MetadataExt;
            return FileId::Inode(facts.dev(), facts.ino());
        }
        FileId::Path(real_path(path))
    }
}

/// The files that a path with `*` in its last component stands for, sorted by name.
pub(crate) fn expand(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let directory = pattern.parent().unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if fits(pattern, &path) && path.is_file() {
            files.push(path);
        }
    }
    debug_assert!(name.contains('*'));
    files.sort();
    Ok(files)
}

/// Whether a path is one that a pattern stands for. Hidden files are named or not read.
pub(crate) fn fits(pattern: &Path, path: &Path) -> bool {
    let (Some(wanted), Some(name)) = (pattern.file_name(), path.file_name()) else {
        return false;
    };
    let (wanted, name) = (wanted.to_string_lossy(), name.to_string_lossy());
    pattern.parent() == path.parent()
        && (wanted.starts_with('.') || !name.starts_with('.'))
        && matches(&wanted, &name)
}

/// `*` stands for any characters, also none, and no other has a meaning.
fn matches(pattern: &str, name: &str) -> bool {
    // No name of a file has a NUL.
    WildMatchPattern::<'*', '\0'>::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_is_one_by_whatever_name() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        fs::write(at("real"), "").unwrap();
        fs::hard_link(at("real"), at("hard")).unwrap();
        symlink("real", at("soft")).unwrap();
        symlink("deep/missing", at("dangling")).unwrap();
        symlink("../dangling", at("deep/chain")).unwrap();
        symlink(at("deep/missing"), at("absolute")).unwrap();
        symlink("nowhere", at("directory")).unwrap();
        symlink("round", at("round")).unwrap();
        let same = |a: &str, b: &str| FileId::of(&at(a)) == FileId::of(&at(b));
        for name in ["hard", "soft", "deep/../real"] {
            assert!(same("real", name), "{name}");
        }
        for name in ["dangling", "deep/chain", "absolute"] {
            assert!(same("deep/missing", name), "{name}");
        }
        assert!(same("directory/file", "nowhere/file"));
        assert!(!same("real", "dangling") && !same("deep/missing", "missing"));
        assert!(!same("round", "real"));
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, expected) in [
            ("*.jsonl", "a.jsonl", true),
            ("*.jsonl", "a.json", false),
            ("*", "anything", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("plain", "plain", true),
            ("plain", "plainer", false),
            ("a?[b]*", "a?[b]c", true),
            ("a?[b]*", "axbc", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!fits(Path::new("/d/*"), Path::new("/d/.hidden")));
        assert!(fits(Path::new("/d/.*"), Path::new("/d/.hidden")));
        assert!(!fits(Path::new("/d/*"), Path::new("/e/x")));
    }
}
