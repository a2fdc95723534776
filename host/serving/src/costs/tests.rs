//! Costs that go by rows, and costs that go in steps.

use std::ops::RangeInclusive;

use super::*;

const NOW: Moment = Duration::ZERO;

fn size(prefill: usize, decode: usize) -> StepSize {
    StepSize::answers(decode).with_prompt(prefill, 0)
}

fn micros(fixed: u64, prefill: usize, decode: usize) -> Duration {
    Duration::from_micros(fixed + 40 * prefill as u64 + 300 * decode as u64)
}

#[track_caller]
fn close(found: Duration, wanted: Duration) {
    let (found, wanted) = (found.as_secs_f64(), wanted.as_secs_f64());
    assert!((found - wanted).abs() < 0.03 * wanted, "{found} {wanted}");
}

#[test]
fn mixed_steps_tell_the_parts_apart() {
    let mut costs = StepCosts::default();
    let remaining = Remaining {
        rows: 100,
        tokens: 10,
    };
    let beside = Beside {
        answers: StepSize::answers(3),
        rows_per_step: 64,
    };
    for step in 0..60 {
        let (prefill, decode) = ((step * 37) % 256, 1 + step % 7);
        assert_eq!(costs.predict(size(1, 1)).is_some(), step >= 8);
        let time = costs.time_for(remaining, beside);
        assert_eq!(time > Duration::ZERO, step >= 8);
        let took = micros(2000, prefill, decode);
        costs.observe(size(prefill, decode), took, NOW);
    }
    close(costs.predict(size(512, 8)).unwrap(), micros(2000, 512, 8));
    close(costs.predict(size(0, 1)).unwrap(), micros(2000, 0, 1));
    // Two steps for the prompt, and nine more for the tokens after the first.
    let wanted = 11 * micros(2000, 0, 3) + Duration::from_micros(100 * 40);
    close(costs.time_for(remaining, beside), wanted);
    let within = |limit| costs.prefill_within(size(0, 4), 0, limit, 1000).unwrap();
    let rows = within(micros(2000, 100, 4));
    assert!((97..=103).contains(&rows), "{rows}");
    // However little time there is.
    assert_eq!(within(Duration::ZERO), BLOCK);
}

#[test]
fn work_is_the_steps_of_the_prompt_and_of_the_tokens() {
    let mut costs = StepCosts::default();
    for step in 0..64 {
        let (prefill, decode) = ((step * 7) % 40, 1 + step % 3);
        costs.observe(size(prefill, decode), micros(5000, prefill, decode), NOW);
    }
    let beside = Beside {
        answers: StepSize::answers(2),
        rows_per_step: 32,
    };
    let time = |rows, tokens| costs.time_for(Remaining { rows, tokens }, beside);
    close(time(1, 1), micros(5000, 1, 2));
    close(time(32, 1), micros(5000, 32, 2));
    close(time(33, 1), micros(5000, 32, 2) + micros(5000, 1, 2));
    close(time(33, 11), time(33, 1) + 10 * micros(5000, 0, 2));
    // What is more than a time can be is the longest time, and nothing measured is no work.
    let all = Remaining {
        rows: 0,
        tokens: usize::MAX,
    };
    let slow = || {
        let mut costs = StepCosts::default();
        for _ in 0..10 {
            costs.observe(size(0, 2), Duration::from_secs(100), NOW);
        }
        costs
    };
    assert_eq!(slow().time_for(all, beside), Duration::MAX);
    assert_eq!(StepCosts::default().time_for(all, beside), Duration::ZERO);
}

#[test]
fn what_rows_see_is_a_cost_of_its_own() {
    // 1 ms, 100 us a row, 1 us for each 16 positions.
    let took = |size: StepSize| {
        Duration::from_micros(1000 + 100 * size.rows() as u64 + size.positions / 16)
    };
    let at = |rows: usize, position: usize| {
        (0..rows).fold(StepSize::default(), |size, _| size.with_answer(1, position))
    };
    let mut costs = StepCosts::default();
    for step in 0..200 {
        let size = at(1 + step % 4, 100 + (step * 531) % 3000);
        costs.observe(size, took(size), NOW);
    }
    for (rows, position) in [(1, 50), (4, 50), (2, 4000), (4, 8000)] {
        let size = at(rows, position);
        close(costs.predict(size).unwrap(), took(size));
    }
}

