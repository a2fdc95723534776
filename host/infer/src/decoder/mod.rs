//! The decoder port of this room: one step over a batch of rows.
//!
//! Both decoders, the GPU one and the float64 one, stand behind [`Decoder`]; the serving half knows only this trait.
//! A decoder does not know requests, sampling or text: it knows slots, positions and token ids.

mod gpu;
mod load_error;
mod options;
pub(crate) mod pack;
mod parts;
mod plan;
pub(crate) mod program;

use std::time::Duration;

pub use gpu::GpuDecoder;
pub use load_error::LoadError;
pub use options::{DecoderOptions, KernelFamily, MemoryReport};

/// One row of a step: one token of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// KV slot of the sequence, `0..shape.slots`.
    pub slot: u32,
    /// Token id, `0..shape.vocabulary`.
    pub token: u32,
    /// Position of the token in its sequence, `0..shape.context`. Everything before it must have been written by
    /// earlier rows or steps of the same slot.
    pub position: u32,
    /// Whether this row's logits are wanted.
    pub wants_logits: bool,
}

/// The fixed sizes of a loaded decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderShape {
    /// Token ids the model knows.
    pub vocabulary: usize,
    /// Positions per slot.
    pub context: usize,
    /// Sequences that can be in flight at once.
    pub slots: usize,
    /// Rows in one step.
    pub max_rows: usize,
}

/// A model that turns rows into logits, a step at a time.
pub trait Decoder: Send {
    /// The sizes a step must stay within.
    fn shape(&self) -> &DecoderShape;

    /// Runs one step over up to `max_rows` rows: decode rows and prefill chunks mixed; the rows of one slot are
    /// consecutive, with ascending positions.
    ///
    /// `logits` is cleared and filled with `[rows with wants_logits, vocabulary]` f32, in row order.
    ///
    /// # Errors
    /// A row outside the shape is refused before anything runs. After [`DecodeError::DeviceLost`],
    /// [`DecodeError::OutOfMemory`] or [`DecodeError::DeadlineExceeded`] the decoder is of no more use and must be loaded again.
    fn step(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), DecodeError>;

    /// How many dispatches the last step took; 0 for a decoder without a device.
    fn dispatches_last_step(&self) -> u32;
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// More rows than a step may hold.
    #[error("step of {rows} rows exceeds max_rows {limit}")]
    TooManyRows {
        /// Rows asked for.
        rows: usize,
        /// Rows a step may hold.
        limit: usize,
    },
    /// A slot that does not exist.
    #[error("row {row}: slot {slot} is not below the {limit} slots")]
    SlotOutOfRange {
        /// Index of the row in the step.
        row: usize,
        /// Slot asked for.
        slot: u32,
        /// Slots there are.
        limit: usize,
    },
    /// A token id the model does not know.
    #[error("row {row}: token {token} is not below the vocabulary of {limit}")]
    TokenOutOfRange {
        /// Index of the row in the step.
        row: usize,
        /// Token id asked for.
        token: u32,
        /// Token ids there are.
        limit: usize,
    },
    /// A position beyond the slot.
    #[error("row {row}: position {position} is not below the context of {limit} positions")]
    PositionOutOfRange {
        /// Index of the row in the step.
        row: usize,
        /// Position asked for.
        position: u32,
        /// Positions per slot.
        limit: usize,
    },
    /// The rows of one slot are apart, or their positions do not ascend by one.
    #[error(
        "row {row}: the rows of slot {slot} are not consecutive with positions that ascend by one"
    )]
    RowsOutOfOrder {
        /// Index of the row in the step.
        row: usize,
        /// Its slot.
        slot: u32,
    },
    /// The device was lost; load the model again.
    #[error("device lost: {reason}")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// The device has no more memory; load the model again, smaller.
    #[error("device out of memory: {reason}")]
    OutOfMemory {
        /// What the driver said.
        reason: String,
    },
    /// The device did not finish in time.
    #[error("device did not finish a step within {limit:?}")]
    DeadlineExceeded {
        /// The limit that ran out.
        limit: Duration,
    },
    /// The device refused the work: a bug of this crate or of the driver.
    #[error("device refused the step: {reason}")]
    Device {
        /// What wgpu said.
        reason: String,
    },
}

/// Checks a step's rows against a decoder's shape.
pub(crate) fn check_rows(rows: &[StepRow], shape: &DecoderShape) -> Result<(), DecodeError> {
    if rows.len() > shape.max_rows {
        return Err(DecodeError::TooManyRows {
            rows: rows.len(),
            limit: shape.max_rows,
        });
    }
    let mut seen = vec![false; shape.slots];
    let mut previous: Option<&StepRow> = None;
    for (row, step) in rows.iter().enumerate() {
        let slot = step.slot as usize;
        let Some(slot_seen) = seen.get_mut(slot) else {
            return Err(DecodeError::SlotOutOfRange {
                row,
                slot: step.slot,
                limit: shape.slots,
            });
        };
        if step.token as usize >= shape.vocabulary {
            return Err(DecodeError::TokenOutOfRange {
                row,
                token: step.token,
                limit: shape.vocabulary,
            });
        }
        if step.position as usize >= shape.context {
            return Err(DecodeError::PositionOutOfRange {
                row,
                position: step.position,
                limit: shape.context,
            });
        }
        let follows =
            previous.is_some_and(|p| p.slot == step.slot && p.position + 1 == step.position);
        if *slot_seen && !follows {
            return Err(DecodeError::RowsOutOfOrder {
                row,
                slot: step.slot,
            });
        }
        *slot_seen = true;
        previous = Some(step);
    }
    Ok(())
}
