//! Blocks that several have.

use tidegate_contract::DecodeError;

use super::*;

#[test]
fn a_prompt_that_was_there_before_is_not_computed_again() {
    let mut bench = Bench::new(shape(4, 256, 256), limits());
    let first = ask(&"the same beginning of everything ".repeat(3), 4);
    let pending = bench.submit(&first);
    bench.run();
    check(&first, &pending, 256, &hashed);
    let computed = bench.stats().prompt_tokens;
    let mut second = first.clone();
    second.content.push_str("and more");
    let pending = bench.submit(&second);
    let step = bench.step().unwrap();
    // 102 tokens of beginning are six full blocks.
    assert_eq!(step[0].position, 96);
    bench.run();
    check(&second, &pending, 256, &hashed);
    let stats = bench.stats();
    assert_eq!(stats.prefix_hit_tokens, 96);
    assert_eq!(stats.prompt_tokens - computed, 110 - 96);
}

#[test]
fn those_who_come_together_share_as_soon_as_one_has_written() {
    let limits = Limits {
        step_tokens: 32,
        ..limits()
    };
    let mut bench = Bench::new(shape(8, 64, 256), limits);
    let asks: Vec<Ask> = (0..4)
        .map(|n| ask(&format!("{}{n}", "the same beginning ".repeat(8)), 4))
        .collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 256, &hashed);
    }
    let stats = bench.stats();
    // 156 tokens each: three of the four find at least all but the pieces that were computed at the same time.
    assert!(stats.prompt_tokens < 2 * 156, "{stats:?}");
}

#[test]
fn further_answers_share_the_prompts_full_blocks() {
    let mut bench = Bench::new(shape(8, 256, 256), limits());
    let mut several = ask(&"a prompt for several answers ".repeat(3), 12);
    several.parameters.n = 4;
    several.parameters.temperature = 1.0;
    let pending = bench.submit(&several);
    bench.step();
    bench.step();
    // 90 tokens: five full blocks and a started one; the other three answers have one of their own each.
    assert_eq!(bench.generator.blocks.held(), 6 + 3);
    bench.run();
    check(&several, &pending, 256, &hashed);
    let choices = pending_choices(&mut bench, &several);
    let first: std::collections::HashSet<&Vec<u32>> = choices.iter().collect();
    assert_eq!(first.len(), 4, "each answer has a seed of its own");
    assert_eq!(bench.stats().prompt_tokens, 90 + 3 * 10 + 10 * 4);

    fn pending_choices(bench: &mut Bench, ask: &Ask) -> Vec<Vec<u32>> {
        let pending = bench.submit(ask);
        bench.run();
        pending.choices().into_iter().map(|c| c.tokens).collect()
    }
}

#[test]
fn a_hit_and_a_miss_give_the_same_answer() {
    let mut dice = Dice(9);
    let asks: Vec<Ask> = (0..20).map(|_| dice.ask(60, 12)).collect();
    let mut bench = Bench::new(shape(4, 64, 96), limits());
    for _ in 0..3 {
        for ask in &asks {
            let pending = bench.submit(ask);
            bench.run();
            check(ask, &pending, 96, &hashed);
        }
    }
    assert!(bench.stats().prefix_hit_tokens > 500);
}

