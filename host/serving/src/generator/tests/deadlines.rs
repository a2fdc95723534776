//! Deadlines, classes, and the bound on waiting.

use tidegate_contract::{CLASS_BESIDE, ModelError};

use super::*;

/// Steps enough for the costs to be known.
pub(super) fn warm(bench: &mut Bench) {
    for n in 0..30 {
        let text = format!("{n}{}", "warm".repeat(1 + n % 5 * 5));
        let pending = bench.submit(&ask(&text, 8));
        bench.run();
        drop(pending.answer());
    }
}

#[test]
fn a_deadline_ends_a_waiting_and_a_running_request() {
    let limits = Limits {
        sequences: 1,
        ..limits()
    };
    let mut bench = Bench::new(shape(2, 64, 128), limits);
    let soon = Duration::from_millis(7);
    let running = bench.submit_until(&ask("ab", 40), Some(soon));
    let waiting = bench.submit_until(&ask("cd", 40), Some(soon));
    let patient = bench.submit(&ask("ef", 2));
    while !running.has_ended() {
        bench.step();
    }
    // Three or four steps of 2.1 ms: what they made was handed on.
    let made = running.tokens().len();
    assert!(made >= 3);
    assert_eq!(running.error(), ModelError::Expired { made });
    assert_eq!(waiting.error(), ModelError::Expired { made: 0 });
    bench.run();
    check(&ask("ef", 2), &patient, 128, &hashed);
    assert_eq!(bench.stats().expired, 2);
}

#[test]
fn who_cannot_meet_its_deadline_is_told_before_anything_is_spent_on_it() {
    let limits = Limits {
        step_tokens: 64,
        ..limits()
    };
    let mut bench = Bench::new(shape(4, 64, 1024), limits);
    warm(&mut bench);
    let before = bench.stats().prompt_tokens;
    // 800 tokens are thirteen steps of at least 2 ms, and 16 ms for the tokens.
    let long = ask(&"no way!!".repeat(100), 4);
    let hopeless = bench.submit_until(&long, Some(bench.now + Duration::from_millis(20)));
    let possible = bench.submit_until(&long, Some(bench.now + Duration::from_millis(80)));
    bench.run();
    match hopeless.error() {
        ModelError::Hopeless { left, needed } => {
            assert_eq!(left, Duration::from_millis(20));
            let wanted = Duration::from_millis(42);
            assert!(
                needed.abs_diff(wanted) < Duration::from_millis(3),
                "{needed:?}"
            );
        }
        error => panic!("{error:?}"),
    }
    check(&long, &possible, 1024, &hashed);
    let stats = bench.stats();
    assert_eq!((stats.hopeless, stats.failed), (1, 1));
    // Only the other was computed.
    assert!(stats.prompt_tokens - before < 900);
    // Its prompt is there now: the same deadline can be met.
    let again = bench.submit_until(&long, Some(bench.now + Duration::from_millis(20)));
    bench.run();
    check(&long, &again, 1024, &hashed);
}

#[test]
fn a_slow_time_is_not_held_against_anybody_for_ever() {
    let mut bench = Bench::new(shape(4, 64, 256), limits());
    warm(&mut bench);
    bench.slow = 20;
    for n in 0..30 {
        bench.submit(&ask(&format!("slow {n}"), 8));
        bench.run();
    }
    bench.slow = 1;
    // Alone 2.2 ms, as usual again; by the steps there were more than 40.
    let soon = |bench: &Bench| Some(bench.now + Duration::from_millis(10));
    let refused = bench.submit_until(&ask("a", 1), soon(&bench));
    bench.run();
    assert!(matches!(refused.error(), ModelError::Hopeless { .. }));
    // Nothing else comes, so nothing is measured; later somebody is let through, and then everybody.
    bench.now += Duration::from_millis(1001);
    for n in 0..10 {
        let ask = ask(&format!("fine {n}"), 1);
        let pending = bench.submit_until(&ask, soon(&bench));
        bench.run();
        check(&ask, &pending, 256, &hashed);
    }
}

