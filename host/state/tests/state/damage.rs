//! Logs that a crash cut short, or that are damaged.

use std::path::Path;

use tidegate_contract::{CommitLog, CommitLogError, FileLayer, Recovered};
use tidegate_state::format::{ENTRY_HEADER, HEADER};
use tidegate_state::{Crash, MemoryDisk};

use crate::{LOG, cut, entry, in_flight, log_of, open};

#[test]
fn a_crash_at_any_fsync_or_torn_append_leaves_a_whole_number_of_cuts() {
    let crashes = (1..=12).flat_map(|n| {
        [
            Crash::BeforeSync(n),
            Crash::AfterSync(n),
            Crash::TornAppend(n),
        ]
    });
    let mut crashed = 0;
    for crash in crashes {
        for kept in [0, 1, 7, 40, usize::MAX] {
            let disk = MemoryDisk::new();
            disk.crash_at(crash);
            let mut answered = 0;
            if let Ok((log, _)) = open(&disk) {
                for n in 1..=8 {
                    if log.commit(&cut(n, 1)).is_err() {
                        break;
                    }
                    answered = n;
                }
                if disk.has_crashed() {
                    assert!(
                        log.commit(&cut(99, 1)).is_err(),
                        "a failed log must not go on"
                    );
                }
            }
            crashed += u32::from(disk.has_crashed());
            let after = disk.restart(kept);
            let (log, state) = open(&after).unwrap();
            assert!(
                state.cut == answered || state.cut == answered + 1,
                "{crash:?} kept {kept}: {answered} cuts were answered, {} are there",
                state.cut
            );
            if state.cut > 0 {
                assert_eq!(state.sinks[0].length, state.cut * 100);
                assert_eq!(in_flight(&state).last(), Some(&entry(state.cut, 1)));
            }
            let next = state.cut + 1;
            assert_eq!(log.commit(&cut(next, 1)).unwrap(), next);
            assert_eq!(open(&after.restart(0)).unwrap().1.cut, next);
        }
    }
    assert!(crashed > 100, "only {crashed} crashes happened");
}

#[test]
fn damage_before_the_end_is_refused_with_its_byte() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    for n in 1..=3 {
        log.commit(&cut(n, 1)).unwrap();
    }
    drop(log);
    let mut bytes = disk.bytes(Path::new(LOG));
    bytes[40] ^= 1;
    disk.replace(Path::new(LOG), &bytes).unwrap();
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("byte 16"), "{error}");
    disk.replace(Path::new(LOG), b"something else entirely")
        .unwrap();
    assert!(
        open(&disk)
            .unwrap_err()
            .to_string()
            .contains("not a commit log")
    );
}

/// Where each entry of a log begins, and at last where the log ends.
fn entries(log: &[u8]) -> Vec<usize> {
    let mut ends = vec![HEADER];
    while let Some(length) = log[ends[ends.len() - 1]..].first_chunk::<4>() {
        let end = ends[ends.len() - 1] + ENTRY_HEADER + u32::from_le_bytes(*length) as usize;
        ends.push(end);
    }
    ends
}

fn open_bytes(disk: &MemoryDisk, bytes: &[u8]) -> Result<Recovered, CommitLogError> {
    disk.replace(Path::new(LOG), bytes).unwrap();
    open(disk).map(|(_, state)| state)
}

#[test]
fn no_flipped_bit_before_the_last_entry_loses_a_cut() {
    let (disk, good) = log_of(4);
    let entries = entries(&good);
    assert_eq!(entries.len(), 5);
    for at in HEADER..entries[3] {
        let begin = entries.iter().rfind(|&&begin| begin <= at).unwrap();
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let error = open_bytes(&disk, &bytes).unwrap_err().to_string();
            assert!(
                error.contains(&format!("(byte {begin})")),
                "byte {at}, bit {bit}: {error}"
            );
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_entry_costs_at_most_that_entry() {
    let (disk, good) = log_of(3);
    let entries = entries(&good);
    for at in entries[2]..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            match open_bytes(&disk, &bytes) {
                // A wrong header with a payload behind it was not torn.
                Err(error) => assert!(at < entries[2] + ENTRY_HEADER, "byte {at}: {error}"),
                Ok(state) => {
                    assert!(at >= entries[2] + ENTRY_HEADER, "byte {at}");
                    assert_eq!(state.cut, 2, "byte {at}");
                }
            }
        }
    }
}

#[test]
fn a_torn_write_is_a_cut_that_never_was() {
    let (disk, good) = log_of(3);
    let last = entries(&good)[2];
    for at in last..good.len() {
        assert_eq!(open_bytes(&disk, &good[..at]).unwrap().cut, 2, "{at}");
        // The file has its length but not all of its bytes.
        let mut bytes = good.clone();
        bytes[at..].fill(0);
        assert_eq!(open_bytes(&disk, &bytes).unwrap().cut, 2, "{at}");
        bytes.extend([0; 4096]);
        assert_eq!(open_bytes(&disk, &bytes).unwrap().cut, 2, "{at}");
    }
}

#[test]
fn cuts_out_of_order_are_refused_with_both_numbers() {
    let (disk, good) = log_of(3);
    let at = entries(&good);
    let first = &good[..at[1]];
    let (second, third) = (&good[at[1]..at[2]], &good[at[2]..]);
    for (bytes, why) in [
        ([first, third].concat(), "cut 3 follows cut 1"),
        ([first, second, second].concat(), "cut 2 follows cut 2"),
        ([&good[..HEADER], second].concat(), "cut 2 follows cut 0"),
    ] {
        let error = open_bytes(&disk, &bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(open_bytes(&disk, &good).unwrap().cut, 3);
}

#[test]
fn arbitrary_bytes_never_panic() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    log.commit(&cut(1, 1)).unwrap();
    drop(log);
    let good = disk.bytes(Path::new(LOG));
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] = bytes[at].wrapping_add(0x55);
        disk.replace(Path::new(LOG), &bytes).unwrap();
        let _ = open(&disk);
        disk.replace(Path::new(LOG), &good[..at]).unwrap();
        let (_, state) = open(&disk).unwrap();
        assert_eq!(state.cut, 0, "a log cut at byte {at}");
    }
}
