//! Norms, heads and attention against the float64 reference, at odd sizes, on every variant that runs here.

use tidegate_contract::{BLOCK, StepSequence};
use tidegate_infer::kernels::lab::{HeadShape, Lab, sequence};
use tidegate_infer::{Gpu, KernelVariant, KvPrecision};
use tidegate_reference::kernels as reference;

use crate::support::{
    PLAIN, Random, assert_close, assert_same, bare_gpu, gpu, labs_in_longs_and_words, wide,
};

/// A kernel's tolerance, as a share of 1 + the largest element: f32 sums of at most a few hundred terms.
const TOLERANCE: f64 = 1e-5;

/// Every variant of what is no product with weights; those without a feature on a bare device too, with wgpu's checks.
fn labs() -> Vec<(String, Lab)> {
    let on = |gpu: &Gpu, variant: KernelVariant, checked| {
        let lab = Lab::on(gpu, variant, checked).unwrap();
        let features = gpu.features();
        (format!("{variant}, {features}, checked {checked}"), lab)
    };
    let mut labs: Vec<_> = PLAIN.map(|variant| on(bare_gpu(), variant, true)).into();
    labs.push(on(gpu(), KernelVariant::Subgroup, true));
    labs.push(on(gpu(), KernelVariant::Software, true));
    labs.push(on(gpu(), KernelVariant::Subgroup, false));
    labs
}

#[test]
fn norms_match_the_reference_alone_and_added() {
    for (what, lab) in labs() {
        for (width, rows) in [(1, 1), (3, 5), (64, 1), (70, 9), (257, 17), (1030, 2)] {
            let mut random = Random(width as u64);
            let (weight, input) = (random.units(width), random.units(rows * width));
            let sum = random.units(rows * width);
            for sum in [None, Some(&sum[..])] {
                let experiment = lab.rms_norm(&weight, &input, 1e-5, sum).unwrap();
                lab.run(&experiment, 1).unwrap();
                let found = lab.output_of(&experiment, 0, width).unwrap();
                let mut expected = Vec::new();
                for (index, row) in wide(&input).chunks(width).enumerate() {
                    let normed = reference::rms_norm(row, &wide(&weight), 1e-5);
                    let before = sum.map(|sum| wide(&sum[index * width..][..width]));
                    let before = before.unwrap_or_else(|| vec![0.0; width]);
                    expected.extend(normed.iter().zip(before).map(|(x, before)| x + before));
                }
                let what = format!("{what}, {rows} rows of {width}, added {}", sum.is_some());
                assert_close(&found, &expected, TOLERANCE, &what);
            }
        }
    }
}

/// What a row's head must become.
fn head(
    shape: &HeadShape,
    extras: &[f64],
    index: usize,
    x: &[f64],
    angles: &[[f64; 2]],
) -> Vec<f64> {
    let count = shape.heads + 2 * shape.kv_heads;
    let mut head = x.to_vec();
    if shape.bias {
        let bias = &extras[index * shape.dim..][..shape.dim];
        head.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
    }
    if index >= shape.heads + shape.kv_heads {
        return head;
    }
    if let Some(epsilon) = shape.norm_epsilon {
        let biases = if shape.bias { count } else { 0 };
        let norm = biases + usize::from(index >= shape.heads);
        head = reference::rms_norm(&head, &extras[norm * shape.dim..][..shape.dim], epsilon);
    }
    let half = shape.rope / 2;
    for i in 0..half {
        let [cos, sin] = angles[i];
        let (a, b) = (head[i], head[i + half]);
        head[i] = a * cos - b * sin;
        head[i + half] = b * cos + a * sin;
    }
    head
}

#[test]
fn heads_are_biased_normed_turned_and_kept_where_their_block_lies() {
    let plain = HeadShape::plain;
    let shapes = [
        plain(3, 1, 6, 5),
        HeadShape {
            rope: 4,
            bias: true,
            ..plain(4, 2, 10, 5)
        },
        HeadShape {
            norm_epsilon: Some(1e-5),
            ..plain(2, 2, 64, 5)
        },
        HeadShape {
            rope: 0,
            ..plain(2, 1, 8, 5)
        },
        HeadShape {
            bias: true,
            norm_epsilon: Some(1e-6),
            rope: 96,
            ..plain(9, 3, 128, 5)
        },
        plain(2, 1, 256, 5),
    ];
    for (what, lab) in labs() {
        for shape in shapes {
            for kv in KvPrecision::ALL {
                check_heads(
                    &format!("{what}, {kv:?}, {shape:?}"),
                    &lab,
                    HeadShape { kv, ..shape },
                );
            }
        }
    }
}

