//! Replicas that come back, that do not go on, and what becomes of what they were asked meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use tidegate_contract::{
    DecodeError, Decoder, DecoderShape, Model, ModelError, RequestId, Sampled, StepSequence,
};

use super::replicas::{
    all_serve, check, engines, engines_with, load, lost, other, pretend_costs, until,
};
use super::support::*;
use crate::{
    Engine, EngineOptions, ModelHandle, ModelLoader, ModelOptions, ModelSource, Pauses,
    ReplicaStanding, ReplicaStats, load_replicas,
};

fn two_with(options: EngineOptions, sequences: usize) -> (Vec<Engine>, ModelHandle, Vec<Control>) {
    let engines = engines_with(2, options);
    let logits: Arc<Logits> = Arc::new(hashed);
    let sizes = shape(8, 64, 256);
    let (model, controls) = load(&engines, &sizes, &logits, || at_once(sequences));
    (engines, model.unwrap(), controls)
}

fn short_pauses() -> EngineOptions {
    EngineOptions {
        memory_budget: 250,
        pauses: Pauses {
            first: Duration::from_millis(20),
            longest: Duration::from_millis(40),
        },
        ..EngineOptions::default()
    }
}

/// An engine that is taken for stalled soon.
fn soon_stalled() -> EngineOptions {
    EngineOptions {
        stalled_after: Duration::from_secs(2),
        ..EngineOptions::default()
    }
}

fn replica(model: &ModelHandle, number: usize) -> ReplicaStats {
    model.stats().replicas[number].clone()
}

fn answered(model: &ModelHandle) -> Vec<u64> {
    let replicas = model.stats().replicas;
    replicas.iter().map(|one| one.answered).collect()
}

fn asks(count: usize, tokens: u32) -> Vec<Ask> {
    let asks = (0..count).map(|n| ask(&format!("request {n}"), tokens));
    asks.collect()
}

/// Loses the device of a replica whose steps wait for the test; it cannot be loaded again from then on.
fn lose_for_good(control: &Control) {
    control.entered();
    control.fail_loads(u64::MAX);
    control.run_free_after(Then::Fail(lost()));
}

#[test]
fn a_replica_that_is_left_out_is_tried_again_and_serves_when_it_can() {
    let (engines, model, controls) = two_with(short_pauses(), 2);
    pretend_costs(&model, [20_000, 1000, 1000]);
    let asks = asks(6, 12);
    controls[0].hold();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    lose_for_good(&controls[0]);
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    let is_left_out = || matches!(replica(&model, 0).standing, ReplicaStanding::LeftOut(reason) if reason.contains("the driver restarts"));
    until(is_left_out);
    let gone = replica(&model, 0);
    assert!(
        gone.again
            .is_some_and(|again| again <= Duration::from_millis(40)),
        "{gone:?}"
    );
    assert_eq!(gone.memory, 0);
    // Between two tries.
    until(|| engines[0].stats().used == 100);
    assert!(!model.stats().away, "the other serves");
    // It is tried time after time, and is left out after each.
    let tried = controls[0].failed_loads();
    until(|| controls[0].failed_loads() >= tried + 3);
    until(is_left_out);
    assert_eq!(model.stats().reloads, 0);
    controls[0].fail_loads(0);
    until(|| replica(&model, 0).reloads == 1);
    assert!(all_serve(&model));
    let back = replica(&model, 0);
    assert_eq!((back.again, back.reloads, back.memory), (None, 1, 100));
    assert_eq!(engines[0].stats().used, 200);
    let before = answered(&model);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    let after = answered(&model);
    assert!(after[0] > before[0], "{before:?} {after:?}");
    // Lost again, it is loaded again as ever.
    controls[0].hold();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[0].entered();
    controls[0].run_free_after(Then::Fail(lost()));
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    until(|| replica(&model, 0).reloads == 2);
    assert_eq!(model.stats().failed, 0);
    controls[0].is_sound();
}

