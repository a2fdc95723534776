//! What `config.json` says of rotary positions, in the spelling of transformers 4 (`rope_theta`, `rope_scaling`) or 5
//! (`rope_parameters`).

use serde_json::Value;

use super::raw::Raw;
use super::{ConfigError, Rope, RopeScaling, limits};

const SUPPORTED: &str = "default, linear, llama3, yarn, longrope";

/// What a rotary table depends on beside its own keys.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// The whole configuration.
    pub(super) config: Raw<'a>,
    /// Where theta stands outside `rope_parameters`.
    pub(super) theta_key: &'static str,
    /// Theta where nothing is said.
    pub(super) theta: f64,
    pub(super) head_dim: usize,
    pub(super) context: usize,
    /// Phi-3: `su` and `yarn` are older names of `longrope`, and the original context is 4096 where nothing is said.
    pub(super) phi3: bool,
}

/// The object that holds the parameters of a model with one table.
pub(super) fn parameters<'a>(config: Raw<'a>) -> Result<Option<Raw<'a>>, ConfigError> {
    match config.object("rope_parameters")? {
        Some(parameters) => Ok(Some(parameters)),
        None => config.object("rope_scaling"),
    }
}

/// The table that `parameters` describe; the plain one if there are none.
pub(super) fn rope(around: Around<'_>, parameters: Option<Raw<'_>>) -> Result<Rope, ConfigError> {
    let Around {
        config,
        theta_key,
        head_dim,
        ..
    } = around;
    let own = |key| match parameters {
        Some(parameters) => parameters.number(key),
        None => Ok(None),
    };
    let theta = match own("rope_theta")? {
        Some(theta) => limits::theta("rope_theta", theta)?,
        None => limits::theta(theta_key, config.number(theta_key)?.unwrap_or(around.theta))?,
    };
    let part = match own("partial_rotary_factor")? {
        Some(part) => part,
        None => config.number("partial_rotary_factor")?.unwrap_or(1.0),
    };
    if !(part > 0.0 && part <= 1.0) {
        return Err(ConfigError::out_of_range(
            "partial_rotary_factor",
            part,
            "above 0 and at most 1",
        ));
    }
    let width = (head_dim as f64 * part) as usize;
    if width == 0 || !width.is_multiple_of(2) {
        let limit = format!("such that an even number of the {head_dim} elements of a head turn");
        return Err(ConfigError::out_of_range(
            "partial_rotary_factor",
            part,
            limit,
        ));
    }
    let scaling = match parameters {
        None => RopeScaling::None,
        Some(parameters) => scaling(around, parameters, width)?,
    };
    Ok(Rope {
        theta,
        scaling,
        width,
    })
}

