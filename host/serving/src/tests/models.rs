//! Several models on one engine: loaded, replaced, unloaded, refused.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    CLASS_BESIDE, DecodeError, Decoder, DecoderShape, Model, ModelError, Sampled, StepSequence,
    Structure,
};

use super::support::*;
use crate::{Draft, Engine, EngineOptions, LoadError, ModelLoader, ModelOptions, ModelSource};

/// Longest wait for what the engine does by itself.
fn until(what: impl Fn() -> bool) {
    for _ in 0..6000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to be");
}

fn budget(memory_budget: u64) -> Engine {
    Engine::start(EngineOptions {
        memory_budget,
        ..EngineOptions::default()
    })
}

fn other(history: &[u32], logits: &mut [f32]) {
    hashed(history, logits);
    logits.reverse();
}

fn fake(logits: Arc<Logits>) -> (ModelSource, Control) {
    let (load, control) = Fake::loader(shape(2, 8, 64), logits);
    (source(load, ModelOptions::default()), control)
}

#[test]
fn old_requests_finish_on_the_old_model_and_new_ones_go_to_the_new() {
    let engine = budget(200);
    let (old, control) = fake(Arc::new(hashed));
    let model = engine.load("m", old).unwrap();
    control.hold();
    let asks: Vec<Ask> = (0..5).map(|n| ask(&format!("old {n}"), 12)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for _ in 0..3 {
        control.step();
    }
    let (new, new_control) = fake(Arc::new(other));
    let handle = std::thread::scope(|scope| {
        let loading = scope.spawn(|| engine.load("m", new));
        // Loading goes on while a step of the old one runs; then the new one is put in between two steps.
        control.entered();
        until(|| new_control.steps() > 0);
        control.then(Then::Run);
        while !loading.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            // It takes what it is told between two steps, and has only so many of them.
            if engine.commands() > 0 {
                control.step();
            }
        }
        loading.join().unwrap().unwrap()
    });
    assert_eq!(engine.stats().used, 200);
    assert!(!pending[4].has_ended(), "the old one still has work");
    let replaced = model.stats().replaced;
    assert_eq!(replaced.memory, 100);
    assert!(replaced.running + replaced.waiting > 0, "{replaced:?}");
    let after = ask("new", 12);
    // Also the handle that was there before.
    let answers = [after.of(&model), after.of(&handle)];
    control.run_free();
    for pending in &answers {
        assert_eq!(
            pending.choice().tokens,
            choice_alone(&after, 0, 64, &other).0
        );
    }
    for (ask, pending) in asks.iter().zip(&pending) {
        assert_eq!(pending.choice().tokens, alone(ask, 64).0);
    }
    until(|| engine.stats().used == 100);
    until(|| model.stats().replaced.memory == 0);
    let gone = model.stats().replaced;
    assert_eq!((gone.running, gone.waiting), (0, 0));
    // It had made a few of them before.
    let made: usize = (asks.iter().map(|ask| alone(ask, 64).0.len())).sum();
    assert!(gone.tokens > 0 && gone.tokens <= made as u64, "{gone:?}");
    assert_eq!(engine.stats().models.len(), 1);
    control.is_sound();
}

#[test]
fn swaps_while_requests_flow_lose_none() {
    let engine = Arc::new(budget(u64::MAX));
    let (first, _control) = fake(Arc::new(hashed));
    let model = engine.load("m", first).unwrap();
    let wanted = |ask: &Ask| [alone(ask, 64).0, choice_alone(ask, 0, 64, &other).0];
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for turn in 0..20 {
                let logits: Arc<Logits> = match turn % 2 {
                    0 => Arc::new(other),
                    _ => Arc::new(hashed),
                };
                engine.load("m", fake(logits).0).unwrap();
            }
        });
        let mut asked = 0;
        while !swaps.is_finished() || asked < 100 {
            let ask = ask(&format!("request {asked}"), 6);
            let tokens = ask.of(&model).choice().tokens;
            assert!(wanted(&ask).contains(&tokens));
            asked += 1;
        }
    });
    until(|| engine.stats().used == 100);
}

