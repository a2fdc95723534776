//! Beginnings of prompts that stay in KV blocks: computed when their model is loaded, and held until it goes.
//!
//! What is pinned is in the same blocks whenever a decoder of the same shape is loaded: blocks are given out in one order,
//! and pins take theirs first. So the loader, which has the decoder, writes them, and the scheduler takes them over without
//! another word.

use tidegate_contract::{BLOCK, DecodeError, Decoder, DecoderShape, Sampling, StepSequence};

use crate::blocks::{Blocks, Table, blocks_for};
use crate::error::LoadError;
use crate::generator::context_of;
use crate::guard::guarded_step;

/// What the prompts of a stage begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Whose prompts they are.
    pub stage: String,
    /// The low-rank adapter that they go through, counted from 1; 0 for none.
    pub lora: u32,
    /// What they have in common. As many whole blocks of [`BLOCK`] tokens as this fills are pinned.
    pub tokens: Vec<u32>,
}

impl Pin {
    /// The tokens that are pinned, of a model of so many positions.
    fn whole(&self, context: usize) -> &[u32] {
        let blocks = self.tokens.len().min(context) / BLOCK;
        &self.tokens[..blocks * BLOCK]
    }
}

/// KV blocks that these take together; those that begin alike, through the same adapter, share what is alike.
#[must_use]
pub fn pinned_blocks(pins: &[Pin]) -> usize {
    let beginnings = pins.iter().flat_map(|pin| {
        let blocks = pin.tokens.len() / BLOCK;
        (1..=blocks).map(|end| (pin.lora, &pin.tokens[..end * BLOCK]))
    });
    beginnings.collect::<std::collections::HashSet<_>>().len()
}

/// How many of so many KV blocks may be pinned: half, and none that a sequence of the whole `context` needs.
#[must_use]
pub fn most_pinned(blocks: usize, context: usize) -> usize {
    let sequence = blocks_for(context).min(blocks);
    (blocks / 2).min(blocks - sequence)
}

/// What is pinned of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(Vec<Pin>);

impl Pins {
    /// # Errors
    /// They take more blocks of a decoder of this shape than may be pinned.
    pub(crate) fn new(name: &str, pins: Vec<Pin>, shape: &DecoderShape) -> Result<Pins, LoadError> {
        let context = context_of(shape);
        let mut pins = pins;
        for pin in &mut pins {
            pin.tokens = pin.whole(context).to_vec();
        }
        pins.retain(|pin| !pin.tokens.is_empty());
        if let Some(pin) = pins.iter().find(|pin| pin.lora as usize > shape.loras) {
            return Err(LoadError::PinnedThrough {
                name: name.into(),
                stage: pin.stage.clone(),
                lora: pin.lora,
                loras: shape.loras,
            });
        }
        let (pinned, most) = (pinned_blocks(&pins), most_pinned(shape.blocks, context));
        if pinned > most {
            let stages: Vec<&str> = pins.iter().map(|pin| pin.stage.as_str()).collect();
            return Err(LoadError::Pinned {
                name: name.into(),
                stages: stages.join(", "),
                pinned,
                blocks: shape.blocks,
                most,
            });
        }
        Ok(Pins(pins))
    }

    /// Takes their blocks out of those of a decoder that nothing else was taken of: the table of each, and how many of its
    /// tokens stand in the blocks of those before.
    fn laid_out(&self, blocks: &mut Blocks) -> Vec<(Table, usize)> {
        let laid_out = self.0.iter().map(|pin| blocks.pin(pin.lora, &pin.tokens));
        laid_out.collect()
    }

    /// Takes their blocks, which were written: see [`Pins::write`].
    pub(crate) fn take(&self, blocks: &mut Blocks) -> Vec<Table> {
        let laid_out = self.laid_out(blocks).into_iter();
        laid_out.map(|(table, _)| table).collect()
    }

