//! Who waits, who runs, and who goes.

use std::time::{Duration, Instant};

use tidegate_contract::{Model, ModelError, RequestId, StepSequence};

use super::support::*;
use crate::ModelOptions;

fn pass(deadline: Instant) {
    while Instant::now() <= deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_cancelled_at_any_step_makes_room() {
    let (engine, model, control) = held(shape(1, 4, 64), at_once(1));
    for steps in 0..8 {
        let cancelled = ask("0123456789", 30).of(&model);
        for _ in 0..steps {
            control.step();
        }
        control.entered();
        model.cancel(cancelled.id);
        let next = ask("next", 2);
        let pending = next.of(&model);
        control.then(Then::Run);
        assert_eq!(cancelled.error(), ModelError::Cancelled);
        // "next" is 7 tokens: two steps of its prompt, and one more token.
        for _ in 0..3 {
            control.step();
        }
        assert_eq!(pending.choice().tokens, alone(&next, 64).0);
    }
    control.is_sound();
    drop(engine);
}

#[test]
fn a_waiting_request_can_be_cancelled() {
    let (_engine, model, control) = held(shape(1, 4, 64), at_once(1));
    let running = ask("a", 1).of(&model);
    control.entered();
    let waiting = ask("b", 1).of(&model);
    model.cancel(waiting.id);
    model.cancel(RequestId(u64::MAX));
    control.then(Then::Run);
    assert!(running.wait().1.is_ok());
    assert_eq!(waiting.error(), ModelError::Cancelled);
    assert_eq!(model.stats().waiting, 0);
}

#[test]
fn a_deadline_ends_a_waiting_and_a_running_request() {
    let (_engine, model, control) = held(shape(1, 8, 64), at_once(1));
    let soon = Instant::now() + Duration::from_secs(5);
    let until = |content, max_tokens| Ask {
        deadline: Some(soon),
        ..ask(content, max_tokens)
    };
    let running = until("ab", 40).of(&model);
    control.step();
    control.step();
    control.entered();
    let waiting = until("cd", 4).of(&model);
    let patient = ask("ef", 1).of(&model);
    pass(soon);
    // Three steps, three tokens: what a step made is handed on even if the deadline passed meanwhile.
    control.then(Then::Run);
    assert_eq!(running.error(), ModelError::Expired { made: 3 });
    assert_eq!(running.tokens().len(), 3);
    assert_eq!(waiting.error(), ModelError::Expired { made: 0 });
    control.step();
    assert!(patient.wait().1.is_ok());
}

#[test]
fn a_deadline_is_kept_while_nothing_can_run() {
    let (_engine, model, control) = held(shape(1, 8, 64), at_once(1));
    control.fail_loads(1);
    let running = ask("a", 30).of(&model);
    control.entered();
    let soon = Ask {
        deadline: Some(Instant::now() + Duration::from_millis(50)),
        ..ask("b", 1)
    };
    let waiting = soon.of(&model);
    // The device is gone for at least two pauses of the loader.
    control.then(Then::Panic);
    assert_eq!(waiting.error(), ModelError::Expired { made: 0 });
    control.run_free();
    assert_eq!(running.choice().tokens, alone(&ask("a", 30), 64).0);
}

#[test]
fn a_full_queue_gives_the_request_back() {
    let options = ModelOptions {
        queue: 2,
        ..at_once(1)
    };
    let (_engine, model, control) = held(shape(1, 8, 64), options);
    let running = ask("a", 1).of(&model);
    control.entered();
    let waiting = [ask("b", 1).of(&model), ask("c", 1).of(&model)];
    let (request, refused) = ask("d", 1).request();
    let Err((request, error)) = model.submit(request) else {
        panic!("the queue takes three")
    };
    assert_eq!(error, ModelError::Full { limit: 2 });
    assert!(!refused.has_ended(), "a refused request is not answered");
    assert_eq!((model.stats().refused, model.stats().waiting), (1, 2));
    control.then(Then::Run);
    running.answer();
    control.entered();
    // "b" runs, one place is free.
    assert!(model.submit(request).is_ok());
    control.run_free();
    for pending in waiting.iter().chain([&refused]) {
        pending.answer();
    }
}

#[test]
fn the_lower_class_then_the_nearer_deadline_then_the_earlier_goes_first() {
    let options = ModelOptions {
        aging: Duration::from_secs(3600),
        ..at_once(1)
    };
    let (_engine, model, control) = held(shape(1, 8, 64), options);
    let running = ask("r", 1).of(&model);
    control.entered();
    let at = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
    let order = [
        ("e", 1, None),
        ("c", 0, None),
        ("b", 0, at(900)),
        ("d", 0, None),
        ("g", 2, at(100)),
        ("a", 0, at(600)),
        ("f", 1, None),
    ];
    let pending: Vec<Pending> = order
        .iter()
        .map(|(content, class, deadline)| {
            Ask {
                class: *class,
                deadline: *deadline,
                ..ask(content, 1)
            }
            .of(&model)
        })
        .collect();
    control.then(Then::Run);
    let mut went = String::new();
    for _ in 0..order.len() {
        // bos, user, the content's byte, assistant
        let step = control.step();
        went.push(char::from((step[0].tokens[2] - byte(0)) as u8));
    }
    assert_eq!(went, "abcdefg");
    running.answer();
    pending
        .iter()
        .for_each(|pending| assert!(pending.wait().1.is_ok()));
}

#[test]
fn a_flood_of_long_prompts_does_not_hold_up_who_generates() {
    let options = ModelOptions {
        prefill_tokens: 5,
        ..at_once(4)
    };
    let (_engine, model, control) = held(shape(4, 8, 128), options);
    let generating = ask("x", 20);
    let pending = generating.of(&model);
    let block = control.step()[0].blocks[0];
    let long = "a long prompt ".repeat(6);
    let flood: Vec<Pending> = (0..12).map(|_| ask(&long, 2).of(&model)).collect();
    let mut made = 1;
    while made < alone(&generating, 128).0.len() {
        let step = control.entered();
        // The first step may have begun before the flood; in each, its row comes first and the prompts have theirs.
        assert_eq!((step[0].blocks[0], step[0].samples.len()), (block, 1));
        let prompts: usize = step[1..]
            .iter()
            .map(|s: &StepSequence| s.tokens.len())
            .sum();
        assert!(prompts <= 5 + 3);
        control.then(Then::Run);
        made += 1;
    }
    control.run_free();
    assert_eq!(pending.choice().tokens, alone(&generating, 128).0);
    for flooded in flood {
        assert_eq!(flooded.choice().tokens, alone(&ask(&long, 2), 128).0);
    }
    control.is_sound();
}

#[test]
fn more_sequences_than_rows_take_turns() {
    let (_engine, model, control) = free(shape(6, 2, 64), ModelOptions::default());
    let asks: Vec<Ask> = (0..6).map(|n| ask(&format!("prompt {n}"), 12)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for (ask, pending) in asks.iter().zip(pending) {
        assert_eq!(pending.choice().tokens, alone(ask, 64).0);
    }
    control.is_sound();
}
