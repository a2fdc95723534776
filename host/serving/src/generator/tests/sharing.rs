//! Blocks that several have.

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
