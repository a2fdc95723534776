//! `bench` measures what it says it does; never how fast that is.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_infer::bench::{BenchError, BenchOptions, bench, measure_ready};
use tidegate_infer::{KernelVariant, MemoryReport};
use tidegate_weights::{Checkpoint, Format, ModelConfig};

use crate::support::{adapter, gpu, small_config};

fn options() -> BenchOptions {
    BenchOptions {
        batches: vec![1, 3],
        contexts: vec![20, 40, 4096],
        chunk: 16,
        patience: Duration::from_millis(1),
        ..BenchOptions::default()
    }
}

fn model() -> Checkpoint {
    Checkpoint::random(small_config(), Format::F32, 1)
}

#[test]
fn every_rate_is_measured_at_each_context_the_model_has() {
    let report = bench(gpu(), &model(), &options()).unwrap();
    let contexts: Vec<usize> = report.contexts.iter().map(|of| of.context).collect();
    assert_eq!(contexts, [20, 40], "4096 is beyond the model");
    for of in &report.contexts {
        assert!(of.prefill_tokens_per_s > 0.0 && of.prefill_steps >= 3);
        assert_eq!(of.decode_tokens_per_s.keys().collect::<Vec<_>>(), [&1, &3]);
        assert!(of.decode_steps.values().all(|steps| *steps >= 3));
        assert!(of.bandwidth_share.values().all(|share| *share > 0.0));
        let named = |kernels: &[tidegate_infer::bench::KernelReport]| {
            kernels
                .iter()
                .any(|kernel| kernel.kernel == "matmul" && kernel.dispatches > 0)
        };
        assert!(named(of.prefill_kernels.as_deref().unwrap()));
        assert_eq!(of.decode_kernels.keys().collect::<Vec<_>>(), [&1, &3]);
        assert!(of.decode_kernels.values().all(|of| named(of)));
        assert_eq!(of.kernels_missing, None);
    }
    let first: &BTreeMap<usize, f64> = &report.contexts[0].decode_tokens_per_s;
    assert_eq!(&report.decode_tokens_per_s, first);
    assert!(!report.shared_blocks && report.copy_bandwidth_bytes_per_s > 0.0);
}

/// Integers alone have dots: of f32 another kernel runs, whatever was asked for.
#[test]
fn the_kernels_that_ran_are_named_and_not_those_that_were_asked_for() {
    let mut options = options();
    options.contexts = vec![20];
    options.kernels = Some(KernelVariant::Dot);
    let mut config = ModelConfig::preset("125M").unwrap();
    config.layers.truncate(1);
    config.vocabulary = 64;
    let ran = |format| {
        let checkpoint = Checkpoint::random(config.clone(), format, 1);
        bench(gpu(), &checkpoint, &options).unwrap().kernels
    };
    let [floats, integers] = [Format::F32, Format::Int8].map(ran);
    assert!(!floats.contains("dot"), "{floats}");
    assert!(integers.contains("dot"), "{integers}");
}

#[test]
fn sequences_share_blocks_where_there_is_no_room_for_their_own() {
    // A block of the small model is 16 positions of 2 heads of 12 f16 elements, 768 bytes; three sequences of 40 need nine.
    let gpu = gpu().narrowed(60 << 10);
    let mut options = options();
    options.contexts = vec![16];
    options.chunk = 2;
    assert!(!bench(&gpu, &model(), &options).unwrap().shared_blocks);
    options.contexts = vec![512];
    assert!(bench(&gpu, &model(), &options).unwrap().shared_blocks);
}

#[test]
fn nothing_to_measure_is_said_with_the_limit() {
    let mut options = options();
    options.contexts = vec![4096];
    let error = bench(gpu(), &model(), &options).unwrap_err();
    assert!(
        matches!(error, BenchError::Nothing { limit: 1024, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("4096"), "{error}");
}

#[test]
fn the_time_to_be_ready_has_its_parts() {
    let ready = measure_ready(adapter(), &model(), &options()).unwrap();
    assert!(ready.open_s > 0.0 && ready.load_s > 0.0 && ready.first_token_s > 0.0);
}

/// Who asks whether there is room for a measurement counts the very decoders that are loaded for it.
#[test]
fn what_is_loaded_is_known_before() {
    let model = model();
    let long = BenchOptions {
        contexts: vec![512],
        chunk: 2,
        ..options()
    };
    // The longest context that the model has, for the most sequences: blocks of their own, and shared ones.
    for (options, binding, context, blocks) in [
        (options(), u64::MAX, 40, 3 * 3),
        (long, 60 << 10, 512, 32 + 3),
    ] {
        let gpu = gpu().narrowed(binding);
        let [ready, rates] = options.loads(&model, binding).unwrap();
        assert_eq!((ready.context, ready.max_rows), (1024, options.chunk));
        assert_eq!((rates.context, rates.blocks), (context, blocks));
        assert_eq!(rates.max_rows, options.chunk.max(3));
        let report = bench(&gpu, &model, &options).unwrap();
        let needed = MemoryReport::estimate(&model, &rates).unwrap();
        assert_eq!(report.kv_cache_bytes, needed.kv_cache);
        assert_eq!(report.weights_bytes, needed.weights);
    }
}
