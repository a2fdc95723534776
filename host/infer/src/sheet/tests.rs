use super::profile::like;
use super::*;
use crate::device::{Adapter, DeviceOptions, Gpu};
use crate::kernels::KernelVariant;
use tidegate_weights::{Experts, Format, ModelConfig};

/// A model of so many layers in int8.
fn model(size: &str, layers: usize) -> Checkpoint {
    let mut config = ModelConfig::preset(size).unwrap();
    config.layers.truncate(layers);
    Checkpoint::random(config, Format::Int8, 1)
}

fn h100() -> DeviceProfile {
    DeviceProfile::named("h100").unwrap()
}

fn sheet(checkpoint: &Checkpoint, device: &DeviceProfile, steps: SheetOptions) -> CostSheet {
    let options = steps.decoder();
    CostSheet::planned(checkpoint, device, &options, steps).unwrap()
}

fn steps(batch: usize, context: usize) -> SheetOptions {
    SheetOptions {
        batch,
        context,
        chunk: 48,
    }
}

/// A device that runs the kernels of software adapters.
fn software() -> DeviceProfile {
    DeviceProfile {
        software: true,
        multiprocessors: 2,
        lanes: 8,
        name: "a CPU".to_owned(),
        cache: 32 << 20,
        ..h100()
    }
}

fn devices() -> Vec<DeviceProfile> {
    let named = PROFILES
        .iter()
        .filter_map(|name| DeviceProfile::named(name));
    named.chain([software()]).collect()
}

fn both(sheet: CostSheet) -> [StepSheet; 2] {
    [sheet.decode, sheet.prefill]
}

#[test]
fn what_fits_a_cache_never_comes_from_memory_again_and_what_does_not_comes_once_at_least() {
    let checkpoint = model("125M", 3);
    for device in devices() {
        let of_cache = |cache| {
            let device = DeviceProfile {
                cache,
                ..device.clone()
            };
            both(sheet(&checkpoint, &device, steps(5, 300)))
        };
        let sheets = [1 << 40, 32 << 20, 4 << 20, 256 << 10, 1].map(of_cache);
        for index in 0..2 {
            let mut before = 0;
            for sheet in &sheets {
                let step = &sheet[index];
                assert!(step.read_bytes >= before, "{}", device.name);
                before = step.read_bytes;
                for dispatch in &step.dispatches {
                    let (kernel, needed) = (dispatch.kernel, dispatch.needed_bytes);
                    assert!(dispatch.asked_bytes >= needed, "{kernel}");
                    // Nobody asks for a piece more than once for each workgroup's part of it.
                    // Rows of a tile are parts of their own.
                    let rows = if kernel == "attention_tile" { 32 } else { 1 };
                    let parts = 8 * rows * product(dispatch.workgroups);
                    let most = 2 * dispatch.asked_bytes + 4096 * parts;
                    assert!(dispatch.read_bytes <= most, "{kernel}");
                }
            }
            let [all, some] = [&sheets[0][index], &sheets[1][index]];
            assert_eq!(
                (all.read_bytes, all.written_bytes),
                (0, 0),
                "{}",
                device.name
            );
            let share = some.read_share();
            assert!((0.5..1.1).contains(&share), "{share} {}", device.name);
        }
    }
}

#[test]
fn keys_and_values_that_were_just_written_are_still_there() {
    let checkpoint = model("125M", 2);
    let steps = SheetOptions {
        batch: 1,
        context: 256,
        chunk: 256,
    };
    for device in devices() {
        let step = sheet(&checkpoint, &device, steps).prefill;
        let attention = step.dispatches.iter();
        let attention = attention.filter(|of| of.kernel.starts_with("attention"));
        let read: Vec<u64> = attention.map(|of| of.read_bytes).collect();
        assert!(
            !read.is_empty() && read.iter().all(|read| *read == 0),
            "{read:?}"
        );
    }
}