fn check_heads(what: &str, lab: &Lab, shape: HeadShape) {
    let mut random = Random(shape.dim as u64);
    let step = [sequence(14, 5, &[3, 0]), sequence(40, 1, &[4, 2, 1])];
    let rows: [(usize, &[u32]); 6] = [
        (14, &[3, 0]),
        (15, &[3, 0]),
        (16, &[3, 0]),
        (17, &[3, 0]),
        (18, &[3, 0]),
        (40, &[4, 2, 1]),
    ];
    let (count, half) = (shape.heads + 2 * shape.kv_heads, shape.rope / 2);
    let angles: Vec<[f32; 2]> = (0..(shape.context * half).max(1))
        .map(|_| [random.unit(), random.unit()])
        .collect();
    let extras = random.units((count + 2) * shape.dim);
    let mut used = Vec::new();
    if shape.bias {
        used.extend_from_slice(&extras[..count * shape.dim]);
    }
    if shape.norm_epsilon.is_some() {
        used.extend_from_slice(&extras[count * shape.dim..]);
    }
    if used.is_empty() {
        used.resize(shape.dim, 0.0);
    }
    let mut qkv = random.units(rows.len() * count * shape.dim);
    // Beyond what f16 holds: kept as the largest it does.
    let beyond = (count - 1) * shape.dim;
    qkv[beyond] = -1e6;
    let experiment = lab.heads(shape, &angles, &used, &qkv, &step).unwrap();
    lab.run(&experiment, 1).unwrap();
    let queries = lab.output_of(&experiment, 0, shape.dim).unwrap();
    let stride = shape.dim.next_multiple_of(4);
    let cached = |index| -> Vec<f32> {
        let words = lab.words_of(&experiment, index).unwrap();
        let words = by_position(&words, &shape, what, index);
        match shape.kv {
            KvPrecision::F32 => words.into_iter().map(f32::from_bits).collect(),
            KvPrecision::F16 => words
                .into_iter()
                .take(words_of_cache(&shape, stride) / 2)
                .flat_map(|word| [word as u16, (word >> 16) as u16])
                .map(|bits| half::f16::from_bits(bits).to_f32())
                .collect(),
            KvPrecision::Int8 => from_int8(&words, &shape, stride),
        }
    };
    let (keys, values) = (cached(1), cached(2));
    let (angles, used) = (angles.map_wide(), wide(&used));
    let tolerance = match shape.kv {
        KvPrecision::F32 => TOLERANCE,
        KvPrecision::F16 => 1e-3,
        // Half a step of the greatest element, of which there are 127, and what f32 leaves.
        KvPrecision::Int8 => 0.5 / 127.0 + TOLERANCE,
    };
    for (row, (position, table)) in rows.into_iter().enumerate() {
        let place = table[position / BLOCK] as usize * BLOCK + position % BLOCK;
        for index in 0..count {
            let x = wide(&qkv[(row * count + index) * shape.dim..][..shape.dim]);
            let turned = head(&shape, &used, index, &x, &angles[position * half..]);
            let (kind, found, tolerance) = if index < shape.heads {
                let at = (row * shape.heads + index) * shape.dim;
                ("query", &queries[at..][..shape.dim], TOLERANCE)
            } else if index < shape.heads + shape.kv_heads {
                let at = (place * shape.kv_heads + index - shape.heads) * stride;
                ("key", &keys[at..][..shape.dim], tolerance)
            } else {
                let of = index - shape.heads - shape.kv_heads;
                let at = (place * shape.kv_heads + of) * stride;
                ("value", &values[at..][..shape.dim], tolerance)
            };
            let mut expected = turned;
            if kind != "query" && shape.kv == KvPrecision::F16 {
                expected
                    .iter_mut()
                    .for_each(|x| *x = x.clamp(-65504.0, 65504.0));
            }
            assert_close(
                found,
                &expected,
                tolerance,
                &format!("{what}, row {row}, {kind} {index}"),
            );
        }
    }
}

