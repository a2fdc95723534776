//! Paths without links: which file a name leads to.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Links that are followed before a path is taken as it is.
const MOST_LINKS: usize = 40;

/// One path for one file, however it is written, also if it is not there yet: the directories that are there without
/// links, and links that lead nowhere followed to where the file will be made.
pub fn real_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut path = without_dots(&absolute);
    for _ in 0..MOST_LINKS {
        let (real, missing) = existing(&path);
        let Some(first) = missing.first() else {
            return real;
        };
        let Ok(target) = fs::read_link(real.join(first)) else {
            return joined(real, &missing);
        };
        path = without_dots(&joined(real.join(target), &missing[1..]));
    }
    path
}

/// A path without `.`, and without `..` where that is certain.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
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

/// The longest beginning of a path that is there, without links, and what follows it.
fn existing(path: &Path) -> (PathBuf, Vec<OsString>) {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(real) = fs::canonicalize(existing) {
            missing.reverse();
            return (real, missing);
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                existing = parent;
            }
            _ => return (path.to_owned(), Vec::new()),
        }
    }
}

fn joined(path: PathBuf, names: &[OsString]) -> PathBuf {
    names.iter().fold(path, |path, name| path.join(name))
}