fn scaling(
    around: Around<'_>,
    parameters: Raw<'_>,
    width: usize,
) -> Result<RopeScaling, ConfigError> {
    let kind = match parameters.text("rope_type")? {
        None => parameters.text("type")?,
        some => some,
    };
    let number = |key: &'static str| match parameters.number(key)? {
        Some(number) => limits::positive(key, number),
        None => Err(ConfigError::out_of_range(
            key,
            "missing",
            "a number above 0",
        )),
    };
    let optional = |key: &'static str| match parameters.number(key)? {
        Some(number) => limits::positive(key, number).map(Some),
        None => Ok(None),
    };
    match kind {
        // A `rope_parameters` with nothing but theta names no type.
        None | Some("default") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear {
            factor: number("factor")?,
        }),
        Some("llama3") => {
            let (low_factor, high_factor) =
                (number("low_freq_factor")?, number("high_freq_factor")?);
            if high_factor <= low_factor {
                let limit = format!("above low_freq_factor {low_factor}");
                return Err(ConfigError::out_of_range(
                    "high_freq_factor",
                    high_factor,
                    limit,
                ));
            }
            Ok(RopeScaling::Llama3 {
                factor: number("factor")?,
                low_factor,
                high_factor,
                original_context: original_context(around, parameters)?,
            })
        }
        Some("longrope") => long_rope(around, parameters, width),
        Some("su" | "yarn") if around.phi3 => long_rope(around, parameters, width),
        Some("yarn") => {
            let original_context = original_context(around, parameters)?;
            let factor = match optional("factor")? {
                Some(factor) => factor,
                None => around.context as f64 / original_context,
            };
            let magnitude = |scale: f64| {
                if factor <= 1.0 {
                    1.0
                } else {
                    0.1 * scale * factor.ln() + 1.0
                }
            };
            let scales = (
                parameters.number("mscale")?,
                parameters.number("mscale_all_dim")?,
            );
            let attention_factor = match (optional("attention_factor")?, scales) {
                (Some(factor), _) => factor,
                (None, (Some(scale), Some(all))) if scale != 0.0 && all != 0.0 => {
                    magnitude(scale) / magnitude(all)
                }
                (None, _) => magnitude(1.0),
            };
            Ok(RopeScaling::Yarn {
                factor,
                beta_fast: optional("beta_fast")?.unwrap_or(32.0),
                beta_slow: optional("beta_slow")?.unwrap_or(1.0),
                truncate: parameters.get("truncate").is_none() || parameters.flag("truncate")?,
                original_context,
                attention_factor: limits::positive("attention_factor", attention_factor)?,
            })
        }
        Some(other) => Err(ConfigError::unsupported("rope_type", other, SUPPORTED)),
    }
}

fn long_rope(
    around: Around<'_>,
    parameters: Raw<'_>,
    width: usize,
) -> Result<RopeScaling, ConfigError> {
    let divisors = |key: &'static str| {
        let list = parameters
            .list(key)?
            .ok_or_else(|| ConfigError::missing(key))?;
        if list.len() != width / 2 {
            let limit = format!("one for each of the {} frequencies", width / 2);
            return Err(ConfigError::out_of_range(
                key,
                format!("a list of {}", list.len()),
                limit,
            ));
        }
        let one = |value: &Value| match value.as_f64() {
            Some(number) => limits::positive(key, number),
            None => Err(ConfigError::out_of_range(key, value, "a list of numbers")),
        };
        list.iter().map(one).collect::<Result<Vec<f64>, _>>()
    };
    let original_context = original_context(around, parameters)?;
    let attention_factor = match parameters.number("attention_factor")? {
        Some(factor) => limits::positive("attention_factor", factor)?,
        None => {
            let factor = match parameters.number("factor")? {
                Some(factor) => limits::positive("factor", factor)?,
                None => around.context as f64 / original_context,
            };
            long_rope_attention_factor(factor, original_context)
        }
    };
    Ok(RopeScaling::LongRope {
        short: divisors("short_factor")?,
        long: divisors("long_factor")?,
        original_context,
        attention_factor: limits::positive("attention_factor", attention_factor)?,
    })
}

/// `sqrt(1 + ln(factor) / ln(original context))`, 1 where nothing is stretched.
pub(crate) fn long_rope_attention_factor(factor: f64, original_context: f64) -> f64 {
    if factor <= 1.0 || original_context <= 1.0 {
        1.0
    } else {
        (1.0 + factor.ln() / original_context.ln()).sqrt()
    }
}

/// `original_max_position_embeddings`, which stands outside in Phi-3 and then goes before.
fn original_context(around: Around<'_>, parameters: Raw<'_>) -> Result<f64, ConfigError> {
    let key = "original_max_position_embeddings";
    let value = match around.config.number(key)? {
        Some(value) => value,
        None => match parameters.number(key)? {
            Some(value) => value,
            None if around.phi3 => 4096.0,
            None => around.context as f64,
        },
    };
    if value >= 1.0 && value <= limits::LARGEST_DIMENSION as f64 {
        Ok(value)
    } else {
        let limit = format!("between 1 and {}", limits::LARGEST_DIMENSION);
        Err(ConfigError::out_of_range(key, value, limit))
    }
}
