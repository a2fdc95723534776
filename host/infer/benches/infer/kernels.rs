//! Each kernel by itself, at one layer's shapes: 1 row (decode alone), 16 (a batch), 64 (a prefill chunk).
//!
//! A measured iteration is one submission of 8 dispatches, divided by 8.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use tidegate_infer::StepRow;
use tidegate_infer::decoder::LoadError;
use tidegate_infer::kernels::lab::{Experiment, HeadShape, Lab};
use tidegate_infer::weights::{Precision, Tensor};

use crate::models::{DEMO, SMALL, Shape, noise};

const DISPATCHES: usize = 8;
const POSITION: u32 = 200;

type Built = Result<Experiment, LoadError>;

pub(crate) fn benches(criterion: &mut Criterion) {
    let adapter = crate::adapter();
    for shape in [DEMO, SMALL] {
        let mut lab = match Lab::open(&adapter, adapter.kernel_family(), false, None) {
            Ok(lab) => lab,
            Err(error) => return eprintln!("{error}"),
        };
        for rows in [1, 16, 64] {
            for (kernel, build) in kernels(shape) {
                match build(&mut lab, rows) {
                    Ok(experiment) => measure(criterion, &lab, shape, kernel, rows, &experiment),
                    Err(error) => eprintln!("{kernel}: {error}"),
                }
            }
        }
    }
}

fn measure(
    criterion: &mut Criterion,
    lab: &Lab,
    shape: Shape,
    kernel: &str,
    rows: usize,
    experiment: &Experiment,
) {
    let mut group = criterion.benchmark_group(format!("{}/{kernel}", shape.name));
    group.bench_function(BenchmarkId::from_parameter(rows), |bencher| {
        bencher.iter_custom(|times| {
            let started = Instant::now();
            for _ in 0..times {
                if let Err(error) = lab.run(experiment, DISPATCHES) {
                    eprintln!("{kernel}: {error}");
                    return Duration::MAX;
                }
            }
            started.elapsed() / DISPATCHES as u32
        });
    });
    group.finish();
}

fn f16(bytes: &[u8], shape: &[usize]) -> Tensor<'static> {
    Tensor {
        name: "noise".to_owned(),
        precision: Precision::F16,
        shape: shape.to_vec(),
        bytes: bytes.to_vec().leak(),
    }
}

fn matrix(columns: usize, width: usize) -> Tensor<'static> {
    f16(&noise(columns * width), &[columns, width])
}

/// Decode rows of as many sequences, each at position 200.
fn step_rows(count: usize) -> Vec<StepRow> {
    (0..count as u32)
        .map(|slot| StepRow {
            slot,
            token: slot,
            position: POSITION,
            wants_logits: true,
        })
        .collect()
}

type Build = Box<dyn Fn(&mut Lab, usize) -> Built>;

fn kernels(shape: Shape) -> Vec<(&'static str, Build)> {
    let heads = move |rows| HeadShape {
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        dim: shape.head_dim,
        context: POSITION as usize + 1,
        slots: rows,
    };
    let hidden = shape.hidden;
    let query = shape.heads * shape.head_dim;
    let all_heads = shape.heads + 2 * shape.kv_heads;
    let input = |rows: usize, width: usize| vec![0.25f32; rows * width];
    vec![
        (
            "embed",
            Box::new(move |lab, rows| {
                lab.embed(matrix(shape.vocabulary, hidden), &step_rows(rows))
            }),
        ),
        (
            "rms_norm",
            Box::new(move |lab, rows| {
                lab.rms_norm(
                    matrix(1, hidden),
                    &input(rows, hidden),
                    1e-5,
                    &step_rows(rows),
                    false,
                )
            }),
        ),
        (
            "qkv",
            Box::new(move |lab, rows| {
                lab.matmul(
                    matrix(all_heads * shape.head_dim, hidden),
                    &input(rows, hidden),
                    None,
                    rows,
                )
            }),
        ),
        (
            "rope",
            Box::new(move |lab, rows| {
                let angles = vec![[0.6, 0.8]; (POSITION as usize + 1) * shape.head_dim / 2];
                lab.rope(
                    heads(rows),
                    &angles,
                    &input(rows, all_heads * shape.head_dim),
                    &step_rows(rows),
                )
            }),
        ),
        (
            "attention",
            Box::new(move |lab, rows| {
                let cache = input(
                    rows * (POSITION as usize + 1),
                    shape.kv_heads * shape.head_dim,
                );
                let qkv = input(rows, all_heads * shape.head_dim);
                lab.attention(heads(rows), &qkv, [&cache, &cache], &step_rows(rows))
            }),
        ),
        (
            "output",
            Box::new(move |lab, rows| {
                lab.matmul(
                    matrix(hidden, query),
                    &input(rows, query),
                    Some(&input(rows, hidden)),
                    rows,
                )
            }),
        ),
        (
            "swiglu",
            Box::new(move |lab, rows| {
                let (gate, up) = (
                    matrix(shape.intermediate, hidden),
                    matrix(shape.intermediate, hidden),
                );
                lab.swiglu(gate, up, &input(rows, hidden), rows)
            }),
        ),
        (
            "down",
            Box::new(move |lab, rows| {
                let input_rows = input(rows, shape.intermediate);
                lab.matmul(
                    matrix(hidden, shape.intermediate),
                    &input_rows,
                    Some(&input(rows, hidden)),
                    rows,
                )
            }),
        ),
        (
            "head",
            Box::new(move |lab, rows| {
                lab.matmul(
                    matrix(shape.vocabulary, hidden),
                    &input(rows, hidden),
                    None,
                    rows,
                )
            }),
        ),
    ]
}
