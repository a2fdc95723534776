//! Encoders in GGUF files: BERT, Nomic BERT, and decoders whose rows make vectors.
//!
//! Keys, names and what is not written but known are those of llama.cpp (`BertModel` and `NomicBertModel` of
//! `convert_hf_to_gguf.py`, `llama-arch.cpp`, `llama-model.cpp`). No key names the function of a feed-forward layer: it is GELU, which the
//! models' makers compute by the error function and llama.cpp by a table of its approximation by tanh, and SiLU of Nomic.

use super::config::{Family, Reader};
use super::lookup::Lookup;
use crate::config::limits::{self, Given, Sizes};
use crate::config::{
    Activation, ConfigError, EncoderBiases, EncoderConfig, EncoderHead, EncoderLayer, Pooling,
    Rope, RopeScaling, TextPrompts, embedding_decoder,
};
use crate::error::TensorError;
use crate::names::{EncoderLayerTensor as Part, EncoderTensor, of_decoder};
use crate::tensor::Tensor;

/// `enum llama_pooling_type`.
const POOLINGS: [(u64, Pooling); 3] = [(1, Pooling::Mean), (2, Pooling::First), (3, Pooling::Last)];

/// Where texts and pairs of them are scored instead.
const RANK: u64 = 4;

impl Reader<'_> {
    /// An encoder, whose rows make a vector: GGUF files of other uses are refused.
    pub(super) fn encoder(&self) -> Result<EncoderConfig, ConfigError> {
        let nomic = self.family == Family::NomicBert;
        self.refuse_other_encoders()?;
        let sizes = self.sizes()?.check()?;
        let types = match self.rows("token_types.weight") {
            None => 0,
            Some(rows) => rows.dimension()?,
        };
        let positions = match self.rows("position_embd.weight") {
            _ if nomic => 0,
            // The check of tensors says that they are missing.
            None => sizes.context,
            Some(rows) => rows.dimension()?,
        };
        let epsilon = self.key("attention.layer_norm_epsilon");
        let norm_epsilon = match self.keys().number(&epsilon)? {
            Some(value) => limits::epsilon(&epsilon, value)?,
            None => return Err(ConfigError::missing(epsilon)),
        };
        Ok(EncoderConfig {
            architecture: self.name.to_owned(),
            vocabulary: sizes.vocabulary,
            hidden: sizes.hidden,
            intermediate: sizes.intermediate,
            layers: vec![
                EncoderLayer {
                    reach: None,
                    rope: nomic.then_some(0),
                };
                sizes.layers
            ],
            ropes: match nomic {
                true => vec![self.encoder_rope(sizes)?],
                false => Vec::new(),
            },
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            causal: false,
            head_norms: false,
            norm_epsilon,
            rms_norms: false,
            first_norm: true,
            pre_norm: false,
            biases: EncoderBiases {
                heads: !nomic,
                output: !nomic,
                feed_forward: !nomic,
                norms: true,
            },
            activation: match nomic {
                true => Activation::Silu,
                false => Activation::Gelu,
            },
            gated: nomic,
            positions,
            // Of the RoBERTa family the converter leaves out the rows before the first.
            first_position: 0,
            types,
            context: match nomic {
                true => sizes.context,
                false => sizes.context.min(positions),
            },
            head: EncoderHead::Embedding(self.pooling()?),
            // No key says them.
            prompts: TextPrompts::default(),
            scoring: None,
            quantization: None,
            decoder: None,
        })
    }

    /// How the rows of a decoder are pooled that was converted for embeddings; nothing of one that makes text. One that was converted
    /// to score texts has lost the head that makes text.
    pub(super) fn embeds(&self) -> Result<Option<Pooling>, ConfigError> {
        let key = self.key("pooling_type");
        let number = self.keys().count(&key)?.filter(|number| *number != 0);
        let Some(number) = number else {
            return Ok(None);
        };
        let pooling = self.known_pooling(number)?;
        if matches!(self.family, Family::Llama | Family::Qwen2 | Family::Qwen3) {
            return Ok(Some(pooling));
        }
        let supported = format!(
            "0 (none) for {}; 1, 2 and 3 for qwen3, qwen2, llama",
            self.name
        );
        Err(ConfigError::unsupported(key, number, supported))
    }

    /// A decoder for embeddings, of whose layers encoders have all.
    pub(super) fn embedding(&self, pooling: Pooling) -> Result<EncoderConfig, ConfigError> {
        let decoder = self.read()?;
        if let Some(experts) = &decoder.experts {
            let key = self.key("expert_count");
            return Err(ConfigError::unsupported(
                key,
                experts.count,
                "0 for embeddings",
            ));
        }
        let usual = (decoder.head_dim as f64).powf(-0.5);
        if (decoder.attention_scale - usual).abs() > 1e-6 * usual {
            let key = self.key("attention.scale");
            let supported = format!("{usual} for embeddings");
            return Err(ConfigError::unsupported(
                key,
                decoder.attention_scale,
                supported,
            ));
        }
        let context = decoder.context;
        Ok(embedding_decoder(decoder, pooling, context))
    }

    fn refuse_other_encoders(&self) -> Result<(), ConfigError> {
        let key = self.key("attention.causal");
        if self.keys().flag(&key)? == Some(true) {
            return Err(ConfigError::unsupported(key, true, "false"));
        }
        let keys = self.keys().given(self.key("attention.head_count_kv"))?;
        let heads = self.keys().count(&self.key("attention.head_count"))?;
        if let (Some(found), Some(heads)) = (keys.value, heads)
            && found != heads
        {
            let supported = format!("as many as queries have, {heads}");
            return Err(ConfigError::unsupported(keys.key, found, supported));
        }
        for name in ["expert_count", "moe_every_n_layers"] {
            let key = self.key(name);
            if let Some(count) = self.keys().count(&key)?.filter(|count| *count > 0) {
                return Err(ConfigError::unsupported(key, count, "0"));
            }
        }
        let key = self.key("rope.scaling.type");
        match self.keys().text(&key)? {
            Some("none") => {}
            Some(kind) => return Err(ConfigError::unsupported(key, kind, "none")),
            // As of decoders, a factor without a type would be linear.
            None => {
                for name in ["rope.scaling.factor", "rope.scale_linear"] {
                    let key = self.key(name);
                    let factor = self.keys().number(&key)?;
                    if let Some(factor) = factor.filter(|factor| ![0.0, 1.0].contains(factor)) {
                        return Err(ConfigError::unsupported(key, factor, "1"));
                    }
                }
            }
        }
        if self.family == Family::NomicBert && self.there("position_embd.weight") {
            let rotary = "rotary positions";
            return Err(ConfigError::unsupported(
                "position_embd.weight",
                "there",
                rotary,
            ));
        }
        let mut others = vec![
            ("attn_q_norm.weight", "no norms of queries and keys"),
            ("attn_norm.weight", "norms after sums alone"),
            ("ffn_gate_inp.weight", "no experts"),
            ("ffn_up_exps.weight", "no experts"),
        ];
        match self.family {
            Family::NomicBert => {
                let biases = [
                    "attn_qkv.bias",
                    "attn_q.bias",
                    "attn_k.bias",
                    "attn_v.bias",
                    "attn_output.bias",
                    "ffn_gate.bias",
                    "ffn_up.bias",
                    "ffn_down.bias",
                ];
                others.extend(biases.map(|bias| (bias, "matrices without biases")));
            }
            _ => others.push(("ffn_gate.weight", "feed-forward layers without gates")),
        }
        for (part, supported) in others {
            if let Some(tensor) = self.in_a_block(part) {
                return Err(ConfigError::unsupported(tensor, "there", supported));
            }
        }
        Ok(())
    }

    /// Rows of a table, by its shape.
    fn rows(&self, tensor: &str) -> Option<Given> {
        let entry = self.header.tensors.get(tensor)?;
        Some(Given {
            key: format!("rows of {tensor}"),
            value: Some(entry.shape.get(1).map_or(1, |rows| *rows as u64)),
        })
    }

    fn encoder_rope(&self, sizes: Sizes) -> Result<Rope, ConfigError> {
        let width = self.keys().given(self.key("rope.dimension_count"))?;
        if let Some(found) = width.value.filter(|found| *found != sizes.head_dim as u64) {
            let supported = format!("the width of a head, {}", sizes.head_dim);
            return Err(ConfigError::unsupported(width.key, found, supported));
        }
        let key = self.key("rope.freq_base");
        Ok(Rope {
            theta: limits::theta(&key, self.keys().number(&key)?.unwrap_or(10_000.0))?,
            scaling: RopeScaling::None,
            width: sizes.head_dim,
        })
    }

    /// Where nothing is said it is the mean, as sentence-transformers takes it.
    fn pooling(&self) -> Result<Pooling, ConfigError> {
        let number = self.keys().count(&self.key("pooling_type"))?;
        number.map_or(Ok(Pooling::Mean), |number| self.known_pooling(number))
    }

    fn known_pooling(&self, number: u64) -> Result<Pooling, ConfigError> {
        if let Some((_, pooling)) = POOLINGS.iter().find(|(known, _)| *known == number) {
            return Ok(*pooling);
        }
        let found = match number {
            0 => "0 (none)".to_owned(),
            RANK => format!("{RANK} (rank: a reranker or a classifier)"),
            number => number.to_string(),
        };
        let mut supported = "1 (mean), 2 (first token), 3 (last token)".to_owned();
        if number == RANK {
            supported += "; rerankers and classifiers are encoders by their directories";
        }
        let key = self.key("pooling_type");
        Err(ConfigError::unsupported(key, found, supported))
    }
}

