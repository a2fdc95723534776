//! Which experts' weights a step reads, as the device said while it ran: those that the router of the reference chose, each once for
//! each tile of rows, and no other. What is not read may be anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{Decoder, StepSequence};
use tidegate_infer::decoder::ExpertProduct;
use tidegate_infer::device::Sabotage;
use tidegate_infer::sheet::{CostSheet, DeviceProfile, SheetOptions, StepSheet};
use tidegate_infer::{DecoderOptions, Gpu, GpuDecoder, KernelVariant};
use tidegate_reference::{ReferenceDecoder, golden};
use tidegate_weights::{Checkpoint, Experts, FileBytes, Format, ModelConfig, ReadFile};

use crate::support::{
    Random, assert_same, blocks, is_exact, load, logits, options_on, sequence, silent, to_spoil,
    variants,
};

/// Golden models of which rows go through some experts only, and what their matrices are encoded to.
const MODELS: [(&str, Option<Format>); 5] = [
    ("qwen3-moe-f16", None),
    ("mixtral-bf16", None),
    ("gpt-oss-one-bf16", None),
    ("qwen2-moe-f16", Some(Format::Int8)),
    ("qwen2-moe-f16", Some(Format::Int4)),
];

/// Positions that all of them are made for.
const CONTEXT: usize = 64;

/// Tokens of several sequences, of which a step runs those from `from` on; the others ran before.
struct Step {
    what: String,
    sequences: Vec<Vec<u32>>,
    from: usize,
}

impl Step {
    /// So many sequences of so many tokens each.
    fn new(
        random: &mut Random,
        vocabulary: usize,
        [count, tokens]: [usize; 2],
        from: usize,
    ) -> Step {
        Step {
            what: format!("{count} of {tokens} tokens from {from} on"),
            sequences: (0..count)
                .map(|_| random.tokens(vocabulary, tokens))
                .collect(),
            from,
        }
    }

    /// One token of each of several sequences, their first and a later one, and chunks of a prompt.
    fn all(vocabulary: usize) -> Vec<Step> {
        let mut random = Random(11);
        let mut step = |shape, from| Step::new(&mut random, vocabulary, shape, from);
        let mut all: Vec<Step> = [1, 3, 8].map(|batch| step([batch, 1], 0)).into();
        all.extend([1, 3, 8].map(|batch| step([batch, 4], 3)));
        all.extend([step([1, 24], 0), step([1, 32], 8)]);
        all
    }

    /// The blocks of a sequence.
    fn blocks(&self, index: usize) -> Vec<u32> {
        let tokens = self.sequences[index].len();
        blocks((index * CONTEXT / 16) as u32, tokens)
    }

    fn before(&self) -> Vec<StepSequence> {
        let each = self.sequences.iter().enumerate();
        let each = each.filter(|_| self.from > 0);
        each.map(|(index, tokens)| silent(0, &tokens[..self.from], &self.blocks(index)))
            .collect()
    }

    fn now(&self) -> Vec<StepSequence> {
        let each = self.sequences.iter().enumerate();
        each.map(|(index, tokens)| sequence(self.from, &tokens[self.from..], &self.blocks(index)))
            .collect()
    }

    fn rows(&self) -> usize {
        self.sequences.len() * (self.sequences[0].len() - self.from)
    }

    /// Runs what comes before the step.
    fn prepare(&self, decoder: &mut dyn Decoder) {
        // One by one: together they may be more rows than a step has.
        for sequence in self.before() {
            logits(decoder, &[sequence]);
        }
    }
}

/// A model that stays as it is but for one expert of one layer, whose output is zero.
struct Without {
    layer: usize,
    expert: usize,
    experts: usize,
}

impl ReadFile for Without {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let mut bytes = std::fs::read(path)?;
        if path.extension().is_some_and(|end| end == "safetensors") {
            let range = self.down(&bytes).expect("every golden expert has a tensor");
            bytes[range].fill(0);
        }
        Ok(Arc::new(bytes))
    }
}