#[test]
fn an_unloaded_model_finishes_what_it_has() {
    let engine = budget(100);
    let (one, control) = fake(Arc::new(hashed));
    let model = engine.load("m", one).unwrap();
    control.hold();
    let asks: Vec<Ask> = (0..3).map(|n| ask(&format!("ask {n}"), 5)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    control.entered();
    engine.unload("m").unwrap();
    let (request, _) = ask("late", 1).request();
    let Err((_, error)) = model.submit(request) else {
        panic!("nothing stands there")
    };
    assert_eq!(error, ModelError::Unknown("m".into()));
    assert_eq!(engine.unload("m"), Err(ModelError::Unknown("m".into())));
    assert_eq!(
        engine.unload("never"),
        Err(ModelError::Unknown("never".into()))
    );
    control.run_free();
    for (ask, pending) in asks.iter().zip(&pending) {
        assert_eq!(pending.choice().tokens, alone(ask, 64).0);
    }
    until(|| engine.stats().used == 0);
    // The handle follows the name.
    engine.load("m", fake(Arc::new(other)).0).unwrap();
    assert!(asks[0].of(&model).wait().1.is_ok());
}

#[test]
fn a_model_that_does_not_fit_is_refused_by_the_bytes() {
    let engine = budget(250);
    engine.load("a", fake(Arc::new(hashed)).0).unwrap();
    engine.load("b", fake(Arc::new(hashed)).0).unwrap();
    let (third, control) = fake(Arc::new(hashed));
    let error = engine.load("c", third).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model c needs 100 bytes, 50 of the budget of 250 are free"
    );
    assert_eq!(control.loads(), 0, "nothing was loaded");
    // One that turns out larger than it said is refused after it was loaded, and leaves nothing behind.
    let (mut larger, control) = fake(Arc::new(hashed));
    larger.bytes = 10;
    assert_eq!(engine.load("c", larger).unwrap_err(), error);
    assert_eq!(control.loads(), 1);
    assert_eq!(engine.stats().used, 200);
    // A draft model counts as well.
    let (mut with_draft, _control) = fake(Arc::new(hashed));
    with_draft.bytes = 10;
    with_draft.options.draft = Some(draft(shape(1, 8, 64), Arc::new(hashed), 41).0);
    assert!(matches!(
        engine.load("c", with_draft),
        Err(LoadError::Budget {
            needed: 51,
            free: 50,
            ..
        })
    ));
    assert_eq!(engine.stats().models.len(), 2);
}

fn draft(shape: DecoderShape, logits: Arc<Logits>, bytes: u64) -> (Draft, Control) {
    let (ModelLoader::Decoder(load), control) = Fake::loader(shape, logits) else {
        unreachable!("a decoder")
    };
    (Draft { load, bytes }, control)
}

#[test]
fn a_draft_model_comes_with_its_model_and_again_after_a_fault() {
    let engine = budget(u64::MAX);
    let (mut with_draft, control) = fake(Arc::new(local));
    let (draft, draft_control) = draft(shape(2, 16, 64), Arc::new(local), 100);
    with_draft.options.draft = Some(draft);
    let model = engine.load("m", with_draft).unwrap();
    assert_eq!(engine.stats().used, 200);
    let asked = ask("something to guess", 30);
    let wanted = choice_alone(&asked, 0, 64, &local).0;
    assert_eq!(asked.of(&model).choice().tokens, wanted);
    control.hold();
    let pending = asked.of(&model);
    control.entered();
    control.then(Then::Panic);
    control.run_free();
    assert_eq!(pending.choice().tokens, wanted);
    assert_eq!(draft_control.loads(), 2);
    let stats = model.stats();
    assert!(stats.accepted > 0 && stats.memory == 200, "{stats:?}");
    draft_control.is_sound();
}

#[test]
fn a_draft_model_that_is_lost_is_loaded_again_while_its_model_goes_on() {
    let engine = budget(u64::MAX);
    let (mut with_draft, control) = fake(Arc::new(local));
    let (draft, draft_control) = draft(shape(2, 16, 64), Arc::new(local), 100);
    with_draft.options.draft = Some(draft);
    let model = engine.load("m", with_draft).unwrap();
    let asked = ask("something to guess", 40);
    let wanted = choice_alone(&asked, 0, 64, &local).0;
    draft_control.refuse(|_| {
        Some(DecodeError::DeviceLost {
            reason: "reset".into(),
        })
    });
    assert_eq!(asked.of(&model).choice().tokens, wanted);
    assert_eq!(model.stats().draft_failures, 1);
    draft_control.refuse(|_| None);
    // A rest is counted in steps; the draft comes while answers are made.
    until(|| {
        assert_eq!(asked.of(&model).choice().tokens, wanted);
        model.stats().draft_reloads == 1
    });
    assert_eq!(asked.of(&model).choice().tokens, wanted);
    assert_eq!((draft_control.loads(), control.loads()), (2, 1));
    assert_eq!((model.stats().reloads, model.stats().failed), (0, 0));
    draft_control.is_sound();
}

