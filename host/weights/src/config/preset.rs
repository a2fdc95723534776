//! Shapes of well-known sizes, for benches with made-up weights.

use super::{Activation, LayerConfig, ModelConfig, Rope, RopeScaling};

impl ModelConfig {
    /// The shape of a Llama of that size:
    ///
    /// | name | layers | hidden | heads, kv | feed-forward | vocabulary | head | parameters |
    /// |---|---|---|---|---|---|---|---|
    /// | `125M` | 12 | 768 | 12, 12 | 2048 | 32,000 | own | 134 million |
    /// | `1B` | 16 | 2048 | 32, 8 | 8192 | 128,256 | tied | 1,236 million (Llama 3.2 1B) |
    /// | `8B` | 32 | 4096 | 32, 8 | 14,336 | 128,256 | own | 8,030 million (Llama 3.1 8B) |
    #[must_use]
    pub fn preset(name: &str) -> Option<ModelConfig> {
        let scaling = |factor| RopeScaling::Llama3 {
            factor,
            low_factor: 1.0,
            high_factor: 4.0,
            original_context: 8192.0,
        };
        let base = ModelConfig {
            architecture: "LlamaForCausalLM".to_owned(),
            vocabulary: 128_256,
            hidden: 2048,
            intermediate: 8192,
            experts: None,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            layers: Vec::new(),
            ropes: vec![Rope {
                theta: 500_000.0,
                scaling: scaling(32.0),
                width: 64,
            }],
            norm_epsilon: 1e-5,
            norm_offset: 0.0,
            post_norms: false,
            head_norms: false,
            qkv_bias: false,
            output_bias: false,
            sinks: false,
            activation: Activation::Silu,
            attention_scale: 0.0,
            attention_softcap: None,
            logit_softcap: None,
            embedding_scale: 1.0,
            context: 131_072,
            tied: true,
            quantization: None,
            bos_token: None,
            eos_tokens: Vec::new(),
        };
        let (layers, config) = match name {
            "125M" => (
                12,
                ModelConfig {
                    vocabulary: 32_000,
                    hidden: 768,
                    intermediate: 2048,
                    heads: 12,
                    kv_heads: 12,
                    ropes: vec![Rope {
                        theta: 10_000.0,
                        scaling: RopeScaling::None,
                        width: 64,
                    }],
                    context: 4096,
                    tied: false,
                    ..base
                },
            ),
            "1B" => (16, base),
            "8B" => (
                32,
                ModelConfig {
                    hidden: 4096,
                    intermediate: 14_336,
                    head_dim: 128,
                    ropes: vec![Rope {
                        theta: 500_000.0,
                        scaling: scaling(8.0),
                        width: 128,
                    }],
                    tied: false,
                    ..base
                },
            ),
            _ => return None,
        };
        Some(ModelConfig {
            layers: vec![
                LayerConfig {
                    window: None,
                    rope: Some(0)
                };
                layers
            ],
            attention_scale: (config.head_dim as f64).powf(-0.5),
            ..config
        })
    }
}
