//! What may break, and what goes on.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, bounded};
use tidegate_contract::{Answer, Model, ModelError, Reply};

use super::support::*;
use crate::decoder::{DecodeError, Decoder};
use crate::serving::{Engine, EngineOptions};

fn refused() -> DecodeError {
    DecodeError::Device {
        reason: "no".into(),
    }
}

fn failed() -> ModelError {
    ModelError::Device("device refused the step: no".into())
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
    let (engine, control) = free(shape(3, 8, 64), EngineOptions::default());
    for in_token in [true, false] {
        let other = ask("other", 8);
        let pending = other.of(&engine);
        let (done, result) = bounded(2);
        let request = ask("panics", 4).request_to(1 << 40, Box::new(Panicking { in_token, done }));
        assert!(engine.submit(request).is_ok());
        let result = result.recv_timeout(LIMIT).unwrap();
        if in_token {
            assert_eq!(result, Err(ModelError::Cancelled));
        } else {
            assert_eq!(result.unwrap().tokens, ask("panics", 4).alone(64).0);
        }
        assert_eq!(pending.answer().tokens, other.alone(64).0);
    }
    assert_eq!(*control.broken.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_failed_step_fails_who_runs_and_the_next_are_tried() {
    let (engine, control) = held(shape(2, 8, 64), EngineOptions::default());
    for then in [Then::Fail(refused()), Then::Panic] {
        let wanted = match then {
            Then::Panic => {
                ModelError::Device("device refused the step: the decoder panicked".into())
            }
            _ => failed(),
        };
        let running = ask("a", 9).of(&engine);
        control.step();
        control.entered();
        let waiting = ask("b", 1).of(&engine);
        control.then(then);
        assert_eq!(running.error(), wanted);
        control.step();
        assert_eq!(waiting.answer().tokens, ask("b", 1).alone(64).0);
    }
    assert_eq!(engine.stats().failed_steps, 2);
}

#[test]
fn three_failed_steps_in_a_row_end_the_engine() {
    let (engine, control) = held(shape(1, 8, 64), EngineOptions::default());
    let pending: Vec<Pending> = (0..5).map(|_| ask("a", 9).of(&engine)).collect();
    for _ in 0..3 {
        control.entered();
        control.then(Then::Fail(refused()));
    }
    for pending in &pending[..3] {
        assert_eq!(pending.error(), failed());
    }
    for pending in &pending[3..] {
        assert_eq!(pending.error(), ModelError::Closed);
    }
    assert!(engine.stats().closed);
    let (request, _) = ask("late", 1).request();
    assert!(matches!(
        engine.submit(request),
        Err((_, ModelError::Closed))
    ));
}

#[test]
fn a_lost_device_is_loaded_again_and_who_waits_is_served() {
    let sizes = shape(1, 8, 64);
    let (decoder, control) = FakeDecoder::new(sizes.clone(), Arc::new(hashed), true);
    let second = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&second);
    let mut attempts = 0;
    let reload = move || {
        attempts += 1;
        if attempts == 1 {
            return Err("the driver restarts".to_owned());
        }
        let (decoder, control) = FakeDecoder::new(sizes.clone(), Arc::new(hashed), false);
        *kept.lock().unwrap() = Some(control);
        Ok(Box::new(decoder) as Box<dyn Decoder>)
    };
    let engine = Engine::start_reloading(
        Box::new(decoder),
        Some(Box::new(reload)),
        tokenizer(),
        facts(),
        EngineOptions::default(),
    );
    let running = ask("a", 9).of(&engine);
    control.entered();
    let waiting = ask("b", 9).of(&engine);
    control.then(Then::Fail(DecodeError::DeviceLost {
        reason: "reset".into(),
    }));
    assert_eq!(
        running.error(),
        ModelError::Device("device lost: reset".into())
    );
    assert_eq!(waiting.answer().tokens, ask("b", 9).alone(64).0);
    assert!(second.lock().unwrap().is_some() && !engine.stats().closed);
}

#[test]
fn logits_that_are_no_numbers_fail_only_their_request() {
    let logits = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        if history.contains(&byte(b'!')) && history.len() > prompt("!").len() + 1 {
            logits.fill(f32::NAN);
        }
    };
    let (engine, _control) = start(
        shape(2, 8, 64),
        Arc::new(logits),
        false,
        EngineOptions::default(),
    );
    let (broken, sound) = (ask("!", 20).of(&engine), ask("?", 20));
    let pending = sound.of(&engine);
    assert_eq!(
        broken.error(),
        ModelError::Device("no logit of token 2 is a number".into())
    );
    assert_eq!(pending.answer().tokens, sound.alone(64).0);
}

#[test]
fn a_dropped_engine_answers_everyone() {
    let (engine, control) = held(shape(1, 8, 64), EngineOptions::default());
    let pending: Vec<Pending> = (0..4).map(|_| ask("a", 30).of(&engine)).collect();
    control.entered();
    // While a step runs, so that none can finish first.
    engine.close();
    control.run_free();
    drop(engine);
    for pending in pending {
        assert!(pending.has_ended(), "answered before the drop returns");
        assert_eq!(pending.error(), ModelError::Closed);
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
    let (engine, control) = held(shape(1, 8, 64), EngineOptions::default());
    let engine = Arc::new(engine);
    let (done, ended) = bounded(1);
    let reply = Owning {
        engine: Some(Arc::clone(&engine)),
        done,
    };
    assert!(
        engine
            .submit(ask("a", 1).request_to(1 << 41, Box::new(reply)))
            .is_ok()
    );
    let other = ask("b", 1).of(&engine);
    drop(engine);
    control.step();
    ended.recv_timeout(LIMIT).unwrap();
    assert_eq!(other.error(), ModelError::Closed);
}

#[test]
fn an_engine_of_no_size_is_closed() {
    let (engine, _control) = free(shape(0, 8, 64), EngineOptions::default());
    let (request, pending) = ask("a", 1).request();
    match engine.submit(request) {
        Ok(()) => assert_eq!(pending.error(), ModelError::Closed),
        Err((_, error)) => assert_eq!(error, ModelError::Closed),
    }
}