#[test]
fn a_replica_whose_memory_others_have_is_back_when_that_is_free() {
    let (engines, model, controls) = two_with(short_pauses(), 2);
    controls[0].hold();
    let asked = ask("request", 12);
    let pending = asked.of(&model);
    lose_for_good(&controls[0]);
    check(&asked, &pending);
    until(|| matches!(replica(&model, 0).standing, ReplicaStanding::LeftOut(_)));
    let (load, _other) = Fake::loader(shape(2, 8, 64), Arc::new(hashed));
    // What is being tried has its memory for a moment.
    let mut load = Some(load);
    until(|| engines[0].stats().used == 100);
    let mut loaded = engines[0].load(
        "other",
        source(load.take().unwrap(), ModelOptions::default()),
    );
    while loaded.is_err() {
        let (load, _other) = Fake::loader(shape(2, 8, 64), Arc::new(hashed));
        loaded = engines[0].load("other", source(load, ModelOptions::default()));
    }
    controls[0].fail_loads(0);
    until(
        || matches!(replica(&model, 0).standing, ReplicaStanding::LeftOut(reason) if reason == "it needs 100 bytes, 50 of the budget are free"),
    );
    engines[0].unload("other").unwrap();
    until(|| all_serve(&model));
    assert_eq!(engines[0].stats().used, 200);
}

#[test]
fn the_last_that_is_given_up_ends_those_that_are_tried_again() {
    let (engines, model, controls) = two_with(short_pauses(), 2);
    for control in &controls {
        control.hold();
    }
    let asks = asks(4, 12);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for control in &controls {
        lose_for_good(control);
    }
    for pending in &pending {
        assert!(matches!(pending.error(), ModelError::Device(_)));
    }
    until(|| model.stats().closed);
    until(|| engines[0].stats().used == 0);
    let tried: u64 = controls.iter().map(Control::failed_loads).sum();
    std::thread::sleep(Duration::from_millis(400));
    let now: u64 = controls.iter().map(Control::failed_loads).sum();
    // One may have been under way.
    assert!(now <= tried + 1, "nobody is tried any more");
}

#[test]
fn what_waits_goes_to_a_replica_that_is_back_and_what_has_begun_stays() {
    let (_engines, model, controls) = two_with(EngineOptions::default(), 1);
    for control in &controls {
        control.hold();
    }
    let asks = asks(9, 30);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[0].entered();
    controls[0].then(Then::Fail(lost()));
    controls[0].run_free();
    for _ in 0..3 {
        controls[1].step();
    }
    until(|| model.stats().reloads == 1);
    // What it had is in the other by now, which hears of its return between two steps.
    for _ in 0..3 {
        controls[1].step();
    }
    until(|| answered(&model)[0] >= 3);
    assert_eq!(answered(&model)[1], 0, "it is in a step");
    controls[1].entered();
    controls[1].then(Then::Run);
    controls[1].run_free();
    let made: Vec<String> = (asks.iter().zip(&pending))
        .map(|(ask, pending)| check(ask, pending))
        .collect();
    // Whoever ran on the device that was lost goes on where it has gone, and its last part is made there.
    let first = made.iter().filter(|made| *made == "device 0, device 1");
    assert_eq!(first.count(), 1, "{made:?}");
    let there = made.iter().filter(|made| *made == "device 1").count();
    let back = made.iter().filter(|made| *made == "device 0").count();
    assert!(there >= 1 && back >= 3 && there + back == 8, "{made:?}");
    until(|| model.stats().running == 0);
    for replica in model.replicas_for_tests() {
        until(|| replica.load.answers() == 0);
    }
}

#[test]
fn what_a_replica_was_asked_that_does_not_go_on_is_made_by_the_others() {
    let (_engines, model, controls) = two_with(soon_stalled(), 2);
    controls[0].hold();
    let asks = asks(8, 12);
    let mut pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[0].step();
    controls[0].step();
    controls[0].entered();
    // These come while its step runs, and wait before its door.
    pending.extend(asks.iter().map(|ask| ask.of(&model)));
    let cancelled = ask("cancelled", 200);
    let gone: Vec<Pending> = (0..2).map(|_| cancelled.of(&model)).collect();
    for gone in &gone {
        model.cancel(gone.id);
    }
    let made: Vec<String> = (asks.iter().chain(&asks).zip(&pending))
        .map(|(ask, pending)| check(ask, pending))
        .collect();
    assert!(made.contains(&"device 0, device 1".to_owned()), "{made:?}");
    for gone in &gone {
        assert_eq!(gone.error(), ModelError::Cancelled);
    }
    let stalled = replica(&model, 0);
    assert_eq!(stalled.standing, ReplicaStanding::Stalled);
    assert_eq!((stalled.running, model.stats().failed), (0, 0));
    // On a busy machine the other's thread may sleep for longer than it meant to.
    until(|| !model.stats().away);
    // It is asked nothing new.
    for ask in &asks {
        assert_eq!(check(ask, &ask.of(&model)), "device 1");
    }
    controls[0].run_free();
    until(|| all_serve(&model));
    // How long that step took is no measure: it has a share of what comes, however much slower its others seemed on a busy machine.
    let others: Vec<Ask> = (0..64).map(|n| ask(&format!("another {n}"), 12)).collect();
    let pending: Vec<Pending> = others.iter().map(|ask| ask.of(&model)).collect();
    for (ask, pending) in others.iter().zip(&pending) {
        check(ask, pending);
    }
    let answered = answered(&model);
    assert!(answered[0] > 0, "{answered:?}");
    for control in &controls {
        control.is_sound();
    }
    for replica in model.replicas_for_tests() {
        until(|| replica.load.answers() == 0);
    }
}