/// Keys or values as positions have them, `[BLOCK, kv_heads, width]` of each block and then its scales: of GPUs' keys, `[kv_heads, width,
/// BLOCK]` in a block, where a lane reads 16 bytes at once, in f16 8; of both on software adapters, where a head has all blocks, each
/// with its scales.
fn by_position(words: &[u32], shape: &HeadShape, what: &str, index: usize) -> Vec<u32> {
    let software = what.starts_with("software");
    if !software && index == 2 {
        return words.to_vec();
    }
    let (each, head_words, scales) = match shape.kv {
        KvPrecision::F32 => (4, shape.dim.next_multiple_of(4), 0),
        KvPrecision::F16 => (2, shape.dim.next_multiple_of(4) / 2, 0),
        KvPrecision::Int8 => (4, shape.dim.div_ceil(16) * 4, 1),
    };
    let width = head_words / each;
    let of_head = BLOCK * (head_words + scales);
    let block_words = of_head * shape.kv_heads;
    let mut found = words.to_vec();
    for block in 0..shape.blocks {
        let found = &mut found[block * block_words..][..block_words];
        for head in 0..shape.kv_heads {
            let own = &words[(head * shape.blocks + block) * of_head..][..of_head];
            for column in 0..width {
                for position in 0..BLOCK {
                    let words = if software {
                        &own[(position * width + column) * each..]
                    } else {
                        let from = (head * width + column) * BLOCK + position;
                        &words[block * block_words + from * each..]
                    };
                    let to = ((position * shape.kv_heads + head) * width + column) * each;
                    found[to..][..each].copy_from_slice(&words[..each]);
                }
            }
            if software {
                let to = BLOCK * shape.kv_heads * head_words + head * scales * BLOCK;
                found[to..][..scales * BLOCK].copy_from_slice(&own[BLOCK * head_words..]);
            }
        }
    }
    found
}

/// Keys or values `[blocks, BLOCK, kv_heads, stride]` of what is kept in int8: of a block first the heads of its positions, each
/// padded to 16 elements, then 16 scales for each head.
fn from_int8(words: &[u32], shape: &HeadShape, stride: usize) -> Vec<f32> {
    let head_words = shape.dim.div_ceil(16) * 4;
    let block_words = BLOCK * shape.kv_heads * (head_words + 1);
    let mut found = Vec::new();
    for block in words.chunks_exact(block_words).take(shape.blocks) {
        for position in 0..BLOCK {
            for head in 0..shape.kv_heads {
                let first = (position * shape.kv_heads + head) * head_words;
                let scale = block[BLOCK * shape.kv_heads * head_words + head * BLOCK + position];
                let scale = f32::from_bits(scale);
                let element = |e: usize| {
                    let byte = (block[first + e / 4] >> (8 * (e % 4))) as u8;
                    f32::from(byte as i8) * scale
                };
                found.extend((0..stride).map(element));
            }
        }
    }
    found
}

fn words_of_cache(shape: &HeadShape, stride: usize) -> usize {
    shape.blocks * BLOCK * shape.kv_heads * stride
}

trait Wide {
    fn map_wide(&self) -> Vec<[f64; 2]>;
}

impl Wide for Vec<[f32; 2]> {
    fn map_wide(&self) -> Vec<[f64; 2]> {
        self.iter().map(|pair| pair.map(f64::from)).collect()
    }
}

#[test]
fn attention_sees_what_its_window_shows_through_the_block_table() {
    let plain = HeadShape::plain;
    let shapes = [
        // Three units of three query heads over each key head.
        plain(18, 2, 6, 48),
        plain(4, 4, 10, 48),
        HeadShape {
            window: Some(37),
            ..plain(6, 2, 20, 48)
        },
        HeadShape {
            window: Some(1),
            ..plain(2, 1, 8, 48)
        },
        HeadShape {
            window: Some(300),
            softcap: Some(2.0),
            ..plain(14, 2, 16, 48)
        },
        HeadShape {
            softcap: Some(0.5),
            ..plain(8, 1, 64, 48)
        },
        plain(2, 1, 256, 48),
        HeadShape {
            sinks: true,
            ..plain(24, 2, 20, 48)
        },
        HeadShape {
            sinks: true,
            window: Some(37),
            ..plain(3, 1, 40, 48)
        },
    ];
    for (what, lab) in labs() {
        for shape in shapes {
            for kv in KvPrecision::ALL {
                let shape = HeadShape { kv, ..shape };
                check_attention(&format!("{what}, {shape:?}"), &lab, shape);
            }
        }
    }
}