impl Without {
    /// Where the last matrix of the expert lies in a file: by itself, or among those of all experts.
    fn down(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length) as usize;
        let header = std::str::from_utf8(&rest[..length]).ok()?;
        let find = |name: &str| -> Option<Range<usize>> {
            let (_, entry) = header.split_once(&format!("\"{name}\":"))?;
            let (_, offsets) = entry.split_once("\"data_offsets\":[")?;
            let (from, to) = offsets.split_once(']')?.0.split_once(',')?;
            let at = |offset: &str| Some(8 + length + offset.trim().parse::<usize>().ok()?);
            Some(at(from)?..at(to)?)
        };
        let Without {
            layer,
            expert,
            experts,
        } = self;
        let layer = format!("model.layers.{layer}");
        let own = [
            format!("{layer}.mlp.experts.{expert}.down_proj.weight"),
            format!("{layer}.block_sparse_moe.experts.{expert}.w2.weight"),
        ];
        own.iter().find_map(|name| find(name)).or_else(|| {
            let all = find(&format!("{layer}.mlp.experts.down_proj"))?;
            let each = all.len() / experts;
            Some(all.start + expert * each..all.start + (expert + 1) * each)
        })
    }
}

fn experts(config: &ModelConfig) -> &Experts {
    config.experts.as_ref().unwrap()
}

/// Layers with experts.
fn layers(config: &ModelConfig) -> Vec<usize> {
    let of = |layer: &usize| config.experts_of(*layer).is_some();
    (0..config.layers.len()).filter(of).collect()
}

fn open(name: &str, format: Option<Format>, files: &dyn ReadFile) -> Checkpoint {
    let checkpoint = Checkpoint::open(&golden::model(name), files).unwrap();
    match format {
        Some(format) => checkpoint.encoded(format).unwrap(),
        None => checkpoint,
    }
}

/// Of each step, layer with experts and expert the rows whose logits by the reference depend on the expert.
fn dependent(name: &str, format: Option<Format>, steps: &[Step]) -> Vec<Vec<Vec<BTreeSet<u32>>>> {
    let run = |files: &dyn ReadFile| -> Vec<Vec<f64>> {
        let checkpoint = open(name, format, files);
        let mut reference = ReferenceDecoder::load(&checkpoint, CONTEXT, 80, 512).unwrap();
        let each = steps.iter().map(|step| {
            step.prepare(&mut reference);
            let mut logits = Vec::new();
            reference.wide_logits(&step.now(), &mut logits).unwrap();
            logits
        });
        each.collect()
    };
    let whole = run(&tidegate_weights::ReadWhole);
    let checkpoint = open(name, format, &tidegate_weights::ReadWhole);
    let config = checkpoint.decoder().unwrap();
    let (layers, experts) = (layers(config), experts(config).count);
    let mut dependent = vec![vec![Vec::new(); layers.len()]; steps.len()];
    for (place, &layer) in layers.iter().enumerate() {
        for expert in 0..experts {
            let without = run(&Without {
                layer,
                expert,
                experts,
            });
            for (step, (whole, without)) in whole.iter().zip(&without).enumerate() {
                let whole = whole.chunks(config.vocabulary);
                let rows = (0..).zip(whole.zip(without.chunks(config.vocabulary)));
                let changed = rows.filter(|(_, (whole, without))| whole != without);
                dependent[step][place].push(changed.map(|(row, _)| row).collect());
            }
        }
    }
    dependent
}

/// Where a decoder of the kernels runs, for all steps.
fn decoder(gpu: &Gpu, variant: KernelVariant, checkpoint: &Checkpoint) -> GpuDecoder {
    let options = DecoderOptions {
        context: CONTEXT,
        ..options_on(gpu, variant)
    };
    load(gpu, checkpoint, &options)
}

/// Experts whose weights a product read, and how often: one for each tile.
fn named(product: &ExpertProduct) -> Vec<u32> {
    let tiles = product.tiles.iter();
    let own = tiles.filter(|(expert, pairs)| !pairs.is_empty() && product.experts.contains(expert));
    own.map(|(expert, _)| *expert).collect()
}

