//! Answers of the plain world of any bytes: lifting them ends in an answer or in a reason, and the host goes on.

use std::time::{Duration, Instant};

use tidegate_operator::{ComponentSlot, SlotOptions};
use tidegate_record::{Batch, BatchBuilder, NewRecord};

use crate::made::{Made, World};
use crate::support::*;

/// Where the guest puts its answer: two lists, and after them what they hold.
const ANSWER: u32 = 1 << 20;

/// Answers with what the record's value holds: it is copied to the place of the answer as it is.
fn copying() -> ComponentSlot {
    // Of a message the value is an option at 52, its list at 56.
    let code = format!(
        "(memory.copy (i32.const {ANSWER}) (i32.load offset=56 (local.get $batch)) (i32.load offset=60 (local.get $batch)))
         (memory.copy (i32.const 516) (i32.const {ANSWER}) (i32.const 16))"
    );
    let made = Made::new(World::Plain).code("process", code);
    let options = SlotOptions {
        limits: patient(),
        ..SlotOptions::new("copying")
    };
    ComponentSlot::new(&ENGINE, options, &made.bytes(), "copying").unwrap()
}

fn batch(answer: &[u8]) -> Batch {
    let mut builder = BatchBuilder::default();
    let record = NewRecord {
        value: Some(answer),
        ..NewRecord::default()
    };
    builder.push(&record).unwrap();
    builder.finish(0)
}

fn word(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// One outcome of this kind, whose lists and texts lie behind it, and no sample.
fn answer(kind: u8) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    word(&mut bytes, 0, ANSWER + 16);
    word(&mut bytes, 4, 1);
    bytes[16] = kind;
    let behind = ANSWER + 256;
    match kind {
        // A patch of everything, then its lists.
        2 | 4 => {
            let patch = if kind == 2 { 24 } else { 40 };
            bytes[patch] = 2;
            word(&mut bytes, patch + 4, behind);
            word(&mut bytes, patch + 8, 5);
            bytes[patch + 12] = 1;
            bytes[patch + 24] = 2;
            word(&mut bytes, patch + 40, behind);
            word(&mut bytes, patch + 44, 3);
        }
        3 => {
            word(&mut bytes, 24, behind);
            word(&mut bytes, 28, 3);
        }
        5 => {
            word(&mut bytes, 24, 250);
            word(&mut bytes, 28, behind);
            word(&mut bytes, 32, 7);
        }
        6 => {
            word(&mut bytes, 24, behind);
            word(&mut bytes, 28, 7);
        }
        _ => {}
    }
    bytes
}

#[test]
fn an_answer_that_is_copied_is_taken_for_what_it_says() {
    let slot = copying();
    let kind = |kind| {
        let came = run(&mut *instance(&slot), &batch(&answer(kind)));
        match &came[0] {
            Came::Outcome(text) => text.replace('\0', "0"),
            Came::Poison(cause) => panic!("{kind}: {cause:?}"),
        }
    };
    assert_eq!(kind(0), "pass");
    assert_eq!(kind(1), "drop");
    assert_eq!(kind(2), "replace ");
    assert_eq!(kind(3), "split 0: 0: 0:");
    assert_eq!(kind(4), "route 0:");
    assert_eq!(kind(5), "retry 250 0000000");
    assert_eq!(kind(6), "dead 0000000");
}

#[test]
fn answers_with_changed_bytes_end_in_an_answer_or_a_reason() {
    let seconds = std::env::var("TIDEGATE_LIFT_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let slot = copying();
    let mut operator = instance(&slot);
    // SplitMix64: the same changes in each run.
    let mut state = 0x6c69_6674_u64;
    let mut next = |below: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    };
    let words = [
        0,
        1,
        2,
        7,
        80,
        4095,
        4096,
        65_536,
        1 << 20,
        1 << 22,
        1 << 31,
        u32::MAX,
    ];
    let (mut answered, mut refused) = (0u64, 0u64);
    while until.map_or(answered + refused < 2000, |until| Instant::now() < until) {
        let mut bytes = answer(next(7) as u8);
        for _ in 0..=next(4) {
            let at = match next(3) {
                0 => next(16),
                1 => next(256),
                _ => next(bytes.len() - 4),
            };
            match next(3) {
                0 => bytes[at] = next(256) as u8,
                1 => word(&mut bytes, at & !3, words[next(words.len())]),
                _ => word(&mut bytes, at & !3, ANSWER + next(1024) as u32),
            }
        }
        match &run(&mut *operator, &batch(&bytes))[0] {
            Came::Outcome(_) => answered += 1,
            Came::Poison(cause) => {
                let reason = &cause.reason;
                let known = reason.starts_with("bad answer: ")
                    || reason.starts_with("output: ")
                    || reason.starts_with("operator error ");
                assert!(known && reason.len() < 5000, "{reason}");
                refused += 1;
            }
        }
    }
    assert!(
        answered > 0 && refused > 0,
        "{answered} answered, {refused} refused"
    );
}