#[test]
fn where_none_goes_on_requests_wait_for_the_first_that_does() {
    let (_engines, model, controls) = two_with(soon_stalled(), 2);
    for control in &controls {
        control.hold();
    }
    let asks = asks(6, 12);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for control in &controls {
        control.entered();
    }
    until(|| model.stats().away);
    let late = asks[0].of(&model);
    std::thread::sleep(Duration::from_millis(300));
    assert!(pending.iter().all(|pending| !pending.has_ended()));
    controls[1].run_free();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    check(&asks[0], &late);
    until(|| !model.stats().away);
    controls[0].run_free();
    until(|| all_serve(&model));
    for control in &controls {
        control.is_sound();
    }
}

#[test]
fn one_that_no_replica_comes_to_the_end_of_takes_no_other_along() {
    let (_engines, model, controls) = two_with(soon_stalled(), 4);
    let (tries, ended) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    for control in &controls {
        let (tries, ended) = (Arc::clone(&tries), Arc::clone(&ended));
        control.refuse(move |step| {
            let poison = prompt("poison");
            let has = |tokens: &[u32]| tokens.windows(6).any(|window| poison.ends_with(window));
            if step.iter().any(|one| has(&one.tokens)) {
                // It does not go on before another has taken it, or it has had its tries.
                let number = tries.fetch_add(1, Ordering::SeqCst) + 1;
                until(|| tries.load(Ordering::SeqCst) > number || ended.load(Ordering::SeqCst));
            }
            None
        });
    }
    let asks = asks(6, 12);
    let poison = ask("poison", 12).of(&model);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    let error = poison.error();
    ended.store(true, Ordering::SeqCst);
    let ModelError::Device(reason) = &error else {
        panic!("{error:?}");
    };
    assert!(reason.contains("does not go on"), "{reason}");
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
}

/// A decoder that panics where nobody counts on it.
struct Panics {
    inner: Box<dyn Decoder>,
    /// How many times more.
    now: Arc<AtomicU64>,
}

impl Decoder for Panics {
    fn shape(&self) -> &DecoderShape {
        self.inner.shape()
    }

    fn memory(&self) -> u64 {
        self.inner.memory()
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.inner.step(step, sampled)
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.inner.logits(step, logits)
    }

    fn runs_ahead(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        let told = (self.now).fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        assert!(told.is_err(), "it was told to");
        false
    }
}

fn panicking(now: &Arc<AtomicU64>, sequences: usize) -> (ModelSource, Control) {
    let (load, control) = Fake::loader(shape(8, 64, 256), Arc::new(hashed));
    let ModelLoader::Decoder(mut load) = load else {
        unreachable!("a decoder")
    };
    let now = Arc::clone(now);
    let load = move || -> Result<Box<dyn Decoder>, String> {
        let (inner, now) = (load()?, Arc::clone(&now));
        Ok(Box::new(Panics { inner, now }))
    };
    let load = ModelLoader::Decoder(Box::new(load));
    (source(load, at_once(sequences)), control)
}

#[test]
fn a_thread_that_panics_goes_on_with_models_that_are_loaded_again() {
    for count in [1, 2] {
        let engines = engines(count);
        let now = Arc::new(AtomicU64::new(0));
        let (sources, controls): (Vec<ModelSource>, Vec<Control>) =
            engines.iter().map(|_| panicking(&now, 2)).unzip();
        let model = load_replicas("m", engines.iter().zip(sources).collect(), &[]).unwrap();
        for control in &controls {
            control.hold();
        }
        let asks = asks(6, 12);
        let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
        for control in &controls {
            control.step();
            control.entered();
        }
        now.store(1, Ordering::SeqCst);
        for control in &controls {
            control.then(Then::Run);
            control.run_free();
        }
        for (ask, pending) in asks.iter().zip(&pending) {
            check(ask, pending);
        }
        until(|| model.stats().reloads == 1);
        let stats = model.stats();
        assert!(stats.retried >= 1 && stats.failed == 0, "{stats:?}");
        assert!(now.load(Ordering::SeqCst) == 0 && !engines[0].stats().closed);
        let again = ask("after that", 6);
        check(&again, &again.of(&model));
        for control in &controls {
            control.is_sound();
        }
    }
}

