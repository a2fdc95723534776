//! Rotary frequencies: what `config.json` says of them, and the tables made from it.
//!
//! Formulas: Su et al. 2021 (RoPE); the `linear` and `llama3` stretches as in transformers' `modeling_rope_utils.py`.

use serde_json::Value;

use super::{ConfigError, ModelConfig, out_of_range, unsupported};

/// How the rotary frequencies are stretched beyond the trained context.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3.1: low frequencies divided by `factor`, high ones kept, a ramp between.
    Llama3 {
        /// The divisor of the low frequencies.
        factor: f64,
        /// Wavelengths above `original_context / low_factor` are stretched whole.
        low_factor: f64,
        /// Wavelengths below `original_context / high_factor` are kept.
        high_factor: f64,
        /// Context the model was first trained with, positions.
        original_context: f64,
    },
}

const SUPPORTED: &str = "default, linear, llama3";

/// Reads theta and scaling from the old place (`rope_theta`, `rope_scaling`) or the new one (`rope_parameters`).
pub(super) fn validate(
    theta: Option<f64>,
    scaling: Option<&Value>,
    parameters: Option<&Value>,
) -> Result<(f64, RopeScaling), ConfigError> {
    let (key, object) = match parameters {
        Some(parameters) if !parameters.is_null() => ("rope_parameters", Some(parameters)),
        _ => ("rope_scaling", scaling.filter(|s| !s.is_null())),
    };
    let theta = match object.and_then(|o| o.get("rope_theta")) {
        Some(value) => value
            .as_f64()
            .ok_or_else(|| out_of_range("rope_theta", value, "a number"))?,
        None => theta.unwrap_or(10_000.0),
    };
    if !(theta > 1.0 && theta <= 1e12) {
        return Err(out_of_range(
            "rope_theta",
            theta,
            "above 1 and at most 1e12",
        ));
    }
    let Some(object) = object else {
        return Ok((theta, RopeScaling::None));
    };
    let kind = object.get("rope_type").or_else(|| object.get("type"));
    let number = |name: &'static str| match object.get(name).and_then(Value::as_f64) {
        Some(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => {
            let value = object
                .get(name)
                .map_or_else(|| "missing".to_owned(), Value::to_string);
            Err(out_of_range(name, value, "a number above 0"))
        }
    };
    let scaling = match kind.map(|k| k.as_str().ok_or(k)) {
        None if key == "rope_parameters" => RopeScaling::None,
        Some(Ok("default")) => RopeScaling::None,
        Some(Ok("linear")) => RopeScaling::Linear {
            factor: number("factor")?,
        },
        Some(Ok("llama3")) => {
            let (low_factor, high_factor) =
                (number("low_freq_factor")?, number("high_freq_factor")?);
            if high_factor <= low_factor {
                let limit = format!("above low_freq_factor {low_factor}");
                return Err(out_of_range("high_freq_factor", high_factor, &limit));
            }
            RopeScaling::Llama3 {
                factor: number("factor")?,
                low_factor,
                high_factor,
                original_context: number("original_max_position_embeddings")?,
            }
        }
        Some(Ok(other)) => return Err(unsupported("rope_type", other, SUPPORTED)),
        Some(Err(other)) => return Err(unsupported("rope_type", other, SUPPORTED)),
        None => return Err(unsupported("rope_scaling", object, SUPPORTED)),
    };
    Ok((theta, scaling))
}

impl ModelConfig {
    /// The rotary frequencies, `[head_dim / 2]`, radians per position, in f64.
    #[must_use]
    pub fn rope_frequencies(&self) -> Vec<f64> {
        let half = self.head_dim / 2;
        (0..half)
            .map(|i| {
                let frequency = self.rope_theta.powf(-2.0 * i as f64 / self.head_dim as f64);
                self.rope_scaling.stretch(frequency)
            })
            .collect()
    }

    /// cos and sin of every angle, `[positions, head_dim / 2, 2]`, computed in f64. `positions` is the first factor.
    #[must_use]
    pub fn rope_table(&self, positions: usize) -> Vec<[f64; 2]> {
        let frequencies = self.rope_frequencies();
        let angles = |position| {
            frequencies
                .iter()
                .map(move |frequency| position as f64 * frequency)
        };
        (0..positions)
            .flat_map(angles)
            .map(|angle| [angle.cos(), angle.sin()])
            .collect()
    }
}

impl RopeScaling {
    fn stretch(&self, frequency: f64) -> f64 {
        match *self {
            RopeScaling::None => frequency,
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 {
                factor,
                low_factor,
                high_factor,
                original_context,
            } => {
                let wavelength = std::f64::consts::TAU / frequency;
                if wavelength < original_context / high_factor {
                    frequency
                } else if wavelength > original_context / low_factor {
                    frequency / factor
                } else {
                    let smooth =
                        (original_context / wavelength - low_factor) / (high_factor - low_factor);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}
