//! Steps that are begun before the tokens of the one before are there, which the device feeds to them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    Adjustment, BLOCK, DecodeError, Decoder, FedToken, Ran, Sampled, Sampling, StepSequence,
};
use tidegate_infer::{Features, GpuDecoder};

use crate::support::{
    PLAIN, Random, blocks, full_config, gpu, load, open, options, options_on, random_model,
    sequence, silent, turned_config,
};

const VOCABULARY: u32 = 53;

/// Answers in the making, each with blocks of its own.
struct Answers {
    /// Prompt, then answer.
    tokens: Vec<Vec<u32>>,
    prompts: Vec<usize>,
    /// How the first one's tokens are drawn.
    kind: usize,
}

impl Answers {
    fn new(count: usize) -> Answers {
        let prompt = |place: usize| Random(60 + place as u64).tokens(53, 3 + place);
        let tokens: Vec<Vec<u32>> = (0..count).map(prompt).collect();
        let prompts = tokens.iter().map(Vec::len).collect();
        Answers {
            tokens,
            prompts,
            kind: 0,
        }
    }

    fn blocks(place: usize) -> Vec<u32> {
        blocks(4 * place as u32, 4 * BLOCK)
    }

    /// How the next token is drawn: of three one greedily, one by chance, one with penalties and under a mask that both depend on
    /// the tokens before.
    fn sampling(&self, place: usize) -> Sampling {
        let made = &self.tokens[place][self.prompts[place]..];
        let plain = Sampling {
            seed: place as u64,
            index: made.len() as u32,
            logprobs: Some(2),
            ..Sampling::default()
        };
        match (place + self.kind) % 3 {
            0 => plain,
            1 => Sampling {
                temperature: 1.2,
                top_k: 9,
                ..plain
            },
            _ => {
                let mut seen: Vec<u32> = made.to_vec();
                seen.sort_unstable();
                seen.dedup();
                let adjustment = |token: &u32| Adjustment {
                    token: *token,
                    count: made.iter().filter(|other| *other == token).count() as u32,
                    seen: true,
                    bias: 0.0,
                };
                let last = self.tokens[place].last().copied().unwrap();
                Sampling {
                    temperature: 0.7,
                    repetition: 1.4,
                    frequency: 0.6,
                    adjustments: seen.iter().map(adjustment).collect(),
                    allowed: Some(Arc::from([0x9249_2492_u32 >> (last % 3), 0x001f_ffff])),
                    ..plain
                }
            }
        }
    }

    /// The prompts whole, and what follows them.
    fn first(&self) -> Vec<StepSequence> {
        let places = 0..self.tokens.len();
        let prompt = |place: usize| StepSequence {
            samples: vec![self.sampling(place)],
            ..silent(0, &self.tokens[place], &Answers::blocks(place))
        };
        places.map(prompt).collect()
    }

    /// The row of each one's last token.
    fn next(&self, places: &[usize]) -> Vec<StepSequence> {
        let row = |place: &usize| {
            let (last, before) = self.tokens[*place].split_last().unwrap();
            StepSequence {
                samples: vec![self.sampling(*place)],
                ..silent(before.len(), &[*last], &Answers::blocks(*place))
            }
        };
        places.iter().map(row).collect()
    }

    /// The rows after the tokens that a step of all of them draws.
    fn after(&self, places: &[usize]) -> (Vec<StepSequence>, Vec<FedToken>) {
        let row = |place: &usize| StepSequence {
            samples: vec![Sampling::default()],
            ..silent(self.tokens[*place].len(), &[0], &Answers::blocks(*place))
        };
        let fed = |(sequence, place): (usize, &usize)| FedToken {
            sequence,
            sampling: *place,
        };
        (
            places.iter().map(row).collect(),
            places.iter().enumerate().map(fed).collect(),
        )
    }

    fn take(&mut self, places: &[usize], sampled: &[Sampled]) {
        assert_eq!(places.len(), sampled.len());
        for (place, sampled) in places.iter().zip(sampled) {
            self.tokens[*place].push(sampled.token.unwrap());
        }
    }
}

