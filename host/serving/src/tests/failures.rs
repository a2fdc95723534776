//! What may break, and what goes on.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use tidegate_contract::{Answer, DecodeError, Model, ModelError, Reply, StepSequence};

use super::support::*;
use crate::{Engine, EngineOptions, ModelOptions, ModelStats};

fn lost() -> DecodeError {
    DecodeError::DeviceLost {
        reason: "reset".into(),
    }
}

struct Panicking {
    in_token: bool,
    done: Sender<Result<Answer, ModelError>>,
}

impl Reply for Panicking {
    fn token(&mut self, _: u32, _: u32, _: &str) {
        assert!(!self.in_token, "a reply that panics in token");
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let _ = self.done.send(result);
        panic!("a reply that panics in done");
    }
}

#[test]
fn a_reply_that_panics_harms_only_its_request() {
    let (_engine, model, control) = free(shape(3, 8, 64), ModelOptions::default());
    for in_token in [true, false] {
        let other = ask("other", 8);
        let pending = other.of(&model);
        let (done, result) = bounded(2);
        let request = ask("panics", 4).request_to(1 << 40, Box::new(Panicking { in_token, done }));
        assert!(model.submit(request).is_ok());
        let result = result.recv_timeout(LIMIT).unwrap();
        if in_token {
            assert_eq!(result, Err(ModelError::Cancelled));
        } else {
            assert!(result.is_ok());
        }
        assert_eq!(pending.choice().tokens, alone(&other, 64).0);
    }
    control.is_sound();
}

