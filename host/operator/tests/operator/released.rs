//! Operators of every contract that was released, as they were built for it: they run as they did. Where the components
//! of 0.1.0 named the home directory they were built in, it is written over.

use tidegate_contract::Slot;
use tidegate_operator::{ComponentSlot, SlotOptions};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};

use crate::support::*;

/// The shipped `drop-abuse` of 0.1.0.
const DROP_ABUSE: &[u8] = include_bytes!("../fixtures/released/0.1.0/drop-abuse.wasm");

fn hostile_of_old(mode: &str) -> ComponentSlot {
    ComponentSlot::new(&ENGINE, options(mode), HOSTILE_OF_OLD, "hostile").unwrap()
}

#[test]
fn an_operator_of_0_1_0_answers_as_it_did() {
    let came = run(
        &mut *instance(&hostile_of_old("outcomes")),
        &batch_of(["v"; 7]),
    );
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
    let came = run(&mut *instance(&hostile_of_old("config")), &batch_of(["v"]));
    assert_eq!(came, [Came::Outcome("dead {\"mode\": \"config\"}".into())]);
    let came = run(&mut *instance(&hostile_of_old("clock")), &batch_of(["v"]));
    assert_eq!(came, [Came::Outcome("dead 1700000000123456".into())]);
    let came = run(&mut *instance(&hostile_of_old("present")), &batch_of(["v"]));
    assert_eq!(came, [Came::Outcome("dead 15".into())]);
    let came = run(
        &mut *instance(&hostile_of_old("error")),
        &batch_with_bad(9, &[4]),
    );
    assert_eq!(poisoned(&came), [4]);
    assert_eq!(came[4].poison().unwrap().reason, "operator error: I refuse");
}

#[test]
fn a_shipped_operator_of_0_1_0_does_its_work_and_gives_way_to_another() {
    let options = SlotOptions {
        config: "{\"words\": [\"darn\"]}".into(),
        ..options("old")
    };
    let slot = ComponentSlot::new(&ENGINE, options, DROP_ABUSE, "drop-abuse").unwrap();
    assert_eq!(slot.version().name, "drop-abuse");
    let texts = ["good morning", "darn it", "and good night"];
    let came = run(&mut *instance(&slot), &batch_of(texts));
    let outcomes: Vec<bool> = came
        .iter()
        .map(|came| matches!(came, Came::Outcome(outcome) if outcome == "pass"))
        .collect();
    assert_eq!(outcomes, [true, false, true], "{came:?}");
    let new = guest("hostile");
    slot.deploy_with(&new, "hostile", "{\"mode\": \"outcomes\"}")
        .unwrap();
    let came = run(&mut *instance(&slot), &batch_of(["v"; 2]));
    assert_eq!(came[1], Came::Outcome("drop".into()));
}

#[test]
fn an_operator_of_0_1_0_is_given_pieces_of_pieces_of_pieces() {
    let mut builder = BatchBuilder::default();
    builder
        .push(&NewRecord {
            id: RecordId {
                emit: u64::MAX - 4,
                ..RecordId::default()
            },
            ..NewRecord::default()
        })
        .unwrap();
    let came = run(&mut *instance(&hostile_of_old("pass")), &builder.finish(0));
    assert_eq!(came, [Came::Outcome("pass".into())]);
}

#[test]
fn a_counter_with_a_name_of_megabytes_costs_the_host_nothing() {
    let slot = hostile_of_old("name");
    let came = run(&mut *instance(&slot), &batch_of(["v"; 3]));
    assert!(poisoned(&came).is_empty(), "{came:?}");
    assert_eq!(
        counted(&slot).into_iter().collect::<Vec<_>>(),
        [("counted".to_owned(), 3)]
    );
}

#[test]
fn what_a_failed_call_has_counted_does_not_count() {
    let slot = hostile_of_old("count");
    let came = run(&mut *instance(&slot), &batch_with_bad(100, &[42]));
    assert_eq!(poisoned(&came), [42]);
    assert_eq!(
        counted(&slot).into_iter().collect::<Vec<_>>(),
        [("seen".to_owned(), 99)]
    );
}

/// Guests of 1.0.0 that answer alike: of the packed world and of the plain one.
const OF_1_0_0: [&[u8]; 2] = [
    include_bytes!("../fixtures/released/1.0.0/hostile.wasm"),
    include_bytes!("../fixtures/released/1.0.0/plain.wasm"),
];

#[test]
fn operators_of_1_0_0_answer_as_they_did_in_both_worlds() {
    for bytes in OF_1_0_0 {
        let slot = ComponentSlot::new(&ENGINE, options("every"), bytes, "every").unwrap();
        let came = run(&mut *instance(&slot), &batch_of(["v"; 14]));
        let first: Vec<&str> = came
            .iter()
            .take(3)
            .map(|came| match came {
                Came::Outcome(outcome) => outcome.as_str(),
                Came::Poison(cause) => cause.reason.as_str(),
            })
            .collect();
        assert_eq!(first, ["pass", "drop", "replace "]);
        assert!(poisoned(&came).is_empty(), "{came:?}");
        assert!(counted(&slot)["seen"] > 0, "samples count");
    }
}

#[test]
fn the_shipped_operator_of_1_0_0_does_its_work() {
    const DROP_ABUSE: &[u8] = include_bytes!("../fixtures/released/1.0.0/drop-abuse.wasm");
    let options = SlotOptions {
        config: "{\"words\": [\"darn\"]}".into(),
        ..options("new")
    };
    let slot = ComponentSlot::new(&ENGINE, options, DROP_ABUSE, "drop-abuse").unwrap();
    let came = run(
        &mut *instance(&slot),
        &batch_of(["good morning", "darn it"]),
    );
    assert_eq!(came[0], Came::Outcome("pass".into()));
    assert_ne!(came[1], Came::Outcome("pass".into()));
}
