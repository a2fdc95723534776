//! Products and embeddings against float64, for every format, at odd sizes, on every variant that runs here.
//!
//! Tolerance of a sum: 2e-6 of what it would be if every weight of the column were as large as its largest, plus 2e-6. That is
//! some 17 units in the last place of f32, as the sums of up to 512 products go in an order of their own.

use tidegate_infer::device::Sabotage;
use tidegate_infer::kernels::lab::Lab;
use tidegate_infer::kernels::{F16_TOLERANCE, StorageFormat, WeightNumbers};
use tidegate_infer::{Features, Gpu, KernelVariant};
use tidegate_weights::{Activation, Format, Tensor};

use crate::support::{
    PLAIN, Random, assert_same, bare_gpu, gpu, labs_in_longs_and_words, open, variants,
};

const TOLERANCE: f64 = 2e-6;

/// Every format that a device has weights in.
fn formats() -> [Format; StorageFormat::ALL.len()] {
    StorageFormat::ALL.map(StorageFormat::format)
}

/// Every variant that runs here; those without a feature also on a device without any, with wgpu's checks in the shaders.
fn labs() -> Vec<(String, Lab)> {
    let on = |gpu: &Gpu, variant: KernelVariant, checked| {
        let lab = Lab::on(gpu, variant, checked).unwrap();
        (format!("{variant}, checked {checked}"), lab)
    };
    let mut labs: Vec<_> = PLAIN.map(|variant| on(bare_gpu(), variant, true)).into();
    labs.extend(PLAIN.map(|variant| on(gpu(), variant, false)));
    labs.push(on(gpu(), KernelVariant::Subgroup, false));
    labs
}

/// Of all the bits that there are, with scales of many sizes.
impl WeightNumbers for Random {
    fn element(&mut self) -> f32 {
        self.unit()
    }

    fn scale(&mut self, largest: f32) -> f32 {
        largest * (0.5 + 0.5 * self.unit().abs())
    }

    fn integers(&mut self) -> u8 {
        self.bits() as u8
    }
}

/// A matrix in the bytes of its format, and the numbers they stand for.
struct Weights {
    format: Format,
    rows: usize,
    width: usize,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

impl Weights {
    fn random(random: &mut Random, format: Format, rows: usize, width: usize) -> Weights {
        let blocks = rows * width / format.block();
        let bytes = StorageFormat::of(format).made_up(random, blocks);
        let tensor = Tensor::in_memory("random", format, rows, width, &bytes).unwrap();
        let values = tensor.to_f32().unwrap();
        let values = values.into_iter().map(f64::from).collect();
        Weights {
            format,
            rows,
            width,
            bytes,
            values,
        }
    }

    fn tensor(&self) -> Tensor<'_> {
        Tensor::in_memory("random", self.format, self.rows, self.width, &self.bytes).unwrap()
    }

    /// Products of `input`'s rows with each row of these, and how far off each may be.
    fn product(&self, input: &[f32]) -> Vec<(f64, f64)> {
        let rows = input.chunks(self.width);
        rows.flat_map(|x| {
            self.values.chunks(self.width).map(move |w| {
                let sum = w.iter().zip(x).map(|(w, x)| w * f64::from(*x)).sum();
                let largest = w.iter().fold(0.0_f64, |most, w| most.max(w.abs()));
                let all: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
                (sum, TOLERANCE * (1.0 + largest * all))
            })
        })
        .collect()
    }
}

fn widths(format: Format) -> &'static [usize] {
    match format.block() {
        1 => &[3, 17, 172],
        32 => &[32, 160],
        _ => &[512],
    }
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[(f64, f64)], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, (expected, off))) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= *off,
            "{what}: element {index} is {found}, should be {expected} ± {off}"
        );
    }
}

