//! The whole model: against the float64 reference, and what batching must not change.

use serde_json::json;
use tidegate_infer::weights::Precision;
use tidegate_infer::{
    DecodeError, Decoder, DecoderOptions, MemoryReport, ReferenceDecoder, StepRow,
};

use crate::support::{
    FAMILIES, PRECISIONS, Random, RandomModel, assert_close, options, rows, step, wide,
};

/// Whole-model tolerance: as a share of 1 + the largest logit. Two layers of f32 sums.
const TOLERANCE: f64 = 3e-5;

fn tokens(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(53)).collect()
}

#[test]
fn logits_match_the_float64_reference() {
    let untied = [
        ("tie_word_embeddings", json!(false)),
        ("vocab_size", json!(54)),
    ];
    let wide_heads = [
        ("head_dim", json!(64)),
        ("num_attention_heads", json!(2)),
        ("num_key_value_heads", json!(1)),
    ];
    let llama3 = [(
        "rope_scaling",
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}),
    )];
    let linear = [("rope_scaling", json!({"type": "linear", "factor": 2.0}))];
    for (seed, changes) in [&[][..], &untied, &wide_heads, &llama3, &linear]
        .into_iter()
        .enumerate()
    {
        for precision in PRECISIONS {
            let model = RandomModel::new(seed as u64, changes, |_| precision);
            let tokens = tokens(&mut Random(9), 66);
            let rows = rows(1, 0, &tokens);
            let mut expected =
                ReferenceDecoder::load(&model.config, &model.weights(), &options(FAMILIES[0]))
                    .unwrap();
            let expected = wide(&step(&mut expected, &rows));
            for family in FAMILIES {
                let found = step(&mut model.decoder(&options(family)), &rows);
                assert_close(
                    &found,
                    &expected,
                    TOLERANCE,
                    &format!("{family:?} {precision:?} {changes:?}"),
                );
            }
        }
    }
}

#[test]
fn tensors_of_different_precisions_share_a_matrix() {
    let model = RandomModel::new(11, &[], |number| PRECISIONS[number % 3]);
    let tokens = tokens(&mut Random(10), 20);
    let mut reference =
        ReferenceDecoder::load(&model.config, &model.weights(), &options(FAMILIES[0])).unwrap();
    let expected = wide(&step(&mut reference, &rows(0, 0, &tokens)));
    for family in FAMILIES {
        let found = step(&mut model.decoder(&options(family)), &rows(0, 0, &tokens));
        assert_close(&found, &expected, TOLERANCE, &format!("{family:?}"));
    }
}

#[test]
fn batched_rows_equal_the_same_sequences_alone() {
    let model = RandomModel::new(12, &[], |_| Precision::F16);
    let mut random = Random(12);
    let sequences: Vec<Vec<u32>> = [19, 1, 33]
        .iter()
        .map(|count| tokens(&mut random, *count))
        .collect();
    for family in FAMILIES {
        let mut decoder = model.decoder(&options(family));
        let alone: Vec<Vec<f32>> = sequences
            .iter()
            .map(|tokens| step(&mut decoder, &rows(0, 0, tokens)))
            .collect();

        // Each sequence in its own slot: prefill together, but for the last token of each, then decode together.
        let prefill: Vec<StepRow> = (1..)
            .zip(&sequences)
            .flat_map(|(slot, tokens)| rows(slot, 0, &tokens[..tokens.len() - 1]))
            .map(|row| StepRow {
                wants_logits: false,
                ..row
            })
            .collect();
        assert!(
            step(&mut decoder, &prefill).is_empty(),
            "no logits were wanted"
        );
        let last = |(slot, tokens): (u32, &Vec<u32>)| {
            let position = tokens.len() as u32 - 1;
            StepRow {
                slot,
                token: tokens[position as usize],
                position,
                wants_logits: true,
            }
        };
        let decode: Vec<StepRow> = (1..).zip(&sequences).map(last).collect();
        let together = step(&mut decoder, &decode);
        for (index, alone) in alone.iter().enumerate() {
            let expected = wide(&alone[alone.len() - 53..]);
            let found = &together[index * 53..][..53];
            assert_close(
                found,
                &expected,
                TOLERANCE,
                &format!("{family:?} sequence {index}"),
            );
        }
    }
}

