//! Nothing is lost, whatever happens in whatever order.

use tidegate_contract::{DecodeError, Finish, ModelError};

use super::*;

fn churn(
    seed: u64,
    events: usize,
    limits: Limits,
    mut shape: DecoderShape,
    blocks: usize,
    [draft, ahead]: [bool; 2],
) -> ModelStats {
    let mut dice = Dice(seed);
    let draft = draft.then(|| Fake::alone(shape.clone(), Arc::new(local)).0);
    shape.blocks = blocks;
    let mut bench = Bench::with(shape, limits, Arc::new(local), draft).ahead(ahead);
    let mut open: Vec<(Ask, Pending)> = Vec::new();
    let mut answered = 0;
    for _ in 0..events {
        match dice.below(8) {
            0 | 1 if open.len() < 24 => {
                let mut ask = dice.ask(40, 12);
                ask.class = dice.below(4) as u8;
                let deadline =
                    (dice.below(4) == 0).then(|| bench.now + Duration::from_millis(dice.below(80)));
                let pending = bench.submit_until(&ask, deadline);
                open.push((ask, pending));
            }
            2 if !open.is_empty() => {
                let place = dice.below(open.len() as u64) as usize;
                bench.generator.cancel(open[place].1.id);
                bench.generator.check();
            }
            3 if dice.below(40) == 0 => {
                bench.lose("it went away");
            }
            _ => {
                // Now and then somebody goes while the step runs.
                let goes = (dice.below(8) == 0 && !open.is_empty())
                    .then(|| open[dice.below(open.len() as u64) as usize].1.id);
                bench.step_while(|generator| {
                    if let Some(id) = goes {
                        generator.cancel(id);
                    }
                });
            }
        }
        open.retain(|(ask, pending)| {
            if !pending.has_ended() {
                return true;
            }
            match pending.wait().1 {
                Ok(answer) => {
                    answered += 1;
                    let tidegate_contract::Made::Choices(choices) = answer.made else {
                        panic!("no choices")
                    };
                    // The oracle is slow: now and then is enough among so many.
                    if answered % 16 == 0 {
                        for (number, choice) in choices.iter().enumerate() {
                            let wanted =
                                choice_alone(ask, number as u32, 64.min(16 * blocks), &local);
                            assert_eq!((choice.tokens.clone(), choice.finish), wanted);
                        }
                    }
                }
                Err(
                    ModelError::Cancelled
                    | ModelError::Expired { .. }
                    | ModelError::Hopeless { .. }
                    | ModelError::Device(_),
                ) => {}
                Err(error) => panic!("{error:?}"),
            }
            false
        });
    }
    bench.run();
    assert!(open.iter().all(|(_, pending)| pending.has_ended()));
    assert!(bench.generator.requests.is_empty());
    assert_eq!(bench.begun_ahead > 100, ahead);
    assert_eq!(bench.thrown_away > 20, ahead);
    let stats = bench.stats();
    assert!(stats.answered > events as u64 / 50, "{stats:?}");
    stats
}

#[test]
fn a_hundred_thousand_random_events_leak_nothing() {
    let limits = Limits {
        step_tokens: 24,
        sequences: 8,
        look_ahead: 4,
        ..limits()
    };
    for (seed, ahead) in [(21, false), (23, true)] {
        let limits = limits.clone();
        let stats = churn(seed, 100_000, limits, shape(8, 32, 64), 13, [false, ahead]);
        assert!(stats.preemptions > 100, "{stats:?}");
        assert!(stats.cancelled > 100 && stats.expired + stats.hopeless > 100);
        assert!(stats.accepted > 100 && stats.prefix_hit_tokens > 1000 && stats.retried > 10);
    }
}

#[test]
fn with_a_draft_model_neither() {
    let limits = Limits {
        look_ahead: 3,
        ..limits()
    };
    for ahead in [false, true] {
        let limits = limits.clone();
        let stats = churn(22, 10_000, limits, shape(3, 32, 64), 9, [true, ahead]);
        assert!(stats.drafted > 100 && stats.accepted > 0, "{stats:?}");
    }
}

#[test]
fn a_request_cancelled_at_any_step_gives_its_blocks_back() {
    for steps in 0..8 {
        let limits = Limits {
            step_tokens: 4,
            ..limits()
        };
        let mut bench = Bench::new(shape(1, 4, 64), limits);
        let cancelled = bench.submit(&ask("0123456789", 30));
        for _ in 0..steps {
            bench.step();
        }
        let next = bench.submit(&ask("next", 2));
        bench.generator.cancel(cancelled.id);
        assert_eq!(cancelled.error(), ModelError::Cancelled);
        assert_eq!(bench.generator.blocks.held(), 0);
        bench.run();
        check(&ask("next", 2), &next, 64, &hashed);
    }
}

#[test]
fn a_request_ended_early_at_any_step_gives_its_blocks_back_and_has_the_answer_so_far() {
    for steps in 0..8usize {
        let limits = Limits {
            step_tokens: 4,
            ..limits()
        };
        let mut bench = Bench::new(shape(1, 4, 64), limits);
        let mut asked = ask("0123456789", 30);
        asked.parameters.n = 2;
        let ended = bench.submit(&asked);
        for _ in 0..steps {
            bench.step();
        }
        let next = bench.submit(&ask("next", 2));
        bench.generator.end(ended.id);
        bench.generator.check();
        assert_eq!(bench.generator.blocks.held(), 0);
        bench.generator.hand_on();
        for (number, choice) in ended.choices().iter().enumerate() {
            let (tokens, _) = choice_alone(&asked, number as u32, 64, &hashed);
            assert_eq!(choice.finish, Finish::Filtered);
            assert!(tokens.starts_with(&choice.tokens));
            assert!(number > 0 || choice.tokens.len() >= steps.saturating_sub(4));
        }
        bench.run();
        check(&ask("next", 2), &next, 64, &hashed);
    }
}

#[test]
fn a_wrong_number_of_tokens_is_an_error_and_changes_nothing() {
    let mut bench = Bench::new(shape(2, 16, 64), limits());
    let pending = bench.submit(&ask("x", 3));
    let plan = bench.generator.plan(bench.now).unwrap();
    let error = bench
        .generator
        .deliver(&plan, &[], bench.now, Duration::from_millis(1))
        .unwrap_err();
    assert_eq!(
        error,
        DecodeError::Device {
            reason: "0 tokens were drawn, not 1".into()
        }
    );
    bench.generator.check();
    bench.run();
    check(&ask("x", 3), &pending, 64, &hashed);
}
