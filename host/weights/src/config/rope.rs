//! Rotary frequencies and the tables made from them.
//!
//! Formulas: Su et al. 2021 (RoPE); Peng et al. 2023 (YaRN); Ding et al. 2024 (LongRoPE); all as in transformers'
//! `modeling_rope_utils.py`, in f64.

use super::ModelConfig;

/// A rotary table's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// How the frequencies are stretched.
    pub scaling: RopeScaling,
    /// Elements of a head that turn, from the first; even. The first half of them turns against the second.
    pub width: usize,
}

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
    /// YaRN: frequencies that turn fewer than `beta_slow` times in the original context divided by `factor`, those that
    /// turn more than `beta_fast` times kept, a ramp over the index between.
    Yarn {
        /// The divisor of the low frequencies.
        factor: f64,
        /// Turns above which a frequency is kept.
        beta_fast: f64,
        /// Turns below which a frequency is divided.
        beta_slow: f64,
        /// Whether the ends of the ramp are rounded outwards to whole indices.
        truncate: bool,
        /// Context the model was first trained with, positions.
        original_context: f64,
        /// Factor of cosine and sine.
        attention_factor: f64,
    },
    /// LongRoPE: every frequency has its own divisor.
    LongRope {
        /// Divisors, `[width / 2]`, where the model serves at most `original_context` positions.
        short: Vec<f64>,
        /// Divisors, `[width / 2]`, where it serves more.
        long: Vec<f64>,
        /// Context the model was first trained with, positions.
        original_context: f64,
        /// Factor of cosine and sine.
        attention_factor: f64,
    },
}

impl ModelConfig {
    /// cos and sin of every angle of table `rope`, `[context, width / 2]` pairs, positions first, times the attention
    /// factor of its scaling.
    ///
    /// `context` is the number of positions served, and chooses between LongRoPE's divisors: the long ones above its
    /// original context, else the short ones. transformers chooses by the length of each prompt instead; a table is
    /// made once, so a model that is loaded with a long context uses the long divisors for short prompts too.
    ///
    /// Empty if there is no such table.
    #[must_use]
    pub fn rope_table(&self, rope: usize, context: usize) -> Vec<[f64; 2]> {
        let table = self.ropes.get(rope);
        table.map_or_else(Vec::new, |rope| rope.table(context))
    }
}

impl Rope {
    /// cos and sin of every angle, `[context, width / 2]` pairs, positions first, times the attention factor.
    pub(crate) fn table(&self, context: usize) -> Vec<[f64; 2]> {
        let frequencies = self.frequencies(context);
        let factor = self.scaling.attention_factor();
        let angles = |position| {
            frequencies
                .iter()
                .map(move |frequency| position as f64 * frequency)
        };
        (0..context)
            .flat_map(angles)
            .map(|angle| [factor * angle.cos(), factor * angle.sin()])
            .collect()
    }

    /// The frequencies, `[width / 2]`, radians per position, for a model that serves `context` positions.
    #[must_use]
    pub fn frequencies(&self, context: usize) -> Vec<f64> {
        let plain = |i: usize| self.theta.powf(-2.0 * i as f64 / self.width as f64);
        (0..self.width / 2)
            .map(|i| match &self.scaling {
                RopeScaling::None => plain(i),
                RopeScaling::Linear { factor } => plain(i) / factor,
                RopeScaling::Llama3 {
                    factor,
                    low_factor,
                    high_factor,
                    original_context,
                } => {
                    let frequency = plain(i);
                    let wavelength = std::f64::consts::TAU / frequency;
                    if wavelength < original_context / high_factor {
                        frequency
                    } else if wavelength > original_context / low_factor {
                        frequency / factor
                    } else {
                        let smooth = (original_context / wavelength - low_factor)
                            / (high_factor - low_factor);
                        (1.0 - smooth) * frequency / factor + smooth * frequency
                    }
                }
                RopeScaling::Yarn {
                    factor,
                    beta_fast,
                    beta_slow,
                    truncate,
                    original_context,
                    ..
                } => {
                    let index_of = |turns: f64| {
                        let ratio = original_context / (turns * std::f64::consts::TAU);
                        self.width as f64 * ratio.ln() / (2.0 * self.theta.ln())
                    };
                    let (mut low, mut high) = (index_of(*beta_fast), index_of(*beta_slow));
                    if *truncate {
                        (low, high) = (low.floor(), high.ceil());
                    }
                    let (low, mut high) = (low.max(0.0), high.min(self.width as f64 - 1.0));
                    if low == high {
                        high += 0.001;
                    }
                    let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    plain(i) / factor * divided + plain(i) * (1.0 - divided)
                }
                RopeScaling::LongRope {
                    short,
                    long,
                    original_context,
                    ..
                } => {
                    let divisors = if context as f64 > *original_context {
                        long
                    } else {
                        short
                    };
                    plain(i) / divisors.get(i).copied().unwrap_or(1.0)
                }
            })
            .collect()
    }
}

impl RopeScaling {
    fn attention_factor(&self) -> f64 {
        match self {
            RopeScaling::Yarn {
                attention_factor, ..
            }
            | RopeScaling::LongRope {
                attention_factor, ..
            } => *attention_factor,
            RopeScaling::None | RopeScaling::Linear { .. } | RopeScaling::Llama3 { .. } => 1.0,
        }
    }
}
