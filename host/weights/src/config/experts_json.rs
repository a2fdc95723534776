//! What `config.json` says of experts.

use serde_json::Value;

use super::family::{Family, Mixture};
use super::limits::{Given, at_most, positive};
use super::raw::Raw;
use super::{ClampedGate, ConfigError, Experts};

impl Family {
    /// The experts, if a layer of so many has any.
    pub(super) fn experts(
        &self,
        config: Raw<'_>,
        layers: usize,
    ) -> Result<Option<Experts>, ConfigError> {
        let Some(mixture) = &self.mixture else {
            return Ok(None);
        };
        // Files of transformers 5 have the second name.
        let [own, other] = mixture.count_keys;
        let key = if config.get(own).is_none() && config.get(other).is_some() {
            other
        } else {
            own
        };
        let count = config.given(key, Some(mixture.count))?;
        if count.value == Some(0) && mixture.may_be_dense {
            return Ok(None);
        }
        let count = at_most(&count, Experts::MOST as u64)?;
        let chosen = config.given("num_experts_per_tok", Some(mixture.chosen))?;
        let chosen = at_most_of(&chosen, count, key)?;
        let has = mixture.layers(config, layers)?;
        if !has.contains(&true) {
            return Ok(None);
        }
        let shared = match mixture.shared {
            Some(default) => Some(
                config
                    .given("shared_expert_intermediate_size", Some(default))?
                    .dimension()?,
            ),
            None => None,
        };
        Ok(Some(Experts {
            count,
            chosen,
            intermediate: config
                .given(mixture.intermediate.0, mixture.intermediate.1)?
                .dimension()?,
            normalized: mixture.normalized || config.flag("norm_topk_prob")?,
            shared,
            layers: has,
            clamped: match self.gpt_oss {
                true => Some(clamped_gate(config)?),
                false => None,
            },
        }))
    }
}

/// What is between the matrices of gpt-oss's experts.
fn clamped_gate(config: Raw<'_>) -> Result<ClampedGate, ConfigError> {
    let number = |key: &'static str, default: f64| {
        let number = config.number(key)?.unwrap_or(default);
        positive(key, number)
    };
    Ok(ClampedGate {
        slope: number("swiglu_alpha", ClampedGate::PUBLISHED.slope)?,
        limit: number("swiglu_limit", ClampedGate::PUBLISHED.limit)?,
    })
}

/// How many experts a row goes through: of `count` that there are under `key`.
fn at_most_of(chosen: &Given, count: usize, key: &str) -> Result<usize, ConfigError> {
    match chosen.value {
        Some(value) if value >= 1 && value <= count as u64 => Ok(value as usize),
        Some(value) => {
            let limit = format!("between 1 and {key} {count}");
            Err(ConfigError::out_of_range(&chosen.key, value, limit))
        }
        None => Err(ConfigError::missing(&chosen.key)),
    }
}

impl Mixture {
    /// Whether each layer has experts.
    fn layers(&self, config: Raw<'_>, layers: usize) -> Result<Vec<bool>, ConfigError> {
        if !self.may_be_dense {
            return Ok(vec![true; layers]);
        }
        let every = config.given("decoder_sparse_step", Some(1))?.dimension()?;
        let key = "mlp_only_layers";
        let mut dense = Vec::new();
        for layer in config.list(key)?.unwrap_or_default() {
            let number = Value::as_u64(layer).ok_or_else(|| {
                ConfigError::out_of_range(key, layer, "a list of whole numbers, not negative")
            })?;
            dense.push(number);
        }
        Ok((0..layers as u64)
            .map(|layer| !dense.contains(&layer) && (layer + 1).is_multiple_of(every as u64))
            .collect())
    }
}