#[test]
fn what_was_never_seen_costs_nothing_yet() {
    let mut costs = StepCosts::default();
    for _ in 0..20 {
        costs.observe(size(0, 1), micros(2000, 0, 1), NOW);
    }
    close(costs.predict(size(0, 1)).unwrap(), micros(2000, 0, 1));
    let with_prompt = StepSize {
        prefill: 1000,
        ..size(0, 1)
    };
    assert!(costs.predict(with_prompt).unwrap() < micros(2100, 0, 1));
    let limit = Duration::from_secs(1);
    assert_eq!(costs.prefill_within(size(0, 1), 0, limit, 1000), None);
}

#[test]
fn one_slow_step_is_no_measure_and_a_lasting_change_is() {
    let mut costs = StepCosts::default();
    for step in 0..60 {
        let decode = 1 + step % 4;
        costs.observe(size(0, decode), micros(2000, 0, decode), NOW);
    }
    costs.observe(size(0, 2), Duration::from_secs(5), NOW);
    assert!(costs.predict(size(0, 2)).unwrap() < Duration::from_millis(4));
    for step in 0..200 {
        let decode = 1 + step % 4;
        costs.observe(size(0, decode), 10 * micros(2000, 0, decode), NOW);
    }
    close(costs.predict(size(0, 2)).unwrap(), 10 * micros(2000, 0, 2));
}

/// The first step of so many rows may compile kernels, too: it is no more than as many rows at a time as were measured would take, four
/// times over, as of any step.
#[test]
fn the_first_step_of_many_rows_is_a_measure_within_reason() {
    let after = |took| {
        let mut costs = StepCosts::default();
        for _ in 0..20 {
            costs.observe(StepSize::answers(8), Duration::from_millis(40), NOW);
        }
        costs.observe(size(400, 0), took, NOW);
        costs.predict(size(400, 0)).unwrap()
    };
    let most = 4 * Duration::from_millis(40) * 400 / 8;
    close(after(Duration::from_secs(60)), most);
    // What is within it is taken as it is.
    close(
        after(most - Duration::from_secs(1)),
        most - Duration::from_secs(1),
    );
}

#[test]
fn what_is_guessed_is_there_from_the_first_step_on() {
    let mut costs = StepCosts::default();
    assert_eq!(costs.guess(size(0, 1)), None);
    costs.observe(size(0, 1), Duration::from_millis(80), NOW);
    assert_eq!(costs.predict(size(0, 1)), None);
    close(costs.guess(size(0, 1)).unwrap(), Duration::from_millis(80));
}

#[test]
fn no_part_is_negative() {
    let mut costs = StepCosts::default();
    for step in 0..50u64 {
        // The larger the batch the shorter the step: nonsense, but nothing may come out below zero.
        costs.observe(
            size(step as usize * 16, 3),
            Duration::from_micros(5000 - step * 50),
            NOW,
        );
    }
    assert!(costs.predict(size(1 << 20, 0)).unwrap() > Duration::ZERO);
    assert!(costs.parts().iter().all(|part| *part >= Duration::ZERO));
}

#[test]
fn more_rows_are_never_taken_to_be_quicker_and_the_newest_time_is_right() {
    let mut costs = StepCosts::default();
    let millis = Duration::from_millis;
    for _ in 0..10 {
        costs.observe(StepSize::answers(4), millis(4), NOW);
        costs.observe(StepSize::answers(8), millis(8), NOW);
    }
    // The device is in other hands from now on: what it took before with more rows is no measure any more.
    for _ in 0..40 {
        costs.observe(StepSize::answers(4), millis(12), NOW);
    }
    let time = |decode| costs.predict(StepSize::answers(decode)).unwrap();
    close(time(4), millis(12));
    assert!(time(8) >= time(4) && time(6) >= time(4));
}

/// A device on which rows cost in steps: 1 to 8 rows alike, 9 to 32, and further ones 256 at a time.
fn in_steps(rows: usize) -> Duration {
    Duration::from_millis(match rows {
        0..=8 => 40,
        9..=32 => 52,
        rows => 56 + 20 * ((rows - 33) / 256) as u64,
    })
}

/// Plans steps with eight answers and as much of an endless prompt as there is room for; the rows of each.
fn chunks(limit: u64, steps: usize) -> Vec<usize> {
    let mut costs = StepCosts::default();
    for _ in 0..20 {
        costs.observe(StepSize::answers(8), in_steps(8), NOW);
    }
    costs.observe(size(400, 0), in_steps(400), NOW);
    let limit = Duration::from_millis(limit);
    let answers = StepSize::answers(8);
    let mut chunks = Vec::new();
    for _ in 0..steps {
        let rows = costs.prefill_within(answers, 0, limit, 2048).unwrap();
        costs.observe(answers.with_prompt(rows, 0), in_steps(8 + rows), NOW);
        chunks.push(rows);
    }
    chunks
}

