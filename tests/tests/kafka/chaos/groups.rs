//! Members of the group that stand still, are started anew one after the other, and come and go.

use std::time::Duration;

use super::scene::{Delivery, Ended, Plan, Program, Scene, TAKEN_OVER, that_counts};

#[test]
fn a_process_that_stood_still_past_its_session_writes_nothing_beside_its_successor() {
    that_counts(|| {
        // Long transactions, so that it stands still in the middle of one, but for now and then.
        let mut scene = Scene::begin(Plan {
            cut_interval: "1s",
            ..Plan::new("zombie", Program::Operator)
        });
        scene.under_way();
        let mut next = scene.random.below(3) as usize;
        while !scene.all_sent() {
            let pause = 500 + scene.random.below(1000);
            scene.wait(Duration::from_millis(pause));
            scene.process(next).signal("STOP");
            scene.wait(TAKEN_OVER);
            scene.process(next).signal("CONT");
            next = (next + 1) % 3;
        }
        let ended = scene.end();
        ended.kept(Delivery::ExactlyOnce);
        ended
    });
}

#[test]
fn processes_that_are_started_anew_one_after_the_other_neither_lose_nor_repeat() {
    that_counts(|| {
        let mut scene = Scene::begin(Plan::new("rolling", Program::Operator));
        scene.under_way();
        while !scene.all_sent() {
            for member in 0..3 {
                let pause = 200 + scene.random.below(800);
                scene.wait(Duration::from_millis(pause));
                scene.leave(member);
                scene.start(member);
            }
            // Who ends in order leaves nothing to be taken back: now and then one does not.
            let pause = 200 + scene.random.below(800);
            scene.wait(Duration::from_millis(pause));
            let member = scene.random.below(3) as usize;
            scene.kill_in_a_transaction(member);
            scene.start(member);
        }
        let ended = scene.end();
        ended.kept(Delivery::ExactlyOnce);
        ended
    });
}

/// Two members stay; a third one joins and leaves every 2 s.
pub(super) fn joining(name: &'static str, program: Program) -> Ended {
    // All records at once: every partition is paused, over and over, because the model is slow.
    let mut plan = Plan::new(name, program);
    plan.records = if tidegate_tests::full() { 20_000 } else { 3000 };
    plan.during = Duration::from_millis(500);
    plan.processes = 2;
    plan.named = false;
    let records = plan.records;
    let mut scene = Scene::begin(plan);
    scene.under_way();
    scene.join();
    while scene.outputs() < records * 9 / 10 {
        scene.wait(Duration::from_secs(2));
        scene.leave(2);
        scene.wait(Duration::from_secs(2));
        scene.start(2);
    }
    scene.end()
}

#[test]
fn members_join_and_leave_every_two_seconds_behind_a_slow_model() {
    that_counts(|| {
        let ended = joining("joining", Program::Mock { at_once: 32 });
        ended.kept(Delivery::ExactlyOnce).answers_are_whole();
        // Members whose partitions stay go on: little of what they do comes to nothing.
        let (aborted, outputs) = (ended.findings.aborted, ended.committed.len());
        assert!(
            aborted <= outputs,
            "more was taken back than was written: {}",
            ended.said
        );
        ended
    });
}
