//! What an encoder does beside products.

use tidegate_contract::EncoderText;
use tidegate_weights::Pooling;

use super::{CaseRun, Failure, Numbers, outcome, softmax, wide};
use crate::buffer::Buffer;
use crate::encoder::{PassSizes, PassWords};
use crate::kernels::lab::{Experiment, Lab};
use crate::kernels::{Addend, LayerNorm, TextAttention, TextHeads};
use crate::load_error::LoadError;
use crate::program::{Builder, Count};
use crate::site::Site;

/// Of numbers about 1, and of sums that were brought back to that.
const BOUND: f64 = 1e-5;

/// Rows of the texts of a pass: on both sides of a tile's end, and more than the lanes of any workgroup take at once.
const LENGTHS: [usize; 3] = [5, 1, 262];

/// The rows of all texts.
const ROWS: usize = LENGTHS[0] + LENGTHS[1] + LENGTHS[2];

/// The longest text, which has the same bits alone where a set is reproducible, and its first row beside the others.
const LONGEST: usize = LENGTHS[2];
const LONGEST_FIRST: usize = LENGTHS[0] + LENGTHS[1];

/// Each text's first row and rows.
fn texts() -> [(usize, usize); LENGTHS.len()] {
    let mut first = 0;
    LENGTHS.map(|length| {
        first += length;
        (first - length, length)
    })
}

/// The words of a pass on the device.
struct Pass {
    tiles: Buffer,
    texts: Buffer,
}

/// Kernels over a pass of texts of these lengths, attended to by so many heads.
fn experiment(
    lab: &Lab,
    lengths: &[usize],
    heads: usize,
    output: &Buffer,
    build: impl FnOnce(&mut Builder<'_>, &Pass) -> Result<(), LoadError>,
) -> Result<Experiment, LoadError> {
    let tokens: Vec<Vec<u32>> = lengths.iter().map(|length| vec![0; *length]).collect();
    let texts: Vec<_> = tokens
        .iter()
        .map(|text| EncoderText::single(text))
        .collect();
    let mut words = PassWords::default();
    let places = tokens.iter().map(Vec::len).max().unwrap_or_default();
    let extent = words.fill(&texts, PassSizes { heads, places });
    let pass = Pass {
        tiles: lab.buffer(&words.tiles)?,
        texts: lab.buffer(&words.texts)?,
    };
    let step = lab.buffer(&words.step)?;
    let mut builder = Builder::new(Site::Device(&lab.gpu), lab.kernels, &step);
    build(&mut builder, &pass)?;
    let program = builder.finish().0.resolve(&lab.gpu, lab.checked)?;
    Ok(Experiment::new(program, extent, vec![output.clone()]))
}

/// Of rows of fewer elements than a workgroup takes at once, and of more than 4,096; of a reproducible set the middle text has
/// the same bits alone. Norms take the place of their sums, or stand apart.
pub(super) fn layer_norm(lab: &Lab, apart: bool) -> Result<(), Failure> {
    for width in [70, 4099] {
        for added in [Added::OfPlace, Added::Own, Added::Same] {
            layer_norm_of(lab, width, added, [apart, false])?;
        }
        layer_norm_of(lab, width, Added::Own, [apart, true])?;
    }
    Ok(())
}

/// What is added to a row.
#[derive(Clone, Copy, PartialEq)]
enum Added {
    OfPlace,
    Own,
    Same,
}

impl Added {
    /// The row of the addends that a row of a text takes.
    fn row(self, first: usize, position: usize) -> usize {
        match self {
            Added::OfPlace => position,
            Added::Own => first + position,
            Added::Same => 0,
        }
    }

    fn of(self, addends: &Buffer) -> Addend<'_> {
        match self {
            Added::OfPlace => Addend::OfPlace(addends),
            Added::Own => Addend::Own(addends),
            Added::Same => Addend::Same(addends),
        }
    }
}

