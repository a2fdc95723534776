//! What a layer with experts runs: the choice, pairs by expert, products with experts, and sums of their outputs.

use super::products::{COLUMNS, Near, Weights, activated, bound, sums_of};
use super::{CaseRun, Failure, Numbers, outcome};
use crate::buffer::Buffer;
use crate::kernels::lab::{Lab, sequence};
use crate::kernels::{CombinedWith, NormStore, Routing, StorageFormat, Store};
use crate::load_error::LoadError;
use crate::matrix::{ExpertInput, ExpertPacking};
use tidegate_weights::ClampedGate;

/// Of weights, and of sums of a few numbers below 1.
const BOUND: f64 = 1e-5;

/// Rows of steps, so that tiles of every size are used: of one pair, of four and of eight.
const ROWS: [usize; 3] = [1, 9, 33];

fn of(experts: u32, chosen: u32, normalized: bool, shared: bool) -> Routing {
    Routing {
        experts,
        chosen,
        normalized,
        shared,
    }
}

/// One expert, all of several, and some of more than a workgroup has lanes.
pub(super) fn routing(lab: &Lab) -> Result<(), Failure> {
    for routing in [
        of(1, 1, true, false),
        of(5, 2, true, true),
        of(6, 6, false, false),
        of(130, 7, false, true),
    ] {
        for rows in ROWS {
            routed(lab, routing, rows)?;
        }
    }
    Ok(())
}

fn routed(lab: &Lab, routing: Routing, rows: usize) -> Result<(), Failure> {
    let mut numbers = Numbers(8);
    let (experts, chosen) = (routing.experts as usize, routing.chosen as usize);
    let stride = (experts + 1).next_multiple_of(4);
    // Multiples of 1/64: some are equal.
    let logits = numbers.take(rows * stride);
    let slots = routing.slots() as usize;
    let routes = lab.output(rows * slots * 2);
    // What an earlier step has left.
    let groups = lab.buffer(&vec![u32::MAX; routing.group_words(rows)])?;
    let logits_buffer = lab.buffer(bytemuck::cast_slice(&logits))?;
    let outputs = vec![routes.clone(), groups.clone()];
    let experiment = lab.experiment(&[sequence(0, rows, &[0; 4])], outputs, |builder, _| {
        builder.route(routing, [&logits_buffer, &routes], stride)?;
        builder.group(routing, [&routes, &groups], rows)
    })?;
    let kernel = outcome(lab, &experiment, 0, 2 * slots)?.kernel;
    let words = lab.words_of(&experiment, 0)?;
    let found = words.chunks(2).take(rows * slots).flat_map(|of| {
        // Small whole numbers are exact.
        [of[0] as f32, f32::from_bits(of[1])]
    });
    let found = CaseRun {
        kernel: kernel.clone(),
        found: found.collect(),
    };
    let mut expected = Vec::new();
    let mut chosen_by = Vec::new();
    for row in logits.chunks(stride) {
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        let share = |expert: &usize| f64::from(row[*expert]).exp();
        let picked = &order[..chosen];
        let total: f64 = match routing.normalized {
            true => picked.iter().map(share).sum(),
            false => order.iter().map(share).sum(),
        };
        for expert in picked {
            expected.push((*expert as f64, 0.0));
            expected.push((share(expert) / total, BOUND));
            chosen_by.push(*expert);
        }
        if routing.shared {
            expected.push((experts as f64, 0.0));
            expected.push((1.0 / (1.0 + (-f64::from(row[experts])).exp()), BOUND));
        }
    }
    let case = format!("{chosen} of {experts} experts for {rows} rows");
    found.compare(&case, &expected)?;

    // Each pair is once in a tile of its expert, and tiles that there are not have none.
    let tiles = routing.tiles(lab.kernels);
    let tile = tiles.iter().find(|(most, _)| rows <= *most as usize);
    let tile = tile.map_or(1, |(_, rows)| *rows as usize);
    let pairs = rows * chosen;
    let most = pairs.min(experts) + (pairs - pairs.min(experts)) / tile;
    let words = lab.words_of(&experiment, 1)?;
    let mut times = vec![0.0_f32; pairs];
    let mut experts_of = vec![-1.0_f32; pairs];
    for of in words.chunks(12).take(most) {
        let count = (of[1] as usize).min(8);
        for pair in of[4..].iter().take(count) {
            if let Some(times) = times.get_mut(*pair as usize) {
                *times += 1.0;
                experts_of[*pair as usize] = of[0] as f32;
            }
        }
        if of[1] as usize > tile {
            times.clear();
        }
    }
    let once = CaseRun {
        kernel: kernel.clone(),
        found: times,
    };
    once.compare(&format!("{case}, pairs in tiles"), &vec![(1.0, 0.0); pairs])?;
    let experts_of = CaseRun {
        kernel,
        found: experts_of,
    };
    let expected: Vec<Near> = chosen_by
        .iter()
        .map(|expert| (*expert as f64, 0.0))
        .collect();
    experts_of.compare(&format!("{case}, experts of tiles"), &expected)
}

