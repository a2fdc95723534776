//! A draft model that fails, and comes back.

use tidegate_contract::{DecodeError, ModelError};

use super::guesses::{ahead, asks};
use super::*;

fn no() -> DecodeError {
    DecodeError::Device {
        reason: "no".into(),
    }
}

fn lost() -> DecodeError {
    DecodeError::DeviceLost {
        reason: "reset".into(),
    }
}

/// A draft that thinks alike, with blocks enough.
fn draft() -> (Box<dyn Decoder>, Control) {
    Fake::alone(shape(8, 128, 128), Arc::new(local))
}

fn bench(draft: Box<dyn Decoder>) -> Bench {
    Bench::with(shape(8, 128, 128), ahead(4), Arc::new(local), Some(draft))
}

/// Counts the draft's steps, and fails those that `fails` names, counted from 0.
fn fail(
    control: &Control,
    error: fn() -> DecodeError,
    fails: impl Fn(u64) -> bool + Send + 'static,
) {
    let steps = AtomicU64::new(0);
    control.refuse(move |_| fails(steps.fetch_add(1, Ordering::SeqCst)).then(error));
}

/// Runs to the end; the loader's answer comes a step after it was asked.
fn run(bench: &mut Bench, load: &mut dyn FnMut() -> Result<Box<DraftModel>, String>) {
    while bench.step().is_some() {
        if let Some(vocabulary) = bench.generator.misses_draft() {
            assert_eq!(vocabulary, VOCABULARY);
            bench.generator.draft_is_asked_for();
            assert_eq!(bench.generator.misses_draft(), None, "it is asked for once");
            bench.step();
            bench.generator.draft_loaded(Some(load()));
        }
    }
    assert!(!bench.generator.has_work());
    assert_eq!(bench.generator.blocks.held(), 0);
}

fn submit_all(bench: &mut Bench, asks: &[Ask]) -> Vec<Pending> {
    asks.iter().map(|ask| bench.submit(ask)).collect()
}

fn check_all(asks: &[Ask], pending: &[Pending]) {
    for (ask, pending) in asks.iter().zip(pending) {
        check(ask, pending, 128, &local);
    }
}

#[test]
fn a_draft_that_failed_is_asked_again_after_a_rest() {
    let asks = [asks(), asks()].concat();
    let (decoder, control) = draft();
    fail(&control, no, |step| step == 4);
    let mut bench = bench(decoder);
    let pending = submit_all(&mut bench, &asks);
    while bench.stats().draft_failures == 0 {
        bench.step();
    }
    // At rest it is left alone; then it guesses again.
    let steps = control.steps();
    for _ in 0..60 {
        bench.step();
        assert_eq!(control.steps(), steps);
    }
    let accepted = bench.stats().accepted;
    run(&mut bench, &mut || unreachable!("it can be used again"));
    check_all(&asks, &pending);
    let stats = bench.stats();
    assert!(control.steps() > steps + 20 && stats.accepted > accepted + 100);
    assert_eq!((stats.draft_failures, stats.draft_reloads), (1, 0));
    assert_eq!((stats.failed, stats.failed_steps), (0, 0));
    control.is_sound();
}

#[test]
fn a_draft_that_is_lost_is_loaded_again() {
    let asks = [asks(), asks()].concat();
    let (decoder, control) = draft();
    fail(&control, lost, |step| step == 4);
    let mut bench = bench(decoder);
    let pending = submit_all(&mut bench, &asks);
    let mut again = None;
    run(&mut bench, &mut || {
        let (decoder, control) = draft();
        again = Some(control);
        Ok(Box::new(DraftModel::new(decoder)))
    });
    check_all(&asks, &pending);
    let stats = bench.stats();
    assert_eq!((stats.draft_failures, stats.draft_reloads), (1, 1));
    let again = again.unwrap();
    assert!(again.steps() > 20);
    again.is_sound();
}

