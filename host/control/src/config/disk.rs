//! Paths of a pipeline file: relative to its directory, patterns expanded, files looked for.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The directory that a pipeline file's paths are relative to.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// An absolute path, without `.` and without `..` where that is certain.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        let mut resolved = PathBuf::new();
        for component in self.0.join(path).components() {
            match component {
                Component::CurDir => {}
                // `a/..` is nothing only if `a` is no link; `canonicalize` knows, the eye does not.
                Component::ParentDir => match fs::canonicalize(&resolved) {
                    Ok(real) => {
                        resolved = real;
                        resolved.pop();
                    }
                    Err(_) => {
                        resolved.pop();
                    }
                },
                other => resolved.push(other),
            }
        }
        resolved
    }

    /// A path as it is shown: relative to this directory where it lies inside.
    pub(crate) fn shown<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.0).unwrap_or(path).display()
    }
}

/// One path for one file, however it is written, also if it does not exist yet.
pub(crate) fn identity(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(real) = fs::canonicalize(existing) {
            return missing
                .iter()
                .rev()
                .fold(real, |real, name| real.join(name));
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                existing = parent;
            }
            _ => return path.to_owned(),
        }
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

/// `*` stands for any characters, also none.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!fits(Path::new("/d/*"), Path::new("/d/.hidden")));
        assert!(fits(Path::new("/d/.*"), Path::new("/d/.hidden")));
        assert!(!fits(Path::new("/d/*"), Path::new("/e/x")));
    }
}