#[test]
fn a_first_step_that_compiles_kernels_refuses_nobody() {
    let mut bench = Bench::new(shape(4, 64, 256), limits());
    bench.slow = 1000;
    bench.submit(&ask("the first", 20));
    bench.step();
    bench.slow = 1;
    bench.run();
    for n in 0..20 {
        let ask = ask(&format!("fine {n}"), 2);
        let pending = bench.submit_until(&ask, Some(bench.now + Duration::from_millis(10)));
        bench.run();
        check(&ask, &pending, 256, &hashed);
    }
}

#[test]
fn nobody_is_refused_before_steps_were_measured() {
    let mut bench = Bench::new(shape(4, 64, 1024), limits());
    let long = ask(&"no way!!".repeat(100), 1);
    let pending = bench.submit_until(&long, Some(Duration::from_micros(10)));
    assert!(bench.step().is_some());
    assert!(bench.step().is_none());
    assert_eq!(pending.error(), ModelError::Expired { made: 0 });
}

#[test]
fn a_prompt_in_the_middle_is_given_up_when_it_cannot_be_done_in_time() {
    let limits = Limits {
        step_tokens: 16,
        ..limits()
    };
    let mut bench = Bench::new(shape(4, 64, 1024), limits);
    warm(&mut bench);
    // Alone it would need 50 steps of 2.3 ms; it is given just that, and then a more urgent one comes between.
    let mut long = ask(&"just so ".repeat(100), 1);
    long.class = 1;
    let tight = bench.submit_until(&long, Some(bench.now + Duration::from_millis(130)));
    for _ in 0..4 {
        bench.step();
    }
    assert!(!tight.has_ended());
    let urgent = ask(&"urgent".repeat(60), 1);
    let other = bench.submit_until(&urgent, Some(bench.now + Duration::from_millis(90)));
    bench.run();
    check(&urgent, &other, 1024, &hashed);
    assert!(matches!(tight.error(), ModelError::Hopeless { .. }));
}

#[test]
fn a_lower_class_makes_room_for_a_higher() {
    let limits = Limits {
        sequences: 2,
        aging: Duration::from_secs(100),
        ..limits()
    };
    let mut bench = Bench::new(shape(2, 64, 256), limits);
    let mut slow = ask("slow", 200);
    slow.class = 5;
    let slow_ones = [bench.submit(&slow), bench.submit(&slow)];
    for _ in 0..10 {
        bench.step();
    }
    let urgent = ask("urgent", 3);
    let pending = bench.submit(&urgent);
    for _ in 0..3 {
        bench.step();
    }
    check(&urgent, &pending, 256, &hashed);
    bench.run();
    for pending in &slow_ones {
        check(&slow, pending, 256, &hashed);
    }
    assert_eq!(bench.stats().preemptions, 1);
}

#[test]
fn what_is_beside_the_stream_gives_way_to_all_of_it_however_long_it_has_waited() {
    let limits = Limits {
        sequences: 2,
        aging: Duration::from_millis(1),
        ..limits()
    };
    let mut bench = Bench::new(shape(2, 64, 256), limits);
    let mut beside = ask("beside", 200);
    beside.class = CLASS_BESIDE;
    let tried = [bench.submit(&beside), bench.submit(&beside)];
    for _ in 0..50 {
        bench.step();
    }
    let mut last = ask("the last of the stream", 3);
    last.class = CLASS_BESIDE - 1;
    for preempted in 1..=5 {
        let pending = bench.submit(&last);
        for _ in 0..4 {
            bench.step();
        }
        check(&last, &pending, 256, &hashed);
        assert_eq!(bench.stats().preemptions, preempted);
    }
    bench.run();
    for pending in &tried {
        check(&beside, pending, 256, &hashed);
    }
}

