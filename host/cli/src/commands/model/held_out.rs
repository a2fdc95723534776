//! Held-out loss of a model on an adapter, or what an encoder makes of a text: what quantized weights, keys and values are told by.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use tidegate_contract::{BLOCK, Encoder as _, EncoderOutput, EncoderText};
use tidegate_infer::{DecoderOptions, EncoderOptions, Gpu, GpuDecoder, GpuEncoder, KvPrecision};
use tidegate_text::Tokenizer;
use tidegate_weights::Checkpoint;

use crate::exit::{Failure, with_causes};
use crate::models::{HELD_OUT, Loss, held_out_loss, loading};

/// Positions of a window on which the loss is measured, and rows of a step.
const WINDOW: usize = 512;
const ROWS: usize = 64;

/// Tokens of a piece that an encoder is given as a text.
const PIECE: usize = 64;

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

/// What an encoder makes of a text that is cut into pieces: a row of numbers for each, or for each token.
pub(super) struct Encoded {
    output: EncoderOutput,
    width: usize,
    texts: usize,
    numbers: Vec<f32>,
}

/// Loads an encoder and lets it encode the text.
pub(super) fn encoded(
    gpu: &Gpu,
    checkpoint: &Checkpoint,
    tokens: &[u32],
) -> anyhow::Result<Encoded> {
    let options = EncoderOptions {
        reproducible: true,
        ..EncoderOptions::default()
    };
    let work = loading(checkpoint);
    let told = |done, of| work.done_of(done, of);
    let mut encoder = GpuEncoder::load_told(gpu, checkpoint, &options, &told)?;
    drop(work);
    let pieces: Vec<&[u32]> = tokens.chunks(PIECE.min(encoder.context())).collect();
    let (mut numbers, mut of_piece) = (Vec::new(), Vec::new());
    for piece in &pieces {
        encoder.encode(&[EncoderText::single(piece)], &mut of_piece)?;
        numbers.extend_from_slice(&of_piece);
    }
    Ok(Encoded {
        output: encoder.output(),
        width: encoder.width(),
        texts: pieces.len(),
        numbers,
    })
}

/// How what one encoder makes differs from what another does.
pub(super) enum EncodedChange {
    /// The cosines of vectors with those before.
    Vectors { texts: usize, mean: f64, least: f64 },
    /// Differences of scores as a root mean square, in percent of that of the scores before; where they are of labels, how many rows
    /// have the same one, and of how many.
    Scores {
        texts: usize,
        percent: f64,
        labels: Option<[usize; 2]>,
    },
}

impl EncodedChange {
    pub(super) fn of(before: &Encoded, after: &Encoded) -> EncodedChange {
        let rows = || {
            let width = before.width.max(1);
            let rows = before.numbers.chunks_exact(width);
            rows.zip(after.numbers.chunks_exact(width))
        };
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            let each = a.iter().zip(b);
            each.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let texts = before.texts;
        if before.output == EncoderOutput::Embedding {
            let cosine =
                |(a, b): (&[f32], &[f32])| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-30);
            let cosines = || rows().map(cosine);
            return EncodedChange::Vectors {
                texts,
                mean: cosines().sum::<f64>() / rows().count().max(1) as f64,
                least: cosines().fold(1.0, f64::min),
            };
        }
        let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
        let pairs = before.numbers.iter().zip(&after.numbers);
        let apart = squares(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b)));
        let all = squares(&mut before.numbers.iter().map(|a| f64::from(*a)));
        let label = |row: &[f32]| {
            let likeliest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            likeliest.map(|(label, _)| label)
        };
        let same = rows().filter(|(a, b)| label(a) == label(b)).count();
        EncodedChange::Scores {
            texts,
            percent: 100.0 * (apart / all.max(1e-30)).sqrt(),
            labels: (before.width > 1).then_some([same, rows().count()]),
        }
    }

    /// In a line, of a text of this name.
    pub(super) fn text(&self, name: &str) -> String {
        match self {
            EncodedChange::Vectors { texts, mean, least } => format!(
                "vectors of {name} in {texts} pieces, beside those before: cosine {mean:.6} on average, {least:.6} at least"
            ),
            EncodedChange::Scores {
                texts,
                percent,
                labels,
            } => {
                let labels = labels.map_or_else(String::new, |[same, all]| {
                    format!("; {same} of {all} have the same label")
                });
                format!(
                    "scores of {name} in {texts} pieces, beside those before: {percent:.3} % apart{labels}"
                )
            }
        }
    }

    pub(super) fn json(&self, name: &str) -> Value {
        match self {
            EncodedChange::Vectors { texts, mean, least } => {
                json!({"text": name, "pieces": texts, "cosine": mean, "least_cosine": least})
            }
            EncodedChange::Scores {
                texts,
                percent,
                labels,
            } => json!({
                "text": name, "pieces": texts, "change_percent": percent,
                "same_label": labels.map(|[same, _]| same), "labelled": labels.map(|[_, all]| all),
            }),
        }
    }
}
