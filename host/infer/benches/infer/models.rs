//! Random models of a given shape, written to a temporary directory.

use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

/// A model's sizes.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) vocabulary: usize,
}

/// The model of `examples/support-bot`.
pub(crate) const DEMO: Shape = Shape {
    name: "demo",
    hidden: 128,
    intermediate: 384,
    layers: 5,
    heads: 4,
    kv_heads: 2,
    head_dim: 32,
    vocabulary: 2048,
};

/// Some 125 million parameters.
pub(crate) const SMALL: Shape = Shape {
    name: "125m",
    hidden: 768,
    intermediate: 2048,
    layers: 12,
    heads: 12,
    kv_heads: 4,
    head_dim: 64,
    vocabulary: 32_000,
};

/// `count` f16 elements in -0.5..0.5, little-endian.
pub(crate) fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut bytes = Vec::with_capacity(count * 2);
    for _ in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Exponents 12 and 13 of f16, either sign: magnitudes from 0.125 to 0.5.
        let bits = ((state >> 16) as u16 & 0x87ff) | 0x3000;
        bytes.extend(bits.to_le_bytes());
    }
    bytes
}

impl Shape {
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let (hidden, intermediate) = (self.hidden, self.intermediate);
        let mut tensors = vec![
            (
                "model.embed_tokens.weight".to_owned(),
                vec![self.vocabulary, hidden],
            ),
            ("model.norm.weight".to_owned(), vec![hidden]),
        ];
        for layer in 0..self.layers {
            let parts = [
                ("input_layernorm", vec![hidden]),
                ("post_attention_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![query, hidden]),
                ("self_attn.k_proj", vec![key, hidden]),
                ("self_attn.v_proj", vec![key, hidden]),
                ("self_attn.o_proj", vec![hidden, query]),
                ("mlp.gate_proj", vec![intermediate, hidden]),
                ("mlp.up_proj", vec![intermediate, hidden]),
                ("mlp.down_proj", vec![hidden, intermediate]),
            ];
            tensors.extend(
                parts.map(|(part, shape)| (format!("model.layers.{layer}.{part}.weight"), shape)),
            );
        }
        tensors
    }

    /// Writes `config.json` and `model.safetensors` with f16 weights.
    pub(crate) fn write(&self) -> Result<TempDir, Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let config = serde_json::json!({
            "architectures": ["LlamaForCausalLM"], "vocab_size": self.vocabulary, "hidden_size": self.hidden,
            "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
        });
        std::fs::write(directory.path().join("config.json"), config.to_string())?;
        let data: Vec<_> = self
            .tensors()
            .into_iter()
            .map(|(name, shape)| {
                let bytes = noise(shape.iter().product());
                (name, shape, bytes)
            })
            .collect();
        let views = data
            .iter()
            .map(|(name, shape, bytes)| {
                Ok((
                    name.as_str(),
                    TensorView::new(Dtype::F16, shape.clone(), bytes)?,
                ))
            })
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        safetensors::serialize_to_file(views, None, &directory.path().join("model.safetensors"))?;
        Ok(directory)
    }
}