/// So many tokens of each, one step after another; all that was drawn.
fn one_by_one(decoder: &mut GpuDecoder, count: usize, steps: usize) -> Vec<Vec<Sampled>> {
    one_by_one_of(decoder, [count, 0], steps)
}

/// The same, of a number of answers and the first one's kind.
fn one_by_one_of(
    decoder: &mut GpuDecoder,
    [count, kind]: [usize; 2],
    steps: usize,
) -> Vec<Vec<Sampled>> {
    let mut answers = Answers::new(count);
    answers.kind = kind;
    let places: Vec<usize> = (0..count).collect();
    let mut step = answers.first();
    let mut all = Vec::new();
    for _ in 0..steps {
        let mut sampled = Vec::new();
        decoder.step(&step, &mut sampled).unwrap();
        answers.take(&places, &sampled);
        all.push(sampled);
        step = answers.next(&places);
    }
    all
}

/// The same, each step begun before the tokens of the one before are there.
fn ahead(decoder: &mut GpuDecoder, [count, kind]: [usize; 2], steps: usize) -> Vec<Vec<Sampled>> {
    let mut answers = Answers::new(count);
    answers.kind = kind;
    let places: Vec<usize> = (0..count).collect();
    let mut step = answers.first();
    let mut all = Vec::new();
    decoder.submit(&step).unwrap();
    for _ in 0..steps {
        let mut sampled = vec![Sampled::default(); 2];
        decoder.draw(&step).unwrap();
        let (after, fed) = answers.after(&places);
        decoder.submit_after(&after, &fed).unwrap();
        decoder.collect(&step, &mut sampled).unwrap();
        answers.take(&places, &sampled);
        all.push(sampled);
        step = answers.next(&places);
    }
    all
}

#[test]
fn fed_steps_draw_what_steps_draw_one_by_one() {
    for (config, seed) in [(turned_config(), 61), (full_config(), 62)] {
        let checkpoint = random_model(config, seed);
        for variant in PLAIN {
            let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), variant));
            for of in [[1, 0], [1, 1], [1, 2], [3, 0], [8, 0]] {
                let expected = one_by_one_of(&mut decoder, of, 12);
                let distinct = expected.iter().flatten().map(|sampled| sampled.token);
                let distinct: std::collections::BTreeSet<_> = distinct.collect();
                // The tied model repeats itself where nothing but its greatest logit counts.
                assert!(of == [1, 0] || distinct.len() > 4, "{of:?}: {distinct:?}");
                // In one submission, in several, and in passes of a row each, which nothing is fed to.
                for seconds in [1e-15, 1e-7, 1.0] {
                    decoder.pretend_pace(seconds, Duration::from_millis(50));
                    let found = ahead(&mut decoder, of, 12);
                    assert_eq!(found, expected, "{variant}, {of:?}, {seconds}");
                }
                decoder.pretend_pace(1e-15, Duration::from_millis(50));
                // What was begun last was given up, and what comes then is what it is alone.
                assert_eq!(one_by_one_of(&mut decoder, of, 3), expected[..3]);
            }
        }
    }
}

#[test]
fn the_device_takes_what_it_has_drawn_and_not_what_stands_in_its_place() {
    let checkpoint = random_model(turned_config(), 63);
    for variant in PLAIN {
        let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), variant));
        let expected = one_by_one(&mut decoder, 3, 3);
        let mut answers = Answers::new(3);
        let step = answers.first();
        let mut sampled = Vec::new();
        decoder.submit(&step).unwrap();
        decoder.draw(&step).unwrap();
        // Only the last and the first go on, in that order, beside a prompt that is known.
        let (mut after, fed) = answers.after(&[2, 0]);
        let known = Random(64).tokens(53, 6);
        after.insert(1, sequence(0, &known, &blocks(60, 6)));
        let moved = |fed: &FedToken| FedToken {
            sequence: 2 * fed.sequence,
            ..*fed
        };
        let fed: Vec<FedToken> = fed.iter().map(moved).collect();
        decoder.submit_after(&after, &fed).unwrap();
        decoder.collect(&step, &mut sampled).unwrap();
        answers.take(&[0, 1, 2], &sampled);
        let mut rows = answers.next(&[2, 0]);
        rows.insert(1, after[1].clone());
        decoder.draw(&rows).unwrap();
        // The rows that the host draws by have another token: it is not looked at any more.
        for row in [0, 2] {
            rows[row].tokens[0] = (rows[row].tokens[0] + 1) % VOCABULARY;
        }
        let mut found = Vec::new();
        decoder.collect(&rows, &mut found).unwrap();
        assert_eq!(found[0], expected[1][2], "{variant}");
        assert_eq!(found[7], expected[1][0], "{variant}");
        let mut alone = Vec::new();
        decoder.step(&after[1..2], &mut alone).unwrap();
        assert_eq!(found[1..7], alone, "{variant}");
    }
}

