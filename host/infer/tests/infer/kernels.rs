//! Each kernel against the float64 reference at odd sizes, in both families, with shader checks on and off.
//!
//! Tolerance: the largest absolute error, as a share of 1 + the largest expected value, is at most 4e-6: some 30 units in
//! the last place of f32, for sums of up to 172 products.

use tidegate_infer::kernels::lab::{HeadShape, Lab, plain_rows};
use tidegate_infer::weights::Precision;
use tidegate_infer::{KernelFamily, StepRow, reference};

use crate::support::{FAMILIES, PRECISIONS, Random, Stored, adapter, assert_close, wide};

const TOLERANCE: f64 = 4e-6;
const WIDTHS: [usize; 3] = [17, 64, 172];
const ROWS: [usize; 3] = [1, 3, 65];

/// Both families, each with shader checks on and off.
fn labs() -> impl Iterator<Item = (KernelFamily, Lab)> {
    let kinds = FAMILIES
        .into_iter()
        .flat_map(|family| [(family, true), (family, false)]);
    kinds.map(|(family, checked)| (family, Lab::open(adapter(), family, checked, None).unwrap()))
}

#[test]
fn embedding_reads_the_row_of_each_token() {
    let mut random = Random(1);
    for precision in PRECISIONS {
        for width in WIDTHS {
            let mut lab = Lab::open(adapter(), KernelFamily::Software, true, None).unwrap();
            let table = Stored::random(&mut random, &[29, width], precision);
            for count in ROWS {
                let mut rows = plain_rows(count);
                rows.iter_mut().for_each(|row| row.token = random.below(29));
                let experiment = lab.embed(table.tensor(), &rows).unwrap();
                lab.run(&experiment, 1).unwrap();
                let found = lab.output_of(&experiment, 0, width).unwrap();
                let of =
                    |row: &StepRow| table.values[row.token as usize * width..][..width].to_vec();
                let expected: Vec<f64> = rows.iter().flat_map(of).collect();
                assert_close(
                    &found,
                    &expected,
                    0.0,
                    &format!("{precision:?} width {width} rows {count}"),
                );
            }
        }
    }
}

#[test]
fn rms_norm_matches_the_reference_at_odd_sizes() {
    for (family, mut lab) in labs() {
        let mut random = Random(2);
        for width in WIDTHS {
            for count in ROWS {
                let weight = Stored::random(&mut random, &[width], Precision::F16);
                let input = random.units(count * width);
                let experiment = lab
                    .rms_norm(weight.tensor(), &input, 1e-5, &plain_rows(count), false)
                    .unwrap();
                lab.run(&experiment, 1).unwrap();
                let found = lab.output_of(&experiment, 0, width).unwrap();
                let expected = reference::rms_norm(&wide(&input), &weight.values, 1e-5);
                assert_close(
                    &found,
                    &expected,
                    TOLERANCE,
                    &format!("{family:?} width {width} rows {count}"),
                );
            }
        }
    }
}

#[test]
fn the_last_norm_takes_only_rows_whose_logits_are_wanted() {
    for (family, mut lab) in labs() {
        let mut random = Random(3);
        let weight = Stored::random(&mut random, &[17], Precision::F32);
        let input = random.units(9 * 17);
        let mut rows = plain_rows(9);
        rows.iter_mut()
            .for_each(|row| row.wants_logits = matches!(row.position, 2 | 3 | 8));
        let experiment = lab
            .rms_norm(weight.tensor(), &input, 1e-6, &rows, true)
            .unwrap();
        lab.run(&experiment, 1).unwrap();
        let found = lab.output_of(&experiment, 0, 17).unwrap();
        let normed = reference::rms_norm(&wide(&input), &weight.values, 1e-6);
        let mut expected: Vec<f64> = [2, 3, 8]
            .iter()
            .flat_map(|row| normed[row * 17..][..17].to_vec())
            .collect();
        expected.resize(9 * 17, 0.0);
        assert_close(&found, &expected, TOLERANCE, &format!("{family:?}"));
    }
}

