//! A model on several engines: who answers, and what becomes of those whose engine can do no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_contract::{
    DecodeError, Decoder, DecoderShape, Model, ModelError, Sampled, StepSequence,
};

use super::support::*;
use crate::{
    Engine, EngineOptions, LoadError, ModelHandle, ModelLoader, ModelOptions, ModelSource, Pin,
    ReplicaStanding, load_replicas,
};

pub(super) fn until(what: impl Fn() -> bool) {
    for _ in 0..6000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to be");
}

pub(super) fn all_serve(model: &ModelHandle) -> bool {
    let replicas = model.stats().replicas;
    (replicas.iter()).all(|one| one.standing == ReplicaStanding::Serves)
}

pub(super) fn engines(count: usize) -> Vec<Engine> {
    let options = EngineOptions {
        memory_budget: 1000,
        ..EngineOptions::default()
    };
    engines_with(count, options)
}

pub(super) fn engines_with(count: usize, options: EngineOptions) -> Vec<Engine> {
    let first = Engine::start(options);
    let others: Vec<Engine> = (1..count).map(|_| first.start_beside()).collect();
    std::iter::once(first).chain(others).collect()
}

pub(super) fn other(history: &[u32], logits: &mut [f32]) {
    hashed(history, logits);
    logits.reverse();
}

pub(super) fn lost() -> DecodeError {
    DecodeError::DeviceLost {
        reason: "it went away".into(),
    }
}

/// A model with a replica on each of these.
pub(super) fn load(
    engines: &[Engine],
    shape: &DecoderShape,
    logits: &Arc<Logits>,
    options: impl Fn() -> ModelOptions,
) -> (Result<ModelHandle, LoadError>, Vec<Control>) {
    let (sources, controls): (Vec<ModelSource>, Vec<Control>) = engines
        .iter()
        .enumerate()
        .map(|(number, _)| {
            let (load, control) = Fake::loader(shape.clone(), Arc::clone(logits));
            let mut source = source(load, options());
            source.facts.adapter = format!("device {number}");
            (source, control)
        })
        .unzip();
    let model = load_replicas("m", engines.iter().zip(sources).collect(), &[]);
    (model, controls)
}

/// Has steps of all replicas taken to cost this, whatever they take: on a busy machine, where one may stand still in any of
/// its first steps, what was measured says nothing of whom requests go to.
pub(super) fn pretend_costs(model: &ModelHandle, costs: [u64; 3]) {
    for replica in model.replicas_for_tests() {
        replica.load.pretend_costs(costs);
    }
}

pub(super) fn two(sequences: usize) -> (Vec<Engine>, ModelHandle, Vec<Control>) {
    let engines = engines(2);
    let hashed: Arc<Logits> = Arc::new(hashed);
    let sizes = shape(8, 64, 256);
    let (model, controls) = load(&engines, &sizes, &hashed, || at_once(sequences));
    (engines, model.unwrap(), controls)
}

/// A decoder whose steps take a while for each row.
struct Paced(Box<dyn Decoder>);

impl Decoder for Paced {
    fn shape(&self) -> &DecoderShape {
        self.0.shape()
    }

    fn memory(&self) -> u64 {
        self.0.memory()
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        let rows: usize = step.iter().map(|sequence| sequence.tokens.len()).sum();
        std::thread::sleep(Duration::from_micros(200) * rows as u32);
        self.0.step(step, sampled)
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.0.logits(step, logits)
    }
}

fn paced(engines: &[Engine]) -> (ModelHandle, Vec<Control>) {
    let (sources, controls): (Vec<ModelSource>, Vec<Control>) = engines
        .iter()
        .map(|_| {
            let (load, control) = Fake::loader(shape(8, 64, 256), Arc::new(hashed));
            let ModelLoader::Decoder(mut load) = load else {
                unreachable!("a decoder")
            };
            let load = move || -> Result<Box<dyn Decoder>, String> { Ok(Box::new(Paced(load()?))) };
            let options = ModelOptions {
                look_ahead: 0,
                ..at_once(4)
            };
            (
                source(ModelLoader::Decoder(Box::new(load)), options),
                control,
            )
        })
        .unzip();
    let model = load_replicas("m", engines.iter().zip(sources).collect(), &[]).unwrap();
    pretend_costs(&model, [20_000, 200_000, 200_000]);
    (model, controls)
}

