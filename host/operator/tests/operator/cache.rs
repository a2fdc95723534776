//! Compiled components on disk: found again, and never trusted when damaged.

use std::path::{Path, PathBuf};

use tidegate_contract::Slot;
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, SlotOptions};

use crate::support::*;

fn engine(directory: &Path) -> Engine {
    let options = EngineOptions {
        cache_dir: Some(directory.to_owned()),
        instances: 4,
        ..EngineOptions::default()
    };
    Engine::new(options).unwrap()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The component works, wherever it came from.
fn works(engine: &Engine) {
    let slot = ComponentSlot::new(engine, SlotOptions::new("s"), PASS, "pass").unwrap();
    assert_eq!(run(&mut *instance(&slot), &batch_of(["v"; 3])).len(), 3);
    assert_eq!(slot.version().name, "pass");
}

#[test]
fn what_was_compiled_is_taken_from_disk_by_the_next_engine() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    assert!(
        !engine(&directory)
            .compile(PASS, "pass")
            .unwrap()
            .is_from_disk()
    );
    assert_eq!(
        entries(&directory).len(),
        1,
        "one entry and nothing left beside it"
    );
    let second = engine(&directory);
    assert!(second.compile(PASS, "pass").unwrap().is_from_disk());
    works(&second);
}

#[test]
fn a_cut_or_changed_entry_is_compiled_anew() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let first = engine(&directory);
    first.compile(PASS, "pass").unwrap();
    let entry = entries(&directory).remove(0);
    let whole = std::fs::read(&entry).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for damaged in [
        &whole[..whole.len() / 2],
        &whole[..10],
        &[][..],
        &flipped[..],
    ] {
        std::fs::write(&entry, damaged).unwrap();
        assert!(
            !engine(&directory)
                .compile(PASS, "pass")
                .unwrap()
                .is_from_disk()
        );
        assert!(
            std::fs::read(&entry).unwrap().len() == whole.len(),
            "it was written again"
        );
        assert!(first.compile(PASS, "pass").unwrap().is_from_disk());
    }
    works(&first);
}

#[test]
fn an_entry_does_not_serve_for_another_component() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let engine = engine(&directory);
    engine.compile(PASS, "pass").unwrap();
    let of_pass = entries(&directory).remove(0);
    let hostile = guest("hostile");
    engine.compile(&hostile, "hostile").unwrap();
    let of_hostile = entries(&directory)
        .into_iter()
        .find(|entry| *entry != of_pass)
        .unwrap();
    std::fs::copy(of_pass, of_hostile).unwrap();
    let component = engine.compile(&hostile, "hostile").unwrap();
    assert!(!component.is_from_disk());
    assert_eq!(component.imports(), ["tidegate:operator/log@1.0.0"]);
}

#[cfg(unix)]
#[test]
fn a_directory_that_others_may_enter_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    assert!(engine(&directory).keeps_compiled());
    let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let open = engine(&directory);
    assert!(!open.keeps_compiled());
    works(&open);
}

#[test]
fn a_directory_that_cannot_be_made_does_not_fail_the_start() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let engine = engine(&file.join("code"));
    assert!(!engine.keeps_compiled() && engine.is_guarded());
    works(&engine);
}

#[test]
fn compiled_components_that_nobody_needs_are_taken_away() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("code");
    let engine = engine(&directory);
    let pass = engine.compile(PASS, "pass").unwrap();
    engine.compile(&guest("hostile"), "hostile").unwrap();
    let of_another_engine = directory.join(format!("{}-0123456789abcdef.code", "a".repeat(64)));
    std::fs::write(&of_another_engine, "old").unwrap();
    std::fs::write(directory.join("notes"), "not the cache's").unwrap();
    engine.forget_compiled(&[pass.digest().to_owned()].into());
    let mut left: Vec<String> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left[0].starts_with(pass.digest().trim_start_matches("sha256:")),
        "{left:?}"
    );
    assert!(engine.compile(PASS, "pass").unwrap().is_from_disk());
    assert!(
        !engine
            .compile(&guest("hostile"), "hostile")
            .unwrap()
            .is_from_disk()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_was_read_before_is_known_until_it_is_changed() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(&home.path().join("code"));
    let file = home.path().join("op.wasm");
    let reads = std::cell::Cell::new(0);
    let open = || {
        let read = |path: &Path| {
            reads.set(reads.get() + 1);
            std::fs::read(path)
        };
        engine.open(&file, read).unwrap()
    };
    std::fs::write(&file, PASS).unwrap();
    // A file that has just been written may be written again without a trace of it.
    assert_eq!(open().digest(), tidegate_operator::digest(PASS));
    open();
    assert_eq!(reads.get(), 2);
    std::thread::sleep(std::time::Duration::from_millis(3100));
    open();
    assert_eq!(reads.get(), 3, "it is noted now, and nothing was compiled");
    engine.compile(open(), "pass").unwrap();
    assert_eq!(reads.get(), 4);
    let known = open();
    assert_eq!(reads.get(), 4);
    assert!(engine.compile(&known, "pass").unwrap().is_from_disk());
    assert_eq!(*known.bytes("pass").unwrap(), *PASS);
    // Another content of the same length and of the same time.
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    let mut other = PASS.to_vec();
    let name = other.windows(4).position(|name| name == b"pass").unwrap();
    other[name..name + 4].copy_from_slice(b"past");
    std::fs::write(&file, &other).unwrap();
    let touched = std::fs::File::options().write(true).open(&file).unwrap();
    touched.set_modified(written).unwrap();
    assert_eq!(open().digest(), tidegate_operator::digest(&other));
    assert_eq!(reads.get(), 5);
    let error = known.bytes("pass").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it was changed while it was looked at")
    );
}
