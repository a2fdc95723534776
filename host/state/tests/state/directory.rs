//! The state directory.

use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{CommitLog as _, CommitLogError, Cut, Recovered};
use tidegate_state::{Disk, FileCommitLog, StateDirectory};

fn open_directory(
    path: &Path,
) -> Result<(StateDirectory, FileCommitLog, Recovered), CommitLogError> {
    StateDirectory::open(path, Arc::new(Disk))
}

#[test]
fn a_state_directory_has_one_process_and_keeps_its_key() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let (first, log, _) = open_directory(&path).unwrap();
    assert!(matches!(
        open_directory(&path),
        Err(CommitLogError::Locked { .. })
    ));
    drop(log);
    let key = first.key().to_hex();
    // What older versions locked is a file like others.
    std::fs::write(path.join("lock"), "").unwrap();
    assert_eq!(open_directory(&path).unwrap().0.key().to_hex(), key);
    std::fs::write(path.join("key"), "short").unwrap();
    assert!(
        open_directory(&path)
            .unwrap_err()
            .to_string()
            .contains("64 hexadecimal")
    );
}

#[test]
fn whoever_waits_for_a_log_is_told_how_much_of_it_is_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let (_, log, _) = open_directory(&path).unwrap();
    for _ in 0..5 {
        log.commit(&Cut::default()).unwrap();
    }
    drop(log);
    let heard = std::cell::RefCell::new(Vec::new());
    let told = |done, of| heard.borrow_mut().push((done, of));
    let (_, taken) = StateDirectory::take(&path, Arc::new(Disk)).unwrap();
    let other = StateDirectory::take(&path, Arc::new(Disk)).err();
    assert!(
        matches!(other, Some(CommitLogError::Locked { .. })),
        "it is taken before it is read: {other:?}"
    );
    drop(taken.replay(&told).unwrap());
    let length = std::fs::metadata(path.join("commit.log")).unwrap().len();
    let heard = heard.into_inner();
    assert_eq!(heard.len(), 5);
    assert!(heard.is_sorted_by_key(|(done, _)| *done), "{heard:?}");
    assert!(heard.iter().all(|(_, of)| *of == length), "{heard:?}");
    assert_eq!(heard.last(), Some(&(length, length)));
}

#[test]
fn a_state_directory_is_its_own_or_empty() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let refused = |file: &str, bytes: &[u8]| {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(file), bytes).unwrap();
        let error = open_directory(&path).unwrap_err();
        assert!(matches!(error, CommitLogError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        assert_eq!(std::fs::read(path.join(file)).unwrap(), bytes);
        std::fs::remove_dir_all(&path).unwrap();
    };
    refused("notes.txt", b"mine");
    refused("commit.log", b"a log of git");
    // What a start leaves that was cut short, at any point.
    for (file, bytes) in [
        ("commit.log", &b""[..]),
        ("commit.log", b"TG"),
        ("key.new", b""),
    ] {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(file), bytes).unwrap();
        drop(open_directory(&path).unwrap());
        // Beside a log may lie what its owner puts there.
        std::fs::write(path.join("notes.txt"), "mine").unwrap();
        drop(open_directory(&path).unwrap());
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_private_directory_is_taken_from_others_with_all_that_is_in_it() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let (state, _log, _) = open_directory(&place.path().join("state")).unwrap();
    let made = state.private(&["ingest", "orders"]).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = made.join("segment-0000");
    std::fs::write(&file, "records").unwrap();
    for (path, open, own) in [(made.as_path(), 0o755, 0o700), (&file, 0o644, 0o600)] {
        if path == made {
            assert_eq!(mode(path), own);
        }
        set_permissions(path, Permissions::from_mode(open)).unwrap();
    }
    assert_eq!(state.private(&["ingest", "orders"]).unwrap(), made);
    assert_eq!((mode(&made), mode(&file)), (0o700, 0o600));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "records");
}

#[test]
fn whether_a_directory_is_used_is_said_by_its_lock_and_whoever_asks_keeps_nobody_out() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    assert!(StateDirectory::in_use(&path).unwrap().is_none(), "missing");
    let (_, log, _) = open_directory(&path).unwrap();
    assert!(StateDirectory::in_use(&path).unwrap().is_some());
    log.commit(&Cut::default()).unwrap();
    assert!(StateDirectory::in_use(&path).unwrap().is_some());
    drop(log);
    assert!(StateDirectory::in_use(&path).unwrap().is_none());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                StateDirectory::in_use(&path).unwrap();
            }
        });
        for _ in 0..20 {
            drop(open_directory(&path).unwrap());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_a_directory_has_is_read_without_its_key_while_another_has_it_and_nothing_is_made() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    assert_eq!(StateDirectory::recorded(&path).unwrap(), None);
    assert!(!path.exists());
    let (_, log, _) = open_directory(&path).unwrap();
    log.commit(&Cut::default()).unwrap();
    std::fs::remove_file(path.join("key")).unwrap();
    let names = || std::fs::read_dir(&path).unwrap().count();
    let before = names();
    assert_eq!(StateDirectory::recorded(&path).unwrap().unwrap().cut, 1);
    assert_eq!(names(), before);
}

#[cfg(unix)]
#[test]
fn a_directory_whose_log_is_another_users_is_refused_with_the_command_that_works_and_nothing_is_made()
 {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    drop(open_directory(&path).unwrap());
    // Only who is above permissions can be asked this, and can do the harm.
    if std::os::unix::fs::chown(path.join("commit.log"), Some(61_184), None).is_err() {
        return;
    }
    std::fs::remove_file(path.join("key")).unwrap();
    let names = || std::fs::read_dir(&path).unwrap().count();
    let before = names();
    let why = open_directory(&path).unwrap_err().to_string();
    assert!(
        why.contains("user 61184's") && why.contains("`sudo -u '#61184'`"),
        "{why}"
    );
    assert_eq!(names(), before);
    // To look is no harm.
    assert!(StateDirectory::recorded(&path).unwrap().is_some());
}