/// What stands behind the last position that a row sees was written by whoever had the block before, and may be anything.
#[test]
fn what_lies_behind_the_last_position_is_not_looked_at() {
    for (what, lab) in labs() {
        // Heads that software adapters read quad by quad, and by pairs.
        for dim in [20, 64] {
            for kv in KvPrecision::ALL {
                let shape = HeadShape {
                    kv,
                    ..HeadShape::plain(4, 2, dim, 20)
                };
                for (first, rows) in [
                    (0, 1),
                    (2, 1),
                    (30, 1),
                    (32, 4),
                    (257, 1),
                    (250, 8),
                    (230, 20),
                    (260, 11),
                ] {
                    let what = format!("{what}, {shape:?}, {rows} rows from {first}");
                    check_end(&what, &lab, shape, first, rows);
                }
            }
        }
    }
}

fn check_end(what: &str, lab: &Lab, shape: HeadShape, first: usize, rows: usize) {
    let mut random = Random(first as u64);
    let table: Vec<u32> = (0..shape.blocks as u32).collect();
    let queries = random.units(rows * shape.heads * shape.dim);
    let position = shape.kv_heads * shape.dim;
    let mut cached = [(); 2].map(|()| random.units(shape.blocks * BLOCK * position));
    let step = [sequence(first, rows, &table)];
    let attended = |[keys, values]: &[Vec<f32>; 2]| {
        let experiment = lab.attention(shape, &queries, [keys, values], &step);
        let experiment = experiment.unwrap();
        lab.run(&experiment, 1).unwrap();
        lab.output_of(&experiment, 0, shape.dim).unwrap()
    };
    let expected = attended(&cached);
    for cached in &mut cached {
        cached[(first + rows) * position..].fill(f32::NAN);
    }
    crate::support::assert_same(&attended(&cached), &expected, what);
}

/// In int8: a head with an element that is no number is none, however the driver compares such; one beyond all bounds is kept as
/// the largest; zeros are zeros.
#[test]
fn a_head_in_int8_that_is_no_number_stays_none() {
    let shape = HeadShape {
        kv: KvPrecision::Int8,
        rope: 0,
        ..HeadShape::plain(1, 2, 20, 2)
    };
    let mut qkv: Vec<f32> = (0..5 * 20).map(|x| x as f32 - 50.0).collect();
    let [key, other_key, value, other_value] = [20, 40, 60, 80];
    qkv[key + 7] = f32::NAN;
    qkv[key + 8] = f32::INFINITY;
    qkv[other_key..value].fill(0.0);
    qkv[value + 19] = f32::NEG_INFINITY;
    qkv[other_value..].fill(1e-20);
    for (what, lab) in labs() {
        let step = [sequence(3, 1, &[1])];
        let experiment = lab
            .heads(shape, &[[1.0, 0.0]], &[0.0; 20], &qkv, &step)
            .unwrap();
        lab.run(&experiment, 1).unwrap();
        let at = |index| -> [Vec<f32>; 2] {
            let words = lab.words_of(&experiment, index).unwrap();
            let words = by_position(&words, &shape, &what, index);
            let found = from_int8(&words, &shape, 20);
            let first = (BLOCK + 3) * 2 * 20;
            assert!(found[..first].iter().all(|x| *x == 0.0), "{what}");
            [0, 20].map(|head| found[first + head..][..20].to_vec())
        };
        let ([key, other_key], [value, other_value]) = (at(1), at(2));
        assert!(key.iter().all(|x| x.is_nan()), "{what}: {key:?}");
        assert_eq!(other_key, [0.0; 20], "{what}");
        let (last, rest) = value.split_last().unwrap();
        assert!((-3.1e38..-2.9e38).contains(last), "{what}: {last}");
        assert!(rest.iter().all(|x| *x == 0.0), "{what}: {rest:?}");
        for x in other_value {
            assert!((x - 1e-20).abs() < 1e-22, "{what}: {x}");
        }
    }
}

/// What attention makes of the rows of a step.
fn attended(
    lab: &Lab,
    shape: HeadShape,
    queries: &[f32],
    cached: [&[f32]; 2],
    step: &[StepSequence],
) -> Vec<f32> {
    let experiment = lab.attention(shape, queries, cached, step).unwrap();
    lab.run(&experiment, 1).unwrap();
    lab.output_of(&experiment, 0, shape.dim).unwrap()
}

