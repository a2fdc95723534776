//! Tokens that a structure leaves no choice for are taken without a step of their own, and nothing else is different.

use tidegate_contract::{DecodeError, Structure};

use super::*;

fn with_form(content: &str, form: &str, seed: u64) -> Ask {
    let mut ask = ask(content, 60);
    ask.parameters.structure = Some(Structure::Regex(form.into()));
    ask.parameters.temperature = 1.0;
    ask.seed = seed;
    ask
}

const FORM: &str = r"name: [a-f]{2}, the place: [a-d], end";

fn asks() -> Vec<Ask> {
    let forms = [FORM, "(first|second one of them), and so on", "[a-z]{9}"];
    (0..12)
        .map(|n| with_form(&format!("prompt {n}"), forms[n % 3], n as u64))
        .collect()
}

#[test]
fn forced_tokens_are_rows_of_one_step_and_the_answer_is_the_same() {
    for ahead in [false, true] {
        let mut bench = Bench::new(shape(1, 64, 128), limits()).ahead(ahead);
        let ask = with_form("x", FORM, 3);
        let pending = bench.submit(&ask);
        let steps: Vec<Vec<StepSequence>> = std::iter::from_fn(|| bench.step()).collect();
        check(&ask, &pending, 128, &hashed);
        let rows: Vec<usize> = steps.iter().map(|step| step[0].tokens.len()).collect();
        let samples: usize = steps.iter().map(|step| step[0].samples.len()).sum();
        // `name: ` is drawn with its first letter; then two letters; `, the place: ` with its comma; a letter; `, end`,
        // which ends it without a step more.
        assert_eq!(rows, [prompt("x").len(), 6, 1, 1, 13, 1], "{ahead}");
        assert_eq!(samples, 6);
        assert_eq!(bench.stats().forced, 5 + 12 + 4);
        bench.run();
    }
}

#[test]
fn more_than_a_block_of_forced_tokens_takes_several_steps() {
    let form = "0123456789abcdefghijklmnopqrstuvwxyz0123456789[xy]";
    let mut bench = Bench::new(shape(1, 64, 128), limits());
    let ask = with_form("x", form, 3);
    let pending = bench.submit(&ask);
    let steps: Vec<Vec<StepSequence>> = std::iter::from_fn(|| bench.step()).collect();
    check(&ask, &pending, 128, &hashed);
    let rows: Vec<usize> = steps.iter().map(|step| step[0].tokens.len()).collect();
    assert_eq!(rows, [prompt("x").len(), 16, 16, 14]);
}

#[test]
fn limits_ends_stops_and_probabilities_hold_within_forced_tokens() {
    let mut cut = with_form("x", FORM, 3);
    for most in 1..34 {
        cut.parameters.max_tokens = most;
        for context in [64, 20] {
            let mut bench = Bench::new(shape(1, 64, context), limits());
            let pending = bench.submit(&cut);
            bench.run();
            check(&cut, &pending, context, &hashed);
        }
    }
    let mut stopped = with_form("x", FORM, 3);
    stopped.parameters.stop = vec!["place".into()];
    let mut bench = Bench::new(shape(1, 64, 128), limits());
    let pending = bench.submit(&stopped);
    bench.run();
    let choice = pending.choice();
    assert_eq!(choice.finish, tidegate_contract::Finish::Stop);
    assert!(choice.text.ends_with(", the "), "{}", choice.text);
    // Probabilities are of draws: each token is drawn.
    let mut told = with_form("x", FORM, 3);
    told.parameters.logprobs = Some(2);
    let mut bench = Bench::new(shape(1, 64, 128), limits());
    let pending = bench.submit(&told);
    bench.run();
    let choice = pending.choice();
    let (tokens, finish) = choice_alone(&told, 0, 128, &hashed);
    assert_eq!((&choice.tokens, choice.finish), (&tokens, finish));
    // None is likelier than the only one.
    assert_eq!(choice.logprobs.len(), tokens.len());
    assert_eq!(choice.logprobs[1].logprob, 0.0);
    assert_eq!(bench.stats().forced, 0);
}

#[test]
fn forced_answers_are_the_same_beside_others_in_small_steps_preempted_and_after_faults() {
    let mut asks = asks();
    asks.iter_mut().for_each(|ask| ask.class = 3);
    for (step_tokens, blocks) in [(64, 200), (13, 200), (40, 8)] {
        for look_ahead in [0, 4] {
            for (ahead, faults) in [(false, false), (true, false), (false, true), (true, true)] {
                let limits = Limits {
                    step_tokens,
                    look_ahead,
                    ..limits()
                };
                let mut few = shape(12, 64, 128);
                few.blocks = blocks;
                let mut bench = Bench::new(few, limits).ahead(ahead);
                if faults {
                    let steps = AtomicU64::new(0);
                    bench.control.refuse(move |step| {
                        let fails = steps.fetch_add(1, Ordering::SeqCst) % 7 == 3;
                        (step.len() > 1 && fails).then(|| DecodeError::Device {
                            reason: "no".into(),
                        })
                    });
                }
                let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
                let urgent = ask(&"urgent and long enough ".repeat(3), 3);
                let mut came = Vec::new();
                let mut steps = 0;
                while bench.step().is_some() {
                    steps += 1;
                    // Others give way to it, within forced tokens too.
                    if steps % 5 == 0 && steps <= 20 {
                        came.push(bench.submit(&urgent));
                    }
                    // Rarely enough that nobody is in more of them than are allowed.
                    if faults && steps == 20 {
                        bench.lose("reset");
                    }
                }
                bench.run();
                for (ask, pending) in asks.iter().zip(&pending) {
                    check(ask, pending, 128, &hashed);
                }
                for pending in &came {
                    check(&urgent, pending, 128, &hashed);
                }
                let stats = bench.stats();
                assert!(stats.forced > 100, "{stats:?}");
                assert!(blocks > 100 || stats.preemptions > 0, "{stats:?}");
            }
        }
    }
}

#[test]
fn a_step_has_no_more_rows_than_it_may_and_forced_tokens_wait() {
    let limits = Limits {
        step_tokens: 10,
        ..limits()
    };
    let mut bench = Bench::new(shape(4, 64, 128), limits);
    let asks: Vec<Ask> = (0..4)
        .map(|n| with_form(&format!("prompt {n}"), FORM, n))
        .collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    let mut parts = 0;
    while let Some(step) = bench.step() {
        let rows: usize = step.iter().map(|sequence| sequence.tokens.len()).sum();
        assert!(rows <= 10, "{rows}");
        let beyond = prompt("prompt 0").len() as u32;
        parts += step
            .iter()
            .filter(|s| s.samples.is_empty() && s.position >= beyond)
            .count();
    }
    assert!(parts > 0, "forced tokens came in pieces");
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &hashed);
    }
    bench.run();
}
