//! Components that were made before. What starts an interpreter and keeps it as it stands then keeps what it drew at random
//! too, so that a second run makes other bytes: the first component of the same sources is the one that counts on this
//! machine, wherever they lie, and it is there at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tidegate_component::digest;

use super::Build;
use crate::disk;
use crate::project::ProjectError;
use crate::toolchain::BuildError;

/// Most bytes of components that are kept; those that were not asked for the longest go first.
const KEPT: u64 = 1 << 30;

/// A component, and what its tool said as it made it.
type Told = (Vec<u8>, String);

impl Build<'_> {
    /// The component that `make` writes to the file that it is given, or the one that it wrote before for the same tool, world
    /// and sources; with what the tool said. `make` works in the directory that it is given, which has these sources alone:
    /// what is kept is known by what the tool has read, whatever is saved meanwhile.
    pub(super) fn remembered(
        &self,
        tool: &str,
        mut sources: Vec<PathBuf>,
        make: impl FnOnce(&Path, &Path) -> Result<String, BuildError>,
    ) -> Result<Told, BuildError> {
        sources.push(self.wit_file()?);
        sources.sort();
        sources.dedup();
        let kept = self.machine().kept("built");
        if let (Some(kept), false) = (&kept, self.options.fresh) {
            let name = self.made_of(tool, &self.directory, &sources)?;
            if let Some(found) = asked_for(&kept.join(name)) {
                return Ok(found);
            }
        }
        let stage = self.stage(&sources)?;
        let name = self.made_of(tool, &stage, &sources)?;
        let out = self.fresh("component.wasm")?;
        let said = make(&stage, &out)?;
        let bytes = fs::read(&out).map_err(ProjectError::disk("read", &out))?;
        disk::clear(&stage)?;
        let Some(kept) = kept else {
            return Ok((bytes, said));
        };
        // Another project with the same sources may have been first.
        if let (Some(found), false) = (asked_for(&kept.join(&name)), self.options.fresh) {
            return Ok(found);
        }
        keep(&kept, &name, &bytes, &said);
        Ok((bytes, said))
    }
}

/// What is kept under a name, if it is as it was kept; that it was asked for is its time from now on.
fn asked_for(path: &Path) -> Option<Told> {
    let bytes = fs::read(path).ok()?;
    let found = told(&bytes)?;
    if let Ok(file) = File::options().append(true).open(path) {
        // Without it the file goes earlier, and is made again.
        let _ = file.set_modified(SystemTime::now());
    }
    Some(found)
}

/// A kept file has a line with the digest of all after it, a line with the bytes of what was said, that, and the component.
fn told(bytes: &[u8]) -> Option<Told> {
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n');
    let end = line(bytes)?;
    let (said, rest) = (&bytes[..end], &bytes[end + 1..]);
    if digest(rest).as_bytes() != said {
        return None;
    }
    let end = line(rest)?;
    let length: usize = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let (said, component) = rest[end + 1..].split_at_checked(length)?;
    Some((component.to_vec(), str::from_utf8(said).ok()?.to_owned()))
}

/// Keeps a component, and lets the oldest go. One that cannot be kept is made again.
fn keep(directory: &Path, name: &str, component: &[u8], said: &str) {
    let mut rest = format!("{}\n{said}", said.len()).into_bytes();
    rest.extend_from_slice(component);
    let mut bytes = format!("{}\n", digest(&rest)).into_bytes();
    bytes.append(&mut rest);
    if disk::write(directory, Path::new(name), &bytes).is_err() {
        return;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        })
        .collect();
    files.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    let mut all = 0;
    for (_, length, path) in files {
        all += length;
        if all > KEPT {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_component_that_is_no_longer_whole_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("name");
        keep(place.path(), "name", b"\0asm\n", "a warning\nof two lines");
        let whole = (b"\0asm\n".to_vec(), "a warning\nof two lines".to_owned());
        assert_eq!(asked_for(&path), Some(whole));
        let bytes = fs::read(&path).unwrap();
        for wrong in [
            &bytes[..0],
            &bytes[..bytes.len() - 1],
            b"\n",
            b"sha256:0\n9",
        ] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(asked_for(&path), None);
        }
    }
}