/// Products of pairs with experts that lie in several shards, by tiles of every size. A pair has the same bits in each.
pub(super) fn products(lab: &Lab, stored: StorageFormat, store: Store) -> Result<(), Failure> {
    for width in bound(&lab.gpu, stored) {
        products_of_width(lab, (stored, width), store)?;
    }
    Ok(())
}

fn products_of_width(
    lab: &Lab,
    (stored, width): (StorageFormat, usize),
    store: Store,
) -> Result<(), Failure> {
    let mut numbers = Numbers(9);
    // Inputs are not rounded, whatever the set rounds elsewhere.
    let share = stored.description().tolerance;
    let gated = matches!(store, Store::Gated(_));
    let routing = of(5, 2, true, false);
    let (experts, chosen) = (5, 2);
    let mut weights = || Weights::new(&mut numbers, stored, COLUMNS, width);
    let of_each: Vec<[Weights; 2]> = (0..experts)
        .map(|_| Ok([weights()?, weights()?]))
        .collect::<Result<_, Failure>>()?;
    let tensors = of_each.iter().map(|[gate, up]| match gated {
        true => Ok(vec![gate.tensor()?, up.tensor()?]),
        false => Ok(vec![gate.tensor()?]),
    });
    let tensors = tensors.collect::<Result<Vec<_>, LoadError>>()?;
    let matrix = lab.pack_experts(ExpertPacking::new(tensors), 2)?;
    let most = ROWS[ROWS.len() - 1];
    // What an expert's output is made of has a row of its own for each pair.
    let each = if gated { 1 } else { chosen };
    let input = numbers.take_full(most * each * width);
    let sums: Vec<[Vec<Near>; 2]> = of_each
        .iter()
        .map(|both| both.each_ref().map(|of| sums_of(of, &input, share, None)))
        .collect();
    // Some experts have many rows, and one has none.
    let choices: Vec<usize> = (0..most * chosen).map(|pair| pair * pair % 7 % 4).collect();
    let mut fewer: Option<CaseRun> = None;
    for rows in ROWS {
        let routes: Vec<u32> = choices[..rows * chosen]
            .iter()
            .flat_map(|expert| [*expert as u32, 0])
            .collect();
        let routes = lab.buffer(&routes)?;
        let groups = lab.output(routing.group_words(rows));
        let padded: Buffer = lab.padded(&input[..rows * each * width], width)?;
        let output = lab.output(rows * chosen * COLUMNS.next_multiple_of(4));
        let step = [sequence(0, rows, &[0; 4])];
        let experiment = lab.experiment(&step, vec![output.clone()], |builder, _| {
            builder.group(routing, [&routes, &groups], rows)?;
            let input = ExpertInput {
                rows: &padded,
                each: !gated,
                groups: &groups,
            };
            builder.matmul_experts(&matrix, routing, input, (&output, store))
        })?;
        let case = format!("{stored:?} experts, width {width}, {store:?}, {rows} rows");
        let mut expected = Vec::new();
        for (pair, expert) in choices[..rows * chosen].iter().enumerate() {
            let row = if gated { pair / chosen } else { pair };
            for column in 0..COLUMNS {
                let [gate, up] = sums[*expert]
                    .each_ref()
                    .map(|of| of[row * COLUMNS + column]);
                expected.push(match store {
                    Store::Gated(activation) => {
                        let gate = activated(activation, gate);
                        let bound = gate.1 * (up.0.abs() + up.1) + gate.0.abs() * up.1;
                        (gate.0 * up.0, bound + 1e-6)
                    }
                    _ => gate,
                });
            }
        }
        let outcome = outcome(lab, &experiment, 0, COLUMNS)?;
        outcome.compare(&case, &expected)?;
        if let Some(fewer) = fewer.filter(|_| lab.kernels.reproducible) {
            fewer.same_bits(&case, &outcome, 0, COLUMNS)?;
        }
        fewer = Some(outcome);
    }
    Ok(())
}

