//! What the keys and tensors in a GGUF header say of rotary positions.

use super::config::{Family, Reader};
use super::header::Header;
use super::kinds::Kind;
use crate::config::limits::{self, Sizes};
use crate::config::{ConfigError, Rope, RopeScaling, long_rope_attention_factor};
use crate::format::{self, StoredFormat};

/// What frequencies are divided by where the context is longer than it was first, and where it is not.
const LONG_AND_SHORT: [&str; 2] = ["rope_factors_long.weight", "rope_factors_short.weight"];

/// What they are divided by at any length.
const ALWAYS: [&str; 1] = ["rope_freqs.weight"];

/// The tensors of factors that a decoder's frequencies are divided by: of a context of two lengths, or else of any.
pub(super) fn factors_read(header: &Header) -> &'static [&'static str] {
    let there = |names: &[&str]| names.iter().all(|name| header.tensors.contains_key(*name));
    match (there(&LONG_AND_SHORT), there(&ALWAYS)) {
        (true, _) => &LONG_AND_SHORT,
        (false, true) => &ALWAYS,
        (false, false) => &[],
    }
}

impl Reader<'_> {
    /// One table, or two where local layers have their own.
    pub(super) fn ropes(&self, sizes: Sizes) -> Result<Vec<Rope>, ConfigError> {
        let theta = |name: &str, default: f64| {
            let key = self.key(name);
            limits::theta(&key, self.keys().number(&key)?.unwrap_or(default))
        };
        let width = match self.keys().given(self.key("rope.dimension_count"))? {
            given if given.value.is_none() => sizes.head_dim,
            given => {
                let width = given.dimension()?;
                if !width.is_multiple_of(2) || width > sizes.head_dim {
                    let limit = format!("even and at most the width of a head, {}", sizes.head_dim);
                    return Err(ConfigError::out_of_range(given.key, width, limit));
                }
                if self.family.interleaves() && width != sizes.head_dim {
                    let supported =
                        format!("the width of a head, {}, for {}", sizes.head_dim, self.name);
                    return Err(ConfigError::unsupported(given.key, width, supported));
                }
                width
            }
        };
        let default = if self.family == Family::Gemma3 {
            1_000_000.0
        } else {
            10_000.0
        };
        let mut ropes = vec![Rope {
            theta: theta("rope.freq_base", default)?,
            scaling: self.scaling(sizes, width)?,
            width,
        }];
        if self.family == Family::Gemma3 {
            ropes.push(Rope {
                theta: theta("rope.freq_base_swa", 10_000.0)?,
                scaling: RopeScaling::None,
                width,
            });
        }
        Ok(ropes)
    }

    fn scaling(&self, sizes: Sizes, width: usize) -> Result<RopeScaling, ConfigError> {
        let number = |name: &str| {
            let key = self.key(name);
            let number = self.keys().number(&key)?;
            number
                .map(|number| limits::positive(&key, number))
                .transpose()
        };
        let original_context =
            number("rope.scaling.original_context_length")?.unwrap_or(sizes.context as f64);
        let attention_factor = number("rope.scaling.attn_factor")?;
        if let [long, short] = factors_read(self.header) {
            let stretch = sizes.context as f64 / original_context;
            return Ok(RopeScaling::LongRope {
                short: self.factors(short, width)?,
                long: self.factors(long, width)?,
                original_context,
                attention_factor: match attention_factor {
                    Some(factor) => factor,
                    None => long_rope_attention_factor(stretch, original_context),
                },
            });
        }
        let key = self.key("rope.scaling.type");
        // As files were before the type was named (`rope.scale_linear`), and as llama.cpp takes a factor without a type.
        // 0 is none.
        let stretch = |name: &str| {
            let key = self.key(name);
            let number = self.keys().number(&key)?.filter(|number| *number != 0.0);
            number
                .map(|number| limits::positive(&key, number))
                .transpose()
        };
        let factor = match stretch("rope.scaling.factor")? {
            None => stretch("rope.scale_linear")?,
            factor => factor,
        };
        let kind = match self.keys().text(&key)? {
            None if factor.is_some() => Some("linear"),
            kind => kind,
        };
        let needed = |name: &str| factor.ok_or_else(|| ConfigError::missing(self.key(name)));
        // Llama 3's stretch: the converter works out what each frequency is divided by.
        if let [divisors] = factors_read(self.header) {
            let all = match kind {
                None | Some("none") => 1.0,
                Some("linear") => needed("rope.scaling.factor")?,
                Some(other) => {
                    let supported = format!("none or linear beside {divisors}");
                    return Err(ConfigError::unsupported(key, other, supported));
                }
            };
            let divisors = self.factors(divisors, width)?;
            let divisors: Vec<f64> = divisors.into_iter().map(|each| each * all).collect();
            return Ok(RopeScaling::LongRope {
                short: divisors.clone(),
                long: divisors,
                original_context,
                attention_factor: 1.0,
            });
        }
        match kind {
            None | Some("none") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear {
                factor: needed("rope.scaling.factor")?,
            }),
            Some("yarn") => {
                let factor = needed("rope.scaling.factor")?;
                let magnitude = if factor <= 1.0 {
                    1.0
                } else {
                    0.1 * factor.ln() + 1.0
                };
                Ok(RopeScaling::Yarn {
                    factor,
                    beta_fast: number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                    // No key says that gpt-oss's table is made otherwise.
                    truncate: self.family != Family::GptOss,
                    original_context,
                    attention_factor: magnitude * attention_factor.unwrap_or(1.0),
                })
            }
            // Phi-3 with plain positions names it without factors.
            Some("longrope") => Err(ConfigError::missing(
                "rope_factors_long.weight, rope_factors_short.weight",
            )),
            Some(other) => Err(ConfigError::unsupported(
                key,
                other,
                "none, linear, yarn, longrope",
            )),
        }
    }

    /// What each frequency is divided by, `[width / 2]`.
    fn factors(&self, tensor: &str, width: usize) -> Result<Vec<f64>, ConfigError> {
        let entry = self.header.tensors.get(tensor);
        let entry = entry.ok_or_else(|| ConfigError::missing(tensor))?;
        let Kind::Known(StoredFormat::Kept(kind)) = entry.kind else {
            return Err(ConfigError::unsupported(
                tensor,
                format!("stored as {}", entry.kind.name()),
                "f32",
            ));
        };
        if entry.shape != [width / 2] || !kind.is_float() {
            let found = format!("of shape {:?} in {}", entry.shape, kind.name());
            let limit = format!("one float for each of the {} frequencies", width / 2);
            return Err(ConfigError::out_of_range(tensor, found, limit));
        }
        let mut factors = Vec::new();
        format::decode(kind, self.parts.data(entry), &mut factors);
        let factors = factors
            .into_iter()
            .map(|factor| limits::positive(tensor, f64::from(factor)));
        factors.collect()
    }
}