#[test]
fn software_logits_do_not_depend_on_the_batch_in_any_bit() {
    let model = RandomModel::new(19, &[], |_| Precision::F16);
    let mut random = Random(19);
    let mut decoder = model.decoder(&options(FAMILIES[0]));
    let sequences: Vec<Vec<u32>> = (0..4).map(|_| tokens(&mut random, 9)).collect();
    // One row a step alone; then all together, in chunks that take every tiling.
    let alone: Vec<Vec<f32>> = sequences
        .iter()
        .map(|tokens| {
            (0..9)
                .flat_map(|i| step(&mut decoder, &rows(0, i, &tokens[i as usize..][..1])))
                .collect()
        })
        .collect();
    let mut together = vec![Vec::new(); 4];
    for chunk in [0..1usize, 1..6, 6..9] {
        let of = |(slot, tokens): (u32, &Vec<u32>)| {
            rows(slot, chunk.start as u32, &tokens[chunk.clone()])
        };
        let batch: Vec<StepRow> = (0..).zip(&sequences).flat_map(of).collect();
        let logits = step(&mut decoder, &batch);
        for (together, logits) in together
            .iter_mut()
            .zip(logits.chunks_exact(chunk.len() * 53))
        {
            together.extend_from_slice(logits);
        }
    }
    assert_eq!(alone, together);
}

#[test]
fn sequences_join_and_leave_between_steps() {
    let model = RandomModel::new(13, &[], |_| Precision::Bf16);
    let mut random = Random(13);
    let (long, guest, next) = (
        tokens(&mut random, 12),
        tokens(&mut random, 5),
        tokens(&mut random, 4),
    );
    for family in FAMILIES {
        let mut decoder = model.decoder(&options(family));
        let alone = |decoder: &mut _, tokens| step(decoder, &rows(3, 0, tokens));
        let expected = [&long, &guest, &next].map(|tokens| wide(&alone(&mut decoder, tokens)));

        // `guest` joins in slot 1 while `long` decodes in slot 0; when it has left, `next` takes its slot.
        let mut found = [Vec::new(), Vec::new(), Vec::new()];
        for position in 0..12u32 {
            let mut batch = rows(0, position, &long[position as usize..][..1]);
            let visitor = match position {
                2..7 => Some((1, position - 2, &guest)),
                7..11 => Some((2, position - 7, &next)),
                _ => None,
            };
            if let Some((_, at, tokens)) = visitor {
                batch.extend(rows(1, at, &tokens[at as usize..][..1]));
            }
            let logits = step(&mut decoder, &batch);
            found[0].extend_from_slice(&logits[..53]);
            if let Some((index, ..)) = visitor {
                found[index].extend_from_slice(&logits[53..]);
            }
        }
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(found, expected, TOLERANCE, &format!("{family:?}"));
        }
    }
}

#[test]
fn chunked_prefill_equals_one_shot() {
    let model = RandomModel::new(14, &[], |_| Precision::F32);
    let tokens = tokens(&mut Random(14), 47);
    for family in FAMILIES {
        let mut decoder = model.decoder(&options(family));
        let expected = wide(&step(&mut decoder, &rows(0, 0, &tokens)));
        let mut found = Vec::new();
        let mut first = 0;
        for chunk in [1, 4, 16, 9, 17] {
            found.extend(step(
                &mut decoder,
                &rows(2, first as u32, &tokens[first..first + chunk]),
            ));
            first += chunk;
        }
        assert_close(&found, &expected, TOLERANCE, &format!("{family:?}"));
    }
}