fn check_attention(what: &str, lab: &Lab, shape: HeadShape) {
    let mut random = Random(shape.dim as u64);
    let mut table: Vec<u32> = (0..shape.blocks as u32).collect();
    for index in (1..table.len()).rev() {
        table.swap(index, (random.bits() % (index as u64 + 1)) as usize);
    }
    // Beginnings, borders of blocks, quads, splits and windows, and a long one.
    let alone = [
        0, 1, 3, 4, 15, 16, 36, 37, 38, 63, 255, 256, 299, 300, 301, 511, 512, 700,
    ];
    let mut step: Vec<StepSequence> = alone
        .iter()
        .map(|&position| sequence(position, 1, &table))
        .collect();
    // Neighbours, whose windows begin in different groups of positions, and which end in different ones.
    step.push(sequence(29, 21, &table));
    step.push(sequence(326, 14, &table));
    let positions: Vec<usize> = alone.into_iter().chain(29..50).chain(326..340).collect();
    let queries = random.units(positions.len() * shape.heads * shape.dim);
    let count = shape.blocks * BLOCK * shape.kv_heads * shape.dim;
    let (keys, values) = (random.units(count), random.units(count));
    let found = attended(lab, shape, &queries, [&keys, &values], &step);
    // What is kept of them is what counts.
    let [keys, values] = [&keys, &values].map(|cached| wide(&shape.rounded(cached)));
    let scale = 1.0 / (shape.dim as f64).sqrt();
    let mut expected = Vec::new();
    for (row, &position) in positions.iter().enumerate() {
        for head in 0..shape.heads {
            let query = wide(&queries[(row * shape.heads + head) * shape.dim..][..shape.dim]);
            let seen = reference::visible(position, shape.window);
            let of = |cache: &'_ [f64], position: usize| {
                let place = table[position / BLOCK] as usize * BLOCK + position % BLOCK;
                let head = place * shape.kv_heads + head * shape.kv_heads / shape.heads;
                head * shape.dim..head * shape.dim + shape.dim.min(cache.len())
            };
            let keys: Vec<&[f64]> = seen.clone().map(|p| &keys[of(&keys, p)]).collect();
            let values: Vec<&[f64]> = seen.map(|p| &values[of(&values, p)]).collect();
            expected.extend(reference::attention(
                &query,
                &keys,
                &values,
                scale,
                shape.softcap,
                shape.sink(head).map(f64::from),
            ));
        }
    }
    assert_close(&found, &expected, TOLERANCE, what);
}

#[test]
fn a_row_is_attended_the_same_alone_and_among_its_neighbours() {
    for (what, lab) in labs() {
        for (heads, kv_heads) in [(2, 2), (4, 2), (18, 2)] {
            let shape = HeadShape {
                window: Some(70),
                ..HeadShape::plain(heads, kv_heads, 20, 12)
            };
            let table: Vec<u32> = (0..shape.blocks as u32).collect();
            let mut random = Random(heads as u64);
            let row = shape.heads * shape.dim;
            let queries = random.units(30 * row);
            let count = shape.blocks * BLOCK * shape.kv_heads * shape.dim;
            let (keys, values) = (random.units(count), random.units(count));
            let attend = |queries: &[f32], step: &[StepSequence]| {
                attended(&lab, shape, queries, [&keys, &values], step)
            };
            let together = attend(&queries, &[sequence(90, 30, &table)]);
            for first in 0..30 {
                let alone = &queries[first * row..][..row];
                let alone = attend(alone, &[sequence(90 + first, 1, &table)]);
                assert_eq!(
                    alone,
                    together[first * row..][..row],
                    "{what}, {heads}, row {first}"
                );
            }
        }
    }
}

/// Numbers of all the bits that f32 has, over the splits of GPUs: a row of a tile has the bits that it has alone, in any chunk, in
/// every width of heads, and where its window begins in another split than that of its neighbours.
#[test]
fn a_row_of_a_tile_has_the_bits_that_it_has_alone_and_in_any_chunk() {
    let gpus = |(what, _): &(String, Lab)| !what.starts_with("software");
    for (what, lab) in labs().into_iter().filter(gpus) {
        for (index, (heads, kv_heads, dim, window, softcap, first)) in [
            (2, 2, 8, None, None, 240),
            (2, 1, 64, Some(100), None, 330),
            (3, 1, 80, None, Some(3.0), 490),
            (4, 1, 128, Some(257), None, 500),
            (5, 1, 36, None, None, 0),
            (7, 1, 64, None, None, 700),
            (16, 2, 132, Some(300), Some(2.0), 540),
            (1, 1, 256, None, None, 250),
            (4, 2, 20, Some(70), None, 500),
        ]
        .into_iter()
        .enumerate()
        {
            let shape = HeadShape {
                kv: KvPrecision::ALL[index % 3],
                window,
                softcap,
                ..HeadShape::plain(heads, kv_heads, dim, 50)
            };
            check_chunks(&format!("{what}, {shape:?}"), &lab, shape, first);
        }
    }
}