    /// Computes them on a decoder that has just been loaded.
    ///
    /// # Errors
    /// A step of it fails, or makes numbers that are none.
    pub(crate) fn write(&self, name: &str, decoder: &mut dyn Decoder) -> Result<(), LoadError> {
        let shape = decoder.shape().clone();
        let laid_out = self.laid_out(&mut Blocks::new(shape.blocks));
        for (pin, (table, from)) in self.0.iter().zip(&laid_out) {
            let failed = |error| LoadError::PinFailed {
                name: name.into(),
                stage: pin.stage.clone(),
                error,
            };
            write_pin(decoder, pin, table, *from, shape.max_rows).map_err(failed)?;
            let (tokens, found) = (pin.tokens.len(), *from);
            tracing::info!(
                model = name,
                stage = pin.stage,
                tokens,
                found,
                "prefix pinned"
            );
        }
        Ok(())
    }
}

fn write_pin(
    decoder: &mut dyn Decoder,
    pin: &Pin,
    table: &Table,
    from: usize,
    rows: usize,
) -> Result<(), DecodeError> {
    let mut sampled = Vec::new();
    let mut position = from;
    for tokens in pin.tokens[from..].chunks(rows.max(1)) {
        let step = [StepSequence {
            lora: pin.lora,
            position: position as u32,
            tokens: tokens.to_vec(),
            blocks: table.blocks()[..blocks_for(position + tokens.len())].to_vec(),
            // What is drawn says whether what was written are numbers.
            samples: vec![Sampling::default()],
        }];
        guarded_step(decoder, &step, &mut sampled)?;
        position += tokens.len();
        if sampled.first().and_then(|sampled| sampled.token).is_none() {
            let reason = format!("no logit behind its token {} is a number", position - 1);
            return Err(DecodeError::Device { reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(lora: u32, tokens: impl IntoIterator<Item = u32>) -> Pin {
        Pin {
            stage: "answer".into(),
            lora,
            tokens: tokens.into_iter().collect(),
        }
    }

    #[test]
    fn what_is_alike_is_counted_once_and_what_is_no_whole_block_not_at_all() {
        let count = |pins: &[Pin]| pinned_blocks(pins);
        assert_eq!(count(&[pin(0, 0..47)]), 2);
        assert_eq!(count(&[pin(0, 0..47), pin(0, 0..64)]), 4);
        assert_eq!(count(&[pin(0, 0..48), pin(0, (0..32).chain(90..106))]), 4);
        assert_eq!(count(&[pin(0, 0..48), pin(1, 0..48)]), 6);
        assert_eq!(count(&[pin(0, 0..15)]), 0);
        // The same block behind another is another.
        assert_eq!(count(&[pin(0, 16..48), pin(0, (0..16).chain(32..48))]), 4);
    }

    #[test]
    fn half_may_be_pinned_and_a_sequence_has_room() {
        assert_eq!(most_pinned(100, 160), 50);
        assert_eq!(most_pinned(10, 128), 2);
        assert_eq!(most_pinned(10, 160), 0);
        assert_eq!(most_pinned(10, 1600), 0);
    }

    #[test]
    fn those_that_begin_alike_share_blocks_and_each_is_written_once() {
        let shape = crate::tests::support::shape(4, 64, 64);
        let pins = vec![pin(0, 0..40), pin(0, 0..32), pin(0, (0..16).chain(90..106))];
        let pins = Pins::new("m", pins, &shape).unwrap();
        let mut blocks = Blocks::new(shape.blocks);
        let laid_out = pins.laid_out(&mut blocks);
        let from: Vec<usize> = laid_out.iter().map(|(_, from)| *from).collect();
        assert_eq!(from, [0, 32, 16]);
        assert_eq!((blocks.held(), blocks.pinned()), (3, 3));
        assert_eq!(laid_out[0].0.blocks(), laid_out[1].0.blocks());
        assert_eq!(laid_out[0].0.blocks()[0], laid_out[2].0.blocks()[0]);
        let again = pins.laid_out(&mut Blocks::new(shape.blocks));
        let numbers = |laid_out: &[(Table, usize)]| -> Vec<Vec<u32>> {
            laid_out
                .iter()
                .map(|(table, _)| table.blocks().to_vec())
                .collect()
        };
        assert_eq!(numbers(&again), numbers(&laid_out));
    }
}