#[test]
fn an_engine_that_hangs_in_a_step_says_for_how_long_until_it_goes_on() {
    // Longer than one that has nothing to do sleeps.
    const HANGS: Duration = Duration::from_secs(3);
    let (_engine, model, control) = free(shape(3, 8, 64), ModelOptions::default());
    let until = |what: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + LIMIT;
        while !what() {
            assert!(std::time::Instant::now() < end, "{:?}", model.silent());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    control.hold();
    let pending = ask("hangs", 4).of(&model);
    control.entered();
    until(&|| model.silent() > HANGS);
    assert!(!pending.has_ended());
    control.run_free();
    assert_eq!(pending.choice().tokens, alone(&ask("hangs", 4), 64).0);
    until(&|| model.silent() < HANGS);
}

#[test]
fn after_each_kind_of_fatal_fault_the_model_is_loaded_again_and_answers_go_on() {
    let faults = [
        lost(),
        DecodeError::OutOfMemory {
            reason: "full".into(),
        },
        DecodeError::DeadlineExceeded {
            limit: Duration::from_secs(1),
        },
        DecodeError::Kernel {
            kernel: "matmul".into(),
            reason: "no".into(),
        },
    ];
    for fault in faults.into_iter().map(Some).chain([None]) {
        let (_engine, model, control) = held(shape(1, 8, 64), at_once(1));
        let running = ask("a", 9);
        let pending = running.of(&model);
        for _ in 0..4 {
            control.step();
        }
        control.entered();
        let waiting = ask("b", 9);
        let other = waiting.of(&model);
        match fault {
            Some(fault) => control.then(Then::Fail(fault)),
            None => control.then(Then::Panic),
        }
        control.run_free();
        assert_eq!(pending.choice().tokens, alone(&running, 64).0);
        assert_eq!(other.choice().tokens, alone(&waiting, 64).0);
        assert_eq!(control.loads(), 2);
        let stats = model.stats();
        assert_eq!(
            (
                stats.retried,
                stats.reloads,
                stats.failed_steps,
                stats.failed
            ),
            (1, 1, 1, 0)
        );
        // Each token was handed on once.
        assert_eq!(pending.tokens().len(), alone(&running, 64).0.len());
        control.is_sound();
    }
}

/// One whose answer panics there, among others: how it ends. The others have the answers that they have alone.
fn panics_among_others(at: &str, n: u32) -> (ModelError, ModelStats, u64) {
    let (_engine, model, control) = held(shape(6, 64, 64), at_once(4));
    let others: Vec<Ask> = (0..3).map(|n| ask(&format!("other {n}"), 12)).collect();
    let mut poison = ask("poison", 12);
    poison.parameters.stop = vec![panics(at)];
    poison.parameters.n = n;
    let before = others[0].of(&model);
    let poisoned = poison.of(&model);
    let after: Vec<Pending> = others[1..].iter().map(|ask| ask.of(&model)).collect();
    control.entered();
    control.run_free();
    let error = poisoned.error();
    for (ask, pending) in others.iter().zip(std::iter::once(&before).chain(&after)) {
        let choice = pending.choice();
        assert_eq!(choice.tokens, alone(ask, 64).0);
        let told: Vec<u32> = pending
            .tokens()
            .iter()
            .map(|(_, token, _)| *token)
            .collect();
        assert_eq!(told, choice.tokens, "each once");
    }
    // And what comes later is answered.
    assert_eq!(
        others[0].of(&model).choice().tokens,
        alone(&others[0], 64).0
    );
    control.is_sound();
    (error, model.stats(), control.loads())
}

#[test]
fn what_panics_in_one_answer_fails_its_request_alone() {
    for at in ["text", "mask", "choice"] {
        for n in [1, 2] {
            let (error, stats, loads) = panics_among_others(at, n);
            let reason = "what is made of the answer panicked";
            assert_eq!(error, ModelError::Device(reason.into()), "{at}");
            assert_eq!((stats.failed, stats.answered, loads), (1, 4, 1), "{at}");
            assert_eq!((stats.reloads, stats.retried), (0, 0), "{at}");
        }
    }
}

#[test]
fn a_request_whose_steps_cannot_be_planned_takes_no_other_along() {
    let (error, stats, loads) = panics_among_others("plan", 1);
    assert_eq!(
        error,
        ModelError::Device("the engine's thread panicked".into())
    );
    // Once with the others and once alone.
    assert_eq!(
        (stats.failed, stats.answered, loads),
        (1, 4, 3),
        "{stats:?}"
    );
}

#[test]
fn a_request_that_loses_an_answer_to_a_panic_ends() {
    for n in [1, 2] {
        let (error, stats, loads) = panics_among_others("blocks", n);
        assert_eq!(
            error,
            ModelError::Device("the engine's thread panicked".into())
        );
        assert_eq!(
            (stats.failed, stats.answered, loads),
            (1, 4, 2),
            "{stats:?}"
        );
    }
}

#[test]
fn who_was_retried_once_fails_with_the_reason() {
    let (_engine, model, control) = free(shape(1, 8, 64), at_once(1));
    control.refuse(|step| step[0].tokens.contains(&byte(b'%')).then(lost));
    let poison = ask("%", 4).of(&model);
    assert_eq!(
        poison.error(),
        ModelError::Device("device lost: reset".into())
    );
    // The process and the model live.
    let sound = ask("fine", 4);
    assert_eq!(sound.of(&model).choice().tokens, alone(&sound, 64).0);
    assert_eq!(control.loads(), 3);
}

#[test]
fn who_takes_the_device_down_each_time_takes_no_other_along() {
    let (_engine, model, control) = free(shape(6, 64, 64), ModelOptions::default());
    control.refuse(|step| {
        let poison = |s: &StepSequence| s.position == 0 && s.tokens.get(2) == Some(&byte(b'%'));
        step.iter().any(poison).then(lost)
    });
    let asks: Vec<Ask> = ["one", "two", "%", "four", "%%", "six"]
        .map(|content| ask(content, 12))
        .into();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for (ask, pending) in asks.iter().zip(&pending) {
        match ask.content.contains('%') {
            true => assert!(matches!(pending.error(), ModelError::Device(_))),
            false => assert_eq!(pending.choice().tokens, alone(ask, 64).0),
        }
    }
    assert_eq!(model.stats().failed, 2);
}

#[test]
fn a_load_that_fails_is_tried_again() {
    let (_engine, model, control) = held(shape(1, 8, 64), at_once(1));
    let running = ask("a", 9);
    let pending = running.of(&model);
    control.entered();
    control.fail_loads(3);
    control.then(Then::Fail(lost()));
    control.run_free();
    // Three in a row are one too many.
    assert_eq!(
        pending.error(),
        ModelError::Device("model fake cannot be loaded: the driver restarts".into())
    );
    let (_engine, model, control) = held(shape(1, 8, 64), at_once(1));
    let pending = running.of(&model);
    control.entered();
    control.fail_loads(2);
    control.then(Then::Fail(lost()));
    control.run_free();
    assert_eq!(pending.choice().tokens, alone(&running, 64).0);
    assert_eq!(model.stats().reloads, 1);
}

#[test]
fn a_model_that_cannot_be_loaded_again_ends_and_others_go_on() {
    let (engine, model, control) = held(shape(1, 8, 64), at_once(1));
    let (load, _other_control) = Fake::loader(shape(1, 8, 64), Arc::new(hashed));
    let other = engine
        .load("other", source(load, ModelOptions::default()))
        .unwrap();
    let pending: Vec<Pending> = (0..3).map(|_| ask("a", 9).of(&model)).collect();
    control.entered();
    control.fail_loads(u64::MAX);
    control.then(Then::Fail(lost()));
    for pending in &pending {
        assert!(matches!(pending.error(), ModelError::Device(_)));
    }
    let sound = ask("fine", 4);
    assert_eq!(sound.of(&other).choice().tokens, alone(&sound, 64).0);
    let (request, _) = ask("late", 1).request();
    assert!(matches!(
        model.submit(request),
        Err((_, ModelError::Closed))
    ));
    assert!(model.stats().closed && engine.stats().models[0].closed);
    assert_eq!(engine.stats().used, 100, "its bytes are free");
    // Its name can be used again.
    let (load, _control) = Fake::loader(shape(1, 8, 64), Arc::new(hashed));
    engine
        .load("fake", source(load, ModelOptions::default()))
        .unwrap();
    assert_eq!(sound.of(&model).choice().tokens, alone(&sound, 64).0);
}

#[test]
fn a_model_whose_every_step_fails_ends() {
    let (_engine, model, control) = free(shape(1, 8, 64), at_once(1));
    control.refuse(|_| {
        Some(DecodeError::Device {
            reason: "no".into(),
        })
    });
    let pending: Vec<Pending> = (0..12)
        .map(|_| ask("a", 3))
        .map(|ask| ask.of(&model))
        .collect();
    for pending in &pending {
        match pending.error() {
            ModelError::Device(_) | ModelError::Closed => {}
            error => panic!("{error:?}"),
        }
    }
}

#[test]
fn a_dropped_engine_answers_everyone() {
    let (engine, model, control) = held(shape(1, 8, 64), at_once(1));
    let pending: Vec<Pending> = (0..4).map(|_| ask("a", 30).of(&model)).collect();
    control.entered();
    // While a step runs, so that none can finish first.
    engine.close();
    control.run_free();
    drop(engine);
    for pending in pending {
        assert!(pending.has_ended(), "answered before the drop returns");
        assert_eq!(pending.error(), ModelError::Closed);
    }
    let (request, _) = ask("late", 1).request();
    assert!(matches!(
        model.submit(request),
        Err((_, ModelError::Closed))
    ));
}

#[test]
fn what_is_submitted_while_the_engine_ends_is_answered() {
    for round in 0..50 {
        let (engine, model, _control) = free(shape(2, 8, 64), ModelOptions::default());
        let submitted = std::thread::scope(|scope| {
            let submitting = scope.spawn(|| {
                let mut pending = Vec::new();
                loop {
                    let (request, one) = ask("a", 3).request();
                    match model.submit(request) {
                        Ok(()) => pending.push(one),
                        Err((_, ModelError::Full { .. })) => {}
                        Err((_, error)) => {
                            assert_eq!(error, ModelError::Closed);
                            return pending;
                        }
                    }
                }
            });
            std::thread::sleep(Duration::from_micros(50 * round));
            drop(engine);
            submitting.join().unwrap()
        });
        for pending in submitted {
            if let Err(error) = pending.wait().1 {
                assert_eq!(error, ModelError::Closed);
            }
        }
    }
}

struct Owning {
    engine: Option<Arc<Engine>>,
    done: Sender<()>,
}

impl Reply for Owning {
    fn token(&mut self, _: u32, _: u32, _: &str) {}

    fn done(mut self: Box<Self>, _: Result<Answer, ModelError>) {
        drop(self.engine.take());
        let _ = self.done.send(());
    }
}

#[test]
fn an_engine_can_be_dropped_by_its_own_reply() {
    let (engine, model, control) = held(shape(1, 8, 64), at_once(1));
    let engine = Arc::new(engine);
    let (done, ended) = bounded(1);
    let reply = Owning {
        engine: Some(Arc::clone(&engine)),
        done,
    };
    let request = ask("a", 1).request_to(1 << 41, Box::new(reply));
    assert!(model.submit(request).is_ok());
    let other = ask("b", 9).of(&model);
    drop(engine);
    control.step();
    ended.recv_timeout(LIMIT).unwrap();
    // The other's first step has begun by then, and is the last.
    control.run_free();
    assert_eq!(other.error(), ModelError::Closed);
}

#[test]
fn an_engine_without_models_takes_nothing() {
    let engine = Engine::start(EngineOptions::default());
    let handle = engine.handle("later");
    let (request, pending) = ask("a", 1).request();
    let Err((request, error)) = handle.submit(request) else {
        panic!("nothing stands there")
    };
    assert_eq!(error, ModelError::Unknown("later".into()));
    assert!(engine.model("later").is_none() && !pending.has_ended());
    let (load, _control) = Fake::loader(shape(1, 8, 64), Arc::new(hashed));
    engine
        .load("later", source(load, ModelOptions::default()))
        .unwrap();
    assert!(handle.submit(request).is_ok());
    assert!(pending.wait().1.is_ok());
}
