//! Beginnings that stay in their blocks, whatever else comes.

use super::*;

fn pin(tokens: &[u32]) -> Pin {
    Pin {
        stage: "answer".into(),
        lora: 0,
        tokens: tokens.to_vec(),
    }
}

#[test]
fn what_is_pinned_outlives_whatever_takes_all_other_blocks() {
    let beginning = "what all prompts of the stage begin with ".repeat(3);
    let pinned = prompt(&beginning);
    let whole = pinned.len() / 16 * 16;
    let asks: Vec<Ask> = (0..6)
        .map(|n| ask(&format!("{beginning}then {n}"), 5))
        .collect();
    let mut dice = Dice(11);
    let others: Vec<Ask> = (0..60).map(|_| dice.ask(76, 8)).collect();
    // Without a pin what they begin with is gone when they come again.
    for (is_pinned, ahead) in [(true, false), (true, true), (false, false)] {
        let mut few = shape(1, 4096, 224);
        few.blocks = 24;
        let pins = if is_pinned {
            vec![pin(&pinned)]
        } else {
            Vec::new()
        };
        let mut bench = Bench::pinned(few, limits(), pins).ahead(ahead);
        for (turn, asked) in asks.iter().enumerate() {
            let pending: Vec<Pending> = others[turn * 10..][..10]
                .iter()
                .map(|ask| bench.submit(ask))
                .collect();
            bench.run();
            for (ask, pending) in others[turn * 10..].iter().zip(&pending) {
                check(ask, pending, 224, &hashed);
            }
            let before = bench.stats().prefix_hit_tokens;
            let pending = bench.submit(asked);
            bench.run();
            check(asked, &pending, 224, &hashed);
            let found = bench.stats().prefix_hit_tokens - before;
            assert_eq!(found as usize >= whole, is_pinned, "turn {turn}: {found}");
        }
        let blocks = &bench.generator.blocks;
        assert_eq!(blocks.pinned(), if is_pinned { whole / 16 } else { 0 });
        // Of the others, all have gone to somebody.
        assert_eq!(blocks.available(), 24 - blocks.pinned());
    }
}

#[test]
fn a_request_of_the_whole_context_has_room_beside_what_is_pinned() {
    let mut least = shape(1, 4096, 128);
    least.blocks = 12;
    let pinned: Vec<u32> = prompt(&"not what others begin with ".repeat(3))[..64].to_vec();
    let mut bench = Bench::pinned(least.clone(), limits(), vec![pin(&pinned)]);
    let long = ask(&"x".repeat(100), 200);
    let pending = [bench.submit(&long), bench.submit(&ask("y", 3))];
    bench.run();
    check(&long, &pending[0], 128, &hashed);
    assert_eq!(bench.stats().answered, 2);
    // One block more would leave it none.
    least.blocks = 11;
    let refused = Pins::new("fake", vec![pin(&pinned)], &least).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "model fake: what the prompts of answer begin with takes 4 KV blocks, and at most 3 of its 11 may be pinned: half, \
         and none that one sequence of its whole context needs; pin fewer, or give it more KV memory or less context"
    );
}

#[test]
fn a_lost_decoder_comes_back_with_what_is_pinned() {
    let beginning = "what all prompts of the stage begin with ".repeat(3);
    let pinned = prompt(&beginning);
    let whole = pinned.len() / 16 * 16;
    let sizes = shape(4, 4096, 256);
    let mut bench = Bench::pinned(sizes.clone(), limits(), vec![pin(&pinned)]);
    let asks: Vec<Ask> = (0..3)
        .map(|n| ask(&format!("{beginning}then {n}"), 5))
        .collect();
    let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
    bench.step();
    bench.lose("it went away");
    assert_eq!(bench.generator.blocks.pinned(), 0);
    let (mut decoder, control) = Fake::alone(sizes, Arc::new(hashed));
    bench
        .generator
        .pins
        .write("fake", decoder.as_mut())
        .unwrap();
    assert!(bench.generator.restored(decoder.as_ref(), None));
    (bench.decoder, bench.control) = (decoder, control);
    bench.generator.check();
    let before = bench.stats().prefix_hit_tokens;
    bench.run();
    for (ask, pending) in asks.iter().zip(&pending) {
        check(ask, pending, 256, &hashed);
    }
    let found = bench.stats().prefix_hit_tokens - before;
    assert!(found as usize >= 3 * whole, "{found}");
}
