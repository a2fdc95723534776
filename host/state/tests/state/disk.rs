//! The disk itself.

use tidegate_contract::FileLayer;
use tidegate_state::{AppendFile, Disk};

#[cfg(unix)]
#[test]
fn a_file_that_was_removed_or_replaced_cannot_be_synced() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out/out.jsonl");
    let removed = |file: &mut Box<dyn AppendFile>| {
        file.append(b"lost\n").unwrap();
        let error = file.sync().unwrap_err().to_string();
        assert!(error.contains("was removed or replaced"), "{error}");
    };
    let mut file = Disk.open_append(&path).unwrap();
    file.append(b"kept\n").unwrap();
    file.sync().unwrap();
    // Where it is now nobody looks for it, until it is back.
    for (from, to) in [("out/out.jsonl", "moved"), ("out", "elsewhere")] {
        let (from, to) = (place.path().join(from), place.path().join(to));
        std::fs::rename(&from, &to).unwrap();
        removed(&mut file);
        std::fs::rename(&to, &from).unwrap();
        file.sync().unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    removed(&mut file);
    let mut file = Disk.open_append(&path).unwrap();
    Disk.replace(&path, b"new").unwrap();
    removed(&mut file);
}

#[test]
fn the_real_disk_appends_truncates_and_replaces() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out/deep/answers.jsonl");
    assert_eq!(Disk.read(&path).unwrap(), None);
    let mut file = Disk.open_append(&path).unwrap();
    file.append(b"one\ntwo\n").unwrap();
    file.sync().unwrap();
    file.truncate(4).unwrap();
    file.append(b"three\n").unwrap();
    assert_eq!(file.length().unwrap(), 10);
    assert_eq!(Disk.read(&path).unwrap().unwrap(), b"one\nthree\n");
    Disk.replace(&path, b"new").unwrap();
    assert_eq!(Disk.read(&path).unwrap().unwrap(), b"new");
}

#[cfg(unix)]
#[test]
fn a_file_is_made_where_links_lead_that_lead_nowhere_yet() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    symlink("deep/missing", at("file")).unwrap();
    symlink("nowhere/./below", at("directory")).unwrap();
    for (name, real) in [
        ("file", "deep/missing"),
        ("directory/file", "nowhere/below/file"),
        ("deep/../other", "other"),
    ] {
        let real = place.path().canonicalize().unwrap().join(real);
        assert_eq!(Disk.real_path(&at(name)), real, "{name}");
        Disk.open_append(&at(name)).unwrap().append(b"1").unwrap();
        assert_eq!(std::fs::read(&real).unwrap(), b"1", "{name}");
    }
}