impl<'a> Lookup<'a> {
    pub(super) fn encoder_tensor(
        self,
        config: &EncoderConfig,
        tensor: EncoderTensor,
        shape: &[usize],
    ) -> Result<Tensor<'a>, TensorError> {
        let absent = || TensorError::Absent {
            tensor: format!("{tensor:?}"),
        };
        if let Some(decoder) = &config.decoder {
            let tensor = of_decoder(tensor).ok_or_else(absent)?;
            return self.tensor(decoder, tensor, shape);
        }
        let name = name(tensor).ok_or_else(absent)?;
        if let EncoderTensor::Layer(layer, part) = tensor
            && let Some((number, kind)) = of_fused(part)
        {
            let fused = format!("blk.{layer}.attn_qkv.{kind}");
            if self.header.tensors.contains_key(&fused) {
                return self.fused(config, fused, number, shape);
            }
        }
        self.whole(name, shape)
    }

    /// Queries, keys or values out of a tensor that holds all three: rows of a matrix, elements of a bias.
    fn fused(
        self,
        config: &EncoderConfig,
        name: String,
        number: usize,
        shape: &[usize],
    ) -> Result<Tensor<'a>, TensorError> {
        let (query, key) = (
            config.heads * config.head_dim,
            config.kv_heads * config.head_dim,
        );
        let before = [0, query, query + key].get(number).copied().unwrap_or(0);
        let all = query + 2 * key;
        match *shape {
            [rows, width] => {
                let mut part = self.whole(name, &[all, width])?;
                (part.rows, part.order.first) = (rows, before);
                Ok(part)
            }
            // There are as many keys as queries, so a bias is the first, second or third of three rows.
            _ => {
                let mut part = self.whole(name, &[all])?;
                (part.width, part.order.first) = (query, number);
                Ok(part)
            }
        }
    }
}

