//! Whole models: against the float64 reference, and what paging, chunking, batching and sharing must not change.

use std::time::Duration;

use tidegate_contract::{Decoder, Sampled, StepSequence};
use tidegate_infer::{
    AdapterKind, DecoderOptions, DeviceOptions, Features, Gpu, GpuDecoder, KernelVariant,
    KvPrecision, MemoryReport,
};
use tidegate_reference::ReferenceDecoder;

use crate::support::{
    PLAIN, Random, adapter, assert_close, assert_same, bare_gpu, blocks, even_config, full_config,
    gpu, in_chunks, load, logits, options, options_on, random_model, sequence, silent,
    small_config, sums_otherwise, to_spoil, turned_config, variants, wide,
};
use tidegate_weights::{Checkpoint, Format, ModelConfig};

/// Whole-model tolerance, as a share of 1 + the largest logit: three layers of f32 sums.
const TOLERANCE: f64 = 5e-5;

fn reference(checkpoint: &Checkpoint, tokens: &[u32]) -> Vec<f64> {
    let mut decoder = ReferenceDecoder::load(checkpoint, 512, 80, 512).unwrap();
    let mut expected = Vec::new();
    let step = [sequence(0, tokens, &blocks(0, tokens.len()))];
    decoder.wide_logits(&step, &mut expected).unwrap();
    expected
}

/// What only differs in precision from the reference.
fn exact_variants() -> Vec<(&'static Gpu, KernelVariant)> {
    use KernelVariant::{Portable, Software, Subgroup};
    let exact =
        |(_, variant): &(&Gpu, KernelVariant)| [Portable, Software, Subgroup].contains(variant);
    variants().into_iter().filter(exact).collect()
}

#[test]
fn logits_match_the_float64_reference_with_every_part_on_and_off() {
    for config in [small_config(), full_config()] {
        let tokens = Random(1).tokens(config.vocabulary, 70);
        let checkpoint = random_model(config, 1);
        let expected = reference(&checkpoint, &tokens);
        for (gpu, variant) in exact_variants() {
            let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
            let found = in_chunks(&mut decoder, &tokens, &blocks(5, 70), 64);
            let what = format!("{variant}, {}", gpu.features());
            assert_close(&found, &expected, TOLERANCE, &what);
        }
    }
}

/// A device on which a kernel can bind so many storage buffers, and see what others write or not.
fn with_buffers(storage_buffers: u32, coherent: bool) -> Gpu {
    let device = DeviceOptions {
        features: Features {
            coherent,
            ..Features::ALL
        },
        storage_buffers,
        ..DeviceOptions::default()
    };
    Gpu::open(adapter(), device).unwrap()
}

/// What large dispatches do beside their own work, small ones do where a kernel can bind too few buffers, or sees nothing of what
/// others write.
#[test]
fn a_layer_has_five_dispatches_where_a_device_has_what_that_takes() {
    let checkpoint = random_model(small_config(), 9);
    let tokens = Random(9).tokens(53, 300);
    let expected = reference(&checkpoint, &tokens);
    let mut dispatches = Vec::new();
    for (storage_buffers, coherent) in [(8, false), (10, false), (16, false), (16, true)] {
        let gpu = with_buffers(storage_buffers, coherent);
        let mut decoder = load(
            &gpu,
            &checkpoint,
            &options_on(&gpu, KernelVariant::Portable),
        );
        let found = in_chunks(&mut decoder, &tokens, &blocks(3, 300), 64);
        let what = format!("{storage_buffers} buffers, coherent {coherent}");
        assert_close(&found, &expected, TOLERANCE, &what);
        // Of logits alone: embedding, first norm, last norm and head are beside the layers.
        let step = [sequence(299, &tokens[299..], &blocks(3, 300))];
        logits(&mut decoder, &step);
        dispatches.push(decoder.dispatches_last_step());
    }
    // One layer of three has a window of fewer positions than a split, and still may see parts of two.
    assert_eq!(dispatches, [3 + 3 * 9, 4 + 3 * 7, 4 + 3 * 6, 4 + 3 * 5]);
}

#[test]
fn every_format_of_weights_matches_the_reference() {
    let config = even_config();
    for format in [
        Format::F32,
        Format::F16,
        Format::Bf16,
        Format::Int8,
        Format::Int4,
    ] {
        let checkpoint = Checkpoint::random(config.clone(), format, 2);
        let tokens = Random(2).tokens(53, 20);
        let expected = reference(&checkpoint, &tokens);
        for (gpu, variant) in exact_variants() {
            let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
            let found = in_chunks(&mut decoder, &tokens, &blocks(0, 20), 20);
            let what = format!("{format:?}, {variant}, {}", gpu.features());
            assert_close(&found, &expected, TOLERANCE, &what);
        }
    }
}

