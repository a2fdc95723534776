//! The next step is begun while one runs: answers are what they are without, and nobody pays for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use tidegate_contract::{DecodeError, Finish, ModelError, Structure};

use super::*;

/// What a run comes to.
#[derive(Debug, Default)]
struct Came {
    steps: usize,
    begun_ahead: usize,
    thrown_away: usize,
}

impl Bench {
    fn came(&self, steps: usize) -> Came {
        Came {
            steps,
            begun_ahead: self.begun_ahead,
            thrown_away: self.thrown_away,
        }
    }
}

#[test]
fn a_single_answer_is_begun_ahead_but_for_its_first_step() {
    // It ends with its token limit, which is known, and by itself, which is not.
    let limited = ask("limited", 12);
    let script = bytes("it ends by itself");
    let ends = ask("ends", 60);
    let logits = scripted(prompt("ends").len(), script.clone());
    for (asked, logits, thrown_away) in [
        (limited, Arc::new(hashed) as Arc<Logits>, 0),
        (ends, logits, 0),
    ] {
        let mut bench =
            Bench::with(shape(2, 64, 128), limits(), Arc::clone(&logits), None).ahead(true);
        let pending = bench.submit(&asked);
        let steps = bench.run();
        check(&asked, &pending, 128, &*logits);
        let came = bench.came(steps);
        // The row after the end is never asked for: the step is given up.
        assert_eq!(
            (came.begun_ahead, came.thrown_away),
            (steps - 1, thrown_away),
            "{came:?}"
        );
        assert_eq!(bench.stats().steps as usize, steps);
    }
}

#[test]
fn who_ends_in_a_step_has_its_next_row_thrown_away_and_others_go_on() {
    let logits = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        let ends = history.len() == prompt("short").len() + 4 && history.contains(&byte(b's'));
        logits[EOS as usize] = if ends { 1e6 } else { -1e6 };
    };
    let logits: Arc<Logits> = Arc::new(logits);
    let mut bench = Bench::with(shape(3, 64, 128), limits(), Arc::clone(&logits), None).ahead(true);
    let asks = [ask("short", 40), ask("other", 20), ask("third", 30)];
    let pending = asks.each_ref().map(|ask| bench.submit(ask));
    let steps = bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &*logits);
    }
    assert_eq!(choice_alone(&asks[0], 0, 128, &*logits).1, Finish::End);
    let came = bench.came(steps);
    assert_eq!((came.steps, came.begun_ahead), (30, 29), "{came:?}");
    assert_eq!(came.thrown_away, 1, "{came:?}");
    // Rows that were thrown away were rows of the device.
    let stats = bench.stats();
    let made: usize = asks
        .iter()
        .map(|ask| choice_alone(ask, 0, 128, &*logits).0.len())
        .sum();
    assert_eq!(stats.answer_rows as usize, made - 3 + 1 + 1, "{stats:?}");
}

#[test]
fn logits_that_are_no_numbers_end_their_request_and_nothing_else_ahead() {
    let logits = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        if history.contains(&byte(b'!')) && history.len() > prompt("!").len() + 1 {
            logits.fill(f32::NAN);
        }
    };
    let mut bench = Bench::with(shape(2, 8, 64), limits(), Arc::new(logits), None).ahead(true);
    let broken = bench.submit(&ask("!", 20));
    let sound = bench.submit(&ask("?", 20));
    bench.run();
    let reason = "no logit of token 2 is a number";
    assert_eq!(broken.error(), ModelError::Device(reason.into()));
    check(&ask("?", 20), &sound, 64, &hashed);
    assert_eq!(bench.thrown_away, 1);
}

#[test]
fn who_guesses_waits_for_its_token_and_who_does_not_goes_ahead() {
    let text = "abcdefghij".repeat(8);
    let logits = scripted(prompt("x").len(), bytes(&text));
    let ahead = Limits {
        look_ahead: 4,
        ..limits()
    };
    let run = |speculation| {
        let mut bench =
            Bench::with(shape(1, 64, 128), ahead.clone(), Arc::clone(&logits), None).ahead(true);
        let mut asked = ask("x", 60);
        asked.parameters.speculation = speculation;
        let pending = bench.submit(&asked);
        let steps = bench.run();
        assert_eq!(pending.choice().tokens, bytes(&text)[..60]);
        (bench.came(steps), bench.stats())
    };
    let (plain, none) = run(tidegate_contract::Speculation::Off);
    assert_eq!((plain.steps, plain.begun_ahead, none.drafted), (60, 59, 0));
    let (guessed, stats) = run(tidegate_contract::Speculation::PromptLookup);
    assert!(stats.accepted > 30 && guessed.steps < 30, "{stats:?}");
    // Until the text repeats itself there is nothing to guess.
    assert!(guessed.begun_ahead >= 9, "{guessed:?}");
}