#[test]
fn attention_asks_for_each_key_and_value_once_for_each_row_at_most() {
    let checkpoint = model("125M", 1);
    // 12 heads of 64 in f16, keys and values.
    let position = 2 * 12 * 64 * 2;
    for device in devices() {
        let step = sheet(&checkpoint, &device, steps(3, 200)).decode;
        let attention = step.dispatches.iter();
        let attention = attention.filter(|of| of.kernel.starts_with("attention"));
        let asked: u64 = attention.map(|of| of.asked_bytes).sum();
        let rows = 3 * 200 * position;
        // Queries, scores and parts are little beside them.
        assert!(
            (rows..rows * 5 / 4).contains(&asked),
            "{} {asked} {rows}",
            device.name
        );
    }
}

/// Of a prompt's chunk that is cut into full tiles: 32 queries, of four heads each.
#[test]
fn rows_of_a_prompt_ask_for_keys_and_values_once_for_a_tile() {
    let checkpoint = model("8B", 1);
    let steps = SheetOptions {
        batch: 1,
        context: 1024,
        chunk: 256,
    };
    let step = sheet(&checkpoint, &h100(), steps).prefill;
    let attention = step.dispatches.iter();
    let attention: Vec<_> = attention
        .filter(|of| of.kernel.starts_with("attention"))
        .collect();
    let [tiles] = attention.as_slice() else {
        panic!("{attention:?}");
    };
    assert_eq!(tiles.kernel, "attention_tile");
    // Four parts, eight key heads, 32 tiles of eight rows.
    assert_eq!(tiles.workgroups, [4, 8, 32]);
    assert!(tiles.workgroup_memory <= 16_384 && tiles.bank_conflicts <= 2);
    // 8 heads of 128 in f16, keys and values: the last row of each tile sees all that is read for it.
    let position: u64 = 2 * 8 * 128 * 2;
    let seen: u64 = (0..32).map(|tile| 768 + 8 * (tile + 1)).sum();
    let read = seen * position;
    // Queries once for each part, and parts that are merged, beside them.
    let cells = 256 * 32 * 132 * 4;
    let most = read + 2 * 4 * cells + cells;
    assert!(
        (read..most).contains(&tiles.asked_bytes),
        "{} of {read} to {most}",
        tiles.asked_bytes
    );
    assert!(tiles.needed_bytes < tiles.asked_bytes);
}

#[test]
fn a_pass_that_does_not_fit_its_scratch_is_counted_as_the_passes_it_is_cut_into() {
    let checkpoint = model("1B", 2);
    let steps = SheetOptions {
        batch: 1,
        context: 131_072,
        chunk: 512,
    };
    let step = sheet(&checkpoint, &h100(), steps).prefill;
    assert_eq!(step.rows, 512);
    assert!(step.passes > 1);
    // Each pass reads the weights of layers again, and of the head the last one.
    let weights = step
        .dispatches
        .iter()
        .filter(|of| of.kernel == "matmul")
        .count();
    assert_eq!(weights, step.passes * 2 * 4 + 1);
}

#[test]
fn layers_that_are_not_looked_at_are_as_if_they_were() {
    let checkpoint = model("125M", 6);
    for device in devices() {
        // Activations of 700 rows do not fit beside weights: what a dispatch finds depends on the one before it.
        for (cache, steps) in [(4 << 20, steps(4, 100)), (6 << 20, steps(1, 700))] {
            let device = DeviceProfile {
                cache,
                ..device.clone()
            };
            let options = DecoderOptions {
                context: steps.context,
                blocks: steps.blocks(),
                max_rows: steps.context,
                ..DecoderOptions::default()
            };
            let who = (device.name.as_str(), device.software);
            let kernels = expected_kernels(device.traits(), who, None, false).unwrap();
            let paper = on_paper(&checkpoint, &options, device.traits(), kernels).unwrap();
            let sheet = |looked_at| {
                let sheet = Sheet {
                    plan: &paper.plan,
                    together: paper.together,
                    device: &device,
                    looked_at,
                    most_workgroups: MOST_WORKGROUPS,
                };
                let steps = [steps.decode(0), steps.prefill(0)];
                steps.map(|step| sheet.step(&step, &paper.passes(&step), &[]).unwrap())
            };
            // What is written when room is taken is not always on time.
            for (some, all) in sheet(LOOKED_AT).iter().zip(&sheet(u32::MAX)) {
                assert_eq!(some.dispatches.len(), all.dispatches.len());
                let share = some.read_bytes as f64 / all.read_bytes as f64;
                assert!((0.98..1.02).contains(&share), "{share} {}", device.name);
            }
        }
    }
}

