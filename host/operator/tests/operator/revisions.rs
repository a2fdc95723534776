//! What is known of a revision, and what becomes of one that fails too often.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_contract::{OperatorError, Slot};
use tidegate_operator::{Breaker, Change, ComponentSlot, OUTCOMES, SlotOptions, Value};

use crate::support::*;

fn breaker(lost_instances: Option<u64>, failed_records: Option<u64>) -> Breaker {
    Breaker {
        lost_instances,
        failed_records,
        window: Duration::from_secs(3600),
    }
}

fn slot_with(mode: &str, breaker: Breaker) -> ComponentSlot {
    let options = SlotOptions {
        breaker,
        ..options(mode)
    };
    ComponentSlot::new(&ENGINE, options, &guest("hostile"), "hostile").unwrap()
}

#[test]
fn a_revision_counts_its_outcomes_its_losses_its_time_and_its_memory() {
    let slot = hostile("outcomes");
    let mut operator = instance(&slot);
    run(&mut *operator, &batch_of(["v"; 14]));
    let [report] = &slot.revisions()[..] else {
        panic!("one revision");
    };
    assert!(report.runs && report.tripped.is_none());
    assert_eq!(report.version, slot.version());
    assert_eq!(report.stats.outcomes, [2; OUTCOMES.len()]);
    assert_eq!((report.stats.records(), report.stats.failed), (14, 0));
    assert!(report.stats.guest_time > Duration::ZERO);
    // One instance is warm for the first task.
    assert_eq!(report.stats.instances, 1);
    assert!(report.stats.memory >= 1 << 16, "{}", report.stats.memory);
    let bytes = guest("hostile");
    slot.deploy_with(&bytes, "h", "{\"mode\": \"trap\"}")
        .unwrap();
    let mut operator = instance(&slot);
    run(&mut *operator, &batch_with_bad(8, &[1]));
    let revisions = slot.revisions();
    assert_eq!(revisions.len(), 2);
    let (old, new) = (&revisions[0], &revisions[1]);
    assert!(!old.runs && new.runs);
    assert_eq!((old.stats.records(), new.stats.records()), (14, 8));
    assert_eq!((old.stats.lost_instances, new.stats.failed), (0, 1));
    assert!(new.stats.lost_instances > 0);
    // The first once more: it counts on, and what there was before is not lost however many follow.
    slot.deploy_with(&bytes, "h", "{\"mode\": \"outcomes\"}")
        .unwrap();
    run(&mut *instance(&slot), &batch_of(["v"; 7]));
    let revisions = slot.revisions();
    assert_eq!(revisions.len(), 2);
    assert_eq!(revisions[1].stats.records(), 21);
    for turns in 0..12 {
        let config = format!("{{\"mode\": \"pass\", \"turns\": {turns}}}");
        slot.deploy_with(&bytes, "h", &config).unwrap();
        run(&mut *instance(&slot), &batch_of(["v"]));
    }
    assert!(slot.revisions().len() <= 8);
    assert_eq!(slot.totals().records(), 14 + 8 + 7 + 12);
}

#[test]
fn what_a_revision_measured_is_kept_by_its_own_digest_however_often_it_is_deployed() {
    let slot = hostile("every");
    let bytes = guest("hostile");
    let other = |turns: usize| format!("{{\"mode\": \"every\", \"turns\": {turns}}}");
    let measure = || run(&mut *instance(&slot), &batch_of(["v"; 12]));
    let seen = || -> Vec<(String, u64)> {
        let sums = slot.metrics().into_iter().map(|revision| {
            let (_, series) = &revision.metrics[0];
            let sum = match series.values().next() {
                Some(Value::Sum(sum)) => *sum,
                _ => 0,
            };
            (revision.version.revision.digest.clone(), sum)
        });
        sums.collect()
    };
    measure();
    let (first, one) = seen().swap_remove(0);
    assert!(one > 0);
    // Another configuration of the same component, a third, and the first again.
    for turns in 0..2 {
        slot.deploy_with(&bytes, "h", &other(turns)).unwrap();
        measure();
    }
    slot.deploy_with(&bytes, "h", &slot.configured()).unwrap();
    measure();
    let known = seen();
    let sums: Vec<u64> = known.iter().map(|(_, sum)| *sum).collect();
    assert_eq!(known[0].0, first);
    assert_eq!(sums, [2 * one, one, one]);
    for turns in 2..14 {
        slot.deploy_with(&bytes, "h", &other(turns)).unwrap();
    }
    let mut digests: Vec<String> = seen().into_iter().map(|(digest, _)| digest).collect();
    assert!(digests.len() <= 8, "{}", digests.len());
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), seen().len());
}