#[test]
fn equal_prompts_that_come_together_are_computed_once() {
    let content = "the same prompt of many tokens ".repeat(5);
    let length = prompt(&content).len();
    // The first writes all of it, each other what is behind the last whole block.
    let rest = length - (length - 1) / 16 * 16;
    for step_tokens in [4096, 100, 33] {
        for ahead in [false, true] {
            let limits = Limits {
                step_tokens,
                ..limits()
            };
            let mut bench = Bench::new(shape(32, 4096, 256), limits).ahead(ahead);
            let asks: Vec<Ask> = (0..32)
                .map(|seed| {
                    let mut ask = ask(&content, 3);
                    ask.parameters.temperature = 1.0;
                    ask.seed = seed;
                    ask
                })
                .collect();
            let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
            let steps: Vec<Vec<StepSequence>> = std::iter::from_fn(|| bench.step()).collect();
            // Rows of prompts, by their places: the last one of a prompt may go as a row of an answer.
            let of_prompt = |s: &StepSequence| {
                let from = (s.position as usize).min(length);
                (s.position as usize + s.tokens.len()).min(length) - from
            };
            let rows: usize = steps.iter().flatten().map(of_prompt).sum();
            for (ask, pending) in asks.iter().zip(&pending) {
                check(ask, pending, 256, &hashed);
            }
            let stats = bench.stats();
            assert_eq!(rows, length + 31 * rest);
            assert_eq!(stats.prefix_hit_tokens as usize, 31 * (length - rest));
            bench.run();
        }
    }
}

#[test]
fn prompts_that_begin_alike_each_write_what_is_their_own() {
    let beginning = "a beginning that all of them have ".repeat(4);
    let mut bench = Bench::new(shape(16, 4096, 512), limits());
    let asks: Vec<Ask> = (0..9)
        .map(|n| {
            let group = ["one group ", "another group ", "a third "][n % 3].repeat(4);
            ask(&format!("{beginning}{group}{n}"), 3)
        })
        .collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 512, &hashed);
    }
    // Each different block of tokens with all before it once, and each end of less than a block.
    let mut blocks = std::collections::HashSet::new();
    let mut ends = 0;
    for ask in &asks {
        let tokens = prompt(&ask.content);
        let whole = (tokens.len() - 1) / 16;
        blocks.extend((1..=whole).map(|block| tokens[..block * 16].to_vec()));
        ends += tokens.len() - whole * 16;
    }
    assert_eq!(
        bench.stats().prompt_tokens as usize,
        blocks.len() * 16 + ends
    );
}

#[test]
fn where_the_first_fails_or_goes_or_gives_way_the_next_writes_on() {
    let content = "the same prompt of many tokens ".repeat(5);
    let length = prompt(&content).len();
    for how in ["cancelled", "refused", "lost", "preempted"] {
        let limits = Limits {
            step_tokens: 48,
            ..limits()
        };
        let mut sizes = shape(8, 4096, 256);
        if how == "preempted" {
            sizes.blocks = 22;
        }
        let mut bench = Bench::new(sizes, limits);
        let asks: Vec<Ask> = (0..5)
            .map(|n| Ask {
                class: 3,
                ..ask(&content, 3 + n)
            })
            .collect();
        let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
        assert_eq!(bench.step().unwrap().len(), 1, "one alone writes");
        let mut first_ends = false;
        let mut other = None;
        match how {
            "cancelled" => {
                bench.generator.cancel(pending[0].id);
                first_ends = true;
            }
            "refused" => {
                let times = std::sync::atomic::AtomicUsize::new(0);
                bench.control.refuse(move |_| {
                    let error = DecodeError::Refused {
                        sequence: 0,
                        what: "token",
                        value: "37".into(),
                        limit: "something else".into(),
                    };
                    (times.fetch_add(1, Ordering::SeqCst) == 0).then_some(error)
                });
                first_ends = true;
            }
            "lost" => bench.lose("it went away"),
            _ => {
                let urgent = Ask {
                    class: 0,
                    ..ask(&"something else that is urgent ".repeat(8), 3)
                };
                other = Some((bench.submit(&urgent), urgent));
            }
        }
        bench.run();
        for (ask, pending) in asks.iter().zip(&pending).skip(usize::from(first_ends)) {
            check(ask, pending, 256, &hashed);
        }
        assert!(!first_ends || pending[0].wait().1.is_err(), "{how}");
        if let Some((pending, ask)) = other {
            check(&ask, &pending, 256, &hashed);
            assert!(bench.stats().preemptions > 0);
        }
        let (stats, most) = (bench.stats(), 2 * length + 5 * 16 + 250);
        assert!(stats.prompt_tokens < most as u64, "{how}: {stats:?}");
    }
}

