//! Records, batches and outcomes, and the packed arena that carries them.
//!
//! A batch *is* its wire form: one contiguous arena that lies in the host's memory, is copied into an operator's
//! memory in one piece, and is written to disk as it is. The byte layout is the contract; it is described in
//! [`layout`] and, for operator authors, in `wit/tidegate.wit`.
//!
//! This crate knows nothing of where bytes come from or go to: no IO, no async, no clock, no dependency. It is shared
//! by the host and, compiled to WebAssembly, by the Rust SDK.
//!
//! Invariants:
//! - a [`Batch`] or [`BatchView`] that exists has been checked once; its accessors cannot go out of bounds;
//! - an [`OutcomesView`] that exists has exactly one outcome for every record of the batch it answers;
//! - [`PublicRecord`] has no way to reach private attributes, so a sink cannot leak them.

mod batch;
mod builder;
pub mod layout;
mod outcome;
mod pairs;
mod patch;

pub use batch::{Batch, BatchError, BatchView, PublicRecord, RecordId, RecordView};
pub use builder::{ArenaFull, BatchBuilder, NewRecord, SplitTooDeep, child_emit};
pub use layout::Fields;
pub use outcome::{Emission, Outcome, OutcomesBuilder, OutcomesError, OutcomesView};
pub use pairs::{Pair, Pairs, write_pair};
pub use patch::{Change, Patch, PatchBuilder};