#[test]
fn a_revision_that_loses_too_many_instances_is_asked_no_more_and_its_records_wait() {
    let slot = slot_with("pass", breaker(Some(3), None));
    let first = slot.version();
    slot.deploy_with(&guest("hostile"), "new", "{\"mode\": \"trap\"}")
        .unwrap();
    let (mut one, mut other) = (instance(&slot), instance(&slot));
    let bad = batch_with_bad(1, &[0]);
    for _ in 0..3 {
        assert_eq!(poisoned(&run(&mut *one, &bad)), [0]);
    }
    assert_eq!(slot.tripped(), None);
    // The loss that is one too many costs its record nothing: it waits for whatever runs next. So do those of others.
    run(&mut *one, &batch_of(["good"]));
    let _ = one.process(&bad);
    let why = "4 instances were lost within 3600s, limit 3";
    assert_eq!(slot.tripped().as_deref(), Some(why));
    for operator in [&mut one, &mut other] {
        assert!(!operator.is_started());
        let error = operator.process(&batch_of(["good"])).unwrap_err();
        assert!(matches!(error, OperatorError::Tripped { .. }), "{error}");
        assert_eq!(error.to_string(), format!("new is run no more: {why}"));
    }
    slot.rollback().unwrap();
    assert_eq!((slot.tripped(), slot.version()), (None, first));
    assert_eq!(run(&mut *instance(&slot), &bad).len(), 1);
    // Forth again only by a deployment.
    let error = slot.rollback().unwrap_err().to_string();
    assert!(error.contains("has failed too often"), "{error}");
    let revisions = slot.revisions();
    let tripped = revisions.iter().find(|report| report.tripped.is_some());
    assert_eq!(tripped.unwrap().tripped.as_deref(), Some(why));
}

#[test]
fn records_that_fail_count_for_the_breaker_and_trials_do_not() {
    let slot = slot_with("trap", breaker(None, Some(2)));
    let mut operator = instance(&slot);
    let came = run(&mut *operator, &batch_with_bad(4, &[0, 2]));
    assert_eq!((poisoned(&came), slot.tripped()), (vec![0, 2], None));
    assert_eq!(
        poisoned(&run(&mut *operator, &batch_with_bad(1, &[0]))),
        [0]
    );
    let why = "3 records failed within 3600s, limit 2";
    assert_eq!(slot.tripped().as_deref(), Some(why));
    // Nothing of it is remembered by the same revision when it is deployed again.
    slot.deploy(&guest("hostile"), "again").unwrap();
    assert_eq!(slot.tripped(), None);
    assert_eq!(run(&mut *instance(&slot), &batch_of(["good"])).len(), 1);
}

#[test]
fn what_a_revision_counts_never_falls_while_it_is_reported() {
    let (slot, bytes) = (hostile("pass"), guest("hostile"));
    let mut seen = BTreeMap::new();
    for turn in 0..30_u32 {
        // Every seventh is the first once more, when its part is about to be the oldest.
        let turns = if turn.is_multiple_of(7) { 0 } else { turn };
        let config = format!("{{\"mode\": \"pass\", \"turns\": {turns}}}");
        slot.deploy_with(&bytes, "h", &config).unwrap();
        run(&mut *instance(&slot), &batch_of(["v"]));
        let mut now = BTreeMap::new();
        for report in slot.revisions() {
            let digest = report.version.revision.digest.clone();
            let counted = (report.since, report.stats.records());
            if let Some(before) = seen.get(&digest) {
                let (since, records) = *before;
                assert!(since == counted.0 && records <= counted.1, "turn {turn}");
            }
            now.insert(digest, counted);
        }
        assert!(now.len() <= 8);
        seen = now;
    }
    assert_eq!(slot.totals().records(), 30);
}

#[test]
fn a_deployment_that_is_undone_is_never_fallen_back_to() {
    let slot = slot_with("pass", breaker(Some(0), None));
    let (first, bytes) = (slot.version(), guest("hostile"));
    slot.deploy_with(&bytes, "second", "{\"mode\": \"trap\"}")
        .unwrap();
    let second = slot.version();
    run(&mut *instance(&slot), &batch_of(["good"]));
    let change = Change {
        component: Some(&bytes),
        label: "third",
        config: Some("{\"mode\": \"outcomes\"}"),
    };
    let deployed = slot.deploy_within(&change, patient().deadline).unwrap();
    assert_eq!(slot.digests().len(), 3, "what it may go back to is held");
    run(&mut *instance(&slot), &batch_of(["v"; 7]));
    let undone = slot.undo(&deployed).unwrap();
    assert_eq!((undone.generation, &undone.new), (4, &second));
    assert!(slot.undo(&deployed).is_err() && slot.undo(&undone).is_err());
    // What it did while it ran is counted, and once.
    let revisions = slot.revisions();
    let records: Vec<u64> = revisions.iter().map(|it| it.stats.records()).collect();
    assert_eq!((records, slot.totals().records()), (vec![7, 0, 1], 8));
    let _ = instance(&slot).process(&batch_with_bad(1, &[0]));
    assert!(slot.tripped().is_some());
    assert_eq!(slot.rollback().unwrap().new, first);
    // One that is done is the way back, and cannot be undone any more.
    let deployed = slot.deploy_within(&change, patient().deadline).unwrap();
    slot.finish(&deployed);
    assert!(slot.undo(&deployed).is_err());
    assert_eq!(slot.rollback().unwrap().new, first);
}

#[test]
fn the_search_for_a_record_counts_as_one_lost_instance_however_many_it_takes() {
    let slot = slot_with("trap", breaker(Some(3), None));
    let mut operator = instance(&slot);
    let came = run(&mut *operator, &batch_with_bad(64, &[9, 40]));
    assert_eq!((poisoned(&came), slot.tripped()), (vec![9, 40], None));
    assert!(slot.stats().instances_lost > 3);
    let came = run(&mut *operator, &batch_with_bad(64, &[63]));
    assert_eq!((poisoned(&came), slot.tripped()), (vec![63], None));
    let _ = operator.process(&batch_with_bad(64, &[0]));
    let why = "4 instances were lost within 3600s, limit 3";
    assert_eq!(slot.tripped().as_deref(), Some(why));
}
