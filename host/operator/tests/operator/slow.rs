//! Operators that are slower than their deadline allows for a whole batch: they lose time, and no records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::Processed;
use tidegate_operator::{Breaker, ComponentSlot, Ending, Level, Limits, Listener, SlotOptions};

use crate::support::*;

/// Turns of a loop that a record takes; a few milliseconds.
const TURNS: u64 = 5_000_000;

fn slot_of(mode: &str, limits: Limits) -> ComponentSlot {
    slot_with(mode, TURNS, limits)
}

fn slot_with(mode: &str, turns: u64, limits: Limits) -> ComponentSlot {
    let options = SlotOptions {
        config: format!("{{\"mode\": {mode:?}, \"turns\": {turns}}}"),
        limits,
        breaker: Breaker {
            // It loses instances while the host looks for how many records it may be given, and none of them counts.
            lost_instances: Some(0),
            failed_records: None,
            window: Duration::from_secs(3600),
        },
        ..options(mode)
    };
    ComponentSlot::new(&ENGINE, options, &guest("hostile"), "hostile").unwrap()
}

/// A deadline that a hundred records meet on this machine and 256 cannot.
fn deadline() -> Duration {
    takes(TURNS) * 100
}

/// How long one record takes on this machine.
fn takes(turns: u64) -> Duration {
    let mut operator = instance(&slot_with("slow", turns, patient()));
    let one = batch_of(["v"]);
    let times = (0..10).map(|_| {
        let began = Instant::now();
        run(&mut *operator, &one);
        began.elapsed()
    });
    times.min().unwrap()
}

#[test]
fn an_operator_a_little_too_slow_loses_no_record() {
    let limits = Limits {
        deadline: deadline(),
        ..patient()
    };
    let slot = slot_of("slow", limits.clone());
    let mut operator = instance(&slot);
    let batch = batch_of(["v"; 256]);
    assert!(poisoned(&run(&mut *operator, &batch)).is_empty());
    let lost = slot.stats().instances_lost;
    assert!(lost >= 1, "256 records cannot be answered at once");
    assert!(poisoned(&run(&mut *operator, &batch)).is_empty());
    assert!(poisoned(&run(&mut *operator, &batch_of(["v"; 88]))).is_empty());
    assert_eq!((slot.stats().poisoned, slot.tripped()), (0, None));

    // The same where the time to look for poison is over at once.
    let slot = slot_of(
        "slow",
        Limits {
            bisect: Duration::from_millis(1),
            ..limits
        },
    );
    assert!(poisoned(&run(&mut *instance(&slot), &batch)).is_empty());
}

#[test]
fn an_instance_that_is_slow_when_it_begins_loses_no_record() {
    // It takes as long as 21 for its first record, and much less than the deadline also where others are at work.
    let turns = TURNS / 4;
    let limits = Limits {
        deadline: takes(turns) * 400,
        ..patient()
    };
    let slot = slot_with("cold", turns, limits);
    let mut operator = instance(&slot);
    for _ in 0..2 {
        assert!(poisoned(&run(&mut *operator, &batch_of(["v"; 1024]))).is_empty());
    }
    assert!(slot.stats().instances_lost >= 1);
}

#[test]
fn a_slow_operator_lets_its_worker_go_in_the_middle_of_a_batch() {
    let limits = Limits {
        deadline: deadline(),
        ..patient()
    };
    let slot = slot_of("slow", limits);
    let mut operator = instance(&slot);
    // It keeps to calls that it answers in time.
    let batch = batch_of(["v"; 512]);
    assert!(poisoned(&run(&mut *operator, &batch)).is_empty());
    // A machine that is busy elsewhere may cost it an instance in one batch, and not in each of ten.
    let spared = (0..10).any(|_| {
        let lost = slot.stats().instances_lost;
        let processed = operator.process(&batch).unwrap();
        let Some(Processed::Untried { first, count }) = processed.last() else {
            panic!("all of the batch at once: {} answers", processed.len());
        };
        assert!(*first > 0 && first + count == batch.len());
        slot.stats().instances_lost == lost
    });
    assert!(spared, "every batch costs it an instance");
}

#[test]
fn what_runs_beside_ends_when_it_is_told_to_and_at_its_time_whatever_its_deadline_is() {
    let limits = Limits {
        deadline: Duration::from_secs(3600),
        init_deadline: Duration::from_secs(3600),
        ..patient()
    };
    let slot = slot_of("loop", limits);
    let listener = Arc::new(Nobody);
    let later = Instant::now() + Duration::from_secs(3600);
    let soon = Instant::now() + Duration::from_secs(1);
    for (until, told) in [(later, true), (soon, false)] {
        let ending = Arc::new(Ending::at(until));
        let beside = slot.beside(listener.clone(), ending.clone()).unwrap();
        let mut operator = instance(&beside);
        std::thread::scope(|scope| {
            let call = scope.spawn(|| run(&mut *operator, &batch_with_bad(1, &[0])));
            if told {
                ending.end();
            }
            let came = call.join().unwrap();
            let reason = &came[0].poison().unwrap().reason;
            assert_eq!(reason, "deadline: what it was run for has ended");
        });
        // Nothing begins after it, the start of an instance neither.
        assert!(slot.beside(listener.clone(), ending).is_err());
    }
}

#[derive(Debug)]
struct Nobody;

impl Listener for Nobody {
    fn line(&self, _: Level, _: &str) {}
}
