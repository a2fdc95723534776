//! What `config.json` says layer by layer: windows, and which rotary table each layer turns by.

use serde_json::Value;

use super::family::{Family, Gemma, Windows};
use super::limits::Sizes;
use super::raw::Raw;
use super::rope_json::{self, Around};
use super::{ConfigError, LayerConfig, Rope};

impl Family {
    /// The rotary tables, and every layer.
    pub(super) fn layers(
        &self,
        config: Raw<'_>,
        sizes: Sizes,
    ) -> Result<(Vec<Rope>, Vec<LayerConfig>), ConfigError> {
        let windows = self.windows(config, sizes.layers)?;
        let (ropes, turns) = self.ropes(config, sizes, &windows)?;
        let layers = windows
            .into_iter()
            .zip(turns)
            .map(|(window, rope)| LayerConfig { window, rope });
        Ok((ropes, layers.collect()))
    }

    /// The window of each layer.
    fn windows(&self, config: Raw<'_>, layers: usize) -> Result<Vec<Option<usize>>, ConfigError> {
        let default = match self.windows {
            Windows::Nowhere => return Ok(vec![None; layers]),
            Windows::Everywhere(default) => default,
            Windows::EveryOther(default) => Some(default),
            Windows::WhereNotTurning => None,
            Windows::ByFlag | Windows::EarlyOdd | Windows::Late | Windows::AllButEvery(_) => {
                Some(4096)
            }
        };
        let given = config.given("sliding_window", default)?;
        let by_flag = matches!(
            self.windows,
            Windows::ByFlag | Windows::EarlyOdd | Windows::Late | Windows::WhereNotTurning
        );
        if given.value.is_none() || (by_flag && !config.flag("use_sliding_window")?) {
            return Ok(vec![None; layers]);
        }
        let window = given.dimension()?;
        let sliding = match self.windows {
            Windows::Everywhere(_) | Windows::ByFlag | Windows::Nowhere => vec![true; layers],
            _ => match self.layer_types(config, layers)? {
                Some(sliding) => sliding,
                None => self.sliding_by_rule(config, layers)?,
            },
        };
        Ok(sliding
            .into_iter()
            .map(|sliding| sliding.then_some(window))
            .collect())
    }

    /// Whether each layer slides, if the file says so layer by layer.
    fn layer_types(
        &self,
        config: Raw<'_>,
        layers: usize,
    ) -> Result<Option<Vec<bool>>, ConfigError> {
        let Some(types) = config.list("layer_types")? else {
            return Ok(None);
        };
        if types.len() != layers {
            let limit = format!("one for each of num_hidden_layers {layers}");
            return Err(ConfigError::out_of_range(
                "layer_types",
                format!("a list of {}", types.len()),
                limit,
            ));
        }
        let one = |kind: &Value| match kind.as_str() {
            Some("sliding_attention") => Ok(true),
            Some("full_attention") => Ok(false),
            _ => Err(ConfigError::unsupported(
                "layer_types",
                kind,
                "full_attention, sliding_attention",
            )),
        };
        types.iter().map(one).collect::<Result<_, _>>().map(Some)
    }

    fn sliding_by_rule(&self, config: Raw<'_>, layers: usize) -> Result<Vec<bool>, ConfigError> {
        Ok(match self.windows {
            Windows::EarlyOdd => {
                let end = config.count("max_window_layers")?.unwrap_or(28);
                (0..layers as u64)
                    .map(|layer| layer.is_multiple_of(2) && layer < end)
                    .collect()
            }
            Windows::Late => {
                let first = config.count("max_window_layers")?.unwrap_or(28);
                (0..layers).map(|layer| layer as u64 >= first).collect()
            }
            Windows::WhereNotTurning => self
                .turning(config, layers)?
                .iter()
                .map(|turns| !turns)
                .collect(),
            Windows::AllButEvery(every) => {
                // The older spelling of Gemma 3's files.
                let every = match self.gemma {
                    Some(Gemma::Three) => config.count("sliding_window_pattern")?.unwrap_or(every),
                    _ => every,
                };
                if every == 0 {
                    return Err(ConfigError::out_of_range(
                        "sliding_window_pattern",
                        every,
                        "above 0",
                    ));
                }
                (1..=layers as u64)
                    .map(|layer| !layer.is_multiple_of(every))
                    .collect()
            }
            Windows::EveryOther(_) => (0..layers).map(|layer| layer.is_multiple_of(2)).collect(),
            Windows::Everywhere(_) | Windows::ByFlag | Windows::Nowhere => vec![true; layers],
        })
    }

    /// Whether each layer turns its queries and keys.
    fn turning(&self, config: Raw<'_>, layers: usize) -> Result<Vec<bool>, ConfigError> {
        if self.windows != Windows::WhereNotTurning {
            return Ok(vec![true; layers]);
        }
        if let Some(list) = config.list("no_rope_layers")? {
            if list.len() < layers {
                let limit = format!("one for each of num_hidden_layers {layers}");
                return Err(ConfigError::out_of_range(
                    "no_rope_layers",
                    format!("a list of {}", list.len()),
                    limit,
                ));
            }
            let one = |value: &Value| match value.as_u64() {
                Some(turns @ 0..=1) => Ok(turns == 1),
                _ => Err(ConfigError::out_of_range(
                    "no_rope_layers",
                    value,
                    "a list of 0 and 1",
                )),
            };
            return list[..layers].iter().map(one).collect();
        }
        let interval = config
            .given("no_rope_layer_interval", Some(4))?
            .dimension()?;
        Ok((1..=layers)
            .map(|layer| !layer.is_multiple_of(interval))
            .collect())
    }

    /// The rotary tables, and which each layer turns by.
    #[allow(clippy::type_complexity, reason = "two lists that belong together")]
    fn ropes(
        &self,
        config: Raw<'_>,
        sizes: Sizes,
        windows: &[Option<usize>],
    ) -> Result<(Vec<Rope>, Vec<Option<usize>>), ConfigError> {
        let around = Around {
            config,
            theta_key: "rope_theta",
            theta: self.theta,
            head_dim: sizes.head_dim,
            context: sizes.context,
            phi3: self.phi3,
        };
        if self.gemma == Some(Gemma::Three) {
            let local = Around {
                theta_key: "rope_local_base_freq",
                theta: 10_000.0,
                ..around
            };
            // Version 5 has an object for each type of layer, version 4 scales the layers with full attention alone.
            let nested = config.object("rope_parameters")?;
            let (full, sliding) = match nested {
                Some(nested) => (
                    nested.object("full_attention")?,
                    nested.object("sliding_attention")?,
                ),
                None => (config.object("rope_scaling")?, None),
            };
            let ropes = vec![
                rope_json::rope(around, full)?,
                rope_json::rope(local, sliding)?,
            ];
            let turns = windows
                .iter()
                .map(|window| Some(usize::from(window.is_some())));
            return Ok((ropes, turns.collect()));
        }
        let parameters = rope_json::parameters(config)?;
        if self.gpt_oss && parameters.is_none() {
            // transformers takes another table there than nothing.
            return Err(ConfigError::missing("rope_parameters, rope_scaling"));
        }
        let rope = rope_json::rope(around, parameters)?;
        let turns = self.turning(config, sizes.layers)?;
        Ok((
            vec![rope],
            turns.into_iter().map(|turns| turns.then_some(0)).collect(),
        ))
    }
}