/// The layers that are looked at, and the head, fit the cache; the model does not: what was not touched for longest is gone whenever a
/// step comes back to it.
#[test]
fn a_model_that_a_cache_does_not_hold_is_read_again_though_what_is_looked_at_of_it_fits() {
    let checkpoint = model("125M", 12);
    let steps = SheetOptions {
        batch: 1,
        context: 64,
        chunk: 1,
    };
    for device in devices() {
        // Two layers and the head have 42 MB, the model 117.
        let of_cache = |cache| {
            let device = DeviceProfile {
                cache,
                ..device.clone()
            };
            sheet(&checkpoint, &device, steps).decode
        };
        let share = of_cache(80 << 20).read_share();
        assert!((0.98..1.05).contains(&share), "{share} {}", device.name);
        assert_eq!(of_cache(256 << 20).read_bytes, 0, "{}", device.name);
    }
}

/// Of a mid-size card that is built in, whose cache is as large as half of such a model.
#[test]
fn a_4090_reads_a_model_that_is_larger_than_its_cache() {
    let device = DeviceProfile::named("4090").unwrap();
    let sheet = sheet(&model("125M", 12), &device, steps(1, 128));
    assert!(sheet.weights_bytes > device.cache);
    let share = sheet.decode.read_share();
    assert!(share > 0.98, "{share}");
}

/// Bytes of the weights of a model in int8 that a step reads, and of the keys and values of so many sequences in f16.
fn weights_and_positions(config: &ModelConfig, sequences: usize, context: usize) -> u64 {
    let (hidden, head, layers) = (config.hidden, config.head_dim, config.layers.len());
    let heads = 2 * config.heads + 2 * config.kv_heads;
    let a_layer = hidden * head * heads + 3 * hidden * config.intermediate;
    let weights = (layers * a_layer + hidden * config.vocabulary) * 34 / 32;
    let position = 2 * 2 * config.kv_heads * head * layers;
    (weights + sequences * context * position) as u64
}

#[test]
fn the_least_that_a_step_reads_is_its_weights_keys_and_values_once_however_it_is_taken() {
    let once = |step: &StepSheet, config: &ModelConfig, sequences, context, name: &str| {
        let exact = weights_and_positions(config, sequences, context) as f64;
        let share = step.least_bytes as f64 / exact;
        assert!((0.999..1.02).contains(&share), "{share} {name}");
    };
    let checkpoint = model("125M", 2);
    let config = checkpoint.decoder().unwrap();
    let chunk = SheetOptions {
        batch: 4,
        context: 2048,
        chunk: 256,
    };
    for device in devices() {
        // Rows of a prompt see some positions together and some alone.
        let [decode, prefill] = both(sheet(&checkpoint, &device, chunk));
        once(&decode, config, 4, 2048, &device.name);
        once(&prefill, config, 1, 2048, &device.name);
    }
    // Sequences that decode in several passes have keys and values of their own in each.
    let checkpoint = model("1B", 2);
    let config = checkpoint.decoder().unwrap();
    let long = SheetOptions {
        batch: 8,
        context: 131_072,
        chunk: 1,
    };
    let device = DeviceProfile {
        largest_binding: 1 << 50,
        ..software()
    };
    let step = sheet(&checkpoint, &device, long).decode;
    assert!(step.passes > 1);
    once(&step, config, 8, 131_072, &device.name);
}