#[test]
fn dispatches_do_not_grow_with_sequences() {
    let model = RandomModel::new(15, &[], |_| Precision::F16);
    for family in FAMILIES {
        let mut decoder = model.decoder(&DecoderOptions {
            slots: 8,
            ..options(family)
        });
        let decode = |count: u32| {
            (0..count)
                .flat_map(|slot| rows(slot, 3, &[slot]))
                .collect::<Vec<_>>()
        };
        let mixed: Vec<StepRow> = decode(3)
            .into_iter()
            .chain(rows(5, 0, &[1; 40]))
            .chain(rows(6, 8, &[2; 9]))
            .collect();
        let unwanted: Vec<StepRow> = mixed
            .iter()
            .map(|row| StepRow {
                wants_logits: false,
                ..*row
            })
            .collect();
        for rows in [decode(1), decode(3), decode(8), mixed, unwanted] {
            step(&mut decoder, &rows);
            // 9 a layer, and embedding, norm and head.
            assert_eq!(
                decoder.dispatches_last_step(),
                9 * 2 + 3,
                "{family:?} {} rows",
                rows.len()
            );
        }
    }
}

#[test]
fn rows_outside_the_shape_are_refused_before_anything_runs() {
    let model = RandomModel::new(16, &[], |_| Precision::F32);
    let decoder = &mut model.decoder(&options(FAMILIES[0]));
    let row = StepRow {
        slot: 0,
        token: 0,
        position: 0,
        wants_logits: true,
    };
    let mut logits = vec![7.0];
    let mut refused = |rows: &[StepRow]| decoder.step(rows, &mut logits).unwrap_err();
    assert_eq!(
        refused(&[row; 71]),
        DecodeError::TooManyRows {
            rows: 71,
            limit: 70
        }
    );
    let cases = [
        (
            StepRow { slot: 4, ..row },
            "row 0: slot 4 is not below the 4 slots",
        ),
        (
            StepRow { token: 53, ..row },
            "row 0: token 53 is not below the vocabulary of 53",
        ),
        (
            StepRow {
                position: 80,
                ..row
            },
            "row 0: position 80 is not below the context of 80 positions",
        ),
    ];
    for (row, text) in cases {
        assert_eq!(refused(&[row]).to_string(), text);
    }
    assert_eq!(
        refused(&[row, row]),
        DecodeError::RowsOutOfOrder { row: 1, slot: 0 }
    );
    let apart = [
        row,
        StepRow { slot: 1, ..row },
        StepRow { position: 1, ..row },
    ];
    assert_eq!(
        refused(&apart),
        DecodeError::RowsOutOfOrder { row: 2, slot: 0 }
    );
    assert_eq!(logits, [7.0]);
    // A refused step harms nothing.
    decoder.step(&[row], &mut logits).unwrap();
    assert_eq!(logits.len(), 53);
}

#[test]
fn a_step_without_rows_gives_no_logits() {
    let model = RandomModel::new(17, &[], |_| Precision::F32);
    for family in FAMILIES {
        assert!(step(&mut model.decoder(&options(family)), &[]).is_empty());
    }
}

#[test]
fn memory_is_reported_by_part() {
    let model = RandomModel::new(18, &[], |_| Precision::F16);
    let options = options(FAMILIES[0]);
    let report = MemoryReport::estimate(&model.config, &model.weights(), &options).unwrap();
    assert_eq!(model.decoder(&options).memory(), report);
    // Keys and values of 2 layers: 4 slots x 80 positions x 2 heads of 8 (6 padded) x 4 bytes.
    assert_eq!(report.kv_cache, 2 * 2 * 4 * 80 * 2 * 8 * 4);
    // Norms f32; embedding 56 x 20, qkv 80 x 20, output 20 x 48, gate and up 40 x 20, down 20 x 20, f16; angles f32.
    let layer = (80 * 20 + 20 * 48 + 40 * 20 + 20 * 20) * 2;
    assert_eq!(
        report.weights,
        56 * 20 * 2 + 2 * layer + 5 * 20 * 4 + 80 * 6 * 4
    );
    assert_eq!(
        report.total(),
        report.weights + report.kv_cache + report.activations
    );
}
