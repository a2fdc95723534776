//! The sizes of everything a decoder puts on the device, known before anything is allocated.

use super::{DecoderOptions, LoadError, MemoryReport};
use crate::config::ModelConfig;
use crate::weights::{Precision, TensorNames, Weights, WeightsError};

/// Rows in a step at most: it is also an axis of a dispatch.
const MOST_ROWS: usize = 4096;

/// Elements to the next multiple of 4.
pub(crate) fn padded(elements: usize) -> usize {
    elements.next_multiple_of(4)
}

/// Widths in elements, each a multiple of 4; sizes of the buffers a step writes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Residual stream.
    pub(crate) hidden: usize,
    /// One head.
    pub(crate) head: usize,
    /// Feed-forward layer.
    pub(crate) intermediate: usize,
    /// Logits of a row.
    pub(crate) vocabulary: usize,
    /// Query, key and value heads of a row.
    pub(crate) qkv: usize,
    /// Query heads of a row.
    pub(crate) query: usize,
    /// Attention scores of a row.
    pub(crate) scores: usize,
    /// Keys, or values, of a layer.
    pub(crate) cache: usize,
    /// Bytes by part.
    pub(crate) memory: MemoryReport,
}

impl Plan {
    pub(crate) fn new(
        config: &ModelConfig,
        weights: &Weights,
        options: &DecoderOptions,
    ) -> Result<Plan, LoadError> {
        let limit = |what, value, least, most| LoadError::Option {
            what,
            value,
            least,
            most,
        };
        for (what, value, most) in [
            ("slots", options.slots, 1 << 16),
            ("context", options.context, config.context),
            ("max_rows", options.max_rows, MOST_ROWS),
        ] {
            if value == 0 || value > most {
                return Err(limit(what, value, 1, most));
            }
        }
        let (hidden, head, intermediate) = (
            padded(config.hidden),
            padded(config.head_dim),
            padded(config.intermediate),
        );
        let vocabulary = padded(config.vocabulary);
        let qkv = (config.heads + 2 * config.kv_heads) * head;
        let query = config.heads * head;
        let scores = config.heads * padded(options.context);
        let cache = options.slots * options.context * config.kv_heads * head;
        let row = 2 * hidden + qkv + query + intermediate + scores + 2 * vocabulary + 4;
        let memory = MemoryReport {
            weights: weight_bytes(config, weights)?
                + (options.context * config.head_dim * 4) as u64,
            kv_cache: 2 * (config.layers * cache * 4) as u64,
            activations: (options.max_rows * row * 4) as u64,
        };
        Ok(Plan {
            hidden,
            head,
            intermediate,
            vocabulary,
            qkv,
            query,
            scores,
            cache,
            memory,
        })
    }
}

impl MemoryReport {
    /// What a decoder would take, without loading it.
    ///
    /// # Errors
    /// As `GpuDecoder::load`, for everything that can be known before a device is opened.
    pub fn estimate(
        config: &ModelConfig,
        weights: &Weights,
        options: &DecoderOptions,
    ) -> Result<MemoryReport, LoadError> {
        weights.check(config)?;
        Ok(Plan::new(config, weights, options)?.memory)
    }
}

/// The precision in which tensors that share a buffer are kept: their own if they agree, else f32.
pub(crate) fn common_precision(precisions: impl IntoIterator<Item = Precision>) -> Precision {
    let mut precisions = precisions.into_iter();
    let first = precisions.next().unwrap_or(Precision::F32);
    if precisions.all(|other| other == first) {
        first
    } else {
        Precision::F32
    }
}

/// Bytes of the weights as they are packed on the device.
fn weight_bytes(config: &ModelConfig, weights: &Weights) -> Result<u64, WeightsError> {
    let (hidden, head) = (padded(config.hidden), padded(config.head_dim));
    let (query, key) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let intermediate = padded(config.intermediate);
    let bytes = |rows: usize,
                 width: usize,
                 tensors: &[(String, [usize; 2])]|
     -> Result<u64, WeightsError> {
        let found = tensors
            .iter()
            .map(|(name, shape)| Ok(weights.tensor(name, shape)?.precision));
        let precisions = found.collect::<Result<Vec<_>, WeightsError>>()?;
        Ok((rows * width * common_precision(precisions).bytes()) as u64)
    };
    let shape = [config.vocabulary, config.hidden];
    let mut total = bytes(
        padded(config.vocabulary),
        hidden,
        &[(TensorNames::EMBEDDING.to_owned(), shape)],
    )?;
    if !config.tied {
        total += bytes(
            padded(config.vocabulary),
            hidden,
            &[(TensorNames::HEAD.to_owned(), shape)],
        )?;
    }
    total += (hidden * 4 * (2 * config.layers + 1)) as u64;
    for layer in 0..config.layers {
        let part = |part: &str, rows: usize, width: usize| {
            (TensorNames::layer(layer, part), [rows, width])
        };
        total += bytes(
            (config.heads + 2 * config.kv_heads) * head,
            hidden,
            &[
                part("self_attn.q_proj", query, config.hidden),
                part("self_attn.k_proj", key, config.hidden),
                part("self_attn.v_proj", key, config.hidden),
            ],
        )?;
        total += bytes(
            hidden,
            config.heads * head,
            &[part("self_attn.o_proj", config.hidden, query)],
        )?;
        let gate = part("mlp.gate_proj", config.intermediate, config.hidden);
        let up = part("mlp.up_proj", config.intermediate, config.hidden);
        total += bytes(2 * intermediate, hidden, &[gate, up])?;
        total += bytes(
            hidden,
            intermediate,
            &[part("mlp.down_proj", config.hidden, config.intermediate)],
        )?;
    }
    Ok(total)
}