/// The variable is for devices that are here: this test starts itself again with it.
#[test]
fn the_environment_chooses_no_kernels_of_a_device_that_is_not_here() {
    const VARIABLE: &str = "TIDEGATE_KERNELS";
    if std::env::var(VARIABLE).is_err() {
        for name in ["portable", "cuda"] {
            let of =
                "sheet::tests::the_environment_chooses_no_kernels_of_a_device_that_is_not_here";
            let again = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", of])
                .env(VARIABLE, name)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&again.stdout);
            assert!(said.contains("1 passed"), "{name}: {said}");
        }
        return;
    }
    let sheet = sheet(&model("125M", 1), &h100(), steps(1, 64));
    assert_eq!(sheet.kernels, "subgroup");
}

#[test]
fn an_h200_is_a_device_of_its_own() {
    let (device, before) = (DeviceProfile::named("h200").unwrap(), h100());
    assert!(PROFILES.contains(&"h200") && device.name.contains("H200"));
    assert!(device.bandwidth > 1.4 * before.bandwidth);
    assert_eq!(
        (device.multiprocessors, device.cache),
        (before.multiprocessors, before.cache)
    );
    assert_eq!(like("NVIDIA H200"), Some(device));
    assert_eq!(like("NVIDIA H100 80GB HBM3"), Some(before));
    assert_eq!(like("NVIDIA H100 PCIe"), None);
}

#[test]
fn what_would_take_too_long_to_follow_is_refused_with_the_limit() {
    // Each head has keys and values of its own, and so workgroups.
    let mut config = ModelConfig::preset("8B").unwrap();
    config.kv_heads = config.heads;
    let checkpoint = Checkpoint::random(config, Format::Int8, 1);
    let steps = SheetOptions {
        batch: 2048,
        context: 131_072,
        chunk: 4096,
    };
    let options = steps.decoder();
    let device = DeviceProfile {
        largest_binding: 1 << 50,
        ..h100()
    };
    let error = CostSheet::planned(&checkpoint, &device, &options, steps).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("workgroups") && error.contains("4194304"),
        "{error}"
    );
}

/// A device that is lost would be found so by the first step that is measured.
#[test]
fn what_would_take_too_long_to_follow_is_refused_before_any_step_is_measured() {
    let adapter = Adapter::choose(Some("cpu")).unwrap();
    let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
    let mut config = ModelConfig::preset("125M").unwrap();
    config.layers.truncate(1);
    config.vocabulary = 64;
    let checkpoint = Checkpoint::random(config, Format::Int8, 1);
    let steps = SheetOptions {
        batch: 1,
        context: 32,
        chunk: 16,
    };
    let options = steps.decoder();
    let mut decoder = GpuDecoder::load(&gpu, &checkpoint, &options).unwrap();
    gpu.lose();
    let mut refused = |most| {
        let sheet = CostSheet::measured_within(&mut decoder, &software(), steps, most);
        sheet.unwrap_err().to_string()
    };
    let error = refused(1);
    assert!(error.contains("workgroups of a step"), "{error}");
    let error = refused(MOST_WORKGROUPS);
    assert!(error.contains("lost"), "{error}");
}

#[test]
fn kernels_that_a_device_cannot_run_are_refused() {
    let refused = |device: &DeviceProfile, kernels, reproducible| {
        let options = DecoderOptions {
            kernels: Some(kernels),
            reproducible,
            ..DecoderOptions::default()
        };
        let steps = steps(1, 64);
        let sheet = CostSheet::planned(&model("125M", 1), device, &options, steps);
        sheet.err().map(|error| error.to_string())
    };
    let mut device = DeviceProfile::named("m3").unwrap();
    assert_eq!(refused(&device, KernelVariant::Subgroup, false), None);
    let why = refused(&device, KernelVariant::Subgroup, true).unwrap();
    assert!(
        why.contains("4 to 64 lanes") && why.contains("Apple M3"),
        "{why}"
    );
    assert!(refused(&device, KernelVariant::F16, true).is_some());
    assert!(refused(&device, KernelVariant::Cooperative, false).is_some());
    assert_eq!(refused(&h100(), KernelVariant::Cooperative, true), None);
    device.subgroup_lanes = None;
    assert!(refused(&device, KernelVariant::Subgroup, false).is_some());
}