#[test]
fn a_model_that_has_no_part_in_panics_is_not_given_up_for_them() {
    let engines = engines(1);
    let now = Arc::new(AtomicU64::new(0));
    let (panics, control) = panicking(&now, 1);
    let panicking = engines[0].load("panics", panics).unwrap();
    let (load, _control) = Fake::loader(shape(2, 8, 64), Arc::new(hashed));
    let idle = engines[0]
        .load("idle", source(load, ModelOptions::default()))
        .unwrap();
    // Nobody is given up before all were asked.
    control.hold();
    let pending: Vec<Pending> = asks(8, 12).iter().map(|ask| ask.of(&panicking)).collect();
    control.entered();
    now.store(u64::MAX, Ordering::SeqCst);
    control.run_free();
    for pending in &pending {
        assert!(matches!(pending.error(), ModelError::Device(_)));
    }
    until(|| panicking.stats().closed);
    assert_eq!(control.loads(), 8);
    let still = ask("still", 5);
    assert_eq!(still.of(&idle).choice().tokens, alone(&still, 64).0);
    assert!(!idle.stats().closed);
}

#[test]
fn a_replica_that_is_loaded_too_late_is_tried_again_with_its_memory() {
    let options = EngineOptions {
        memory_budget: 250,
        load_limit: Duration::from_secs(5),
        pauses: Pauses {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(1),
        },
        ..EngineOptions::default()
    };
    let engines = engines_with(2, options);
    let hangs = Arc::new(AtomicBool::new(false));
    let (goes_on, gate) = bounded::<()>(1);
    let (sources, controls): (Vec<ModelSource>, Vec<Control>) = (0..2)
        .map(|number| {
            let (load, control) = Fake::loader(shape(8, 64, 256), Arc::new(hashed));
            let ModelLoader::Decoder(mut load) = load else {
                unreachable!("a decoder")
            };
            let (hangs, gate) = (Arc::clone(&hangs), gate.clone());
            let load = move || -> Result<Box<dyn Decoder>, String> {
                if hangs.swap(false, Ordering::SeqCst) {
                    let _ = gate.recv_timeout(LIMIT);
                }
                load()
            };
            let mut source = source(ModelLoader::Decoder(Box::new(load)), at_once(2));
            source.facts.adapter = format!("device {number}");
            (source, control)
        })
        .unzip();
    let model = load_replicas("m", engines.iter().zip(sources).collect(), &[]).unwrap();
    controls[0].hold();
    let asked = ask("request", 12);
    let pending = asked.of(&model);
    controls[0].entered();
    hangs.store(true, Ordering::SeqCst);
    controls[0].then(Then::Fail(lost()));
    controls[0].run_free();
    check(&asked, &pending);
    let reason = "the model was not loaded again within 5s";
    until(|| matches!(replica(&model, 0).standing, ReplicaStanding::LeftOut(why) if why == reason));
    until(|| engines[0].stats().used == 100);
    goes_on.send(()).unwrap();
    until(|| model.stats().reloads == 1);
    assert!(all_serve(&model));
    assert_eq!(engines[0].stats().used, 200);
    assert_eq!((controls[0].loads(), model.stats().reloads), (3, 1));
    for ask in asks(4, 12) {
        check(&ask, &ask.of(&model));
    }
}

