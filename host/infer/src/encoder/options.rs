//! What an encoder is loaded with, and the sizes that follow.

use tidegate_weights::EncoderConfig;

use super::pass::{PassSizes, quads_of};
use crate::decoder::MemoryReport;
use crate::kernels::{KernelVariant, TextHeads};
use crate::load_error::LoadError;
use crate::matrix::padded;

/// Bytes that scores of attention may take, unless one text needs more: calls that need more run in several passes.
const SCORES: usize = 64 << 20;

/// How much an encoder is loaded for, and how it computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderOptions {
    /// Most tokens of all texts of a call together.
    pub max_rows: usize,
    /// Most tokens of a text; by default what the model can take and `max_rows` allows.
    pub context: Option<usize>,
    /// Which kernels; by default as for decoders.
    pub kernels: Option<KernelVariant>,
    /// Whether a text's vector is the same bits whatever other texts are in its call.
    pub reproducible: bool,
    /// Whether shaders keep wgpu's bounds and loop checks.
    pub checked_shaders: bool,
}

impl Default for EncoderOptions {
    /// 512 rows.
    fn default() -> Self {
        EncoderOptions {
            max_rows: 512,
            context: None,
            kernels: None,
            reproducible: false,
            checked_shaders: false,
        }
    }
}

impl EncoderOptions {
    /// Rows in a call at most, on any device: it is also an axis of a dispatch.
    pub const MOST_ROWS: usize = 16_384;

    /// Whether every number is within its limits, for this model: what loading asks first, and can be asked without a device.
    ///
    /// # Errors
    /// [`LoadError::Option`], with the first number that is not.
    pub fn check(&self, config: &EncoderConfig) -> Result<(), LoadError> {
        let (rows, most) = (self.max_rows, self.most_context(config));
        let context = self.context.unwrap_or(most);
        LoadError::check_within([
            ("max_rows", rows, EncoderOptions::MOST_ROWS),
            ("context", context, most),
        ])
    }

    /// Most tokens that a text can have.
    fn most_context(&self, config: &EncoderConfig) -> usize {
        config.context.min(self.max_rows)
    }
}

/// The sizes of everything an encoder puts on a device beside its weights.
#[derive(Clone, Debug)]
pub(super) struct EncoderSizes {
    pub(super) rows: usize,
    pub(super) context: usize,
    /// Token types that are told apart.
    pub(super) types: usize,
    /// Rows of the table of what is added to a word, for each type.
    pub(super) places: usize,
    pub(super) heads: TextHeads,
    /// Elements of a row, padded.
    pub(super) hidden: usize,
    /// Elements of a row of query heads, each padded.
    pub(super) query: usize,
    /// The same of queries, keys and values.
    pub(super) qkv: usize,
    /// Elements of a row of the feed-forward layer, padded.
    pub(super) intermediate: usize,
    /// Elements of a vector, padded.
    pub(super) vector: usize,
    /// Score vectors of four keys for a head.
    pub(super) quads: usize,
    /// Rows as wide as those of the stream that the head makes for each of its own.
    head: usize,
    /// Whether norms go beside the stream.
    pre_norm: bool,
}

impl EncoderSizes {
    pub(super) fn new(
        config: &EncoderConfig,
        options: &EncoderOptions,
    ) -> Result<EncoderSizes, LoadError> {
        options.check(config)?;
        let rows = options.max_rows;
        let context = options.context.unwrap_or(options.most_context(config));
        let heads = TextHeads {
            queries: config.heads,
            keys: config.kv_heads,
            dim: config.head_dim,
        };
        // All rows in texts as long as they can be; an odd row more for each that is not.
        let all = rows.div_ceil(context) * quads_of(context);
        let quads = all.min(SCORES / 16 / config.heads).max(quads_of(context));
        Ok(EncoderSizes {
            rows,
            context,
            types: config.token_types(),
            places: if config.positions > 0 { context } else { 1 },
            heads,
            hidden: padded(config.hidden),
            query: heads.queries * padded(heads.dim),
            qkv: heads.all() * padded(heads.dim),
            intermediate: padded(config.intermediate),
            vector: padded(config.head.scores().unwrap_or(config.hidden)),
            quads,
            head: match (config.head.scores(), config.scoring) {
                (None, _) => 0,
                (Some(_), scoring) => {
                    usize::from(!config.head.is_of_tokens()) + usize::from(scoring.is_some())
                }
            },
            pre_norm: config.pre_norm,
        })
    }

    /// What the words of a pass depend on.
    pub(super) fn of_pass(&self) -> PassSizes {
        PassSizes {
            heads: self.heads.queries,
            places: self.places,
        }
    }

    /// Bytes of the scores of a pass.
    pub(super) fn scores(&self) -> usize {
        self.quads * self.heads.queries * 16
    }

    /// What the whole encoder takes.
    pub(super) fn report(&self, weights: u64) -> MemoryReport {
        let streams = if self.pre_norm { 3 } else { 2 };
        let widths = streams * self.hidden + self.qkv + self.query + self.intermediate;
        let texts = self.head * self.hidden + 2 * self.vector;
        let words = 4 + 4 + 2;
        let activations = self.rows * (widths + texts + words) * 4 + self.scores();
        MemoryReport {
            weights,
            kv_cache: 0,
            activations: activations as u64,
        }
    }
}
