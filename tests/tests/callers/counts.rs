//! Every piece of every record has one end, and its caller hears of it; and what a caller is told of a model is said of the
//! piece that it is answered with.

use std::collections::HashMap;
use std::sync::Mutex;

use tidegate_contract::{
    AnswerLane, Blame, Lane, Made, ModelError, OperatorError, Through, TokenHandler,
};
use tidegate_flow::{Stage, Target};

use crate::native::{Held, Native, Says, answer, piece};
use crate::setting::*;
use crate::table::{End, Table};

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

/// Lets everything through.
struct Passes;

impl TokenHandler for Passes {
    fn open(&mut self, _: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
    fn step(&mut self, _: u64, text: &str, _: bool) -> Result<Through, OperatorError> {
        let text = text.to_owned();
        Ok(Through { text, end: None })
    }
    fn close(&mut self, _: u64) {}
}

/// A stage with these among those behind it that handle tokens.
fn stage(random: &mut Random, at: usize, stages: usize, handling: &[usize]) -> Stage {
    let main = targets(random, at, stages);
    let seed = random.below(u64::MAX);
    let name = format!("stage-{at}");
    if handling.contains(&at) {
        let slot = Native::with_handlers(|| Ok(Box::new(Passes)));
        return operator(&name, slot, main, Vec::new());
    }
    if random.below(5) < 2 {
        let asked = Mutex::new(0u64);
        let model = Held::answering(move |request| {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            let text = format!("stage-{at} says {asked}");
            request.reply.piece(&piece(0, &text[..5]));
            match mix(seed ^ *asked) % 8 {
                0 => Err(ModelError::EmptyPrompt),
                1 => Err(ModelError::Device("lost".into())),
                2 => Err(ModelError::Remote {
                    server: "there".into(),
                    why: "busy".into(),
                    told: "it failed".into(),
                    again: true,
                    after: None,
                }),
                _ => {
                    request.reply.piece(&piece(1, &text[5..]));
                    Ok(answer(&text))
                }
            }
        });
        let mut stage = stage_of(model);
        if random.below(4) == 0 {
            stage.field = "aside".into();
        }
        if random.below(4) > 0 {
            stage.tokens = handling.iter().copied().filter(|of| *of > at).collect();
        }
        return model_stage(&name, stage, main);
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

/// What was told of the models that were heard: how many records were heard as they were made, and how many came with
/// what a model said.
#[derive(Default)]
struct Told {
    early: usize,
    brought: usize,
}

fn check_what_was_told(table: &Table, offset: u64, seed: u64, told: &mut Told) {
    let values = table.values(offset);
    let brought = table.brought(offset);
    assert_eq!(values.len(), brought.len());
    let member = |value: &str, name: &str| -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        value.get(name)?.as_str().map(str::to_owned)
    };
    for (value, brought) in values.iter().zip(&brought) {
        // Of the last that wrote the member which the sink takes, or of the last at all.
        let said = member(value, "answer").or_else(|| member(value, "aside"));
        let text = brought.as_ref().map(|answer| match &answer.made {
            Made::Choices(choices) => choices[0].text.clone(),
            made => panic!("not a text but {made:?}"),
        });
        assert_eq!(text, said, "seed {seed}, offset {offset}");
        told.brought += usize::from(said.is_some());
    }
    let sent = values.iter().find_map(|value| member(value, "answer"));
    if let (Some(sent), Some(last)) = (sent, table.attempts(offset).last()) {
        let early = table.text(offset, *last, Lane::Content);
        assert_eq!(early, sent, "seed {seed}, offset {offset}");
        told.early += 1;
    }
}

fn every_piece_ends_once(seed: u64, takes_back: usize) -> Told {
    let mut random = Random(seed);
    let stages = 1 + random.below(5) as usize;
    let handling: Vec<usize> = (0..stages).filter(|_| random.below(5) == 0).collect();
    let stages: Vec<Stage> = (0..stages)
        .map(|at| stage(&mut random, at, stages, &handling))
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
            // Asked otherwise, or again, it has an answer: nothing of it is kept.
            End::Dead(_, _, Some(error)) if error.blame() != Blame::Host => told.1 += 1,
            End::Dead(..) => told.2 += 1,
        }
    }
    let counts = ended.counts;
    assert_eq!(
        told,
        (counts.output, counts.dropped, counts.dead),
        "seed {seed}"
    );
    let mut told = Told::default();
    for offset in offsets {
        check_what_was_told(&table, offset, seed, &mut told);
    }
    told
}

#[test]
fn every_piece_of_every_record_has_one_end_whatever_the_pipeline_makes_of_it() {
    let topologies = if tidegate_tests::full() { 2000 } else { 150 };
    let (mut early, mut brought) = (0, 0);
    for seed in 0..topologies {
        let told = every_piece_ends_once(seed, 0);
        early += told.early;
        brought += told.brought;
    }
    assert!(
        early > 100 && brought > 2 * early,
        "{early} were shown early, {brought} came with an answer"
    );
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
