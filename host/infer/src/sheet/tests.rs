use super::*;
use tidegate_weights::{Format, ModelConfig};

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
    let options = DecoderOptions {
        context: steps.context,
        blocks: steps.blocks(),
        max_rows: steps.rows(),
        max_samples: steps.batch,
        ..DecoderOptions::default()
    };
    CostSheet::planned(checkpoint, device, &options, steps).unwrap()
}

fn steps(batch: usize, context: usize) -> SheetOptions {
    SheetOptions {
        batch,
        context,
        chunk: 48,
    }
}

#[test]
fn what_fits_a_cache_comes_from_memory_once_and_what_does_not_no_less() {
    let checkpoint = model("125M", 3);
    for device in PROFILES {
        let device = DeviceProfile::named(device).unwrap();
        let of_cache = |cache| {
            let device = DeviceProfile {
                cache,
                ..device.clone()
            };
            sheet(&checkpoint, &device, steps(5, 300))
        };
        let sheets = [1 << 40, 4 << 20, 256 << 10, 1].map(of_cache);
        let both = |sheet: &CostSheet| [sheet.decode.clone(), sheet.prefill.clone()];
        for (index, step) in both(&sheets[0]).into_iter().enumerate() {
            let mut before = 0;
            for sheet in &sheets {
                let step = &both(sheet)[index];
                assert!(step.read_bytes >= before, "{}", device.name);
                assert!(step.read_bytes >= step.least_bytes - step.least_bytes / 50);
                before = step.read_bytes;
                for dispatch in &step.dispatches {
                    let kernel = dispatch.kernel;
                    assert!(
                        dispatch.asked_bytes + 64 >= dispatch.needed_bytes,
                        "{kernel}"
                    );
                }
            }
            // Into a cache without end everything comes once: the rest is activations, tables and parts of pieces.
            let share = step.read_share();
            assert!((0.98..1.05).contains(&share), "{share} {}", device.name);
        }
    }
}

#[test]
fn a_layer_costs_what_the_one_before_it_did() {
    let of = |layers| sheet(&model("125M", layers), &h100(), steps(8, 200));
    let [four, five] = [of(4), of(5)];
    for [four, five] in [[four.decode, five.decode], [four.prefill, five.prefill]] {
        let a_layer = five.dispatches.len() - four.dispatches.len();
        // The embedding, then layers.
        let layer = |number: usize| &five.dispatches[1 + number * a_layer..][..a_layer];
        assert_eq!(layer(3), layer(4));
        assert_eq!(layer(2), layer(3));
        let head = five.dispatches.len() - 1 - 5 * a_layer;
        let last = |sheet: &StepSheet| sheet.dispatches[sheet.dispatches.len() - head..].to_vec();
        assert_eq!(last(&four), last(&five));
    }
}

#[test]
fn layers_that_are_not_looked_at_are_as_if_they_were() {
    let checkpoint = model("125M", 6);
    let device = h100();
    let steps = steps(4, 100);
    let options = DecoderOptions {
        context: steps.context,
        blocks: steps.blocks(),
        ..DecoderOptions::default()
    };
    let kernels = expected_kernels(device.traits(), false, None, false).unwrap();
    let (plan, _) = plan_on_paper(&checkpoint, &options, device.traits(), kernels).unwrap();
    let sheet = |looked_at| {
        let sheet = Sheet {
            plan: &plan,
            device: &device,
            looked_at,
        };
        sheet.step(&steps.decode(), &[])
    };
    assert_eq!(sheet(LOOKED_AT), sheet(u32::MAX));
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
    assert!(wrong(|of| of.bandwidth = 0.0).contains("bandwidth is 0"));
    assert!(wrong(|of| of.bandwidth = f64::NAN).contains("bandwidth is NaN"));
    assert!(wrong(|of| of.cache = 0).contains("cache is 0"));
    assert!(wrong(|of| of.multiprocessors = 0).contains("multiprocessors"));
    assert!(wrong(|of| of.lanes = 0).contains("lanes is 0"));
    assert!(wrong(|of| of.gap = -1.0).contains("gap is -1"));
    assert!(wrong(|of| of.multiply_adds = Some(-1.0)).contains("multiply-adds"));
    assert!(wrong(|of| of.subgroup_lanes = Some([8, 4])).contains("[8, 4]"));
    for name in PROFILES {
        DeviceProfile::named(name).unwrap().check().unwrap();
    }
    assert_eq!(DeviceProfile::named("h101"), None);
}