#[test]
fn products_match_the_reference_in_every_format_at_odd_sizes() {
    for (name, lab) in labs() {
        let mut random = Random(41);
        for format in formats() {
            for (&width, columns) in widths(format)
                .iter()
                .flat_map(|width| [(width, 5), (width, 67)])
            {
                let weights = Weights::random(&mut random, format, columns, width);
                for rows in [1, 3, 8, 33] {
                    let what = format!("{name}: {format:?} {columns}x{width}, {rows} rows");
                    let input = random.units(rows * width);
                    let mut expected = weights.product(&input);
                    let experiment = lab.matmul(vec![weights.tensor()], &input, None).unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    assert_near(&found, &expected, &what);

                    let residual = random.units(rows * columns);
                    let experiment = lab
                        .matmul(vec![weights.tensor()], &input, Some(&residual))
                        .unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    for (sum, residual) in expected.iter_mut().zip(&residual) {
                        sum.0 += f64::from(*residual);
                    }
                    assert_near(&found, &expected, &format!("{what}, residual"));
                }
            }
        }
    }
}

fn activated(activation: Option<Activation>, x: f64) -> f64 {
    match activation {
        None => x,
        Some(Activation::Silu) => x / (1.0 + (-x).exp()),
        Some(Activation::GeluTanh) => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Some(Activation::Gelu) => 0.5 * x * (1.0 + erf(x / 2.0_f64.sqrt())),
    }
}

/// The error function by its Taylor series, for arguments up to 6.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    if x.abs() > 5.0 {
        x.signum()
    } else {
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }
}

/// In the formats that no whole model is held to this in: a row that is added to what is there, many that are gated, and an
/// embedding. Where no variant needs a feature, `labs` has checked ones in every format.
#[test]
fn unchecked_products_give_the_bits_of_checked_ones() {
    let of_models = |format: &Format| matches!(format, Format::F32 | Format::Int8);
    let formats: Vec<_> = formats().into_iter().filter(|of| !of_models(of)).collect();
    let with_features = |(gpu, _): &(&Gpu, KernelVariant)| gpu.features() != Features::NONE;
    for (gpu, variant) in variants().into_iter().filter(with_features) {
        let labs = [true, false].map(|checked| Lab::on(gpu, variant, checked).unwrap());
        for &format in &formats {
            let mut random = Random(51);
            let width = widths(format)[0];
            let [a, b] = [(); 2].map(|()| Weights::random(&mut random, format, 67, width));
            let input = random.units(33 * width);
            let residual = random.units(67);
            let [checked, unchecked] = labs.each_ref().map(|lab| {
                let parts = [a.tensor(), b.tensor()];
                let row = &input[..width];
                let products = [
                    lab.matmul(vec![a.tensor()], row, Some(&residual)),
                    lab.gated(parts, Activation::Silu, &input),
                    lab.embed(a.tensor(), &[66, 0, 31, 32], &[], 2.0),
                ];
                let run = |(experiment, width)| {
                    let experiment = Result::unwrap(experiment);
                    lab.run(&experiment, 1).unwrap();
                    lab.output_of(&experiment, 0, width).unwrap()
                };
                let widths = [67, 67, width];
                products
                    .into_iter()
                    .zip(widths)
                    .flat_map(run)
                    .collect::<Vec<f32>>()
            });
            assert_same(&unchecked, &checked, &format!("{variant}, {format:?}"));
        }
    }
}