#[test]
fn matmul_matches_the_reference_at_odd_sizes() {
    for (family, mut lab) in labs() {
        let mut random = Random(4);
        for precision in PRECISIONS {
            for width in WIDTHS {
                for (count, columns) in ROWS.into_iter().flat_map(|rows| [(rows, 5), (rows, 67)]) {
                    let what = format!(
                        "{family:?} {precision:?} width {width} rows {count} columns {columns}"
                    );
                    let weights = Stored::random(&mut random, &[columns, width], precision);
                    let input = random.units(count * width);
                    let product = reference::matmul(&wide(&input), &weights.values, width);

                    let experiment = lab.matmul(weights.tensor(), &input, None, count).unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    assert_close(&found, &product, TOLERANCE, &what);

                    let residual = random.units(count * columns);
                    let experiment = lab
                        .matmul(weights.tensor(), &input, Some(&residual), count)
                        .unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    let sum: Vec<f64> = product
                        .iter()
                        .zip(wide(&residual))
                        .map(|(p, r)| p + r)
                        .collect();
                    assert_close(&found, &sum, TOLERANCE, &format!("residual, {what}"));
                }
            }
        }
    }
}

#[test]
fn swiglu_matches_the_reference_at_odd_sizes() {
    for (family, mut lab) in labs() {
        let mut random = Random(5);
        for precision in PRECISIONS {
            for width in WIDTHS {
                for (count, columns) in ROWS.into_iter().flat_map(|rows| [(rows, 3), (rows, 43)]) {
                    let gate = Stored::random(&mut random, &[columns, width], precision);
                    let up = Stored::random(&mut random, &[columns, width], precision);
                    let input = random.units(count * width);
                    let experiment = lab
                        .swiglu(gate.tensor(), up.tensor(), &input, count)
                        .unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    let product =
                        |weights: &Stored| reference::matmul(&wide(&input), &weights.values, width);
                    let expected = reference::swiglu(&product(&gate), &product(&up));
                    let what = format!(
                        "{family:?} {precision:?} width {width} rows {count} columns {columns}"
                    );
                    assert_close(&found, &expected, TOLERANCE, &what);
                }
            }
        }
    }
}

#[test]
fn a_matrix_beyond_the_largest_binding_is_split_by_rows() {
    // Four rows of 64 f16 elements are 512 bytes: 67 columns come to 17 shards, 9 of two groups at 1024.
    for (binding, shards) in [(512, 17), (1024, 9)] {
        for family in FAMILIES {
            let mut random = Random(6);
            let mut lab = Lab::open(adapter(), family, true, Some(binding)).unwrap();
            let weights = Stored::random(&mut random, &[67, 64], Precision::F16);
            let input = random.units(5 * 64);
            let experiment = lab.matmul(weights.tensor(), &input, None, 5).unwrap();
            assert_eq!(lab.run(&experiment, 1).unwrap(), shards);
            let found = lab.output_of(&experiment, 0, 67).unwrap();
            let expected = reference::matmul(&wide(&input), &weights.values, 64);
            assert_close(
                &found,
                &expected,
                TOLERANCE,
                &format!("{family:?} split at {binding}"),
            );

            let mut rows = plain_rows(67);
            rows.iter_mut().for_each(|row| row.token = row.position);
            let experiment = lab.embed(weights.tensor(), &rows).unwrap();
            assert_eq!(lab.run(&experiment, 1).unwrap(), shards);
            let found = lab.output_of(&experiment, 0, 64).unwrap();
            assert_close(
                &found,
                &weights.values,
                0.0,
                &format!("embedding split at {binding}"),
            );
        }
    }
}

fn head_shapes() -> impl Iterator<Item = HeadShape> {
    let heads = [(6, 3, 3), (8, 4, 2), (64, 4, 1), (6, 8, 1)];
    heads.into_iter().map(|(dim, heads, kv_heads)| HeadShape {
        heads,
        kv_heads,
        dim,
        context: 71,
        slots: 3,
    })
}

/// `count` rows: a prefill chunk of slot 2, and a decode row of slot 0 if there is room for both.
fn mixed_rows(count: usize) -> Vec<StepRow> {
    let row = |slot, position| StepRow {
        slot,
        token: 0,
        position,
        wants_logits: false,
    };
    let mut rows: Vec<StepRow> = (0..count as u32).map(|i| row(2, i + 5)).collect();
    if count > 1 {
        rows[0] = row(0, 40);
    }
    rows
}

