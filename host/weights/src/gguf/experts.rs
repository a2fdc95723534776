//! What a GGUF header says of experts, and how their tensors lie.
//!
//! Keys and what is not written but known are those of llama.cpp (`llama-model.cpp`): Mixtral is a llama with experts.

use super::config::{Family, Reader};
use super::header::Header;
use crate::config::limits::{Sizes, at_most};
use crate::config::{ClampedGate, ConfigError, Experts, ModelConfig};
use crate::names::LayerTensor;

impl Reader<'_> {
    /// The experts, if the model has any.
    pub(super) fn experts(&self, sizes: Sizes) -> Result<Option<Experts>, ConfigError> {
        let given = |name: &str| self.keys().given(self.key(name));
        let count = given("expert_count")?;
        if count.value.unwrap_or(0) == 0 {
            return Ok(None);
        }
        if !matches!(
            self.family,
            Family::Llama | Family::Qwen2Moe | Family::Qwen3Moe | Family::GptOss
        ) {
            let found = count.value.unwrap_or(0);
            return Err(ConfigError::unsupported(count.key, found, "0 (no experts)"));
        }
        self.refuse_other_mixtures()?;
        let count_key = count.key.clone();
        let count = at_most(&count, Experts::MOST as u64)?;
        let chosen = given("expert_used_count")?;
        let chosen = match chosen.value {
            None => return Err(ConfigError::missing(chosen.key)),
            Some(value) if value >= 1 && value <= count as u64 => value as usize,
            Some(value) => {
                let limit = format!("between 1 and {count_key} {count}");
                return Err(ConfigError::out_of_range(chosen.key, value, limit));
            }
        };
        let width = given("expert_feed_forward_length")?;
        let intermediate = match (width.value, self.family) {
            (Some(_), _) => width.dimension()?,
            (None, Family::Llama | Family::GptOss) => sizes.intermediate,
            (None, _) => (sizes.intermediate / chosen).max(1),
        };
        let shared = match self.family {
            Family::Qwen2Moe => {
                let width = given("expert_shared_feed_forward_length")?;
                Some(match width.value {
                    Some(_) => width.dimension()?,
                    None => sizes.intermediate,
                })
            }
            _ => None,
        };
        let norm = self.key("expert_weights_norm");
        let layers: Vec<bool> = (0..sizes.layers)
            .map(|layer| self.there(&format!("blk.{layer}.ffn_gate_inp.weight")))
            .collect();
        if !layers.contains(&true) {
            return Err(ConfigError::unsupported(
                count_key,
                count,
                "0 where no layer has the tensor ffn_gate_inp.weight",
            ));
        }
        Ok(Some(Experts {
            count,
            chosen,
            intermediate,
            normalized: self
                .keys()
                .flag(&norm)?
                .unwrap_or(self.family != Family::Qwen2Moe),
            shared,
            layers,
            // No key says it.
            clamped: (self.family == Family::GptOss).then_some(ClampedGate::PUBLISHED),
        }))
    }

    /// What changes the weights of experts in families that are not read.
    fn refuse_other_mixtures(&self) -> Result<(), ConfigError> {
        let scale = self.key("expert_weights_scale");
        if let Some(factor) = self
            .keys()
            .number(&scale)?
            .filter(|factor| ![0.0, 1.0].contains(factor))
        {
            return Err(ConfigError::unsupported(scale, factor, "1"));
        }
        // 1 is the softmax, 3 that of the chosen; 0 is written where it is not said.
        let gating = self.key("expert_gating_func");
        let known = |of: &u64| *of <= 1 || (*of == 3 && self.family == Family::GptOss);
        if let Some(function) = self.keys().count(&gating)?.filter(|of| !known(of)) {
            return Err(ConfigError::unsupported(gating, function, "1 (softmax)"));
        }
        let groups = self.key("expert_group_count");
        if let Some(count) = self.keys().count(&groups)?.filter(|count| *count > 1) {
            return Err(ConfigError::unsupported(groups, count, "1"));
        }
        Ok(())
    }
}

/// Where an expert's matrix lies: the name of a tensor, and the number of the matrix among those that lie there one after
/// another; none if it is a tensor by itself.
pub(super) fn place(
    header: &Header,
    layer: usize,
    part: LayerTensor,
) -> Option<(String, Option<usize>)> {
    let (name, expert) = match part {
        LayerTensor::ExpertGate(expert) => ("ffn_gate", expert),
        LayerTensor::ExpertUp(expert) => ("ffn_up", expert),
        LayerTensor::ExpertDown(expert) => ("ffn_down", expert),
        _ => return None,
    };
    let together = format!("blk.{layer}.{name}_exps.weight");
    // As files were until April 2024. Beside those that lie together none is read: which of the two is meant, nothing says.
    let alone = format!("blk.{layer}.{name}.{expert}.weight");
    if header.tensors.contains_key(&alone) && !header.tensors.contains_key(&together) {
        return Some((alone, None));
    }
    Some((together, Some(expert)))
}

/// Where the bias of an expert's matrix lies: the tensor, and the number of its row there.
pub(super) fn bias_place(layer: usize, part: LayerTensor) -> Option<(String, usize)> {
    let (name, expert) = match part {
        LayerTensor::ExpertGateBias(expert) => ("ffn_gate", expert),
        LayerTensor::ExpertUpBias(expert) => ("ffn_up", expert),
        LayerTensor::ExpertDownBias(expert) => ("ffn_down", expert),
        _ => return None,
    };
    Some((format!("blk.{layer}.{name}_exps.bias"), expert))
}

/// Matrices that lie one after another where experts do.
pub(super) fn together(config: &ModelConfig, layer: usize) -> usize {
    config.experts_of(layer).map_or(0, |experts| experts.count)
}
