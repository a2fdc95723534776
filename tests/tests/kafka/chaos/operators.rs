//! Operators that are swapped without a pause, and outputs that the broker refuses.

use std::time::{Duration, Instant};

use tidegate_control::DeployRequest;
use tidegate_control::client::{Client, ClientError};
use tidegate_tests::operator;

use super::scene::{Delivery, Plan, Program, Scene};

/// A component that does the same under another digest: a custom section is added to it.
fn variant(number: u8) -> Vec<u8> {
    let mut bytes = std::fs::read(operator("redact-pii")).unwrap();
    bytes.extend([0, 3, 1, b'v', number]);
    bytes
}

#[test]
fn an_operator_that_is_swapped_every_50_ms_neither_loses_nor_repeats() {
    let mut scene = Scene::begin(Plan::new("swaps", Program::Operator));
    scene.under_way();
    let variants = [variant(1), variant(2)];
    let mut swaps = vec![0; scene.members.len()];
    let mut killed = Instant::now();
    // On a busy machine a swap takes longer than it should: a few of each, whatever they take.
    while !scene.all_sent() || swaps.iter().any(|swaps| *swaps < 2) {
        let began = Instant::now();
        let member = scene.random.below(swaps.len() as u64) as usize;
        let deployment = DeployRequest {
            component: Some(variants[swaps[member] % 2].clone()),
            config: None,
            label: String::new(),
        };
        let client = Client::find(&scene.members[member].workspace.path("state"));
        match client.and_then(|client| client.deploy("redact", &deployment)) {
            Ok(_) => swaps[member] += 1,
            // It is starting, for the first time or again.
            Err(ClientError::NotRunning { .. } | ClientError::Stale { .. }) => {}
            Err(ClientError::Unreachable { why, .. }) if why.contains("starting or ending") => {}
            Err(error) => panic!("swap {} of process {member}: {error}", swaps[member]),
        }
        // And a process is killed now and then, and comes back with what was deployed.
        if killed.elapsed() > Duration::from_secs(3) {
            let member = scene.random.below(swaps.len() as u64) as usize;
            scene.kill_in_a_transaction(member);
            scene.start(member);
            killed = Instant::now();
        }
        scene.wait(Duration::from_millis(50).saturating_sub(began.elapsed()));
    }
    println!("swaps by process: {swaps:?}");
    scene.end().kept(Delivery::ExactlyOnce).counts();
}

#[test]
fn an_output_that_the_broker_refuses_every_thousand_records_costs_that_record_alone() {
    let mut scene = Scene::begin(Plan {
        poison: Some(1000),
        ..Plan::new("poison", Program::Operator)
    });
    scene.under_way();
    // And a process is killed now and then.
    while !scene.all_sent() {
        let pause = 2000 + scene.random.below(2000);
        scene.wait(Duration::from_millis(pause));
        scene.kill_one();
    }
    scene.end().kept(Delivery::ExactlyOnce).counts();
}
