//! Tokens guessed ahead change how fast an answer comes, and nothing else.

use tidegate_contract::{Speculation, Structure};

use super::*;
use crate::request::Work;

pub(super) fn ahead(look_ahead: usize) -> Limits {
    Limits {
        look_ahead,
        ..limits()
    }
}

pub(super) fn asks() -> Vec<Ask> {
    let mut dice = Dice(31);
    let mut asks: Vec<Ask> = (0..24).map(|_| dice.ask(40, 60)).collect();
    for ask in asks.iter_mut().skip(12) {
        ask.parameters.temperature = 0.0;
        ask.parameters.repetition_penalty = 1.0;
        ask.parameters.frequency_penalty = 0.0;
    }
    asks.push(structured());
    asks
}

/// An answer of few letters, under a structure.
pub(super) fn structured() -> Ask {
    let mut ask = ask("structured", 40);
    ask.parameters.structure = Some(Structure::Regex("(ab|cd){12}!?".into()));
    ask
}

fn run_all(mut bench: Bench, asks: &[Ask]) -> (usize, ModelStats) {
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    let steps = bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 128, &local);
    }
    (steps, bench.stats())
}

#[test]
fn looked_up_guesses_change_no_answer_and_save_steps() {
    let asks = asks();
    let bench = |limits| Bench::with(shape(8, 128, 128), limits, Arc::new(local), None);
    let (plain, none) = run_all(bench(ahead(0)), &asks);
    let (fewer, stats) = run_all(bench(ahead(8)), &asks);
    assert_eq!((none.drafted, none.accepted), (0, 0));
    assert!(stats.accepted > 50, "{stats:?}");
    assert!(fewer < plain * 9 / 10, "{fewer} of {plain} steps");
    assert_eq!(stats.tokens, none.tokens);
}

#[test]
fn guesses_and_the_token_before_them_fill_a_tile_where_rows_are_cheap() {
    let script = bytes(&"abcdefghij".repeat(8));
    let logits = scripted(prompt("x").len(), script.clone());
    let mut bench = Bench::with(shape(1, 64, 128), ahead(crate::MOST_GUESSES), logits, None);
    bench.time_of = |_, rows| Duration::from_micros(2000 + 10 * rows as u64);
    let pending = bench.submit(&ask("x", 60));
    let mut most = 0;
    while let Some(step) = bench.step() {
        if step[0].position > 0 {
            most = most.max(step[0].tokens.len());
        }
    }
    assert_eq!(most, 8);
    assert_eq!(pending.choice().tokens, script[..60]);
}

#[test]
fn a_draft_model_that_thinks_alike_is_nearly_always_right() {
    let asks = asks();
    let (draft, control) = Fake::alone(shape(8, 128, 128), Arc::new(local));
    let bench = Bench::with(shape(8, 128, 128), ahead(4), Arc::new(local), Some(draft));
    let (_, stats) = run_all(bench, &asks);
    control.is_sound();
    assert!(control.steps() > 0);
    assert!(stats.accepted * 10 >= stats.drafted * 9, "{stats:?}");
    assert!(stats.accepted > 300, "{stats:?}");
}

#[test]
fn a_draft_model_that_thinks_otherwise_changes_no_answer() {
    let asks = asks();
    let (draft, control) = Fake::alone(shape(2, 20, 80), Arc::new(hashed));
    let bench = Bench::with(shape(8, 128, 128), ahead(4), Arc::new(local), Some(draft));
    let (_, stats) = run_all(bench, &asks);
    control.is_sound();
    assert!(
        stats.drafted > 0 && stats.accepted * 4 < stats.drafted,
        "{stats:?}"
    );
}

#[test]
fn who_wants_no_guesses_gets_none() {
    let mut ask = asks().remove(20);
    let run = |ask: &Ask, draft: bool| {
        let draft = draft.then(|| Fake::alone(shape(8, 128, 128), Arc::new(local)).0);
        let bench = Bench::with(shape(8, 128, 128), ahead(8), Arc::new(local), draft);
        let stats = run_all(bench, std::slice::from_ref(ask)).1;
        // Each is of a load of its own.
        ModelStats {
            since: None,
            ..stats
        }
    };
    ask.parameters.max_tokens = 60;
    ask.parameters.speculation = Speculation::Off;
    assert_eq!(run(&ask, true).drafted, 0);
    ask.parameters.speculation = Speculation::PromptLookup;
    let looked_up = run(&ask, false);
    assert_eq!(run(&ask, true), looked_up, "the draft model is not asked");
    assert!(looked_up.drafted > 0);
}

#[test]
fn guesses_fit_where_blocks_samples_and_context_are_scarce() {
    let asks = asks();
    let mut tight = shape(3, 9, 128);
    tight.max_samples = 5;
    tight.blocks = 20;
    let bench = Bench::with(tight, ahead(8), Arc::new(local), None);
    let (_, stats) = run_all(bench, &asks);
    assert!(stats.accepted > 0, "{stats:?}");
}

/// What an answer under "(ab|cz){1,9}" is where the model wants `script`, after a prompt that has "abc" in it, and no token
/// is a z: after a c nothing can follow.
fn to_a_dead_end(script: &str, speculation: Speculation) -> (Vec<Token>, Result<String, String>) {
    let mut asked = ask("abc!", 20);
    asked.parameters.speculation = speculation;
    let structure = Structure::Regex("(ab|cz){1,9}".into());
    let logits = scripted(prompt("abc!").len(), bytes(script));
    let mut bench = Bench::with(shape(2, 64, 128), ahead(4), logits, None);
    let (mut submission, pending) = asked.submission(bench.now, None);
    let vocabulary = byte(b'z') as usize;
    let compiler = crate::constraint::compiler(&tokenizer(), vocabulary, &[EOS]).unwrap();
    let Ok(Work::Generate { matcher, .. }) = &mut submission.work else {
        panic!("a prompt");
    };
    *matcher = Some(Box::new(compiler.matcher(&structure).unwrap()));
    bench.generator.submit(submission);
    bench.run();
    assert_eq!(bench.stats().drafted > 0, speculation != Speculation::Off);
    let (tokens, result) = pending.wait();
    let text = |choice: &tidegate_contract::Choice| choice.text.clone();
    let result = result.map(|answer| match &answer.made {
        tidegate_contract::Made::Choices(choices) => text(&choices[0]),
        made => panic!("{made:?}"),
    });
    (tokens, result.map_err(|error| error.to_string()))
}

#[test]
fn a_guess_that_comes_to_a_dead_end_is_one_only_if_the_answer_comes_there_too() {
    for (script, made) in [("ababab", 6), ("abc", 3), ("abcab", 3)] {
        let [plain, guessed] = [Speculation::Off, Speculation::PromptLookup]
            .map(|speculation| to_a_dead_end(script, speculation));
        assert_eq!(plain, guessed, "{script}");
        assert_eq!(plain.0.len(), made, "{script}");
        assert_eq!(plain.1.is_ok(), script == "ababab", "{plain:?}");
    }
}
