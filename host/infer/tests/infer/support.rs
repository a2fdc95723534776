//! What the tests share: devices, random numbers, models, comparison with a stated tolerance.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_contract::{BLOCK, Decoder, Sampling, StepSequence};
use tidegate_infer::kernels::lab::Lab;
use tidegate_infer::{
    Adapter, DecoderOptions, DeviceOptions, Features, Gpu, GpuDecoder, KernelVariant, KvPrecision,
};
use tidegate_reference::golden;
use tidegate_weights::{
    Activation, Checkpoint, ClampedGate, Experts, Format, LayerConfig, ModelConfig, ReadWhole,
    Rope, RopeScaling,
};

/// Variants that need no optional feature; on the device without any, too.
pub(crate) const PLAIN: [KernelVariant; 2] = [KernelVariant::Software, KernelVariant::Portable];

/// The adapter the tests run on: `TIDEGATE_ADAPTER` as on the command line, else the software one.
pub(crate) fn adapter() -> &'static Adapter {
    static ADAPTER: OnceLock<Adapter> = OnceLock::new();
    ADAPTER.get_or_init(|| {
        let selector = std::env::var("TIDEGATE_ADAPTER").unwrap_or_else(|_| "cpu".to_owned());
        Adapter::choose(Some(&selector)).expect("the tests need a Vulkan driver; llvmpipe will do")
    })
}

/// A device of its own, for what loses it or counts what is made on it.
pub(crate) fn open(features: Features) -> Gpu {
    let options = DeviceOptions {
        features,
        ..DeviceOptions::default()
    };
    Gpu::open(adapter(), options).unwrap()
}

/// The device that tests share which do it no harm, with everything the adapter has.
pub(crate) fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| open(Features::ALL))
}

/// The same with every optional feature masked off.
pub(crate) fn bare_gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| open(Features::NONE))
}

/// Kernels for software adapters as they read buffers on this adapter, in integers of 64 bits if it is llvmpipe, and as they read
/// them in words.
pub(crate) fn labs_in_longs_and_words() -> [Lab; 2] {
    static WORDS: OnceLock<Gpu> = OnceLock::new();
    let is_llvmpipe = adapter().info().name.starts_with("llvmpipe");
    assert_eq!(gpu().features().longs, is_llvmpipe);
    let words = WORDS.get_or_init(|| {
        open(Features {
            longs: false,
            ..Features::ALL
        })
    });
    [gpu(), words].map(|gpu| Lab::on(gpu, KernelVariant::Software, false).unwrap())
}

/// A device that a test may spoil while no other test is on it; whole again when it is given back.
pub(crate) struct Spoilt(MutexGuard<'static, Gpu>);

impl Deref for Spoilt {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        &self.0
    }
}

impl Drop for Spoilt {
    fn drop(&mut self) {
        self.0.repair();
        self.0.forget_tests();
    }
}

