//! Held-out loss of a model on an adapter: what quantized weights, keys and values are told by.

use std::path::Path;

use anyhow::Context as _;
use tidegate_contract::BLOCK;
use tidegate_infer::{DecoderOptions, Gpu, GpuDecoder, KvPrecision};
use tidegate_text::Tokenizer;
use tidegate_weights::Checkpoint;

use crate::exit::{Failure, with_causes};
use crate::models::{HELD_OUT, Loss, held_out_loss, loading};

/// Positions of a window on which the loss is measured, and rows of a step.
const WINDOW: usize = 512;
const ROWS: usize = 64;

/// The held-out text's name and tokens.
pub(super) fn held_out(
    path: Option<&Path>,
    tokenizer: &Tokenizer,
) -> Result<(String, Vec<u32>), Failure> {
    let (name, text) = match path {
        None => ("the built-in text".to_owned(), HELD_OUT.to_owned()),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {name}"))
                .map_err(|error| Failure::usage(with_causes(&error)))?;
            (name, text)
        }
    };
    let tokens = tokenizer.encode_literal(&text)?;
    if tokens.len() < 2 {
        return Err(Failure::usage(format_args!(
            "{name} has {} tokens; the loss needs at least 2",
            tokens.len()
        )));
    }
    Ok((name, tokens))
}

/// Loads a model, with keys and values so kept, and lets it foresee the text.
pub(super) fn loss(
    gpu: &Gpu,
    checkpoint: &Checkpoint,
    tokens: &[u32],
    kv: KvPrecision,
) -> anyhow::Result<Loss> {
    let own = checkpoint.decoder().map_or(WINDOW, |config| config.context);
    let context = WINDOW.min(own);
    let options = DecoderOptions {
        context,
        blocks: context.div_ceil(BLOCK),
        max_rows: ROWS,
        max_samples: ROWS,
        kv,
        reproducible: true,
        ..DecoderOptions::default()
    };
    let work = loading(checkpoint);
    let told = |done, of| work.done_of(done, of);
    let mut decoder = GpuDecoder::load_told(gpu, checkpoint, &options, &told)?;
    drop(work);
    held_out_loss(&mut decoder, tokens)
}

/// How one loss differs from another, nats and percent.
pub(super) fn change(before: Loss, after: Loss) -> [f64; 2] {
    [
        after.nats - before.nats,
        (after.nats / before.nats - 1.0) * 100.0,
    ]
}
