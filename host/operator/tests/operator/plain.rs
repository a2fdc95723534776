//! The plain world, by an operator that is made with nothing but a WIT generator (`tests/guests/plain`): it is given what
//! the packed world is given, and its answers are worth the same.

use tidegate_contract::{OperatorError, Processed, Slot};
use tidegate_operator::{ComponentSlot, Limits, SlotOptions};
use tidegate_record::{Batch, BatchBuilder, Fields, NewRecord, Origin, OutcomesView, RecordId};

use crate::support::*;

/// What both guests answer, made by the host's own encoder.
#[path = "../../../../tests/guests/hostile/src/every.rs"]
mod every;

fn plain(mode: &str) -> ComponentSlot {
    plain_within(mode, patient())
}

fn plain_within(mode: &str, limits: Limits) -> ComponentSlot {
    let options = SlotOptions {
        limits,
        ..options(mode)
    };
    ComponentSlot::new(&ENGINE, options, &guest("plain"), "plain").unwrap()
}

/// Records with everything that a record can have, and with nothing.
fn everything() -> Batch {
    let mut builder = BatchBuilder::default();
    for offset in 0..24 {
        let id = RecordId {
            origin: if offset == 5 {
                Origin::Timer
            } else {
                Origin::Source
            },
            source: 3,
            partition: 7,
            offset,
            emit: offset << 40,
        };
        let full = NewRecord {
            id,
            event_time: Some(-1),
            key: Some(b""),
            value: Some("värde".as_bytes()),
            headers: &[("h", Some(b"1")), ("h", None), ("gone", Some(b""))],
            attributes: &[("", Some(b"\x00\xff"))],
        };
        let empty = NewRecord {
            id,
            ..NewRecord::default()
        };
        let record = if offset % 2 == 0 { full } else { empty };
        builder.push(&record).unwrap();
    }
    builder.finish(1_700_000_000_123_456)
}

