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

/// The held-out text's name and tokens, which are `least` or more.
pub(super) fn held_out(
    path: Option<&Path>,
    tokenizer: &Tokenizer,
    least: usize,
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
    if tokens.len() < least {
        return Err(Failure::usage(format_args!(
            "the text of {name} has {} tokens, must be at least {least} to measure the model by",
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

/// Loads an encoder and lets it encode the text in pieces, each between the tokens that its tokenizer puts around a text.
pub(super) fn encoded(
    gpu: &Gpu,
    checkpoint: &Checkpoint,
    tokenizer: &Tokenizer,
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
    let pieces = pieces(tokenizer, tokens, encoder.context())?;
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

/// The pieces of a text as an encoder is given them, of at most so many tokens.
fn pieces(tokenizer: &Tokenizer, tokens: &[u32], most: usize) -> anyhow::Result<Vec<Vec<u32>>> {
    let before = tokenizer.encode_raw("")?;
    let around = tokenizer.encode_text("")?;
    let after = around.strip_prefix(before.as_slice()).unwrap_or_default();
    // Where there is no room for all of them, what is there is cut off, as of a text.
    let room = most.saturating_sub(around.len()).clamp(1, PIECE);
    let framed = |piece: &[u32]| {
        let mut framed = [before.as_slice(), piece, after].concat();
        framed.truncate(most);
        framed
    };
    Ok(tokens.chunks(room).map(framed).collect())
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
                least: cosines().fold(1.0, lesser),
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

/// The lesser of two numbers; none of a cosine that is none, which `f64::min` would pass over.
fn lesser(one: f64, other: f64) -> f64 {
    if one.is_nan() || one <= other {
        one
    } else {
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{ModelFile, Splits};

    #[test]
    fn a_piece_stands_between_the_tokens_that_stand_around_a_text() {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden");
        let model = goldens.join("gguf-bert-f16/model.gguf");
        let model = ModelFile::open(&model, Splits::Named(None)).unwrap();
        let tokenizer = model.tokenizer;
        let text = "the river is wide ".repeat(40);
        let tokens = tokenizer.encode_literal(&text).unwrap();
        assert!(tokens.len() > 2 * PIECE, "{}", tokens.len());
        let whole = tokenizer.encode_text("the river").unwrap();
        let (first, last) = (whole[0], whole[whole.len() - 1]);
        assert!(whole.len() > tokenizer.encode_literal("the river").unwrap().len() + 1);
        for (most, of_text) in [(1000, PIECE), (34, 32), (3, 1)] {
            let pieces = pieces(&tokenizer, &tokens, most).unwrap();
            let mut inner: Vec<u32> = Vec::new();
            for (index, piece) in pieces.iter().enumerate() {
                assert_eq!((piece[0], piece[piece.len() - 1]), (first, last), "{most}");
                inner.extend(&piece[1..piece.len() - 1]);
                let left = tokens.len() - index * of_text;
                assert_eq!(piece.len(), of_text.min(left) + 2, "{most}");
            }
            assert_eq!(inner, tokens, "{most}");
        }
        let short = pieces(&tokenizer, &tokens, 2).unwrap();
        assert!(short.iter().all(|piece| piece.len() == 2));
    }

    #[test]
    fn a_cosine_that_is_no_number_is_told() {
        let encoded = |numbers: &[f32]| Encoded {
            output: EncoderOutput::Embedding,
            width: 2,
            texts: 3,
            numbers: numbers.to_vec(),
        };
        let before = encoded(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        for (numbers, expected) in [
            ([1.0, 0.0, 0.0, 1.0, 0.6, 0.8], Some(0.6)),
            ([1.0, 0.0, 0.6, 0.8, 1.0, 0.0], Some(0.8)),
            ([f32::NAN, 0.0, 0.0, 1.0, 1.0, 0.0], None),
            ([1.0, 0.0, 0.0, 1.0, 1.0, f32::NAN], None),
        ] {
            let change = EncodedChange::of(&before, &encoded(&numbers));
            let EncodedChange::Vectors { least, .. } = change else {
                panic!("of vectors");
            };
            match expected {
                Some(expected) => assert!((least - expected).abs() < 1e-6, "{least}"),
                None => assert!(least.is_nan(), "{least}"),
            }
        }
    }
}