/// Whether an answer is the one that it has alone, and was handed on once, token by token. Gives where it was made.
pub(super) fn check(ask: &Ask, pending: &Pending) -> String {
    let (handed_on, result) = pending.wait();
    let answer = result.unwrap();
    let tidegate_contract::Made::Choices(choices) = answer.made else {
        panic!("no choices");
    };
    for (number, choice) in choices.iter().enumerate() {
        let (tokens, finish) = choice_alone(ask, number as u32, 256, &hashed);
        assert_eq!(
            (&choice.tokens, choice.finish),
            (&tokens, finish),
            "{ask:?}"
        );
    }
    let wanted: Vec<(u32, u32)> = (0..).zip(choices[0].tokens.iter().copied()).collect();
    let handed_on: Vec<(u32, u32)> = handed_on.iter().map(|(i, t, _)| (*i, *t)).collect();
    assert_eq!(handed_on, wanted, "each once and in order");
    answer.adapter
}

#[test]
fn replicas_step_side_by_side_and_answer_as_one_does() {
    let mut dice = Dice(21);
    let asks: Vec<Ask> = (0..24)
        .map(|_| {
            let mut ask = dice.ask(60, 30);
            ask.parameters.n = 1;
            ask.parameters.max_tokens = 30;
            ask
        })
        .collect();
    for count in [1, 2] {
        let engines = engines(count);
        let logits: Arc<Logits> = Arc::new(hashed);
        let (model, controls) = load(&engines, &shape(8, 64, 256), &logits, || at_once(3));
        let model = model.unwrap();
        for control in &controls {
            control.hold();
        }
        let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
        for _ in 0..4 {
            // Each is in a step before any may end its own.
            for control in &controls {
                control.entered();
            }
            for control in &controls {
                control.then(Then::Run);
            }
        }
        for control in &controls {
            control.run_free();
        }
        for (ask, pending) in asks.iter().zip(&pending) {
            check(ask, pending);
        }
        let stats = model.stats();
        assert_eq!((stats.answered, stats.failed), (24, 0));
        let answered = stats.replicas.iter().map(|replica| replica.answered);
        let answered: Vec<u64> = answered.collect();
        match count {
            1 => assert!(answered.is_empty(), "{stats:?}"),
            _ => assert!(
                answered.iter().all(|one| (8..=16).contains(one)),
                "{answered:?}"
            ),
        }
        let steps: u64 = stats.replicas.iter().map(|replica| replica.steps).sum();
        assert!(count == 1 || steps == stats.steps, "{stats:?}");
        until(|| model.stats().running == 0);
        for replica in model.replicas_for_tests() {
            until(|| replica.load.answers() == 0);
        }
    }
}

#[test]
fn what_a_few_steps_took_does_not_decide_who_is_asked() {
    let (_engines, model, controls) = two(2);
    for control in &controls {
        control.hold();
    }
    let first = [ask("first", 3), ask("second", 20)];
    let pending = first.each_ref().map(|ask| ask.of(&model));
    for control in &controls {
        control.entered();
    }
    // As a first step that compiles kernels does.
    std::thread::sleep(Duration::from_millis(300));
    for control in &controls {
        control.run_free();
    }
    for (ask, pending) in first.iter().zip(&pending) {
        check(ask, pending);
    }
    let steps: Vec<u64> = controls.iter().map(Control::steps).collect();
    assert!(steps[0] < 8 && steps[1] > 8, "{steps:?}");
    for replica in model.replicas_for_tests() {
        until(|| replica.load.answers() == 0);
    }
    let next = ask("third", 3);
    assert_eq!(check(&next, &next.of(&model)), "device 0");
}