#[test]
fn who_ended_leaves_no_trace_and_a_row_without_a_token_harms_nobody() {
    let checkpoint = random_model(full_config(), 65);
    for (gpu, variant) in [(gpu(), PLAIN[0]), (gpu(), PLAIN[1])] {
        // Also with wgpu's checks, where a read out of bounds would be another number.
        for checked in [false, true] {
            let options = tidegate_infer::DecoderOptions {
                checked_shaders: checked,
                ..options(variant)
            };
            let mut decoder = load(gpu, &checkpoint, &options);
            let expected = one_by_one(&mut decoder, 3, 3);
            let mut answers = Answers::new(3);
            let mut step = answers.first();
            // Nothing may come for the first: it has no token.
            step[0].samples[0].allowed = Some(Arc::from([0_u32, 0]));
            let mut sampled = Vec::new();
            decoder.submit(&step).unwrap();
            decoder.draw(&step).unwrap();
            let (after, fed) = answers.after(&[0, 1, 2]);
            decoder.submit_after(&after, &fed).unwrap();
            decoder.collect(&step, &mut sampled).unwrap();
            assert_eq!(sampled[0], Sampled::default());
            assert_eq!(sampled[1..], expected[0][1..]);
            sampled[0] = expected[0][0].clone();
            answers.take(&[0, 1, 2], &sampled);
            // The first has failed and the second ended: their rows stay as they were.
            let mut rows = answers.next(&[0, 1, 2]);
            rows[..2].clone_from_slice(&after[..2]);
            decoder.draw(&rows).unwrap();
            // Their blocks are others' from now on: those come after.
            let (mut next, fed) = answers.after(&[2]);
            let tokens = Random(66).tokens(53, 40);
            next.push(sequence(0, &tokens, &blocks(0, 40)));
            decoder.submit_after(&next, &fed).unwrap();
            decoder.collect(&rows, &mut sampled).unwrap();
            assert_eq!(sampled[2], expected[1][2], "{variant}");
            answers.tokens[2].push(sampled[2].token.unwrap());
            next[0] = answers.next(&[2]).remove(0);
            decoder.draw(&next).unwrap();
            let mut found = Vec::new();
            decoder.collect(&next, &mut found).unwrap();
            assert_eq!(found[0], expected[2][2], "{variant}");
            let mut alone = load(gpu, &checkpoint, &options);
            let mut wanted = Vec::new();
            alone.step(&next[1..], &mut wanted).unwrap();
            assert_eq!(found[1..], wanted, "{variant}");
        }
    }
}

