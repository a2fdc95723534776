//! A guest that uses its standard library finds an inert world.

use tidegate_operator::{ComponentSlot, SlotOptions};
use tidegate_record::Batch;

use crate::support::*;

const INERT: &[u8] = include_bytes!("../fixtures/inert.wasm");

fn look(slot: &ComponentSlot, batch: &Batch) -> serde_json::Value {
    let came = run(&mut *instance(slot), batch);
    let Came::Outcome(text) = &came[0] else {
        panic!("{came:?}");
    };
    serde_json::from_str(text.strip_prefix("dead ").unwrap()).unwrap()
}

fn inert(name: &str) -> ComponentSlot {
    ComponentSlot::new(&ENGINE, SlotOptions::new(name), INERT, "inert.wasm").unwrap()
}

#[test]
fn a_guest_that_looks_around_sees_nothing() {
    let slot = inert("looks-around");
    assert!(
        slot.imports()
            .iter()
            .any(|import| import.starts_with("wasi:sockets/"))
    );
    let mut seen = look(&slot, &batch_of(["v"]));
    let random = seen["random"].take();
    assert!(random.is_u64());
    assert_eq!(
        seen,
        serde_json::json!({
            "environment": {},
            "arguments": [],
            // It has slept an hour, which took no time.
            "clock": 1_700_003_600_123_456u64,
            "slept": 3600,
            "random": null,
            "stdin": {"Ok": 0},
            "root": false,
            "file": false,
            "written": false,
            "connected": false,
            "bound": false,
        })
    );
    assert_eq!(slot.stats().instances_lost, 0);
}

#[test]
fn its_lines_go_to_the_log() {
    let slot = inert("prints");
    let mut operator = instance(&slot);
    run(&mut *operator, &batch_of(["v"; 3]));
    drop(operator);
    let stats = slot.stats();
    // Three whole lines, and what stderr began, once it is done.
    assert_eq!((stats.lines, stats.lines_suppressed), (4, 0));
}

#[test]
fn randomness_is_that_of_the_batch() {
    let slot = inert("draws");
    let random = |slot: &ComponentSlot| look(slot, &batch_of(["v"]))["random"].clone();
    assert_eq!(
        random(&slot),
        random(&slot),
        "the same in every fresh instance"
    );
    assert_ne!(
        random(&slot),
        random(&inert("draws-otherwise")),
        "another in another slot"
    );
}

#[test]
fn an_exit_costs_the_instance_like_a_trap() {
    let slot = inert("exits");
    let mut operator = instance(&slot);
    let came = run(&mut *operator, &batch_of(["a", "b", "exit", "c"]));
    assert_eq!(poisoned(&came), [2]);
    let reason = &came[2].poison().unwrap().reason;
    assert!(
        reason.contains("exit: the operator ended itself with code "),
        "{reason}"
    );
    assert_eq!(run(&mut *operator, &batch_of(["v"])).len(), 1);
}