#[test]
fn who_is_better_ranked_waits_for_nobody_and_is_waited_for() {
    let content = "the same prompt of many tokens ".repeat(6);
    let length = prompt(&content).len();
    let limits = Limits {
        step_tokens: 40,
        ..limits()
    };
    let mut bench = Bench::new(shape(8, 4096, 256), limits);
    let patient = Ask {
        class: 5,
        ..ask(&content, 3)
    };
    let slow = bench.submit(&patient);
    bench.step();
    // It stands where no block begins when the other comes, and between them one that has nothing in common with them.
    let between = Ask {
        class: 3,
        ..ask(&"nothing of this is like the others ".repeat(6), 3)
    };
    let other = bench.submit(&between);
    let urgent = ask(&content, 3);
    let fast = bench.submit(&urgent);
    let mut steps = Vec::new();
    while !fast.has_ended() {
        steps.push(bench.step().unwrap());
    }
    assert!(!slow.has_ended() && !other.has_ended());
    assert_eq!(steps[0][0].position, 32, "what the patient one has written");
    assert_eq!(
        steps[0].len(),
        1,
        "the patient one writes nothing beside it"
    );
    bench.run();
    for (ask, pending) in [(&patient, &slow), (&between, &other), (&urgent, &fast)] {
        check(ask, pending, 256, &hashed);
    }
    let computed = bench.stats().prompt_tokens as usize;
    let own = prompt(&between.content).len();
    // But for the eight tokens behind the block, and the end of the prompt, nothing is computed twice.
    assert!(computed <= length + own + 8 + 16, "{computed}");
}

#[test]
fn who_waits_for_another_loses_its_place_to_nobody_behind() {
    let content = "the same prompt of many tokens ".repeat(6);
    let limits = Limits {
        step_tokens: 32,
        sequences: 2,
        ..limits()
    };
    let mut bench = Bench::new(shape(8, 4096, 256), limits);
    let asks = [ask(&content, 30), ask(&content, 3), ask("small", 3)];
    let pending = asks.each_ref().map(|ask| bench.submit(ask));
    while !pending[1].has_ended() {
        bench.step().unwrap();
        assert!(!pending[2].has_ended(), "who is behind went before");
    }
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 256, &hashed);
    }
}

#[test]
fn nobody_gives_way_where_those_who_wait_for_another_take_the_places() {
    let content = "the same prompt of many tokens ".repeat(6);
    let limits = Limits {
        step_tokens: 32,
        sequences: 4,
        ..limits()
    };
    let mut bench = Bench::new(shape(8, 4096, 256), limits);
    let patient = Ask {
        class: 5,
        ..ask("patient", 60)
    };
    let mut asks = vec![patient];
    let mut pending = vec![bench.submit(&asks[0])];
    bench.step();
    asks.extend((0..4).map(|_| ask(&content, 3)));
    asks.push(ask("another", 3));
    pending.extend(asks[1..].iter().map(|ask| bench.submit(ask)));
    for _ in 0..3 {
        bench.step();
    }
    assert_eq!(bench.stats().preemptions, 0);
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 256, &hashed);
    }
}

#[test]
fn what_many_wait_for_together_is_counted_once() {
    let content = "the same prompt of many tokens ".repeat(6);
    let limits = Limits {
        step_tokens: 32,
        ..limits()
    };
    let mut few = shape(8, 4096, 256);
    few.blocks = 32;
    let mut bench = Bench::new(few, limits);
    let mut asks = vec![ask(&content, 3); 3];
    asks.push(ask("another", 3));
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.step().unwrap();
    // The first writes; the small one has its room beside it, and the other two wait.
    assert_eq!(bench.generator.running.len(), 2);
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 256, &hashed);
    }
}