/// Which of three a part is where queries, keys and values are one tensor, and the end of its name.
fn of_fused(part: Part) -> Option<(usize, &'static str)> {
    match part {
        Part::Query => Some((0, "weight")),
        Part::Key => Some((1, "weight")),
        Part::Value => Some((2, "weight")),
        Part::QueryBias => Some((0, "bias")),
        Part::KeyBias => Some((1, "bias")),
        Part::ValueBias => Some((2, "bias")),
        _ => None,
    }
}

/// The name of a tensor (`gguf-py/gguf/constants.py`); none of what these encoders do not have.
fn name(tensor: EncoderTensor) -> Option<String> {
    let (layer, part) = match tensor {
        EncoderTensor::Words => return Some("token_embd.weight".to_owned()),
        EncoderTensor::Positions => return Some("position_embd.weight".to_owned()),
        EncoderTensor::Types => return Some("token_types.weight".to_owned()),
        EncoderTensor::Norm => return Some("token_embd_norm.weight".to_owned()),
        EncoderTensor::NormBias => return Some("token_embd_norm.bias".to_owned()),
        EncoderTensor::Layer(layer, part) => (layer, part),
        _ => return None,
    };
    let part = match part {
        Part::Query => "attn_q.weight",
        Part::QueryBias => "attn_q.bias",
        Part::Key => "attn_k.weight",
        Part::KeyBias => "attn_k.bias",
        Part::Value => "attn_v.weight",
        Part::ValueBias => "attn_v.bias",
        Part::Output => "attn_output.weight",
        Part::OutputBias => "attn_output.bias",
        Part::OutputNorm => "attn_output_norm.weight",
        Part::OutputNormBias => "attn_output_norm.bias",
        Part::Gate => "ffn_gate.weight",
        Part::Up => "ffn_up.weight",
        Part::UpBias => "ffn_up.bias",
        Part::Down => "ffn_down.weight",
        Part::DownBias => "ffn_down.bias",
        Part::DownNorm => "layer_output_norm.weight",
        Part::DownNormBias => "layer_output_norm.bias",
        _ => return None,
    };
    Some(format!("blk.{layer}.{part}"))
}