#[test]
fn rope_matches_the_reference_and_writes_the_cache() {
    for (family, mut lab) in labs() {
        let mut random = Random(7);
        for shape in head_shapes() {
            for count in ROWS {
                let what = format!("{family:?} {shape:?} rows {count}");
                let rows = mixed_rows(count);
                let (heads, half) = (shape.heads + 2 * shape.kv_heads, shape.dim / 2);
                let angles: Vec<[f32; 2]> = (0..shape.context * half)
                    .map(|_| random.unit() * 3.0)
                    .map(|a| [a.cos(), a.sin()])
                    .collect();
                let qkv = random.units(count * heads * shape.dim);
                let experiment = lab.rope(shape, &angles, &qkv, &rows).unwrap();
                lab.run(&experiment, 1).unwrap();

                let mut rotated = wide(&qkv);
                let mut keys = vec![0.0; shape.slots * shape.context * shape.kv_heads * shape.dim];
                let mut values = keys.clone();
                for (row, heads) in rows.iter().zip(rotated.chunks_exact_mut(heads * shape.dim)) {
                    let table: Vec<[f64; 2]> = angles[row.position as usize * half..][..half]
                        .iter()
                        .map(|a| a.map(f64::from))
                        .collect();
                    let at = (row.slot as usize * shape.context + row.position as usize)
                        * shape.kv_heads
                        * shape.dim;
                    let cached = at..at + shape.kv_heads * shape.dim;
                    let (query, rest) = heads.split_at_mut(shape.heads * shape.dim);
                    let (key, value) = rest.split_at_mut(shape.kv_heads * shape.dim);
                    query
                        .chunks_exact_mut(shape.dim)
                        .for_each(|head| reference::rope(head, &table));
                    keys[cached.clone()].copy_from_slice(key);
                    keys[cached.clone()]
                        .chunks_exact_mut(shape.dim)
                        .for_each(|head| reference::rope(head, &table));
                    values[cached].copy_from_slice(value);
                }
                for (index, expected) in [(0, &rotated), (1, &keys), (2, &values)] {
                    let found = lab.output_of(&experiment, index, shape.dim).unwrap();
                    assert_close(
                        &found,
                        expected,
                        TOLERANCE,
                        &format!("output {index}, {what}"),
                    );
                }
            }
        }
    }
}

#[test]
fn attention_matches_the_reference_at_odd_sizes() {
    for (family, mut lab) in labs() {
        let mut random = Random(8);
        for shape in head_shapes() {
            for count in ROWS {
                let rows = mixed_rows(count);
                let heads = shape.heads + 2 * shape.kv_heads;
                let qkv: Vec<f32> = random
                    .units(count * heads * shape.dim)
                    .iter()
                    .map(|v| v * 4.0)
                    .collect();
                let cache = shape.slots * shape.context * shape.kv_heads * shape.dim;
                let (keys, values) = (random.units(cache), random.units(cache));
                let experiment = lab.attention(shape, &qkv, [&keys, &values], &rows).unwrap();
                lab.run(&experiment, 1).unwrap();
                let found = lab.output_of(&experiment, 0, shape.dim).unwrap();

                let (qkv, keys, values) = (wide(&qkv), wide(&keys), wide(&values));
                let mut expected = Vec::new();
                for (row, heads) in rows.iter().zip(qkv.chunks_exact(heads * shape.dim)) {
                    for (head, query) in heads.chunks_exact(shape.dim).take(shape.heads).enumerate()
                    {
                        let kv_head = head / (shape.heads / shape.kv_heads);
                        let at = |position: usize| {
                            let slot = row.slot as usize * shape.context;
                            ((slot + position) * shape.kv_heads + kv_head) * shape.dim
                        };
                        let of = |cache: &'_ [f64]| -> Vec<Vec<f64>> {
                            (0..=row.position as usize)
                                .map(|p| cache[at(p)..][..shape.dim].to_vec())
                                .collect()
                        };
                        let (keys, values) = (of(&keys), of(&values));
                        let keys: Vec<&[f64]> = keys.iter().map(Vec::as_slice).collect();
                        let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
                        expected.extend(reference::attention(query, &keys, &values));
                    }
                }
                assert_close(
                    &found,
                    &expected,
                    TOLERANCE,
                    &format!("{family:?} {shape:?} rows {count}"),
                );
            }
        }
    }
}
