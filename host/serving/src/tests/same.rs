//! An answer depends on its request only.

use tidegate_contract::{Finish, Model};

use super::support::*;
use crate::serving::EngineOptions;

#[test]
fn requests_that_join_and_leave_get_the_tokens_they_get_alone() {
    let (engine, control) = free(
        shape(5, 8, 64),
        EngineOptions {
            prefill_rows: 3,
            ..EngineOptions::default()
        },
    );
    let mut dice = Dice(7);
    let asks: Vec<Ask> = (0..120).map(|_| dice.ask(40, 24)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&engine)).collect();
    for (ask, pending) in asks.iter().zip(pending) {
        let (tokens, result) = pending.wait();
        let answer = result.unwrap();
        let (wanted, finish) = ask.alone(64);
        assert_eq!(
            (&answer.tokens, answer.finish),
            (&wanted, finish),
            "{}",
            ask.content
        );
        assert_eq!(answer.prompt_tokens as usize, prompt(&ask.content).len());
        let handed_on: Vec<u32> = tokens.iter().map(|(_, token, _)| *token).collect();
        assert_eq!(handed_on, wanted);
        assert!(
            tokens
                .iter()
                .enumerate()
                .all(|(place, (index, ..))| place == *index as usize)
        );
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
    let stats = engine.stats();
    assert!(
        stats.largest_batch > 1 && stats.largest_batch <= 5,
        "{stats:?}"
    );
    assert_eq!(stats.answered, 120);
}

#[test]
fn a_forced_prefix_is_continued_exactly() {
    let (engine, control) = free(shape(3, 4, 64), EngineOptions::default());
    let mut dice = Dice(11);
    for _ in 0..6 {
        let ask = dice.ask(10, 20);
        let (all, whole) = ask.of(&engine).wait();
        let whole = whole.unwrap();
        for made in 0..=whole.tokens.len() {
            let resumed = Ask {
                prefix: whole.tokens[..made].to_vec(),
                ..ask.clone()
            };
            let (tokens, answer) = resumed.of(&engine).wait();
            let answer = answer.unwrap();
            assert_eq!(
                (&answer.tokens, &answer.text, answer.finish),
                (&whole.tokens, &whole.text, whole.finish)
            );
            // Those of the prefix are not handed on again, the others as before, index, id and text.
            assert_eq!(tokens, all[made..]);
        }
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_prefix_that_is_complete_needs_no_step() {
    let (engine, _control) = held(shape(1, 4, 64), EngineOptions::default());
    let full = Ask {
        prefix: bytes("abc"),
        ..ask("x", 3)
    }
    .of(&engine)
    .answer();
    assert_eq!((full.text.as_str(), full.finish), ("abc", Finish::Length));
    let mut stopping = Ask {
        prefix: bytes("ab. c"),
        ..ask("x", 30)
    };
    stopping.parameters.stop = vec![". ".into()];
    let stopped = stopping.of(&engine).answer();
    assert_eq!(
        (stopped.text.as_str(), stopped.finish),
        ("ab", Finish::Stop)
    );
    let mut ended = bytes("ab");
    ended.push(EOS);
    let ended = Ask {
        prefix: ended,
        ..ask("x", 30)
    }
    .of(&engine)
    .answer();
    assert_eq!(
        (ended.text.as_str(), ended.finish, ended.tokens.len()),
        ("ab", Finish::End, 2)
    );
    assert_eq!(ask("x", 0).of(&engine).answer().finish, Finish::Length);
    assert_eq!(engine.stats().steps, 0);
}

#[test]
fn a_seed_decides_an_answer_and_nothing_else_does() {
    let (engine, _control) = free(shape(4, 8, 64), EngineOptions::default());
    let mut warm = ask("the same prompt", 16);
    warm.parameters.temperature = 1.0;
    let first = warm.of(&engine).answer();
    let crowd: Vec<Pending> = (0..10)
        .map(|seed| {
            Ask {
                seed,
                ..warm.clone()
            }
            .of(&engine)
        })
        .collect();
    let crowd: Vec<Vec<u32>> = crowd
        .iter()
        .map(|pending| pending.answer().tokens)
        .collect();
    assert_eq!(crowd[0], first.tokens);
    for (one, tokens) in crowd.iter().enumerate() {
        assert!(
            !crowd[..one].contains(tokens),
            "seeds {one} and an earlier one give the same answer"
        );
    }
}

#[test]
fn ten_thousand_random_events_leak_no_slot() {
    let (engine, control) = free(
        shape(4, 6, 32),
        EngineOptions {
            queue: 16,
            ..EngineOptions::default()
        },
    );
    let mut dice = Dice(3);
    let mut open: Vec<(Ask, Pending)> = Vec::new();
    let mut events = 0;
    while events < 10_000 {
        events += 1;
        if dice.below(3) == 0 && !open.is_empty() {
            let place = dice.below(open.len() as u64) as usize;
            engine.cancel(open[place].1.id);
        } else {
            let ask = dice.ask(12, 6);
            let (request, pending) = ask.request();
            match engine.submit(request) {
                Ok(()) => open.push((ask, pending)),
                // Full: the oldest must end first.
                Err(_) => {
                    let (ask, pending) = open.remove(0);
                    ended(&ask, &pending);
                }
            }
        }
    }
    for (ask, pending) in &open {
        ended(ask, pending);
    }
    // All four slots can be held at once again.
    control
        .hold
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let last: Vec<Pending> = (0..4).map(|_| ask("x", 20).of(&engine)).collect();
    let most = (0..8).map(|_| {
        let rows = control.step();
        let slots: std::collections::HashSet<u32> = rows.iter().map(|row| row.slot).collect();
        slots.len()
    });
    assert_eq!(most.max(), Some(4));
    control.run_free();
    for pending in last {
        pending.answer();
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting), (0, 0));

    fn ended(ask: &Ask, pending: &Pending) {
        match pending.wait().1 {
            Ok(answer) => assert_eq!((answer.tokens, answer.finish), ask.alone(32)),
            Err(error) => assert_eq!(error, tidegate_contract::ModelError::Cancelled),
        }
    }
}
