//! A broker that is killed and comes back.

use std::time::Duration;

use super::scene::{Delivery, Ended, OwnBroker, Plan, Program, Scene, that_counts};
use tidegate_tests::full;

fn killed() -> Ended {
    let mut broker = OwnBroker::start();
    // With names: one that asks twice to join, since the answer was lost, is taken for one that was taken over.
    let mut scene = Scene::begin(Plan {
        brokers: broker.address.clone(),
        ..Plan::new("broker", Program::Operator)
    });
    scene.under_way();
    for _ in 0..if full() { 12 } else { 2 } {
        let pause = 500 + scene.random.below(2000);
        scene.wait(Duration::from_millis(pause));
        broker.kill();
        let pause = scene.random.below(3000);
        scene.wait(Duration::from_millis(pause));
        broker.start_again();
    }
    scene.end()
}

#[test]
fn the_broker_is_killed_and_comes_back_and_every_record_has_one_output() {
    that_counts(|| {
        let ended = killed();
        ended.kept(Delivery::ExactlyOnce);
        ended
    });
}