#[test]
fn a_prompt_goes_where_its_beginning_is_unless_much_is_to_be_done_there() {
    let engines = engines(2);
    let (model, controls) = paced(&engines);
    let beginning = |of: &str| format!("all that begin like {of} go together ").repeat(4);
    let (one, another) = (beginning("one"), beginning("another"));
    for control in &controls {
        control.hold();
    }
    let first = [ask(&one, 3).of(&model), ask(&another, 3).of(&model)];
    for control in &controls {
        control.run_free();
    }
    for pending in &first {
        pending.answer();
    }
    let hits = || -> Vec<u64> {
        let stats = model.stats().replicas;
        stats
            .iter()
            .map(|replica| replica.prefix_hit_tokens)
            .collect()
    };
    assert_eq!(hits(), [0, 0]);
    for turn in 0..4 {
        for (at, beginning) in [(0, &one), (1, &another)] {
            let before = hits();
            let asked = ask(&format!("{beginning}{turn}"), 3);
            check(&asked, &asked.of(&model));
            let after = hits();
            assert!(after[at] >= before[at] + 128, "{before:?} {after:?}");
            assert_eq!(after[1 - at], before[1 - at], "{turn}");
        }
    }
    let answered: Vec<u64> = (model.stats().replicas.iter())
        .map(|one| one.answered)
        .collect();
    assert_eq!(answered, [5, 5]);
    // Where much is to be done, the beginning is computed once more.
    controls[0].hold();
    let asks: Vec<Ask> = (0..24).map(|n| ask(&format!("{one}busy {n}"), 8)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    until(|| model.stats().replicas[1].answered > 5);
    controls[0].run_free();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    let answered: Vec<u64> = (model.stats().replicas.iter())
        .map(|one| one.answered)
        .collect();
    assert!(answered.iter().all(|one| *one > 5), "{answered:?}");
}

#[test]
fn what_a_lost_replica_had_goes_on_in_the_other_and_the_last_one_ends_the_model() {
    for error in [
        lost(),
        DecodeError::OutOfMemory {
            reason: "too much".into(),
        },
    ] {
        let (engines, model, controls) = two(3);
        let mut dice = Dice(33);
        for control in &controls {
            control.hold();
        }
        let asks: Vec<Ask> = (0..16)
            .map(|_| {
                let mut ask = dice.ask(60, 30);
                ask.parameters.max_tokens = 24;
                ask
            })
            .collect();
        let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
        for _ in 0..6 {
            controls[0].step();
        }
        controls[0].entered();
        controls[0].fail_loads(u64::MAX);
        controls[0].then(Then::Fail(error.clone()));
        controls[1].run_free();
        // An answer says where it was made: here or there, or here and then there.
        let made: Vec<String> = (asks.iter().zip(&pending))
            .map(|(ask, pending)| check(ask, pending))
            .collect();
        let on = |place: &str| made.iter().filter(|made| *made == place).count();
        let [moved, there] = ["device 0, device 1", "device 1"].map(on);
        assert!(moved > 0 && there > 0, "{made:?}");
        assert_eq!(moved + there + on("device 0"), 16, "{made:?}");
        let stats = model.stats();
        assert_eq!((stats.answered, stats.failed), (16, 0), "{stats:?}");
        assert!(stats.moved >= 4 && stats.retried >= 1, "{stats:?}");
        let moved = |adapter: &str| {
            let mut replicas = stats.replicas.iter();
            replicas.find(|one| one.adapter == adapter).unwrap().moved
        };
        assert_eq!((moved("device 0"), moved("device 1")), (0, stats.moved));
        until(|| {
            let replicas = model.stats().replicas;
            matches!(&replicas[0].standing, ReplicaStanding::LeftOut(reason) if reason.contains("the driver restarts"))
        });
        let stats = model.stats();
        // Each keeps the place by which it is counted.
        let [gone, stays] = &stats.replicas[..] else {
            panic!("{stats:?}");
        };
        assert_eq!(
            (stays.adapter.as_str(), &stays.standing),
            ("device 1", &ReplicaStanding::Serves)
        );
        assert_eq!((gone.adapter.as_str(), gone.memory), ("device 0", 0));
        // What it has done is not forgotten.
        assert_eq!(stats.answered, 16);
        assert_eq!(model.facts().adapter, "device 1");
        let again = ask("after that", 6);
        check(&again, &again.of(&model));
        controls[0].is_sound();
        // The last one: as a model that has no other.
        controls[1].fail_loads(u64::MAX);
        controls[1].refuse(|_| Some(lost()));
        let last = ask("the last", 6).of(&model);
        assert!(matches!(last.error(), ModelError::Device(_)));
        let (request, _) = ask("too late", 1).request();
        let Err((_, error)) = model.submit(request) else {
            panic!("it takes requests")
        };
        assert_eq!(error, ModelError::Closed);
        assert!(model.stats().closed);
        until(|| engines[0].stats().used == 0);
    }
}

#[test]
fn a_replica_that_was_away_is_back_when_it_was_loaded_again() {
    let engines = engines(2);
    let (model, controls) = paced(&engines);
    for control in &controls {
        control.hold();
    }
    let asks: Vec<Ask> = (0..8).map(|n| ask(&format!("request {n}"), 12)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    controls[0].step();
    controls[0].entered();
    controls[0].then(Then::Panic);
    controls[0].run_free();
    controls[1].run_free();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    until(|| model.stats().reloads == 1);
    let stats = model.stats();
    assert!(stats.moved >= 3, "{stats:?}");
    let standings = stats.replicas.iter().map(|one| one.standing.clone());
    assert!(standings.eq([ReplicaStanding::Serves, ReplicaStanding::Serves]));
    let before: Vec<u64> = stats.replicas.iter().map(|one| one.answered).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    let after: Vec<u64> = (model.stats().replicas.iter())
        .map(|one| one.answered)
        .collect();
    assert!(
        after[0] > before[0] && after[1] > before[1],
        "{before:?} {after:?}"
    );
}

#[test]
fn where_all_are_away_requests_wait_for_the_first_that_is_back() {
    let (_engines, model, controls) = two(3);
    for control in &controls {
        control.hold();
    }
    let asks: Vec<Ask> = (0..6).map(|n| ask(&format!("request {n}"), 12)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    // One comes back at once, the other never.
    controls[1].fail_loads(u64::MAX);
    for control in &controls {
        control.entered();
    }
    for control in &controls {
        control.then(Then::Fail(lost()));
        control.run_free();
    }
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    assert_eq!(model.stats().failed, 0);
}

#[test]
fn one_request_that_takes_every_device_down_takes_no_other_along() {
    let (_engines, model, controls) = two(4);
    for control in &controls {
        control.refuse(|step| {
            let poison = prompt("poison");
            let has = |tokens: &[u32]| tokens.windows(6).any(|window| poison.ends_with(window));
            step.iter().any(|one| has(&one.tokens)).then(lost)
        });
    }
    let asks: Vec<Ask> = (0..6).map(|n| ask(&format!("request {n}"), 12)).collect();
    let poison = ask("poison", 12).of(&model);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    assert!(matches!(poison.error(), ModelError::Device(_)));
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
}

#[test]
fn one_that_cannot_be_loaded_is_left_out_and_what_fits_nowhere_is_refused() {
    let engines = engines(2);
    let numbers: Arc<Logits> = Arc::new(hashed);
    let fake = |logits: &Arc<Logits>| {
        let (load, control) = Fake::loader(shape(2, 8, 64), Arc::clone(logits));
        (source(load, ModelOptions::default()), control)
    };
    let (good, _one) = fake(&numbers);
    let nothing: Arc<Logits> = Arc::new(|_: &[u32], logits: &mut [f32]| logits.fill(f32::NAN));
    let (broken, _two) = fake(&nothing);
    let model = load_replicas("m", vec![(&engines[0], broken), (&engines[1], good)], &[]).unwrap();
    let stats = model.stats();
    assert_eq!(stats.replicas.len(), 2);
    let ReplicaStanding::LeftOut(reason) = &stats.replicas[0].standing else {
        panic!("{stats:?}");
    };
    assert!(reason.contains("fails its first step"), "{reason}");
    let asked = ask("still", 5);
    assert_eq!(asked.of(&model).choice().tokens, alone(&asked, 64).0);
    let (one, _one) = fake(&nothing);
    let (two, _two) = fake(&nothing);
    let error = load_replicas("n", vec![(&engines[0], one), (&engines[1], two)], &[]).unwrap_err();
    assert!(matches!(error, LoadError::NotFinite { .. }), "{error}");
    // The budget is of both.
    let (one, _one) = fake(&numbers);
    let (mut two, _two) = fake(&numbers);
    two.bytes = 950;
    let error = load_replicas("n", vec![(&engines[0], one), (&engines[1], two)], &[]).unwrap_err();
    assert!(
        matches!(error, LoadError::Budget { needed: 950, .. }),
        "{error}"
    );
    until(|| engines[0].stats().used == 100);
    let (one, _one) = fake(&numbers);
    let (load, _two) = Fake::loader(shape(2, 8, 32), Arc::clone(&numbers));
    let two = source(load, ModelOptions::default());
    let error = load_replicas("n", vec![(&engines[0], one), (&engines[1], two)], &[]).unwrap_err();
    assert!(matches!(error, LoadError::Unlike { .. }), "{error}");
    let error = load_replicas("n", Vec::new(), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model n has no replica: name an engine at least"
    );
    until(|| engines[0].stats().used == 100);
    assert!(engines[0].model("n").is_none());
}

#[test]
fn swaps_replace_all_replicas_and_lose_no_request() {
    let engines = engines(2);
    let sizes = shape(2, 8, 64);
    let logits: [Arc<Logits>; 2] = [Arc::new(hashed), Arc::new(other)];
    let (model, _controls) = load(&engines, &sizes, &logits[0], ModelOptions::default);
    let model = model.unwrap();
    let wanted = |ask: &Ask| [alone(ask, 64).0, choice_alone(ask, 0, 64, &other).0];
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for turn in 1..=10 {
                let (model, _controls) =
                    load(&engines, &sizes, &logits[turn % 2], ModelOptions::default);
                let model = model.unwrap();
                // From here on nothing is of the one before, on whichever engine.
                let asks: Vec<Ask> = (0..4).map(|n| ask(&format!("{turn} {n}"), 5)).collect();
                let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
                for (ask, pending) in asks.iter().zip(&pending) {
                    let tokens = pending.choice().tokens;
                    assert_eq!(tokens, wanted(ask)[turn % 2], "turn {turn}");
                }
            }
        });
        let mut asked = 0;
        while !swaps.is_finished() || asked < 60 {
            let asks: Vec<Ask> = (0..6)
                .map(|n| ask(&format!("request {asked} {n}"), 6))
                .collect();
            let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
            for (ask, pending) in asks.iter().zip(&pending) {
                assert!(wanted(ask).contains(&pending.choice().tokens));
            }
            asked += 6;
        }
    });
    until(|| engines[0].stats().used == 200);
    engines[0].unload("m").unwrap();
    until(|| engines[0].stats().used == 0);
}

