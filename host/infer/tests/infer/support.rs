//! What the tests share: an adapter, random numbers, random models, comparison with a stated tolerance.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use safetensors::tensor::{Dtype, TensorView};
use tidegate_infer::kernels::lab::encode;
use tidegate_infer::weights::{Precision, Tensor};
use tidegate_infer::{
    Adapter, Decoder, DecoderOptions, GpuDecoder, KernelFamily, ModelConfig, StepRow, Weights,
};

pub(crate) const FAMILIES: [KernelFamily; 2] = [KernelFamily::Software, KernelFamily::Portable];
pub(crate) const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::F16, Precision::Bf16];

/// The adapter the tests run on: `TIDEGATE_ADAPTER` as on the command line, else the software one.
pub(crate) fn adapter() -> &'static Adapter {
    static ADAPTER: OnceLock<Adapter> = OnceLock::new();
    ADAPTER.get_or_init(|| {
        let selector = std::env::var("TIDEGATE_ADAPTER").unwrap_or_else(|_| "cpu".to_owned());
        Adapter::choose(Some(&selector)).expect("the tests need a Vulkan driver; llvmpipe will do")
    })
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

    pub(crate) fn below(&mut self, limit: usize) -> u32 {
        (self.bits() % limit as u64) as u32
    }
}

pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// A stored tensor, and the values it holds in float64.
pub(crate) struct Stored {
    bytes: Vec<u8>,
    shape: Vec<usize>,
    precision: Precision,
    pub(crate) values: Vec<f64>,
}

impl Stored {
    pub(crate) fn random(random: &mut Random, shape: &[usize], precision: Precision) -> Stored {
        let (bytes, kept) = encode(&random.units(shape.iter().product()), precision);
        Stored {
            bytes,
            shape: shape.to_vec(),
            precision,
            values: wide(&kept),
        }
    }

    pub(crate) fn tensor(&self) -> Tensor<'_> {
        let (precision, shape) = (self.precision, self.shape.clone());
        Tensor {
            name: "random".to_owned(),
            precision,
            shape,
            bytes: &self.bytes,
        }
    }
}

/// Largest absolute difference, as a share of `1 + |largest expected|`, must be within `tolerance`.
pub(crate) fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let largest = expected.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs() / (1.0 + largest);
        assert!(
            difference <= tolerance,
            "{what}: element {index} is {found}, expected {expected} ({difference:e})"
        );
    }
}

/// A directory with a random model in it.
pub(crate) struct RandomModel {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) config: ModelConfig,
}

/// `config.json` for these sizes.
pub(crate) fn config_json(changes: &[(&str, serde_json::Value)]) -> String {
    let mut config = serde_json::json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 53, "hidden_size": 20, "intermediate_size": 17,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 6,
        "max_position_embeddings": 96, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu",
        "bos_token_id": 1, "eos_token_id": [2, 3],
    });
    for (key, value) in changes {
        config[*key] = value.clone();
    }
    config.to_string()
}

/// Every tensor a configuration calls for.
pub(crate) fn shapes(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let (h, i) = (config.hidden, config.intermediate);
    let (q, k) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let mut shapes = vec![
        (
            "model.embed_tokens.weight".to_owned(),
            vec![config.vocabulary, h],
        ),
        ("model.norm.weight".to_owned(), vec![h]),
    ];
    if !config.tied {
        shapes.push(("lm_head.weight".to_owned(), vec![config.vocabulary, h]));
    }
    for layer in 0..config.layers {
        let parts = [
            ("input_layernorm", vec![h]),
            ("post_attention_layernorm", vec![h]),
            ("self_attn.q_proj", vec![q, h]),
            ("self_attn.k_proj", vec![k, h]),
            ("self_attn.v_proj", vec![k, h]),
            ("self_attn.o_proj", vec![h, q]),
            ("mlp.gate_proj", vec![i, h]),
            ("mlp.up_proj", vec![i, h]),
            ("mlp.down_proj", vec![h, i]),
        ];
        shapes.extend(
            parts.map(|(part, shape)| (format!("model.layers.{layer}.{part}.weight"), shape)),
        );
    }
    shapes
}

/// Writes tensors as a safetensors file.
pub(crate) fn write_tensors(path: &Path, tensors: &[(String, Vec<usize>, Vec<u8>, Precision)]) {
    let views: Vec<(&str, TensorView<'_>)> = tensors
        .iter()
        .map(|(name, shape, bytes, precision)| {
            let dtype = match precision {
                Precision::F32 => Dtype::F32,
                Precision::F16 => Dtype::F16,
                Precision::Bf16 => Dtype::BF16,
            };
            (
                name.as_str(),
                TensorView::new(dtype, shape.clone(), bytes).unwrap(),
            )
        })
        .collect();
    safetensors::serialize_to_file(views, None, path).unwrap();
}

impl RandomModel {
    /// A model with these changes to [`config_json`]; `precision` says how each tensor, by its number, is stored.
    pub(crate) fn new(
        seed: u64,
        changes: &[(&str, serde_json::Value)],
        precision: impl Fn(usize) -> Precision,
    ) -> Self {
        let mut random = Random(seed);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.json"), config_json(changes)).unwrap();
        let config = ModelConfig::from_dir(directory.path()).unwrap();
        let tensors: Vec<_> = shapes(&config)
            .into_iter()
            .enumerate()
            .map(|(number, (name, shape))| {
                let mut values = random.units(shape.iter().product());
                if name.ends_with("norm.weight") {
                    values.iter_mut().for_each(|v| *v = 1.0 + 0.5 * *v);
                }
                let precision = precision(number);
                (name, shape, encode(&values, precision).0, precision)
            })
            .collect();
        write_tensors(&directory.path().join("model.safetensors"), &tensors);
        RandomModel { directory, config }
    }

    pub(crate) fn weights(&self) -> Weights {
        Weights::open(self.directory.path()).unwrap()
    }

    pub(crate) fn decoder(&self, options: &DecoderOptions) -> GpuDecoder {
        GpuDecoder::load(adapter(), &self.config, self.weights(), options.clone()).unwrap()
    }
}

/// 4 slots of 80 positions, 70 rows a step, on `family`.
pub(crate) fn options(family: KernelFamily) -> DecoderOptions {
    DecoderOptions {
        slots: 4,
        context: 80,
        max_rows: 70,
        kernels: Some(family),
        checked_shaders: false,
    }
}

/// Rows of one sequence from `first`, all of whose logits are wanted.
pub(crate) fn rows(slot: u32, first: u32, tokens: &[u32]) -> Vec<StepRow> {
    let row = |(i, token): (usize, &u32)| StepRow {
        slot,
        token: *token,
        position: first + i as u32,
        wants_logits: true,
    };
    tokens.iter().enumerate().map(row).collect()
}

pub(crate) fn step(decoder: &mut impl Decoder, rows: &[StepRow]) -> Vec<f32> {
    let mut logits = vec![f32::NAN; 3];
    decoder.step(rows, &mut logits).unwrap();
    logits
}

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}
