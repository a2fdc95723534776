//! What a step is filled with.

use super::*;

#[test]
fn decode_rows_go_first_and_prompts_fill_what_is_left() {
    let limits = Limits {
        step_tokens: 10,
        ..limits()
    };
    let mut bench = Bench::new(shape(4, 64, 128), limits);
    let short = bench.submit(&ask("x", 20));
    assert_eq!(bench.step().unwrap()[0].tokens.len(), 4);
    let long = ask("a prompt of a good many tokens", 3);
    let pending = bench.submit(&long);
    let step = bench.step().unwrap();
    let rows: Vec<usize> = step.iter().map(|s| s.tokens.len()).collect();
    assert_eq!(rows, [1, 9]);
    assert_eq!((step[0].samples.len(), step[1].samples.len()), (1, 0));
    // 33 tokens in pieces of nine: only the last piece draws a token.
    let mut pieces = vec![9];
    while pieces.iter().sum::<usize>() < 33 {
        let step = bench.step().unwrap();
        pieces.push(step[1].tokens.len());
        let last = pieces.iter().sum::<usize>() == 33;
        assert_eq!(step[1].samples.len(), usize::from(last));
    }
    assert_eq!(pieces, [9, 9, 9, 6]);
    bench.run();
    check(&long, &pending, 128, &hashed);
    check(&ask("x", 20), &short, 128, &hashed);
}

#[test]
fn a_long_prompt_costs_the_others_no_more_than_was_said() {
    for (prefill_tokens, step_time, most) in [
        (5, Duration::from_secs(1), 5),
        // By the measured 20 us a prompt token there is room for 45 in 3 ms beside one row.
        (usize::MAX, Duration::from_millis(3), 46),
        // However little time there is, a block's worth of rows goes.
        (usize::MAX, Duration::ZERO, 16),
    ] {
        let limits = Limits {
            prefill_tokens,
            step_time,
            ..limits()
        };
        let mut bench = Bench::new(shape(4, 256, 1024), limits);
        let warm: Vec<Pending> = (0..6)
            .map(|n| bench.submit(&ask(&"warm ".repeat(n * 3), 20)))
            .collect();
        bench.run();
        warm.iter().for_each(|pending| drop(pending.answer()));
        let other = ask("x", 400);
        let pending = bench.submit(&other);
        bench.step();
        let long = bench.submit(&ask(&"long".repeat(100), 2));
        let mut largest = 0;
        while !long.has_ended() && !pending.has_ended() {
            let step = bench.step().unwrap();
            assert_eq!(step[0].tokens.len(), 1, "the answer's row comes first");
            largest = largest.max(step.get(1).map_or(0, |prompt| prompt.tokens.len()));
        }
        assert!(largest <= most && largest + 2 >= most, "{largest} {most}");
        bench.run();
    }
}

/// A device on which rows cost in steps: 1 to 8 alike, 9 to 32, and further ones 256 at a time.
fn in_steps(prefill: usize, decode: usize) -> Duration {
    Duration::from_millis(match prefill + decode {
        0..=8 => 40,
        9..=32 => 52,
        rows => 56 + 20 * ((rows - 33) / 256) as u64,
    })
}

#[test]
fn prompts_beside_steady_answers_take_the_room_that_costs_nothing_and_keep_the_bound() {
    // With 50 ms not even a block's worth of rows keeps to the bound: it goes all the same, and fills its tile.
    for (bound, least, longest) in [(50, 24, 52), (60, 200, 56), (80, 480, 76)] {
        let limits = Limits {
            step_time: Duration::from_millis(bound),
            ..limits()
        };
        let never_ends = |history: &[u32], logits: &mut [f32]| {
            hashed(history, logits);
            logits[EOS as usize] = -1.0;
        };
        let mut bench = Bench::with(shape(16, 4096, 4096), limits, Arc::new(never_ends), None);
        bench.time_of = in_steps;
        let answers: Vec<Pending> = (0..8)
            .map(|n| bench.submit(&ask(&format!("answer {n}"), 3000)))
            .collect();
        for _ in 0..20 {
            bench.step();
        }
        let (mut steps, mut over, mut rows) = (0, 0, Vec::new());
        for n in 0..24 {
            let long = bench.submit(&ask(&format!("{n}{}", "prompt! ".repeat(200)), 1));
            while !long.has_ended() {
                let before = bench.now;
                let step = bench.step().unwrap();
                let took = bench.now - before;
                assert!(took <= 2 * Duration::from_millis(bound), "{took:?}");
                steps += 1;
                over += usize::from(took > Duration::from_millis(longest));
                rows.push(step.iter().skip(8).map(|prompt| prompt.tokens.len()).sum());
            }
        }
        assert!(answers.iter().all(|answer| !answer.has_ended()));
        assert!(over <= 12 + steps / 100, "{over} of {steps} were longer");
        // The last piece of a prompt is what is left of it.
        let settled: &[usize] = &rows[rows.len() / 2..];
        let most = settled.iter().max().unwrap();
        assert!(*most >= least, "{bound}: {rows:?}");
        let full = settled.iter().filter(|rows| **rows >= least).count();
        assert!(full * 2 > settled.len(), "{bound}: {rows:?}");
    }
}

#[test]
fn chunks_of_any_size_give_the_same_answer() {
    let mut dice = Dice(8);
    let asks: Vec<Ask> = (0..6).map(|_| dice.ask(60, 10)).collect();
    for step_tokens in [1, 2, 7, 16, 17, 33] {
        let limits = Limits {
            step_tokens,
            ..limits()
        };
        let mut bench = Bench::new(shape(3, 64, 96), limits);
        let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
        bench.run();
        for (ask, pending) in asks.iter().zip(&pending) {
            check(ask, pending, 96, &hashed);
        }
    }
}

#[test]
fn a_prompt_as_long_as_all_blocks_runs_and_its_answer_ends_there() {
    let mut small = shape(1, 64, 1024);
    small.blocks = 3;
    let mut bench = Bench::new(small, limits());
    // 44 bytes and three special tokens leave one position of 48.
    let full = ask(&"x".repeat(44), 100);
    let others: Vec<Pending> = (0..3).map(|_| bench.submit(&ask("other", 30))).collect();
    let pending = bench.submit(&full);
    bench.run();
    check(&full, &pending, 48, &hashed);
    assert_eq!(pending_len(&full), 1);
    for other in &others {
        check(&ask("other", 30), other, 48, &hashed);
    }

    fn pending_len(ask: &Ask) -> usize {
        alone(ask, 48).0.len()
    }
}