#[test]
fn a_long_context_is_attended_to_in_splits() {
    let config = full_config();
    let tokens = Random(3).tokens(config.vocabulary, 512);
    let checkpoint = random_model(config, 3);
    let expected = reference(&checkpoint, &tokens);
    for (gpu, variant) in exact_variants() {
        let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
        let found = in_chunks(&mut decoder, &tokens, &blocks(40, 512), 64);
        let what = format!("{variant}, {}", gpu.features());
        assert_close(&found, &expected, TOLERANCE, &what);
    }
}

/// A step of decode rows of several sequences, and pieces of two prompts, gives each what it gets alone.
#[test]
fn batched_rows_equal_the_same_sequences_alone() {
    for config in [full_config(), turned_config()] {
        batched_rows_equal_them_alone(&random_model(config, 4));
    }
}

fn batched_rows_equal_them_alone(checkpoint: &Checkpoint) {
    let mut random = Random(4);
    let prompts: Vec<Vec<u32>> = [19, 1, 33, 40]
        .map(|count| random.tokens(53, count))
        .to_vec();
    for (gpu, variant) in exact_variants() {
        let mut decoder = load(gpu, checkpoint, &options_on(gpu, variant));
        let alone: Vec<Vec<f32>> = prompts
            .iter()
            .map(|tokens| in_chunks(&mut decoder, tokens, &blocks(0, tokens.len()), 64))
            .collect();
        let places: Vec<Vec<u32>> = (1..)
            .zip(&prompts)
            .map(|(i, p)| blocks(10 * i, p.len()))
            .collect();
        // The first three up to their last token; then that of each, together with the fourth.
        let prefill: Vec<StepSequence> = prompts[..3]
            .iter()
            .zip(&places)
            .filter(|(tokens, _)| tokens.len() > 1)
            .map(|(tokens, blocks)| silent(0, &tokens[..tokens.len() - 1], blocks))
            .collect();
        assert_eq!(logits(&mut decoder, &prefill), [0.0_f32; 0]);
        let mut step: Vec<StepSequence> = prompts[..3]
            .iter()
            .zip(&places)
            .map(|(tokens, blocks)| sequence(tokens.len() - 1, &tokens[tokens.len() - 1..], blocks))
            .collect();
        step.push(sequence(0, &prompts[3], &places[3]));
        let found = logits(&mut decoder, &step);
        let mut expected = Vec::new();
        for alone in &alone[..3] {
            expected.extend(wide(&alone[alone.len() - 53..]));
        }
        expected.extend(wide(&alone[3]));
        let what = format!("{variant}, {}", gpu.features());
        assert_close(&found, &expected, TOLERANCE, &what);
    }
}

/// The bits of a row's logits, whatever is beside it in the step, however its prompt was cut and wherever its blocks lie.
#[test]
fn reproducible_logits_are_the_same_bits_at_any_batch_chunk_and_place() {
    for (config, format, kv) in [
        (full_config(), Format::F32, KvPrecision::F16),
        (turned_config(), Format::Int8, KvPrecision::F16),
        (full_config(), Format::F32, KvPrecision::Int8),
    ] {
        let config = ModelConfig {
            hidden: 64,
            intermediate: 96,
            ..config
        };
        let config = ModelConfig {
            heads: 4,
            head_dim: 16,
            ..config
        };
        let checkpoint = Checkpoint::random(config, format, 5);
        let mut random = Random(5);
        let tokens = random.tokens(53, 60);
        for (gpu, variant) in variants() {
            if sums_otherwise(variant) {
                continue;
            }
            let options = DecoderOptions {
                reproducible: true,
                kv,
                blocks: 400,
                ..options_on(gpu, variant)
            };
            let mut decoder = load(gpu, &checkpoint, &options);
            let expected = in_chunks(&mut decoder, &tokens, &blocks(0, 60), 64);
            for chunk in [1, 3, 8, 32] {
                let found = in_chunks(&mut decoder, &tokens, &blocks(7, 60), chunk);
                assert_same(
                    &found,
                    &expected,
                    &format!("{format:?} {kv:?} {variant}, chunks of {chunk}"),
                );
            }
            // Scattered blocks, back to front.
            let scattered: Vec<u32> = (0..4).map(|i| 399 - 3 * i).collect();
            let found = in_chunks(&mut decoder, &tokens, &scattered, 17);
            assert_same(
                &found,
                &expected,
                &format!("{format:?} {kv:?} {variant}, scattered"),
            );
            // The last token in a batch of so many.
            for batch in [1, 3, 8, 32] {
                let others: Vec<(Vec<u32>, Vec<u32>)> = (1..batch as u32)
                    .map(|i| (random.tokens(53, 1 + 2 * i as usize), blocks(8 * i, 70)))
                    .collect();
                for (tokens, blocks) in &others {
                    in_chunks(&mut decoder, &tokens[..tokens.len() - 1], blocks, 64);
                }
                in_chunks(&mut decoder, &tokens[..59], &blocks(300, 60), 64);
                let mut step: Vec<StepSequence> = others
                    .iter()
                    .map(|(tokens, blocks)| {
                        sequence(tokens.len() - 1, &tokens[tokens.len() - 1..], blocks)
                    })
                    .collect();
                step.insert(
                    step.len() / 2,
                    sequence(59, &tokens[59..], &blocks(300, 60)),
                );
                let found = logits(&mut decoder, &step);
                let at = (batch - 1) / 2 * 53;
                assert_same(
                    &found[at..at + 53],
                    &expected[59 * 53..],
                    &format!("{format:?} {kv:?} {variant}, batch of {batch}"),
                );
            }
        }
    }
}