#[test]
fn a_cancellation_follows_a_request_whose_model_has_other_replicas_than_the_first_that_relieved() {
    let engines = engines_with(3, soon_stalled());
    let fake = || {
        let (load, control) = Fake::loader(shape(8, 64, 256), Arc::new(hashed));
        (source(load, at_once(2)), control)
    };
    let [
        (first, held),
        (second, _free),
        (third, _other),
        (fourth, late),
    ] = [(); 4].map(|()| fake());
    let here = vec![(&engines[0], first), (&engines[1], second)];
    let here = load_replicas("here", here, &[]).unwrap();
    let there = vec![(&engines[0], third), (&engines[2], fourth)];
    let there = load_replicas("there", there, &[]).unwrap();
    held.hold();
    late.hold();
    let others = asks(4, 12);
    let pending: Vec<Pending> = others.iter().map(|ask| ask.of(&here)).collect();
    held.entered();
    let cancelled: Vec<Pending> = asks(4, 200).iter().map(|ask| ask.of(&there)).collect();
    late.entered();
    for cancelled in &cancelled {
        there.cancel(cancelled.id);
    }
    // The one that relieves it first has nothing to do with what was cancelled.
    for (ask, pending) in others.iter().zip(&pending) {
        check(ask, pending);
    }
    assert!(cancelled.iter().all(|cancelled| !cancelled.has_ended()));
    late.run_free();
    for cancelled in &cancelled {
        assert_eq!(cancelled.error(), ModelError::Cancelled);
    }
    held.run_free();
    until(|| all_serve(&here) && all_serve(&there));
}

#[test]
fn no_more_cancellations_wait_than_may_where_requests_have_moved() {
    const MOST: usize = 1 << 16;
    let (engines, model, controls) = two_with(EngineOptions::default(), 2);
    pretend_costs(&model, [20_000, 1000, 1000]);
    controls[0].hold();
    let asks = asks(4, 12);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[0].entered();
    controls[0].then(Then::Fail(lost()));
    controls[0].run_free();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    until(|| all_serve(&model));
    assert!(model.stats().moved > 0);
    let gone: Vec<RequestId> = pending.iter().map(|pending| pending.id).collect();
    for control in &controls {
        control.hold();
    }
    // Whatever their steps were measured to take, the more the first has the sooner the other has one.
    let replicas = model.replicas_for_tests().into_iter();
    let mut there = replicas.filter(|replica| &*replica.facts.adapter == "device 1");
    let there = there.next().unwrap();
    let mut pending = Vec::new();
    while there.load.answers() == 0 {
        pending.push(asks[0].of(&model));
    }
    controls[1].entered();
    controls[0].run_free();
    for gone in gone.iter().cycle().take(MOST + 1000) {
        model.cancel(*gone);
        model.end(*gone);
    }
    until(|| engines[0].commands() == 0);
    let waiting = engines[1].commands();
    assert!((MOST..MOST + 100).contains(&waiting), "{waiting}");
    controls[1].run_free();
    for pending in &pending {
        check(&asks[0], pending);
    }
}

/// What is said of a request while it moves, and how it ends.
fn ends_or_cancels(model: &ModelHandle, asked: &Pending, ends: bool) {
    match ends {
        true => model.end(asked.id),
        false => model.cancel(asked.id),
    }
}

fn has_ended_early(asked: &Pending, ends: bool) {
    match ends {
        true => assert_eq!(asked.choice().finish, tidegate_contract::Finish::Filtered),
        false => assert_eq!(asked.error(), ModelError::Cancelled),
    }
}

#[test]
fn what_is_said_of_a_request_follows_where_it_moves_meanwhile() {
    for ends in [false, true] {
        let (engines, model, controls) = two_with(EngineOptions::default(), 2);
        pretend_costs(&model, [20_000, 1000, 1000]);
        controls.iter().for_each(Control::hold);
        let asked = ask("it moves", 200).of(&model);
        controls[0].entered();
        let other = ask("another", 12);
        let beside = other.of(&model);
        controls[1].entered();
        ends_or_cancels(&model, &asked, ends);
        // It is said in both, then the request comes, and after it what was said in the first.
        controls[0].run_free_after(Then::Fail(lost()));
        until(|| engines[1].commands() >= 3);
        controls[1].run_free_after(Then::Run);
        has_ended_early(&asked, ends);
        check(&other, &beside);
        assert_eq!(model.stats().moved, 1);
    }
}

