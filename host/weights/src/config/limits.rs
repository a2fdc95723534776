//! What no model may exceed, whatever file it comes from.

use super::{ConfigError, ModelConfig};

/// Largest value of any width or count: beyond it a product of two no longer fits the kernels' u32 indices.
pub(crate) const LARGEST_DIMENSION: u64 = 1 << 20;

/// Most layers.
pub(crate) const MOST_LAYERS: u64 = 1 << 12;

/// A value as it was given, with the key that it was given under.
pub(crate) struct Given {
    pub(crate) key: String,
    pub(crate) value: Option<u64>,
}

impl Given {
    /// Present, above 0, at most [`LARGEST_DIMENSION`].
    pub(crate) fn dimension(&self) -> Result<usize, ConfigError> {
        at_most(self, LARGEST_DIMENSION)
    }
}

/// Present, above 0, at most `most`.
pub(crate) fn at_most(given: &Given, most: u64) -> Result<usize, ConfigError> {
    let value = given
        .value
        .ok_or_else(|| ConfigError::missing(&given.key))?;
    if value == 0 || value > most {
        let limit = format!("between 1 and {most}");
        return Err(ConfigError::out_of_range(&given.key, value, limit));
    }
    Ok(value as usize)
}

/// The sizes of a decoder as they were given.
pub(crate) struct GivenSizes {
    pub(crate) vocabulary: Given,
    pub(crate) hidden: Given,
    pub(crate) intermediate: Given,
    pub(crate) layers: Given,
    pub(crate) heads: Given,
    /// Absent: as many as heads.
    pub(crate) kv_heads: Given,
    /// Absent: hidden / heads.
    pub(crate) head_dim: Given,
    pub(crate) context: Given,
}

/// The sizes of a decoder that fit together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) vocabulary: usize,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) context: usize,
}

impl GivenSizes {
    pub(crate) fn check(&self) -> Result<Sizes, ConfigError> {
        let layers = self.layers.dimension()?;
        if layers as u64 > MOST_LAYERS {
            let limit = format!("between 1 and {MOST_LAYERS}");
            return Err(ConfigError::out_of_range(&self.layers.key, layers, limit));
        }
        let hidden = self.hidden.dimension()?;
        let heads = self.heads.dimension()?;
        let kv_heads = match self.kv_heads.value {
            None => heads,
            Some(_) => self.kv_heads.dimension()?,
        };
        if !heads.is_multiple_of(kv_heads) {
            let limit = format!("a divisor of {} {heads}", self.heads.key);
            return Err(ConfigError::out_of_range(
                &self.kv_heads.key,
                kv_heads,
                limit,
            ));
        }
        let head_dim = match self.head_dim.value {
            Some(_) => self.head_dim.dimension()?,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let limit = format!(
                    "a multiple of {} {heads} where {} is absent",
                    self.heads.key, self.head_dim.key
                );
                return Err(ConfigError::out_of_range(&self.hidden.key, hidden, limit));
            }
        };
        let largest = ModelConfig::LARGEST_HEAD;
        if !head_dim.is_multiple_of(2) || head_dim == 0 || head_dim > largest {
            let limit = format!("even and at most {largest}");
            return Err(ConfigError::out_of_range(
                &self.head_dim.key,
                head_dim,
                limit,
            ));
        }
        if (heads * head_dim) as u64 > LARGEST_DIMENSION {
            let limit = format!(
                "at most {LARGEST_DIMENSION} when multiplied by the width of a head, {head_dim}"
            );
            return Err(ConfigError::out_of_range(&self.heads.key, heads, limit));
        }
        Ok(Sizes {
            vocabulary: self.vocabulary.dimension()?,
            hidden,
            intermediate: self.intermediate.dimension()?,
            layers,
            heads,
            kv_heads,
            head_dim,
            context: self.context.dimension()?,
        })
    }
}

/// An epsilon: above 0 and below 1.
pub(crate) fn epsilon(key: &str, value: f64) -> Result<f64, ConfigError> {
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(ConfigError::out_of_range(key, value, "above 0 and below 1"))
    }
}

/// A factor, cap or base: finite and above 0.
pub(crate) fn positive(key: &str, value: f64) -> Result<f64, ConfigError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ConfigError::out_of_range(key, value, "a number above 0"))
    }
}

/// The base of rotary frequencies.
pub(crate) fn theta(key: &str, value: f64) -> Result<f64, ConfigError> {
    if value > 1.0 && value <= 1e12 {
        Ok(value)
    } else {
        Err(ConfigError::out_of_range(
            key,
            value,
            "above 1 and at most 1e12",
        ))
    }
}
