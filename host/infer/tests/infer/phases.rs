//! A step in phases: it is what it is at once, whatever comes between.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{DecodeError, Decoder, Sampled, Sampling, StepSequence};
use tidegate_infer::{Features, GpuDecoder};

use crate::support::{
    PLAIN, Random, blocks, full_config, gpu, load, open, options, options_on, random_model,
    sequence, silent, turned_config,
};

/// Rows that are drawn from greedily, by chance and under masks, and rows that are only written.
fn step() -> Vec<StepSequence> {
    let tokens = Random(51).tokens(53, 60);
    let mut drawn = sequence(0, &tokens[..9], &blocks(0, 9));
    for (index, sampling) in drawn.samples.iter_mut().enumerate() {
        sampling.temperature = 0.3 * index as f32;
        sampling.top_k = 5;
        sampling.logprobs = Some(3);
        sampling.seed = index as u64;
    }
    let mut masked = sequence(0, &tokens[20..33], &blocks(8, 13));
    for (index, sampling) in masked.samples.iter_mut().enumerate() {
        let allowed: Vec<u32> = vec![0x1111_1111 << (index % 4), 0x000f_0f0f];
        sampling.allowed = (index % 3 > 0).then(|| Arc::from(allowed));
    }
    vec![drawn, silent(0, &tokens[9..20], &blocks(4, 11)), masked]
}

/// As it is before its masks are made.
fn without_masks(step: &[StepSequence]) -> Vec<StepSequence> {
    let mut step = step.to_vec();
    let samples = step.iter_mut().flat_map(|sequence| &mut sequence.samples);
    samples.for_each(|sampling| sampling.allowed = None);
    step
}

fn at_once(decoder: &mut GpuDecoder, step: &[StepSequence]) -> Vec<Sampled> {
    let mut sampled = Vec::new();
    decoder.step(step, &mut sampled).unwrap();
    sampled
}

fn in_phases(decoder: &mut GpuDecoder, step: &[StepSequence]) -> Vec<Sampled> {
    let mut sampled = vec![Sampled::default(); 3];
    decoder.submit(&without_masks(step)).unwrap();
    decoder.draw(step).unwrap();
    decoder.collect(step, &mut sampled).unwrap();
    sampled
}

#[test]
fn a_step_in_phases_draws_what_it_draws_at_once() {
    let checkpoint = random_model(turned_config(), 51);
    let step = step();
    let nothing_drawn = [step[1].clone()];
    for variant in PLAIN {
        let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), variant));
        let expected = at_once(&mut decoder, &step);
        assert_ne!(expected, at_once(&mut decoder, &without_masks(&step)));
        let dispatches = decoder.dispatches_last_step();
        let cap = Duration::from_millis(50);
        // In one submission, in several, and in passes of a row each.
        for seconds in [1e-15, 1e-7, 1.0] {
            decoder.pretend_pace(seconds, cap);
            assert_eq!(in_phases(&mut decoder, &step), expected, "{variant}");
            assert!(decoder.dispatches_last_step() >= dispatches);
            assert_eq!(in_phases(&mut decoder, &nothing_drawn), []);
        }
        // Who does not say that the masks are there has them drawn by when it collects.
        decoder.pretend_pace(1e-15, cap);
        let mut sampled = Vec::new();
        decoder.submit(&without_masks(&step)).unwrap();
        decoder.collect(&step, &mut sampled).unwrap();
        assert_eq!(sampled, expected, "{variant}");
    }
}

#[test]
fn a_step_that_was_given_up_leaves_no_trace() {
    let checkpoint = random_model(full_config(), 52);
    let step = step();
    let mut other = step.clone();
    other.reverse();
    for sampling in &mut other[2].samples {
        sampling.index += 7;
    }
    for variant in PLAIN {
        let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), variant));
        let expected = at_once(&mut decoder, &other);
        for drawn in [false, true] {
            for phases in [false, true] {
                decoder.submit(&step).unwrap();
                if drawn {
                    decoder.draw(&step).unwrap();
                }
                let found = match phases {
                    true => in_phases(&mut decoder, &other),
                    false => at_once(&mut decoder, &other),
                };
                assert_eq!(found, expected, "{variant}, {drawn}, {phases}");
            }
        }
    }
}

#[test]
fn a_step_outside_the_shape_is_refused_when_it_is_submitted_and_the_next_one_runs() {
    let checkpoint = random_model(turned_config(), 53);
    let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), PLAIN[0]));
    let expected = at_once(&mut decoder, &step());
    let mut wrong = step();
    wrong[1].tokens[0] = 53;
    let error = decoder.submit(&wrong).unwrap_err();
    assert!(matches!(error, DecodeError::Refused { sequence: 1, .. }));
    // A mask of the wrong length comes only later.
    decoder.submit(&step()).unwrap();
    let mut wrong = step();
    wrong[2].samples[0] = Sampling {
        allowed: Some(Arc::from([1_u32])),
        ..Sampling::default()
    };
    let error = decoder.draw(&wrong).unwrap_err();
    assert!(matches!(error, DecodeError::Refused { sequence: 2, .. }));
    assert_eq!(in_phases(&mut decoder, &step()), expected);
}

#[test]
fn a_device_that_is_lost_while_a_step_runs_is_a_typed_error() {
    let checkpoint = random_model(full_config(), 54);
    for phase in 0..3 {
        let device = open(Features::ALL);
        let mut decoder = load(&device, &checkpoint, &options(PLAIN[0]));
        let mut sampled = Vec::new();
        let mut run = |decoder: &mut GpuDecoder| {
            let lose = |at| {
                if at == phase {
                    device.lose();
                }
            };
            lose(0);
            decoder.submit(&step())?;
            lose(1);
            decoder.draw(&step())?;
            lose(2);
            decoder.collect(&step(), &mut sampled)
        };
        let error = run(&mut decoder).unwrap_err();
        assert!(
            matches!(error, DecodeError::DeviceLost { .. }),
            "{phase}: {error:?}"
        );
        let again = decoder.submit(&step()).unwrap_err();
        assert_eq!(again, error, "it stays lost");
    }
}