fn layer_norm_of(
    lab: &Lab,
    width: usize,
    added: Added,
    [apart, rms]: [bool; 2],
) -> Result<(), Failure> {
    let mut numbers = Numbers(8);
    let epsilon = 1e-5;
    let (weight, bias) = (numbers.take_full(width), numbers.take_full(width));
    let stream = numbers.take_full(ROWS * width);
    let addends = numbers.take_full(ROWS * width);
    let weights = lab.padded(&[&weight[..], &bias].concat(), width)?;
    // What stands in the place of the stream, or beside it.
    let made = |lengths: &[usize], stream: &[f32], addends: &[f32], sums: bool| {
        let output = lab.padded(stream, width)?;
        let addends = lab.padded(addends, width)?;
        let beside = lab.output(stream.len() / width * width.next_multiple_of(4));
        let read = if apart && !sums { &beside } else { &output };
        experiment(lab, lengths, 1, read, |builder, _| {
            builder.layer_norm(LayerNorm {
                weights: &weights,
                stream: &output,
                addend: added.of(&addends),
                normed: apart.then_some(&beside),
                width,
                epsilon,
                rms,
                of: Count::Rows,
            })
        })
    };
    let whole = made(&LENGTHS, &stream, &addends, false)?;
    let (mut expected, mut sums) = (Vec::new(), Vec::new());
    for (first, length) in texts() {
        for position in 0..length {
            let row = wide(&stream[(first + position) * width..][..width]);
            let other = wide(&addends[added.row(first, position) * width..][..width]);
            let row: Vec<f64> = row.iter().zip(other).map(|(x, y)| x + y).collect();
            let mean = match rms {
                false => row.iter().sum::<f64>() / width as f64,
                true => 0.0,
            };
            let squares: f64 = row.iter().map(|x| (x - mean).powi(2)).sum();
            let scale = 1.0 / (squares / width as f64 + epsilon).sqrt();
            for (x, (w, b)) in row.iter().zip(weight.iter().zip(&bias)) {
                expected.push(((x - mean) * scale * f64::from(*w) + f64::from(*b), BOUND));
            }
            sums.extend(row.into_iter().map(|x| (x, BOUND)));
        }
    }
    let case = match added {
        Added::OfPlace => "norms of places",
        Added::Own => "norms of rows",
        Added::Same => "norms of one addend",
    };
    let kind = if rms { "root mean squares, " } else { "" };
    let case = format!("{kind}{case}, width {width}");
    let norms = outcome(lab, &whole, 0, width)?;
    norms.compare(&case, &expected)?;
    if apart {
        let whole = made(&LENGTHS, &stream, &addends, true)?;
        outcome(lab, &whole, 0, width)?.compare(&format!("sums of {case}"), &sums)?;
    }
    if lab.kernels.reproducible {
        let (first, length) = texts()[1];
        let addends = match added {
            Added::OfPlace | Added::Same => &addends[..],
            Added::Own => &addends[first * width..],
        };
        let alone = made(
            &[length],
            &stream[first * width..][..length * width],
            addends,
            false,
        )?;
        let case = format!("{case}, a text alone");
        outcome(lab, &alone, 0, width)?.same_bits(&case, &norms, first, width)?;
    }
    Ok(())
}

/// The heads of rows in tests of what is done to them before attention.
const HEADS: TextHeads = TextHeads {
    queries: 4,
    keys: 2,
    dim: 10,
};

/// Queries and keys of every row, each with its weights, about 0 and far from it; values stay.
pub(super) fn head_norms(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(14);
    let (dim, epsilon) = (HEADS.dim, 1e-6);
    let qkv = numbers.take_full(ROWS * HEADS.all() * dim);
    let weights = numbers.take_full(2 * dim);
    let (buffer, weight) = (lab.padded(&qkv, dim)?, lab.padded(&weights, dim)?);
    let experiment = experiment(lab, &LENGTHS, HEADS.queries, &buffer, |builder, _| {
        builder.norm_heads(&weight, &buffer, HEADS, epsilon)
    })?;
    let (qkv, weights) = (wide(&qkv), wide(&weights));
    let mut expected = Vec::new();
    for (index, head) in qkv.chunks_exact(dim).enumerate() {
        let squares: f64 = head.iter().map(|x| x * x).sum();
        let scale = 1.0 / (squares / dim as f64 + epsilon).sqrt();
        let weights = match index % HEADS.all() {
            head if head < HEADS.queries => Some(&weights[..dim]),
            head if head < HEADS.queries + HEADS.keys => Some(&weights[dim..]),
            _ => None,
        };
        let normed = |(place, x): (usize, &f64)| match weights {
            Some(weights) => (x * scale * weights[place], BOUND),
            None => (*x, 0.0),
        };
        expected.extend(head.iter().enumerate().map(normed));
    }
    outcome(lab, &experiment, 0, dim)?.compare("norms of heads of texts", &expected)
}