#[test]
fn arithmetic_is_that_of_every_weight_and_every_position() {
    let config = ModelConfig::preset("125M").unwrap();
    let (hidden, head) = (config.hidden, config.head_dim);
    let a_layer =
        hidden * head * (2 * config.heads + 2 * config.kv_heads) + 3 * hidden * config.intermediate;
    let weights = 3 * a_layer + hidden * config.vocabulary;
    let positions = |positions: usize| 3 * 2 * config.heads * head * positions;
    for (batch, context) in [(1, 64), (7, 64), (7, 640)] {
        let step = sheet(&model("125M", 3), &h100(), steps(batch, context)).decode;
        let exact = (batch * (weights + positions(context))) as f64;
        let share = step.multiply_adds as f64 / exact;
        assert!((1.0..1.02).contains(&share), "{share}");
    }
}

#[test]
fn what_a_model_takes_elsewhere_is_known_without_reading_it() {
    // Sixteen gigabytes: nothing reads them here.
    let sheet = sheet(&model("8B", 32), &h100(), steps(1, 128));
    assert!(sheet.weights_bytes > 8_000_000_000);
    assert!(sheet.decode.tokens_per_s() > 0.0);
}

#[test]
fn a_device_that_cannot_be_is_refused_by_what_is_wrong() {
    let wrong = |change: fn(&mut DeviceProfile)| {
        let mut device = h100();
        change(&mut device);
        device.check().unwrap_err()
    };
    assert!(wrong(|of| of.bandwidth = 0.0).contains("bandwidth is 0e0; it must be from 1e6"));
    assert!(wrong(|of| of.bandwidth = f64::NAN).contains("bandwidth is NaN"));
    assert!(wrong(|of| of.bandwidth = 1e308).contains("to 1e18"));
    assert!(wrong(|of| of.cache = 0).contains("cache is 0"));
    assert!(wrong(|of| of.multiprocessors = u32::MAX).contains("multiprocessors is 4294967295"));
    assert!(wrong(|of| of.lanes = 0).contains("lanes is 0"));
    assert!(wrong(|of| of.gap = -1.0).contains("gap is -1e0"));
    assert!(wrong(|of| of.gap = f64::INFINITY).contains("gap is inf"));
    assert!(wrong(|of| of.multiply_adds = Some(1e-308)).contains("multiply-adds"));
    assert!(wrong(|of| of.largest_binding = 1).contains("largest-binding is 1"));
    assert!(wrong(|of| of.subgroup_lanes = Some([8, 4])).contains("[8, 4]"));
    assert!(wrong(|of| of.name = "two\nlines".to_owned()).contains("printable"));
    assert!(wrong(|of| of.name = "x".repeat(201)).contains("200"));
    for device in devices() {
        device.check().unwrap();
    }
    assert_eq!(DeviceProfile::named("h101"), None);
}

