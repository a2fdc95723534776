//! Least slack first, by what steps were measured to take.

use super::deadlines::warm;
use super::*;
use crate::remaining::Remaining;

#[test]
fn a_long_answer_with_little_slack_goes_before_short_ones_with_nearer_deadlines() {
    let limits = Limits {
        sequences: 2,
        ..limits()
    };
    let mut bench = Bench::with(shape(2, 64, 128), limits, Arc::new(local), None);
    warm(&mut bench);
    let begin = bench.now;
    let within = |milliseconds| Some(begin + Duration::from_millis(milliseconds));
    // Two at a time: the long one needs about 48 steps of 2.1 to 2.2 ms, each short one twelve. By the nearest deadline
    // the short ones would go first, and the long one begin after 26 ms and be late.
    let asks = [ask("short", 12), ask("brief", 12), ask("long", 48)];
    let pending = [
        bench.submit_until(&asks[0], within(100)),
        bench.submit_until(&asks[1], within(100)),
        bench.submit_until(&asks[2], within(115)),
    ];
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &local);
        assert_eq!(pending.tokens().len(), ask.parameters.max_tokens as usize);
    }
}

#[test]
fn while_nothing_is_measured_the_nearest_deadline_goes_first() {
    let limits = Limits {
        sequences: 1,
        ..limits()
    };
    let mut bench = Bench::with(shape(1, 64, 128), limits, Arc::new(local), None);
    let long = bench.submit_until(&ask("long", 60), Some(Duration::from_millis(5000)));
    let short = bench.submit_until(&ask("short", 1), Some(Duration::from_millis(4999)));
    bench.step();
    assert!(short.has_ended() && !long.has_ended());
}

#[test]
fn of_two_prompts_with_the_same_slack_the_one_that_was_begun_is_finished_first() {
    let limits = Limits {
        step_tokens: 16,
        ..limits()
    };
    let mut bench = Bench::new(shape(4, 64, 1024), limits);
    warm(&mut bench);
    let deadline = Some(bench.now + Duration::from_secs(5));
    let asks = [ask(&"first ".repeat(20), 1), ask(&"other ".repeat(20), 1)];
    let pending = asks.each_ref().map(|ask| bench.submit_until(ask, deadline));
    let first = prompt(&asks[0].content);
    let mut written = 0;
    while written < first.len() {
        let step = bench.step().unwrap();
        let own = &first[written..first.len().min(written + 16)];
        assert_eq!(step[0].tokens, own, "at {written}");
        written += own.len();
    }
    assert!(pending[0].has_ended() && !pending[1].has_ended());
    bench.run();
    check(&asks[1], &pending[1], 1024, &hashed);
}

#[test]
fn who_is_queued_again_needs_its_tokens_again_and_only_the_rest_of_its_answer() {
    let mut bench = Bench::with(shape(1, 64, 128), limits(), Arc::new(local), None);
    let asked = ask("asked", 40);
    let pending = bench.submit(&asked);
    let remaining = |bench: &Bench| {
        let sequence = bench.generator.waiting.values().next();
        sequence.map(|sequence| sequence.remaining)
    };
    let rows = prompt("asked").len();
    assert_eq!(remaining(&bench), Some(Remaining { rows, tokens: 40 }));
    for _ in 0..6 {
        bench.step();
    }
    bench.lose("reset");
    let (rows, tokens) = (rows + 6, 34);
    assert_eq!(remaining(&bench), Some(Remaining { rows, tokens }));
    bench.run();
    check(&asked, &pending, 128, &local);
}