#[test]
fn further_answers_to_a_prompt_find_its_blocks_ahead_too() {
    let run = |ahead| {
        let mut bench = Bench::new(shape(4, 64, 128), limits()).ahead(ahead);
        let mut asked = ask(&"one prompt ".repeat(6), 8);
        asked.parameters.n = 3;
        let pending = bench.submit(&asked);
        bench.run();
        check(&asked, &pending, 128, &hashed);
        bench.stats()
    };
    let [without, with] = [false, true].map(run);
    assert!(with.prefix_hit_tokens > 100, "{with:?}");
    assert_eq!(with.prefix_hit_tokens, without.prefix_hit_tokens);
    assert_eq!(with.prompt_rows, without.prompt_rows);
}

#[test]
fn steps_that_are_long_are_not_begun_ahead() {
    for (milliseconds, ahead) in [(5, true), (19, true), (21, false), (80, false)] {
        let mut bench = Bench::new(shape(2, 64, 256), limits()).ahead(true);
        bench.time_of = match milliseconds {
            5 => |_, _| Duration::from_millis(5),
            19 => |_, _| Duration::from_millis(19),
            21 => |_, _| Duration::from_millis(21),
            _ => |_, _| Duration::from_millis(80),
        };
        let warm = ask("warm", 40);
        bench.submit(&warm);
        bench.run();
        let before = bench.begun_ahead;
        let pending = bench.submit(&ask("then", 20));
        let steps = bench.run();
        check(&ask("then", 20), &pending, 256, &hashed);
        let begun = bench.begun_ahead - before;
        assert_eq!(begun > 0, ahead, "{milliseconds}: {begun} of {steps}");
    }
}

/// From the first step on: of that nothing is known, and of the others as much as it has shown.
#[test]
fn no_step_is_begun_ahead_before_one_was_measured() {
    for (milliseconds, begun_ahead) in [(5, 18), (80, 0)] {
        let never_ends = |history: &[u32], logits: &mut [f32]| {
            hashed(history, logits);
            logits[EOS as usize] = -1.0;
        };
        let mut bench = Bench {
            ahead: true,
            ..Bench::with(shape(2, 64, 256), limits(), Arc::new(never_ends), None)
        };
        bench.time_of = match milliseconds {
            5 => |_, _| Duration::from_millis(5),
            _ => |_, _| Duration::from_millis(80),
        };
        let pending = bench.submit(&ask("first", 20));
        assert_eq!(bench.run(), 20);
        check(&ask("first", 20), &pending, 256, &never_ends);
        assert_eq!(bench.begun_ahead, begun_ahead, "{milliseconds} ms");
    }
}

