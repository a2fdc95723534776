//! Pinned beginnings of a model that is loaded, replaced, lost, and asked through adapters.

use std::sync::Arc;

use tidegate_contract::DecodeError;

use super::support::*;
use crate::{Engine, EngineOptions, LoadError, ModelHandle, ModelOptions, Pin};

fn beginning() -> String {
    "what all prompts of the stage begin with ".repeat(3)
}

fn pin(stage: &str, lora: u32) -> Pin {
    Pin {
        stage: stage.into(),
        lora,
        tokens: prompt(&beginning()),
    }
}

fn pinning(pins: Vec<Pin>) -> ModelOptions {
    ModelOptions {
        pins,
        ..ModelOptions::default()
    }
}

fn whole() -> usize {
    prompt(&beginning()).len() / 16 * 16
}

/// Tokens that the first request of a kind finds.
fn found(model: &ModelHandle, number: u32) -> usize {
    let before = model.stats().prefix_hit_tokens;
    let asked = ask(&format!("{}{number}", beginning()), 4);
    let tokens = asked.of(model).choice().tokens;
    assert_eq!(tokens, alone(&asked, 256).0);
    (model.stats().prefix_hit_tokens - before) as usize
}

fn until(what: impl Fn() -> bool) {
    for _ in 0..6000 {
        if what() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never came to be");
}

#[test]
fn the_first_prompt_finds_what_was_computed_at_the_start() {
    let sizes = shape(4, 24, 256);
    let (_engine, model, control) = free(sizes.clone(), pinning(vec![pin("answer", 0)]));
    assert_eq!(found(&model, 1), whole());
    until(|| model.stats().running == 0 && model.stats().blocks_used == 0);
    assert_eq!(model.stats().blocks_pinned, whole() / 16);
    control.is_sound();
    let (_engine, model, _control) = free(sizes, ModelOptions::default());
    assert_eq!((found(&model, 1), model.stats().blocks_pinned), (0, 0));
}

#[test]
fn two_stages_share_what_they_pin_and_another_adapter_has_its_own() {
    let mut sizes = shape(4, 4096, 256);
    sizes.loras = 2;
    let blocks = whole() / 16;
    let pins = vec![pin("one", 0), pin("two", 0)];
    let (_engine, model, _control) = free(sizes.clone(), pinning(pins.clone()));
    assert_eq!(found(&model, 1), whole());
    assert_eq!(model.stats().blocks_pinned, blocks);
    let pins = [pins, vec![pin("adapted", 2)]].concat();
    let (_engine, model, control) = free(sizes.clone(), pinning(pins));
    assert_eq!(found(&model, 1), whole());
    let through = |lora| {
        let model = model.through(lora);
        let before = model.stats().prefix_hit_tokens;
        ask(&beginning(), 4).of(&model).answer();
        (model.stats().prefix_hit_tokens - before) as usize
    };
    assert_eq!((through(1), through(2)), (0, whole()));
    until(|| model.stats().running == 0);
    assert_eq!(model.stats().blocks_pinned, 2 * blocks);
    control.is_sound();
    let engine = Engine::start(EngineOptions::default());
    let (load, _control) = Fake::loader(sizes, Arc::new(hashed));
    let error = engine.load("m", source(load, pinning(vec![pin("adapted", 3)])));
    assert_eq!(
        error.unwrap_err().to_string(),
        "model m: what is pinned for adapted goes through low-rank adapter 3, and there are 2"
    );
}

#[test]
fn a_model_in_the_place_of_another_computes_anew_what_is_pinned_and_the_old_gives_it_up() {
    let other = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        logits.reverse();
    };
    let engine = Engine::start(EngineOptions::default());
    let (load, _old) = Fake::loader(shape(4, 4096, 256), Arc::new(hashed));
    let model = engine
        .load("m", source(load, pinning(vec![pin("answer", 0)])))
        .unwrap();
    assert_eq!(found(&model, 1), whole());
    let (load, control) = Fake::loader(shape(4, 4096, 256), Arc::new(other));
    engine
        .load("m", source(load, pinning(vec![pin("answer", 0)])))
        .unwrap();
    let asked = ask(&beginning(), 4);
    assert_eq!(
        asked.of(&model).choice().tokens,
        choice_alone(&asked, 0, 256, &other).0
    );
    let stats = model.stats();
    assert!(
        stats.prefix_hit_tokens as usize >= whole() - 16,
        "{stats:?}"
    );
    until(|| engine.stats().used == 100);
    control.is_sound();
    let (load, _control) = Fake::loader(shape(4, 4096, 256), Arc::new(hashed));
    engine
        .load("m", source(load, ModelOptions::default()))
        .unwrap();
    assert_eq!(model.stats().blocks_pinned, 0);
}

#[test]
fn a_device_that_was_lost_comes_back_with_what_is_pinned() {
    let (_engine, model, control) = held(shape(4, 4096, 256), pinning(vec![pin("answer", 0)]));
    let asked = ask(&format!("{}then", beginning()), 6);
    let pending = asked.of(&model);
    control.step();
    control.entered();
    control.then(Then::Panic);
    // The loader's own steps do not wait for the test.
    control.run_free();
    assert_eq!(pending.choice().tokens, alone(&asked, 256).0);
    assert_eq!((model.stats().reloads, control.loads()), (1, 2));
    let stats = model.stats();
    assert_eq!(stats.blocks_pinned, whole() / 16);
    assert!(stats.prefix_hit_tokens as usize >= 2 * whole(), "{stats:?}");
    assert_eq!(found(&model, 1), whole());
    control.is_sound();
}

#[test]
fn too_much_is_refused_by_its_numbers_and_what_cannot_be_computed_with_the_reason() {
    let engine = Engine::start(EngineOptions::default());
    let (load, _control) = Fake::loader(shape(1, 64, 256), Arc::new(hashed));
    let options = pinning(vec![pin("one", 0), pin("two", 0)]);
    let error = engine.load("m", source(load, options)).unwrap_err();
    let blocks = whole() / 16;
    assert_eq!(
        error,
        LoadError::Pinned {
            name: "m".into(),
            stages: "one, two".into(),
            pinned: blocks,
            blocks: 16,
            most: 0
        }
    );
    let (load, control) = Fake::loader(shape(4, 64, 256), Arc::new(hashed));
    control.refuse(|step| {
        (step[0].position > 0).then(|| DecodeError::Device {
            reason: "no memory".into(),
        })
    });
    let options = pinning(vec![pin("answer", 0)]);
    let error = engine.load("m", source(load, options)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("model m fails to compute what is pinned for answer: "),
        "{error}"
    );
    let nothing = |_: &[u32], logits: &mut [f32]| logits.fill(0.0);
    let numberless = move |history: &[u32], logits: &mut [f32]| {
        nothing(history, logits);
        if history.len() > 64 {
            logits.fill(f32::NAN);
        }
    };
    let (load, _control) = Fake::loader(shape(4, 64, 256), Arc::new(numberless));
    let options = pinning(vec![pin("answer", 0)]);
    let error = engine.load("m", source(load, options)).unwrap_err();
    assert!(error.to_string().contains("is a number"), "{error}");
    assert!(engine.model("m").is_none());
    assert_eq!(engine.stats().used, 0);
}