/// How many steps took longer than this, and how long the longest took. What is too long is looked at again now and then,
/// less and less often.
fn over(chunks: &[usize], limit: u64) -> (usize, Duration) {
    let times = chunks.iter().map(|rows| in_steps(8 + rows));
    let limit = Duration::from_millis(limit);
    let over = times.clone().filter(|time| *time > limit).count();
    (over, times.max().unwrap_or_default())
}

/// The share of these that are in a range.
fn share_of(chunks: &[usize], range: RangeInclusive<usize>) -> f64 {
    let within = chunks.iter().filter(|rows| range.contains(rows)).count();
    within as f64 / chunks.len() as f64
}

#[test]
fn a_tile_that_is_paid_for_is_filled() {
    // No row of a prompt fits into 50 ms, but a block's worth goes, and 24 cost as much.
    let chunks = chunks(50, 200);
    assert!(share_of(&chunks[50..], 22..=24) > 0.9, "{chunks:?}");
    let (over, longest) = over(&chunks, 52);
    assert!(over <= 24 && longest <= in_steps(400), "{chunks:?}");
}

#[test]
fn the_free_room_of_the_largest_tile_within_the_limit_is_found() {
    let chunks = chunks(60, 200);
    // 280 rows beside eight answers end that tile.
    assert!(share_of(&chunks[50..], 260..=280) > 0.9, "{chunks:?}");
    let (over, longest) = over(&chunks, 60);
    assert!(
        over <= 24 && longest <= 2 * Duration::from_millis(60),
        "{chunks:?}"
    );
}

#[test]
fn a_limit_that_several_tiles_keep_is_kept() {
    let chunks = chunks(100, 200);
    assert!(share_of(&chunks[50..], 740..=792) > 0.9, "{chunks:?}");
    let (over, longest) = over(&chunks, 100);
    assert!(
        over <= 24 && longest <= 2 * Duration::from_millis(100),
        "{chunks:?}"
    );
}

#[test]
fn a_device_that_is_not_always_as_fast_has_its_room_used_all_the_same() {
    let mut costs = StepCosts::default();
    let answers = StepSize::answers(8);
    // Up to 3 % more or less.
    let noisy = |step: usize, rows| in_steps(rows).mul_f64(0.97 + 0.001 * (step * 37 % 61) as f64);
    for step in 0..20 {
        costs.observe(answers, noisy(step, 8), NOW);
    }
    costs.observe(size(400, 0), in_steps(400), NOW);
    let limit = Duration::from_millis(62);
    let mut chunks = Vec::new();
    for step in 0..300 {
        let rows = costs.prefill_within(answers, 0, limit, 2048).unwrap();
        let took = noisy(step, 8 + rows);
        costs.observe(answers.with_prompt(rows, 0), took, NOW);
        chunks.push(rows);
    }
    let settled = &chunks[100..];
    let rows: usize = settled.iter().sum();
    assert!(rows / settled.len() >= 200, "{chunks:?}");
    let over = settled.iter().filter(|rows| **rows > 280).count();
    assert!(over <= 10, "{chunks:?}");
}

#[test]
fn answers_that_go_on_keep_nothing_fresh_that_is_known_of_prompts() {
    let mut costs = StepCosts::default();
    let prompt = size(256, 0);
    let slow = Duration::from_millis(500);
    for _ in 0..20 {
        costs.observe(prompt, slow, NOW);
    }
    close(costs.least(prompt, NOW).unwrap(), slow);
    let mut now = NOW;
    for _ in 0..100 {
        now += Duration::from_millis(20);
        costs.observe(size(0, 1), Duration::from_millis(20), now);
    }
    assert_eq!(costs.least(prompt, now), None);
    assert!(costs.least(size(0, 1), now).is_some());
}

#[test]
fn of_a_time_that_nobody_knows_only_what_is_less_than_expected_is_learnt() {
    let mut costs = StepCosts::default();
    for _ in 0..20 {
        costs.observe(size(0, 4), Duration::from_millis(10), NOW);
    }
    // The host had other work, and the step was over when it came back.
    for _ in 0..20 {
        costs.observe_at_most(size(0, 4), Duration::from_millis(100), NOW);
    }
    close(
        costs.predict(size(0, 4)).unwrap(),
        Duration::from_millis(10),
    );
    for _ in 0..40 {
        costs.observe_at_most(size(0, 4), Duration::from_millis(5), NOW);
    }
    close(costs.predict(size(0, 4)).unwrap(), Duration::from_millis(5));
}
