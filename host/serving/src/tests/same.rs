//! An answer depends on its request only.

use std::sync::Arc;

use tidegate_contract::{DecoderShape, Finish, Made, Model, ModelError};

use super::support::*;
use crate::{LoadedLora, ModelOptions};

#[test]
fn requests_that_join_and_leave_get_the_tokens_they_get_alone() {
    let options = ModelOptions {
        prefill_tokens: 3,
        ..at_once(5)
    };
    let (_engine, model, control) = free(shape(5, 16, 64), options);
    let mut dice = Dice(7);
    let asks: Vec<Ask> = (0..120).map(|_| dice.ask(40, 24)).collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    for (ask, pending) in asks.iter().zip(pending) {
        let (tokens, result) = pending.wait();
        let answer = result.unwrap();
        assert_eq!(answer.prompt_tokens as usize, prompt(&ask.content).len());
        let tidegate_contract::Made::Choices(choices) = answer.made else {
            panic!("choices")
        };
        for (number, choice) in choices.iter().enumerate() {
            let wanted = choice_alone(ask, number as u32, 64, &hashed);
            assert_eq!((choice.tokens.clone(), choice.finish), wanted, "{ask:?}");
        }
        let handed_on: Vec<u32> = tokens.iter().map(|(_, token, _)| *token).collect();
        assert_eq!(handed_on, choices[0].tokens);
        let mut places = tokens.iter().enumerate();
        assert!(places.all(|(place, (index, ..))| place == *index as usize));
    }
    control.is_sound();
    let stats = model.stats();
    assert!(
        stats.largest_batch > 1 && stats.largest_batch <= 5,
        "{stats:?}"
    );
    assert_eq!(stats.answered, 120);
    assert!(stats.prefix_hit_tokens > 0 && stats.step_time > std::time::Duration::ZERO);
}

#[test]
fn a_forced_prefix_is_continued_exactly() {
    let (_engine, model, control) = free(shape(3, 4, 64), ModelOptions::default());
    let mut dice = Dice(11);
    for _ in 0..12 {
        let mut ask = dice.ask(10, 20);
        ask.parameters.n = 1;
        let (all, whole) = ask.of(&model).wait();
        assert!(whole.is_ok());
        let whole = ask.of(&model).choice();
        for made in 0..=whole.tokens.len() {
            let resumed = Ask {
                prefix: whole.tokens[..made].to_vec(),
                ..ask.clone()
            };
            let pending = resumed.of(&model);
            let choice = pending.choice();
            assert_eq!(
                (&choice.tokens, &choice.text, choice.finish),
                (&whole.tokens, &whole.text, whole.finish)
            );
            if ask.parameters.logprobs.is_some() {
                assert_eq!(choice.logprobs, whole.logprobs[made..]);
            }
            // Those of the prefix are not handed on again, the others as before, index, id and text.
            assert_eq!(pending.tokens(), all[made..]);
        }
    }
    control.is_sound();
}

#[test]
fn a_prefix_is_of_the_first_answer_only() {
    let (_engine, model, _control) = free(shape(3, 8, 64), ModelOptions::default());
    let mut several = ask("several", 10);
    several.parameters.n = 3;
    several.parameters.temperature = 1.0;
    let whole = several.of(&model).choices();
    several.prefix = whole[0].tokens[..4].to_vec();
    assert_eq!(several.of(&model).choices(), whole);
}

#[test]
fn a_prefix_that_is_complete_needs_no_step() {
    let (_engine, model, control) = held(shape(1, 4, 64), ModelOptions::default());
    let of = |prefix: Vec<u32>, max_tokens| Ask {
        prefix,
        ..ask("x", max_tokens)
    };
    let full = of(bytes("abc"), 3).of(&model).choice();
    assert_eq!((full.text.as_str(), full.finish), ("abc", Finish::Length));
    let mut stopping = of(bytes("ab. c"), 30);
    stopping.parameters.stop = vec![". ".into()];
    let stopped = stopping.of(&model).choice();
    assert_eq!(
        (stopped.text.as_str(), stopped.finish),
        ("ab", Finish::Stop)
    );
    let mut ended = bytes("ab");
    ended.push(EOS);
    let ended = of(ended, 30).of(&model).choice();
    assert_eq!(
        (ended.text.as_str(), ended.finish, ended.tokens.len()),
        ("ab", Finish::End, 2)
    );
    assert_eq!(ask("x", 0).of(&model).choice().finish, Finish::Length);
    assert_eq!(model.stats().steps, 0);
    drop(control);
}

