//! The cost sheet against the device: what it says of a model that is not loaded is what runs, and where it says that a product reads
//! far more than another, that one takes longer.

use std::time::Duration;

use tidegate_infer::sheet::{CostSheet, DeviceProfile, DispatchSheet, SheetOptions, StepSheet};
use tidegate_infer::{DecoderOptions, Gpu, GpuDecoder};
use tidegate_weights::{Checkpoint, Format, ModelConfig};

use crate::support::{bare_gpu, gpu, shared_expert_config, small_config};

const STEPS: SheetOptions = SheetOptions {
    batch: 3,
    context: 40,
    chunk: 24,
};

fn options(steps: SheetOptions) -> DecoderOptions {
    steps.decoder()
}

/// What is planned for a device like this one, and what is measured on it.
fn both(gpu: &Gpu, checkpoint: &Checkpoint, steps: SheetOptions) -> [CostSheet; 2] {
    let device = DeviceProfile::at_hand(gpu, 1e10);
    let options = options(steps);
    let mut decoder = GpuDecoder::load(gpu, checkpoint, &options).unwrap();
    // Those that the environment names are loaded, and planned only where they are asked for.
    let options = DecoderOptions {
        kernels: Some(decoder.kernels().matmul),
        ..options
    };
    let planned = CostSheet::planned(checkpoint, &device, &options, steps).unwrap();
    // In the passes that there is room for, however busy the machine is.
    decoder.pretend_pace(1e-15, Duration::from_secs(1));
    let measured = CostSheet::measured(&mut decoder, &device, steps).unwrap();
    [planned, measured]
}

/// The dispatches without what was measured.
fn counted(step: &StepSheet) -> Vec<DispatchSheet> {
    let plain = |dispatch: &DispatchSheet| DispatchSheet {
        measured_ms: None,
        ..*dispatch
    };
    step.dispatches.iter().map(plain).collect()
}

#[test]
fn what_is_planned_without_a_device_is_what_runs_on_it() {
    for gpu in [gpu(), bare_gpu()] {
        for (config, format) in [
            (small_config(), Format::F32),
            (small_config(), Format::F16),
            (shared_expert_config(), Format::F16),
        ] {
            let checkpoint = Checkpoint::random(config, format, 1);
            let [planned, measured] = both(gpu, &checkpoint, STEPS);
            assert_eq!(planned.kernels, measured.kernels);
            assert_eq!(planned.weights_bytes, measured.weights_bytes);
            for (planned, measured) in [
                (&planned.decode, &measured.decode),
                (&planned.prefill, &measured.prefill),
            ] {
                assert_eq!(planned.dispatches, counted(measured));
                assert_eq!(planned.measured_ms, None);
                assert!(measured.measured_ms.is_some_and(|all| all > 0.0));
                assert!(
                    measured
                        .dispatches
                        .iter()
                        .all(|of| of.measured_ms.is_some())
                );
                let sums = |of: &StepSheet| (of.least_bytes, of.read_bytes, of.multiply_adds);
                assert_eq!(sums(planned), sums(measured));
            }
            assert_eq!((planned.decode.rows, planned.prefill.rows), (3, 24));
        }
    }
}

/// Products of one token wait for their weights: what reads eight times as much takes longer, however busy the machine is.
#[test]
fn what_reads_far_more_takes_longer() {
    let mut config = ModelConfig::preset("125M").unwrap();
    config.layers.truncate(2);
    let checkpoint = Checkpoint::random(config, Format::F16, 1);
    let steps = SheetOptions {
        batch: 1,
        context: 16,
        chunk: 1,
    };
    let options = options(steps);
    let device = DeviceProfile::at_hand(gpu(), 1e10);
    let mut decoder = GpuDecoder::load(gpu(), &checkpoint, &options).unwrap();
    let mut least: Vec<(u64, f64)> = Vec::new();
    for _ in 0..5 {
        let sheet = CostSheet::measured(&mut decoder, &device, steps).unwrap();
        let products = sheet.decode.dispatches.iter();
        let products = products.filter(|dispatch| dispatch.kernel == "matmul");
        for (index, product) in products.enumerate() {
            let time = product.measured_ms.unwrap();
            match least.get_mut(index) {
                Some(known) => known.1 = known.1.min(time),
                None => least.push((product.read_bytes, time)),
            }
        }
    }
    assert_eq!(least.len(), 2 * 4 + 1);
    let mut compared = 0;
    for (bytes, time) in &least {
        for (more, longer) in &least {
            if *more >= 8 * bytes {
                assert!(longer > time, "{least:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "{least:?}");
}