#[test]
fn a_draft_that_always_fails_is_left_out_in_the_end() {
    for error in [no, lost] {
        let mut asks: Vec<Ask> = (0..40).map(|n| ask(&format!("endless {n}"), 100)).collect();
        asks.iter_mut().for_each(|ask| ask.parameters.n = 2);
        let limits = Limits {
            sequences: 1,
            ..ahead(2)
        };
        let failing = || {
            let (decoder, control) = draft();
            fail(&control, error, |_| true);
            decoder
        };
        let mut bench = Bench::with(shape(8, 128, 128), limits, Arc::new(local), Some(failing()));
        let pending = submit_all(&mut bench, &asks);
        run(&mut bench, &mut || Ok(Box::new(DraftModel::new(failing()))));
        check_all(&asks, &pending);
        let stats = bench.stats();
        // Rests of 64, 128, 256, 512 and 1024 steps, and no sixth.
        assert!(stats.steps > 3000, "{stats:?}");
        assert_eq!((stats.draft_failures, stats.failed), (6, 0));
    }
}

#[test]
fn a_draft_that_cannot_be_loaded_again_is_left_out_in_the_end() {
    let asks: Vec<Ask> = (0..50).map(|n| ask(&format!("endless {n}"), 100)).collect();
    let limits = Limits {
        sequences: 1,
        ..ahead(0)
    };
    let (decoder, _control) = draft();
    let mut bench = Bench::with(shape(8, 128, 128), limits, Arc::new(local), Some(decoder));
    // It goes with the device, and cannot be loaded with its model.
    let first = bench.submit(&asks[0]);
    bench.lose("reset");
    let (decoder, _control) = Fake::alone(shape(8, 128, 128), Arc::new(local));
    assert!(bench.generator.restored(decoder.as_ref(), None));
    let mut pending = vec![first];
    pending.extend(submit_all(&mut bench, &asks[1..]));
    let mut tries = 0;
    run(&mut bench, &mut || {
        tries += 1;
        Err("no memory".into())
    });
    check_all(&asks, &pending);
    assert_eq!((tries, bench.stats().draft_reloads), (5, 0));
}

#[test]
fn a_draft_that_takes_the_device_along_fails_no_request() {
    let asks = [ask("alone", 120)];
    let (decoder, control) = draft();
    fail(&control, lost, |step| step == 3);
    let mut bench = bench(decoder);
    let pending = submit_all(&mut bench, &asks);
    let mut losses = 0;
    for _ in 0..200 {
        let failures = bench.stats().draft_failures;
        let Some(plan) = bench.generator.plan(bench.now) else {
            break;
        };
        if bench.stats().draft_failures > failures {
            // The model's own step finds the device gone too.
            losses += 1;
            assert_eq!(bench.generator.failed(&plan, &lost()), Verdict::Reload);
            bench.generator.lost(&plan, None, "reset");
            let (decoder, control) = draft();
            fail(&control, lost, |_| true);
            let again = Some(Box::new(DraftModel::new(decoder)));
            assert!(bench.generator.restored(bench.decoder.as_ref(), again));
            continue;
        }
        let mut sampled = Vec::new();
        bench.decoder.step(&plan.step, &mut sampled).unwrap();
        let took = Duration::from_millis(2);
        bench
            .generator
            .deliver(&plan, &sampled, bench.now, took)
            .unwrap();
        bench.generator.hand_on();
    }
    // Alone in its step a request goes on after one loss of its own making; here it is not to blame.
    assert_eq!(losses, 2);
    check_all(&asks, &pending);
    assert_eq!(bench.stats().retried, 2);
    // Its own faults count as ever.
    let mine = bench.submit(&asks[0]);
    bench.lose("reset");
    bench.lose("reset again");
    assert_eq!(mine.error(), ModelError::Device("reset again".into()));
}

#[test]
fn whatever_a_draft_does_answers_are_the_same_and_nothing_leaks() {
    let mut dice = Dice(77);
    let asks: Vec<Ask> = (0..120).map(|_| dice.ask(40, 60)).collect();
    let draft = |turn: u64| {
        let (decoder, control) = Fake::alone(shape(2, 24, 128), Arc::new(local));
        let error = if turn.is_multiple_of(2) { lost } else { no };
        fail(&control, error, move |step| step % 300 == 150 + turn);
        decoder
    };
    let mut bench = bench(draft(0));
    let pending = submit_all(&mut bench, &asks);
    let mut turn = 0;
    run(&mut bench, &mut || {
        turn += 1;
        match turn {
            2 => Err("not now".into()),
            _ => Ok(Box::new(DraftModel::new(draft(turn)))),
        }
    });
    check_all(&asks, &pending);
    let stats = bench.stats();
    assert!(
        stats.draft_failures >= 2 && stats.draft_reloads >= 1,
        "{stats:?}"
    );
}