#[test]
fn a_draft_that_comes_while_its_model_is_lost_makes_room_for_the_one_that_comes_with_it() {
    let engine = budget(u64::MAX);
    let (mut with_draft, control) = fake(Arc::new(local));
    let (draft, draft_control) = draft(shape(2, 16, 64), Arc::new(local), 100);
    with_draft.options.draft = Some(draft);
    let model = engine.load("m", with_draft).unwrap();
    let asked = ask("something to guess", 40);
    let wanted = choice_alone(&asked, 0, 64, &local).0;
    draft_control.refuse(|_| {
        Some(DecodeError::DeviceLost {
            reason: "reset".into(),
        })
    });
    assert_eq!(asked.of(&model).choice().tokens, wanted);
    // Loaded again, it waits for the test in its first step, and the model is lost.
    draft_control.refuse(|_| None);
    draft_control.hold();
    until(|| {
        assert_eq!(asked.of(&model).choice().tokens, wanted);
        draft_control.loads() == 2
    });
    control.hold();
    let pending = asked.of(&model);
    control.entered();
    control.then(Then::Panic);
    control.run_free();
    draft_control.run_free();
    assert_eq!(pending.choice().tokens, wanted);
    assert_eq!((draft_control.loads(), control.loads()), (3, 2));
    let stats = model.stats();
    assert_eq!((stats.reloads, stats.draft_reloads), (1, 0));
    assert_eq!((stats.draft_failures, stats.failed), (1, 0));
    draft_control.is_sound();
}

#[test]
fn a_draft_that_is_left_out_is_not_loaded_with_its_model_either() {
    let engine = budget(u64::MAX);
    let (mut with_draft, control) = fake(Arc::new(local));
    let (draft, draft_control) = draft(shape(2, 16, 64), Arc::new(local), 100);
    with_draft.options.draft = Some(draft);
    let model = engine.load("m", with_draft).unwrap();
    let asked = ask("something to guess", 40);
    let wanted = choice_alone(&asked, 0, 64, &local).0;
    draft_control.refuse(|_| {
        Some(DecodeError::DeviceLost {
            reason: "reset".into(),
        })
    });
    until(|| {
        assert_eq!(asked.of(&model).choice().tokens, wanted);
        model.stats().draft_failures == 6
    });
    draft_control.refuse(|_| None);
    let loads = draft_control.loads();
    control.hold();
    let pending = asked.of(&model);
    control.entered();
    control.then(Then::Panic);
    control.run_free();
    assert_eq!(pending.choice().tokens, wanted);
    assert_eq!((draft_control.loads(), control.loads()), (loads, 2));
    assert_eq!((model.stats().reloads, model.stats().failed), (1, 0));
}

#[test]
fn a_model_is_loaded_again_without_a_draft_that_cannot_be() {
    let engine = budget(u64::MAX);
    let (mut with_draft, control) = fake(Arc::new(local));
    let (draft, draft_control) = draft(shape(2, 16, 64), Arc::new(local), 100);
    with_draft.options.draft = Some(draft);
    let model = engine.load("m", with_draft).unwrap();
    let asked = ask("something to guess", 30);
    let wanted = choice_alone(&asked, 0, 64, &local).0;
    draft_control.fail_loads(u64::MAX);
    control.hold();
    let pending = asked.of(&model);
    control.entered();
    control.then(Then::Panic);
    control.run_free();
    assert_eq!(pending.choice().tokens, wanted);
    let stats = model.stats();
    assert_eq!((stats.reloads, stats.failed), (1, 0));
    assert_eq!((control.loads(), draft_control.loads()), (2, 1));
}

/// A decoder of any shape whose logits are this number.
struct Constant(DecoderShape, f32);

impl Decoder for Constant {
    fn shape(&self) -> &DecoderShape {
        &self.0
    }

    fn memory(&self) -> u64 {
        1
    }

    fn step(&mut self, step: &[StepSequence], out: &mut Vec<Sampled>) -> Result<(), DecodeError> {
        out.clear();
        out.resize(
            step.iter().map(|s| s.samples.len()).sum(),
            Sampled::default(),
        );
        Ok(())
    }

    fn logits(&mut self, _: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        *logits = vec![self.1; self.0.vocabulary];
        Ok(())
    }
}