#[test]
fn a_seed_decides_an_answer_and_nothing_else_does() {
    let (_engine, model, _control) = free(shape(4, 8, 64), ModelOptions::default());
    let mut warm = ask("the same prompt", 16);
    warm.parameters.temperature = 1.0;
    let first = warm.of(&model).choice();
    let crowd: Vec<Pending> = (0..10)
        .map(|seed| {
            Ask {
                seed,
                ..warm.clone()
            }
            .of(&model)
        })
        .collect();
    let crowd: Vec<Vec<u32>> = crowd
        .iter()
        .map(|pending| pending.choice().tokens)
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
fn ten_thousand_random_events_leave_nothing_behind() {
    let options = ModelOptions {
        queue: 16,
        ..at_once(4)
    };
    let (_engine, model, control) = free(shape(4, 6, 32), options);
    let mut dice = Dice(3);
    let mut open: Vec<(Ask, Pending)> = Vec::new();
    let mut events = 0;
    while events < 10_000 {
        events += 1;
        if dice.below(3) == 0 && !open.is_empty() {
            let place = dice.below(open.len() as u64) as usize;
            model.cancel(open[place].1.id);
        } else {
            let ask = dice.ask(12, 6);
            let (request, pending) = ask.request();
            match model.submit(request) {
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
    control.is_sound();
    // The last reply comes before the gauges; one more request, and they have been told.
    ask("x", 1).of(&model).answer();
    let stats = model.stats();
    assert_eq!(stats.waiting, 0, "{stats:?}");
    assert!(stats.answered > 1000 && stats.blocks == 8, "{stats:?}");

    fn ended(ask: &Ask, pending: &Pending) {
        match pending.wait().1 {
            Ok(answer) => {
                let tidegate_contract::Made::Choices(choices) = answer.made else {
                    panic!("choices")
                };
                assert_eq!(
                    (choices[0].tokens.clone(), choices[0].finish),
                    alone(ask, 32)
                );
            }
            Err(error) => assert_eq!(error, ModelError::Cancelled),
        }
    }
}

#[test]
fn answers_through_adapters_side_by_side_are_those_of_each_alone() {
    let shape = DecoderShape {
        loras: 2,
        ..shape(6, 16, 96)
    };
    let (_engine, model, control) = free(shape, at_once(6));
    let mut dice = Dice(17);
    let hits = || model.stats().prefix_hit_tokens;
    for round in 0..6 {
        let mut asks = dice.ask(40, 24);
        // Long enough for several blocks, which all of them begin with.
        asks.content = format!("{round} {}", "the same beginning ".repeat(3));
        let before = hits();
        for again in 0..2 {
            let pending: Vec<(u32, Pending)> = [0, 1, 2, 1, 0, 2]
                .into_iter()
                .map(|lora| (lora, asks.of(&model.through(lora))))
                .collect();
            for (lora, pending) in pending {
                for (number, choice) in pending.choices().iter().enumerate() {
                    let logits = move |history: &[u32], logits: &mut [f32]| {
                        let history: Vec<u32> =
                            history.iter().map(|token| through(lora, *token)).collect();
                        hashed(&history, logits);
                    };
                    let wanted = choice_alone(&asks, number as u32, 96, &logits);
                    let found = (choice.tokens.clone(), choice.finish);
                    assert_eq!(found, wanted, "adapter {lora}, {again}, {asks:?}");
                }
            }
        }
        // The second time each finds what it has written itself.
        let blocks = (prompt(&asks.content).len() - 1) / 16 * 16;
        assert!(
            blocks > 0 && hits() - before >= 6 * blocks as u64,
            "{}",
            hits()
        );
    }
    control.is_sound();
}

#[test]
fn an_adapter_is_counted_by_itself_and_said_with_what_is_loaded() {
    let shape = DecoderShape {
        loras: 2,
        ..shape(6, 16, 96)
    };
    let lora = |name: &str| LoadedLora {
        name: name.into(),
        makes: (format!("{name}-files"), format!("{name} with fake")),
        digest: format!("of {name}"),
        rank: 8,
    };
    let options = || ModelOptions {
        loras: vec![lora("polite"), lora("terse")],
        ..at_once(6)
    };
    let (engine, model, control) = free(shape.clone(), options());
    let told = |prompt: usize| ask(&"x".repeat(prompt), 5);
    let mut made = [0; 3];
    for (lora, prompt) in [(1, 40), (0, 20), (2, 30), (1, 40), (0, 20)] {
        let answer = told(prompt).of(&model.through(lora)).answer();
        let Made::Choices(choices) = answer.made else {
            panic!("no text");
        };
        made[lora as usize] += choices[0].tokens.len() as u64;
    }
    let left = told(9).of(&model.through(2));
    model.cancel(left.id);
    let is_left = left.wait().1 == Err(ModelError::Cancelled);
    let late = Ask {
        deadline: Some(std::time::Instant::now()),
        ..told(9)
    };
    assert!(late.of(&model.through(1)).wait().1.is_err());
    let stats = model.stats();
    let [polite, terse] = &stats.loras[..] else {
        panic!("{:?}", stats.loras);
    };
    assert_eq!(
        (&polite.lora, &terse.lora),
        (&lora("polite"), &lora("terse"))
    );
    assert_eq!(
        (polite.answered, polite.failed, polite.cancelled),
        (2, 1, 0)
    );
    assert_eq!(terse.answered, 1 + u64::from(!is_left));
    assert_eq!(terse.cancelled, u64::from(is_left));
    // A prompt has three tokens more than its text; the second time its whole blocks are found.
    assert_eq!(polite.prompt_tokens + polite.prefix_hit_tokens, 2 * 43);
    assert_eq!(polite.prefix_hit_tokens, 32);
    assert_eq!(polite.tokens, made[1]);
    assert!(terse.tokens >= made[2] && stats.tokens >= made.iter().sum());
    assert_eq!(stats.answered, 4 + terse.answered);
    let facts = model.through(2).facts();
    assert_eq!(
        (facts.name.as_str(), facts.digest.as_str()),
        ("terse-files", "terse with fake")
    );
    assert_eq!(model.facts().name, "fake");
    // Another takes its place: what is said is all of that.
    let (load, other) = Fake::loader(shape, Arc::new(hashed));
    let mut options = options();
    options.loras[1].makes.1 = "terse with another".into();
    let mut other_source = source(load, options);
    other_source.facts.digest = "another".into();
    engine.load("fake", other_source).unwrap();
    assert_eq!(model.through(2).facts().digest, "terse with another");
    assert_eq!(model.stats().loras[0].answered, 0);
    control.is_sound();
    other.is_sound();
}
