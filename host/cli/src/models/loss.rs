//! Held-out loss: how well a model foresees a text, so that a conversion's cost can be told.

use anyhow::{Context as _, ensure};
use tidegate_contract::{BLOCK, DecodeError, Decoder, Sampling, StepSequence};

/// The text on which models are compared unless another is given. It was written for this purpose.
pub(crate) const HELD_OUT: &str = include_str!("held-out.txt");

/// Tokens of a window; the first token of each is given, the others are to be foreseen.
const WINDOW: usize = 512;

/// How well a model foresees a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    /// Cross-entropy, nats for a token.
    pub(crate) nats: f64,
    /// Tokens that were foreseen.
    pub(crate) tokens: usize,
}

/// The mean of `-ln p(token)` over a text, each window by itself.
pub(crate) fn held_out_loss(decoder: &mut dyn Decoder, text: &[u32]) -> anyhow::Result<Loss> {
    let shape = decoder.shape().clone();
    let window = WINDOW.min(shape.context).min(shape.blocks * BLOCK);
    let rows = shape.max_rows.min(shape.max_samples);
    ensure!(window > 1, "the model's context has no room for a text");
    let (mut sum, mut tokens) = (0.0, 0);
    for window in text.chunks(window).filter(|window| window.len() > 1) {
        let blocks: Vec<u32> = (0..window.len().div_ceil(BLOCK) as u32).collect();
        let given = &window[..window.len() - 1];
        for (piece, at) in given.chunks(rows).zip((0..).step_by(rows)) {
            let logits = logits(decoder, piece, at, &blocks)?;
            let next = window[at + 1..].iter().take(piece.len());
            for (logits, token) in logits.chunks_exact(shape.vocabulary).zip(next) {
                sum += surprise(logits, *token as usize)
                    .with_context(|| format!("token {token} is not one of the model's"))?;
                tokens += 1;
            }
        }
    }
    ensure!(tokens > 0, "the text has no two tokens");
    Ok(Loss {
        nats: sum / tokens as f64,
        tokens,
    })
}

/// The logits after each token of a piece, `[tokens, vocabulary]`.
fn logits(
    decoder: &mut dyn Decoder,
    piece: &[u32],
    at: usize,
    blocks: &[u32],
) -> Result<Vec<f32>, DecodeError> {
    let step = StepSequence {
        lora: 0,
        position: at as u32,
        tokens: piece.to_vec(),
        blocks: blocks.to_vec(),
        samples: vec![Sampling::default(); piece.len()],
    };
    let mut logits = Vec::new();
    decoder.logits(&[step], &mut logits)?;
    Ok(logits)
}

/// `-ln softmax(logits)[token]`, in f64.
fn surprise(logits: &[f32], token: usize) -> Option<f64> {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|l| (f64::from(*l) - most).exp()).sum();
    Some(most + sum.ln() - f64::from(*logits.get(token)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_contract::{DecoderShape, Sampled};

    /// Foresees the number after the last, with a certainty of its own.
    struct Counter {
        shape: DecoderShape,
        steps: usize,
    }

    impl Decoder for Counter {
        fn shape(&self) -> &DecoderShape {
            &self.shape
        }
        fn memory(&self) -> u64 {
            0
        }
        fn step(&mut self, _: &[StepSequence], _: &mut Vec<Sampled>) -> Result<(), DecodeError> {
            Ok(())
        }
        fn logits(
            &mut self,
            step: &[StepSequence],
            logits: &mut Vec<f32>,
        ) -> Result<(), DecodeError> {
            self.shape.check(step)?;
            self.steps += 1;
            for token in &step[0].tokens {
                let mut row = vec![0.0; self.shape.vocabulary];
                row[(*token as usize + 1) % self.shape.vocabulary] = 3.0f32.ln();
                logits.extend(row);
            }
            Ok(())
        }
    }

    fn counter(context: usize) -> Counter {
        Counter {
            shape: DecoderShape {
                loras: 0,
                vocabulary: 4,
                context,
                blocks: 4,
                max_rows: 3,
                max_samples: 2,
            },
            steps: 0,
        }
    }

    #[test]
    fn what_is_foreseen_costs_little_and_what_is_not_costs_more() {
        // The right one of four has a weight of 3 among three of 1.
        let foreseen = -(3.0f64 / 6.0).ln();
        let missed = -(1.0f64 / 6.0).ln();
        let mut decoder = counter(64);
        let loss = held_out_loss(&mut decoder, &[0, 1, 2, 3, 0]).unwrap();
        assert_eq!(loss.tokens, 4);
        assert!((loss.nats - foreseen).abs() < 1e-6, "{loss:?}");
        assert_eq!(decoder.steps, 2, "two samples a step");
        let loss = held_out_loss(&mut decoder, &[0, 0, 1]).unwrap();
        assert!(
            (loss.nats - (missed + foreseen) / 2.0).abs() < 1e-6,
            "{loss:?}"
        );
    }

    #[test]
    fn a_text_longer_than_the_context_goes_in_windows_and_one_of_a_token_is_refused() {
        let mut decoder = counter(4);
        let text: Vec<u32> = (0..10).map(|n| n % 4).collect();
        // Windows of 4, 4 and 2 tokens, of which the first is given each time.
        assert_eq!(held_out_loss(&mut decoder, &text).unwrap().tokens, 7);
        assert!(held_out_loss(&mut decoder, &[1]).is_err());
        assert!(held_out_loss(&mut decoder, &[1, 9]).is_err());
    }
}
