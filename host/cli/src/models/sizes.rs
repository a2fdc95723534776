//! How much a model is loaded for, and what fits.

use tidegate_contract::BLOCK;
use tidegate_control::config::{Engine, KvPrecision, Model};
use tidegate_infer::{DecoderOptions, EncoderOptions, KernelVariant, LoadError, MemoryReport};
use tidegate_weights::{Architecture, Checkpoint};

/// Rows of a step from which a token can be drawn, at least: guesses need several for a sequence.
const LEAST_SAMPLES: usize = 64;

/// What a decoder is loaded with, so many KV blocks of prefixes being pinned: they come to those of the sequences, but where
/// the file says what all take together.
pub(crate) fn decoder_options(
    model: &Model,
    engine: Engine,
    checkpoint: &Checkpoint,
    context: usize,
    pinned: usize,
) -> Result<DecoderOptions, LoadError> {
    let max_rows = engine.step_tokens;
    // None runs beyond those, as each has a row of every step: for none there is a cache.
    let sequences = model.sequences.min(max_rows);
    let mut options = DecoderOptions {
        context,
        blocks: sequences * context.div_ceil(BLOCK) + pinned,
        max_rows,
        max_samples: sequences.max(LEAST_SAMPLES).min(max_rows),
        kv: kv_precision(model),
        kernels: kernels(model),
        reproducible: model.reproducible,
        ..DecoderOptions::default()
    };
    if let Some(memory) = model.kv_memory {
        let block = block_bytes(checkpoint, options.kv)?;
        options.blocks = usize::try_from(memory / block).unwrap_or(usize::MAX);
    }
    Ok(options)
}

/// Bytes of a block of [`BLOCK`] positions, in all layers.
fn block_bytes(checkpoint: &Checkpoint, kv: tidegate_infer::KvPrecision) -> Result<u64, LoadError> {
    let one = DecoderOptions {
        context: 1,
        blocks: 1,
        kv,
        ..DecoderOptions::default()
    };
    Ok(MemoryReport::estimate(checkpoint, &one)?.kv_cache.max(1))
}

/// What `kv-memory` is enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KvRoom {
    /// Positions, of all sequences together.
    pub(crate) positions: usize,
    /// Bytes of a block of [`BLOCK`] positions.
    pub(crate) block: u64,
}

/// What a model's `kv-memory` is enough for, where it is given and the model has a cache.
pub(crate) fn kv_room(model: &Model, checkpoint: &Checkpoint) -> Option<KvRoom> {
    checkpoint.decoder()?;
    let memory = model.kv_memory?;
    // What cannot be counted is told when it is loaded.
    let block = block_bytes(checkpoint, kv_precision(model)).ok()?;
    let blocks = usize::try_from(memory / block).unwrap_or(usize::MAX);
    Some(KvRoom {
        positions: blocks.saturating_mul(BLOCK),
        block,
    })
}

fn kv_precision(model: &Model) -> tidegate_infer::KvPrecision {
    match model.kv_precision {
        KvPrecision::F32 => tidegate_infer::KvPrecision::F32,
        KvPrecision::F16 => tidegate_infer::KvPrecision::F16,
        KvPrecision::Int8 => tidegate_infer::KvPrecision::Int8,
    }
}

/// The kernels that a pipeline file names.
pub(crate) fn kernels(model: &Model) -> Option<KernelVariant> {
    model.kernels.as_deref().and_then(KernelVariant::named)
}

/// Tokens of a step of this model at most, on any device.
pub(crate) fn most_step_tokens(checkpoint: &Checkpoint) -> usize {
    match checkpoint.architecture() {
        Architecture::Decoder(config) => DecoderOptions::most_rows(config),
        Architecture::Encoder(_) => EncoderOptions::MOST_ROWS,
    }
}

/// Whether a model can be loaded for what the file says, on some device.
///
/// # Errors
/// Why not.
pub(crate) fn check_sizes(
    model: &Model,
    engine: Engine,
    checkpoint: &Checkpoint,
    context: usize,
) -> Result<(), LoadError> {
    match checkpoint.architecture() {
        Architecture::Decoder(config) => {
            decoder_options(model, engine, checkpoint, context, 0)?.check(config)
        }
        Architecture::Encoder(config) => encoder_options(engine, context).check(config),
    }
}

/// What an encoder is loaded with: at least one text of whole length goes into a call.
pub(crate) fn encoder_options(engine: Engine, context: usize) -> EncoderOptions {
    EncoderOptions {
        context: Some(context),
        max_rows: engine.step_tokens.max(context),
        ..EncoderOptions::default()
    }
}

/// What fits into a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fits {
    /// Positions of a sequence.
    pub(crate) context: usize,
    /// Sequences that can be that long at once.
    pub(crate) sequences: usize,
}

/// How many sequences fit beside the weights at a few lengths, up to the model's own.
pub(crate) fn what_fits(
    checkpoint: &Checkpoint,
    options: &DecoderOptions,
    own_context: usize,
    budget: u64,
) -> Result<Vec<Fits>, LoadError> {
    let mut contexts: Vec<usize> = [512, 2048, 8192, 32_768, 131_072]
        .into_iter()
        .filter(|context| *context < own_context)
        .collect();
    contexts.push(own_context);
    contexts
        .into_iter()
        .map(|context| {
            let options = DecoderOptions {
                context,
                ..options.clone()
            };
            let blocks = MemoryReport::blocks_within(checkpoint, &options, budget)?;
            Ok(Fits {
                context,
                sequences: blocks / context.div_ceil(BLOCK),
            })
        })
        .collect()
}