#[test]
fn sequences_that_share_the_blocks_of_a_prefix_read_what_each_would_write() {
    let checkpoint = random_model(full_config(), 6);
    let mut random = Random(6);
    let prefix = random.tokens(53, 32);
    let tails = [random.tokens(53, 9), random.tokens(53, 21)];
    for (gpu, variant) in exact_variants() {
        let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
        let mut expected = Vec::new();
        for tail in &tails {
            let tokens = [&prefix[..], tail].concat();
            let alone = in_chunks(&mut decoder, &tokens, &blocks(0, tokens.len()), 64);
            expected.extend(wide(&alone[32 * 53..]));
        }
        in_chunks(&mut decoder, &prefix, &[70, 71], 64);
        let step = [
            sequence(32, &tails[0], &[70, 71, 30]),
            sequence(32, &tails[1], &[70, 71, 40, 41]),
        ];
        let found = logits(&mut decoder, &step);
        let what = format!("{variant}, {}", gpu.features());
        assert_close(&found, &expected, TOLERANCE, &what);
    }
}

/// How often each kernel ran in a step.
fn ran(decoder: &mut GpuDecoder, step: &[StepSequence], kernel: &str) -> u32 {
    // In one pass, however busy the machine is.
    decoder.pretend_pace(1e-15, Duration::from_millis(50));
    let profile = decoder.profile(step).unwrap();
    let of = profile.iter().find(|found| found.kernel == kernel);
    of.map_or(0, |found| found.dispatches)
}

/// On software adapters, whose attention reads a shared prefix once: the bits of a row's logits are those that it has with the
/// prefix to itself, alone or in any batch, and with every other row sharing it.
#[test]
fn a_prefix_that_is_read_once_for_many_changes_no_bit() {
    // One layer with a window, in which rows of several sequences do not go together, and two without. Of two rows of three heads
    // that share a key two fill a tile, of eight rows of one head four fill half of one.
    let single = ModelConfig {
        heads: 4,
        kv_heads: 4,
        head_dim: 40,
        ..full_config()
    };
    for (config, kv, least) in [
        (full_config(), KvPrecision::F32, 2),
        (single.clone(), KvPrecision::F16, 4),
        (full_config(), KvPrecision::Int8, 2),
        (single, KvPrecision::Int8, 4),
    ] {
        let checkpoint = random_model(config, 20);
        let mut random = Random(20);
        let prefix = random.tokens(53, 96);
        let tails: Vec<Vec<u32>> = (0..32).map(|i| random.tokens(53, 1 + 7 * i % 40)).collect();
        for gpu in [bare_gpu(), gpu()] {
            let options = DecoderOptions {
                kv,
                blocks: 400,
                ..options_on(gpu, KernelVariant::Software)
            };
            let mut decoder = load(gpu, &checkpoint, &options);
            // Cold: each by itself, in its own blocks.
            let last = |decoder: &mut GpuDecoder, tail: &[u32], blocks: &[u32]| {
                let tokens = [&prefix[..], tail].concat();
                let count = tokens.len();
                in_chunks(decoder, &tokens[..count - 1], blocks, 64);
                logits(
                    decoder,
                    &[sequence(count - 1, &tokens[count - 1..], blocks)],
                )
            };
            let own = |index: usize| blocks(12 * index as u32, 140);
            let cold: Vec<Vec<f32>> = (0..32)
                .map(|index| last(&mut decoder, &tails[index], &own(index)))
                .collect();
            // Hot: all but the first use its prefix.
            let hot = |index: usize| [&own(0)[..6], &own(index)[6..]].concat();
            let row = |index: usize, blocks: &[u32]| {
                let tail = &tails[index];
                sequence(95 + tail.len(), &tail[tail.len() - 1..], blocks)
            };
            for batch in [1, 3, 8, 32] {
                for shared in [false, true] {
                    let step: Vec<StepSequence> = (0..batch)
                        .map(|i| row(i, &if shared { hot(i) } else { own(i) }))
                        .collect();
                    let found = logits(&mut decoder, &step);
                    for (index, found) in found.chunks_exact(53).enumerate() {
                        let what = format!("{kv:?}, batch {batch}, shared {shared}, row {index}");
                        assert_same(found, &cold[index], &what);
                    }
                    let together = shared && batch >= least;
                    let expected = if together { 3 + 2 } else { 3 };
                    assert_eq!(ran(&mut decoder, &step, "attention_values"), expected);
                }
            }
        }
    }
}

