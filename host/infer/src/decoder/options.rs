//! What a decoder is loaded with.

use tidegate_contract::{BLOCK, DecoderShape};
use tidegate_weights::ModelConfig;

use crate::kernels::{KernelVariant, KvPrecision};
use crate::load_error::LoadError;

/// Rows in a step at most: it is also an axis of a dispatch.
const MOST_ROWS: usize = 4096;

/// KV blocks at most.
const MOST_BLOCKS: usize = 1 << 24;

/// Token ids, and elements of a row, at most: beyond every model there is, and within what kernels count in 32 bits.
const MOST_TOKENS: usize = 4 * 64 * 65_535;
const MOST_WIDTH: usize = 1 << 20;

/// How much a decoder is loaded for, and how it computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderOptions {
    /// Positions of a sequence.
    pub context: usize,
    /// KV blocks of [`BLOCK`] positions that all sequences share.
    pub blocks: usize,
    /// Rows in one step: decode rows and prefill rows together.
    pub max_rows: usize,
    /// Rows of a step from which something can be sampled.
    pub max_samples: usize,
    /// How keys and values are kept.
    pub kv: KvPrecision,
    /// Which kernels; by default the best that passed their self-test on the adapter, unless the environment variable
    /// `TIDEGATE_KERNELS` names some. A sheet of a device that is not at hand does not follow that.
    pub kernels: Option<KernelVariant>,
    /// Whether a row's numbers are the same bits whatever else is in its step: kernels
    /// that are summed otherwise for many rows than for few are refused.
    pub reproducible: bool,
    /// Whether shaders keep wgpu's bounds and loop checks. They are off by default because every index they take
    /// comes from steps that were checked on the host; tests run with them on as well.
    pub checked_shaders: bool,
}

impl Default for DecoderOptions {
    /// 1024 blocks (16 sequences of 1024 positions), 64 rows a step, keys and values in f16.
    fn default() -> Self {
        DecoderOptions {
            context: 1024,
            blocks: 1024,
            max_rows: 64,
            max_samples: 64,
            kv: KvPrecision::F16,
            kernels: None,
            reproducible: false,
            checked_shaders: false,
        }
    }
}

impl DecoderOptions {
    /// The shape of a decoder loaded with these options.
    #[must_use]
    pub fn shape(&self, config: &ModelConfig) -> DecoderShape {
        DecoderShape {
            loras: 0,
            vocabulary: config.vocabulary,
            context: self.context,
            blocks: self.blocks,
            max_rows: self.max_rows,
            max_samples: self.max_samples,
        }
    }

    /// Rows that a step of this model can have at most, on any device.
    ///
    /// Tiles of four pairs of a row and an expert must fit the 65,535 workgroups of an axis, and of some experts one is not full.
    #[must_use]
    pub fn most_rows(config: &ModelConfig) -> usize {
        let Some(experts) = &config.experts else {
            return MOST_ROWS;
        };
        let pairs = 4 * 65_535usize.saturating_sub(experts.count);
        MOST_ROWS.min(pairs / experts.chosen.max(1))
    }

    /// Whether every number is within its limits, for this model: what loading asks first, and can be asked without a device.
    ///
    /// # Errors
    /// [`LoadError::Option`], with the first number that is not.
    pub fn check(&self, config: &ModelConfig) -> Result<(), LoadError> {
        let experts = config.experts.as_ref();
        let of_experts = experts.map_or(1, |experts| experts.intermediate);
        let heads = (config.heads + 2 * config.kv_heads).saturating_mul(config.head_dim);
        LoadError::check_within([
            ("the model's vocabulary", config.vocabulary, MOST_TOKENS),
            ("the model's hidden width", config.hidden, MOST_WIDTH),
            (
                "the model's feed-forward width",
                config.intermediate,
                MOST_WIDTH,
            ),
            ("the width of the model's experts", of_experts, MOST_WIDTH),
            ("the model's width of all heads", heads, MOST_WIDTH),
            (
                "the model's head_dim",
                config.head_dim,
                ModelConfig::LARGEST_HEAD,
            ),
            ("context", self.context, config.context),
            ("blocks", self.blocks, MOST_BLOCKS),
            ("max_rows", self.max_rows, DecoderOptions::most_rows(config)),
            ("max_samples", self.max_samples, self.max_rows),
        ])
    }

    /// Positions of all blocks.
    pub(super) fn cached_positions(&self) -> usize {
        self.blocks * BLOCK
    }
}