/// Between gate and up of experts and down: some within the limit, some beyond it.
pub(super) fn activate(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(11);
    let (rows, chosen, experts, width) = (3, 4, 9, 272);
    let routing = of(experts as u32, chosen as u32, true, false);
    let clamped = ClampedGate {
        slope: 1.702,
        limit: 0.75,
    };
    let routes: Vec<u32> = (0..rows * chosen)
        .flat_map(|pair| [(pair * 5 % experts) as u32, 0])
        .collect();
    let input = numbers.take(rows * chosen * 2 * width);
    let biases = numbers.take(experts * 2 * width);
    let routes_buffer = lab.buffer(&routes)?;
    let input_buffer = lab.padded(&input, 2 * width)?;
    let biases_buffer = lab.padded(&biases, 2 * width)?;
    let output = lab.output(rows * chosen * width);
    let step = [sequence(0, rows, &[0])];
    let experiment = lab.experiment(&step, vec![output.clone()], |builder, _| {
        let buffers = [&routes_buffer, &input_buffer, &output];
        builder.activate(routing, buffers, &biases_buffer, width, clamped)
    })?;
    let mut expected = Vec::new();
    for (pair, route) in routes.chunks(2).enumerate() {
        for column in 0..width {
            let [gate, up] = [0, 1].map(|which| {
                let x = input[(pair * width + column) * 2 + which];
                let bias = biases[(route[0] as usize * width + column) * 2 + which];
                f64::from(x) + f64::from(bias)
            });
            let gate = gate.min(clamped.limit);
            let up = up.clamp(-clamped.limit, clamped.limit);
            let active = (up + 1.0) * gate / (1.0 + (-clamped.slope * gate).exp());
            expected.push((active, BOUND));
        }
    }
    outcome(lab, &experiment, 0, width)?.compare("gates of experts", &expected)
}

/// Outputs of experts, with what there is beside them.
pub(super) fn combine(lab: &Lab, store: NormStore, with: CombinedWith) -> Result<(), Failure> {
    let mut numbers = Numbers(10);
    let (rows, chosen, width) = (3, 4, 272);
    let shared = with == CombinedWith::Shared;
    let routing = of(9, chosen as u32, true, shared);
    let slots = routing.slots() as usize;
    let weights = numbers.take(rows * slots);
    let expert = |slot: usize| (slot * 5 % 9) as u32;
    let routes: Vec<u32> = weights
        .iter()
        .enumerate()
        .flat_map(|(slot, weight)| [expert(slot), weight.to_bits()])
        .collect();
    let biases = numbers.take(9 * width);
    let outputs = numbers.take(rows * chosen * width);
    let [of_shared, before] = [(); 2].map(|()| numbers.take(rows * width));
    let routes = lab.buffer(&routes)?;
    let outputs_buffer = lab.padded(&outputs, width)?;
    let beside_buffer = match with {
        CombinedWith::Biases => lab.padded(&biases, width)?,
        CombinedWith::Shared | CombinedWith::Nothing => lab.padded(&of_shared, width)?,
    };
    let output = lab.padded(&before, width)?;
    let step = [sequence(0, rows, &[0])];
    let experiment = lab.experiment(&step, vec![output.clone()], |builder, _| {
        let buffers = [&routes, &outputs_buffer, &output];
        let beside = (with != CombinedWith::Nothing).then_some((with, &beside_buffer));
        builder.combine(routing, buffers, beside, width, store)
    })?;
    let mut expected = Vec::new();
    for row in 0..rows {
        for column in 0..width {
            let mut sum = match store {
                NormStore::Add => f64::from(before[row * width + column]),
                NormStore::Plain => 0.0,
            };
            for slot in 0..chosen {
                let at = row * slots + slot;
                let x = outputs[(row * chosen + slot) * width + column];
                let bias = match with {
                    CombinedWith::Biases => biases[expert(at) as usize * width + column],
                    CombinedWith::Shared | CombinedWith::Nothing => 0.0,
                };
                sum += f64::from(weights[at]) * (f64::from(x) + f64::from(bias));
            }
            if shared {
                let weight = weights[row * slots + chosen];
                sum += f64::from(weight) * f64::from(of_shared[row * width + column]);
            }
            expected.push((sum, BOUND));
        }
    }
    outcome(lab, &experiment, 0, width)?.compare("sums of experts", &expected)
}
