//! Disks that fail and go on: every write, fsync, opening and renaming of a short run fails once, or from then on; disks
//! that are full, and directories in which nothing can be made. Crashes are looked at beside this one.

use std::time::Duration;

use tidegate_flow::Order;
use tidegate_state::{Crash, Fault, Lasting, MemoryDisk};

use crate::crash::{ANSWERS, DEAD, STATE, Setting, files};

/// Runs of 40 records without retries, whose output is the same byte for byte: with an operator alone, and with answers
/// that come in any order behind it.
fn settings() -> [Setting; 2] {
    [None, Some(Order::Partition)].map(|model| {
        let setting = Setting::new(40, model);
        let lines: String = (1..=40u64)
            .filter(|n| n % 13 != 0)
            .map(|n| format!("{{\"k\":\"k{}\",\"n\":{n}}}\n", n % 5))
            .collect();
        std::fs::write(setting.path(), lines).unwrap();
        setting
    })
}

/// One life on a disk that fails: why it ended early, if it did.
fn life(setting: &Setting, disk: &MemoryDisk) -> Option<String> {
    match setting.run(disk) {
        Ok(ended) => ended.error.map(|error| error.to_string()),
        Err(error) => Some(error),
    }
}

/// A failure of the disk names the file.
fn names_a_file(why: &str) {
    let named = [STATE, ANSWERS, DEAD].iter().any(|path| why.contains(path));
    assert!(named, "{why}");
}

/// The first life ended early: whatever happens next, every record has its output once. The process is started again on
/// the same machine, which goes down later; or it goes down first, with or without what it had in memory.
fn nothing_is_lost(
    setting: &Setting,
    disk: &MemoryDisk,
    expected: &(String, String),
    what: impl std::fmt::Debug,
) {
    for kept in [0, 9, usize::MAX] {
        let after = disk.restart(kept);
        setting.whole(&after);
        assert_eq!(
            &files(&after.restart(0)),
            expected,
            "{what:?}, then the machine went down, {kept} unsynced bytes kept"
        );
    }
    setting.whole(disk);
    assert_eq!(&files(disk), expected, "{what:?}");
    assert_eq!(
        &files(&disk.restart(0)),
        expected,
        "{what:?}, and the machine went down after the next run"
    );
}

/// Each operation that a whole run needs, by number.
fn faults(disk: &MemoryDisk) -> Vec<Fault> {
    let opens = (1..=disk.opens()).map(Fault::Open);
    let appends = (1..=disk.appends()).map(Fault::Append);
    let syncs = (1..=disk.syncs()).map(Fault::Sync);
    let renames = (1..=disk.renames()).map(Fault::Rename);
    opens.chain(appends).chain(syncs).chain(renames).collect()
}

#[test]
fn whichever_operation_of_the_disk_fails_once_every_record_has_its_output_once() {
    for setting in settings() {
        let disk = MemoryDisk::new();
        setting.whole(&disk);
        let (expected, faults) = (files(&disk), faults(&disk));
        assert!(faults.len() > 30, "only {} operations", faults.len());
        let mut failures = 0;
        for fault in faults {
            let disk = MemoryDisk::new();
            disk.fail(fault, Lasting::Once);
            // Answers come as they come: a life may need fewer operations than that of the whole run.
            if let Some(why) = life(&setting, &disk) {
                names_a_file(&why);
                failures += 1;
            }
            // One that did not come does not come later.
            disk.mend();
            nothing_is_lost(&setting, &disk, &expected, fault);
        }
        assert!(failures > 20, "only {failures} faults came");
    }
}

#[test]
fn whichever_operation_of_the_disk_fails_for_good_the_run_ends_and_goes_on_once_it_is_mended() {
    for setting in settings() {
        let disk = MemoryDisk::new();
        setting.whole(&disk);
        let (expected, faults) = (files(&disk), faults(&disk));
        let mut failures = 0;
        for fault in faults {
            let disk = MemoryDisk::new();
            disk.fail(fault, Lasting::ForGood);
            let Some(why) = life(&setting, &disk) else {
                continue;
            };
            names_a_file(&why);
            // Started again and again, as by a supervisor.
            for _ in 0..2 {
                let why = life(&setting, &disk);
                names_a_file(&why.expect("a disk that does not write ends a run"));
            }
            disk.mend();
            nothing_is_lost(&setting, &disk, &expected, fault);
            failures += 1;
        }
        assert!(failures > 20, "only {failures} faults came");
    }
}

#[test]
fn a_disk_that_is_full_ends_a_run_and_loses_nothing_once_there_is_room() {
    for setting in settings() {
        let disk = MemoryDisk::new();
        setting.whole(&disk);
        let expected = files(&disk);
        let all = disk.used();
        let mut failures = 0;
        for room in (0..all).step_by((all / 40).max(1)) {
            let disk = MemoryDisk::new();
            disk.limit(Some(room));
            let Some(why) = life(&setting, &disk) else {
                continue;
            };
            names_a_file(&why);
            assert!(why.contains("no space left"), "{why}");
            // Another start on the full disk changes nothing.
            life(&setting, &disk);
            disk.mend();
            nothing_is_lost(&setting, &disk, &expected, room);
            failures += 1;
        }
        assert!(failures > 20, "only {failures} disks were full");
    }
}

#[test]
fn a_directory_in_which_nothing_can_be_made_is_named_and_costs_nothing() {
    for setting in settings() {
        let disk = MemoryDisk::new();
        setting.whole(&disk);
        let expected = files(&disk);
        let read_only = |disk: &MemoryDisk| {
            disk.read_only(true);
            let why = life(&setting, disk).expect("nothing can be written");
            names_a_file(&why);
            assert!(why.contains("permission denied"), "{why}");
            disk.mend();
        };
        // From the first start on, and between two starts.
        let fresh = MemoryDisk::new();
        read_only(&fresh);
        nothing_is_lost(&setting, &fresh, &expected, "an empty disk");
        for sync in (2..disk.syncs()).step_by(3) {
            let disk = MemoryDisk::new();
            disk.crash_at(Crash::AfterSync(sync));
            if life(&setting, &disk).is_none() {
                continue;
            }
            let disk = disk.restart(0);
            read_only(&disk);
            nothing_is_lost(&setting, &disk, &expected, sync);
        }
    }
}

#[test]
fn a_disk_that_fails_while_nothing_else_happens_ends_the_run_too() {
    // The last cut of a run is due when its input has ended: nothing comes after it that would show the failure.
    let mut setting = Setting::new(20, None);
    setting.interval = Duration::from_secs(60);
    let disk = MemoryDisk::new();
    setting.whole(&disk);
    let (expected, last) = (files(&disk), disk.syncs());
    for sync in last.saturating_sub(3).max(1)..=last {
        let disk = MemoryDisk::new();
        disk.fail(Fault::Sync(sync), Lasting::Once);
        let why = life(&setting, &disk);
        names_a_file(&why.expect("the last cuts failed"));
        nothing_is_lost(&setting, &disk, &expected, sync);
    }
}
