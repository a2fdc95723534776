//! Processes that are killed at random instants, with an operator and with a model.

use std::collections::BTreeMap;
use std::time::Duration;

use super::scene::{Delivery, Ended, Plan, Program, Scene, that_counts};
use tidegate_tests::mock::{self, Call};

/// Requests that one process has with its model at most.
pub(super) const AT_ONCE: usize = 128;

/// A process is killed every 0.7 to 2.5 s, and started again. The first kill leaves something to be taken back or, at
/// least once, to be done again.
pub(super) fn killed(plan: Plan) -> Ended {
    let delivery = plan.delivery;
    let mut scene = Scene::begin(plan);
    scene.under_way();
    match delivery {
        Delivery::ExactlyOnce => {
            scene.kill_in_a_transaction(0);
            scene.start(0);
        }
        Delivery::AtLeastOnce => scene.kill_all_before_a_cut(),
    }
    while !scene.all_sent() {
        let pause = 700 + scene.random.below(1801);
        scene.wait(Duration::from_millis(pause));
        scene.kill_one();
    }
    scene.end()
}

#[test]
fn killed_at_random_every_record_has_one_output_in_the_order_of_its_key() {
    let ended = killed(Plan::new("kills", Program::Operator));
    ended.kept(Delivery::ExactlyOnce).counts();
}

#[test]
fn killed_at_random_at_least_once_loses_nothing_and_keeps_the_order_of_keys() {
    // One in which something is done again: what the stronger promise adds.
    that_counts(|| {
        let ended = killed(Plan {
            delivery: Delivery::AtLeastOnce,
            cut_interval: "250ms",
            ..Plan::new("kills-at-least-once", Program::Operator)
        });
        ended.kept(Delivery::AtLeastOnce);
        ended
    });
}

#[test]
fn killed_with_answers_in_flight_no_model_is_asked_twice_for_what_it_has_answered() {
    let ended = killed(Plan::new("kills-model", Program::Mock { at_once: AT_ONCE }));
    ended
        .kept(Delivery::ExactlyOnce)
        .answers_are_whole()
        .counts();
    let resumed = asked_once(&ended);
    assert!(resumed > 0, "no answer was resumed");
}

#[test]
fn cuts_that_come_to_nothing_ask_no_model_again() {
    // Each output that the broker refuses takes a cut back, with all that is in flight.
    let mut scene = Scene::begin(Plan {
        poison: Some(250),
        // In which several of them come.
        cut_interval: "250ms",
        // Nobody is killed: who is slow, because the machine is, stays in the group.
        session: Duration::from_secs(60),
        ..Plan::new("aborts-model", Program::Mock { at_once: AT_ONCE })
    });
    scene.under_way();
    let ended = scene.end();
    ended
        .kept(Delivery::ExactlyOnce)
        .answers_are_whole()
        .counts();
    asked_once(&ended);
}

/// Models were asked at most 1.05 times as often as was needed, and once more for what was in flight at a kill. Returns
/// how many answers were gone on with.
fn asked_once(ended: &Ended) -> usize {
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for call in &ended.calls {
        *calls.entry(&call.prompt).or_default() += 1;
    }
    let needed = calls.len();
    let resumed = ended.calls.iter().filter(|call| !call.forced.is_empty());
    let resumed = resumed.count();
    let whole = |call: &&Call| call.forced.len() == mock::TOKENS;
    let figures = format!(
        "{} calls for {needed} records, {resumed} resumed, {} of them whole, most for one record {}",
        ended.calls.len(),
        ended.calls.iter().filter(whole).count(),
        calls.values().max().unwrap_or(&0),
    );
    println!("{figures}");
    let most = needed * 105 / 100 + ended.kills * AT_ONCE;
    assert!(
        ended.calls.len() <= most,
        "asked again: at most {most}: {figures}"
    );
    resumed
}