/// Queries and keys of every row at its position, in heads of an odd number of pairs, of which some elements stay; values stay.
pub(super) fn turned(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(12);
    let (heads, dim, half) = (HEADS.all(), HEADS.dim, 3);
    let qkv = numbers.take_full(ROWS * heads * dim);
    let angles = numbers.take_full(LONGEST * half * 2);
    let (buffer, table) = (lab.padded(&qkv, dim)?, lab.padded(&angles, angles.len())?);
    let experiment = experiment(lab, &LENGTHS, HEADS.queries, &buffer, |builder, _| {
        builder.turn_text(&table, &buffer, HEADS, half)
    })?;
    let (wide_qkv, angles) = (wide(&qkv), wide(&angles));
    let mut expected = Vec::new();
    for (first, length) in texts() {
        for position in 0..length {
            for head in 0..heads {
                let at = ((first + position) * heads + head) * dim;
                let x = &wide_qkv[at..][..dim];
                let mut row = x.to_vec();
                let turns = head < HEADS.queries + HEADS.keys;
                for i in 0..if turns { half } else { 0 } {
                    let [cos, sin] = [0, 1].map(|of| angles[(position * half + i) * 2 + of]);
                    row[i] = x[i] * cos - x[i + half] * sin;
                    row[i + half] = x[i + half] * cos + x[i] * sin;
                }
                expected.extend(row.into_iter().map(|x| (x, BOUND)));
            }
        }
    }
    outcome(lab, &experiment, 0, dim)?.compare("rotary positions of texts", &expected)
}

/// Of heads of an odd width, of a common one, and of a wide one; of whole texts, of what is near, to where a tile ends and
/// beyond it, and of what is before; where each query has a key and where several share one.
pub(super) fn attention(lab: &Lab) -> Result<(), Failure> {
    for dim in [10, 64, 128] {
        attention_of(lab, dim, 3, (None, false))?;
    }
    for seen in [
        (Some(0), false),
        (Some(3), false),
        (Some(70), false),
        (None, true),
        (Some(6), true),
    ] {
        attention_of(lab, 10, 1, seen)?;
    }
    Ok(())
}

/// Scores, probabilities and values of every text; of a reproducible set the longest has the same bits alone.
fn attention_of(
    lab: &Lab,
    dim: usize,
    keys: usize,
    (reach, causal): (Option<usize>, bool),
) -> Result<(), Failure> {
    let mut numbers = Numbers(9);
    let queries = 3;
    let heads = TextHeads { queries, keys, dim };
    let qkv = numbers.take_full(ROWS * heads.all() * dim);
    let attended = |lengths: &[usize], qkv: &[f32]| -> Result<CaseRun, Failure> {
        let buffer = lab.padded(qkv, dim)?;
        let quads = lengths.iter().map(|length| length.div_ceil(4));
        let scores = lab.output(quads.map(|quads| quads * 4 * quads).sum::<usize>() * queries * 4);
        let rows: usize = lengths.iter().sum();
        let output = lab.output(rows * queries * dim.next_multiple_of(4));
        let experiment = experiment(lab, lengths, queries, &output, |builder, pass| {
            builder.text_attention(TextAttention {
                heads,
                reach,
                causal,
                tiles: &pass.tiles,
                qkv: &buffer,
                scores: &scores,
                attended: &output,
            })
        })?;
        outcome(lab, &experiment, 0, dim)
    };
    let whole = attended(&LENGTHS, &qkv)?;
    let alone = match lab.kernels.reproducible {
        true => Some(attended(
            &[LONGEST],
            &qkv[LONGEST_FIRST * heads.all() * dim..],
        )?),
        false => None,
    };
    let qkv = wide(&qkv);
    // Of queries, keys and values, for each query head.
    let at = |row: usize, kind: usize, head: usize| {
        let head = match kind {
            0 => head,
            _ => queries + (kind - 1) * keys + head / (queries / keys),
        };
        &qkv[(row * heads.all() + head) * dim..][..dim]
    };
    let mut expected = Vec::new();
    for (first, length) in texts() {
        for row in first..first + length {
            let reach = reach.unwrap_or(ROWS);
            let begin = row.saturating_sub(reach).max(first);
            let ahead = if causal { 0 } else { reach };
            let rows = begin..(row + ahead + 1).min(first + length);
            for head in 0..queries {
                let score = |key: usize| {
                    let products = at(key, 1, head).iter().zip(at(row, 0, head));
                    products.map(|(k, q)| k * q).sum::<f64>() / (dim as f64).sqrt()
                };
                let weights = softmax(&rows.clone().map(score).collect::<Vec<_>>());
                let mut sums = vec![0.0; dim];
                for (row, weight) in rows.clone().zip(weights) {
                    let value = at(row, 2, head);
                    sums.iter_mut()
                        .zip(value)
                        .for_each(|(sum, v)| *sum += weight * v);
                }
                expected.extend(sums.into_iter().map(|sum| (sum, BOUND)));
            }
        }
    }
    let which = if causal { "rows before" } else { "rows" };
    let case = match reach {
        None => format!("attention of texts to all {which}, heads of {dim}"),
        Some(reach) => format!("attention of texts to {which} {reach} away"),
    };
    whole.compare(&case, &expected)?;
    if let Some(alone) = alone {
        let case = format!("{case}, a text alone");
        alone.same_bits(&case, &whole, LONGEST_FIRST, queries * dim)?;
    }
    Ok(())
}