/// Rows that are taken alone, tiles of neighbours, and both: what there is none of is not sent.
#[test]
fn dispatches_of_software_attention_that_see_nothing_are_not_sent() {
    let checkpoint = random_model(small_config(), 21);
    let mut decoder = load(gpu(), &checkpoint, &options(KernelVariant::Software));
    // Heads go by threes, rows by twos; there are three layers.
    let alone: Vec<StepSequence> = (0..8).map(|i| sequence(9, &[1], &blocks(i, 9))).collect();
    let neighbours = sequence(0, &[1; 8], &blocks(20, 8));
    let both = [&alone[..], std::slice::from_ref(&neighbours)].concat();
    for (step, times) in [(alone, 3), (vec![neighbours], 3), (both, 6)] {
        for kernel in ["attention_scores", "attention_values"] {
            assert_eq!(ran(&mut decoder, &step, kernel), times);
        }
    }
}

#[test]
fn a_position_that_is_written_again_holds_what_was_written_last() {
    let checkpoint = random_model(small_config(), 7);
    let mut random = Random(7);
    let (tokens, wrong) = (random.tokens(53, 20), random.tokens(53, 6));
    let gpu = bare_gpu();
    for variant in PLAIN {
        let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
        let expected = in_chunks(&mut decoder, &tokens, &blocks(0, 20), 64);
        in_chunks(&mut decoder, &tokens[..14], &blocks(9, 20), 64);
        logits(&mut decoder, &[sequence(14, &wrong, &blocks(9, 20))]);
        let found = logits(&mut decoder, &[sequence(14, &tokens[14..], &blocks(9, 20))]);
        assert_close(
            &found,
            &wide(&expected[14 * 53..]),
            TOLERANCE,
            variant.name(),
        );
    }
}

/// Limits of 16 KiB cut the matrices into many shards.
#[test]
fn matrices_larger_than_a_binding_are_split_and_give_the_same_logits() {
    let config = ModelConfig {
        vocabulary: 300,
        ..small_config()
    };
    let checkpoint = random_model(config, 8);
    let tokens = Random(8).tokens(300, 30);
    let expected = reference(&checkpoint, &tokens);
    let gpu = bare_gpu();
    let narrow = gpu.narrowed(40 << 10);
    for variant in PLAIN {
        let options = DecoderOptions {
            context: 64,
            blocks: 8,
            max_rows: 4,
            max_samples: 4,
            ..options_on(gpu, variant)
        };
        let cap = Duration::from_secs(1);
        let mut decoder = load(&narrow, &checkpoint, &options);
        // On a busy machine a step may be cut by rows too, and then has more dispatches for that.
        decoder.pretend_pace(1e-15, cap);
        let found = in_chunks(&mut decoder, &tokens, &blocks(0, 30), 4);
        assert_close(&found, &expected, TOLERANCE, variant.name());
        let mut whole = load(gpu, &checkpoint, &options);
        whole.pretend_pace(1e-15, cap);
        in_chunks(&mut whole, &tokens, &blocks(0, 30), 4);
        assert!(decoder.dispatches_last_step() > whole.dispatches_last_step());
    }
}