#[test]
fn whoever_waits_has_a_place_that_is_sure_to_be_free_at_once() {
    let limits = Limits {
        sequences: 2,
        ..limits()
    };
    let run = |ahead| {
        let mut bench = Bench::new(shape(4, 64, 128), limits.clone()).ahead(ahead);
        let never_ends = |history: &[u32], logits: &mut [f32]| {
            hashed(history, logits);
            logits[EOS as usize] = -1.0;
        };
        bench.decoder = Fake::alone(shape(4, 64, 128), Arc::new(never_ends)).0;
        for n in 0..8 {
            bench.submit(&ask("some", 5 + n));
        }
        bench.run()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_class_that_comes_first_preempts_others_ahead_too() {
    let mut few = shape(1, 64, 128);
    few.blocks = 6;
    let mut bench = Bench::new(few, limits()).ahead(true);
    let never_ends = |history: &[u32], logits: &mut [f32]| {
        hashed(history, logits);
        logits[EOS as usize] = -1.0;
    };
    bench.decoder = Fake::alone(bench.generator.shape.clone(), Arc::new(never_ends)).0;
    let mut low = ask("low", 60);
    low.class = 3;
    let others = [bench.submit(&low), bench.submit(&low)];
    for _ in 0..20 {
        bench.step();
    }
    let urgent = ask(&"urgent".repeat(8), 2);
    let pending = bench.submit(&urgent);
    // One step more than without: the one that was begun.
    let mut steps = 0;
    while !pending.has_ended() {
        bench.step();
        steps += 1;
    }
    assert!(steps <= 4, "{steps}");
    assert!(bench.stats().preemptions > 0);
    bench.run();
    for other in &others {
        check(&low, other, 96, &never_ends);
    }
}

/// A few requests of all kinds, what is done to them, and how scarce everything is.
fn asks(dice: &mut Dice, count: usize) -> Vec<Ask> {
    let mut asks = Vec::new();
    for place in 0..count {
        let mut ask = dice.ask(40, 30);
        ask.class = dice.below(4) as u8;
        match place % 4 {
            1 => ask.parameters.stop = vec!["a".into(), "ee".into()],
            2 => ask.parameters.structure = Some(Structure::Regex("[a-h]{3,9}(x|yz)?".into())),
            3 => ask.parameters.speculation = tidegate_contract::Speculation::Off,
            _ => {}
        }
        // Thoughts that the prompt has opened, and some that may come, with and without a form behind them.
        if place % 3 > 0 {
            ask.thinks = Some(place % 3 == 1);
            ask.parameters.reasoning_tokens = Some(dice.below(9) as u32);
            ask.parameters.max_tokens += 12;
        }
        asks.push(ask);
    }
    asks
}

/// The answers, tokens, texts and ends of each request, with what each was told.
fn answers(
    seed: u64,
    ahead: bool,
    look_ahead: usize,
    blocks: usize,
    faults: bool,
) -> (Vec<String>, Came) {
    let mut dice = Dice(seed);
    let asks = asks(&mut dice, 12);
    let limits = Limits {
        step_tokens: 9 + dice.below(40) as usize,
        sequences: 1 + dice.below(8) as usize,
        look_ahead,
        ..limits()
    };
    let mut few = shape(8, 64, 96);
    few.blocks = blocks;
    let logits: Arc<Logits> = Arc::new(local);
    let mut bench = Bench::with(few, limits, logits, None).ahead(ahead);
    if faults {
        let steps = AtomicU64::new(0);
        let no = || DecodeError::Device {
            reason: "no".into(),
        };
        bench.control.refuse(move |step| {
            (step.len() > 1 && steps.fetch_add(1, Ordering::SeqCst) % 7 == 3).then(no)
        });
    }
    let pending: Vec<Pending> = asks
        .iter()
        .map(|ask| {
            let pending = bench.submit(ask);
            if dice.below(2) == 0 {
                bench.step();
            }
            pending
        })
        .collect();
    let mut steps = 0;
    while bench.generator.has_work() {
        bench.step();
        steps += 1;
        assert!(steps < 10_000);
        if faults && steps % 40 == 30 {
            bench.lose("reset");
        }
    }
    bench.run();
    let told = pending.iter().map(|pending| {
        let (tokens, result) = pending.wait();
        format!("{tokens:?} {:?}", result.map(|answer| answer.made))
    });
    (told.collect(), bench.came(steps))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Stops, lengths, structures, penalties, classes, preemption, faults: to the bit, with everything that is told.
    #[test]
    fn answers_are_the_same_with_and_without(seed in any::<u64>(), look_ahead in 0usize..4, blocks in 12usize..40, faults in any::<bool>()) {
        let (without, came) = answers(seed, false, look_ahead, blocks, faults);
        prop_assert_eq!(came.begun_ahead, 0);
        let (with, came) = answers(seed, true, look_ahead, blocks, faults);
        prop_assert!(came.begun_ahead > 0, "{:?}", came);
        let thought = |told: &&String| told.contains("reasoning_tokens: ") && !told.contains("reasoning_tokens: 0");
        prop_assert!(with.iter().any(|told| thought(&told)));
        for (with, without) in with.iter().zip(&without) {
            // Whom a lost device takes along depends on who was in its step.
            let fails = |told: &String| faults && told.contains("Err(Device");
            if !fails(with) && !fails(without) {
                prop_assert_eq!(with, without, "{:?}", came);
            }
        }
    }
}

#[test]
fn after_a_panic_in_planning_ahead_nothing_is_for_some_steps() {
    let mut bench = Bench::new(shape(4, 64, 512), limits()).ahead(true);
    let asks = ["one", "two"].map(|content| ask(content, 400));
    let pending = asks.each_ref().map(|ask| bench.submit(ask));
    let mut poison = ask("poison", 400);
    poison.parameters.stop = vec![panics("ahead")];
    for rest in [64, 128] {
        let poison = bench.submit(&poison);
        while catch_unwind(AssertUnwindSafe(|| bench.step())).is_ok() {}
        assert_eq!(bench.begin_anew(), (3, 0));
        bench.generator.cancel(poison.id);
        let begun = bench.begun_ahead;
        for _ in 0..rest {
            bench.step();
        }
        assert_eq!(bench.begun_ahead, begun, "of {rest} steps");
        bench.step();
        bench.step();
        assert!(bench.begun_ahead > begun, "after {rest} steps");
    }
    bench.run();
    assert_eq!(bench.stats().retried, 0);
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 512, &hashed);
    }
}
