//! Every piece of every record has one end, and its caller hears of it.

use std::collections::HashMap;
use std::sync::Mutex;

use tidegate_contract::ModelError;
use tidegate_flow::{Stage, Target};

use crate::native::{Held, Native, Says, answer};
use crate::setting::*;
use crate::table::End;

/// SplitMix64: the same topologies and outcomes for the same seed.
fn mix(mut state: u64) -> u64 {
    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % limit
    }
}

/// None, one or two of the stages after this one and the sinks.
fn targets(random: &mut Random, stage: usize, stages: usize) -> Vec<Target> {
    let mut all: Vec<Target> = (stage + 1..stages).map(Target::Stage).collect();
    all.extend([ANSWERS, ELSEWHERE]);
    let wanted = [0, 1, 1, 1, 2, 2, 3][random.below(7) as usize];
    let mut targets = Vec::new();
    for _ in 0..wanted.min(all.len()) {
        targets.push(all.swap_remove(random.below(all.len() as u64) as usize));
    }
    targets
}

fn stage(random: &mut Random, at: usize, stages: usize) -> Stage {
    let main = targets(random, at, stages);
    let seed = random.below(u64::MAX);
    let name = format!("stage-{at}");
    if random.below(3) == 0 {
        let asked = Mutex::new(0u64);
        let model = Held::answering(move |_| {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            match mix(seed ^ *asked) % 8 {
                0 => Err(ModelError::EmptyPrompt),
                1 => Err(ModelError::Device("lost".into())),
                2 => Err(ModelError::Remote {
                    server: "there".into(),
                    why: "busy".into(),
                    again: true,
                }),
                _ => Ok(answer("yes")),
            }
        });
        return asking(&name, model, main);
    }
    let side = targets(random, at, stages);
    let seen = Mutex::new(HashMap::<_, u64>::new());
    let slot = Native::new(move |record| {
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(record.id()).or_default();
        *times += 1;
        let id = record.id();
        match mix(seed ^ mix(id.offset) ^ mix(id.emit).rotate_left(7) ^ *times) % 16 {
            0 => Says::Drop,
            1 => Says::Split(Vec::new()),
            2 => Says::Split(vec![0]),
            3 => Says::Split(vec![0, 1]),
            4 => Says::Split(vec![1, 0, 0]),
            5 => Says::Route(1),
            6 => Says::Retry,
            7 => Says::Dead,
            8 => Says::Replace("{\"messages\": [], \"is\": \"unwritable".into()),
            _ => Says::Pass,
        }
    });
    operator(&name, slot, main, side)
}

fn every_piece_ends_once(seed: u64, takes_back: usize) {
    let mut random = Random(seed);
    let stages = 1 + random.below(5) as usize;
    let stages: Vec<Stage> = (0..stages)
        .map(|at| stage(&mut random, at, stages))
        .collect();
    let mut setting = Setting::new(stages);
    setting.takes_back = takes_back;
    setting.batch = 1 + random.below(9) as usize;
    setting.targets = match random.below(4) {
        0 => vec![Target::Stage(0), ELSEWHERE],
        1 => vec![ANSWERS, Target::Stage(0)],
        _ => vec![Target::Stage(0)],
    };
    let running = setting.start();
    let table = running.table.clone();
    let asked = 40;
    let offsets: Vec<u64> = (0..asked)
        .map(|n| table.ask(chat(&n.to_string())))
        .collect();
    let ended = running.end();
    assert_eq!(ended.counts.input, asked);
    let ends = offsets.iter().flat_map(|offset| table.ends(*offset));
    let mut told = (0, 0, 0);
    for end in ends {
        match end {
            End::Written(_) => told.0 += 1,
            End::Dropped(_) | End::Untaken(_) => told.1 += 1,
            End::Dead(..) => told.2 += 1,
        }
    }
    let counts = ended.counts;
    assert_eq!(
        told,
        (counts.output, counts.dropped, counts.dead),
        "seed {seed}"
    );
}

#[test]
fn every_piece_of_every_record_has_one_end_whatever_the_pipeline_makes_of_it() {
    let topologies = if tidegate_tests::full() { 2000 } else { 150 };
    for seed in 0..topologies {
        every_piece_ends_once(seed, 0);
    }
}

#[test]
fn a_cut_that_comes_to_nothing_tells_nobody_twice() {
    for seed in 0..50 {
        every_piece_ends_once(seed, 2 + seed as usize % 3);
    }
}

#[test]
fn a_caller_hears_where_its_record_ended_and_why() {
    let refuses = Held::answering(|_| Err(ModelError::EmptyPrompt));
    let slot = Native::new(|record| match record.value() {
        Some(b"drop") => Says::Drop,
        Some(b"side") => Says::Route(1),
        Some(b"dead") => Says::Dead,
        Some(b"unwritable") => Says::Split(vec![1, 1]),
        _ => Says::Pass,
    });
    let mut setting = Setting::new(vec![
        operator("check", slot, vec![Target::Stage(1)], Vec::new()),
        asking("ask", refuses, vec![ANSWERS]),
    ]);
    setting.targets = vec![Target::Stage(0)];
    let running = setting.start();
    let table = running.table.clone();
    let offsets: Vec<u64> = ["drop", "side", "dead", "unwritable", &chat("well?")]
        .into_iter()
        .map(|value| table.ask(value))
        .collect();
    running.end();
    let ends = |at: usize| table.ends(offsets[at]);
    assert_eq!(ends(0), [End::Dropped("check".into())]);
    assert_eq!(ends(1), [End::Untaken("check".into())]);
    assert_eq!(
        ends(2),
        [End::Dead("check".into(), "it is bad".into(), None)]
    );
    assert_eq!(
        ends(3),
        [End::Untaken("check".into()), End::Untaken("check".into())]
    );
    let refused = End::Dead(
        "ask".into(),
        "prompt is empty".into(),
        Some(ModelError::EmptyPrompt),
    );
    assert_eq!(ends(4), [refused]);
}
