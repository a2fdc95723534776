//! Records, batches and outcomes, and the packed arena that carries them.
//!
//! A batch *is* its wire form: one contiguous arena that lies in the host's memory, is copied into an operator's
//! memory in one piece, and is written to disk as it is. The byte layout is the contract; it is described in
//! [`layout`] and, for operator authors, in `wit/README.md`. What an operator is given is an [`Excerpt`] of it, in the
//! layout of the contract that the operator was built for.
//!
//! This crate knows nothing of where bytes come from or go to: no IO, no async, no clock, no dependency. It is shared
//! by the host and, compiled to WebAssembly, by the Rust SDK.
//!
//! Invariants:
//! - a [`Batch`] or [`BatchView`] that exists has been checked once; its accessors cannot go out of bounds;
//! - an [`OutcomesView`] that exists has exactly one outcome for every record of the batch it answers;
//! - what an operator is given ([`Excerpt`]) has no note of the host's, nor a sign of one, and no answer can make one;
//! - [`PublicRecord`] has no way to reach private attributes, so a sink cannot leak them.

mod batch;
mod builder;
mod excerpt;
pub mod layout;
mod outcome;
mod pairs;
mod patch;
mod reader;
mod sample;
pub mod version1;

pub use batch::{Batch, BatchError, BatchView, Origin, PublicRecord, RecordId, RecordView};
pub use builder::{ArenaFull, BatchBuilder, NewRecord, RecordRefused, child_emit};
pub use excerpt::{Excerpt, Layout};
pub use layout::Fields;
pub use outcome::{Emission, Outcome, OutcomesBuilder, OutcomesError, OutcomesView};
pub use pairs::{MAX_NAME, MAX_PAIRS, Pair, Pairs, write_pair};
pub use patch::{Change, Patch, PatchBuilder};
pub use reader::Malformed;
pub use sample::{MAX_LABEL, MAX_SAMPLES, Sample};