/// The mean of each text's rows, its first, and its last; of a reproducible set the longest has the same bits alone.
pub(super) fn pool(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(10);
    let width = 270;
    let stream = numbers.take_full(ROWS * width);
    for (case, pooling) in [
        ("means of texts", Pooling::Mean),
        ("first rows of texts", Pooling::First),
        ("last rows of texts", Pooling::Last),
    ] {
        let pooled = |lengths: &[usize], stream: &[f32]| -> Result<CaseRun, Failure> {
            let buffer = lab.padded(stream, width)?;
            let output = lab.output(lengths.len() * width.next_multiple_of(4));
            let experiment = experiment(lab, lengths, 1, &output, |builder, pass| {
                builder.pool(&pass.texts, [&buffer, &output], width, pooling)
            })?;
            outcome(lab, &experiment, 0, width)
        };
        let mut expected = Vec::new();
        for (first, length) in texts() {
            let rows = match pooling {
                Pooling::Mean => 0..length,
                Pooling::First => 0..1,
                Pooling::Last => length - 1..length,
            };
            for element in 0..width {
                let row = |row: usize| f64::from(stream[(first + row) * width + element]);
                let count = rows.len() as f64;
                expected.push((rows.clone().map(row).sum::<f64>() / count, BOUND));
            }
        }
        let whole = pooled(&LENGTHS, &stream)?;
        whole.compare(case, &expected)?;
        if lab.kernels.reproducible {
            let alone = pooled(&[LONGEST], &stream[LONGEST_FIRST * width..])?;
            let last = LENGTHS.len() - 1;
            alone.same_bits(&format!("{case}, a text alone"), &whole, last, width)?;
        }
    }
    Ok(())
}

/// Far from 0 too, where some drivers' tanh overflows.
pub(super) fn tanh(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(11);
    let width = 270;
    let inner = numbers.take(LENGTHS.len() * width);
    let inner: Vec<f32> = inner.iter().map(|x| x * x * x * 200.0).collect();
    let buffer = lab.padded(&inner, width)?;
    let experiment = experiment(lab, &LENGTHS, 1, &buffer, |builder, _| {
        builder.tanh(&buffer, width, Count::Samples)
    })?;
    let expected: Vec<_> = inner
        .iter()
        .map(|x| (f64::from(*x).tanh(), BOUND))
        .collect();
    outcome(lab, &experiment, 0, width)?.compare("tanh", &expected)
}

/// On both sides of 0.
pub(super) fn relu(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(13);
    let width = 270;
    let inner = numbers.take_full(LENGTHS.len() * width);
    let buffer = lab.padded(&inner, width)?;
    let experiment = experiment(lab, &LENGTHS, 1, &buffer, |builder, _| {
        builder.relu(&buffer, width, Count::Samples)
    })?;
    let expected: Vec<_> = inner
        .iter()
        .map(|x| (f64::from(x.max(0.0)), BOUND))
        .collect();
    outcome(lab, &experiment, 0, width)?.compare("relu", &expected)
}
