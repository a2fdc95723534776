//! Steps that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_contract::{DecodeError, ModelError};

use super::guesses::ahead;
use super::*;
use crate::blocks::Blocks;
use crate::sequence::Sequence;

fn no() -> DecodeError {
    DecodeError::Device {
        reason: "no".into(),
    }
}

/// The prompt of the step that has this byte in it.
fn has(step: &[StepSequence], letter: u8) -> Option<usize> {
    step.iter()
        .position(|sequence| sequence.position == 0 && sequence.tokens.contains(&byte(letter)))
}

#[test]
fn a_step_that_is_refused_for_one_costs_only_that_one() {
    let mut bench = Bench::new(shape(8, 64, 128), limits());
    bench.control.refuse(|step| {
        has(step, b'%').map(|sequence| DecodeError::Refused {
            sequence,
            what: "token",
            value: "37".into(),
            limit: "something else".into(),
        })
    });
    let asks: Vec<Ask> = ["one", "tw%o", "three"].map(|c| ask(c, 9)).into();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.run();
    let reason = "sequence 1 of the step: token is 37, must be something else";
    assert_eq!(pending[1].error(), ModelError::Device(reason.into()));
    check(&asks[0], &pending[0], 128, &hashed);
    check(&asks[2], &pending[2], 128, &hashed);
    assert_eq!(bench.stats().failed_steps, 1);
}

#[test]
fn a_step_that_fails_without_a_name_is_halved_until_the_culprit_is_alone() {
    let mut bench = Bench::new(shape(8, 256, 128), limits());
    bench.control.refuse(|step| has(step, b'%').map(|_| no()));
    let asks: Vec<Ask> = (0..8)
        .map(|n| ask(if n == 5 { "b%d" } else { "good" }, 9))
        .collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.run();
    let reason = "device refused the step: no";
    assert_eq!(pending[5].error(), ModelError::Device(reason.into()));
    for place in (0..8).filter(|place| *place != 5) {
        check(&asks[place], &pending[place], 128, &hashed);
    }
    assert_eq!(bench.stats().failed, 1);
}

#[test]
fn a_failed_step_with_guesses_of_a_draft_model_changes_no_answer() {
    let (draft, control) = Fake::alone(shape(8, 64, 128), Arc::new(local));
    let ahead = Limits {
        look_ahead: 4,
        ..limits()
    };
    let mut bench = Bench::with(shape(8, 64, 128), ahead, Arc::new(local), Some(draft));
    let steps = AtomicU64::new(0);
    bench
        .control
        .refuse(move |_| (steps.fetch_add(1, Ordering::SeqCst) % 4 == 3).then(no));
    let asks: Vec<Ask> = ["one", "two", "three"].map(|c| ask(c, 40)).into();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &local);
    }
    let stats = bench.stats();
    assert!(stats.failed_steps > 2 && stats.accepted > 10, "{stats:?}");
    control.is_sound();
}

#[test]
fn who_lost_its_device_goes_on_where_it_was_and_the_second_time_fails() {
    let mut bench = Bench::new(shape(2, 64, 128), limits());
    let long = ask("long", 30);
    let pending = bench.submit(&long);
    for _ in 0..9 {
        bench.step();
    }
    bench.lose("reset");
    for _ in 0..3 {
        bench.step();
    }
    bench.lose("reset again");
    assert_eq!(pending.error(), ModelError::Device("reset again".into()));
    let stats = bench.stats();
    assert_eq!((stats.retried, stats.failed), (1, 1));
}

#[test]
fn who_was_in_company_is_tried_more_often_but_not_for_ever() {
    let mut bench = Bench::new(shape(2, 64, 128), limits());
    let asks = [ask("one", 60), ask("two", 60)];
    let pending = asks.each_ref().map(|ask| bench.submit(ask));
    for _ in 0..3 {
        // Each alone, and both together again.
        for _ in 0..6 {
            bench.step();
        }
        bench.lose("reset");
    }
    assert!(pending.iter().all(|pending| !pending.has_ended()));
    for _ in 0..6 {
        bench.step();
    }
    bench.lose("reset again");
    for pending in &pending {
        assert_eq!(pending.error(), ModelError::Device("reset again".into()));
    }
}