#[test]
fn what_is_beside_the_stream_is_in_none_of_its_figures_of_time() {
    let mut bench = Bench::new(shape(2, 64, 256), limits());
    let mut beside = ask("beside", 200);
    beside.class = CLASS_BESIDE;
    let tried = bench.submit(&beside);
    bench.run();
    check(&beside, &tried, 256, &hashed);
    let times = |stats: &ModelStats| {
        [
            stats.queue_seconds.count(),
            stats.first_token_seconds.count(),
            stats.between_tokens_seconds.count(),
        ]
    };
    let stats = bench.stats();
    assert_eq!(times(&stats), [0, 0, 0]);
    // It was a request like others in what it cost.
    assert_eq!(
        (stats.answered, stats.step_seconds.count()),
        (1, stats.steps)
    );
    let other = ask("of the stream", 3);
    let pending = bench.submit(&other);
    bench.run();
    check(&other, &pending, 256, &hashed);
    let of_stream = bench.stats();
    let between = of_stream.tokens - stats.tokens - 1;
    assert_eq!(times(&of_stream), [1, 1, between]);
}

#[test]
fn what_is_beside_the_stream_is_in_none_of_its_figures_of_failure() {
    let mut bench = Bench::new(shape(1, 64, 256), limits());
    let mut beside = ask("beside", 200);
    beside.class = CLASS_BESIDE;
    let late = bench.submit_until(&beside, Some(bench.now + Duration::from_millis(7)));
    bench.run();
    assert!(matches!(late.error(), ModelError::Expired { .. }));
    let failed = |bench: &Bench| {
        let stats = bench.stats();
        let of_kinds = [stats.expired, stats.hopeless, stats.failed_otherwise];
        (stats.failed, of_kinds)
    };
    assert_eq!(failed(&bench), (0, [0; 3]));
    // The same of the stream has failed.
    beside.class = 0;
    let late = bench.submit_until(&beside, Some(bench.now + Duration::from_millis(7)));
    bench.run();
    assert!(matches!(
        late.error(),
        ModelError::Expired { .. } | ModelError::Hopeless { .. }
    ));
    assert_eq!(failed(&bench).0, 1);
}

#[test]
fn a_flood_cannot_starve_another_class_past_the_bound() {
    let mut dice = Dice(next_seed());
    for round in 0..20 {
        let aging = Duration::from_millis(100);
        let limits = Limits {
            sequences: 2,
            step_tokens: 16,
            aging,
            ..limits()
        };
        let mut bench = Bench::new(shape(2, 64, 64), limits);
        let class = dice.below(6) as u8;
        let mut flood: Vec<(Moment, Pending)> = Vec::new();
        let mut starved: Option<(Moment, Pending)> = None;
        let mut ahead = 0;
        loop {
            // More arrives than can be done, all of it urgent.
            while flood
                .iter()
                .filter(|(_, pending)| !pending.has_ended())
                .count()
                < 6
            {
                let content = format!("flood {round} {}", flood.len());
                let far = bench.now + Duration::from_secs(1000);
                let pending = bench.submit_until(&ask(&content, 8), Some(far));
                flood.push((bench.now, pending));
            }
            if starved.is_none() && flood.len() > 20 {
                ahead = flood.len();
                let low = Ask {
                    class,
                    ..ask("low", 2)
                };
                starved = Some((bench.now, bench.submit(&low)));
            }
            bench.step();
            if let Some((arrived, pending)) = &starved
                && pending.has_ended()
            {
                let bound = *arrived + aging * (u32::from(class) + 1);
                // Of those that came after the bound none was answered before it, but for the two places: what runs
                // there is finished first.
                let overtook = flood[ahead..]
                    .iter()
                    .filter(|(at, pending)| *at >= bound && pending.has_ended())
                    .count();
                assert!(
                    overtook <= 2,
                    "{overtook} overtook a request of class {class}"
                );
                let waited = bench.now - *arrived;
                // The bound, then who came before and is not done: six of at most ten steps of 4 ms, two at a time.
                assert!(waited <= aging * (u32::from(class) + 1) + Duration::from_millis(240));
                break;
            }
        }
    }
}