#[test]
fn what_is_said_of_a_request_follows_it_back() {
    for ends in [false, true] {
        let (engines, model, controls) = two_with(EngineOptions::default(), 2);
        pretend_costs(&model, [20_000, 1000, 1000]);
        let replicas = model.replicas_for_tests();
        let load_of = |name: &str| {
            let mut of_it = replicas.iter().filter(|one| &*one.facts.adapter == name);
            &of_it.next().unwrap().load
        };
        let (first, second) = (load_of("device 0"), load_of("device 1"));
        controls.iter().for_each(Control::hold);
        let short = ask("short", 12);
        let mut beside = vec![short.of(&model)];
        controls[0].entered();
        // It waits in the first, whose device is lost with another.
        let mut asked = ask("it moves", 200).of(&model);
        while first.answers() < 2 {
            beside.push(short.of(&model));
            model.cancel(asked.id);
            asked = ask("it moves", 200).of(&model);
        }
        controls[0].run_free_after(Then::Fail(lost()));
        // It is in a step of the second, and the first serves again, with something to do.
        controls[1].entered();
        while !beside.iter().all(Pending::has_ended) {
            controls[1].then(Then::Run);
            controls[1].entered();
        }
        until(|| model.stats().reloads == 1);
        controls[0].hold();
        while first.answers() == 0 {
            beside.push(short.of(&model));
        }
        controls[0].entered();
        let (before, moves) = (engines[0].commands(), second.answers() as usize);
        ends_or_cancels(&model, &asked, ends);
        controls[1].run_free_after(Then::Fail(lost()));
        // What was said there, the requests themselves, and what was said in the second.
        until(|| engines[0].commands() >= before + moves + 2);
        controls[0].run_free_after(Then::Run);
        has_ended_early(&asked, ends);
        for beside in &beside {
            check(&short, beside);
        }
    }
}

#[test]
fn an_engine_is_told_once_of_what_has_not_come_to_it() {
    let engines = engines(3);
    let sizes = shape(8, 64, 256);
    let logits: Arc<Logits> = Arc::new(hashed);
    let (model, controls) = load(&engines, &sizes, &logits, || at_once(2));
    let model = model.unwrap();
    pretend_costs(&model, [20_000, 1000, 1000]);
    // Requests have gone from each to the others.
    let asks = asks(9, 12);
    for goes in 0..controls.len() {
        controls.iter().for_each(Control::hold);
        let moved = model.stats().moved;
        let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
        for (number, control) in controls.iter().enumerate() {
            control.entered();
            control.run_free_after(match number == goes {
                true => Then::Fail(lost()),
                false => Then::Run,
            });
        }
        for (ask, pending) in asks.iter().zip(&pending) {
            check(ask, pending);
        }
        until(|| all_serve(&model) && model.stats().moved > moved);
    }
    controls[2].hold();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[2].entered();
    let before = engines[2].commands();
    for n in 1..=8 {
        model.cancel(RequestId((1 << 50) + n));
        // What they have to send is sent when they come to the next.
        until(|| engines[0].commands() == 0 && engines[1].commands() == 0);
        assert_eq!(engines[2].commands(), before + n as usize);
    }
    controls[2].run_free_after(Then::Run);
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
}

#[test]
fn a_replica_whose_engine_has_ended_is_left_out_and_asked_nothing() {
    let (engines, model, _controls) = two_with(EngineOptions::default(), 2);
    engines[0].close();
    let is_out = |standing: ReplicaStanding| matches!(standing, ReplicaStanding::LeftOut(reason) if reason == "its engine has ended");
    until(|| is_out(replica(&model, 0).standing));
    for ask in asks(4, 6) {
        assert_eq!(check(&ask, &ask.of(&model)), "device 1");
    }
    assert!(!model.stats().away);
    engines[1].close();
    until(|| model.stats().away);
}

#[test]
fn requests_that_wait_for_replaced_replicas_are_counted_whichever_is_left() {
    let engines = engines(2);
    let sizes = shape(8, 64, 256);
    let logits: [Arc<Logits>; 2] = [Arc::new(hashed), Arc::new(other)];
    let (model, controls) = load(&engines, &sizes, &logits[0], || at_once(1));
    let model = model.unwrap();
    for control in &controls {
        control.hold();
    }
    let asks = asks(6, 100);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[0].run_free();
    until(|| answered(&model)[0] == 3);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&engines, &sizes, &logits[1], || at_once(1)).0);
        while !loading.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            // It takes what it is told between two steps, and has only so many of them.
            if engines[1].commands() > 0 {
                controls[1].step();
            }
        }
        loading.join().unwrap().unwrap()
    });
    // The first is gone, and the other has one that runs.
    until(|| model.stats().replaced.memory == 100);
    let replaced = model.stats().replaced;
    assert_eq!((replaced.running, replaced.waiting), (1, 2), "{replaced:?}");
    controls[1].run_free();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    until(|| model.stats().replaced.memory == 0);
    assert_eq!(model.stats().replaced.waiting, 0);
}