#[test]
fn gated_and_biased_products_match_the_reference() {
    let activations = [Activation::Silu, Activation::GeluTanh, Activation::Gelu];
    for (name, lab) in labs() {
        let mut random = Random(42);
        for (format, width) in [(Format::F32, 21), (Format::Int8, 64)] {
            for (rows, columns) in [(1, 7), (9, 43)] {
                let what = format!("{name}: {format:?}, {rows} rows, {columns} columns");
                let [gate, up] =
                    [0, 1].map(|_| Weights::random(&mut random, format, columns, width));
                let input = random.units(rows * width);
                let (gates, ups) = (gate.product(&input), up.product(&input));
                for activation in activations {
                    let experiment = lab
                        .gated([gate.tensor(), up.tensor()], activation, &input)
                        .unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    let gated = |(gate, up): (&(f64, f64), &(f64, f64))| {
                        let value = activated(Some(activation), gate.0) * up.0;
                        (value, (gate.1 + up.1) * (2.0 + gate.0.abs() + up.0.abs()))
                    };
                    let expected: Vec<_> = gates.iter().zip(&ups).map(gated).collect();
                    assert_near(&found, &expected, &format!("{what}, gate {activation:?}"));
                }
                let bias: Vec<f32> = random.units(columns).iter().map(|x| x * 3.0).collect();
                for activation in activations.map(Some).into_iter().chain([None]) {
                    let experiment = lab
                        .biased(gate.tensor(), &bias, activation, &input)
                        .unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    let biased = |(sum, bias): (&(f64, f64), &f32)| {
                        let x = sum.0 + f64::from(*bias);
                        (
                            activated(activation, x),
                            sum.1 * 2.0 + TOLERANCE * (1.0 + x.abs()),
                        )
                    };
                    let biases = bias.iter().cycle();
                    let expected: Vec<_> = gates.iter().zip(biases).map(biased).collect();
                    assert_near(&found, &expected, &format!("{what}, bias {activation:?}"));
                }
            }
        }
    }
}

