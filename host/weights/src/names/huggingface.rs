//! The names that the transformers library gives to tensors (`modeling_*.py` of each family).

use super::{DecoderTensor, LayerTensor};
use crate::config::ModelConfig;

/// The name of a decoder's tensor below `prefix` (`model.`). The matrices of gpt-oss's experts, which lie together as they are
/// published, have these names where they lie apart: as `convert` writes them.
pub(crate) fn decoder_name(config: &ModelConfig, prefix: &str, tensor: DecoderTensor) -> String {
    let (layer, tensor) = match tensor {
        DecoderTensor::Embedding => return format!("{prefix}embed_tokens.weight"),
        DecoderTensor::FinalNorm => return format!("{prefix}norm.weight"),
        DecoderTensor::Head => return "lm_head.weight".to_owned(),
        DecoderTensor::Layer(layer, tensor) => (layer, tensor),
    };
    let part = match tensor {
        LayerTensor::AttentionNorm => "input_layernorm.weight",
        LayerTensor::Query => "self_attn.q_proj.weight",
        LayerTensor::QueryBias => "self_attn.q_proj.bias",
        LayerTensor::Key => "self_attn.k_proj.weight",
        LayerTensor::KeyBias => "self_attn.k_proj.bias",
        LayerTensor::Value => "self_attn.v_proj.weight",
        LayerTensor::ValueBias => "self_attn.v_proj.bias",
        LayerTensor::QueryNorm => "self_attn.q_norm.weight",
        LayerTensor::KeyNorm => "self_attn.k_norm.weight",
        LayerTensor::Output => "self_attn.o_proj.weight",
        LayerTensor::OutputBias => "self_attn.o_proj.bias",
        LayerTensor::Sinks => "self_attn.sinks",
        // Where there is no norm after attention, the name means the norm before the feed-forward layer.
        LayerTensor::MlpNorm if config.post_norms => "pre_feedforward_layernorm.weight",
        LayerTensor::MlpNorm | LayerTensor::PostAttentionNorm => "post_attention_layernorm.weight",
        LayerTensor::Gate => "mlp.gate_proj.weight",
        LayerTensor::Up => "mlp.up_proj.weight",
        LayerTensor::Down => "mlp.down_proj.weight",
        LayerTensor::PostMlpNorm => "post_feedforward_layernorm.weight",
        of_experts => return expert_name(config, prefix, layer, of_experts),
    };
    format!("{prefix}layers.{layer}.{part}")
}

/// The name of what only layers with experts have.
fn expert_name(config: &ModelConfig, prefix: &str, layer: usize, tensor: LayerTensor) -> String {
    let experts = config.experts.as_ref();
    let clamped = experts.is_some_and(|experts| experts.clamped.is_some());
    // Of the other families with experts Mixtral alone has neither a shared one nor norms of heads.
    let shared = experts.and_then(|experts| experts.shared);
    let mixtral = !config.head_norms && shared.is_none() && !clamped;
    let expert = |number: usize, [ours, mixtrals]: [&str; 2]| match mixtral {
        true => format!("block_sparse_moe.experts.{number}.{mixtrals}.weight"),
        false => format!("mlp.experts.{number}.{ours}.weight"),
    };
    let part = match tensor {
        LayerTensor::ExpertGate(number) => expert(number, ["gate_proj", "w1"]),
        LayerTensor::ExpertUp(number) => expert(number, ["up_proj", "w3"]),
        LayerTensor::ExpertDown(number) => expert(number, ["down_proj", "w2"]),
        LayerTensor::ExpertGateBias(number) => format!("mlp.experts.{number}.gate_proj.bias"),
        LayerTensor::ExpertUpBias(number) => format!("mlp.experts.{number}.up_proj.bias"),
        LayerTensor::ExpertDownBias(number) => format!("mlp.experts.{number}.down_proj.bias"),
        LayerTensor::Router if clamped => "mlp.router.weight".to_owned(),
        LayerTensor::RouterBias => "mlp.router.bias".to_owned(),
        LayerTensor::Router if mixtral => "block_sparse_moe.gate.weight".to_owned(),
        LayerTensor::SharedRouter => "mlp.shared_expert_gate.weight".to_owned(),
        LayerTensor::SharedGate => "mlp.shared_expert.gate_proj.weight".to_owned(),
        LayerTensor::SharedUp => "mlp.shared_expert.up_proj.weight".to_owned(),
        LayerTensor::SharedDown => "mlp.shared_expert.down_proj.weight".to_owned(),
        _ => "mlp.gate.weight".to_owned(),
    };
    format!("{prefix}layers.{layer}.{part}")
}

/// The layer that a tensor of this name belongs to; none if it belongs to no layer.
pub(crate) fn decoder_layer_of(prefix: &str, name: &str) -> Option<usize> {
    number_after(name.strip_prefix(prefix)?, "layers.")
}

/// The number between `before` and the next dot.
pub(super) fn number_after(name: &str, before: &str) -> Option<usize> {
    let (number, _) = name.strip_prefix(before)?.split_once('.')?;
    number.parse().ok()
}