#[test]
fn an_answer_over_a_lost_device_is_the_same() {
    let mut dice = Dice(41);
    let asks: Vec<Ask> = (0..6).map(|_| dice.ask(30, 30)).collect();
    for at in [1, 5, 20] {
        let mut bench = Bench::new(shape(6, 64, 96), limits());
        let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
        for _ in 0..at {
            bench.step();
        }
        bench.lose("reset");
        bench.run();
        for (ask, pending) in asks.iter().zip(&pending) {
            check(ask, pending, 96, &hashed);
        }
    }
}

#[test]
fn logits_that_are_no_numbers_fail_only_their_request() {
    let logits = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        if history.contains(&byte(b'!')) && history.len() > prompt("!").len() + 1 {
            logits.fill(f32::NAN);
        }
    };
    let mut bench = Bench::with(shape(2, 8, 64), limits(), Arc::new(logits), None);
    let broken = bench.submit(&ask("!", 20));
    let sound = bench.submit(&ask("?", 20));
    bench.run();
    assert_eq!(
        broken.error(),
        ModelError::Device("no logit of token 2 is a number".into())
    );
    check(&ask("?", 20), &sound, 64, &hashed);
}

#[test]
fn after_a_panic_blocks_are_not_relied_on_and_who_lost_an_answer_fails() {
    let mut bench = Bench::new(shape(4, 64, 128), limits());
    let asks = ["one", "two"].map(|content| ask(content, 9));
    let pending = asks.each_ref().map(|ask| bench.submit(ask));
    let mut both = ask("both", 9);
    both.parameters.n = 2;
    let lost = bench.submit(&both);
    for _ in 0..4 {
        bench.step();
    }
    // Whatever is in a table is not to be found, and an answer was out when it panicked.
    let generator = &mut bench.generator;
    generator.blocks = Blocks::new(0);
    let second = generator.running.iter().position(|one| one.choice == 1);
    drop(generator.running.remove(second.unwrap()));
    assert_eq!(bench.begin_anew(), (2, 1));
    assert_eq!(lost.error(), ModelError::Closed);
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &hashed);
    }
}

/// Panics in a step while these answers have guesses, at this place in one that comes after them.
fn panics_with_guesses(asks: &[Ask], at: &str) -> (Bench, Vec<Pending>, Pending) {
    let mut bench = Bench::with(shape(16, 256, 128), ahead(8), Arc::new(local), None);
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    let mut poison = guesses::structured();
    poison.parameters.stop = vec![panics(at)];
    let poison = bench.submit(&poison);
    let step = |bench: &mut Bench| catch_unwind(AssertUnwindSafe(|| bench.step().is_some()));
    while step(&mut bench).is_ok_and(|stepped| stepped) {}
    let guessed = |one: &&Sequence| !one.guesses().0.is_empty();
    let with_guesses = bench.generator.running.iter().filter(guessed).count();
    assert!(
        with_guesses > 2,
        "{with_guesses} of those that were planned before it"
    );
    (bench, pending, poison)
}

#[test]
fn guesses_of_a_step_that_a_panic_ended_change_no_answer() {
    let asks = guesses::asks();
    let asks = &asks[asks.len() - 7..];
    let (mut bench, pending, poison) = panics_with_guesses(asks, "guess");
    let (_, failed) = bench.begin_anew();
    assert_eq!(failed, 0);
    bench.generator.cancel(poison.id);
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &local);
    }
}

#[test]
fn who_cannot_be_taken_back_to_before_its_guesses_fails_after_a_panic() {
    let mut asks = vec![guesses::structured(); 6];
    asks[2].parameters.stop = vec![panics("forget")];
    let (mut bench, pending, poison) = panics_with_guesses(&asks, "guess");
    assert_eq!(bench.begin_anew(), (6, 1));
    bench.generator.cancel(poison.id);
    bench.run();
    for (place, (ask, pending)) in asks.iter().zip(&pending).enumerate() {
        match place {
            2 => assert_eq!(pending.error(), ModelError::Closed),
            _ => check(ask, pending, 128, &local),
        }
    }
}

#[test]
fn who_panics_in_the_middle_of_a_guess_fails_and_the_others_go_on() {
    let asks = vec![guesses::structured(); 6];
    let (mut bench, pending, poison) = panics_with_guesses(&asks, "matcher");
    assert_eq!(bench.begin_anew(), (6, 1));
    assert_eq!(poison.error(), ModelError::Closed);
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &local);
    }
}