/// Heads of one pair, of several, and of an odd number of quads; alone and in a tile.
#[test]
fn a_row_is_attended_the_same_whether_keys_are_read_in_words_or_in_longs() {
    let [longs, words] = labs_in_longs_and_words();
    for (index, (heads, kv_heads, dim)) in [(2, 2, 8), (4, 2, 64), (3, 1, 20), (2, 1, 132)]
        .into_iter()
        .enumerate()
    {
        for kv in [KvPrecision::F16, KvPrecision::Int8] {
            let shape = HeadShape {
                kv,
                ..HeadShape::plain(heads, kv_heads, dim, 12)
            };
            let table: Vec<u32> = (0..shape.blocks as u32).collect();
            let mut random = Random(index as u64);
            let queries = random.units(10 * heads * dim);
            let count = shape.blocks * BLOCK * kv_heads * dim;
            let (keys, values) = (random.units(count), random.units(count));
            let step = [sequence(150, 9, &table), sequence(70, 1, &table)];
            let attend = |lab: &Lab| attended(lab, shape, &queries, [&keys, &values], &step);
            assert_same(&attend(&longs), &attend(&words), &format!("{shape:?}"));
        }
    }
}

/// The scale of a head that has an element which is no number is none: rows before it are as they are alone.
#[test]
fn a_value_in_int8_that_is_no_number_leaves_rows_that_do_not_see_it_as_they_are() {
    const ROWS: usize = 30;
    for (what, lab) in labs() {
        let shape = HeadShape {
            kv: KvPrecision::Int8,
            window: Some(33),
            ..HeadShape::plain(4, 2, 20, 6)
        };
        let table: Vec<u32> = (0..shape.blocks as u32).collect();
        let mut random = Random(78);
        let row = shape.heads * shape.dim;
        let queries = random.units(ROWS * row);
        let of_position = shape.kv_heads * shape.dim;
        let count = shape.blocks * BLOCK * of_position;
        let (keys, mut values) = (random.units(count), random.units(count));
        // One that only the first rows see through the window, and one that only the last see.
        for position in [13, 50] {
            values[position * of_position..][..of_position].fill(f32::NAN);
        }
        let attend = |first: usize, rows: usize| {
            let queries = &queries[first * row..][..rows * row];
            let step = [sequence(37 + first, rows, &table)];
            attended(&lab, shape, queries, [&keys, &values], &step)
        };
        let together = attend(0, ROWS);
        for (index, found) in together.chunks_exact(row).enumerate() {
            let position = 37 + index;
            let sees = [13, 50]
                .into_iter()
                .any(|at| at <= position && at + 33 > position);
            assert_eq!(
                found.iter().any(|x| x.is_nan()),
                sees,
                "{what}, row {index}"
            );
            if !sees {
                assert_eq!(found, attend(index, 1), "{what}, row {index}");
            }
        }
    }
}

/// What a row does not see has no part in it, and what it sees is counted once, infinite or not.
#[test]
fn infinite_values_are_the_same_to_a_row_alone_and_in_a_tile() {
    const ROWS: usize = 30;
    let gpus = |(what, _): &(String, Lab)| !what.starts_with("software");
    for (what, lab) in labs().into_iter().filter(gpus) {
        let shape = HeadShape::plain(4, 2, 20, 6);
        let table: Vec<u32> = (0..shape.blocks as u32).collect();
        let mut random = Random(77);
        let row = shape.heads * shape.dim;
        let queries = random.units(ROWS * row);
        let of_position = shape.kv_heads * shape.dim;
        let count = shape.blocks * BLOCK * of_position;
        let (keys, mut values) = (random.units(count), random.units(count));
        // Each an element of its own, so that the others show who counts what.
        for position in 40..40 + shape.dim {
            values[position * of_position + position - 40] = f32::INFINITY;
        }
        let attend = |first: usize, rows: usize| {
            let queries = &queries[first * row..][..rows * row];
            let step = [sequence(37 + first, rows, &table)];
            attended(&lab, shape, queries, [&keys, &values], &step)
        };
        let together = attend(0, ROWS);
        for first in 0..ROWS {
            let alone = attend(first, 1);
            for (index, found) in alone.iter().enumerate() {
                // Of the first key and value head's queries.
                let sees = index < 2 * shape.dim && index % shape.dim + 40 <= 37 + first;
                assert_eq!(
                    *found == f32::INFINITY,
                    sees,
                    "{what}, row {first}, {index}: {found}"
                );
            }
            let expected = &together[first * row..][..row];
            crate::support::assert_same(&alone, expected, &format!("{what}, row {first}"));
        }
    }
}

