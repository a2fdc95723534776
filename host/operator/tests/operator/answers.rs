//! What well-behaved operators answer, and what they are given.

use std::sync::Arc;

use tidegate_contract::Slot;
use tidegate_operator::{ComponentSlot, SlotOptions};
use tidegate_record::{Batch, BatchBuilder, Fields};

use crate::support::*;

#[test]
fn every_kind_of_outcome_arrives() {
    let slot = hostile("outcomes");
    let came = run(&mut *instance(&slot), &batch_of(["v"; 7]));
    let expected = [
        "pass",
        "drop",
        "replace changed",
        "split 0:changed 2:changed",
        "route 1:changed",
        "retry 250 later",
        "dead not for me",
    ];
    let expected: Vec<Came> = expected.map(|text| Came::Outcome(text.into())).into();
    assert_eq!(came, expected);
    assert_eq!(slot.stats().instances_lost, 0);
}

#[test]
fn an_empty_batch_is_answered_without_a_call() {
    let slot = slot("pass", PASS);
    let empty = BatchBuilder::default().finish(0);
    assert!(instance(&slot).process(&empty).unwrap().is_empty());
}

#[test]
fn the_committed_binary_is_the_text_beside_it() {
    let text = include_str!("../fixtures/released/0.1.0/pass.wat");
    assert!(
        wat::parse_str(text).unwrap() == PASS,
        "write fixtures/released/0.1.0/pass.wasm again"
    );
}

#[test]
fn a_version_says_what_it_is() {
    let version = slot("pass", PASS).version();
    assert_eq!(
        (version.name.as_str(), version.version.as_str()),
        ("pass", "1.0.0")
    );
    assert!(version.digest.starts_with("sha256:") && version.digest.len() == 71);
    assert_eq!(version.reads, Fields::KEY.and(Fields::VALUE));
    assert!(version.outputs.is_empty());
}

#[test]
fn the_configuration_and_the_clock_reach_the_guest() {
    let came = run(&mut *instance(&hostile("config")), &batch_of(["v"]));
    assert_eq!(came, [Came::Outcome("dead {\"mode\": \"config\"}".into())]);
    let came = run(&mut *instance(&hostile("clock")), &batch_of(["v"]));
    assert_eq!(came, [Came::Outcome("dead 1700000000123456".into())]);
}

#[test]
fn large_batches_go_through_and_memory_is_used_again() {
    let slot = slot("pass", PASS);
    let mut operator = instance(&slot);
    let value = "x".repeat(100_000);
    let large = batch_of(std::iter::repeat_n(value.as_str(), 100));
    for _ in 0..20 {
        assert!(poisoned(&run(&mut *operator, &large)).is_empty());
    }
    assert_eq!(slot.stats().instances_lost, 0);
}

/// Reads only the key and dead-letters each record with what it was given, in the bits of [`Fields`].
fn keys_only() -> Vec<u8> {
    let text = include_str!("../fixtures/released/0.1.0/pass.wat")
        // One field instead of two in `reads`.
        .replace("\\70\\00\\00\\00\\02", "\\70\\00\\00\\00\\01")
        // The answer's action codes: `drop` for a record whose value was copied in.
        .replace(
            "(global.set $free (i32.const 4096))\n      (i32.store8 (i32.const 192) (i32.const 0))\n      (i32.store (i32.const 196)",
            "(if (i32.and (i32.load16_u offset=30 (i32.add (local.get $batch)
                  (i32.load offset=12 (local.get $batch)))) (i32.const 2))
               (then (i32.store8 offset=16 (local.get $at) (i32.const 1))))
             (global.set $free (i32.const 4096))
             (i32.store8 (i32.const 192) (i32.const 0))
             (i32.store (i32.const 196)",
        );
    wat::parse_str(text).unwrap()
}

#[test]
fn what_an_operator_does_not_read_is_never_there() {
    let slot = slot("keys", &keys_only());
    assert_eq!(slot.version().reads, Fields::KEY);
    let first = |batch: &Batch| run(&mut *instance(&slot), batch)[0..1].to_vec_text();
    let long = "x".repeat(10_000);
    assert_eq!(
        first(&batch_of([long.as_str(); 64])),
        ["pass"],
        "the value was left out"
    );
    assert_eq!(first(&batch_of(["x"; 64])), ["pass"], "a short one as well");
    assert_eq!(first(&batch_of(["x"])), ["pass"], "and a single one");
}

trait Texts {
    fn to_vec_text(&self) -> Vec<String>;
}

impl Texts for [Came] {
    fn to_vec_text(&self) -> Vec<String> {
        self.iter()
            .map(|came| match came {
                Came::Outcome(text) => text.clone(),
                Came::Poison(cause) => cause.reason.clone(),
            })
            .collect()
    }
}

#[test]
fn four_threads_share_a_slot() {
    let options = SlotOptions {
        tasks: 4,
        ..SlotOptions::new("shared")
    };
    let slot = Arc::new(ComponentSlot::new(&ENGINE, options, PASS, "pass").unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let slot = Arc::clone(&slot);
            std::thread::spawn(move || {
                let (generation, mut operator) = slot.instance().unwrap();
                for records in 1..200 {
                    let batch = batch_of(std::iter::repeat_n("v", records));
                    assert_eq!(run(&mut *operator, &batch).len(), records);
                }
                generation
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 1);
    }
}