#[test]
fn unchecked_shaders_give_the_bits_of_checked_ones() {
    // Only whole numbers are multiplied by int8 dots. Products in other formats: `matmul`.
    for (config, format) in [(full_config(), Format::F32), (even_config(), Format::Int8)] {
        let checkpoint = Checkpoint::random(config, format, 9);
        let tokens = Random(9).tokens(53, 50);
        for (gpu, variant) in variants() {
            let run = |checked_shaders| {
                let options = DecoderOptions {
                    checked_shaders,
                    ..options(variant)
                };
                in_chunks(
                    &mut load(gpu, &checkpoint, &options),
                    &tokens,
                    &blocks(0, 50),
                    30,
                )
            };
            assert_same(&run(false), &run(true), variant.name());
        }
    }
}

#[test]
fn several_models_on_one_device_do_not_disturb_each_other() {
    let models = [
        random_model(small_config(), 10),
        random_model(full_config(), 11),
    ];
    let tokens = Random(10).tokens(53, 24);
    let mut decoders = models
        .each_ref()
        .map(|model| load(gpu(), model, &options_on(gpu(), KernelVariant::Software)));
    let mut found = [Vec::new(), Vec::new()];
    for (index, token) in tokens.iter().enumerate() {
        for (decoder, found) in decoders.iter_mut().zip(&mut found) {
            let step = [sequence(index, &[*token], &blocks(0, 24))];
            found.extend(logits(decoder, &step));
        }
    }
    for (model, found) in models.iter().zip(&found) {
        assert_close(found, &reference(model, &tokens), TOLERANCE, "in turns");
    }
}

#[test]
fn a_greedy_draw_is_the_highest_logit_in_the_order_of_the_step() {
    let checkpoint = random_model(small_config(), 12);
    let tokens = Random(12).tokens(53, 40);
    for variant in PLAIN {
        let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), variant));
        let step = [
            sequence(0, &tokens[..9], &blocks(0, 9)),
            silent(0, &tokens[9..20], &blocks(4, 11)),
            sequence(0, &tokens[20..], &blocks(8, 20)),
        ];
        let logits = logits(&mut decoder, &step);
        let mut sampled: Vec<Sampled> = Vec::new();
        decoder.step(&step, &mut sampled).unwrap();
        assert_eq!(sampled.len(), 29);
        for (sampled, logits) in sampled.iter().zip(logits.chunks_exact(53)) {
            let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let token = logits.iter().position(|logit| *logit == highest).unwrap();
            assert_eq!(sampled.token, Some(token as u32));
        }
    }
}

/// A speed that makes every dispatch too long cuts a step into one submission each, and its rows into passes.
#[test]
fn a_slow_device_is_given_little_at_once_and_answers_the_same() {
    let checkpoint = random_model(full_config(), 13);
    let tokens = Random(13).tokens(53, 33);
    for variant in PLAIN {
        let options = DecoderOptions {
            reproducible: true,
            ..options_on(gpu(), variant)
        };
        let mut decoder = load(gpu(), &checkpoint, &options);
        let cap = Duration::from_millis(50);
        decoder.pretend_pace(1e-15, cap);
        let step = [sequence(0, &tokens, &blocks(0, 33))];
        let expected = logits(&mut decoder, &step);
        let (dispatches, submissions) = (
            decoder.dispatches_last_step(),
            decoder.submissions_last_step(),
        );
        assert_eq!(submissions, 1);

        // The whole step is 3 caps of work, no dispatch more than one: about as many submissions.
        let [(_, [of_rows, attention])] = decoder.planned(&step)[..] else {
            panic!("one submission");
        };
        decoder.pretend_pace(0.15 / (of_rows + attention) as f64, cap);
        assert_same(
            &logits(&mut decoder, &step),
            &expected,
            "cut into submissions",
        );
        let cut = decoder.submissions_last_step();
        assert!((3..=8).contains(&cut), "{cut} submissions");
        assert_eq!(decoder.dispatches_last_step(), dispatches);

        // Every dispatch of more than a row is too long: rows run one by one.
        decoder.pretend_pace(1.0, cap);
        let planned = decoder.planned(&step);
        assert!(planned.len() > 33 * 10 && planned.iter().all(|(rows, _)| *rows == 1));
        assert_same(&logits(&mut decoder, &step), &expected, "cut into rows");
        assert!(decoder.submissions_last_step() >= 33 + planned.len() as u32 / 33 - 1);
    }
}

/// A device that needs so many seconds for a multiply-add of rows and of attention.
#[derive(Clone, Copy)]
struct Device(f64, f64);

