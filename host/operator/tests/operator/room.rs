//! What instances take, and that none takes what another needs.

use tidegate_contract::{Operator, OperatorError, Slot};
use tidegate_operator::{ComponentSlot, Engine, EngineOptions, SlotOptions};

use crate::support::*;

fn pass_with(text: &str) -> Vec<u8> {
    let pass = include_str!("../fixtures/released/0.1.0/pass.wat");
    wat::parse_str(pass.replacen("(component", &format!("(component {text}"), 1)).unwrap()
}

/// Core instances of a module, within an operator.
fn instances_of(module: &str, count: usize) -> Vec<u8> {
    let instances = "(core instance (instantiate $more))".repeat(count);
    pass_with(&format!("(core module $more {module}) {instances}"))
}

#[test]
fn a_component_that_takes_too_much_is_refused_before_it_is_instantiated_with_value_and_limit() {
    let slot = slot("s", PASS);
    let memories = |count| instances_of("(memory 0)", count);
    for (bytes, why) in [
        (memories(30), "makes 31 memories, limit 16"),
        (instances_of("", 300), "makes 301 core instances, limit 256"),
        (instances_of("(table 0 funcref)", 255), ""),
        (
            instances_of("(table 0 funcref) (table 0 funcref)", 200),
            "makes 400 tables, limit 256",
        ),
    ] {
        match slot.deploy(&bytes, "new.wasm") {
            Ok(_) => assert_eq!(why, ""),
            Err(error) => {
                assert!(matches!(error, OperatorError::TooLarge { .. }), "{error}");
                assert_eq!(
                    error.to_string(),
                    format!("new.wasm is too large: an instance of it {why}")
                );
            }
        }
    }
    assert_eq!(run(&mut *instance(&slot), &batch_of(["a"])).len(), 1);
}

#[test]
fn a_component_of_many_instances_as_interpreters_make_runs() {
    let bytes = instances_of("(func) (global (mut i32) (i32.const 0))", 64);
    let slot = slot("interpreter", &bytes);
    assert_eq!(run(&mut *instance(&slot), &batch_of(["a", "b"])).len(), 2);
}

#[test]
fn more_tasks_than_were_expected_have_their_instances() {
    let engine = Engine::new(EngineOptions {
        instances: 8,
        ..EngineOptions::default()
    })
    .unwrap();
    let slot = ComponentSlot::new(&engine, SlotOptions::new("s"), PASS, "pass").unwrap();
    let mut tasks: Vec<_> = (0..320).map(|_| instance(&slot)).collect();
    for task in &mut tasks {
        assert_eq!(run(&mut **task, &batch_of(["a"])).len(), 1);
    }
    // A deployment beside them takes none of their places.
    let deployed = slot.deploy(&pass_with("(core module)"), "next").unwrap();
    assert_eq!(deployed.generation, 2);
    for task in &mut tasks {
        assert_eq!(run(&mut **task, &batch_of(["a"])).len(), 1);
    }
}

#[test]
fn what_one_slot_takes_does_not_keep_another_from_starting_again() {
    let greedy = slot("greedy", &instances_of("(memory 0)", 15));
    let held: Vec<_> = (0..64).map(|_| instance(&greedy)).collect();
    let hostile = hostile("trap");
    let mut task = instance(&hostile);
    for _ in 0..8 {
        let came = run(&mut *task, &batch_with_bad(4, &[2]));
        assert_eq!(poisoned(&came), [2]);
    }
    drop(held);
}

#[test]
fn tasks_that_run_are_those_an_instance_is_made_ahead_for() {
    let slot = slot("s", PASS);
    let held: Vec<Box<dyn Operator>> = (0..5).map(|_| instance(&slot)).collect();
    slot.deploy(&pass_with("(core module)"), "next").unwrap();
    // Each finds its instance made; whether it is from before the switch shows in its version alone.
    for task in held {
        let (generation, next) = slot.instance().unwrap();
        assert_eq!(generation, 2);
        assert_ne!(next.version().digest, task.version().digest);
    }
}

#[test]
fn a_rollback_gives_the_version_that_instances_from_before_still_have() {
    let slot = slot("s", PASS);
    let task = instance(&slot);
    slot.deploy(&pass_with("(core module)"), "next").unwrap();
    assert!(!std::sync::Arc::ptr_eq(task.version(), &slot.version()));
    slot.rollback().unwrap();
    assert!(std::sync::Arc::ptr_eq(task.version(), &slot.version()));
}

#[test]
fn records_wait_for_memory_that_other_operators_have() {
    let engine = Engine::new(EngineOptions {
        memory: 8 << 20,
        ..EngineOptions::default()
    })
    .unwrap();
    // It needs another MiB for every batch.
    let count = "(local.set $count (i32.load offset=8 (local.get $batch)))";
    let more = "(if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (unreachable)))";
    let pass = include_str!("../fixtures/released/0.1.0/pass.wat");
    assert!(pass.contains(count));
    let grows = wat::parse_str(pass.replace(count, &format!("{count} {more}"))).unwrap();
    let slot_of = |name, bytes: &[u8]| {
        ComponentSlot::new(&engine, SlotOptions::new(name), bytes, name).unwrap()
    };
    let slot = slot_of("grows", &grows);
    let mut task = instance(&slot);
    let neighbour = slot_of("neighbour", &instances_of("(memory 88)", 1));
    let batch = batch_of(["a", "b", "c", "d"]);
    for _ in 0..3 {
        let error = task.process(&batch).unwrap_err();
        assert!(matches!(error, OperatorError::Failed { .. }), "{error}");
        let why = "memory of all operators: needed 8.6 MiB, limit 8 MiB (operators.memory)";
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(slot.stats().poisoned, 0);
    drop(neighbour);
    assert!(poisoned(&run(&mut *task, &batch)).is_empty());

    // What does not fit with the operator alone is its own fault.
    let endless = more.replace("i32.const 16", "i32.const 256");
    let grows = wat::parse_str(pass.replace(count, &format!("{count} {endless}"))).unwrap();
    let slot = slot_of("endless", &grows);
    assert_eq!(poisoned(&run(&mut *instance(&slot), &batch_of(["a"]))), [0]);
}