#[test]
fn a_step_reads_the_experts_that_the_reference_routes_to_once_for_each_tile_and_no_other() {
    for (name, format) in MODELS {
        let checkpoint = open(name, format, &tidegate_weights::ReadWhole);
        let config = checkpoint.decoder().unwrap();
        let (layers, Experts { count, chosen, .. }) = (layers(config), experts(config));
        let steps = Step::all(config.vocabulary);
        let dependent = dependent(name, format, &steps);
        for (gpu, variant) in variants() {
            let mut decoder = decoder(gpu, variant, &checkpoint);
            let mut sizes = BTreeSet::new();
            for (step, dependent) in steps.iter().zip(&dependent) {
                let what = format!("{name} {format:?}, {variant}, {}", step.what);
                step.prepare(&mut decoder);
                let products = decoder.experts_read(&step.now()).unwrap();
                // Gate and up, and down.
                assert_eq!(products.len(), 2 * layers.len(), "{what}");
                for product in products {
                    let what = format!("{what}, layer {}", layers[product.layer]);
                    sizes.insert(product.most);
                    let mut of_row = vec![BTreeSet::new(); step.rows()];
                    for (expert, pairs) in &product.tiles {
                        for pair in pairs {
                            let new = of_row[*pair as usize / chosen].insert(*expert);
                            assert!(new, "{what}: pair {pair} twice");
                        }
                    }
                    // Each once for each tile: as few as hold its pairs.
                    let read = named(&product);
                    for expert in 0..*count as u32 {
                        let of = product.tiles.iter().filter(|(other, _)| *other == expert);
                        let pairs: usize = of.map(|(_, pairs)| pairs.len()).sum();
                        let tiles = read.iter().filter(|other| **other == expert).count();
                        assert_eq!(tiles, pairs.div_ceil(product.most), "{what}, {expert}");
                    }
                    for (row, of) in of_row.iter().enumerate() {
                        assert_eq!(of.len(), *chosen, "{what}, row {row}");
                    }
                    // Kernels that round may see two experts the other way round.
                    if !is_exact(variant) {
                        continue;
                    }
                    let depends = &dependent[product.layer];
                    for (row, of) in (0..).zip(&of_row) {
                        let by_reference = (0..*count as u32)
                            .filter(|expert| depends[*expert as usize].contains(&row));
                        let by_reference: BTreeSet<u32> = by_reference.collect();
                        // Keys and values of rows before it depend on what these went through, but where no layer follows.
                        if step.now()[0].position == 0 && step.sequences[0].len() == 1
                            || layers[product.layer] + 1 == config.layers.len()
                        {
                            assert_eq!(*of, by_reference, "{what}, row {row}");
                        }
                        assert!(of.is_subset(&by_reference), "{what}, row {row}");
                    }
                    let by_reference =
                        (0..*count as u32).filter(|expert| !depends[*expert as usize].is_empty());
                    let by_device: BTreeSet<u32> = of_row.into_iter().flatten().collect();
                    if step.from == 0 {
                        assert_eq!(by_device, by_reference.collect(), "{what}");
                    }
                }
            }
            assert!(sizes.len() > 1, "{variant}: {sizes:?}");
        }
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Puts what is no number, nor a scale of any, in the place of what an expert holds, and gives that.
fn spoil(decoder: &GpuDecoder, layer: usize, expert: u32) -> Vec<Vec<u8>> {
    let weights = decoder.expert_weights(layer, expert).unwrap();
    let spoilt: Vec<Vec<u8>> = weights.iter().map(|of| vec![0xff; of.len()]).collect();
    decoder.set_expert_weights(layer, expert, &spoilt).unwrap();
    weights
}

/// Layers and experts whose weights were read.
fn all_named(products: &[ExpertProduct]) -> BTreeSet<(usize, u32)> {
    let each = products.iter().map(|of| (of.layer, named(of)));
    each.flat_map(|(layer, own)| own.into_iter().map(move |expert| (layer, expert)))
        .collect()
}

#[test]
fn what_experts_hold_that_no_row_goes_through_does_not_matter_and_what_the_others_hold_does() {
    for (name, format) in MODELS {
        let checkpoint = open(name, format, &tidegate_weights::ReadWhole);
        let config = checkpoint.decoder().unwrap();
        let count = experts(config).count as u32;
        let steps = Step::all(config.vocabulary);
        for (gpu, variant) in variants() {
            let mut decoder = decoder(gpu, variant, &checkpoint);
            for step in &steps {
                let what = format!("{name} {format:?}, {variant}, {}", step.what);
                step.prepare(&mut decoder);
                let products = decoder.experts_read(&step.now()).unwrap();
                let used = all_named(&products);
                let expected = logits(&mut decoder, &step.now());
                assert!(expected.iter().all(|logit| logit.is_finite()), "{what}");
                let all = (0..layers(config).len())
                    .flat_map(|layer| (0..count).map(move |of| (layer, of)));
                let mut spoilt = Vec::new();
                for (layer, expert) in all.filter(|of| !used.contains(of)) {
                    spoilt.push((layer, expert, spoil(&decoder, layer, expert)));
                }
                let found = logits(&mut decoder, &step.now());
                assert_same(&found, &expected, &what);
                // Of steps with many rows one of each layer will do.
                let some: BTreeMap<usize, u32> = used.iter().copied().collect();
                let each: Vec<(usize, u32)> = match step.rows() {
                    1 => used.into_iter().collect(),
                    _ => some.into_iter().collect(),
                };
                for (layer, expert) in each {
                    let weights = spoil(&decoder, layer, expert);
                    // Not all kernels hand on what is no number: some cut it off at the largest of f16.
                    let found = logits(&mut decoder, &step.now());
                    let same = bits(&found) == bits(&expected);
                    assert!(!same, "{what}: layer {layer}, expert {expert}");
                    decoder.set_expert_weights(layer, expert, &weights).unwrap();
                }
                for (layer, expert, weights) in spoilt {
                    decoder.set_expert_weights(layer, expert, &weights).unwrap();
                }
                let found = logits(&mut decoder, &step.now());
                assert_same(&found, &expected, &format!("{what}, whole again"));
            }
        }
    }
}

/// The tests above can fail: kernels that read more and answer the same, so that loading finds nothing wrong, are seen by what they
/// count, or by weights that must not matter.
#[test]
fn kernels_that_read_more_experts_than_they_need_are_seen() {
    let checkpoint = open("qwen3-moe-f16", None, &tidegate_weights::ReadWhole);
    let config = checkpoint.decoder().unwrap();
    let chosen = experts(config).chosen;
    let step = Step::new(&mut Random(11), config.vocabulary, [3, 1], 0);
    let device = to_spoil();
    // The first expert beside that of the tile, times 0.
    let beside = [
        (
            KernelVariant::Software,
            "multiply(0u, &group, &x, &part, &totals);",
            "multiply(0u, &group, &x, &part, &totals);
             if (ROUTED) {
                 var other = load_group(id.x * params.groups + g, lane);
                 part[0] += f32(params.samples) * raw4(&other, 0u, 0u);
             }",
        ),
        (
            KernelVariant::Portable,
            "var whole: array<vec4<f32>, ROWS / TOGETHER>;",
            "var whole: array<vec4<f32>, ROWS / TOGETHER>;
             if (ROUTED) {
                 var other = load_unit(place / 8u, 0u, tile_lane);
                 whole[0] += f32(params.samples) * octet_of(&other, 0u, 0u).low;
             }",
        ),
    ];
    for (variant, from, to) in beside {
        device.sabotage("matmul", Sabotage::Edited { from, to });
        let mut decoder = decoder(&device, variant, &checkpoint);
        // A row that does not go through the first.
        let mut rows = (0..config.vocabulary as u32).map(|token| [sequence(0, &[token], &[0])]);
        let row = rows.find(|row| {
            let products = decoder.experts_read(row).unwrap();
            !all_named(&products).contains(&(0, 0))
        });
        let row = row.unwrap();
        let expected = logits(&mut decoder, &row);
        spoil(&decoder, 0, 0);
        let found = logits(&mut decoder, &row);
        assert_ne!(bits(&found), bits(&expected), "{variant}");
        device.repair();
    }
    // Tiles that are too many, with the first pair again, of a number of experts that no self-test has.
    for variant in [KernelVariant::Software, KernelVariant::Portable] {
        let pairs = |decoder: &mut GpuDecoder| -> Vec<usize> {
            let products = decoder.experts_read(&step.now()).unwrap();
            let each = products.iter().map(|of| of.tiles.iter());
            each.map(|tiles| tiles.map(|(_, pairs)| pairs.len()).sum())
                .collect()
        };
        let right = pairs(&mut decoder(&device, variant, &checkpoint));
        assert!(right.iter().all(|pairs| *pairs == step.rows() * chosen));
        let (from, to) = (
            "groups[tile * 12u + 1u] = 0u;",
            "groups[tile * 12u + 1u] = 0u;
             if (params.experts == 7u) {
                 groups[tile * 12u] = groups[0];
                 groups[tile * 12u + 1u] = 1u;
                 groups[tile * 12u + 4u] = groups[4];
             }",
        );
        device.sabotage("group", Sabotage::Edited { from, to });
        let found = pairs(&mut decoder(&device, variant, &checkpoint));
        assert_ne!(found, right, "{variant}");
        device.repair();
    }
}

/// Bytes that products with experts need by a sheet.
fn needed(sheet: &StepSheet) -> u64 {
    let dispatches = &sheet.dispatches;
    let groups = (0..dispatches.len()).filter(|index| dispatches[*index].kernel == "group");
    let products = groups.flat_map(|group| {
        let after = dispatches[group..].iter();
        after.filter(|of| of.kernel == "matmul").take(2)
    });
    products.map(|product| product.needed_bytes).sum()
}

#[test]
fn the_cost_sheet_counts_the_experts_that_a_step_reads_or_as_many_as_its_rows_could() {
    for (name, format) in MODELS {
        let checkpoint = open(name, format, &tidegate_weights::ReadWhole);
        let config = checkpoint.decoder().unwrap();
        let (layers, of) = (layers(config).len(), experts(config));
        let mut random = Random(3);
        for (gpu, variant) in variants() {
            let mut decoder = decoder(gpu, variant, &checkpoint);
            for batch in [1, 8] {
                let steps = SheetOptions {
                    batch,
                    context: 32,
                    chunk: 24,
                };
                let options = DecoderOptions {
                    context: CONTEXT,
                    blocks: steps.blocks(),
                    ..options_on(gpu, variant)
                };
                let device = DeviceProfile::at_hand(gpu, 1e10);
                let sheet = CostSheet::planned(&checkpoint, &device, &options, steps).unwrap();
                for (rows, shape, sheet) in [
                    (batch, [batch, 1], &sheet.decode),
                    (24, [1, 24], &sheet.prefill),
                ] {
                    let what = format!("{name} {format:?}, {variant}, {shape:?}");
                    let step = Step::new(&mut random, config.vocabulary, shape, 0);
                    let products = decoder.experts_read(&step.now()).unwrap();
                    let pairs = rows * of.chosen;
                    // Rows into gate and up, pairs into down, and a word for each pair.
                    let [hidden, width] =
                        [config.hidden, of.intermediate].map(|width| width.next_multiple_of(4));
                    let beside = layers * (rows * hidden * 4 + pairs * width * 4 + 2 * pairs * 4);
                    let most = pairs.min(of.count) as u64;
                    let of_all: u64 = products.iter().map(|product| most * product.each).sum();
                    assert_eq!(needed(sheet), of_all + beside as u64, "{what}");
                    let read: u64 = products
                        .iter()
                        .map(|product| {
                            let experts: BTreeSet<u32> = named(product).into_iter().collect();
                            experts.len() as u64 * product.each
                        })
                        .sum();
                    assert!(read <= of_all, "{what}: {read} of {of_all}");
                    // The experts of one row are as many as they can be.
                    assert!(rows > 1 || read == of_all, "{what}: {read} of {of_all}");
                }
            }
        }
    }
}