/// A row that sees more than 8,192 positions has as many parts on a GPU as there can be, so its workgroups take several splits each: here
/// beside rows that see fewer, in tiles that end on either side and alone.
#[test]
fn rows_on_both_sides_of_8192_positions_are_the_same_in_one_step() {
    for (what, lab) in labs() {
        let shape = HeadShape::plain(2, 1, 8, 520);
        let table: Vec<u32> = (0..520).map(|block| block * 7 % 520).collect();
        let mut random = Random(8192);
        let row = shape.heads * shape.dim;
        let pieces = [
            (8180, 24),
            (100, 1),
            (8300, 1),
            (8191, 1),
            (8192, 1),
            (8210, 20),
        ];
        let rows: usize = pieces.iter().map(|(_, rows)| rows).sum();
        let queries = random.units(rows * row);
        let count = shape.blocks * BLOCK * shape.kv_heads * shape.dim;
        let (keys, values) = (random.units(count), random.units(count));
        let attend = |queries: &[f32], pieces: &[(usize, usize)]| {
            let step: Vec<StepSequence> = pieces
                .iter()
                .map(|(first, rows)| sequence(*first, *rows, &table))
                .collect();
            attended(&lab, shape, queries, [&keys, &values], &step)
        };
        let together = attend(&queries, &pieces);
        let positions = pieces
            .into_iter()
            .flat_map(|(first, rows)| first..first + rows);
        let (keys, values) = (wide(&keys), wide(&values));
        for (index, position) in positions.enumerate() {
            let query = &queries[index * row..][..row];
            let found = &together[index * row..][..row];
            let what = format!("{what}, row {index} at {position}");
            crate::support::assert_same(found, &attend(query, &[(position, 1)]), &what);
            let of = |cache: &'_ [f64], position: usize| {
                let place = table[position / BLOCK] as usize * BLOCK + position % BLOCK;
                cache[place * shape.dim..][..shape.dim].to_vec()
            };
            let seen = 0..=position;
            let own_keys: Vec<Vec<f64>> = seen.clone().map(|p| of(&keys, p)).collect();
            let own_values: Vec<Vec<f64>> = seen.map(|p| of(&values, p)).collect();
            let own_keys: Vec<&[f64]> = own_keys.iter().map(Vec::as_slice).collect();
            let own_values: Vec<&[f64]> = own_values.iter().map(Vec::as_slice).collect();
            for head in 0..shape.heads {
                let query = wide(&query[head * shape.dim..][..shape.dim]);
                let scale = 1.0 / (shape.dim as f64).sqrt();
                let expected =
                    reference::attention(&query, &own_keys, &own_values, scale, None, None);
                let found = &found[head * shape.dim..][..shape.dim];
                assert_close(found, &expected, TOLERANCE, &what);
            }
        }
    }
}

fn check_chunks(what: &str, lab: &Lab, shape: HeadShape, first: usize) {
    const ROWS: usize = 53;
    let table: Vec<u32> = (0..50).map(|block| block * 7 % 50).collect();
    let mut random = Random(shape.dim as u64);
    let row = shape.heads * shape.dim;
    let queries = random.units(ROWS * row);
    let count = shape.blocks * BLOCK * shape.kv_heads * shape.dim;
    let (keys, values) = (random.units(count), random.units(count));
    let attend = |from: usize, rows: usize| {
        let queries = &queries[from * row..][..rows * row];
        let step = [sequence(first + from, rows, &table)];
        let experiment = lab.attention(shape, queries, [&keys, &values], &step);
        let experiment = experiment.unwrap();
        lab.run(&experiment, 1).unwrap();
        lab.output_of(&experiment, 0, shape.dim).unwrap()
    };
    let whole = attend(0, ROWS);
    for each in [1, 20] {
        // Alone some are enough.
        let some = if each == 1 { 17 } else { 1 };
        let some = (0..ROWS).step_by(each).step_by(some);
        for from in some {
            let rows = each.min(ROWS - from);
            let what = format!("{what}, {rows} rows from {from}");
            let expected = &whole[from * row..][..rows * row];
            crate::support::assert_same(&attend(from, rows), expected, &what);
        }
    }
}