/// Of experts that rows go through each is read once, and of the others nothing.
#[test]
fn a_step_reads_the_experts_that_its_rows_go_through() {
    let mut config = ModelConfig::preset("125M").unwrap();
    config.layers.truncate(2);
    let (count, chosen, width) = (64, 4, 512);
    config.experts = Some(Experts {
        count,
        chosen,
        intermediate: width,
        normalized: true,
        shared: None,
        layers: vec![true; 2],
        clamped: None,
    });
    let (hidden, head) = (config.hidden, config.head_dim);
    let attention = hidden * head * (2 * config.heads + 2 * config.kv_heads);
    let (each, vocabulary) = (3 * hidden * width, config.vocabulary);
    let checkpoint = Checkpoint::random(config, Format::Int8, 1);
    for device in devices() {
        for batch in [1, 3, 8, 32] {
            let step = sheet(&checkpoint, &device, steps(batch, 64)).decode;
            let active = count.min(batch * chosen);
            // 34 bytes for 32 weights; the router's are f32, keys and values f16.
            let int8 = 2 * (attention + active * each) + hidden * vocabulary;
            let cached = batch * 2 * 2 * 64 * hidden * 2;
            let weights = (int8 * 34 / 32 + 2 * count * hidden * 4 + cached) as f64;
            let least = step.least_bytes as f64 / weights;
            assert!((1.0..1.02).contains(&least), "{}: {least}", device.name);
            let read = step.read_bytes as f64 / weights;
            assert!(read < 1.1, "{}, {batch} rows: {read}", device.name);
        }
    }
}

/// A sheet of a model in a format by these kernels.
fn by(kernels: KernelVariant, format: Format, size: &str, batch: usize) -> CostSheet {
    let mut config = ModelConfig::preset(size).unwrap();
    config.layers.truncate(2);
    let steps = SheetOptions {
        batch,
        context: 512,
        chunk: 256,
    };
    let options = DecoderOptions {
        kernels: Some(kernels),
        reproducible: true,
        ..steps.decoder()
    };
    let checkpoint = Checkpoint::random(config, format, 1);
    CostSheet::planned(&checkpoint, &h100(), &options, steps).unwrap()
}

#[test]
fn cooperative_matrices_read_each_weight_once_and_take_arithmetic_away() {
    for format in [Format::F16, Format::Int4] {
        for batch in [1, 8, 32] {
            let [matrices, floats] = [KernelVariant::Cooperative, KernelVariant::Subgroup]
                .map(|kernels| by(kernels, format, "8B", batch));
            let what = format!("{format:?}, batch {batch}");
            for sheet in [&matrices, &floats] {
                let [decode, prefill] =
                    [&sheet.decode, &sheet.prefill].map(StepSheet::tokens_per_s);
                println!(
                    "{what}, {}: {decode:.0} tokens/s, prefill {prefill:.0}",
                    sheet.kernels
                );
            }
            assert!(matrices.decode.read_share() < 1.05, "{what}");
            assert!(matrices.prefill.read_share() < 1.3, "{what}");
            // As many dispatches: what the others do beside their sums these do too.
            let dispatches = |sheet: &CostSheet| sheet.decode.dispatches.len();
            assert_eq!(dispatches(&matrices), dispatches(&floats), "{what}");
            let [rate, of_floats] = [&matrices, &floats].map(|sheet| sheet.prefill.tokens_per_s());
            assert!(rate > 3.0 * of_floats, "{what}: {rate} and {of_floats}");
            let bound = |of: &DispatchSheet| of.kernel != "matmul" || of.bound == "memory";
            assert!(matrices.decode.dispatches.iter().all(bound), "{what}");
        }
    }
}

#[test]
fn products_stage_without_conflicts_in_the_workgroup_memory_that_there_is() {
    let mut seen = 0;
    for kernel in Kernel::in_use() {
        let Arithmetic::Matrices { .. } = kernel.arithmetic() else {
            let shared = KernelFacts::of(kernel).shared;
            assert!(shared <= 16 << 10, "{kernel:?}: {shared} bytes");
            continue;
        };
        let facts = KernelFacts::of(kernel);
        assert!(
            facts.shared <= 32 << 10,
            "{kernel:?}: {} bytes",
            facts.shared
        );
        assert_eq!(facts.bank_conflicts, 1, "{kernel:?}");
        seen += 1;
    }
    assert!(seen > 0);
}