/// The answer to a batch in one call, as it leaves the room.
fn answer(slot: &ComponentSlot, batch: &Batch) -> Vec<u8> {
    let mut done = instance(slot).process(batch).unwrap();
    match done.pop() {
        Some(Processed::Answer { outcomes, .. }) if done.is_empty() => outcomes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn outcomes_of_the_plain_world_are_those_of_the_packed_one_to_the_byte() {
    let batch = everything();
    let expected = every::every(&batch.view());
    assert!(answer(&hostile("every"), &batch) == expected, "packed");
    assert!(answer(&plain("every"), &batch) == expected, "plain");
}

#[test]
fn what_a_plain_operator_measures_counts_as_in_the_packed_world() {
    let measured = |slot: ComponentSlot| {
        let batch = everything();
        assert_eq!(run(&mut *instance(&slot), &batch).len(), batch.len());
        let metrics = slot.metrics().swap_remove(0).metrics;
        let values = metrics
            .into_iter()
            .map(|(metric, values)| (metric.name, values));
        values.collect::<Vec<_>>()
    };
    let plain = measured(plain("every"));
    assert_eq!(plain, measured(hostile("every")));
    let (name, values) = &plain[0];
    // Of each twelve two come again, and do not count.
    let expected = tidegate_operator::Value::Sum(2 * 20);
    assert_eq!(
        (name.as_str(), values.values().next()),
        ("seen", Some(&expected))
    );
}

/// What a guest that dead-letters each record as text was given.
fn given(slot: &ComponentSlot, batch: &Batch) -> Vec<String> {
    let answer = answer(slot, batch);
    let view = OutcomesView::parse(&answer, batch.len(), 2).unwrap();
    let text = |outcome| match outcome {
        tidegate_record::Outcome::DeadLetter { reason } => reason.to_owned(),
        other => panic!("{other:?}"),
    };
    view.iter().map(text).collect()
}

#[test]
fn a_record_is_the_same_in_both_worlds() {
    let batch = everything();
    let (packed, plain) = (
        given(&hostile("echo"), &batch),
        given(&plain("echo"), &batch),
    );
    assert_eq!(packed, plain);
    assert_eq!(packed.len(), batch.len());
    let golden = "((0, 3, 7, 2, 2199023255552), Some(-1), Some([]), Some([118, 195, 164, 114, 100, 101]), \
        [(\"h\", Some([49])), (\"h\", None), (\"gone\", Some([]))], [(\"\", Some([0, 255]))], (1700000000123456, ";
    assert!(packed[2].starts_with(golden), "{}", packed[2]);
    let golden = "((1, 3, 7, 5, 5497558138880), None, None, None, [], [], (1700000000123456, (";
    assert!(packed[5].starts_with(golden), "{}", packed[5]);
    // The seed is the slot's own, and the same for each batch. The rest is what the host has.
    let parts = |text: &str| {
        let (record, seed) = text.rsplit_once(", (").unwrap();
        (record.to_owned(), seed.to_owned())
    };
    for (record, text) in batch.view().records().zip(&packed) {
        let (record, seed) = (every::rendered(&batch.view(), &record), parts(text).1);
        assert_eq!(parts(text).0, parts(&record).0);
        assert!(
            seed == parts(&packed[0]).1 && seed != parts(&record).1,
            "{seed}"
        );
    }
}

#[test]
fn what_a_plain_operator_does_not_read_is_not_there() {
    let slot = plain("keys");
    assert_eq!(slot.version().reads, Fields::KEY);
    let (packed, plain) = (
        given(&hostile("keys"), &everything()),
        given(&slot, &everything()),
    );
    assert_eq!(packed, plain);
    let golden = "((0, 3, 7, 0, 0), Some(-1), Some([]), None, [], [], (";
    assert!(plain[0].starts_with(golden), "{}", plain[0]);
}

/// The record whose value is `bad`, and no other, ends with this reason.
#[track_caller]
fn refused(mode: &str, reason: &str) {
    let slot = plain(mode);
    let mut operator = instance(&slot);
    let came = run(&mut *operator, &batch_with_bad(8, &[5]));
    assert_eq!(poisoned(&came), [5], "{came:?}");
    assert_eq!(
        came[5].poison().unwrap().reason,
        format!("bad answer: {reason}")
    );
    assert!(slot.stats().instances_lost > 0, "a lie costs the instance");
    assert!(poisoned(&run(&mut *operator, &batch_with_bad(8, &[]))).is_empty());
}

#[test]
fn outcomes_of_the_plain_world_that_cannot_be_are_refused_with_record_and_reason() {
    refused(
        "output",
        "outcome of record 0: it goes to the output \"nowhere\", which the operator does not describe (record 0/0/5)",
    );
    refused(
        "piece",
        "outcome of record 0: it goes to the output \"Side\", which the operator does not describe (record 0/0/5)",
    );
    refused(
        "pieces",
        "outcome of record 0 is malformed at byte 41: a split into more than 4095 pieces (record 0/0/5)",
    );
    refused("count", "answer has 2 outcomes for 1 records");
    refused(
        "changes",
        "outcome of record 0: it makes 65536 changes to headers, limit 65535 (record 0/0/5)",
    );
    let came = run(&mut *instance(&plain("name")), &batch_with_bad(2, &[1]));
    let reason = &came[1].poison().unwrap().reason;
    let start = "bad answer: outcome of record 0: a header or attribute has a name of 65536 bytes, limit 65535: \"nnn";
    assert!(reason.starts_with(start) && reason.len() < 1000, "{reason}");
}

#[test]
fn samples_of_the_plain_world_that_cannot_be_are_refused_with_record_and_reason() {
    refused(
        "record",
        "sample 0 is of record 1000, which is not in the batch",
    );
    refused(
        "metric",
        "sample 0 is of metric 3, the operator describes 3 (record 0/0/5)",
    );
    refused(
        "labels",
        "sample 0 has 2 labels, level has 1 (record 0/0/5)",
    );
    refused(
        "label",
        "sample 0 has a label of 65536 bytes, limit 256 (record 0/0/5)",
    );
    let whole = "to a counter, which takes whole numbers from 0 to 2^53 (record 0/0/5)";
    refused("fraction", &format!("sample 0 adds 1.5 {whole}"));
    refused("negative", &format!("sample 0 adds -1 {whole}"));
    refused(
        "nan",
        "sample 0 of took is not a finite number (record 0/0/5)",
    );
    refused(
        "many",
        "sample 256 is one too many of its record, limit 256 (record 0/0/5)",
    );
}

#[test]
fn a_plain_answer_over_the_cap_is_refused() {
    let came = run(&mut *instance(&plain("long")), &batch_with_bad(4, &[2]));
    assert_eq!(poisoned(&came), [2]);
    let reason = &came[2].poison().unwrap().reason;
    assert_eq!(reason, "output: the answer exceeds the limit of 16 MiB");
}

#[test]
fn a_failure_of_a_plain_operator_has_its_class() {
    let slot = plain("permanent");
    let came = run(&mut *instance(&slot), &batch_with_bad(8, &[5]));
    assert_eq!(poisoned(&came), [5]);
    let reason = &came[5].poison().unwrap().reason;
    assert_eq!(reason, "operator error plain: this batch is not for me");
    assert_eq!(slot.stats().instances_lost, 0, "words cost no instance");
    for (mode, class) in [
        ("transient", "transient"),
        ("bad-configuration", "bad configuration"),
    ] {
        let slot = plain(mode);
        let error = instance(&slot)
            .process(&batch_with_bad(8, &[5]))
            .unwrap_err();
        assert!(matches!(error, OperatorError::Failed { .. }), "{error}");
        let text = error.to_string();
        let expected = format!("operator error plain ({class}): this batch is not for me");
        assert!(text.contains(&expected), "{text}");
        assert_eq!(slot.stats().instances_lost, 0);
    }
}

#[test]
fn a_plain_operator_that_refuses_its_configuration_does_not_start() {
    for (mode, why) in [
        (
            "undescribed",
            "describe: operator error plain (bad configuration): no such mode",
        ),
        ("uninitialised", "init: operator error plain: not today"),
    ] {
        let error = ComponentSlot::new(&ENGINE, options(mode), &guest("plain"), "a").unwrap_err();
        assert_eq!(error.to_string(), format!("a does not start: {why}"));
    }
}

#[test]
fn a_plain_operator_imports_nothing_and_its_traps_have_a_backtrace() {
    let slot = plain("trap");
    assert_eq!(slot.imports(), Vec::<String>::new());
    let came = run(&mut *instance(&slot), &batch_with_bad(32, &[19]));
    assert_eq!(poisoned(&came), [19]);
    let cause = came[19].poison().unwrap();
    assert!(
        cause.reason.starts_with("trap: ") && cause.backtrace.is_some(),
        "{cause:?}"
    );
}

#[test]
fn the_bindings_of_the_plain_guest_are_those_of_the_wit_package() {
    let wit = include_str!("../../../../wit/tidegate.wit");
    let sum = wit.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let stated = include_str!("../../../../tests/guests/plain/src/bindings.rs")
        .lines()
        .find_map(|line| line.strip_prefix("// wit: "));
    assert_eq!(
        stated,
        Some(format!("{sum:016x}").as_str()),
        "run cargo run --manifest-path plugin-sdk/rust/bindgen/Cargo.toml"
    );
}