impl Device {
    fn seconds(self, [of_rows, attention]: [u64; 2]) -> f64 {
        self.0 * of_rows as f64 + self.1 * attention as f64
    }

    /// How long a step takes as a whole.
    fn took(self, planned: &[(u32, [u64; 2])]) -> Duration {
        let seconds = planned.iter().map(|(_, load)| self.seconds(*load));
        Duration::from_secs_f64(seconds.sum())
    }
}

/// Sequences that each decode one token, after so many positions.
fn decoding(batch: u32, position: usize) -> Vec<StepSequence> {
    let row = |index| sequence(position, &[1], &blocks(index * 128, position + 1));
    (0..batch).map(row).collect()
}

/// On a device by which no time passes: only what is planned is looked at. Two devices, one of llvmpipe's ratio of both speeds.
#[test]
fn a_jump_to_long_contexts_keeps_every_submission_within_the_cap() {
    let config = ModelConfig {
        context: 4096,
        layers: [(); 4].map(|()| small_config().layers).concat(),
        ..small_config()
    };
    let checkpoint = random_model(config, 18);
    // As `SpeedEstimate` has them.
    let software = adapter().info().kind == AdapterKind::Software;
    let cap = Duration::from_millis(if software { 250 } else { 50 }).as_secs_f64();
    for variant in PLAIN {
        let options = DecoderOptions {
            context: 4096,
            blocks: 8 * 128,
            ..options(variant)
        };
        let mut decoder = load(gpu(), &checkpoint, &options);
        for batch in [1, 8] {
            let [short, long] = [128, 2047].map(|position| decoding(batch, position));
            for ratio in [2.4, 8.6] {
                decoder.forget_pace();
                // Three caps at long contexts; half a cap or less at short ones.
                let of = decoder.planned(&long);
                let unit = 3.0 * cap / Device(1.0, ratio).took(&of).as_secs_f64();
                let device = Device(unit, ratio * unit);
                for _ in 0..30 {
                    let planned = decoder.planned(&short);
                    decoder.pretend_took(&short, device.took(&planned));
                }
                assert_eq!(decoder.planned(&short).len(), 1);

                for _ in 0..30 {
                    let planned = decoder.planned(&long);
                    for (_, load) in &planned {
                        let seconds = device.seconds(*load);
                        assert!(seconds <= cap, "{variant}, {batch}, {ratio}: {seconds} s");
                    }
                    decoder.pretend_took(&long, device.took(&planned));
                }
                let planned = decoder.planned(&long).len();
                assert!(planned <= 6, "{planned} once it is known");
            }
        }
    }
}

/// Contexts cost what is seen of them: at 65,536 positions a step of 64 rows is one pass while its sequences are short, with
/// the logits of a decoder for short ones, and several where there is no scratch for all that they see.
#[test]
fn a_long_context_cuts_no_step_of_short_sequences() {
    let config = ModelConfig {
        context: 1 << 16,
        heads: 8,
        ..small_config()
    };
    let checkpoint = random_model(config, 20);
    for variant in PLAIN {
        let with_context = |context| {
            let options = DecoderOptions {
                context,
                max_rows: 64,
                blocks: 64 * 16,
                ..options(variant)
            };
            load(gpu(), &checkpoint, &options)
        };
        let (mut long, mut short) = (with_context(1 << 16), with_context(64));
        let step: Vec<StepSequence> = (0..8)
            .map(|index| sequence(0, &[1, 7, 3, 9, 2, 5, 8, index], &blocks(index * 4, 8)))
            .collect();
        let logits = |decoder: &mut GpuDecoder| {
            let mut logits = Vec::new();
            decoder.logits(&step, &mut logits).unwrap();
            logits.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        };
        assert_eq!(logits(&mut long), logits(&mut short), "{variant}");
        long.pretend_pace(1e-18, Duration::from_secs(1));
        let rows = |planned: Vec<(u32, [u64; 2])>| -> Vec<u32> {
            planned.into_iter().map(|(rows, _)| rows).collect()
        };
        assert_eq!(rows(long.planned(&decoding(64, 200))), [64], "{variant}");
        let far: Vec<StepSequence> = (0..64)
            .map(|index| StepSequence {
                position: 65_000,
                blocks: vec![index; 65_001usize.div_ceil(16)],
                ..decoding(1, 0).remove(0)
            })
            .collect();
        let cut = rows(long.planned(&far));
        let software = variant == KernelVariant::Software;
        assert_eq!(cut.iter().sum::<u32>(), 64);
        assert_eq!(cut.len() > 1, software, "{variant}: {cut:?}");
    }
}

