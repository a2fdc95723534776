//! Who waits, who runs, and who goes.

use std::time::{Duration, Instant};

use tidegate_contract::{Model, ModelError};

use super::support::*;
use crate::serving::EngineOptions;

fn pass(deadline: Instant) {
    while Instant::now() <= deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_cancelled_at_any_step_frees_its_slot() {
    let (engine, control) = held(shape(1, 4, 64), EngineOptions::default());
    for steps in 0..8 {
        let cancelled = ask("0123456789", 30).of(&engine);
        for _ in 0..steps {
            control.step();
        }
        control.entered();
        engine.cancel(cancelled.id);
        let next = ask("next", 2);
        let pending = next.of(&engine);
        control.then(Then::Run);
        assert_eq!(cancelled.error(), ModelError::Cancelled);
        // "next" is 7 tokens: two steps of its prompt, and one more token.
        for _ in 0..3 {
            control.step();
        }
        assert_eq!(pending.answer().tokens, next.alone(64).0);
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_waiting_request_can_be_cancelled() {
    let (engine, control) = held(shape(1, 4, 64), EngineOptions::default());
    let running = ask("a", 1).of(&engine);
    control.entered();
    let waiting = ask("b", 1).of(&engine);
    engine.cancel(waiting.id);
    engine.cancel(tidegate_contract::RequestId(u64::MAX));
    control.then(Then::Run);
    assert!(running.wait().1.is_ok());
    assert_eq!(waiting.error(), ModelError::Cancelled);
    assert_eq!(engine.stats().waiting, 0);
}

#[test]
fn a_deadline_ends_a_waiting_and_a_running_request() {
    let (engine, control) = held(shape(1, 8, 64), EngineOptions::default());
    let soon = Instant::now() + Duration::from_millis(1500);
    let running = Ask {
        deadline: Some(soon),
        ..ask("ab", 40)
    }
    .of(&engine);
    control.step();
    control.step();
    control.entered();
    let waiting = Ask {
        deadline: Some(soon),
        ..ask("cd", 4)
    }
    .of(&engine);
    let patient = ask("ef", 1).of(&engine);
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
fn a_full_queue_gives_the_request_back() {
    let (engine, control) = held(
        shape(1, 8, 64),
        EngineOptions {
            queue: 2,
            ..EngineOptions::default()
        },
    );
    let running = ask("a", 1).of(&engine);
    control.entered();
    let waiting = [ask("b", 1).of(&engine), ask("c", 1).of(&engine)];
    let (request, refused) = ask("d", 1).request();
    let Err((request, error)) = engine.submit(request) else {
        panic!("the queue takes three")
    };
    assert_eq!(error, ModelError::Full { limit: 2 });
    assert!(!refused.has_ended(), "a refused request is not answered");
    control.then(Then::Run);
    running.answer();
    control.entered();
    // "b" has the slot, one place is free.
    assert!(engine.submit(request).is_ok());
    control.run_free();
    for pending in waiting.iter().chain([&refused]) {
        pending.answer();
    }
}

#[test]
fn the_lower_class_then_the_nearer_deadline_then_the_earlier_goes_first() {
    let (engine, control) = held(shape(1, 8, 64), EngineOptions::default());
    let running = ask("r", 1).of(&engine);
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
            .of(&engine)
        })
        .collect();
    control.then(Then::Run);
    let mut went = String::new();
    for _ in 0..order.len() {
        // bos, user, the content's byte, assistant
        let rows = control.step();
        went.push(char::from((rows[2].token - byte(0)) as u8));
    }
    assert_eq!(went, "abcdefg");
    running.answer();
    pending
        .iter()
        .for_each(|pending| assert!(pending.wait().1.is_ok()));
}

#[test]
fn a_flood_of_long_prompts_does_not_hold_up_who_generates() {
    let (engine, control) = held(
        shape(4, 8, 128),
        EngineOptions {
            prefill_rows: 5,
            ..EngineOptions::default()
        },
    );
    let generating = ask("x", 20);
    let pending = generating.of(&engine);
    let slot = control.step()[0].slot;
    let long = "a long prompt ".repeat(6);
    let flood: Vec<Pending> = (0..12).map(|_| ask(&long, 2).of(&engine)).collect();
    let mut made = 1;
    while made < generating.alone(128).0.len() {
        let rows = control.entered();
        // The first step may have begun before the flood; in each, its row comes first and the prompts have theirs.
        assert_eq!((rows[0].slot, rows[0].wants_logits), (slot, true));
        assert!(rows[1..].iter().filter(|row| row.slot != slot).count() <= 5 + 3);
        control.then(Then::Run);
        made += 1;
    }
    control.run_free();
    assert_eq!(pending.answer().tokens, generating.alone(128).0);
    for flooded in flood {
        assert_eq!(flooded.answer().tokens, ask(&long, 2).alone(128).0);
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn more_sequences_than_rows_take_turns() {
    let (engine, control) = free(shape(6, 2, 64), EngineOptions::default());
    let asks: Vec<Ask> = (0..6).map(|n| ask(&format!("prompt {n}"), 12)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&engine)).collect();
    for (ask, pending) in asks.iter().zip(pending) {
        assert_eq!(pending.answer().tokens, ask.alone(64).0);
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
}