#[test]
fn a_step_after_that_is_refused_leaves_the_first_as_it_was() {
    let checkpoint = random_model(turned_config(), 67);
    let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), PLAIN[0]));
    let expected = one_by_one(&mut decoder, 3, 2);
    let answers = Answers::new(3);
    let step = answers.first();
    let (after, fed) = answers.after(&[0, 1, 2]);
    let refused = |decoder: &mut GpuDecoder, after: &[StepSequence], fed: &[FedToken]| match decoder
        .submit_after(after, fed)
    {
        Err(DecodeError::Refused { sequence, what, .. }) => (sequence, what),
        other => panic!("{other:?}"),
    };
    decoder.submit(&step).unwrap();
    decoder.draw(&step).unwrap();
    let mut wrong = after.clone();
    wrong[1].tokens[0] = VOCABULARY;
    assert_eq!(refused(&mut decoder, &wrong, &fed), (1, "token"));
    let mut never = fed.clone();
    never[2].sampling = 3;
    let what = "the sampling of a fed token";
    assert_eq!(refused(&mut decoder, &after, &never), (2, what));
    let mut sampled = Vec::new();
    decoder.collect(&step, &mut sampled).unwrap();
    assert_eq!(sampled, expected[0]);
    // One whose samplings are not as many as were submitted is refused when it is drawn from.
    decoder.submit(&step).unwrap();
    let mut fewer = step.clone();
    fewer[0].samples.clear();
    let error = decoder.draw(&fewer).unwrap_err();
    let reason = "a step with 3 samplings is drawn from with 2".to_owned();
    assert_eq!(error, DecodeError::Device { reason });
}

#[test]
fn a_step_after_counts_its_time_from_when_the_first_was_collected() {
    let checkpoint = random_model(turned_config(), 68);
    let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), PLAIN[1]));
    decoder.pretend_pace(1e-15, Duration::from_millis(50));
    assert_eq!(decoder.runs_ahead(), !gpu().is_software());
    let mut answers = Answers::new(3);
    let step = answers.first();
    let mut sampled = Vec::new();
    // A busy machine may take longer for them: then once more, and more patiently.
    for patience in [400, 4000, 40_000] {
        decoder.submit(&step).unwrap();
        decoder.draw(&step).unwrap();
        let (after, fed) = answers.after(&[0, 1, 2]);
        decoder.submit_after(&after, &fed).unwrap();
        // Both have ended by now, nobody knows when.
        std::thread::sleep(Duration::from_millis(patience));
        decoder.collect(&step, &mut sampled).unwrap();
        if decoder.ran() == Ran::Unknown {
            break;
        }
    }
    assert_eq!(decoder.ran(), Ran::Unknown);
    let dispatches = decoder.dispatches_last_step();
    answers.take(&[0, 1, 2], &sampled);
    let rows = answers.next(&[0, 1, 2]);
    decoder.draw(&rows).unwrap();
    decoder.collect(&rows, &mut sampled).unwrap();
    assert_eq!(decoder.ran(), Ran::Unknown);
    // Each counts its own, as it does alone.
    let mut alone = load(gpu(), &checkpoint, &options_on(gpu(), PLAIN[1]));
    alone.step(&step, &mut sampled).unwrap();
    assert_eq!(dispatches, alone.dispatches_last_step());
    alone.step(&rows, &mut sampled).unwrap();
    assert_eq!(decoder.dispatches_last_step(), alone.dispatches_last_step());
    let submissions = decoder.submissions_last_step();
    assert_eq!(submissions, 2, "its logits, and the draw");
}

#[test]
fn a_device_that_is_lost_while_two_steps_are_begun_is_a_typed_error() {
    let checkpoint = random_model(full_config(), 69);
    for phase in 0..4 {
        let device = open(Features::ALL);
        let mut decoder = load(&device, &checkpoint, &options(PLAIN[0]));
        let answers = Answers::new(3);
        let step = answers.first();
        let (after, fed) = answers.after(&[0, 1, 2]);
        let run = |decoder: &mut GpuDecoder| {
            let lose = |at| {
                if at == phase {
                    device.lose();
                }
            };
            let mut sampled = Vec::new();
            decoder.submit(&step)?;
            decoder.draw(&step)?;
            lose(0);
            decoder.submit_after(&after, &fed)?;
            lose(1);
            decoder.collect(&step, &mut sampled)?;
            lose(2);
            decoder.draw(&after)?;
            lose(3);
            decoder.collect(&after, &mut sampled)
        };
        let error = run(&mut decoder).unwrap_err();
        assert!(
            matches!(error, DecodeError::DeviceLost { .. }),
            "{phase}: {error:?}"
        );
        assert_eq!(decoder.submit_after(&after, &fed).unwrap_err(), error);
        assert_eq!(decoder.submit(&step).unwrap_err(), error, "it stays lost");
    }
}