/// A chunk of a prompt whose attention alone is longer than the cap: it runs in passes of fewer rows.
#[test]
fn a_dispatch_that_is_too_long_is_cut_by_rows() {
    let config = ModelConfig {
        context: 4096,
        ..small_config()
    };
    let checkpoint = random_model(config, 19);
    let options = DecoderOptions {
        context: 4096,
        blocks: 256,
        ..options(KernelVariant::Software)
    };
    let mut decoder = load(gpu(), &checkpoint, &options);
    let cap = Duration::from_millis(250);
    let prompt = |position| [silent(position, &[1; 64], &blocks(0, position + 64))];
    let seconds = |decoder: &mut GpuDecoder, step: &[StepSequence]| {
        decoder.pretend_pace(1e-15, cap);
        Device(1.0, 1.0).took(&decoder.planned(step)).as_secs_f64()
    };
    // Three layers, two halves of attention: a dispatch of the long prompt takes some three caps, one of the short prompt less
    // than one.
    let speed = 18.0 * cap.as_secs_f64() / seconds(&mut decoder, &prompt(4000));
    decoder.pretend_pace(speed, cap);
    let rows = |planned: Vec<(u32, [u64; 2])>| planned.into_iter().map(|(rows, _)| rows).max();
    assert_eq!(rows(decoder.planned(&prompt(0))), Some(64));
    let planned = decoder.planned(&prompt(4000));
    for (_, load) in &planned {
        assert!(Device(speed, speed).seconds(*load) <= cap.as_secs_f64());
    }
    let rows = rows(planned);
    assert!(rows < Some(64) && rows > Some(4), "{rows:?} rows of a pass");
}

#[test]
fn profiles_name_the_kernels_of_a_step_and_how_often_they_ran() {
    let checkpoint = random_model(full_config(), 14);
    let tokens = Random(14).tokens(53, 5);
    for (gpu, variant) in exact_variants() {
        let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
        let step = [sequence(0, &tokens, &blocks(0, 5))];
        // In one pass, however busy the machine is.
        decoder.pretend_pace(1e-15, Duration::from_millis(50));
        logits(&mut decoder, &step);
        let dispatches = decoder.dispatches_last_step();
        decoder.pretend_pace(1e-15, Duration::from_millis(50));
        let profile = decoder.profile(&step).unwrap();
        assert_eq!(
            profile.iter().map(|kernel| kernel.dispatches).sum::<u32>(),
            dispatches
        );
        let count = |name| {
            let of = |kernel: &&tidegate_infer::KernelTime| kernel.kernel == name;
            profile
                .iter()
                .find(of)
                .map_or(0, |kernel| kernel.dispatches)
        };
        // Two before and two after in each of three layers, and the last.
        assert_eq!(count("norm"), 13);
        assert_eq!(count("heads"), 3);
        assert_eq!(count("softcap"), 1);
        assert!(profile.is_sorted_by_key(|kernel| std::cmp::Reverse(kernel.time)));
    }
}

/// A display and its watchdog wait no longer for a profile than for a step, and what runs in several passes is told whole.
#[test]
fn a_profile_is_of_all_passes_of_a_step_in_submissions_as_short_as_its_own() {
    let checkpoint = random_model(full_config(), 13);
    let tokens = Random(13).tokens(53, 33);
    let step = [sequence(0, &tokens, &blocks(0, 33))];
    let cap = Duration::from_millis(50);
    for variant in PLAIN {
        let mut decoder = load(gpu(), &checkpoint, &options_on(gpu(), variant));
        decoder.pretend_pace(1e-15, cap);
        let [(_, [of_rows, attention])] = decoder.planned(&step)[..] else {
            panic!("one submission");
        };
        // Three caps of work, and then rows one by one.
        let work = (of_rows + attention) as f64;
        for (seconds, passes, least) in [(0.15 / work, 1, 3), (1.0, 33, 33 * 10)] {
            decoder.pretend_pace(seconds, cap);
            logits(&mut decoder, &step);
            let dispatches = decoder.dispatches_last_step();
            decoder.pretend_pace(seconds, cap);
            let most = decoder.planned(&step).len();
            let profile = decoder.profile(&step).unwrap();
            let of = |kernel: &tidegate_infer::KernelTime| kernel.dispatches;
            assert_eq!(profile.iter().map(of).sum::<u32>(), dispatches);
            let embed = profile.iter().find(|kernel| kernel.kernel == "embed");
            assert_eq!(embed.map(of), Some(passes), "{variant}");
            if gpu().features().timestamps {
                let submissions = decoder.submissions_last_step() as usize;
                let within = (least..=most).contains(&submissions);
                assert!(within, "{submissions} of {least} to {most}");
            }
        }
    }
}