#[test]
fn an_embedding_is_the_exact_row_of_each_token_in_every_format() {
    for (name, lab) in labs() {
        let mut random = Random(43);
        for format in formats() {
            for &width in widths(format) {
                let table = Weights::random(&mut random, format, 71, width);
                let ids = [70, 0, 31, 32, 33, 70, 5];
                // Then those that were drawn on the device, the last of them first.
                let drawn = [9, 66, 0];
                let experiment = lab.embed(table.tensor(), &ids, &drawn, 2.0).unwrap();
                lab.run(&experiment, 1).unwrap();
                let found = lab.output_of(&experiment, 0, width).unwrap();
                let row = |id: &u32| &table.values[*id as usize * width..][..width];
                let expected: Vec<f32> = ids
                    .iter()
                    .chain(drawn.iter().rev())
                    .flat_map(row)
                    .map(|value| *value as f32 * 2.0)
                    .collect();
                assert_eq!(found, expected, "{name}: {format:?} width {width}");
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_at_any_number_of_rows() {
    for (name, lab) in labs() {
        let mut random = Random(44);
        for (format, times) in formats().into_iter().flat_map(|of| [(of, 2), (of, 9)]) {
            let width = widths(format)[0] * times;
            let weights = Weights::random(&mut random, format, 37, width);
            let input = random.units(32 * width);
            let product = |rows: usize| {
                let input = &input[..rows * width];
                let experiment = lab.matmul(vec![weights.tensor()], input, None).unwrap();
                lab.run(&experiment, 1).unwrap();
                lab.output_of(&experiment, 0, 37).unwrap()
            };
            let all = product(32);
            for rows in [1, 2, 3, 5, 8, 17] {
                let found = product(rows);
                assert_eq!(
                    found,
                    all[..rows * 37],
                    "{name}: {format:?}, {rows} of 32 rows"
                );
            }
        }
    }
}

/// Who sums what differs, and not the sums: no subgroup has a part in them.
#[test]
fn products_have_the_same_bits_in_both_variants_for_gpus() {
    let labs = [KernelVariant::Portable, KernelVariant::Subgroup]
        .map(|variant| Lab::on(gpu(), variant, false).unwrap());
    let mut random = Random(52);
    for format in formats() {
        // 80 groups: more than there are parts, and no multiple of them.
        let width = 2560;
        let weights = Weights::random(&mut random, format, 37, width);
        let input = random.units(9 * width);
        let [portable, subgroup] = labs.each_ref().map(|lab| {
            let rows = [9, 4, 1].map(|rows| {
                let input = &input[..rows * width];
                let experiment = lab.matmul(vec![weights.tensor()], input, None).unwrap();
                lab.run(&experiment, 1).unwrap();
                lab.output_of(&experiment, 0, 37).unwrap()
            });
            rows.concat()
        });
        assert_same(&subgroup, &portable, &format!("{format:?}"));
        let all: Vec<f32> = [9, 4, 1].map(|rows| &portable[..rows * 37]).concat();
        assert_same(&portable, &all, &format!("{format:?}, by rows"));
    }
}

#[test]
fn products_have_the_same_bits_whether_weights_are_read_in_words_or_in_longs() {
    let [longs, words] = labs_in_longs_and_words();
    let mut random = Random(53);
    for format in formats() {
        let width = 512;
        let weights = Weights::random(&mut random, format, 37, width);
        for rows in [1, 8, 9] {
            let input = random.units(rows * width);
            let product = |lab: &Lab| {
                let experiment = lab.matmul(vec![weights.tensor()], &input, None).unwrap();
                lab.run(&experiment, 1).unwrap();
                lab.output_of(&experiment, 0, 37).unwrap()
            };
            let what = format!("{format:?}, {rows} rows");
            assert_same(&product(&longs), &product(&words), &what);
        }
    }
}

#[test]
fn a_matrix_beyond_the_largest_binding_is_split_by_rows() {
    // A tile of 32 rows of 64 elements is 4096 bytes of f16, 2048 of int8: 67 columns come to three tiles.
    for (format, binding, shards) in [
        (Format::F16, 4096, 3),
        (Format::F16, 8192, 2),
        (Format::Int8, 2048, 3),
        (Format::Int8, 1 << 20, 1),
    ] {
        for variant in PLAIN {
            let lab = Lab::on(&gpu().narrowed(binding), variant, true).unwrap();
            let mut random = Random(45);
            let what = format!("{variant}: {format:?} split at {binding}");
            let weights = Weights::random(&mut random, format, 67, 64);
            let input = random.units(5 * 64);
            let experiment = lab.matmul(vec![weights.tensor()], &input, None).unwrap();
            assert_eq!(lab.run(&experiment, 1).unwrap(), shards, "{what}");
            let found = lab.output_of(&experiment, 0, 67).unwrap();
            assert_near(&found, &weights.product(&input), &what);

            let ids: Vec<u32> = (0..67).collect();
            let experiment = lab.embed(weights.tensor(), &ids, &[], 1.0).unwrap();
            assert_eq!(lab.run(&experiment, 1).unwrap(), shards, "{what}");
            let found = lab.output_of(&experiment, 0, 64).unwrap();
            let found: Vec<f64> = found.into_iter().map(f64::from).collect();
            assert_eq!(found, weights.values, "{what}");
        }
    }
}

#[test]
fn a_matrix_of_which_not_a_tile_fits_is_refused_with_the_limit() {
    let lab = Lab::on(&bare_gpu().narrowed(1024), KernelVariant::Portable, true).unwrap();
    let weights = Weights::random(&mut Random(46), Format::F32, 8, 64);
    let error = lab
        .matmul(vec![weights.tensor()], &[0.0; 64], None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("8192") || error.contains("8 KiB"), "{error}");
}

#[test]
fn stacked_tensors_of_unlike_formats_keep_them() {
    for (name, lab) in labs() {
        let mut random = Random(47);
        let formats = [Format::Q4K, Format::Int8, Format::Int8, Format::F16];
        let parts = formats.map(|format| Weights::random(&mut random, format, 36, 256));
        let input = random.units(3 * 256);
        let stacked = parts.iter().map(Weights::tensor).collect();
        let experiment = lab.matmul(stacked, &input, None).unwrap();
        assert_eq!(
            lab.run(&experiment, 1).unwrap(),
            3,
            "{name}: one for each run of a format"
        );
        let found = lab.output_of(&experiment, 0, 4 * 36).unwrap();
        let expected: Vec<_> = input
            .chunks(256)
            .flat_map(|row| {
                parts
                    .iter()
                    .flat_map(|part| part.product(row))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_near(&found, &expected, &name);

        let unlike = [Format::Int4, Format::F16];
        let [gate, up] = unlike.map(|format| Weights::random(&mut random, format, 36, 64));
        let input = random.units(2 * 64);
        let gated = lab
            .gated([gate.tensor(), up.tensor()], Activation::Silu, &input)
            .unwrap();
        lab.run(&gated, 1).unwrap();
        let found = lab.output_of(&gated, 0, 36).unwrap();
        let products = gate.product(&input).into_iter().zip(up.product(&input));
        let expected: Vec<_> = products
            .map(|(gate, up)| {
                let off = (gate.1 + up.1) * (2.0 + gate.0.abs() + up.0.abs());
                (activated(Some(Activation::Silu), gate.0) * up.0, off)
            })
            .collect();
        assert_near(&found, &expected, &name);
    }
}

#[test]
fn a_row_that_is_no_number_leaves_the_others_alone() {
    for (name, lab) in labs() {
        let mut random = Random(48);
        for (format, width) in [(Format::F32, 13), (Format::Int4, 32), (Format::Q4K, 256)] {
            let weights = Weights::random(&mut random, format, 9, width);
            let mut input = random.units(4 * width);
            input[width..2 * width].fill(f32::NAN);
            input[3 * width..].fill(f32::INFINITY);
            let experiment = lab.matmul(vec![weights.tensor()], &input, None).unwrap();
            lab.run(&experiment, 1).unwrap();
            let found = lab.output_of(&experiment, 0, 9).unwrap();
            let expected = weights.product(&input);
            for row in [0, 2] {
                let of = row * 9..(row + 1) * 9;
                assert_near(
                    &found[of.clone()],
                    &expected[of],
                    &format!("{name}: {format:?}"),
                );
            }
            assert!(
                found[9..18].iter().all(|x| x.is_nan()),
                "{name}: {format:?}"
            );
        }
    }
}

#[test]
fn memory_is_known_to_the_byte_before_it_is_taken() {
    for (name, lab) in labs() {
        let mut random = Random(49);
        for format in formats() {
            let width = widths(format)[0];
            let [a, b] = [37, 40].map(|rows| Weights::random(&mut random, format, rows, width));
            for (tensors, alternating) in [
                (vec![a.tensor()], false),
                (vec![b.tensor(), a.tensor()], false),
                (vec![a.tensor(), a.tensor()], true),
            ] {
                let [guessed, taken] = lab.packed_bytes(tensors, alternating).unwrap();
                assert_eq!(guessed, taken, "{name}: {format:?}");
            }
        }
    }
}

/// Variants that round the input of products: how far off they may be, as a share of what the sum would be if every weight of the
/// column were as large as its largest. f16 has 11 bits, and a group of int8 is within 1/254 of its largest.
#[test]
fn products_of_rounded_inputs_are_as_near_as_the_rounding_allows() {
    for (variant, share) in [(KernelVariant::F16, 1e-3), (KernelVariant::Dot, 8e-3)] {
        let Ok(lab) = Lab::on(gpu(), variant, false) else {
            continue;
        };
        let mut random = Random(50);
        for format in formats() {
            for (&width, columns) in widths(format)
                .iter()
                .flat_map(|width| [(width, 5), (width, 67)])
            {
                let weights = Weights::random(&mut random, format, columns, width);
                for rows in [1, 3, 70] {
                    let input = random.units(rows * width);
                    let expected = weights.product(&input);
                    let experiment = lab.matmul(vec![weights.tensor()], &input, None).unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    let wider = |(sum, off): &(f64, f64)| (*sum, off / TOLERANCE * share);
                    let expected: Vec<_> = expected.iter().map(wider).collect();
                    let what = format!("{variant}: {format:?} {columns}x{width}, {rows} rows");
                    assert_near(&found, &expected, &what);
                }
            }
        }
    }
}

/// Kernels by cooperative matrices: those of the device, if it has any; and with plain arithmetic in their place, which shows that what
/// lies where, what is padded, who sums what and in which order is right.
fn cooperative_labs() -> Vec<(&'static str, Lab)> {
    let mut labs = vec![("emulated", Lab::emulating(gpu(), true))];
    labs.extend(Lab::on(gpu(), KernelVariant::Cooperative, false).map(|lab| ("cooperative", lab)));
    labs
}

#[test]
fn products_by_cooperative_matrices_are_as_near_as_f16_allows() {
    for (name, lab) in cooperative_labs() {
        let mut random = Random(53);
        for format in formats() {
            let all = widths(format);
            for (width, columns) in [(all[0], 5), (all[all.len() - 1], 67)] {
                let weights = Weights::random(&mut random, format, columns, width);
                for rows in [3, 7, 17, 70] {
                    let input = random.units(rows * width);
                    let expected = weights.product(&input);
                    let residual = random.units(rows * columns);
                    let experiment = lab
                        .matmul(vec![weights.tensor()], &input, Some(&residual))
                        .unwrap();
                    lab.run(&experiment, 1).unwrap();
                    let found = lab.output_of(&experiment, 0, columns).unwrap();
                    let expected = expected.iter().zip(&residual);
                    let expected: Vec<_> = expected
                        .map(|((sum, off), residual)| {
                            (sum + f64::from(*residual), off / TOLERANCE * F16_TOLERANCE)
                        })
                        .collect();
                    let what = format!("{name}: {format:?} {columns}x{width}, {rows} rows");
                    assert_near(&found, &expected, &what);
                }
            }
        }
    }
}

/// Magnitudes in which f16 has all its bits, from the smallest to the largest; then what the bound does not hold of, as its words say.
#[test]
fn products_by_cooperative_matrices_keep_their_bound_as_far_as_f16_goes() {
    let (width, columns, rows) = (172, 5, 3);
    for (name, lab) in cooperative_labs() {
        let mut random = Random(57);
        // Within a factor of 2, so that all of them are of one magnitude.
        let mut numbers = |count: usize, magnitude: f32| -> Vec<f32> {
            let number = |x: f32| (1.0 + x.abs() * 0.999) * x.signum() * magnitude;
            random.units(count).into_iter().map(number).collect()
        };
        let powers = [-14, -13, -7, 0, 7, 15].map(|power| 2.0_f32.powi(power));
        let pairs = powers.map(|of_x| powers.map(|of_w| [of_x, of_w]));
        let beyond = [[-24, 0], [0, -24], [17, 0], [30, -14], [0, 17]]
            .map(|powers: [i32; 2]| powers.map(|power| 2.0_f32.powi(power)));
        for [of_x, of_w] in pairs.into_iter().flatten().chain(beyond) {
            let (input, weights) = (numbers(rows * width, of_x), numbers(columns * width, of_w));
            let bytes = bytemuck::cast_slice(&weights);
            let tensor = Tensor::in_memory("w", Format::F32, columns, width, bytes).unwrap();
            let experiment = lab.matmul(vec![tensor], &input, None).unwrap();
            lab.run(&experiment, 1).unwrap();
            let found = lab.output_of(&experiment, 0, columns).unwrap();
            // What the words on the bound make of a number, and how far it is off.
            let narrowed = |x: &f32| -> (f64, f64) {
                let (x, step) = (f64::from(*x).clamp(-65_504.0, 65_504.0), 2.0_f64.powi(-25));
                (x, (x.abs() * 2.0_f64.powi(-11)).max(step))
            };
            let mut expected = Vec::new();
            for x in input.chunks(width) {
                for w in weights.chunks(width) {
                    let (mut sum, mut off) = (0.0, 0.0);
                    for (x, w) in x.iter().map(narrowed).zip(w.iter().map(narrowed)) {
                        sum += x.0 * w.0;
                        let apart = x.0.abs() * w.1 + w.0.abs() * x.1 + x.1 * w.1;
                        let share = F16_TOLERANCE * (x.0 * w.0).abs();
                        let in_range = x.0.abs().min(w.0.abs()) >= 2.0_f64.powi(-14);
                        off += if in_range {
                            share
                        } else {
                            apart + 1e-5 * share
                        };
                    }
                    expected.push((sum, off));
                }
            }
            assert_near(
                &found,
                &expected,
                &format!("{name}: {of_x:e} times {of_w:e}"),
            );
        }
    }
}

/// Weights and inputs have all the bits of f16 and more, so that a sum in another order is another number.
#[test]
fn cooperative_matrices_sum_in_one_order_at_any_number_of_rows() {
    for (name, lab) in cooperative_labs() {
        let mut random = Random(54);
        for format in [Format::F32, Format::F16, Format::Int4] {
            // Fewer groups than there are segments, and more, and no multiple of them.
            for (times, columns) in [(1, 5), (11, 70)] {
                let width = widths(format)[0] * times;
                let weights = Weights::random(&mut random, format, columns, width);
                let input = random.units(256 * width);
                let product = |rows: usize| {
                    let input = &input[..rows * width];
                    let experiment = lab.matmul(vec![weights.tensor()], input, None).unwrap();
                    lab.run(&experiment, 1).unwrap();
                    lab.output_of(&experiment, 0, columns).unwrap()
                };
                let all = product(256);
                for rows in [1, 3, 8, 16, 17, 64] {
                    let what = format!("{name}: {format:?} {columns}x{width}, {rows} of 256 rows");
                    assert_same(&product(rows), &all[..rows * columns], &what);
                }
            }
        }
    }
}

/// What the tests of cooperative matrices are there to see: each of these is one mistake in the kernel's text.
#[test]
fn mistakes_in_cooperative_matrices_are_seen() {
    let device = open(Features::ALL);
    let (columns, width) = (37, 700);
    let weights = Weights::random(&mut Random(55), Format::F16, columns, width);
    let input = Random(56).units(64 * width);
    let expected = weights.product(&input);
    // Whether numbers are near the reference's, and rows the same in each tiling.
    let holds = || {
        let lab = Lab::emulating(&device, false);
        let product = |rows: usize| {
            let input = &input[..rows * width];
            let experiment = lab.matmul(vec![weights.tensor()], input, None).unwrap();
            lab.run(&experiment, 1).unwrap();
            lab.output_of(&experiment, 0, columns).unwrap()
        };
        let all = product(64);
        let near = all.iter().zip(&expected).all(|(found, (sum, off))| {
            (f64::from(*found) - sum).abs() <= off / TOLERANCE * F16_TOLERANCE
        });
        let bits = |sums: &[f32]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
        let same = [3, 16, 17].map(|rows| bits(&product(rows)) == bits(&all[..rows * columns]));
        [near, same == [true; 3]]
    };
    assert_eq!(holds(), [true, true]);
    for (from, to, wanted) in [
        // Segments added up from the last to the first where subgroups share them.
        (
            "+= sums[s * (",
            "+= sums[(SLICES - 1u - s) * (",
            [true, false],
        ),
        // Segments of another length where there are many rows.
        (
            "/ (SEGMENTS * EVEN) * EVEN;",
            "/ (SEGMENTS * EVEN) * EVEN * select(1u, 2u, ROWS > 32u);",
            [true, false],
        ),
        // The halves of a group exchanged.
        (
            "params.groups - 1u), i / COLUMNS % 2u);",
            "params.groups - 1u), 1u - i / COLUMNS % 2u);",
            [false, true],
        ),
        // The last groups left out.
        (
            "if (row < rows && quad < params.width4) {",
            "if (row < rows && quad + 4u < params.width4) {",
            [false, true],
        ),
    ] {
        device.sabotage("matmul", Sabotage::Edited { from, to });
        assert_eq!(holds(), wanted, "{to}");
        device.repair();
    }
}