/// Rows of a step: where each begins, how many there are, and its blocks.
struct Sharing {
    step: Vec<StepSequence>,
    /// Query rows before each sequence.
    before: Vec<usize>,
}

/// Sequences of which most begin with the same blocks: many over 12, three over 5, one again behind a hole, one that ends among
/// them, and a piece of a prompt.
fn sharing(blocks: usize) -> Sharing {
    let all: Vec<u32> = (0..blocks as u32).map(|b| b * 7 % blocks as u32).collect();
    let table = |prefix: usize, index: usize| -> Vec<u32> {
        let own = all.iter().rev().cycle().skip(3 * index);
        all[..prefix].iter().chain(own).take(30).copied().collect()
    };
    let mut step: Vec<_> = (0..9)
        .map(|index| sequence(200 + 23 * index, 1, &table(12, index)))
        .collect();
    step.extend((9..12).map(|index| sequence(250 + index, 1, &table(5, index))));
    let mut hole = table(12, 12);
    hole[3] = all[20];
    step.push(sequence(400, 1, &hole));
    step.insert(5, sequence(70, 1, &table(12, 0)));
    step.insert(2, sequence(195, 11, &table(12, 13)));
    let rows = |sequence: &StepSequence| sequence.tokens.len();
    let before = |index| step[..index].iter().map(rows).sum();
    Sharing {
        before: (0..step.len()).map(before).collect(),
        step,
    }
}

#[test]
fn a_row_is_attended_the_same_whoever_shares_its_blocks() {
    let software = |(what, _): &(String, Lab)| what.starts_with("software");
    for (what, lab) in labs().into_iter().filter(software) {
        for (heads, kv_heads, dim, window) in [
            (3, 3, 20, None),
            (4, 2, 80, None),
            (6, 2, 36, None),
            (7, 1, 64, None),
            (2, 2, 64, Some(70)),
        ] {
            for kv in KvPrecision::ALL {
                let shape = HeadShape {
                    kv,
                    window,
                    ..HeadShape::plain(heads, kv_heads, dim, 45)
                };
                check_sharing(&format!("{what}, {shape:?}"), &lab, shape);
            }
        }
    }
}

fn check_sharing(what: &str, lab: &Lab, shape: HeadShape) {
    let Sharing { step, before } = sharing(shape.blocks);
    let mut random = Random(shape.dim as u64);
    let row = shape.heads * shape.dim;
    let rows = before.last().map_or(0, |before| before + 1);
    let queries = random.units(rows * row);
    let count = shape.blocks * BLOCK * shape.kv_heads * shape.dim;
    let (keys, values) = (random.units(count), random.units(count));
    // Those sequences of the step alone, whose numbers these are.
    let attend = |of: &[usize]| -> Vec<Vec<f32>> {
        let some: Vec<StepSequence> = of.iter().map(|index| step[*index].clone()).collect();
        let own = |index: &usize| {
            let rows = step[*index].tokens.len();
            queries[before[*index] * row..][..rows * row].to_vec()
        };
        let queries: Vec<f32> = of.iter().flat_map(own).collect();
        let experiment = lab
            .attention(shape, &queries, [&keys, &values], &some)
            .unwrap();
        lab.run(&experiment, 1).unwrap();
        let found = lab.output_of(&experiment, 0, shape.dim).unwrap();
        let mut left = &found[..];
        let mut of = some.iter().map(|sequence| {
            let (own, rest) = left.split_at(sequence.tokens.len() * row);
            left = rest;
            own.to_vec()
        });
        of.by_ref().collect()
    };
    let everyone: Vec<usize> = (0..step.len()).collect();
    let alone: Vec<Vec<f32>> = everyone.iter().map(|i| attend(&[*i]).remove(0)).collect();
    // In several companies, in either order.
    let backwards: Vec<usize> = everyone.iter().rev().copied().collect();
    for of in [
        &everyone,
        &backwards,
        &backwards[..3].to_vec(),
        &everyone[..8].to_vec(),
    ] {
        for (index, together) in of.iter().zip(attend(of)) {
            let what = format!("{what}, sequence {index} among {}", of.len());
            crate::support::assert_same(&together, &alone[*index], &what);
        }
    }
}