#[test]
fn an_adapter_that_gives_no_numbers_is_not_loaded() {
    let engine = budget(u64::MAX);
    let logits: Arc<Logits> = Arc::new(|history: &[u32], logits: &mut [f32]| {
        logits.fill(match history[0] == through(2, 0) {
            true => f32::INFINITY,
            false => 0.0,
        });
    });
    let load = |loras| {
        let shape = DecoderShape {
            loras,
            ..shape(1, 8, 64)
        };
        let (load, _control) = Fake::loader(shape, Arc::clone(&logits));
        engine.load("m", source(load, ModelOptions::default()))
    };
    assert!(load(1).is_ok());
    assert_eq!(
        load(3).unwrap_err().to_string(),
        "model m through its adapter 2 fails its first step: number 0 of 260 is inf"
    );
}

#[test]
fn what_cannot_be_served_is_not_loaded() {
    let engine = budget(u64::MAX);
    let refuse = |shape: DecoderShape, number: f32| {
        let load = move || Ok(Box::new(Constant(shape.clone(), number)) as Box<dyn Decoder>);
        let source = source(
            ModelLoader::Decoder(Box::new(load)),
            ModelOptions::default(),
        );
        engine.load("m", source).unwrap_err().to_string()
    };
    assert_eq!(
        refuse(shape(0, 8, 64), 0.0),
        "model m: KV blocks is 0, must be at least 1"
    );
    assert_eq!(
        refuse(shape(1, 8, 1), 0.0),
        "model m: context is 1, must be at least 2"
    );
    assert_eq!(
        refuse(shape(1, 8, 64), f32::NAN),
        "model m fails its first step: number 0 of 260 is NaN"
    );
    let mut small = shape(1, 8, 64);
    small.vocabulary = 200;
    assert_eq!(
        refuse(small.clone(), 0.0),
        "the tokenizer of model m has 260 tokens, the model only 200"
    );
    let failing = || -> Result<Box<dyn Decoder>, String> { Err("no such file".into()) };
    let failing = source(
        ModelLoader::Decoder(Box::new(failing)),
        ModelOptions::default(),
    );
    assert_eq!(
        engine.load("m", failing).unwrap_err().to_string(),
        "model m cannot be loaded: no such file"
    );
    let panicking = || -> Result<Box<dyn Decoder>, String> { panic!("in the loader") };
    let panicking = source(
        ModelLoader::Decoder(Box::new(panicking)),
        ModelOptions::default(),
    );
    assert!(matches!(
        engine.load("m", panicking),
        Err(LoadError::Failed { .. })
    ));
    let panicking = |_: &[u32], _: &mut [f32]| panic!("in the first step");
    let error = engine
        .load("m", fake(Arc::new(panicking)).0)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "model m fails its first step: device lost: the decoder panicked"
    );
    let (mut unmet, _control) = fake(Arc::new(hashed));
    unmet.options.structures = vec![Structure::Regex("(".into())];
    let error = engine.load("m", unmet).unwrap_err().to_string();
    assert!(
        error.starts_with("model m cannot be loaded: structure is (, must be"),
        "{error}"
    );
    let (mut drafted, _control) = fake(Arc::new(hashed));
    let other_words = move || Ok(Box::new(Constant(small.clone(), 0.0)) as Box<dyn Decoder>);
    drafted.options.draft = Some(Draft {
        load: Box::new(other_words),
        bytes: 1,
    });
    assert_eq!(
        engine.load("m", drafted).unwrap_err().to_string(),
        "the draft model of m has 200 tokens, the model 260"
    );
    assert_eq!(engine.stats().used, 0);
    assert!(engine.stats().models.is_empty());
}

#[test]
fn a_failed_replacement_leaves_the_old_model() {
    let engine = budget(u64::MAX);
    let model = engine.load("m", fake(Arc::new(hashed)).0).unwrap();
    let (failing, control) = fake(Arc::new(other));
    control.fail_loads(1);
    assert!(engine.load("m", failing).is_err());
    let sound = ask("x", 5);
    assert_eq!(sound.of(&model).choice().tokens, alone(&sound, 64).0);
}

#[test]
fn a_load_that_takes_too_long_is_dropped_when_it_comes() {
    let engine = Engine::start(EngineOptions {
        load_limit: Duration::from_millis(30),
        ..EngineOptions::default()
    });
    let (slow, control) = fake(Arc::new(hashed));
    // The first step of the loaded model waits for the test.
    control.hold();
    let error = engine.load("slow", slow).unwrap_err();
    assert!(matches!(error, LoadError::TookTooLong { .. }), "{error}");
    control.run_free();
    until(|| engine.stats().used == 0);
    assert!(engine.model("slow").is_none());
}