/// The device that tests take in turns to spoil, with everything the adapter has; kernels that were not spoilt stay compiled.
pub(crate) fn to_spoil() -> Spoilt {
    static GPU: OnceLock<Mutex<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| Mutex::new(open(Features::ALL)));
    Spoilt(gpu.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The same of a device with every optional feature masked off. Who needs both takes this one first.
pub(crate) fn bare_to_spoil() -> Spoilt {
    static GPU: OnceLock<Mutex<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| Mutex::new(open(Features::NONE)));
    Spoilt(gpu.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Every device and variant that runs on this adapter: on the bare one those that need nothing.
pub(crate) fn variants() -> Vec<(&'static Gpu, KernelVariant)> {
    let mut all: Vec<_> = PLAIN.map(|variant| (bare_gpu(), variant)).to_vec();
    all.extend(PLAIN.map(|variant| (gpu(), variant)));
    let features = gpu().features();
    for (has, variant) in [
        (features.subgroup, KernelVariant::Subgroup),
        (features.f16, KernelVariant::F16),
        (features.cooperative, KernelVariant::Cooperative),
        (true, KernelVariant::Dot),
    ] {
        if has {
            all.push((gpu(), variant));
        }
    }
    all
}

/// Whether a variant is refused where answers are to be reproducible.
pub(crate) fn sums_otherwise(variant: KernelVariant) -> bool {
    variant == KernelVariant::F16
}

/// Whether a variant differs from the reference in precision alone, and rounds nothing on the way.
pub(crate) fn is_exact(variant: KernelVariant) -> bool {
    use KernelVariant::{Portable, Software, Subgroup};
    [Portable, Software, Subgroup].contains(&variant)
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In -1..1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }

    pub(crate) fn tokens(&mut self, vocabulary: usize, count: usize) -> Vec<u32> {
        (0..count)
            .map(|_| (self.bits() % vocabulary as u64) as u32)
            .collect()
    }
}

pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

pub(crate) fn golden_checkpoint(name: &str) -> Checkpoint {
    Checkpoint::open(&golden::model(name), &ReadWhole).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A small decoder with odd widths: three layers, the second with a window, rotation of a part of each head.
pub(crate) fn small_config() -> ModelConfig {
    let rope = Rope {
        theta: 10_000.0,
        scaling: RopeScaling::None,
        width: 6,
    };
    let layer = |window| LayerConfig {
        window,
        rope: Some(0),
    };
    ModelConfig {
        architecture: "TestForCausalLM".to_owned(),
        vocabulary: 53,
        hidden: 42,
        intermediate: 70,
        experts: None,
        heads: 6,
        kv_heads: 2,
        head_dim: 10,
        layers: vec![layer(None), layer(Some(37)), layer(None)],
        ropes: vec![rope],
        norm_epsilon: 1e-5,
        norm_offset: 0.0,
        post_norms: false,
        head_norms: false,
        qkv_bias: false,
        output_bias: false,
        sinks: false,
        activation: Activation::Silu,
        attention_scale: 1.0 / 10.0_f64.sqrt(),
        attention_softcap: None,
        logit_softcap: None,
        embedding_scale: 1.0,
        context: 1024,
        tied: false,
        quantization: None,
        bos_token: None,
        eos_tokens: Vec::new(),
    }
}

/// Heads that products turn, with biases, where they do anything beside multiplying.
pub(crate) fn turned_config() -> ModelConfig {
    ModelConfig {
        qkv_bias: true,
        ..small_config()
    }
}

/// Every part that some family has, at once.
pub(crate) fn full_config() -> ModelConfig {
    let rope = |theta, width| Rope {
        theta,
        scaling: RopeScaling::None,
        width,
    };
    let layer = |window, rope| LayerConfig { window, rope };
    ModelConfig {
        layers: vec![
            layer(Some(20), Some(1)),
            layer(None, Some(0)),
            layer(None, None),
        ],
        ropes: vec![rope(1e6, 10), rope(1e4, 4)],
        norm_offset: 1.0,
        post_norms: true,
        head_norms: true,
        qkv_bias: true,
        output_bias: true,
        activation: Activation::GeluTanh,
        attention_softcap: Some(3.0),
        logit_softcap: Some(5.0),
        embedding_scale: 42.0_f64.sqrt(),
        tied: true,
        ..small_config()
    }
}

/// Experts between layers without: heads are turned by the product that follows a layer without.
pub(crate) fn expert_config() -> ModelConfig {
    ModelConfig {
        experts: Some(Experts {
            count: 7,
            chosen: 3,
            intermediate: 32,
            normalized: true,
            shared: None,
            layers: vec![true, false, true],
            clamped: None,
        }),
        ..even_config()
    }
}

/// A shared expert, weights that do not sum to 1, and widths that are multiples of nothing.
pub(crate) fn shared_expert_config() -> ModelConfig {
    ModelConfig {
        experts: Some(Experts {
            count: 10,
            chosen: 2,
            intermediate: 23,
            normalized: false,
            shared: Some(33),
            layers: vec![true; 3],
            clamped: None,
        }),
        qkv_bias: true,
        ..small_config()
    }
}

/// gpt-oss: sinks, biases everywhere, clamped gates.
pub(crate) fn gpt_oss_config() -> ModelConfig {
    ModelConfig {
        experts: Some(Experts {
            count: 7,
            chosen: 3,
            intermediate: 32,
            normalized: true,
            shared: None,
            layers: vec![true; 3],
            clamped: Some(ClampedGate {
                slope: 1.702,
                limit: 0.5,
            }),
        }),
        qkv_bias: true,
        output_bias: true,
        sinks: true,
        ..even_config()
    }
}

/// Widths that quantized rows can have.
pub(crate) fn even_config() -> ModelConfig {
    ModelConfig {
        hidden: 64,
        intermediate: 96,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        ..small_config()
    }
}

pub(crate) fn random_model(config: ModelConfig, seed: u64) -> Checkpoint {
    Checkpoint::random(config, Format::F32, seed)
}

/// Whether whole models run with wgpu's checks in the shaders on a device: on the one without features, where everything must
/// be within bounds by itself; in the longer run on all. Elsewhere they run what users run, which loading has compiled for
/// its self-test already, and which gives the bits of checked shaders.
pub(crate) fn checked_on(gpu: &Gpu) -> bool {
    gpu.features() == Features::NONE || std::env::var_os("TIDEGATE_TEST_FULL").is_some()
}

/// As [`options`], with checked shaders where whole models have them.
pub(crate) fn options_on(gpu: &Gpu, variant: KernelVariant) -> DecoderOptions {
    DecoderOptions {
        checked_shaders: checked_on(gpu),
        ..options(variant)
    }
}

/// 512 positions, 80 blocks, keys and values in f32.
pub(crate) fn options(variant: KernelVariant) -> DecoderOptions {
    DecoderOptions {
        context: 512,
        blocks: 80,
        max_rows: 64,
        max_samples: 64,
        kv: KvPrecision::F32,
        kernels: Some(variant),
        reproducible: false,
        checked_shaders: false,
    }
}

pub(crate) fn load(gpu: &Gpu, checkpoint: &Checkpoint, options: &DecoderOptions) -> GpuDecoder {
    GpuDecoder::load(gpu, checkpoint, options).unwrap()
}

/// Tokens from `position` on, with everything sampled.
pub(crate) fn sequence(position: usize, tokens: &[u32], blocks: &[u32]) -> StepSequence {
    StepSequence {
        lora: 0,
        position: position as u32,
        tokens: tokens.to_vec(),
        blocks: blocks.to_vec(),
        samples: vec![Sampling::default(); tokens.len()],
    }
}

/// The same without samples.
pub(crate) fn silent(position: usize, tokens: &[u32], blocks: &[u32]) -> StepSequence {
    StepSequence {
        samples: Vec::new(),
        ..sequence(position, tokens, blocks)
    }
}

/// Blocks for so many tokens, from `first` on.
pub(crate) fn blocks(first: u32, tokens: usize) -> Vec<u32> {
    (first..first + tokens.div_ceil(BLOCK) as u32).collect()
}

pub(crate) fn logits(decoder: &mut dyn Decoder, step: &[StepSequence]) -> Vec<f32> {
    let mut logits = Vec::new();
    decoder.logits(step, &mut logits).unwrap();
    logits
}

/// Runs a whole sequence in steps of `chunk` tokens and gives the logits of every token.
pub(crate) fn in_chunks(
    decoder: &mut dyn Decoder,
    tokens: &[u32],
    blocks: &[u32],
    chunk: usize,
) -> Vec<f32> {
    let mut all = Vec::new();
    for (index, tokens) in tokens.chunks(chunk).enumerate() {
        all.extend(logits(decoder, &[sequence(index * chunk, tokens, blocks)]));
    }
    all
}

/// Every number within `tolerance` of the expected one, as a share of 1 + the greatest expected.
#[track_caller]
pub(crate) fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let greatest = expected.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let wrong = (f64::from(*found) - expected).abs() / (1.0 + greatest);
        assert!(
            wrong <= tolerance,
            "{what}: element {index} is {found}, not {expected}: {wrong:.1e} of 1 + {greatest}"
        );
    }
}

/// The same bits.
#[track_caller]
pub(crate) fn assert_same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(
            found.to_bits(),
            expected.to_bits(),
            "{what}: element {index}: {found} and {expected}"
        );
    }
}