#[test]
fn a_decoder_takes_no_more_memory_than_was_estimated() {
    for config in [small_config(), full_config()] {
        let checkpoint = random_model(config, 15);
        for (variant, kv) in PLAIN.into_iter().zip([KvPrecision::F32, KvPrecision::Int8]) {
            let options = DecoderOptions {
                kv,
                ..options(variant)
            };
            let estimate = MemoryReport::estimate(&checkpoint, &options).unwrap();
            let decoder = load(gpu(), &checkpoint, &options);
            let report = decoder.memory_report();
            assert_eq!(report.weights, estimate.weights);
            assert_eq!(report.kv_cache, estimate.kv_cache);
            assert!(report.total() <= estimate.total());
            assert!(decoder.memory() >= report.total());
        }
        let options = options(KernelVariant::Software);
        let estimate = MemoryReport::estimate(&checkpoint, &options).unwrap();
        let fit = |budget| MemoryReport::blocks_within(&checkpoint, &options, budget).unwrap();
        assert_eq!(fit(estimate.total()), options.blocks);
        assert_eq!(fit(estimate.total() - 1), options.blocks - 1);
        assert_eq!(fit(estimate.weights), 0);
    }
}

/// Scratch of attention is as large as it becomes, so that nothing else hides what products do beside.
#[test]
fn estimates_hold_whatever_a_device_can_bind() {
    let config = ModelConfig {
        hidden: 32,
        intermediate: 32,
        heads: 32,
        kv_heads: 2,
        head_dim: 64,
        context: 8192,
        ..small_config()
    };
    let checkpoint = random_model(config, 15);
    for (storage_buffers, variant) in [
        (8, KernelVariant::Portable),
        (10, KernelVariant::Portable),
        (16, KernelVariant::Portable),
        (16, KernelVariant::Dot),
        (16, KernelVariant::Software),
    ] {
        let gpu = with_buffers(storage_buffers, true);
        let options = DecoderOptions {
            context: 8192,
            blocks: 512,
            max_rows: 256,
            ..options(variant)
        };
        let estimate = MemoryReport::estimate(&checkpoint, &options).unwrap();
        let report = load(&gpu, &checkpoint, &options).memory_report();
        assert!(
            report.total() <= estimate.total(),
            "{storage_buffers} buffers, {variant}: {report:?}, {estimate:?}"
        );
    }
}

/// What is really made, buffer by buffer, is what was said, but for the parameters of dispatches and what rounds a buffer up to 16
/// bytes.
#[test]
fn a_decoder_makes_the_buffers_that_its_report_says() {
    let device = to_spoil();
    for (config, format, kv) in [
        (small_config(), Format::F32, KvPrecision::F32),
        (full_config(), Format::F32, KvPrecision::Int8),
        (even_config(), Format::Int8, KvPrecision::F32),
        (even_config(), Format::Int4, KvPrecision::F16),
    ] {
        let options = |variant| DecoderOptions {
            kv,
            ..options(variant)
        };
        // Parameters of each layer's attention have room for as many sinks as there may be.
        let sinks = (config.layers.len() * ModelConfig::MOST_SINKS * size_of::<f32>()) as u64;
        let checkpoint = Checkpoint::random(config, format, 16);
        for variant in [
            KernelVariant::Software,
            KernelVariant::Portable,
            KernelVariant::Dot,
        ] {
            // The first load tests kernels, in buffers that are gone afterwards.
            drop(load(&device, &checkpoint, &options(variant)));
            let before = device.bytes_made();
            let mut decoder = load(&device, &checkpoint, &options(variant));
            // The buffer that logits are read back through.
            logits(&mut decoder, &[sequence(0, &[1], &[0])]);
            let made = device.bytes_made() - before;
            let said = decoder.memory();
            let dispatches = u64::from(decoder.dispatches_last_step());
            let what = format!("{format:?}, {kv:?}, {variant}: {made} bytes made, {said} said");
            let most = MemoryReport::estimate(&checkpoint, &options(variant)).unwrap();
            assert!(most.total() >= decoder.memory_report().total(), "{what}");
            assert!(made >= said, "{what}");
            assert!(
                made - said <= (dispatches + 8) * (32 + 16) + sinks,
                "{what}, {dispatches} dispatches"
            );
        }
    }
}