#[test]
fn a_request_is_cancelled_and_ended_on_whichever_replica_it_is() {
    let (_engines, model, controls) = two(4);
    for control in &controls {
        control.hold();
    }
    let pending: Vec<Pending> = (0..4)
        .map(|n| ask(&format!("request {n}"), 100).of(&model))
        .collect();
    for control in &controls {
        control.step();
        control.step();
        control.entered();
    }
    for (at, pending) in pending.iter().enumerate() {
        match at % 2 {
            0 => model.cancel(pending.id),
            _ => model.end(pending.id),
        }
    }
    for control in &controls {
        control.run_free();
    }
    for (at, pending) in pending.iter().enumerate() {
        match at % 2 {
            0 => assert_eq!(pending.error(), ModelError::Cancelled),
            _ => assert!(pending.choice().tokens.len() < 100),
        }
    }
    until(|| model.stats().blocks_used == 0);
    for replica in model.replicas_for_tests() {
        until(|| replica.load.answers() == 0);
    }
}

#[test]
fn what_is_pinned_is_pinned_on_each_and_the_queue_is_of_all() {
    let engines = engines(2);
    let beginning = "what all prompts of the stage begin with ".repeat(3);
    let numbers: Arc<Logits> = Arc::new(hashed);
    let options = || ModelOptions {
        queue: 3,
        pins: vec![Pin {
            stage: "answer".into(),
            lora: 0,
            tokens: prompt(&beginning),
        }],
        ..at_once(1)
    };
    let (model, controls) = load(&engines, &shape(8, 4096, 256), &numbers, options);
    let model = model.unwrap();
    let blocks = prompt(&beginning).len() / 16;
    assert_eq!(model.stats().blocks_pinned, 2 * blocks);
    for control in &controls {
        control.hold();
    }
    let asks: Vec<Ask> = (0..5).map(|n| ask(&format!("{beginning}{n}"), 4)).collect();
    let mut pending = vec![asks[0].of(&model), asks[1].of(&model)];
    // A step of each is under way: they have left the queue.
    for control in &controls {
        control.entered();
    }
    pending.extend(asks[2..].iter().map(|ask| ask.of(&model)));
    assert_eq!(model.stats().waiting, 3);
    let (request, _) = ask("one too many", 1).request();
    let Err((_, error)) = model.submit(request) else {
        panic!("it takes more")
    };
    assert_eq!(error, ModelError::Full { limit: 3 });
    for control in &controls {
        control.then(Then::Run);
        control.run_free();
    }
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending);
    }
    let hits = model.stats().prefix_hit_tokens as usize;
    assert!(hits >= 5 * 16 * blocks, "{hits}");
    assert!(model.stats().replicas.iter().all(|one| one.answered > 0));
}

#[test]
fn replicas_are_loaded_side_by_side() {
    let engines = engines(3);
    let begun = Arc::new(AtomicUsize::new(0));
    let replicas = engines.iter().map(|engine| {
        let (load, _control) = Fake::loader(shape(2, 8, 64), Arc::new(hashed));
        let ModelLoader::Decoder(mut load) = load else {
            unreachable!("a decoder")
        };
        let begun = Arc::clone(&begun);
        let waits = move || -> Result<Box<dyn Decoder>, String> {
            begun.fetch_add(1, Ordering::SeqCst);
            // None ends before all have begun.
            until(|| begun.load(Ordering::SeqCst) == 3);
            load()
        };
        let load = ModelLoader::Decoder(Box::new(waits));
        (engine, source(load, ModelOptions::default()))
    });
    let model = load_replicas("m", replicas.collect(), &[]).unwrap();
    assert_eq!(model.stats().replicas.len(), 3);
    assert!(all_serve(&model));
}