#[test]
fn requests_do_not_wait_for_ever_for_a_model_that_is_loaded_again() {
    let engine = Engine::start(EngineOptions {
        load_limit: Duration::from_secs(5),
        ..EngineOptions::default()
    });
    let (hanging, control) = fake(Arc::new(hashed));
    let model = engine.load("m", hanging).unwrap();
    control.hold();
    let pending = ask("a", 9).of(&model);
    control.entered();
    control.then(Then::Panic);
    // Loaded again, it hangs in its first step until the test lets it go.
    let reason = "the model was not loaded again within 5s";
    assert_eq!(pending.error(), ModelError::Device(reason.into()));
    let (request, _) = ask("late", 1).request();
    assert!(matches!(
        model.submit(request),
        Err((_, ModelError::Closed))
    ));
    control.run_free();
    until(|| engine.stats().used == 0);
    // Its name can be used again.
    engine.load("m", fake(Arc::new(hashed)).0).unwrap();
    assert!(ask("b", 1).of(&model).wait().1.is_ok());
}

#[test]
fn names_that_are_not_in_use_are_forgotten() {
    let engine = budget(u64::MAX);
    let kept = engine.handle("kept");
    engine.load("loaded", fake(Arc::new(hashed)).0).unwrap();
    for n in 0..100 {
        let (failing, control) = fake(Arc::new(hashed));
        control.fail_loads(1);
        assert!(engine.load(&format!("name {n}"), failing).is_err());
        drop(engine.handle(&format!("other {n}")));
    }
    assert!(engine.names() <= 4, "{} names", engine.names());
    // The handle and the model still have theirs.
    engine.load("kept", fake(Arc::new(other)).0).unwrap();
    assert!(ask("x", 1).of(&kept).wait().1.is_ok());
    assert!(engine.model("loaded").is_some());
}

#[test]
fn models_take_turns() {
    let engine = budget(u64::MAX);
    let (one, control_one) = fake(Arc::new(hashed));
    let (two, control_two) = fake(Arc::new(other));
    let one = engine.load("one", one).unwrap();
    let two = engine.load("two", two).unwrap();
    control_one.hold();
    let flood: Vec<Ask> = (0..30).map(|n| ask(&format!("flood {n}"), 40)).collect();
    let pending: Vec<Pending> = flood.iter().map(|ask| ask.of(&one)).collect();
    control_one.entered();
    let single = ask("single", 8);
    let beside = single.of(&two);
    control_one.then(Then::Run);
    // One request beside a flood for another model is answered within about as much of its time as it needs itself: within a few
    // steps, or within more where the thread stands still in a step of the one.
    let mut steps = 0;
    while !beside.has_ended() {
        control_one.entered();
        let time = Duration::from_millis(if steps < 16 { 1 } else { 50 });
        std::thread::sleep(time);
        control_one.then(Then::Run);
        steps += 1;
        assert!(steps <= 200, "the flood goes first");
    }
    assert_eq!(
        beside.choice().tokens,
        choice_alone(&single, 0, 64, &other).0
    );
    assert!(!pending[29].has_ended());
    control_one.run_free();
    for (ask, pending) in flood.iter().zip(&pending) {
        assert_eq!(pending.choice().tokens, alone(ask, 64).0);
    }
    control_one.is_sound();
    control_two.is_sound();
}

#[test]
fn a_model_asked_beside_the_stream_has_no_turn_while_another_works_for_it() {
    let engine = budget(u64::MAX);
    let (one, control_one) = fake(Arc::new(hashed));
    let (two, control_two) = fake(Arc::new(other));
    let one = engine.load("one", one).unwrap();
    let two = engine.load("two", two).unwrap();
    control_one.hold();
    let flood: Vec<Ask> = (0..10).map(|n| ask(&format!("flood {n}"), 40)).collect();
    let pending: Vec<Pending> = flood.iter().map(|ask| ask.of(&one)).collect();
    control_one.entered();
    let before = control_two.steps();
    let question = Ask {
        class: CLASS_BESIDE,
        ..ask("question", 8)
    };
    let beside = question.of(&two);
    control_one.then(Then::Run);
    for _ in 0..60 {
        control_one.step();
        assert_eq!(control_two.steps(), before, "it had a turn");
    }
    assert!(!pending[9].has_ended());
    control_one.run_free();
    for (ask, pending) in flood.iter().zip(&pending) {
        assert_eq!(pending.choice().tokens, alone(ask, 64).0);
    }
    // There is nothing else to do now.
    let tokens = beside.choice().tokens;
    assert_eq!(tokens, choice_alone(&question, 0, 64, &other).0);
}
